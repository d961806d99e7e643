"""Attention in plain torch, on any device: block by block, exact, without copying keys.

    scores = q . [K_state | K_own]^T * scaling     one product per part into one buffer
    out    = softmax(scores) . [V_state | V_own]   one product per part, the state first

Query rows go in blocks that start at the span's own first row, so what a row is summed with depends
on its span and its state alone. No pair of different spans is ever computed; only the diagonal block
is masked.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from engine.attention import LayerCall, Span
from engine.prefixes import StoredPrefix

#: Query tokens of a block: enough to fill the matrix units, few enough to keep scores in cache.
BLOCK_TOKENS = 64
#: Scores of one block take at most this, by taking fewer rows of a long state.
BLOCK_BYTES = 64 * 2**20


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


class TorchAttention:
    """Owns the scratch and the last unpacked state. Not thread-safe."""

    name = "torch"

    def __init__(self) -> None:
        self._scratch = Scratch()
        self._unpacked: tuple[StoredPrefix, int, list[Part]] | None = None

    def attend(self, call: LayerCall, spans: Sequence[Span]) -> Tensor:
        """[rows, heads, dim]."""
        heads, rows, _ = call.query.shape
        scaled = call.query * call.scaling
        out = call.query.new_zeros((rows, heads, call.values.shape[-1]))
        for span in spans:
            past = self._unpack(span.past, call.layer, call.query.dtype)
            at = slice(span.start, span.stop)
            keys, values = call.keys[:, at], call.values[:, at]
            one = _Sequence(keys, values, past, span.offset, call.window, call.softcap)
            one.attend(scaled[:, at], out[at], self._scratch)
        return out

    def _unpack(self, past: StoredPrefix | None, layer: int, dtype: torch.dtype) -> list[Part]:
        """What a span follows, once per layer for all neighbouring spans that follow the same."""
        if past is None:
            return []
        if self._unpacked is None or self._unpacked[0] is not past or self._unpacked[1] != layer:
            parts = [Part(*stored.layers[layer].unpack(dtype), stored.end) for stored in past.chain]
            self._unpacked = (past, layer, parts)
        return self._unpacked[2]


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
