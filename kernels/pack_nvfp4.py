"""Store rows in 4 bits: a scale per 16 values and one per head, the better of two block scales.

g = amax_head(|x|) / 2688        b = e4m3(amax_16(|x / g|) / 6) or / 4, whichever errs less
q = e2m1(x / (b * g)), two per byte, the even index in the low half        x' = q * b * g
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.formats import BLOCK, E2M1_MAX, E4M3_MAX, encode_nvfp4
from kernels.numerics import bf16_to_f32, e2m1_to_f32, e4m3_to_f32, f32_to_e2m1, f32_to_e4m3
from kernels.runtime import tiles

pack_nvfp4_reference = encode_nvfp4


@triton.jit
def _quantise(x, top: tl.constexpr):
    """Blocks [rows, blocks, 16] -> codes, block scales, squared error of each block."""
    scale = f32_to_e4m3(tl.max(tl.abs(x), axis=2) / top)
    wide = e4m3_to_f32(scale)
    inverse = tl.where(wide > 0, 1.0 / tl.where(wide > 0, wide, 1.0), 0.0)
    codes = f32_to_e2m1(x * inverse[:, :, None])
    error = e2m1_to_f32(codes) * wide[:, :, None] - x
    return codes, scale, tl.sum(error * error, axis=2)


@triton.jit
def _pack_nvfp4_kernel(X, Q, B, G, n_tokens, D: tl.constexpr, ROWS: tl.constexpr):
    token = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    head = tl.program_id(1)
    row = head * n_tokens + token
    inside = (token < n_tokens)[:, None]
    x = bf16_to_f32(
        tl.load(X + row[:, None] * D + tl.arange(0, D)[None, :], mask=inside, other=0.0)
    )
    g = tl.load(G + head)
    x = tl.reshape(x * tl.where(g > 0, 1.0 / tl.where(g > 0, g, 1.0), 0.0), (ROWS, D // 16, 16))
    codes6, scale6, error6 = _quantise(x, 6.0)
    codes4, scale4, error4 = _quantise(x, 4.0)
    better = error4 < error6
    codes = tl.where(better[:, :, None], codes4, codes6)
    low, high = tl.split(tl.reshape(codes, (ROWS, D // 2, 2)))
    packed = low | (high << 4)
    scale = tl.where(better, scale4, scale6)
    tl.store(Q + row[:, None] * (D // 2) + tl.arange(0, D // 2)[None, :], packed, mask=inside)
    tl.store(B + row[:, None] * (D // 16) + tl.arange(0, D // 16)[None, :], scale, mask=inside)


def pack_nvfp4(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """rows [heads, tokens, dim] bfloat16 -> codes uint8 [.., dim / 2], block scales uint8 [.., dim / 16],

    head scales float32 [heads, 1, 1]."""
    assert rows.dtype == torch.bfloat16
    assert rows.is_contiguous()
    heads, tokens, dim = rows.shape
    assert dim % BLOCK == 0
    head_scale = rows.float().abs().amax(dim=(1, 2), keepdim=True) / (E2M1_MAX * E4M3_MAX)
    codes = rows.new_empty((heads, tokens, dim // 2), dtype=torch.uint8)
    scales = rows.new_empty((heads, tokens, dim // BLOCK), dtype=torch.uint8)
    grid = (tiles(tokens, 32), heads)
    _pack_nvfp4_kernel[grid](rows, codes, scales, head_scale, tokens, dim, 32)
    return codes, scales, head_scale
