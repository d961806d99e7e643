"""The store of prefilled states: held while in use, least recently used out first, bounded by bytes.

Keyed by token ids; a store belongs to one engine, so model revision and KV format are the same for
all that it holds. Knows no attention.
"""

from collections import OrderedDict
from collections.abc import Sequence

from engine.kv import PackedLayer


class StoredPrefix:
    """The keys and values of one state. Owned by the store, held by readers."""

    __slots__ = ("holders", "layers", "nbytes", "prefix_ids")

    def __init__(self, prefix_ids: tuple[int, ...], layers: Sequence[PackedLayer]) -> None:
        #: The tokens.
        self.prefix_ids = prefix_ids
        #: One per layer of the model. A layer with a sliding window keeps only its last tokens.
        self.layers = tuple(layers)
        #: Bytes of all layers.
        self.nbytes = sum(layer.nbytes for layer in self.layers)
        #: Readers that rely on it now; it is not dropped before they release it.
        self.holders = 0

    def __len__(self) -> int:
        return len(self.prefix_ids)


class PrefixStore:
    """Not thread-safe: one engine, one thread."""

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity = capacity_bytes
        self._stored: OrderedDict[tuple[int, ...], StoredPrefix] = OrderedDict()
        #: Bytes stored now.
        self.nbytes = 0
        #: States dropped so far.
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._stored)

    def hold(self, prefix_ids: tuple[int, ...]) -> StoredPrefix | None:
        """The state if it is stored, held for the caller, who must release it."""
        prefix = self._stored.get(prefix_ids)
        if prefix is not None:
            self._stored.move_to_end(prefix_ids)
            prefix.holders += 1
        return prefix

    def add(self, prefix: StoredPrefix) -> None:
        """Take over a new state, held for the caller, who must release it."""
        assert prefix.prefix_ids not in self._stored
        prefix.holders += 1
        self._stored[prefix.prefix_ids] = prefix
        self.nbytes += prefix.nbytes
        self._evict()

    def release(self, prefix: StoredPrefix) -> None:
        """The caller no longer relies on it."""
        assert prefix.holders > 0
        prefix.holders -= 1
        self._evict()

    def check_integrity(self) -> None:
        """Raise AssertionError when the books do not balance. Call it when nothing is held."""
        assert self.nbytes == sum(prefix.nbytes for prefix in self._stored.values())
        assert all(prefix.holders == 0 for prefix in self._stored.values())
        assert self.nbytes <= self._capacity

    def _evict(self) -> None:
        for key in list(self._stored):
            if self.nbytes <= self._capacity:
                return
            if self._stored[key].holders == 0:
                self.nbytes -= self._stored.pop(key).nbytes
                self.evictions += 1
