"""The store of prefilled prefixes: held while in use, least recently used out first, in pages.

A prefix may follow another one (a state follows the preamble that many states share); the longer one
keeps the shorter one stored. A prefix that finds no room is kept loose until it is released. The store
belongs to one engine, so model revision and KV format are the same for all that it holds.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Optional

from engine.arena import Arena, PagedLayer
from engine.kv import LooseLayer, PackedLayer
from engine.pages import pages_of
from engine.plan import Prefix


class StoredPrefix:
    """The keys and values of the own tokens of one prefix. Held by readers and longer prefixes."""

    __slots__ = ("holders", "layers", "parent", "prefix")

    def __init__(
        self, prefix: Prefix, layers: Sequence[PackedLayer], parent: Optional["StoredPrefix"]
    ) -> None:
        #: Its tokens and whom it may be shared with.
        self.prefix = prefix
        #: One per layer of the model. A layer with a sliding window keeps only its last tokens.
        self.layers = list(layers)
        #: What it follows.
        self.parent = parent
        #: Who relies on it now; it is not dropped before they release it.
        self.holders = 0

    @property
    def chain(self) -> list["StoredPrefix"]:
        """It and what it follows, from the first token on."""
        return [self] if self.parent is None else [*self.parent.chain, self]

    @property
    def end(self) -> int:
        """Tokens up to its end, those of its parent included."""
        return len(self.prefix.token_ids)


class PrefixStore:
    """Not thread-safe: one engine, one thread."""

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity = capacity_bytes
        self._arena: Arena | None = None
        self._stored: OrderedDict[Prefix, StoredPrefix] = OrderedDict()
        #: Prefixes dropped so far.
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._stored)

    def __contains__(self, prefix: Prefix) -> bool:
        return prefix in self._stored

    @property
    def nbytes(self) -> int:
        """Bytes of the pages in use."""
        if self._arena is None:
            return 0
        return (self._arena.pool.count - self._arena.pool.free) * self._arena.page_bytes

    def hold(self, prefix: Prefix) -> StoredPrefix | None:
        """The prefix if it is stored, held for the caller, who must release it."""
        found = self._stored.get(prefix)
        if found is not None:
            for stored in found.chain:
                self._stored.move_to_end(stored.prefix)
            found.holders += 1
        return found

    def add(self, new: StoredPrefix) -> None:
        """Take over a new prefix with loose layers, held for the caller, who must release it."""
        assert new.prefix not in self._stored
        new.holders += 1
        if new.parent is not None:
            new.parent.holders += 1
        layers = [layer for layer in new.layers if isinstance(layer, LooseLayer)]
        parent_stays = new.parent is None or new.parent.prefix in self._stored
        if parent_stays and self._make_room(layers):
            assert self._arena is not None
            new.layers = [self._arena.store(layer) for layer in layers]
            self._stored[new.prefix] = new

    def release(self, held: StoredPrefix) -> None:
        """The caller no longer relies on it."""
        assert held.holders > 0
        held.holders -= 1
        if held.holders == 0 and held.prefix not in self._stored and held.parent is not None:
            self.release(held.parent)

    def check_integrity(self) -> None:
        """Raise AssertionError when the books do not balance. Call it when nothing is held."""
        children = [stored.parent for stored in self._stored.values() if stored.parent is not None]
        for stored in self._stored.values():
            assert stored.holders == sum(parent is stored for parent in children)
        assert all(parent.prefix in self._stored for parent in children)
        if self._arena is not None:
            self._arena.pool.check_integrity(self._pages())
        assert self.nbytes <= self._capacity

    def _pages(self) -> list[int]:
        return [
            page
            for stored in self._stored.values()
            for layer in stored.layers
            if isinstance(layer, PagedLayer)
            for page in layer.pages
        ]

    def _make_room(self, layers: Sequence[LooseLayer]) -> bool:
        """Drop what is least recently used until the layers fit; False when they cannot."""
        if self._arena is None:
            self._arena = Arena(self._capacity, layers[0])
        pool, needed = self._arena.pool, sum(pages_of(layer.tokens) for layer in layers)
        if needed > pool.count or not all(self._arena.accepts(layer) for layer in layers):
            return False
        for oldest in list(self._stored.values()):
            if pool.free >= needed:
                return True
            if oldest.holders == 0:
                self._drop(oldest, self._arena)
        return pool.free >= needed

    def _drop(self, stored: StoredPrefix, arena: Arena) -> None:
        del self._stored[stored.prefix]
        for layer in stored.layers:
            assert isinstance(layer, PagedLayer)
            arena.pool.give(layer.pages)
        if stored.parent is not None:
            stored.parent.holders -= 1
        self.evictions += 1
