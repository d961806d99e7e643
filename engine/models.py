"""From a model's name to a folder that transformers loads: config, safetensors, tokenizer.

A name is "default", a manifest's name, a hub id or a local folder. A manifest (manifests/*.toml)
names an installed distribution that carries a GGUF file; it is converted once into the cache.
Knows files and hashes, no tensors.
"""

import hashlib
import importlib.metadata
import tomllib
from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path

from engine.convert import CONVERSION, convert_once
from engine.errors import ChecksumMismatch, ModelNotFound, PackageMissing

DEFAULT_MODEL = "smollm2-135m-decisions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One model that an installed distribution carries."""

    #: The model's own name.
    name: str
    #: The distribution that carries the weights.
    package: str
    #: The version of it that was checked.
    version: str
    #: The weights' path in the distribution.
    file: str
    #: SHA-256 of that file.
    sha256: str
    #: Folder of the adapter beside the manifest, empty for none.
    adapter: str
    #: How options become labels: "letters".
    labels: str
    #: SPDX id of the weights' licence.
    licence: str
    #: What a person who chooses it should know.
    notes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFolder:
    """A model on disk, ready to load."""

    #: Holds config.json, *.safetensors and the tokenizer.
    path: Path
    #: The name that decisions record.
    name: str
    #: Changes with the weights, the adapter and the conversion.
    revision: str
    #: Folder of the adapter to merge in, None for none.
    adapter: Path | None
    #: Where it came from, None for a hub id or a local folder.
    manifest: Manifest | None


def find_model(name: str, *, cache_dir: Path, adapter: str | None = None) -> ModelFolder:
    """The folder of the model called `name`, converted into `cache_dir` if need be.

    The first call for a packaged model takes up to a minute and logs its progress; later calls are
    instant. Raises ModelNotFound, PackageMissing, ChecksumMismatch or ConversionFailed.
    """
    manifest_path = _manifests() / f"{DEFAULT_MODEL if name == 'default' else name}.toml"
    if manifest_path.is_file():
        return _packaged(read_manifest(manifest_path), cache_dir, adapter)
    folder = Path(name).expanduser()
    if folder.is_dir():
        return _local(folder.resolve(), folder.resolve().name, adapter)
    return _local(_from_hub(name), name, adapter)


def read_manifest(path: Path) -> Manifest:
    """Parse one manifest. Raises ModelNotFound when a field is missing or unknown."""
    values = tomllib.loads(path.read_text(encoding="utf-8"))
    expected = {field.name for field in fields(Manifest)}
    if set(values) != expected:
        wrong = ", ".join(sorted(expected ^ set(values)))
        raise ModelNotFound(
            model=path.stem, reason=f"its manifest misses or does not know: {wrong}"
        )
    return Manifest(**values)


def _manifests() -> Path:
    return Path(str(resources.files("engine"))) / "manifests"


def _packaged(manifest: Manifest, cache_dir: Path, adapter: str | None) -> ModelFolder:
    chosen = adapter or (str(_manifests() / manifest.adapter) if manifest.adapter else None)
    # Named by the base alone: an adapter is merged when the model is loaded.
    base = f"{manifest.package}-{manifest.sha256[:12]}-{CONVERSION}"
    target = cache_dir.expanduser() / "models" / base
    convert_once(manifest.name, target, lambda: _checked_source(manifest))
    adapter_path = _adapter_folder(chosen)
    revision = _digest(manifest.sha256, CONVERSION, *_adapter_hashes(adapter_path))
    return ModelFolder(
        path=target,
        name=manifest.name,
        revision=revision,
        adapter=adapter_path,
        manifest=manifest,
    )


def _checked_source(manifest: Manifest) -> Path:
    try:
        distribution = importlib.metadata.distribution(manifest.package)
    except importlib.metadata.PackageNotFoundError as error:
        raise PackageMissing(package=manifest.package, version=manifest.version) from error
    path = Path(str(distribution.locate_file(manifest.file)))
    if not path.is_file():
        raise PackageMissing(package=manifest.package, version=manifest.version)
    actual = _file_hash(path)
    if actual != manifest.sha256:
        raise ChecksumMismatch(path=path, expected=manifest.sha256, actual=actual)
    return path


def _local(path: Path, name: str, adapter: str | None) -> ModelFolder:
    if not (path / "config.json").is_file():
        raise ModelNotFound(model=name, reason="the folder has no config.json")
    weights = sorted(path.glob("*.safetensors"))
    if not weights:
        raise ModelNotFound(model=name, reason="the folder has no *.safetensors")
    adapter_path = _adapter_folder(adapter)
    hashes = [_file_hash(file) for file in (path / "config.json", *weights)]
    revision = _digest(*hashes, *_adapter_hashes(adapter_path))
    return ModelFolder(path=path, name=name, revision=revision, adapter=adapter_path, manifest=None)


def _from_hub(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    wanted = ["*.json", "*.safetensors", "*.model", "*.jinja", "*.txt"]
    try:
        return Path(snapshot_download(name, allow_patterns=wanted))
    except HFValidationError as error:
        raise ModelNotFound(model=name, reason="no such folder, manifest or hub id") from error
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise ModelNotFound(model=name, reason=f"the hub did not give it: {error}") from error


def _adapter_folder(adapter: str | None) -> Path | None:
    if adapter is None:
        return None
    path = Path(adapter).expanduser()
    if not (path / "adapter_config.json").is_file():
        raise ModelNotFound(model=adapter, reason="the adapter's folder has no adapter_config.json")
    return path.resolve()


def _adapter_hashes(path: Path | None) -> list[str]:
    if path is None:
        return []
    return [
        _file_hash(path / name) for name in ("adapter_config.json", "adapter_model.safetensors")
    ]


def _file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
