"""Engines, transactions and migration. The only place that commits."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from psycopg import AsyncConnection as AsyncPsycopgConnection
from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine


def normal_url(url: str) -> URL:
    """`postgres://` and `postgresql://` name the driver that we ship."""
    scheme, _, rest = url.partition("://")
    if scheme in ("postgres", "postgresql"):
        url = f"postgresql+psycopg://{rest}"
    return make_url(url)


def sync_engine(url: str, *, pool_size: int = 4, max_overflow: int = 10) -> Engine:
    """Opens connections lazily, so it may be made before a fork and used after it."""
    return create_engine(
        normal_url(url),
        pool_size=pool_size,
        max_overflow=max_overflow,
        pool_pre_ping=True,
        hide_parameters=True,  # errors are logged, and parameters hold states
    )


def async_engine(url: str, *, pool_size: int = 8) -> AsyncEngine:
    return create_async_engine(
        normal_url(url), pool_size=pool_size, pool_pre_ping=True, hide_parameters=True
    )


@contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    with engine.begin() as connection:
        yield connection


@asynccontextmanager
async def async_transaction(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    async with engine.begin() as connection:
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
