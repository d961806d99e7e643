"""Attention over a packed pass: each row attends to its own state, then to its own span.

    rows of a pass:   |-- span 0 --|----- span 1 -----|- span 2 -|      packed, never padded
    keys of a row:    stored state of its span (all, or the window)  +  its span up to itself

    scores = q . [K_state | K_own]^T * scaling     two products into one buffer, no keys copied
    out    = softmax(scores) . [V_state | V_own]   two products, state first

Query rows go in blocks that start at the span's own first row, so what a row is summed with depends
on its span and its state alone. No pair of different spans is ever computed; only the diagonal block
is masked. Registered with transformers as `weighbridge`; the pass reaches it as a keyword of forward.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from engine.errors import UnsupportedModel
from engine.kv import KVFormat, PackedLayer
from engine.prefixes import StoredPrefix

ATTENTION = "weighbridge"
#: Query tokens of a block: enough to fill the matrix units, few enough to keep scores in cache.
BLOCK_TOKENS = 64
#: Scores of one block take at most this, by taking fewer rows of a long state.
BLOCK_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Neighbouring rows of a pass that belong to one sequence."""

    #: First row.
    start: int
    #: One past the last row.
    stop: int
    #: The state that they follow, None when they are a state themselves.
    past: StoredPrefix | None

    @property
    def offset(self) -> int:
        """Position of the first row in its sequence."""
        return self.past.end if self.past else 0


class Part(NamedTuple):
    """Keys and values [kv_heads, tokens, dim] of the neighbouring positions up to `end`."""

    keys: Tensor
    values: Tensor
    end: int

    def since(self, position: int) -> "Part":
        """What of it is at `position` or later."""
        first = max(0, self.keys.shape[1] - max(0, self.end - position))
        return Part(self.keys[:, first:], self.values[:, first:], self.end)


class Scratch:
    """Buffers that live from pass to pass: fresh ones would be paged in again for every layer."""

    def __init__(self) -> None:
        self._buffers: dict[str, Tensor] = {}

    def take(self, name: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """An uninitialised tensor, valid until the next take of the same name."""
        size = 1
        for length in shape:
            size *= length
        buffer = self._buffers.get(name)
        if buffer is None or buffer.numel() < size or buffer.dtype != like.dtype:
            buffer = torch.empty(size, dtype=like.dtype, device=like.device)
            self._buffers[name] = buffer
        return buffer[:size].view(shape)


class AllKept(Exception):
    """The last layer's keys and values are kept: nothing after them is needed of a state."""


class PackedPass:
    """What one forward pass attends to; collects the layers of states when `keep` is given.

    A pass that keeps ends in AllKept as soon as its last layer is kept.
    """

    def __init__(
        self, spans: Sequence[Span], scratch: Scratch, layers: int, keep: KVFormat | None
    ) -> None:
        self.spans = spans
        self.scratch = scratch
        self._layers, self._keep = layers, keep
        #: Per span, its layers in stored form.
        self.kept: list[list[PackedLayer]] = [[] for _ in spans]
        #: Layers seen.
        self.calls = 0
        self._unpacked: tuple[StoredPrefix, int, list[Part]] | None = None

    def store(self, keys: Tensor, values: Tensor, window: int | None) -> None:
        """Keep what later rows can see of each span: all of it, or the window's reach."""
        if self._keep is None:
            return
        for span, layers in zip(self.spans, self.kept, strict=True):
            first = span.start if window is None else max(span.start, span.stop - (window - 1))
            rows = slice(first, span.stop)
            layers.append(self._keep.pack(keys[:, rows], values[:, rows]))
        if len(self.kept[0]) == self._layers:
            raise AllKept

    def unpack(self, past: StoredPrefix | None, layer: int, dtype: torch.dtype) -> list[Part]:
        """What a span follows, once per layer for all neighbouring spans that follow the same."""
        if past is None:
            return []
        if self._unpacked is None or self._unpacked[0] is not past or self._unpacked[1] != layer:
            parts = [Part(*stored.layers[layer].unpack(dtype), stored.end) for stored in past.chain]
            self._unpacked = (past, layer, parts)
        return self._unpacked[2]


def packed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    packed_pass: PackedPass,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """transformers' attention interface. query [1, heads, rows, dim], key and value [1, kv_heads, ..].

    Returns [1, rows, heads, dim]. Raises UnsupportedModel for a feature that it would drop, AllKept
    from the last layer of a pass that keeps.
    """
    _refuse(module, others)
    packed_pass.calls += 1
    _, heads, rows, dim = query.shape
    keys, values = key[0], value[0]
    packed_pass.store(keys, values, sliding_window)
    scaled = query[0] * (dim**-0.5 if scaling is None else scaling)
    # Rows that no span has are padding: anything finite will do.
    out = query.new_zeros((rows, heads, value.shape[-1]))
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    for span in packed_pass.spans:
        past = packed_pass.unpack(span.past, layer, query.dtype)
        at = slice(span.start, span.stop)
        one = _Sequence(keys[:, at], values[:, at], past, span.offset, sliding_window, softcap)
        one.attend(scaled[:, at], out[at], packed_pass.scratch)
    return out[None], None


def _refuse(module: nn.Module, others: dict[str, Any]) -> None:
    for name in ("position_bias", "s_aux", "output_attentions"):
        if others.get(name) is not None and others[name] is not False:
            reason = f"its attention uses {name}"
            raise UnsupportedModel(model=type(module).__name__, reason=reason)


class _Sequence:
    """One span in one layer: what it follows, and its own keys and values [kv_heads, tokens, dim]."""

    def __init__(
        self,
        keys: Tensor,
        values: Tensor,
        past: list[Part],
        offset: int,
        window: int | None,
        softcap: float | None,
    ) -> None:
        self.keys, self.values = keys, values
        self.past, self.offset, self.window, self.softcap = past, offset, window, softcap

    def attend(self, query: Tensor, out: Tensor, scratch: Scratch) -> None:
        """Fill `out` [rows, heads, dim] for `query` [heads, rows, dim], block by block."""
        heads, rows, dim = query.shape
        kv_heads = self.keys.shape[0]
        grouped = query.view(kv_heads, heads // kv_heads, rows, dim)
        target = out.view(rows, kv_heads, heads // kv_heads, -1).permute(1, 2, 0, 3)
        start = 0
        while start < rows:
            at = slice(start, min(start + self._block_tokens(heads, start), rows))
            target[:, :, at] = self._block(grouped[:, :, at], at, scratch)
            start = at.stop

    def _block_tokens(self, heads: int, start: int) -> int:
        """From the block's own position alone, so that a longer span cuts its first blocks alike."""
        row_bytes = heads * (self.offset + start + BLOCK_TOKENS) * 4
        return max(1, min(BLOCK_TOKENS, BLOCK_BYTES // row_bytes))

    def _block(self, query: Tensor, at: slice, scratch: Scratch) -> Tensor:
        """query [kv_heads, group, rows, dim] -> the same shape with the value's dim."""
        kv_heads, group, rows, dim = query.shape
        parts = self._visible(at)
        total = sum(part.keys.shape[1] for part in parts)
        shape = (kv_heads, group * rows, total)
        scores, probs = (scratch.take(name, shape, query) for name in ("scores", "probs"))
        flat = query.reshape(kv_heads, group * rows, dim)
        places = _places(parts)
        for part, place in zip(parts, places, strict=True):
            torch.bmm(flat, part.keys.transpose(1, 2), out=scores[..., place])
        if self.softcap is not None:
            scores.div_(self.softcap).tanh_().mul_(self.softcap)
        self._mask(scores.view(kv_heads, group, rows, total))
        torch.softmax(scores, dim=-1, out=probs)
        mixed = torch.bmm(probs[..., places[0]], parts[0].values)
        for part, place in zip(parts[1:], places[1:], strict=True):
            mixed.baddbmm_(probs[..., place], part.values)
        return mixed.view(kv_heads, group, rows, -1)

    def _visible(self, at: slice) -> list[Part]:
        """Everything that any row of the block can see: at most a window before its first row."""
        own = Part(self.keys[:, : at.stop], self.values[:, : at.stop], self.offset + at.stop)
        parts = [*self.past, own]
        if self.window is None:
            return parts
        first = self.offset + at.start - (self.window - 1)
        seen = (part.since(first) for part in parts)
        return [part for part in seen if part.keys.shape[1]]

    def _mask(self, scores: Tensor) -> None:
        """Hide from each row [.., rows, keys] what comes after it, and what its window has passed."""
        rows, keys = scores.shape[-2:]
        ones = scores.new_ones((rows, keys if self.window else rows), dtype=torch.bool)
        # Row i is key `keys - rows + i`.
        if rows > 1:
            scores[..., keys - rows :].masked_fill_(ones[:, :rows].triu(1), -torch.inf)
        if self.window is not None and keys > self.window:
            passed = ones.tril(keys - rows - self.window)
            scores.masked_fill_(passed, -torch.inf)


def _places(parts: Sequence[Part]) -> list[slice]:
    """Where the scores of each part lie."""
    places, start = [], 0
    for part in parts:
        places.append(slice(start, start + part.keys.shape[1]))
        start += part.keys.shape[1]
    return places
