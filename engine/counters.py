"""Counts what an engine does. Plain integers that only grow."""

from collections.abc import Sequence
from dataclasses import replace

from engine.plan import Read, State
from engine.prefixes import PrefixStore
from engine.types import EngineStats


class Counters:
    """Owned by one engine."""

    def __init__(self) -> None:
        self._stats = EngineStats()

    def preamble(self, tokens: int) -> None:
        """A preamble was prefilled."""
        now = self._stats
        self._stats = replace(
            now,
            preamble_prefills=now.preamble_prefills + 1,
            prefilled_tokens=now.prefilled_tokens + tokens,
        )

    def look_up(self, state: State, *, hit: bool) -> None:
        """A state was looked up in the store; a miss means that it is prefilled once."""
        now, tokens = self._stats, len(state.prefix.own_ids)
        misses = 0 if hit else 1
        hits = len(state.groups) - misses
        self._stats = replace(
            now,
            prefills=now.prefills + misses,
            prefilled_tokens=now.prefilled_tokens + misses * tokens,
            prefix_hits=now.prefix_hits + hits,
            prefix_misses=now.prefix_misses + misses,
            tokens_saved=now.tokens_saved + hits * len(state.prefix.token_ids),
        )

    def read(self, reads: Sequence[Read]) -> None:
        """A pass of suffixes was read."""
        tokens = sum(len(read.suffix.token_ids) for read in reads)
        self._stats = replace(
            self._stats,
            reads=self._stats.reads + len(reads),
            suffix_tokens=self._stats.suffix_tokens + tokens,
        )

    def snapshot(self, store: PrefixStore) -> EngineStats:
        """The counters with the store's own."""
        return replace(
            self._stats,
            evictions=store.evictions,
            stored_prefixes=len(store),
            stored_bytes=store.nbytes,
        )
