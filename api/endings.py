"""Wakes requests that wait for a batch to end, as soon as Postgres tells that it has.

One connection listens for all of them. While it is away everyone who waits looks for himself now and
then, so nothing depends on it but speed.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from psycopg import OperationalError

from decisions.database import notifications
from decisions.queue import ENDED_CHANNEL

logger = logging.getLogger(__name__)

#: Seconds before a connection that broke is made again.
PAUSE = 1.0


class Endings:
    def __init__(self, database_url: str) -> None:
        self._url = database_url
        self._waiting: dict[UUID, set[asyncio.Event]] = {}
        self._away = False

    @contextmanager
    def watch(self, batch_id: UUID) -> Iterator[asyncio.Event]:
        """An event that is set when the batch may have ended. Look once before the first wait."""
        event = asyncio.Event()
        watchers = self._waiting.setdefault(batch_id, set())
        watchers.add(event)
        try:
            yield event
        finally:
            watchers.discard(event)
            if not watchers:
                self._waiting.pop(batch_id, None)

    async def listen_forever(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                async for told in notifications(self._url, ENDED_CHANNEL):
                    self._away = False
                    self._wake(told)
            except OperationalError as e:
                self._note(e)
            await asyncio.sleep(PAUSE)

    def _wake(self, told: str | None) -> None:
        """None is the start of listening: what was told before it is lost, so all look for themselves."""
        ids = list(self._waiting) if told is None else [UUID(told)]
        for id_ in ids:
            for event in self._waiting.get(id_, ()):
                event.set()

    def _note(self, error: OperationalError) -> None:
        """Once per outage."""
        if not self._away:
            logger.warning(
                "Nothing tells us of endings: %s",
                type(error).__name__,
                extra={"action": "endings_away"},
            )
        self._away = True
