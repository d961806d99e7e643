"""Real servers for every test: one Postgres and one Valkey per session, a fresh database per test.

Works as root and as an ordinary user. The database is a clone of one that was migrated once.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import psycopg
import pytest
import redis
from psycopg import sql

from cli.embedded import EmbeddedPostgres, EmbeddedValkey
from cli.paths import Home
from decisions.database import migrate

# Before torch is imported by any test: active waiting on a busy machine is many times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Before triton is, which transformers does: the kernels' tests run in its interpreter.
os.environ["TRITON_INTERPRET"] = "1"

#: Speed over safety: a test's database need not survive a power cut.
POSTGRES_OPTIONS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
TEMPLATE = "weighbridge"
OURS = ("WEIGHBRIDGE_", "DATABASE_URL", "REDIS_URL")
numbers = count()


@pytest.fixture(scope="session", autouse=True)
def clean_environment() -> Iterator[None]:
    """What the developer's shell configures reaches no test."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(OURS):
                patch.delenv(name)
        yield


def make_home() -> Home:
    """A folder that root's servers may enter; pytest's own are closed to them."""
    path = Path(tempfile.mkdtemp(prefix="weighbridge-test-"))
    path.chmod(0o711)
    return Home(path=path)


@pytest.fixture
def home() -> Iterator[Home]:
    """An empty home for a test that starts servers of its own."""
    made = make_home()
    yield made
    shutil.rmtree(made.path)


@pytest.fixture(scope="session")
def session_home() -> Iterator[Home]:
    made = make_home()
    yield made
    shutil.rmtree(made.path)


@pytest.fixture(scope="session")
def postgres(session_home: Home) -> Iterator[EmbeddedPostgres]:
    """The session's server, its own database migrated; to be cloned, not used."""
    with EmbeddedPostgres(session_home, options=POSTGRES_OPTIONS) as server:
        migrate(server.url)
        yield server


@pytest.fixture(scope="session")
def valkey(session_home: Home) -> Iterator[EmbeddedValkey]:
    with EmbeddedValkey(session_home) as server:
        yield server


@pytest.fixture
def empty_database_url(postgres: EmbeddedPostgres) -> Iterator[str]:
    """A database without our tables."""
    yield from _database(postgres.url, "template1")


@pytest.fixture
def database_url(postgres: EmbeddedPostgres) -> Iterator[str]:
    """A migrated database that no other test sees; dropped with its connections at the end."""
    yield from _database(postgres.url, TEMPLATE)


@pytest.fixture
def redis_url(valkey: EmbeddedValkey) -> Iterator[str]:
    """An empty Redis; emptied at the end."""
    with closing(redis.Redis.from_url(valkey.url)) as client:
        client.flushall()
        yield valkey.url
        client.flushall()


def _database(server_url: str, template: str) -> Iterator[str]:
    base, _, _ = server_url.rpartition("/")
    name = f"test_{next(numbers)}"
    admin = f"{base}/postgres".replace("postgresql+psycopg", "postgresql")
    names = {"name": sql.Identifier(name), "template": sql.Identifier(template)}
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy").format(**names)
        )
    yield f"{base}/{name}"
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {name} WITH (FORCE)").format(**names))
