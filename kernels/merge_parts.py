"""Partial attentions into one, in the order of the parts.

M = max m_i        out = sum exp(m_i - M) o_i / sum exp(m_i - M) l_i        running, part by part
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.numerics import f32_to_bf16
from kernels.runtime import tiles
from kernels.state_attention import Parts


def merge_parts_reference(parts: Parts) -> Tensor:
    """[tokens, heads, dim] in float64."""
    weight = torch.exp(parts.m.double() - parts.m.double().amax(0))
    total = (weight * parts.l.double()).sum(0)
    return (weight[..., None] * parts.o.double()).sum(0) / total[..., None]


@triton.jit
def _merge_parts_kernel(PO, PM, PL, OUT, n_total, n_parts, D: tl.constexpr, BM: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    valid = r < n_total
    d = tl.arange(0, D)
    m = tl.full((BM,), -1.0e30, tl.float32)
    l = tl.zeros((BM,), tl.float32)  # noqa: E741
    acc = tl.zeros((BM, D), tl.float32)
    for i in range(0, n_parts):
        at = i * n_total + r
        m_i = tl.load(PM + at, mask=valid, other=-1.0e30)
        l_i = tl.load(PL + at, mask=valid, other=0.0)
        o_i = tl.load(PO + at[:, None] * D + d[None, :], mask=valid[:, None], other=0.0)
        m_new = tl.maximum(m, m_i)
        old = tl.exp(m - m_new)
        new = tl.exp(m_i - m_new)
        acc = acc * old[:, None] + o_i * new[:, None]
        l = l * old + l_i * new  # noqa: E741
        m = m_new
    out = acc / tl.where(l > 0, l, 1.0)[:, None]
    tl.store(OUT + r[:, None] * D + d[None, :], f32_to_bf16(out), mask=valid[:, None])


def merge_parts(*several: Parts) -> Tensor:
    """bfloat16 [tokens, heads, dim] of all parts, in the order given."""
    o, m, l = (torch.cat(tensors) for tensors in zip(*several, strict=True))  # noqa: E741
    parts, tokens, heads, dim = o.shape
    out = o.new_empty((tokens, heads, dim), dtype=torch.bfloat16)
    total = tokens * heads
    _merge_parts_kernel[(tiles(total, 16),)](o, m, l, out, total, parts, dim, 16)
    return out
