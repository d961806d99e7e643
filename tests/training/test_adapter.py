"""The adapter that ships is the one that was measured, and the engine adds it as the evaluation did."""

import hashlib
import random
from pathlib import Path

import pytest
import torch

from engine.loading import load_model
from engine.models import ModelFolder, find_model
from training.bank import load
from training.export import export
from training.messages import Messages
from training.packing import Packer
from training.student import MATRICES, Frozen, Layer, Student

FOLDER = Path(__file__).parents[2] / "engine" / "manifests" / "smollm2-135m-decisions"


def test_its_checksum_is_the_recorded_one() -> None:
    recorded, name = (FOLDER / "SHA256SUMS").read_text().split()
    assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == recorded


def test_it_stays_small_to_ship() -> None:
    assert (FOLDER / "adapter_model.safetensors").stat().st_size < 8 * 2**20


@pytest.fixture(scope="module")
def merged(base_model: ModelFolder) -> Student:
    return Student(base_model.path, merged=FOLDER, dtype=torch.float32)


def test_the_engine_merges_it_to_the_weights_that_were_evaluated(
    base_model: ModelFolder, merged: Student
) -> None:
    folder = find_model(
        "smollm2-135m-instruct", cache_dir=base_model.path.parents[1], adapter=str(FOLDER)
    )
    theirs = load_model(folder, torch.float32, torch.device("cpu"))
    for number in (0, 10, 29):
        layer = merged.layers[number]
        assert isinstance(layer, Layer)
        parts = (layer.q, layer.k, layer.v, layer.o, layer.gate, layer.up, layer.down)
        for name, part in zip(MATRICES, parts, strict=True):
            assert isinstance(part, Frozen)
            weight = theirs.get_submodule(f"model.layers.{number}.{name}").get_parameter("weight")
            assert torch.allclose(weight, part.weight, atol=1e-5), name


def test_an_exported_checkpoint_reads_as_the_model_that_was_trained(
    base_model: ModelFolder, packer: Packer, tmp_path: Path
) -> None:
    torch.manual_seed(1)
    student = Student(base_model.path, rank=4, first=26, dtype=torch.float32)
    for _, part in student.adapters():
        torch.nn.init.normal_(part.b, std=0.05)
    student.save(tmp_path / "checkpoint.safetensors", {})
    export(tmp_path / "checkpoint.safetensors", tmp_path / "adapter", "base")
    rng = random.Random(2)  # noqa: S311
    tree = packer.tree(Messages(load(held=True)).case(rng))
    with torch.no_grad():
        trained = student([tree])[0].softmax(-1)
        shipped = Student(base_model.path, merged=tmp_path / "adapter", dtype=torch.float32)(
            [tree]
        )[0].softmax(-1)
    assert torch.allclose(trained, shipped, atol=5e-3)
