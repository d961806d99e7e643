"""Wakes those who follow batches, as soon as the database has new steps of theirs.

One query serves all followers of this process, ten times a second while there are any, none when nobody
listens. What it tells is only that it is worth looking: each follower reads for himself, a few at a
time, and holds no connection while he waits.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar
from uuid import UUID

from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from decisions import progress
from decisions.database import async_transaction

logger = logging.getLogger(__name__)

#: Seconds between two looks.
PERIOD = 0.1
#: Seconds until a database that is away is asked again.
PAUSE = 1.0
#: Followers that read at a time; the other connections are for other calls.
READERS = 4

AWAY = (OperationalError, InterfaceError, PoolTimeout)

Read = TypeVar("Read")


class Steps:
    def __init__(self, database: AsyncEngine) -> None:
        self._database = database
        #: (tenant, batch), or (tenant, None) for all of a tenant's batches -> who waits for it.
        self._followers: dict[tuple[int, UUID | None], set[asyncio.Event]] = {}
        self._followed = asyncio.Event()
        self._readers = asyncio.Semaphore(READERS)
        self._seen: str | None = None
        self._away = False
        #: The process is about to end: who follows shall end too.
        self.stopping = False

    @contextmanager
    def follow(self, tenant_id: int, batch_id: UUID | None = None) -> Iterator[asyncio.Event]:
        """An event that is set when there may be new steps. Look once before the first wait."""
        event = asyncio.Event()
        key = (tenant_id, batch_id)
        self._followers.setdefault(key, set()).add(event)
        self._followed.set()
        try:
            yield event
        finally:
            self._followers[key].discard(event)
            if not self._followers[key]:
                del self._followers[key]
            if not self._followers:
                self._followed.clear()
                self._seen = None

    def stop(self) -> None:
        self.stopping = True
        self._wake_all()

    async def read(self, query: Callable[[AsyncConnection], Awaitable[Read]]) -> Read:
        """What `query` returns; while the database is away, it is waited for."""
        while True:
            try:
                async with self._readers, async_transaction(self._database) as connection:
                    found = await query(connection)
            except AWAY as e:
                self._note(e)
                await asyncio.sleep(PAUSE)
            else:
                self._away = False
                return found

    async def look_forever(self) -> None:
        """Until it is cancelled."""
        while True:
            await self._followed.wait()
            await self.read(self._look)
            await asyncio.sleep(PERIOD)

    async def _look(self, connection: AsyncConnection) -> None:
        since = self._seen
        tenants = {tenant for tenant, _ in self._followers}
        until: str = (await connection.execute(progress.snapshot())).scalar_one()
        if since is None:
            self._wake_all()
        elif since != until:
            for tenant, batch in await connection.execute(
                progress.moved(list(tenants), since, until)
            ):
                self._wake((tenant, None))
                self._wake((tenant, batch))
        # Nobody may have been left meanwhile, and the next one must not wait for what he missed.
        self._seen = until if self._followers else None

    def _wake(self, key: tuple[int, UUID | None]) -> None:
        for event in self._followers.get(key, ()):
            event.set()

    def _wake_all(self) -> None:
        for key in self._followers:
            self._wake(key)

    def _note(self, error: Exception) -> None:
        """Once per outage."""
        if not self._away:
            logger.warning(
                "Streams wait, the database does not serve us: %s",
                type(error).__name__,
                extra={"action": "streams_held_up"},
            )
        self._away = True
