"""Stored forms: how far they are from what was stored, and what a state's readers see."""

from typing import Any

import pytest
import torch

from engine.engine import Engine
from engine.kv import FORMATS, SINK_TOKENS
from engine.types import Group, LabelScores

#: Largest share of a row's norm that a format may lose, measured on normal rows and rounded up.
LOSSES = {"native": 0.0, "bf16": 0.004, "int8": 0.01, "fp8_e4m3": 0.03, "k8v4": 0.10, "nvfp4": 0.10}


def read(engine: Engine, groups: list[Group]) -> list[LabelScores]:
    scores = [score for group in engine.read(groups) for score in group.scores]
    engine.check_integrity()
    return scores


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_format_loses_no_more_than_its_bits(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    rows = torch.randn(2, 100, 64).to(dtype)
    layer = FORMATS[name].pack(rows, rows * 3)
    for unpacked, truth in zip(layer.unpack(dtype), (rows, rows * 3), strict=True):
        assert unpacked.dtype == dtype
        error = (unpacked.float() - truth.float()).norm(dim=-1) / truth.float().norm(dim=-1)
        assert error.mean() <= LOSSES[name] + (0.004 if dtype == torch.bfloat16 else 0)


@pytest.mark.parametrize("name", FORMATS)
def test_rows_of_zeros_and_of_great_size_survive(name: str) -> None:
    rows = torch.zeros(1, 6, 16)
    rows[0, 5] = torch.linspace(-3e4, 3e4, 16)
    keys, _ = FORMATS[name].pack(rows, rows).unpack(torch.float32)
    assert keys[0, :5].abs().max() == 0
    assert keys[0, 5].isfinite().all()
    assert torch.allclose(keys[0, 5], rows[0, 5], atol=6e3)


def test_nvfp4_keeps_the_first_tokens_as_they_are() -> None:
    rows = torch.randn(2, 9, 32)
    keys, values = FORMATS["nvfp4"].pack(rows, -rows).unpack(torch.float32)
    assert torch.equal(keys[:, :SINK_TOKENS], rows[:, :SINK_TOKENS])
    assert torch.equal(values[:, :SINK_TOKENS], -rows[:, :SINK_TOKENS])
    assert not torch.equal(keys, rows)


@pytest.mark.parametrize("name", FORMATS)
def test_a_hit_a_miss_and_a_state_without_room_read_the_same_bits(tiny: Any, name: str) -> None:
    groups = tiny.groups(seed=21, count=4)
    engine = tiny.engine(tiny.build("gemma3"), kv_format=name)
    assert engine.info.kv_format == name
    first, again = read(engine, groups), read(engine, groups)
    assert engine.stats.prefix_hits == len(groups)
    loose = tiny.engine(tiny.build("gemma3"), kv_format=name, prefix_store_bytes=0)
    assert first == again == read(loose, groups)


@pytest.mark.parametrize("name", FORMATS)
def test_pages_take_fewer_bytes_the_fewer_the_bits(tiny: Any, name: str) -> None:
    engine = tiny.engine(tiny.build("llama"), kv_format=name)
    engine.read(tiny.groups(seed=22, count=1))
    pages = engine.stats.stored_bytes // engine._store._arena.page_bytes
    values = 2 * 2 * 16  # keys and values, heads, dim
    bits = {"native": 32, "bf16": 16, "int8": 9, "fp8_e4m3": 9, "k8v4": 6.75, "nvfp4": 4.5}
    assert engine.stats.stored_bytes == pages * 64 * values * bits[name] / 8
