"""Attention by our Triton kernels: packed states are read as they lie in their pages.

    per state of a pass: one part per prefix of its chain (and one for sinks kept in full), then the own part
    merged in that order

For bfloat16 models whose heads are a power of two wide. Imports Triton, so it is imported only when chosen.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

import torch
from torch import Tensor
from torch.nn import functional

from engine.attention import LayerCall, Span
from engine.prefixes import StoredPrefix
from kernels.formats import PagedRows
from kernels.merge_parts import merge_parts
from kernels.runtime import PAGE
from kernels.state_attention import Parts, state_attention
from kernels.suffix_attention import suffix_attention


class TritonAttention:
    """Keeps nothing between passes."""

    name = "triton"

    def attend(self, call: LayerCall, spans: Sequence[Span]) -> Tensor:
        """[rows, heads, dim]."""
        end = spans[-1].stop
        query, keys, values = (
            rows[:, :end].transpose(0, 1).contiguous()
            for rows in (call.query, call.keys, call.values)
        )
        lengths = [span.stop - span.start for span in spans]
        own = suffix_attention(
            query, keys, values, lengths, call.scaling, window=call.window, softcap=call.softcap
        )
        out = call.query.new_zeros((call.query.shape[1], *query.shape[1:]))
        for past, run in groupby(spans, key=lambda span: span.past):
            neighbours = list(run)
            rows = slice(neighbours[0].start, neighbours[-1].stop)
            parts = [Parts(*(part[:, rows].contiguous() for part in own))]
            if past is not None:
                positions = _positions(neighbours, query.device)
                parts = [*_state_parts(call, query[rows], positions, past), *parts]
            out[rows] = merge_parts(*parts)
        return out


def _positions(spans: Sequence[Span], device: torch.device) -> Tensor:
    places = [
        torch.arange(span.offset, span.offset + span.stop - span.start, device=device)
        for span in spans
    ]
    return torch.cat(places).int()


def _state_parts(
    call: LayerCall, query: Tensor, positions: Tensor, past: StoredPrefix
) -> Iterator[Parts]:
    for stored in past.chain:
        layer = stored.layers[call.layer]
        rows = layer.rows()
        first = stored.end - layer.tokens
        skip = 0
        if rows.sinks is not None:
            skip = rows.sinks[0].shape[1]
            keys, values = (_page_of(sink) for sink in rows.sinks)
            index = torch.zeros(1, dtype=torch.int32, device=query.device)
            yield _part(call, query, positions, keys, values, index, skip, first, 0)
        if layer.tokens > skip:
            paged = rows.keys, rows.values, rows.pages
            yield _part(call, query, positions, *paged, layer.tokens, first, skip)


def _part(
    call: LayerCall,
    query: Tensor,
    positions: Tensor,
    keys: PagedRows,
    values: PagedRows,
    index: Tensor,
    tokens: int,
    first: int,
    skip: int,
) -> Parts:
    return state_attention(
        query,
        positions,
        keys,
        values,
        index,
        tokens,
        call.scaling,
        first=first,
        skip=skip,
        window=call.window,
        softcap=call.softcap,
    )


def _page_of(rows: Tensor) -> PagedRows:
    """A few rows [heads, tokens, dim] as one page of bfloat16."""
    padded = functional.pad(rows, (0, 0, 0, PAGE - rows.shape[1]))
    return PagedRows("bf16", padded.unsqueeze(1).contiguous())
