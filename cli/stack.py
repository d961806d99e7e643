"""A whole Weighbridge on one machine: servers, schema, key, API, worker. Started in this order.

DATABASE_URL and REDIS_URL are used where they are set; where they are not, a real Postgres and a real
Valkey are started from their wheels.
"""

import os
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cli.client import Address, write_address
from cli.embedded import EmbeddedPostgres, EmbeddedValkey
from cli.paths import Home
from cli.processes import Command, Process
from cli.supervisor import Supervisor, wait_until_healthy
from decisions import keys
from decisions.database import migrate, sync_engine, transaction

#: From the start of the API to its first answer.
API_SECONDS = 60.0

HOST = "127.0.0.1"

Say = Callable[[str], None]

_NAMES = {"api": "api", "workers": "worker", "workers.webhooks": "webhooks"}


@dataclass(frozen=True, kw_only=True)
class Stack:
    """What runs."""

    address: Address
    database_url: str
    api: Process
    worker: Process
    #: Sends webhooks.
    webhooks: Process


def start_stack(
    supervisor: Supervisor, home: Home, env: Mapping[str, str], *, port: int, say: Say
) -> Stack:
    """`port` 0 takes a free one. `say` hears what is being started."""
    home.make()
    database_url = env.get("DATABASE_URL") or _start_postgres(supervisor, home, say)
    redis_url = env.get("REDIS_URL") or _start_valkey(supervisor, home, say)
    say("Migrating the schema")
    migrate(database_url)
    address = Address(url=f"http://{HOST}:{port or _free_port()}", api_key=_key(home, database_url))
    process_env = {**env, "DATABASE_URL": database_url, "REDIS_URL": redis_url}
    say("Starting the API")
    api = _process("api", home, process_env | _listen(address))
    supervisor.start(api)
    wait_until_healthy(api, f"{address.url}/readyz", seconds=API_SECONDS)
    say("Starting a worker")
    worker = _process("workers", home, process_env)
    supervisor.start(worker)
    webhooks = _process("workers.webhooks", home, process_env)
    supervisor.start(webhooks)
    write_address(home, address)
    return Stack(
        address=address, database_url=database_url, api=api, worker=worker, webhooks=webhooks
    )


def _start_postgres(supervisor: Supervisor, home: Home, say: Say) -> str:
    say("Starting Postgres")
    return supervisor.start(EmbeddedPostgres(home))


def _start_valkey(supervisor: Supervisor, home: Home, say: Say) -> str:
    say("Starting Valkey")
    return supervisor.start(EmbeddedValkey(home))


def _process(module: str, home: Home, env: Mapping[str, str]) -> Process:
    return Process(
        Command(
            name=_NAMES[module],
            argv=[sys.executable, "-m", module],
            env=env,
            log=home.logs / f"{_NAMES[module]}.log",
            # A worker ends the claim that it is reading.
            stop_seconds=30.0,
        )
    )


def _listen(address: Address) -> dict[str, str]:
    host, _, port = address.url.removeprefix("http://").partition(":")
    return {"WEIGHBRIDGE_HOST": host, "WEIGHBRIDGE_PORT": port}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _key(home: Home, database_url: str) -> str:
    """The home's own key for the default tenant; made once, and again when the database is new."""
    path = home.path / "api-key"
    secret = path.read_text().strip() if path.exists() else ""
    engine = sync_engine(database_url)
    with transaction(engine) as connection:
        if not secret or connection.execute(keys.find(secret)).first() is None:
            key = keys.new_key()
            tenant = connection.execute(keys.ensure_tenant(keys.DEFAULT_TENANT)).scalar_one()
            connection.execute(keys.store(tenant, "weighbridge up", key))
            _write_secret(path, key.secret)
            secret = key.secret
    engine.dispose()
    return secret


def _write_secret(path: Path, secret: str) -> None:
    with open(path, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(secret)
