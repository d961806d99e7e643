"""The real default model: converted as transformers would load it, read as the plain way reads it."""

import math
import subprocess
import sys
from typing import Any

import pytest
import torch

from engine.config import EngineConfig
from engine.engine import load_engine
from engine.loading import load_model
from engine.models import ModelFolder
from engine.tokenizer import load_tokenizer
from engine.types import Group, Suffix

TICKETS = [
    "My invoice 2024-118 was charged twice.\n\nPlease refund the second payment of 49.90 EUR.",
    "The app crashes on start since yesterday's update (v3.2.1), on two phones. 数据丢失了! 😡",
]
QUESTIONS = [
    "Question: Which team?\nA: billing\nB: technical\nAnswer with the letter of one option only.",
    "Question: Is it urgent?\nyes: urgent\nno: can wait\nAnswer with yes or no only.",
]
START = """
import sys, time
from pathlib import Path
from engine.config import EngineConfig
from engine.engine import load_engine
from engine.models import find_model
from engine.tokenizer import load_tokenizer
imported = time.process_time()
cache = Path(sys.argv[1])
load_engine(EngineConfig(cache_dir=cache, threads=1))
load_tokenizer(find_model("default", cache_dir=cache))
print(imported, time.process_time() - imported)
"""


@pytest.fixture(scope="module")
def tokenizer(default_model: ModelFolder) -> Any:
    return load_tokenizer(default_model)


def ticket_groups(tokenizer: Any) -> list[Group]:
    labels = tuple(tokenizer.encode(label)[0] for label in ("A", "B", "yes", "no"))
    groups = []
    for ticket in TICKETS:
        prefix = tuple(tokenizer.encode(f"<|im_start|>user\n{ticket}\n\n"))
        tails = [f"{text}<|im_end|>\n<|im_start|>assistant\n" for text in QUESTIONS]
        suffixes = tuple(
            Suffix(token_ids=tuple(tokenizer.encode(tail)), label_ids=labels) for tail in tails
        )
        groups.append(Group(prefix_ids=prefix, suffixes=suffixes))
    return groups


def test_reads_of_the_default_model_equal_each_whole_prompt_alone(
    tiny: Any, default_model: ModelFolder, tokenizer: Any
) -> None:
    config = EngineConfig(cache_dir=default_model.path.parents[1], dtype="float32")
    engine = load_engine(config)
    groups = ticket_groups(tokenizer)
    plain_model = load_model(default_model, torch.float32, torch.device("cpu"))
    for group, plain in zip(engine.read(groups), tiny.plain(plain_model, groups), strict=True):
        for ours, truth in zip(group.scores, plain, strict=True):
            assert ours.argmax_id == truth.argmax_id
            for a, b in zip(ours.log_probs, truth.log_probs, strict=True):
                assert math.exp(a) == pytest.approx(math.exp(b), abs=1e-5)
    engine.check_integrity()


def test_the_converted_weights_are_the_dequantised_ones(default_model: ModelFolder) -> None:
    import importlib.metadata

    from gguf import GGUFReader
    from gguf.quants import dequantize
    from safetensors.torch import load_file

    manifest = default_model.manifest
    assert manifest is not None
    distribution = importlib.metadata.distribution(manifest.package)
    reader = GGUFReader(str(distribution.locate_file(manifest.file)))
    packed = {tensor.name: tensor for tensor in reader.tensors}
    converted = load_file(default_model.path / "model.safetensors")
    assert len(converted) == len(packed)
    names = {
        "token_embd.weight": "model.embed_tokens.weight",
        "blk.3.ffn_down.weight": "model.layers.3.mlp.down_proj.weight",
        "blk.29.attn_output.weight": "model.layers.29.self_attn.o_proj.weight",
        "blk.7.attn_norm.weight": "model.layers.7.input_layernorm.weight",
    }
    for theirs, ours in names.items():
        tensor = packed[theirs]
        truth = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy())
        assert torch.equal(converted[ours], truth.to(torch.bfloat16).view_as(converted[ours]))


def test_the_tokenizer_keeps_text_and_template(tokenizer: Any) -> None:
    for text in [*TICKETS, *QUESTIONS, " leading", "1234 567", "tab\tand\r\nline", "<|im_end|>"]:
        assert tokenizer.decode(tokenizer.encode(text)) == text
    chat = [{"role": "user", "content": "hello"}]
    prompt = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert prompt.endswith("<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n")
    assert tokenizer.encode("<|im_start|>") == [1]


def test_a_second_start_loads_in_less_time_than_its_imports_take(
    default_model: ModelFolder,
) -> None:
    """Importing torch and transformers takes about two seconds on a quiet machine, so a start takes
    under five. Compared within one process, as other work slows even processor time."""
    command = [sys.executable, "-c", START, str(default_model.path.parents[1])]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    imported, loaded = (float(seconds) for seconds in done.stdout.split())
    assert loaded < imported


def test_the_engine_says_which_model_it_reads(default_model: ModelFolder) -> None:
    info = load_engine(EngineConfig(cache_dir=default_model.path.parents[1])).info
    assert (info.model, info.context_tokens) == ("SmolLM2-135M-Decisions", 8192)
    assert info.revision == default_model.revision
