"""Waits for a database that restarts, so that what was read is not read again."""

import logging
from collections.abc import Callable
from threading import Event
from time import monotonic
from typing import TypeVar

from sqlalchemy.exc import InterfaceError, OperationalError

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: What a restart, a cut connection or a deadlock looks like; all of them pass.
PASSING = (OperationalError, InterfaceError)

_LONGEST_PAUSE = 2.0


def patiently(action: Callable[[], T], *, seconds: float, stopping: Event) -> T:
    """The result of `action`, tried again while it fails in passing; raises its last error.

    `action` must be harmless to repeat. A set `stopping` ends the waiting, not the action.
    """
    until, pause = monotonic() + seconds, 0.05
    while True:
        try:
            return action()
        except PASSING as error:
            if monotonic() + pause > until or stopping.wait(pause):
                raise
            logger.warning("the database is away: %s", error, extra={"action": "database_away"})
            pause = min(pause * 2, _LONGEST_PAUSE)
