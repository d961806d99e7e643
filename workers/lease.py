"""Keeps the leases of items while they are read, from a thread of its own."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from uuid import UUID

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from decisions import queue
from decisions.database import transaction

#: A read that takes longer has hung: its leases are left to run out.
MAX_READ_SECONDS = 900


@contextmanager
def held(
    engine: Engine, worker: UUID, items: Sequence[int], lease_seconds: float
) -> Iterator[None]:
    """Extend the leases four times a lease until the block ends."""
    ended = Event()
    beat = lease_seconds / 4

    def keep() -> None:
        for _ in range(int(MAX_READ_SECONDS / beat)):
            if ended.wait(beat):
                return
            try:
                with transaction(engine) as connection:
                    connection.execute(queue.extend(worker, items, lease_seconds))
            except SQLAlchemyError:
                continue  # the next beat may reach it; if none does, the fence decides

    thread = Thread(target=keep, name="lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
