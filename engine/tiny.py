"""A model of random weights that reads in no time, for tests of everything around the engine.

Its answers mean nothing. The tokenizer and the chat template are the default model's, so prompts are
the real ones.
"""

from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from engine.models import find_model
from engine.tokenizer import load_tokenizer


def save_tiny_model(folder: Path, *, cache_dir: Path) -> None:
    """Into `folder`, which may be given as the name of a model then. Always the same weights."""
    tokenizer: Any = load_tokenizer(find_model("default", cache_dir=cache_dir))
    tokenizer.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=2048,
    )
    with torch.random.fork_rng():
        torch.manual_seed(3)
        LlamaForCausalLM(config).save_pretrained(folder)
