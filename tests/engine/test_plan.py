"""The plan reads every suffix once, holds its state while it does, and keeps to the budget."""

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from engine.plan import Step, cut, distinct, plan
from engine.types import Group, Suffix

tokens = st.lists(st.integers(0, 2), min_size=1, max_size=6).map(tuple)
suffixes = st.builds(Suffix, token_ids=tokens, label_ids=tokens)
groups = st.lists(
    st.builds(Group, prefix_ids=tokens, suffixes=st.lists(suffixes, max_size=4).map(tuple)),
    max_size=12,
)


def prefix_tokens(step: Step) -> int:
    return sum(len(state.prefix.own_ids) for state in step.states)


@given(groups, st.integers(1, 20))
def test_every_suffix_is_read_once_in_a_step_that_holds_its_state(
    call: list[Group], budget: int
) -> None:
    places: Counter[tuple[int, int]] = Counter()
    for step in plan(call, budget):
        held = {state.prefix for state in step.states}
        for reads in step.passes:
            for read in reads:
                places[read.group, read.index] += 1
                assert read.prefix.token_ids == call[read.group].prefix_ids
                assert read.prefix in held
                assert read.suffix == call[read.group].suffixes[read.index]
    expected = [(g, s) for g, group in enumerate(call) for s in range(len(group.suffixes))]
    assert places == Counter(expected)


@given(groups, st.integers(1, 20))
def test_no_state_is_in_two_steps_and_no_step_or_pass_exceeds_the_budget(
    call: list[Group], budget: int
) -> None:
    steps = plan(call, budget)
    prefixes = [state.prefix for step in steps for state in step.states]
    assert len(prefixes) == len(set(prefixes))
    for step in steps:
        assert prefix_tokens(step) <= budget or len(step.states) == 1
        for reads in step.passes:
            size = sum(len(read.suffix.token_ids) for read in reads)
            assert size <= budget or len(reads) == 1


@given(st.lists(st.integers(1, 9)), st.integers(1, 20))
def test_a_cut_keeps_order_and_starts_a_run_only_when_it_must(
    sizes: list[int], budget: int
) -> None:
    runs = cut(sizes, budget, lambda size: size)
    assert [size for run in runs for size in run] == sizes
    for run, following in pairwise(runs):
        assert sum(run) + following[0] > budget


def test_equal_prefixes_are_one_state_in_order_of_appearance() -> None:
    asked = (Suffix(token_ids=(9,), label_ids=(1,)),)
    call = [Group(prefix_ids=ids, suffixes=asked) for ids in ((2,), (1,), (2,))]
    call.append(Group(prefix_ids=(3,), suffixes=()))
    assert [state.prefix.token_ids for state in distinct(call)] == [(2,), (1,)]
    assert [state.groups for state in distinct(call)] == [(0, 2), (1,)]


def test_groups_of_other_salts_or_preambles_share_no_state() -> None:
    asked = (Suffix(token_ids=(9,), label_ids=(1,)),)
    call = [
        Group(prefix_ids=(1, 2), suffixes=asked, salt=salt, shared_tokens=shared)
        for salt, shared in (("", 0), ("a", 0), ("", 1), ("a", 0))
    ]
    states = distinct(call)
    assert [state.groups for state in states] == [(0,), (1, 3), (2,)]
    assert states[0].prefix.preamble is None
    assert states[2].prefix.own_ids == (2,)
    preamble = states[2].prefix.preamble
    assert preamble is not None
    assert (preamble.token_ids, preamble.salt) == ((1,), "")
