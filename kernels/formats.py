"""Low-precision forms of keys and values in plain torch: what the kernels are held to, and the CPU's own.

    int8    q = round_half_away(x / s), s = amax / 127 per token and head, s in bfloat16
    e4m3    q = rne(x / s) as 4-bit exponent, 3-bit mantissa, s = amax / 448 per token and head
    nvfp4   q = e2m1(x / (b * g)), two per byte (even index low), b = e4m3 per 16 along the head,
            g = float32 per head; of amax / 6 and amax / 4 the block scale that errs less ("4 over 6")

Rows are [heads, tokens, dim]. Every encode returns what decode takes; decode returns the asked dtype.
"""

from typing import NamedTuple

import torch
from torch import Tensor

E4M3_MAX = 448.0
E2M1_MAX = 6.0
BLOCK = 16
#: The magnitudes of e2m1, by code.
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
#: Halfway points between them; an x on one goes to the even code.
E2M1_STEPS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
E2M1_TIES_UP = (False, True, False, True, False, True, False)


class PagedRows(NamedTuple):
    """Keys or values in pages: codes [heads, pages, PAGE, ..], scales alike, and head scales."""

    codec: str
    codes: Tensor
    scales: Tensor | None = None
    head_scale: Tensor | None = None


def token_scale(rows: Tensor, largest: float) -> Tensor:
    """[heads, tokens, 1] bfloat16: what maps each token's largest value to `largest`."""
    return (rows.float().abs().amax(dim=-1, keepdim=True) / largest).bfloat16()


def inverse(scale: Tensor) -> Tensor:
    """1 / scale in float32, 0 where the scale is."""
    wide = scale.float()
    return torch.where(wide > 0, 1.0 / wide, 0.0)


def encode_int8(rows: Tensor) -> tuple[Tensor, Tensor]:
    """-> codes int8 [heads, tokens, dim], scales bfloat16 [heads, tokens, 1]."""
    scale = token_scale(rows, 127.0)
    scaled = rows.float() * inverse(scale)
    rounded = torch.trunc(scaled + torch.where(scaled >= 0, 0.5, -0.5))
    return rounded.clamp_(-127.0, 127.0).to(torch.int8), scale


def decode_int8(codes: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    return codes.to(dtype).mul_(scale)


def float_to_e4m3(values: Tensor) -> Tensor:
    """Nearest e4m3, ties to even, saturating, as uint8."""
    return values.clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn).view(torch.uint8)


def e4m3_to_float(codes: Tensor) -> Tensor:
    return codes.view(torch.float8_e4m3fn).float()


def encode_e4m3(rows: Tensor) -> tuple[Tensor, Tensor]:
    """-> codes uint8 [heads, tokens, dim], scales bfloat16 [heads, tokens, 1]."""
    scale = token_scale(rows, E4M3_MAX)
    return float_to_e4m3(rows.float() * inverse(scale)), scale


def decode_e4m3(codes: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    """Moves the bits into a bfloat16 that is 2^120 too small: 20 times faster than torch's cast."""
    bits = (codes.view(torch.int8).to(torch.int16) << 4) & -30736  # 0x87F0: sign, then 4 + 3 bits
    return bits.view(torch.bfloat16).to(dtype).mul_(scale.to(dtype) * 2.0**120)


def float_to_e2m1(values: Tensor) -> Tensor:
    """Nearest e2m1, ties to the even code, saturating: uint8 codes 0..15, the sign in bit 3."""
    size = values.abs()
    code = torch.zeros_like(values, dtype=torch.uint8)
    for step, tie_up in zip(E2M1_STEPS, E2M1_TIES_UP, strict=True):
        code += size >= step if tie_up else size > step
    return code | (torch.signbit(values).to(torch.uint8) << 3)


def e2m1_to_float(codes: Tensor) -> Tensor:
    table = torch.tensor([*E2M1, *(-value for value in E2M1)], device=codes.device)
    return table[codes.int()]


def encode_nvfp4(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """-> codes uint8 [heads, tokens, dim / 2], block scales uint8 [heads, tokens, dim / 16],

    head scales float32 [heads, 1, 1].
    """
    heads, tokens, dim = rows.shape
    wide = rows.float()
    head_scale = wide.abs().amax(dim=(1, 2), keepdim=True) / (E2M1_MAX * E4M3_MAX)
    blocks = (wide * inverse(head_scale)).view(heads, tokens, dim // BLOCK, BLOCK)
    amax = blocks.abs().amax(dim=-1, keepdim=True)
    tried = [_quantise_blocks(blocks, float_to_e4m3(amax / top)) for top in (6.0, 4.0)]
    better = tried[1][2] < tried[0][2]
    codes = torch.where(better, tried[1][0], tried[0][0]).view(heads, tokens, dim)
    scales = torch.where(better, tried[1][1], tried[0][1]).view(heads, tokens, dim // BLOCK)
    return codes[..., ::2] | (codes[..., 1::2] << 4), scales, head_scale


def _quantise_blocks(blocks: Tensor, scales: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Codes, the scales, and each block's squared error."""
    decoded = e4m3_to_float(scales)
    codes = float_to_e2m1(blocks * inverse(decoded))
    error = (e2m1_to_float(codes) * decoded - blocks).square().sum(dim=-1, keepdim=True)
    return codes, scales, error


def decode_nvfp4(codes: Tensor, scales: Tensor, head_scale: Tensor, dtype: torch.dtype) -> Tensor:
    """One table look-up gives both values of a byte."""
    heads, tokens, half = codes.shape
    values = e2m1_pairs(codes.device)[codes.int()].view(heads, tokens, 2 * half // BLOCK, BLOCK)
    scaled = values * (e4m3_to_float(scales) * head_scale).unsqueeze(-1)
    return scaled.view(heads, tokens, 2 * half).to(dtype)


def e2m1_pairs(device: torch.device) -> Tensor:
    """[256, 2]: the two values of each byte."""
    codes = torch.arange(256, device=device)
    return torch.stack([e2m1_to_float(codes & 15), e2m1_to_float(codes >> 4)], dim=-1)
