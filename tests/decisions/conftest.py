from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import Engine, text

from cli.embedded import EmbeddedPostgres
from decisions.database import sync_engine, transaction
from decisions.tables import metadata
from tests.decisions.store import Store

_TABLES = metadata.sorted_tables
# Many times faster than TRUNCATE when there is little to delete; as a replica, nothing is looked up.
_EMPTY = "; ".join(
    [
        "SET LOCAL session_replication_role = replica",
        *(f"DELETE FROM {table.name}" for table in _TABLES),
        *(
            f"SELECT setval(pg_get_serial_sequence('{table.name}', 'id'), 1, false)"
            for table in _TABLES
            if "id" in table.c and table.c.id.identity
        ),
    ]
)


@pytest.fixture(scope="session")
def shared_engine(postgres: EmbeddedPostgres) -> Iterator[Engine]:
    """One database for all tests of the domain: emptying it is faster than cloning another."""
    base, _, template = postgres.url.rpartition("/")
    admin = f"{base}/postgres".replace("postgresql+psycopg", "postgresql")
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE domain TEMPLATE {template} STRATEGY file_copy")
        # A test that waits for itself fails instead of hanging.
        connection.execute("ALTER DATABASE domain SET lock_timeout = '20s'")
    # Enough for 50 submissions at once, and for the moment in which each needs a second connection.
    made = sync_engine(f"{base}/domain", pool_size=51, max_overflow=0)
    yield made
    made.dispose()


@pytest.fixture
def engine(shared_engine: Engine) -> Engine:
    """On a database that is as empty as after the migration."""
    with transaction(shared_engine) as connection:
        connection.execute(text(_EMPTY))
    return shared_engine


@pytest.fixture
def store(engine: Engine) -> Store:
    return Store(engine)
