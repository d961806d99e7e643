"""The sweep, in this process as in every worker: late leases, closed batches, lanes that wait.

Any number of processes may sweep at once, each row is moved by one of them.
"""

import asyncio
import logging

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from api.bell import Bell
from decisions import queue
from decisions.database import async_transaction
from decisions.types import Lane

logger = logging.getLogger(__name__)


async def sweep(database: AsyncEngine) -> list[Lane]:
    """One sweep; returns the lanes that have items waiting."""
    for statement in (queue.sweep_leases(), queue.sweep_closed()):
        async with async_transaction(database) as connection:
            await connection.execute(statement)
    async with async_transaction(database) as connection:
        return [Lane(name) for name in await connection.scalars(queue.waiting_lanes())]


async def sweep_forever(database: AsyncEngine, bell: Bell, pause: float) -> None:
    """Until it is cancelled. A database that is away is waited for."""
    away = False
    while True:
        try:
            for lane in await sweep(database):
                bell.ring(lane)
            away = False
        except SQLAlchemyError as e:
            if not away:
                logger.warning(
                    "No sweep, the database does not serve us: %s",
                    type(e).__name__,
                    extra={"action": "sweep_held_up"},
                )
            away = True
        await asyncio.sleep(pause)
