"""A model that would be read wrongly is refused by name when it is loaded."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BloomConfig, BloomForCausalLM, Qwen3NextConfig, Qwen3NextForCausalLM

from engine.errors import UnsupportedModel
from engine.loading import load_model
from engine.models import ModelFolder


def test_a_model_whose_attention_is_its_own_is_refused(tiny: Any) -> None:
    config = BloomConfig(vocab_size=64, hidden_size=16, n_layer=1, n_head=2)
    with pytest.raises(UnsupportedModel, match="tiny"):
        tiny.engine(BloomForCausalLM(config))


def test_a_model_that_keeps_no_keys_in_some_layer_is_refused(tiny: Any) -> None:
    config = Qwen3NextConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        layer_types=["linear_attention", "full_attention"],
        num_experts=0,
    )
    with pytest.raises(UnsupportedModel, match="linear_attention"):
        tiny.engine(Qwen3NextForCausalLM(config))


def test_a_head_that_does_more_than_the_engine_knows_is_refused(tiny: Any) -> None:
    model = tiny.build("llama")
    model.lm_head.register_forward_hook(lambda module, inputs, output: output * 2)
    with pytest.raises(UnsupportedModel, match="head"):
        tiny.engine(model)


def test_a_folder_that_transformers_cannot_load_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "from-the-future"}')
    folder = ModelFolder(path=tmp_path, name="new", revision="", adapter=None, manifest=None)
    with pytest.raises(UnsupportedModel, match="from-the-future"):
        load_model(folder, torch.float32, torch.device("cpu"))
