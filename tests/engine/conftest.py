"""Tiny models built from a config, the plain way to read them, and the real default model."""

import logging
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from engine.config import EngineConfig
from engine.engine import Engine
from engine.models import ModelFolder, find_model
from engine.types import Group, LabelScores, Suffix

torch.set_num_threads(1)

VOCABULARY = 515
SHAPE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    # Ten times the default: random weights should have something to say.
    "initializer_range": 0.2,
}
#: Shorter than most states and than some suffixes of `random_groups`.
WINDOW = 24
SLIDING: dict[str, Any] = {
    "sliding_window": WINDOW,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
}


def build_llama() -> Any:
    return LlamaForCausalLM(LlamaConfig(**SHAPE))


def build_qwen3() -> Any:
    return Qwen3ForCausalLM(Qwen3Config(**SHAPE, tie_word_embeddings=True))


def build_gemma3() -> Any:
    return Gemma3ForCausalLM(Gemma3TextConfig(**SHAPE, **SLIDING))


def build_gemma2() -> Any:
    """Caps both its scores and its logits."""
    caps: dict[str, Any] = {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0}
    return Gemma2ForCausalLM(Gemma2Config(**SHAPE, **SLIDING, **caps))


BUILDERS: dict[str, Callable[[], Any]] = {
    "llama": build_llama,
    "qwen3": build_qwen3,
    "gemma3": build_gemma3,
    "gemma2": build_gemma2,
}


def build(architecture: str, dtype: torch.dtype = torch.float32) -> Any:
    torch.manual_seed(7)
    return BUILDERS[architecture]().to(dtype).eval()


def random_groups(seed: int, count: int = 5, vocabulary: int = VOCABULARY) -> list[Group]:
    """States of 1 to 150 tokens, 1 to 4 questions of 1 to 90 tokens, 1 to 5 labels."""
    draw = random.Random(seed)  # noqa: S311 - test data

    def tokens(least: int, most: int) -> tuple[int, ...]:
        return tuple(draw.randrange(vocabulary) for _ in range(draw.randint(least, most)))

    return [
        Group(
            prefix_ids=tokens(1, 150),
            suffixes=tuple(
                Suffix(token_ids=tokens(1, 90), label_ids=tokens(1, 5))
                for _ in range(draw.randint(1, 4))
            ),
        )
        for _ in range(count)
    ]


@torch.inference_mode()
def plain_log_probs(model: Any, group: Group, suffix: Suffix) -> Tensor:
    """The whole prompt alone through the model's stock attention, full softmax: [vocabulary]."""
    model.set_attn_implementation("eager")
    ids = torch.tensor([group.prefix_ids + suffix.token_ids])
    return torch.log_softmax(model(ids, use_cache=False).logits[0, -1].double(), dim=-1)


def plain_scores(model: Any, groups: Sequence[Group]) -> list[list[LabelScores]]:
    """Every read the plain way, in the engine's own words."""
    return [[_plain(model, group, suffix) for suffix in group.suffixes] for group in groups]


def _plain(model: Any, group: Group, suffix: Suffix) -> LabelScores:
    log_probs = plain_log_probs(model, group, suffix)
    labels = tuple(float(log_probs[token]) for token in suffix.label_ids)
    return LabelScores(log_probs=labels, argmax_id=int(log_probs.argmax()))


@dataclass(frozen=True, slots=True)
class Tiny:
    """What the tests of this folder share."""

    build: Callable[..., Any]
    engine: Callable[..., Engine]
    groups: Callable[..., list[Group]]
    plain: Callable[[Any, Sequence[Group]], list[list[LabelScores]]]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    folder = tmp_path_factory.mktemp("cache")

    def engine(model: Any, **settings: Any) -> Engine:
        config = EngineConfig(cache_dir=folder, **settings)
        return Engine(model, config, name="tiny", revision="r1")

    return Tiny(build=build, engine=engine, groups=random_groups, plain=plain_scores)


@pytest.fixture(scope="session")
def cache_dir() -> Path:
    """Where a user's converted models are: the tests convert once per machine, not per run."""
    chosen = os.environ.get("WEIGHBRIDGE_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(chosen) if chosen else Path(base) / "weighbridge"


@pytest.fixture(scope="session")
def default_model(cache_dir: Path) -> ModelFolder:
    logging.getLogger("engine.convert").setLevel(logging.INFO)
    return find_model("default", cache_dir=cache_dir)
