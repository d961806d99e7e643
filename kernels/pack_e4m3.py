"""Store rows as 8-bit floats: one scale per token and head.

s = bf16(amax(|x|) / 448)        q = e4m3(x / s), nearest even, saturating        x' = q * s
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.formats import encode_e4m3
from kernels.numerics import bf16_to_f32, f32_to_bf16, f32_to_e4m3
from kernels.runtime import tiles

pack_e4m3_reference = encode_e4m3


@triton.jit
def _pack_e4m3_kernel(X, Q, S, n_rows, D: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = row[:, None] * D + tl.arange(0, D)[None, :]
    inside = row < n_rows
    x = bf16_to_f32(tl.load(X + at, mask=inside[:, None], other=0.0))
    scale = f32_to_bf16(tl.max(tl.abs(x), axis=1) / 448.0)
    wide = bf16_to_f32(scale)
    inverse = tl.where(wide > 0, 1.0 / tl.where(wide > 0, wide, 1.0), 0.0)
    tl.store(Q + at, f32_to_e4m3(x * inverse[:, None]), mask=inside[:, None])
    tl.store(S + row, scale, mask=inside)


def pack_e4m3(rows: Tensor) -> tuple[Tensor, Tensor]:
    """rows [heads, tokens, dim] bfloat16 -> codes uint8, scales bfloat16 [heads, tokens, 1]."""
    assert rows.dtype == torch.bfloat16
    assert rows.is_contiguous()
    heads, tokens, dim = rows.shape
    codes = torch.empty_like(rows, dtype=torch.uint8)
    scales = rows.new_empty((heads, tokens, 1))
    grid = (tiles(heads * tokens, 32),)
    _pack_e4m3_kernel[grid](rows, codes, scales, heads * tokens, dim, 32)
    return codes, scales
