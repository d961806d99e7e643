"""Engines, transactions and migration. The only place that commits."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from select import select

from psycopg import AsyncConnection as AsyncPsycopgConnection
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry


def normal_url(url: str) -> URL:
    """`postgres://` and `postgresql://` name the driver that we ship."""
    scheme, _, rest = url.partition("://")
    if scheme in ("postgres", "postgresql"):
        url = f"postgresql+psycopg://{rest}"
    return make_url(url)


def sync_engine(url: str, *, pool_size: int = 4, max_overflow: int = 10) -> Engine:
    """Opens connections lazily, so it may be made before a fork and used after it."""
    engine = create_engine(
        normal_url(url),
        pool_size=pool_size,
        max_overflow=max_overflow,
        hide_parameters=True,  # errors are logged, and parameters hold states
    )
    event.listen(engine, "checkout", _refuse_dropped)
    return engine


def async_engine(url: str, *, pool_size: int = 8) -> AsyncEngine:
    engine = create_async_engine(normal_url(url), pool_size=pool_size, hide_parameters=True)
    event.listen(engine.sync_engine, "checkout", _refuse_dropped)
    return engine


def _refuse_dropped(_: object, record: ConnectionPoolEntry, __: object) -> None:
    """An idle connection has nothing to say, unless the server has ended it; then the pool makes new ones.

    Costs a system call, where asking the server would cost a round trip.
    """
    connection = record.driver_connection
    assert connection is not None  # noqa: S101 - it is being checked out
    if connection.closed or select([connection.fileno()], [], [], 0)[0]:
        raise InvalidatePoolError


@contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    with engine.begin() as connection:
        yield connection


@asynccontextmanager
async def async_transaction(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    async with engine.begin() as connection:
        yield connection


@contextmanager
def statement(engine: Engine) -> Iterator[Connection]:
    """For one statement that is its own transaction: without BEGIN and COMMIT, so without their trips."""
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        yield connection


@asynccontextmanager
async def async_statement(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """Like `statement`."""
    async with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        yield connection


async def notifications(url: str, channel: str) -> AsyncIterator[str | None]:
    """What is told on a channel, and None as soon as one listens: from then on nothing is missed.

    Ends with psycopg's OperationalError when the connection does.
    """
    address = normal_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    connection = await AsyncPsycopgConnection.connect(address, autocommit=True)
    async with connection:
        await connection.execute(f'LISTEN "{channel}"')
        yield None
        async for notification in connection.notifies():
            yield notification.payload


def migrate(url: str, revision: str = "head") -> None:
    """Bring the schema to `revision`. Safe to run twice, and by two processes at once."""
    # Imported here: only a migration needs Alembic.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_migrations()))
    config.attributes["url"] = normal_url(url)
    command.upgrade(config, revision)


def is_current(connection: Connection) -> bool:
    """Whether the schema is at the newest revision that this code knows."""
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    script = ScriptDirectory(str(_migrations()))
    return set(MigrationContext.configure(connection).get_current_heads()) == set(
        script.get_heads()
    )


def _migrations() -> Path:
    return Path(__file__).parent.parent / "migrations"
