"""The default model's converted folder, from the same cache as the engine's tests use."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.models import ModelFolder, find_model
from engine.tokenizer import load_tokenizer
from training.packing import Packer

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def base_model() -> ModelFolder:
    chosen = os.environ.get("WEIGHBRIDGE_CACHE")
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return find_model(
        "smollm2-135m-instruct", cache_dir=Path(chosen) if chosen else Path(home) / "weighbridge"
    )


@pytest.fixture(scope="session")
def tokenizer(base_model: ModelFolder) -> Any:
    return load_tokenizer(base_model)


@pytest.fixture(scope="session")
def packer(tokenizer: Any) -> Packer:
    return Packer(tokenizer)
