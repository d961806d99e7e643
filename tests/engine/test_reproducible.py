"""A read's bits depend on its prompt alone: not on its neighbours, the cache, the order or threads."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from engine.engine import Engine
from engine.types import Group, LabelScores

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
PACKINGS = 200


@pytest.fixture
def set_threads() -> Iterator[Callable[[int], None]]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def singles(groups: list[Group]) -> list[Group]:
    """Each question as a group of its own."""
    return [
        Group(prefix_ids=group.prefix_ids, suffixes=(suffix,))
        for group in groups
        for suffix in group.suffixes
    ]


def one_by_one(engine: Engine, groups: list[Group]) -> list[LabelScores]:
    return [engine.read([group])[0].scores[0] for group in groups]


@pytest.mark.parametrize("dtype", DTYPES)
def test_random_packings_give_the_same_bits(
    tiny: Any, dtype: str, set_threads: Callable[[int], None]
) -> None:
    groups = singles(tiny.groups(seed=11, count=6))
    alone = one_by_one(tiny.engine(tiny.build("gemma3", DTYPES[dtype])), groups)
    draw = random.Random(5)  # noqa: S311 - test data
    for packing in range(PACKINGS):
        if packing % 20 == 0:
            engine = tiny.engine(
                tiny.build("gemma3", DTYPES[dtype]),
                max_tokens_per_pass=draw.choice([64, 300, 2000]),
                prefix_store_bytes=draw.choice([0, 60_000, 10_000_000]),
            )
            assert engine.info.reproducible
        set_threads(draw.choice([1, 2]))
        chosen = draw.sample(range(len(groups)), draw.randint(1, 5))
        scores = engine.read([groups[number] for number in chosen])
        for number, group in zip(chosen, scores, strict=True):
            assert group.scores[0] == alone[number]
        engine.check_integrity()


def test_questions_of_one_group_give_the_bits_of_groups_of_their_own(tiny: Any) -> None:
    groups = tiny.groups(seed=12)
    engine = tiny.engine(tiny.build("qwen3"))
    together = [score for group in engine.read(groups) for score in group.scores]
    assert together == one_by_one(tiny.engine(tiny.build("qwen3")), singles(groups))


def test_a_model_with_other_products_is_not_called_reproducible(tiny: Any) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_embd=16, n_layer=1, n_head=2))
    assert not tiny.engine(model).info.reproducible


def test_reproducibility_can_be_given_up_by_name(tiny: Any) -> None:
    engine = tiny.engine(tiny.build("llama"), reproducible=False)
    assert not engine.info.reproducible
    assert len(engine.read(tiny.groups(seed=1))) == 5
