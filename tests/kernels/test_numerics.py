"""Conversions by integer operations are exact: every code, and values of every size and ties."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.numerics import (
    bf16_to_f32,
    e2m1_to_f32,
    e4m3_to_f32,
    f32_to_bf16,
    f32_to_e2m1,
    f32_to_e4m3,
)

BLOCK = 8192


@triton.jit  # type: ignore[untyped-decorator]
def _encode(X, BF16, E4M3, E2M1, n, B: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(X + at, mask=at < n, other=0.0)
    tl.store(BF16 + at, f32_to_bf16(x), mask=at < n)
    tl.store(E4M3 + at, f32_to_e4m3(x), mask=at < n)
    tl.store(E2M1 + at, f32_to_e2m1(x), mask=at < n)


@triton.jit  # type: ignore[untyped-decorator]
def _decode(BF16, CODES, FROM_BF16, FROM_E4M3, FROM_E2M1, n, B: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * B + tl.arange(0, B)
    code = tl.load(CODES + at, mask=at < n, other=0)
    tl.store(FROM_BF16 + at, bf16_to_f32(tl.load(BF16 + at, mask=at < n, other=0.0)), mask=at < n)
    tl.store(FROM_E4M3 + at, e4m3_to_f32(code), mask=at < n)
    tl.store(FROM_E2M1 + at, e2m1_to_f32(code & 15), mask=at < n)


def every_bfloat16() -> Tensor:
    return torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)


def values() -> Tensor:
    """Any bits, every bfloat16 and so every tie of the narrower forms, and sizes near the limits."""
    torch.manual_seed(0)
    bits = torch.randint(-(2**31), 2**31, (200_000,)).to(torch.int32).view(torch.float32)
    near = torch.cat([torch.randn(50_000) * size for size in (1e-4, 1e-2, 1, 10, 200)])
    mixed = torch.cat([bits, near, every_bfloat16().float()])
    return mixed[~mixed.isnan()]


def test_encoding_equals_torch_bit_by_bit() -> None:
    x = values()
    n = len(x)
    bf16 = torch.empty(n, dtype=torch.bfloat16)
    e4m3, e2m1 = (torch.empty(n, dtype=torch.uint8) for _ in range(2))
    _encode[(triton.cdiv(n, BLOCK),)](x, bf16, e4m3, e2m1, n, BLOCK)
    assert torch.equal(bf16.view(torch.int16), x.bfloat16().view(torch.int16))
    truth = x.clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8)
    assert torch.equal(e4m3, truth)
    from kernels.formats import float_to_e2m1

    assert torch.equal(e2m1, float_to_e2m1(x))


def test_decoding_every_code_equals_torch() -> None:
    bf16 = every_bfloat16()
    codes = torch.arange(65536, dtype=torch.int32).to(torch.uint8)
    out = [torch.empty(65536) for _ in range(3)]
    _decode[(8,)](bf16, codes, *out, 65536, BLOCK)
    finite = ~bf16.isnan()
    assert torch.equal(out[0][finite], bf16.float()[finite])
    assert torch.equal(
        out[1].nan_to_num(1e9), codes.view(torch.float8_e4m3fn).float().nan_to_num(1e9)
    )
    table = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    assert torch.equal(out[2], torch.cat([table, -table])[(codes & 15).long()])
