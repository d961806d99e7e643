"""Log-probabilities of labels from last hidden states, with no row of the vocabulary in memory.

z = h . W^T * scale        lse partials: per SPLIT_V tokens of the vocabulary, (max, sum exp)
z[label] by the same inner loop over gathered rows: the same order of sums, so the same bits
log p(label) = z[label] - merged lse                                     label_finish
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.numerics import bf16_to_f32
from kernels.runtime import interpreted, tiles

#: Tokens of the vocabulary per partial: fixed, so that a read sums alike in every batch.
SPLIT_V = 1024


def label_read_reference(
    hidden: Tensor, weight: Tensor, labels: list[Tensor], scale: float = 1.0
) -> list[Tensor]:
    """Log-probabilities of each read's labels, in float64."""
    z = hidden.double() @ weight.double().T * scale
    return [row[ids.long()] - row.logsumexp(0) for row, ids in zip(z, labels, strict=True)]


@triton.jit
def _label_read_kernel(
    H, W, ROWS, OUT_M, OUT_S, OUT_Z, n_reads, n_tokens, scale,
    DM: tl.constexpr, BM: tl.constexpr, BV: tl.constexpr, BK: tl.constexpr,
    SPLIT: tl.constexpr, GATHER: tl.constexpr, INTERP: tl.constexpr,
):  # fmt: skip
    # The vocabulary is the outer dimension of the launch: W streams once while H stays in cache.
    split = tl.program_id(0)
    b = tl.program_id(1) * BM + tl.arange(0, BM)
    read = b < n_reads
    k = tl.arange(0, BK)
    m = tl.full((BM,), -1.0e30, tl.float32)
    s = tl.zeros((BM,), tl.float32)
    start = split * SPLIT
    stop = tl.minimum(start + SPLIT, n_tokens)
    for j in range(start, stop, BV):
        v = j + tl.arange(0, BV)
        inside = v < stop
        if GATHER:  # noqa: SIM108 - a constexpr, decided when the kernel is compiled
            w_row = tl.load(ROWS + v, mask=inside, other=0).to(tl.int64)
        else:
            w_row = v.to(tl.int64)
        z = tl.zeros((BM, BV), tl.float32)
        for i in range(0, DM, BK):
            h_at = b[:, None] * DM + (i + k)[None, :]
            h = tl.load(H + h_at, mask=read[:, None] & ((i + k) < DM)[None, :], other=0.0)
            w_at = w_row[None, :] * DM + (i + k)[:, None]
            w = tl.load(W + w_at, mask=inside[None, :] & ((i + k) < DM)[:, None], other=0.0)
            if INTERP:
                z += tl.dot(bf16_to_f32(h), bf16_to_f32(w), input_precision="ieee")
            else:
                z = tl.dot(h, w, z)
        z = z * scale
        if GATHER:
            tl.store(
                OUT_Z + b[:, None] * n_tokens + v[None, :], z, mask=read[:, None] & inside[None, :]
            )
        else:
            z = tl.where(inside[None, :], z, -1.0e30)
            m_new = tl.maximum(m, tl.max(z, 1))
            s = s * tl.exp(m - m_new) + tl.sum(tl.exp(z - m_new[:, None]), 1)
            m = m_new
    if not GATHER:
        tl.store(OUT_M + split * n_reads + b, m, mask=read)
        tl.store(OUT_S + split * n_reads + b, s, mask=read)


@triton.jit
def _label_finish_kernel(
    PM, PS, Z, COLUMN, OFFSET, OUT, n_reads, n_labels, n_splits, BL: tl.constexpr
):
    b = tl.program_id(0)
    m = -1.0e30
    s = 0.0
    for i in range(0, n_splits):
        m_i = tl.load(PM + i * n_reads + b)
        s_i = tl.load(PS + i * n_reads + b)
        m_new = tl.maximum(m, m_i)
        s = s * tl.exp(m - m_new) + s_i * tl.exp(m_i - m_new)
        m = m_new
    lse = m + tl.log(s)
    first = tl.load(OFFSET + b)
    label = tl.arange(0, BL)
    inside = label < tl.load(OFFSET + b + 1) - first
    column = tl.load(COLUMN + first + label, mask=inside, other=0)
    z = tl.load(Z + b * n_labels + column, mask=inside, other=0.0)
    tl.store(OUT + first + label, z - lse, mask=inside)


def label_read(
    hidden: Tensor, weight: Tensor, labels: list[Tensor], scale: float = 1.0
) -> list[Tensor]:
    """hidden [reads, dim] and weight [vocabulary, dim] bfloat16, up to 256 labels per read -> float32."""
    assert hidden.dtype == weight.dtype == torch.bfloat16
    assert hidden.is_contiguous()
    assert weight.is_contiguous()
    assert max(len(ids) for ids in labels) <= 256
    reads, dim = hidden.shape
    splits = tiles(len(weight), SPLIT_V)
    unique, column = torch.unique(torch.cat(labels), return_inverse=True)
    unique, column = unique.int(), column.int()
    maxima, sums = (hidden.new_empty((splits, reads), dtype=torch.float32) for _ in range(2))
    chosen = hidden.new_empty((reads, len(unique)), dtype=torch.float32)
    rest = (dim, 16, 64, 64, SPLIT_V)
    args = (hidden, weight, unique, maxima, sums, chosen, reads)
    row_tiles = tiles(reads, 16)
    _label_read_kernel[(splits, row_tiles)](*args, len(weight), scale, *rest, False, interpreted())
    gathered = (tiles(len(unique), SPLIT_V), row_tiles)
    _label_read_kernel[gathered](*args, len(unique), scale, *rest, True, interpreted())
    counts = [len(ids) for ids in labels]
    offset = torch.tensor([0, *counts], device=hidden.device).cumsum(0).int()
    out = hidden.new_empty(sum(counts), dtype=torch.float32)
    _label_finish_kernel[(reads,)](
        maxima, sums, chosen, column, offset, out, reads, len(unique), splits, 256
    )
    return list(torch.split(out, counts))
