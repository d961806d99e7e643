"""The kernels behind the engine, in Triton's interpreter, against the same engine in plain torch.

In a process of its own: whether kernels are interpreted is decided when they are first imported.
"""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
from pathlib import Path
import torch
from engine.config import EngineConfig
from engine.engine import Engine
from engine.types import Group, Suffix
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

def build():
    torch.manual_seed(7)
    shape = dict(vocab_size=99, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=16, max_position_embeddings=256,
        initializer_range=0.2, sliding_window=24,
        layer_types=["sliding_attention", "full_attention"])
    return Gemma3ForCausalLM(Gemma3TextConfig(**shape)).bfloat16()

def suffix(first, count):
    return Suffix(token_ids=tuple(range(first, first + count)), label_ids=(1, 2, 3))

groups = [
    Group(prefix_ids=tuple(range(1, 70)), suffixes=(suffix(5, 9), suffix(40, 2)), shared_tokens=9),
]
for name in ("nvfp4",):
    reads = {}
    for attention in ("torch", "triton"):
        config = EngineConfig(cache_dir=Path(), attention=attention, kv_format=name)
        engine = Engine(build(), config, name="tiny", revision="r")
        scores = [score for group in engine.read(groups) for score in group.scores]
        assert engine.info.attention == attention
        reads[attention] = torch.tensor([score.log_probs for score in scores])
        engine.check_integrity()
    print(name, float((reads["torch"] - reads["triton"]).abs().max()))
"""

#: bfloat16 rounds in other places in the two: this much is its noise on these weights.
NOISE = 0.2


def test_the_kernels_read_what_plain_torch_reads() -> None:
    environment = os.environ | {"TRITON_INTERPRET": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    differences = dict(line.split() for line in done.stdout.splitlines())
    assert len(differences) == 1
    assert all(float(value) < NOISE for value in differences.values()), differences
