"""Attention of packed suffix rows over one stored state, in pages and in few bits.

    partial p over keys [p * SPLIT, (p + 1) * SPLIT) of the state:
        z = q . k * scaling (capped: c * tanh(z / c))      m = max z      l = sum exp(z - m)
        o = sum exp(z - m) * v                             unnormalised, merged by merge_parts

A tile of keys is one page. Partials cut the state at fixed tokens from its start, so a row's bits
depend on its state and its question alone. int8 and e4m3 scales multiply scores and probabilities, not
elements. Keys that a sliding window has passed are hidden by position; the first `skip` tokens are left
out, for states whose first tokens are kept beside in full.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.formats import PagedRows, decode_e4m3, decode_int8, decode_nvfp4
from kernels.numerics import bf16_to_f32, e2m1_to_f32, e4m3_to_f32, mm
from kernels.runtime import PAGE, SPLIT, STATE_WARPS, interpreted, tiles

#: How the kernel reads a part: by the name of its codec.
FORMATS = {"bf16": 0, "e4m3": 1, "nvfp4": 2, "int8": 3}


class Parts(NamedTuple):
    """Partial sums of rows [parts, tokens, heads, ..]: o float32 [.., dim], m and l float32."""

    o: Tensor
    m: Tensor
    l: Tensor  # noqa: E741 - the name in every paper


def unpack_pages(rows: PagedRows, pages: Tensor, tokens: int) -> Tensor:
    """[heads, tokens, dim] float32: what the kernel's tiles hold."""
    gathered = [part[:, pages].flatten(1, 2)[:, :tokens] for part in rows[1:3] if part is not None]
    if rows.codec == "bf16":
        return gathered[0].float()
    if rows.codec == "nvfp4":
        assert rows.head_scale is not None
        return decode_nvfp4(gathered[0], gathered[1], rows.head_scale, torch.float32)
    decode = decode_int8 if rows.codec == "int8" else decode_e4m3
    return decode(gathered[0], gathered[1], torch.float32)


def state_attention_reference(
    query: Tensor,
    positions: Tensor,
    keys: PagedRows,
    values: PagedRows,
    pages: Tensor,
    tokens: int,
    scaling: float,
    *,
    first: int = 0,
    skip: int = 0,
    window: int | None = None,
    softcap: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Normalised output [rows, heads, dim] and its log-sum-exp [rows, heads], in float64."""
    k, v = (unpack_pages(part, pages, tokens).double() for part in (keys, values))
    group = query.shape[1] // k.shape[0]
    k, v = k.repeat_interleave(group, 0), v.repeat_interleave(group, 0)
    z = torch.einsum("thd,hnd->thn", query.double(), k) * scaling
    if softcap is not None:
        z = softcap * torch.tanh(z / softcap)
    z[..., :skip] = -torch.inf
    if window is not None:
        passed = first + torch.arange(tokens)[None, :] <= positions[:, None] - window
        z = z.masked_fill(passed[:, None, :], -torch.inf)
    return torch.einsum("thn,hnd->thd", z.softmax(-1), v), z.logsumexp(-1)


@triton.jit
def _load_rows(
    P, S, page, t, inside, head, n_pages, D: tl.constexpr, FMT: tl.constexpr, BN: tl.constexpr
):
    """One page [BN, D] in float32, without what is folded into scores and probabilities."""
    base = (head * n_pages + page) * BN
    d = tl.arange(0, D)
    if FMT == 0:
        at = (base + t)[:, None] * D + d[None, :]
        return bf16_to_f32(tl.load(P + at, mask=inside[:, None], other=0.0))
    elif FMT == 1:
        at = (base + t)[:, None] * D + d[None, :]
        return e4m3_to_f32(tl.load(P + at, mask=inside[:, None], other=0))
    elif FMT == 3:
        at = (base + t)[:, None] * D + d[None, :]
        return tl.load(P + at, mask=inside[:, None], other=0).to(tl.float32)
    else:
        half = tl.arange(0, D // 2)
        block = tl.arange(0, D // 16)
        codes = tl.load(
            P + (base + t)[:, None] * (D // 2) + half[None, :], mask=inside[:, None], other=0
        )
        x = tl.interleave(e2m1_to_f32(codes & 15), e2m1_to_f32(codes >> 4))
        s = tl.load(
            S + (base + t)[:, None] * (D // 16) + block[None, :], mask=inside[:, None], other=0
        )
        x = tl.reshape(x, (BN, D // 16, 16)) * tl.reshape(e4m3_to_f32(s), (BN, D // 16, 1))
        return tl.reshape(x, (BN, D))


@triton.jit
def _state_attention_kernel(
    Q, POS, K, KS, KG, V, VS, VG, PAGES, PO, PM, PL,
    n_rows, n_tokens, n_pages, first, skip, window, scaling, softcap,
    HK: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr,
    FMT_K: tl.constexpr, FMT_V: tl.constexpr, HAS_WINDOW: tl.constexpr, HAS_CAP: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, SPLIT: tl.constexpr, INTERP: tl.constexpr,
):  # fmt: skip
    # 1) BM query rows of one kv head: token-major, the heads of a group side by side.
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    split = tl.program_id(1)
    head = tl.program_id(2)
    d = tl.arange(0, D)
    row = r // GROUP
    q_head = head * GROUP + r % GROUP
    valid = r < n_rows * GROUP
    q_at = (row * (HK * GROUP) + q_head)[:, None] * D + d[None, :]
    q = bf16_to_f32(tl.load(Q + q_at, mask=valid[:, None], other=0.0))
    position = tl.load(POS + row, mask=valid, other=0)
    k_scale = scaling
    if FMT_K == 2:
        k_scale = k_scale * tl.load(KG + head)
    m = tl.full((BM,), -1.0e30, tl.float32)
    l = tl.zeros((BM,), tl.float32)  # noqa: E741
    acc = tl.zeros((BM, D), tl.float32)
    # 2) The pages of this split, in order.
    start = split * SPLIT
    stop = tl.minimum(start + SPLIT, n_tokens)
    for j in range(start, stop, BN):
        page = tl.load(PAGES + j // BN)
        t = tl.arange(0, BN)
        inside = j + t < stop
        k = _load_rows(K, KS, page, t, inside, head, n_pages, D, FMT_K, BN)
        z = mm(q, tl.trans(k), INTERP) * k_scale
        s_at = (head * n_pages + page) * BN + t
        if FMT_K == 1 or FMT_K == 3:
            z = z * bf16_to_f32(tl.load(KS + s_at, mask=inside, other=0.0))[None, :]
        if HAS_CAP:
            # tanh from exp: libdevice's does not run in the interpreter.
            e = tl.exp(-2.0 * tl.abs(z) / softcap)
            capped = softcap * (1.0 - e) / (1.0 + e)
            z = tl.where(z >= 0, capped, -capped)
        seen = (inside & (j + t >= skip))[None, :]
        if HAS_WINDOW:
            seen = seen & (first + j + t[None, :] > position[:, None] - window)
        z = tl.where(seen, z, -1.0e30)
        m_new = tl.maximum(m, tl.max(z, 1))
        p = tl.where(seen, tl.exp(z - m_new[:, None]), 0.0)
        old = tl.exp(m - m_new)
        l = l * old + tl.sum(p, 1)  # noqa: E741
        acc = acc * old[:, None]
        m = m_new
        if FMT_V == 1 or FMT_V == 3:
            p = p * bf16_to_f32(tl.load(VS + s_at, mask=inside, other=0.0))[None, :]
        v = _load_rows(V, VS, page, t, inside, head, n_pages, D, FMT_V, BN)
        acc += mm(p, v, INTERP)
    if FMT_V == 2:
        acc = acc * tl.load(VG + head)
    # 3) The partial of this split.
    out = (split * n_rows + row) * (HK * GROUP) + q_head
    tl.store(PO + out[:, None] * D + d[None, :], acc, mask=valid[:, None])
    tl.store(PM + out, m, mask=valid)
    tl.store(PL + out, l, mask=valid)


def state_attention(
    query: Tensor,
    positions: Tensor,
    keys: PagedRows,
    values: PagedRows,
    pages: Tensor,
    tokens: int,
    scaling: float,
    *,
    first: int = 0,
    skip: int = 0,
    window: int | None = None,
    softcap: float | None = None,
    block: int = 64,
) -> Parts:
    """query bfloat16 [rows, heads, dim] at int32 `positions` over the state's int32 `pages`.

    `first` is the position of the state's first stored token.
    """
    assert query.dtype == torch.bfloat16
    assert query.is_contiguous()
    assert pages.dtype == positions.dtype == torch.int32
    rows, heads, dim = query.shape
    kv_heads, n_pages, page = keys.codes.shape[:3]
    assert page == PAGE
    splits = tiles(tokens, SPLIT)
    parts = Parts(
        query.new_empty((splits, rows, heads, dim), dtype=torch.float32),
        query.new_empty((splits, rows, heads), dtype=torch.float32),
        query.new_empty((splits, rows, heads), dtype=torch.float32),
    )
    unused = parts.m
    grid = (tiles(rows * heads // kv_heads, block), splits, kv_heads)
    _state_attention_kernel[grid](
        query, positions,
        keys.codes, _or(keys.scales, unused), _or(keys.head_scale, unused),
        values.codes, _or(values.scales, unused), _or(values.head_scale, unused),
        pages, *parts, rows, tokens, n_pages, first, skip, window or 0, scaling, softcap or 1.0,
        kv_heads, heads // kv_heads, dim, FORMATS[keys.codec], FORMATS[values.codec],
        window is not None, softcap is not None, block, PAGE, SPLIT, interpreted(),
        num_warps=STATE_WARPS, num_stages=2,
    )  # fmt: skip
    return parts


def _or(tensor: Tensor | None, unused: Tensor) -> Tensor:
    return unused if tensor is None else tensor
