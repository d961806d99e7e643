"""Store rows in 8 bits: one scale per token and head.

s = bf16(amax(|x|) / 127)        q = clamp(round_half_away(x / s), -127, 127)        x' = q * s
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.formats import encode_int8
from kernels.numerics import bf16_to_f32, f32_to_bf16
from kernels.runtime import tiles

pack_int8_reference = encode_int8


@triton.jit
def _pack_int8_kernel(X, Q, S, n_rows, D: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = row[:, None] * D + tl.arange(0, D)[None, :]
    inside = row < n_rows
    x = bf16_to_f32(tl.load(X + at, mask=inside[:, None], other=0.0))
    scale = f32_to_bf16(tl.max(tl.abs(x), axis=1) / 127.0)
    wide = bf16_to_f32(scale)
    inverse = tl.where(wide > 0, 1.0 / tl.where(wide > 0, wide, 1.0), 0.0)
    y = x * inverse[:, None]
    y = tl.where(y >= 0, y + 0.5, y - 0.5)
    # The integer cast truncates: with the half added, that rounds half away from zero.
    y = tl.minimum(tl.maximum(y, -127.0), 127.0).to(tl.int32).to(tl.int8)
    tl.store(Q + at, y, mask=inside[:, None])
    tl.store(S + row, scale, mask=inside)


def pack_int8(rows: Tensor) -> tuple[Tensor, Tensor]:
    """rows [heads, tokens, dim] bfloat16 -> codes int8, scales bfloat16 [heads, tokens, 1]."""
    assert rows.dtype == torch.bfloat16
    assert rows.is_contiguous()
    heads, tokens, dim = rows.shape
    codes = torch.empty_like(rows, dtype=torch.int8)
    scales = rows.new_empty((heads, tokens, 1))
    grid = (tiles(heads * tokens, 32),)
    _pack_int8_kernel[grid](rows, codes, scales, heads * tokens, dim, 32)
    return codes, scales
