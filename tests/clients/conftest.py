"""Other people's clients against the whole of it: a real API, a real worker, the default model."""

import os
from collections.abc import Iterator

import httpx2
import psycopg
import pytest

from cli.client import Address
from cli.embedded import EmbeddedPostgres, EmbeddedValkey
from cli.paths import Home
from cli.stack import start_stack
from cli.supervisor import Supervisor
from workers.settings import default_cache


@pytest.fixture(scope="session")
def server(
    postgres: EmbeddedPostgres, valkey: EmbeddedValkey, session_home: Home
) -> Iterator[Address]:
    """Where it is, and a key."""
    base, _, template = postgres.url.rpartition("/")
    admin = f"{base}/postgres".replace("postgresql+psycopg", "postgresql")
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE clients TEMPLATE {template} STRATEGY file_copy")
    env = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/"),
        "OMP_WAIT_POLICY": "PASSIVE",
        "WEIGHBRIDGE_THREADS": "1",
        # A choice of 255 options is a long prompt for a busy machine.
        "WEIGHBRIDGE_WAIT_SECONDS": "300",
        "DATABASE_URL": f"{base}/clients",
        # A database of its own: other tests empty the first one.
        "REDIS_URL": f"{valkey.url.rpartition('/')[0]}/9",
        "WEIGHBRIDGE_CACHE": str(default_cache()),
        "WEIGHBRIDGE_MODEL": "default",
    }
    home = Home(path=session_home.path / "clients")
    with Supervisor() as supervisor:
        address = start_stack(supervisor, home, env, port=0, say=lambda _: None).address
        wait_for_the_worker(address)
        yield address


def wait_for_the_worker(address: Address) -> None:
    """By a first question; it takes as long as the model takes to load."""
    httpx2.post(
        f"{address.url}/v1/systemone",
        json={"state": "Are you there?", "questions": {"q": {"type": "noul"}}},
        headers={"Authorization": f"Bearer {address.api_key}", "Prefer": "wait=300"},
        timeout=300,
    ).raise_for_status()
