"""Packed rows equal the plain torch form bit by bit, and lose no more than their bits."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from kernels.formats import (
    decode_e4m3,
    decode_int8,
    decode_nvfp4,
    e4m3_to_float,
    encode_e4m3,
    encode_int8,
    encode_nvfp4,
    float_to_e2m1,
    float_to_e4m3,
)
from kernels.pack_e4m3 import pack_e4m3
from kernels.pack_int8 import pack_int8
from kernels.pack_nvfp4 import pack_nvfp4


def rows() -> Tensor:
    """Odd counts, outlying channels as keys have them, a row of zeros, ties and tiny values."""
    torch.manual_seed(3)
    x = torch.randn(3, 37, 64) * torch.exp(torch.randn(64))
    x[0, 5] = 0
    x[1, 2] = torch.linspace(-1, 1, 64)
    x[2, 7] *= 1e-6
    return x.bfloat16()


@pytest.mark.parametrize(
    ("kernel", "reference"),
    [(pack_int8, encode_int8), (pack_e4m3, encode_e4m3), (pack_nvfp4, encode_nvfp4)],
)
def test_a_kernel_packs_the_bits_of_its_reference(
    kernel: Callable[[Tensor], tuple[Tensor, ...]],
    reference: Callable[[Tensor], tuple[Tensor, ...]],
) -> None:
    for ours, theirs in zip(kernel(rows()), reference(rows()), strict=True):
        assert ours.shape == theirs.shape
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize(
    ("encode", "decode", "step"),
    [(encode_int8, decode_int8, 0.51 / 127), (encode_e4m3, decode_e4m3, 2**-4)],
)
def test_eight_bits_are_off_by_half_a_step_at_most(
    encode: Callable[[Tensor], tuple[Tensor, ...]], decode: Callable[..., Tensor], step: float
) -> None:
    truth = rows().float()
    error = (decode(*encode(rows()), torch.float32) - truth).abs()
    largest = truth.abs().amax(-1, keepdim=True)
    assert bool((error <= step * largest + 1e-9).all())


def test_four_bits_lose_less_with_the_better_of_two_block_scales() -> None:
    truth = rows().float()
    decoded = decode_nvfp4(*encode_nvfp4(rows()), torch.float32)
    assert (decoded - truth).norm() / truth.norm() < 0.1


def test_decoding_e4m3_by_its_bits_equals_torchs_cast() -> None:
    codes = torch.tensor([code for code in range(256) if code & 0x7F != 0x7F], dtype=torch.uint8)
    for dtype in (torch.float32, torch.bfloat16):
        decoded = decode_e4m3(codes, torch.ones(1, dtype=torch.bfloat16), dtype)
        assert torch.equal(decoded.float(), e4m3_to_float(codes))


def test_rounding_goes_to_the_nearest_and_ties_to_the_even_code() -> None:
    values = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 9.0, -0.26])
    assert float_to_e2m1(values).tolist() == [0, 2, 2, 4, 4, 6, 6, 7, 9]
    assert e4m3_to_float(float_to_e4m3(torch.tensor([1e9, -1e9]))).tolist() == [448.0, -448.0]
