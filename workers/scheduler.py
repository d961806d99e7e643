"""Runs what schedules say, once a second: in every worker and in the API, beside the sweep.

Any number may run: `decisions.rescoring` gives each due time one run. It has a thread of its own, since
making a large batch or its report takes seconds in which leases must still be swept.
"""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from threading import Event

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from decisions import rescoring

logger = logging.getLogger(__name__)

PERIOD_SECONDS = 1.0


def now() -> datetime:
    return datetime.now(UTC)


class Scheduler:
    """`clock` says what time it is."""

    def __init__(self, database: Engine, clock: Callable[[], datetime] = now) -> None:
        self._database = database
        self._clock = clock
        self._was_away = False

    def run(self, stopping: Event) -> None:
        """Until `stopping` is set. A database that is away is waited for."""
        while not stopping.wait(PERIOD_SECONDS):
            try:
                self.tick()
                self._was_away = False
            except SQLAlchemyError as error:
                self._note(error)

    def tick(self) -> None:
        rescoring.tick(self._database, self._clock())

    def _note(self, error: Exception) -> None:
        """Once per outage, not once per second."""
        if not self._was_away:
            logger.warning(
                "schedules are held up: %s", error, extra={"action": "schedules_held_up"}
            )
        self._was_away = True
