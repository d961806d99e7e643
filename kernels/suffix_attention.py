"""Causal attention of packed questions, each over itself: the other partial beside state_attention.

    z = q . k * scaling for keys of the same question up to the row's own, within the window
    m, l, o as in state_attention

A tile of rows never crosses a question, and its keys start at the question's first token, so a row is
summed in an order that its question alone decides.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.numerics import bf16_to_f32, mm
from kernels.runtime import interpreted
from kernels.state_attention import Parts


def suffix_attention_reference(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    lengths: list[int],
    scaling: float,
    *,
    window: int | None = None,
    softcap: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Normalised output [rows, heads, dim] and its log-sum-exp [rows, heads], in float64."""
    outs, lses, start = [], [], 0
    group = query.shape[1] // keys.shape[1]
    for length in lengths:
        at = slice(start, start + length)
        q, k, v = (x[at].double() for x in (query, keys, values))
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        z = torch.einsum("thd,nhd->thn", q, k) * scaling
        if softcap is not None:
            z = softcap * torch.tanh(z / softcap)
        i = torch.arange(length)
        hidden = i[None, :] > i[:, None]
        if window is not None:
            hidden = hidden | (i[None, :] <= i[:, None] - window)
        z = z.masked_fill(hidden[:, None, :], -torch.inf)
        outs.append(torch.einsum("thn,nhd->thd", z.softmax(-1), v))
        lses.append(z.logsumexp(-1))
        start += length
    return torch.cat(outs), torch.cat(lses)


@triton.jit
def _suffix_attention_kernel(
    Q, K, V, TILE, BEGIN, END, PO, PM, PL, n_rows, window, scaling, softcap,
    HK: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr,
    HAS_WINDOW: tl.constexpr, HAS_CAP: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, INTERP: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0)
    head = tl.program_id(1)
    d = tl.arange(0, D)
    tile = tl.load(TILE + i)
    begin = tl.load(BEGIN + i)
    end = tl.load(END + i)
    r = tl.arange(0, BM)
    row = tile + r // GROUP
    q_head = head * GROUP + r % GROUP
    valid = row < end
    q_at = (row * (HK * GROUP) + q_head)[:, None] * D + d[None, :]
    q = bf16_to_f32(tl.load(Q + q_at, mask=valid[:, None], other=0.0))
    m = tl.full((BM,), -1.0e30, tl.float32)
    l = tl.zeros((BM,), tl.float32)  # noqa: E741
    acc = tl.zeros((BM, D), tl.float32)
    for j in range(begin, tl.minimum(tile + BM // GROUP, end), BN):
        t = j + tl.arange(0, BN)
        inside = (t < end)[:, None]
        k_at = (t * HK + head)[:, None] * D + d[None, :]
        k = bf16_to_f32(tl.load(K + k_at, mask=inside, other=0.0))
        z = mm(q, tl.trans(k), INTERP) * scaling
        if HAS_CAP:
            e = tl.exp(-2.0 * tl.abs(z) / softcap)
            capped = softcap * (1.0 - e) / (1.0 + e)
            z = tl.where(z >= 0, capped, -capped)
        seen = (t < end)[None, :] & (t[None, :] <= row[:, None])
        if HAS_WINDOW:
            seen = seen & (t[None, :] > row[:, None] - window)
        z = tl.where(seen, z, -1.0e30)
        m_new = tl.maximum(m, tl.max(z, 1))
        p = tl.where(seen, tl.exp(z - m_new[:, None]), 0.0)
        old = tl.exp(m - m_new)
        l = l * old + tl.sum(p, 1)  # noqa: E741
        v = bf16_to_f32(tl.load(V + k_at, mask=inside, other=0.0))
        acc = acc * old[:, None] + mm(p, v, INTERP)
        m = m_new
    out = row * (HK * GROUP) + q_head
    tl.store(PO + out[:, None] * D + d[None, :], acc, mask=valid[:, None])
    tl.store(PM + out, m, mask=valid)
    tl.store(PL + out, l, mask=valid)


def suffix_attention(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    lengths: list[int],
    scaling: float,
    *,
    window: int | None = None,
    softcap: float | None = None,
    block: int = 64,
) -> Parts:
    """query bfloat16 [rows, heads, dim], keys and values [rows, kv_heads, dim]; questions in order."""
    assert query.dtype == keys.dtype == values.dtype == torch.bfloat16
    assert query.is_contiguous()
    assert keys.is_contiguous()
    assert values.is_contiguous()
    rows, heads, dim = query.shape
    kv_heads = keys.shape[1]
    group = heads // kv_heads
    assert sum(lengths) == rows
    tile, begin, end = (x.to(query.device) for x in _row_tiles(lengths, block // group))
    parts = Parts(
        query.new_empty((1, rows, heads, dim), dtype=torch.float32),
        query.new_empty((1, rows, heads), dtype=torch.float32),
        query.new_empty((1, rows, heads), dtype=torch.float32),
    )
    _suffix_attention_kernel[(len(tile), kv_heads)](
        query, keys, values, tile, begin, end, *parts, rows, window or 0, scaling, softcap or 1.0,
        kv_heads, group, dim, window is not None, softcap is not None,
        block, block, interpreted(),
    )  # fmt: skip
    return parts


def _row_tiles(lengths: list[int], size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Per tile of rows: its first row, and its question's first row and end. int32."""
    tile, begin, end, start = [], [], [], 0
    for length in lengths:
        for first in range(start, start + length, size):
            tile.append(first)
            begin.append(start)
            end.append(start + length)
        start += length
    return tuple(torch.tensor(x, dtype=torch.int32) for x in (tile, begin, end))  # type: ignore[return-value]
