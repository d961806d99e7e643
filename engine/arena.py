"""The tensors behind the pages: all layers of all stored states share one set.

    buffer of a part: [kv_heads, pages, PAGE_TOKENS, ..]      gathered along dimension 1 when read

Gathering the packed form is a small copy per pass, layer and state, and decoding reads it anyway.
"""

import torch
from torch import Tensor

from engine.kv import KVFormat, LayerRows, LooseLayer, Parts, layer_rows
from engine.pages import PAGE_TOKENS, PagePool, pages_of


class PagedLayer:
    """A packed layer whose paged parts lie in the arena."""

    __slots__ = ("_arena", "_index", "_keys", "_kv_format", "_tokens", "_values", "pages")

    def __init__(self, arena: "Arena", layer: LooseLayer, pages: list[int]) -> None:
        self._arena, self._kv_format, self._tokens = arena, layer.kv_format, layer.tokens
        self._index = torch.tensor(pages, dtype=torch.int32, device=layer.keys[0].device)
        #: Its pages, in order of their tokens.
        self.pages = pages
        # What belongs to the whole state stays beside the pages.
        self._keys = layer.keys[layer.kv_format.keys.paged :]
        self._values = layer.values[layer.kv_format.values.paged :]

    @property
    def tokens(self) -> int:
        return self._tokens

    def unpack(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        parts = self._arena.gather(self._index, self._tokens)
        paged = self._kv_format.keys.paged
        keys = self._kv_format.keys.decode((*parts[:paged], *self._keys), dtype)
        return keys, self._kv_format.values.decode((*parts[paged:], *self._values), dtype)

    def rows(self) -> LayerRows:
        fixed = (self._keys, self._values)
        return layer_rows(self._kv_format, self._arena.buffers, fixed, self._index)


class Arena:
    """Owns the buffers; sized once, from the first layer that is stored."""

    def __init__(self, capacity_bytes: int, example: LooseLayer) -> None:
        self._kv_format: KVFormat = example.kv_format
        self._shapes = _shapes(example)
        token_bytes = sum(part.nbytes for part in example.paged) // example.tokens
        #: Bytes of one page.
        self.page_bytes = token_bytes * PAGE_TOKENS
        self.pool = PagePool(capacity_bytes // self.page_bytes)
        #: One per paged part, keys first.
        self.buffers: Parts = tuple(
            part.new_empty((part.shape[0], self.pool.count, PAGE_TOKENS, *part.shape[2:]))
            for part in example.paged
        )

    def accepts(self, layer: LooseLayer) -> bool:
        """Whether its pages have the arena's shape."""
        return _shapes(layer) == self._shapes

    def store(self, layer: LooseLayer) -> PagedLayer:
        """Move a layer into free pages, of which there must be enough."""
        pages = self.pool.take(pages_of(layer.tokens))
        for buffer, part in zip(self.buffers, layer.paged, strict=True):
            for page, rows in zip(pages, torch.split(part, PAGE_TOKENS, dim=1), strict=True):
                buffer[:, page, : rows.shape[1]] = rows
        return PagedLayer(self, layer, pages)

    def gather(self, index: Tensor, tokens: int) -> Parts:
        """The parts of the pages in `index`, [kv_heads, tokens, ..] each."""
        gathered = (buffer.index_select(1, index) for buffer in self.buffers)
        return tuple(part.flatten(1, 2)[:, :tokens] for part in gathered)


def _shapes(layer: LooseLayer) -> tuple[tuple[torch.dtype, int, torch.Size], ...]:
    return tuple((part.dtype, part.shape[0], part.shape[2:]) for part in layer.paged)
