"""Which states to prefill, and which suffixes to read in which forward pass. Pure: no torch.

    groups -> states (equal prefixes are one) -> steps

A step holds some states and reads all their suffixes:

    prefill forward(s): the step's missing states, packed, cut by the token budget
    read forward(s):    the step's suffixes, packed, cut by the token budget

The budget bounds the tokens of a forward and of the states that a step holds; one state or one
suffix that is longer than the budget goes alone.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from engine.errors import ContextTooLong, InvalidGroup
from engine.types import Group, Suffix

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """What a store keeps: tokens, where they are split, and who may share them."""

    #: All tokens from the first on.
    token_ids: tuple[int, ...]
    #: How many of them belong to the preamble.
    shared_tokens: int
    #: Whom it is shared with.
    salt: str

    @property
    def own_ids(self) -> tuple[int, ...]:
        """The tokens after the preamble."""
        return self.token_ids[self.shared_tokens :]

    @property
    def preamble(self) -> "Prefix | None":
        """What it follows, if anything."""
        if not self.shared_tokens:
            return None
        shared = self.token_ids[: self.shared_tokens]
        return Prefix(token_ids=shared, shared_tokens=0, salt=self.salt)


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One suffix of one group."""

    #: Index of the group in the call.
    group: int
    #: Index of the suffix in the group.
    index: int
    #: What is read after it.
    suffix: Suffix
    #: The state it asks about.
    prefix: Prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One distinct prefix and everything that is asked about it."""

    #: The prefix.
    prefix: Prefix
    #: Groups of the call that have it, in order.
    groups: tuple[int, ...]
    #: Their suffixes, in order.
    reads: tuple[Read, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """States that are held together, and the forwards that read their suffixes."""

    #: What to hold.
    states: tuple[State, ...]
    #: The suffixes, cut by the budget; together all reads of `states`.
    passes: tuple[tuple[Read, ...], ...]


def check(groups: Sequence[Group], *, context_tokens: int, vocabulary: int) -> None:
    """Refuse what cannot be read, before any work.

    Raises InvalidGroup for an empty prefix, suffix or label list, a preamble that is not a part of its
    prefix and a token that the model has not, ContextTooLong for a long prompt.
    """
    for number, group in enumerate(groups):
        if not group.prefix_ids:
            raise InvalidGroup(f"Group {number} has an empty prefix.")
        if not 0 <= group.shared_tokens < len(group.prefix_ids):
            raise InvalidGroup(f"Group {number} shares {group.shared_tokens} tokens, not a part.")
        if not _known(group.prefix_ids, vocabulary):
            raise InvalidGroup(f"Group {number} has a prefix of tokens that the model has not.")
        for suffix in group.suffixes:
            if not suffix.token_ids or not suffix.label_ids:
                raise InvalidGroup(f"Group {number} has a suffix without tokens or labels.")
            if not (_known(suffix.token_ids, vocabulary) and _known(suffix.label_ids, vocabulary)):
                raise InvalidGroup(f"Group {number} asks with tokens that the model has not.")
            tokens = len(group.prefix_ids) + len(suffix.token_ids)
            if tokens > context_tokens:
                raise ContextTooLong(group=number, tokens=tokens, limit=context_tokens)


def _known(token_ids: tuple[int, ...], vocabulary: int) -> bool:
    return min(token_ids) >= 0 and max(token_ids) < vocabulary


def plan(groups: Sequence[Group], budget: int) -> tuple[Step, ...]:
    """The steps that read every suffix of `groups` once."""
    states = distinct(groups)
    return tuple(
        Step(states=held, passes=cut(_reads(held), budget, lambda r: len(r.suffix.token_ids)))
        for held in cut(states, budget, lambda s: len(s.prefix.own_ids))
    )


def distinct(groups: Sequence[Group]) -> tuple[State, ...]:
    """Equal prefixes joined, in order of first appearance; groups without suffixes are dropped."""
    members: dict[Prefix, list[int]] = {}
    for number, group in enumerate(groups):
        if group.suffixes:
            members.setdefault(_prefix(group), []).append(number)
    return tuple(_state(prefix, numbers, groups) for prefix, numbers in members.items())


def _prefix(group: Group) -> Prefix:
    return Prefix(token_ids=group.prefix_ids, shared_tokens=group.shared_tokens, salt=group.salt)


def _state(prefix: Prefix, numbers: list[int], groups: Sequence[Group]) -> State:
    reads = tuple(
        Read(group=number, index=index, suffix=suffix, prefix=prefix)
        for number in numbers
        for index, suffix in enumerate(groups[number].suffixes)
    )
    return State(prefix=prefix, groups=tuple(numbers), reads=reads)


def _reads(states: Iterable[State]) -> tuple[Read, ...]:
    return tuple(read for state in states for read in state.reads)


def cut(items: Sequence[T], budget: int, size: Callable[[T], int]) -> tuple[tuple[T, ...], ...]:
    """`items` in order, cut into runs whose sizes sum to at most `budget`, or hold one item."""
    runs: list[list[T]] = []
    room = 0
    for item in items:
        if not runs or size(item) > room:
            runs.append([])
            room = budget
        runs[-1].append(item)
        room -= size(item)
    return tuple(tuple(run) for run in runs)
