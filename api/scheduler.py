"""Schedules, in this process as in every worker: what is due, and reports of runs that have ended."""

import asyncio
import logging
from datetime import UTC, datetime

from anyio import to_thread
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from decisions import rescoring

logger = logging.getLogger(__name__)


async def schedule_forever(database: Engine, pause: float) -> None:
    """Until it is cancelled; what is under way then is given up, and done by the next process.

    Needs two connections. A database that is away is waited for.
    """
    away = False
    while True:
        try:
            now = datetime.now(UTC)
            await to_thread.run_sync(rescoring.tick, database, now, abandon_on_cancel=True)
            away = False
        except SQLAlchemyError as e:
            if not away:
                logger.warning(
                    "No schedules, the database does not serve us: %s",
                    type(e).__name__,
                    extra={"action": "schedules_held_up"},
                )
            away = True
        await asyncio.sleep(pause)
