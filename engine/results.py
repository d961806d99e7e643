"""Puts the reads of passes back where the caller's groups want them. Pure: no torch."""

from collections.abc import Sequence

from engine.plan import Read, State
from engine.types import Group, GroupScores, LabelScores


class Results:
    """The scores of one call, filled pass by pass."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self._groups = groups
        self._scores: list[dict[int, LabelScores]] = [{} for _ in groups]
        self._prefilled = [0] * len(groups)
        self._cached = [0] * len(groups)

    def look_up(self, state: State, *, hit: bool) -> None:
        """A state's first group pays for the prefill of a miss; the others find it stored.

        Nobody pays for a preamble: it is everybody's.
        """
        for place, group in enumerate(state.groups):
            paid = len(state.prefix.own_ids) if place == 0 and not hit else 0
            self._prefilled[group] = paid
            self._cached[group] = len(state.prefix.token_ids) - paid

    def put(self, reads: Sequence[Read], scores: Sequence[LabelScores]) -> None:
        """The scores of one pass, aligned with its reads."""
        for read, score in zip(reads, scores, strict=True):
            self._scores[read.group][read.index] = score

    def scores(self) -> list[GroupScores]:
        """Aligned with the groups; every suffix has been put."""
        return [self._group(number) for number in range(len(self._groups))]

    def _group(self, number: int) -> GroupScores:
        suffixes = self._groups[number].suffixes
        return GroupScores(
            scores=tuple(self._scores[number][index] for index in range(len(suffixes))),
            prefilled_tokens=self._prefilled[number],
            cached_tokens=self._cached[number],
            suffix_tokens=sum(len(suffix.token_ids) for suffix in suffixes),
        )
