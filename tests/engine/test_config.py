"""A setting that makes no sense is refused by name when it is made, never later."""

from pathlib import Path
from typing import Any

import pytest

from engine.config import EngineConfig
from engine.loading import choose_device, choose_dtype, has_bfloat16
from engine.threads import set_thread_environment


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dtype", "float64"),
        ("device", "tpu"),
        ("kv_format", "int2"),
        ("max_tokens_per_pass", 0),
        ("prefix_store_bytes", -1),
        ("threads", 0),
        ("model", ""),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        EngineConfig(**{"cache_dir": Path("cache"), name: value})


def test_auto_takes_bfloat16_only_where_it_is_multiplied_in_hardware() -> None:
    assert has_bfloat16({"avx512_bf16": True, "amx_bf16": False})
    assert has_bfloat16({"amx_bf16": True})
    assert not has_bfloat16({"avx512_f": True, "avx512_bf16": False})
    assert str(choose_dtype("float32", choose_device("cpu"))) == "torch.float32"


def test_threads_cannot_be_set_once_torch_is_there() -> None:
    with pytest.raises(RuntimeError, match="before torch"):
        set_thread_environment({}, 1)


def test_thread_settings_that_are_there_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(__import__("sys").modules, "torch")
    environment = {"OMP_NUM_THREADS": "7"}
    set_thread_environment(environment, 2)
    assert environment == {"OMP_NUM_THREADS": "7", "OMP_WAIT_POLICY": "PASSIVE"}
