"""The engine against the plain way: each whole prompt alone, stock attention, full softmax."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from engine.engine import Engine
from engine.errors import ContextTooLong, InvalidGroup
from engine.types import Group, LabelScores, Suffix

ARCHITECTURES = ["llama", "qwen3", "gemma3", "gemma2"]


def worst_difference(ours: list[list[LabelScores]], plain: list[list[LabelScores]]) -> float:
    """The largest difference of a label's probability; every argmax must be the same."""
    worst = 0.0
    for our_group, plain_group in zip(ours, plain, strict=True):
        for our, truth in zip(our_group, plain_group, strict=True):
            assert our.argmax_id == truth.argmax_id
            for a, b in zip(our.log_probs, truth.log_probs, strict=True):
                worst = max(worst, abs(math.exp(a) - math.exp(b)))
    return worst


def read(engine: Engine, groups: list[Group]) -> list[list[LabelScores]]:
    result = [list(group.scores) for group in engine.read(groups)]
    engine.check_integrity()
    return result


def suffix(*token_ids: int) -> Suffix:
    return Suffix(token_ids=token_ids, label_ids=(1, 2))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("budget", [1, 200, 4096])
def test_packed_reads_equal_each_whole_prompt_alone(
    tiny: Any, architecture: str, budget: int
) -> None:
    groups = tiny.groups(seed=budget)
    plain = tiny.plain(tiny.build(architecture), groups)
    engine = tiny.engine(tiny.build(architecture), max_tokens_per_pass=budget)
    assert worst_difference(read(engine, groups), plain) < 1e-5
    assert worst_difference(read(engine, groups), plain) < 1e-5


def test_a_block_of_rows_is_cut_for_a_long_state_without_changing_the_answer(
    tiny: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = tiny.groups(seed=3)
    plain = tiny.plain(tiny.build("llama"), groups)
    monkeypatch.setattr("engine.torch_attention.BLOCK_BYTES", 20_000)
    assert worst_difference(read(tiny.engine(tiny.build("llama")), groups), plain) < 1e-5


def test_bfloat16_stays_near_float32(tiny: Any) -> None:
    groups = tiny.groups(seed=4)
    exact = read(tiny.engine(tiny.build("qwen3")), groups)
    engine = tiny.engine(tiny.build("qwen3", torch.bfloat16))
    assert engine.info.dtype == "bfloat16"
    for exact_group, group in zip(exact, read(engine, groups), strict=True):
        for truth, score in zip(exact_group, group, strict=True):
            assert score.log_probs == pytest.approx(truth.log_probs, abs=0.5)


def test_equal_prefixes_are_prefilled_once_and_then_found(tiny: Any) -> None:
    engine = tiny.engine(tiny.build("llama"))
    one = Group(prefix_ids=(5, 6, 7), suffixes=(suffix(8), suffix(9, 10)))
    two = Group(prefix_ids=(5, 6, 7), suffixes=(suffix(11),))
    other = Group(prefix_ids=(5, 6), suffixes=(suffix(8),))
    first = engine.read([one, other, two])
    assert [g.prefilled_tokens for g in first] == [3, 2, 0]
    assert [g.cached_tokens for g in first] == [0, 0, 3]
    assert [g.suffix_tokens for g in first] == [3, 1, 1]
    again = engine.read([two])
    assert (again[0].prefilled_tokens, again[0].cached_tokens) == (0, 3)
    assert again[0].scores == first[2].scores
    stats = engine.stats
    assert (stats.prefills, stats.prefilled_tokens, stats.reads) == (2, 5, 5)
    assert (stats.prefix_misses, stats.prefix_hits, stats.tokens_saved) == (2, 2, 6)
    assert stats.stored_prefixes == 2


def test_a_store_of_no_bytes_still_prefills_each_state_of_a_call_once(tiny: Any) -> None:
    engine = tiny.engine(tiny.build("llama"), prefix_store_bytes=0, max_tokens_per_pass=4)
    group = Group(prefix_ids=(5, 6, 7), suffixes=tuple(suffix(n, n, n) for n in range(9)))
    engine.read([group])
    engine.check_integrity()
    assert engine.stats.prefills == 1
    assert (engine.stats.stored_prefixes, engine.stats.stored_bytes) == (0, 0)


def test_a_prompt_beyond_the_context_is_refused_before_any_work(tiny: Any) -> None:
    engine = tiny.engine(tiny.build("llama"))
    fits = Group(prefix_ids=(1,) * 500, suffixes=(suffix(*[2] * 12),))
    long = Group(prefix_ids=(1,) * 500, suffixes=(suffix(*[2] * 13),))
    with pytest.raises(ContextTooLong) as raised:
        engine.read([fits, long])
    assert (raised.value.group, raised.value.tokens, raised.value.limit) == (1, 513, 512)
    assert engine.stats.prefills == 0
    assert len(engine.read([fits])[0].scores) == 1


@pytest.mark.parametrize(
    "group",
    [
        Group(prefix_ids=(), suffixes=(suffix(1),)),
        Group(prefix_ids=(1,), suffixes=(suffix(),)),
        Group(prefix_ids=(1,), suffixes=(Suffix(token_ids=(1,), label_ids=()),)),
        Group(prefix_ids=(515,), suffixes=(suffix(1),)),
        Group(prefix_ids=(1,), suffixes=(suffix(-1),)),
        Group(prefix_ids=(1,), suffixes=(Suffix(token_ids=(1,), label_ids=(2, 515)),)),
    ],
)
def test_an_empty_part_or_a_token_that_the_model_has_not_is_refused(
    tiny: Any, group: Group
) -> None:
    with pytest.raises(InvalidGroup):
        tiny.engine(tiny.build("llama")).read([group])


def test_a_group_without_questions_costs_nothing(tiny: Any) -> None:
    engine = tiny.engine(tiny.build("llama"))
    assert engine.read([Group(prefix_ids=(1, 2), suffixes=())])[0].scores == ()
    assert engine.read([]) == []
    assert engine.stats.prefills == 0


def test_a_broken_model_gives_non_finite_scores_and_does_not_raise(tiny: Any) -> None:
    model = tiny.build("llama")
    engine = tiny.engine(model)
    with torch.no_grad():
        model.model.norm.weight.fill_(torch.nan)
    score = engine.read([Group(prefix_ids=(1,), suffixes=(suffix(2),))])[0].scores[0]
    assert all(math.isnan(value) for value in score.log_probs)


def test_the_engine_says_what_it_is(tiny: Any) -> None:
    info = tiny.engine(tiny.build("llama")).info
    assert (info.model, info.revision, info.dtype) == ("tiny", "r1", "float32")
    assert (info.kv_format, info.context_tokens) == ("native", 512)
    assert info.device.startswith("cpu")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_shared_preamble_changes_no_answer_and_is_prefilled_once(
    tiny: Any, architecture: str
) -> None:
    groups = tiny.groups(seed=31)
    preamble = tuple(range(100, 140))
    shared = [
        replace(group, prefix_ids=preamble + group.prefix_ids, shared_tokens=40) for group in groups
    ]
    plain = tiny.plain(tiny.build(architecture), shared)
    engine = tiny.engine(tiny.build(architecture), max_tokens_per_pass=200)
    assert worst_difference(read(engine, shared), plain) < 1e-5
    assert (engine.stats.prefills, engine.stats.preamble_prefills) == (len(groups), 1)
    own = sum(len(group.prefix_ids) for group in groups)
    assert engine.stats.prefilled_tokens == 40 + own
    assert [g.cached_tokens for g in engine.read(shared[:1])] == [40 + len(groups[0].prefix_ids)]


def test_tenants_that_do_not_share_prefill_for_themselves(tiny: Any) -> None:
    engine = tiny.engine(tiny.build("llama"))
    group = Group(prefix_ids=(5, 6, 7), suffixes=(suffix(8),), shared_tokens=1)
    first, second = engine.read([replace(group, salt="a"), replace(group, salt="b")])
    assert (first.prefilled_tokens, second.prefilled_tokens) == (2, 2)
    assert first.scores == second.scores
    assert engine.stats.preamble_prefills == 2
    assert engine.read([replace(group, salt="a")])[0].prefilled_tokens == 0
    assert engine.read([group])[0].prefilled_tokens == 2


@pytest.mark.parametrize("shared", [-1, 3])
def test_a_preamble_that_is_not_a_part_of_its_prefix_is_refused(tiny: Any, shared: int) -> None:
    group = Group(prefix_ids=(5, 6, 7), suffixes=(suffix(8),), shared_tokens=shared)
    with pytest.raises(InvalidGroup, match="shares"):
        tiny.engine(tiny.build("llama")).read([group])
