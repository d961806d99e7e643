"""Attention in parts, over packed states, against float64; bits that neighbours do not change."""

import pytest
import torch
from torch import Tensor

from kernels.formats import PagedRows, encode_e4m3, encode_int8, encode_nvfp4
from kernels.merge_parts import merge_parts, merge_parts_reference
from kernels.runtime import PAGE
from kernels.state_attention import Parts, state_attention, state_attention_reference
from kernels.suffix_attention import suffix_attention, suffix_attention_reference

HEADS, KV_HEADS, DIM = 4, 2, 64
STATE = 100  # two pages, the second one partly filled
LENGTHS = [5, 1, 19]
SCALING = DIM**-0.5
BLOCK = 32


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape).bfloat16()


def paged(rows: Tensor, codec: str, order: list[int]) -> PagedRows:
    """Rows [heads, tokens, dim] packed and laid out in the pages of `order`, of three."""

    def lay(part: Tensor) -> Tensor:
        pages = part.new_zeros((part.shape[0], 3, PAGE, part.shape[2]))
        for page, piece in zip(order, torch.split(part, PAGE, dim=1), strict=True):
            pages[:, page, : piece.shape[1]] = piece
        return pages

    if codec == "bf16":
        return PagedRows(codec, lay(rows))
    if codec == "nvfp4":
        codes, scales, head_scale = encode_nvfp4(rows)
        return PagedRows(codec, lay(codes), lay(scales), head_scale)
    codes, scales = (encode_int8 if codec == "int8" else encode_e4m3)(rows)
    return PagedRows(codec, lay(codes), lay(scales))


def _of_own(features: dict[str, int | float | None]) -> dict[str, int | float | None]:
    """What concerns a question's own tokens too; only a state's are skipped."""
    return {name: value for name, value in features.items() if name != "skip"}


class Case:
    """One state in pages, and packed questions about it."""

    def __init__(self, key_codec: str, value_codec: str) -> None:
        torch.manual_seed(2)
        self.pages = torch.tensor([2, 0], dtype=torch.int32)
        order = self.pages.tolist()
        self.state_keys = paged(draw(KV_HEADS, STATE, DIM), key_codec, order)
        self.state_values = paged(draw(KV_HEADS, STATE, DIM), value_codec, order)
        rows = sum(LENGTHS)
        self.query, self.keys, self.values = (
            draw(rows, heads, DIM) for heads in (HEADS, KV_HEADS, KV_HEADS)
        )
        self.positions = torch.cat([STATE + torch.arange(n) for n in LENGTHS]).int()

    def read(self, at: slice, lengths: list[int], **features: int | float | None) -> Tensor:
        state = state_attention(
            self.query[at].contiguous(),
            self.positions[at].contiguous(),
            self.state_keys,
            self.state_values,
            self.pages,
            STATE,
            SCALING,
            block=BLOCK,
            **features,  # type: ignore[arg-type]
        )
        own = suffix_attention(
            self.query[at].contiguous(),
            self.keys[at].contiguous(),
            self.values[at].contiguous(),
            lengths,
            SCALING,
            block=BLOCK,
            **_of_own(features),  # type: ignore[arg-type]
        )
        return merge_parts(state, own)

    def truth(self, **features: int | float | None) -> Tensor:
        state = state_attention_reference(
            self.query,
            self.positions,
            self.state_keys,
            self.state_values,
            self.pages,
            STATE,
            SCALING,
            **features,  # type: ignore[arg-type]
        )
        own = suffix_attention_reference(
            self.query,
            self.keys,
            self.values,
            LENGTHS,
            SCALING,
            **_of_own(features),  # type: ignore[arg-type]
        )
        lse = torch.stack([state[1], own[1]])
        weights = torch.softmax(lse, dim=0)[..., None]
        return (weights * torch.stack([state[0].nan_to_num(), own[0]])).sum(0)


@pytest.mark.parametrize(
    ("keys", "values"),
    [("bf16", "bf16"), ("int8", "int8"), ("e4m3", "e4m3"), ("int8", "nvfp4"), ("nvfp4", "nvfp4")],
)
def test_both_parts_merged_equal_float64_within_bfloat16s_rounding(keys: str, values: str) -> None:
    case = Case(keys, values)
    ours, truth = case.read(slice(None), LENGTHS).double(), case.truth()
    assert (ours - truth).norm() / truth.norm() < 4e-3


def test_a_question_alone_gets_the_bits_that_it_gets_among_others() -> None:
    case = Case("int8", "nvfp4")
    together = case.read(slice(None), LENGTHS)
    last = slice(sum(LENGTHS[:2]), sum(LENGTHS))
    assert torch.equal(case.read(last, LENGTHS[2:]), together[last])


@pytest.mark.parametrize("features", [{"window": 40}, {"softcap": 2.0}, {"skip": 30}])
def test_windows_and_caps_are_what_they_are_in_float64(features: dict[str, float]) -> None:
    case = Case("int8", "int8")
    ours, truth = case.read(slice(None), LENGTHS, **features).double(), case.truth(**features)
    assert (ours - truth).norm() / truth.norm() < 4e-3
    assert (ours - case.truth()).norm() / truth.norm() > 0.02


def test_a_merge_follows_the_order_of_its_parts_and_survives_empty_ones() -> None:
    torch.manual_seed(4)
    o, m, total = torch.randn(3, 7, 2, 16), torch.randn(3, 7, 2) * 5, torch.rand(3, 7, 2) + 0.1
    m[1, 3], total[1, 3], o[1, 3] = -1e30, 0, 0
    parts = Parts(o, m, total)
    truth = merge_parts_reference(parts)
    error = (merge_parts(parts).double() - truth).norm() / truth.norm()
    assert error <= (truth.bfloat16().double() - truth).norm() / truth.norm() + 1e-6
