"""Our import names are general words, so this proves that each means ours and nobody else's."""

import importlib.util
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES: list[str] = PROJECT["tool"]["uv"]["build-backend"]["module-name"]


def test_the_packages_are_those_of_the_design() -> None:
    assert PACKAGES == ["api", "cli", "decisions", "engine", "kernels", "migrations", "workers"]


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_is_found_in_this_repository(name: str) -> None:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    assert Path(spec.origin).is_relative_to(ROOT)


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_is_found_in_this_repository_from_elsewhere(name: str, tmp_path: Path) -> None:
    code = f"import importlib.util; print(importlib.util.find_spec({name!r}).origin)"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert Path(found.stdout.strip()).is_relative_to(ROOT)


def test_no_installed_distribution_has_the_name_of_one_of_our_packages() -> None:
    # Hugging Face has one called kernels. pip merges the two folders without a word.
    installed = {found.metadata["Name"].lower() for found in distributions()}
    assert not installed & set(PACKAGES)


def test_no_installed_distribution_puts_files_into_our_packages() -> None:
    intruders = {
        found.metadata["Name"]
        for found in distributions()
        for file in found.files or []
        if file.parts[0] in PACKAGES
    }
    assert intruders == set()


def test_both_resolvers_refuse_the_other_kernels() -> None:
    assert "kernels<0" in PROJECT["tool"]["uv"]["constraint-dependencies"]
    assert "kernels<0" in (ROOT / "constraints.txt").read_text().splitlines()


def test_our_version_is_none_that_transformers_takes_for_the_other_kernels() -> None:
    # With an editable install transformers finds our `kernels` and asks for that name's version.
    from transformers.utils.import_utils import is_kernels_available

    assert not is_kernels_available()


@pytest.mark.parametrize("name", PACKAGES)
def test_package_inits_are_empty(name: str) -> None:
    for found in (ROOT / name).rglob("__init__.py"):
        assert found.read_bytes() == b"", found


def test_tests_are_no_package() -> None:
    assert list((ROOT / "tests").rglob("__init__.py")) == []


def test_every_direct_dependency_has_an_exact_version() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {line.partition("==")[0] for line in lines if "==" in line}
    asked = [
        *PROJECT["project"]["dependencies"],
        *PROJECT["project"]["optional-dependencies"]["engine"],
        *PROJECT["dependency-groups"]["dev"],
    ]
    names = {line.split(">")[0].split("[")[0].lower().replace("_", "-") for line in asked}
    assert names - pinned == set()


def test_no_pin_is_bound_to_one_build_of_torch() -> None:
    assert "+" not in (ROOT / "constraints.txt").read_text().partition("\naccelerate")[2]


def test_the_wheel_holds_our_packages_alone(tmp_path: Path) -> None:
    backend = Path(sys.executable).with_name("uv-build")
    subprocess.run([backend, "build-wheel", tmp_path], cwd=ROOT, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    roots = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {root for root in roots if not root.endswith(".dist-info")} == set(PACKAGES)


def test_every_migration_says_whether_it_runs_before_or_after_the_code() -> None:
    """`pre` only adds, so that the code of before still runs; `post` removes what nobody uses any more."""
    for path in (ROOT / "migrations" / "versions").glob("*.py"):
        assert re.fullmatch(r"\d{4}_(pre|post)_\w+\.py", path.name), path.name
