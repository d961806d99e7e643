from collections.abc import Iterator
from threading import Event

import psycopg
import pytest
from sqlalchemy import Engine, text

from api.settings import Settings
from cli.embedded import EmbeddedPostgres, EmbeddedValkey
from decisions.database import sync_engine, transaction
from decisions.tables import metadata
from tests.api.served import Api, StandInWorker, client_of, make_key, served
from workers.patience import patiently

_ALL_TABLES = ", ".join(table.name for table in metadata.sorted_tables)


@pytest.fixture(scope="session")
def shared_settings(postgres: EmbeddedPostgres, valkey: EmbeddedValkey) -> Settings:
    """One database for most tests of the API. Its sweep is so rare that nothing moves unasked."""
    base, _, template = postgres.url.rpartition("/")
    admin = f"{base}/postgres".replace("postgresql+psycopg", "postgresql")
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE api TEMPLATE {template} STRATEGY file_copy")
    return Settings(database_url=f"{base}/api", redis_url=valkey.url, sweep_seconds=3600)


@pytest.fixture(scope="session")
def shared_url(shared_settings: Settings) -> Iterator[str]:
    with served(shared_settings) as url:
        yield url


@pytest.fixture
def settings(shared_settings: Settings, database: Engine, redis_url: str) -> Settings:
    """For a test that serves an API of its own, on the empty database."""
    return shared_settings


@pytest.fixture
def database(shared_settings: Settings) -> Iterator[Engine]:
    """Empty, as after the migration."""
    engine = sync_engine(shared_settings.database_url)
    try:
        # An API that is starting reads some of the tables, in another order: they may deadlock.
        patiently(lambda: _empty(engine), seconds=20, stopping=Event())
        yield engine
    finally:
        engine.dispose()


def _empty(engine: Engine) -> None:
    with transaction(engine) as connection:
        connection.execute(text(f"TRUNCATE {_ALL_TABLES} RESTART IDENTITY"))


@pytest.fixture
def api(shared_url: str, database: Engine) -> Iterator[Api]:
    with client_of(shared_url, make_key(database, "acme")) as client:
        yield Api(url=shared_url, client=client)


@pytest.fixture
def other(shared_url: str, database: Engine) -> Iterator[Api]:
    """The same API, seen by another tenant."""
    with client_of(shared_url, make_key(database, "globex")) as client:
        yield Api(url=shared_url, client=client)


@pytest.fixture
def worker(database: Engine) -> StandInWorker:
    return StandInWorker(database)


@pytest.fixture
def answering(worker: StandInWorker, redis_url: str) -> Iterator[StandInWorker]:
    """A stand-in that answers the interactive lane as its bell rings."""
    with worker.listening(redis_url):
        yield worker
