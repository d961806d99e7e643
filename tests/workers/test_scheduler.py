"""The loop around schedules: it outlives a database that is away, and goes by the clock that it is given."""

import logging
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any

import pytest
from sqlalchemy import text

from decisions import keys, schedule_store
from decisions.database import sync_engine, transaction
from decisions.ids import new_uuid
from workers.scheduler import Scheduler

DUE = datetime(2100, 1, 1, tzinfo=UTC)


class Rounds(Event):
    """Is set after so many waits, none of which takes time."""

    def __init__(self, rounds: int) -> None:
        super().__init__()
        self._left = rounds

    def wait(self, timeout: float | None = None) -> bool:
        self._left -= 1
        return self._left < 0


def test_a_database_that_is_away_is_waited_for_and_told_once(
    empty_database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    # The database is there, the tables are not.
    database = sync_engine(empty_database_url)
    with caplog.at_level(logging.WARNING):
        Scheduler(database).run(Rounds(3))
    database.dispose()
    assert [record.action for record in caplog.records] == ["schedules_held_up"]  # type: ignore[attr-defined]


def test_what_is_due_goes_by_the_given_clock(database_url: str) -> None:
    database = sync_engine(database_url)
    with transaction(database) as connection:
        tenant = connection.execute(keys.ensure_tenant("t")).scalar_one()
        plan: dict[str, Any] = {"source": {}, "change": {}, "thresholds": {}}
        when = {"cron": "0 0 1 1 *", "timezone": "UTC", "next_due_at": DUE}
        connection.execute(
            schedule_store.create(tenant, new_uuid(), {"name": "yearly", **when, **plan})
        )
    times = iter([DUE - timedelta(seconds=1), DUE, DUE + timedelta(seconds=1)])
    Scheduler(database, clock=lambda: next(times)).run(Rounds(3))
    with transaction(database) as connection:
        runs = connection.execute(text("SELECT due_at FROM schedule_runs")).scalars().all()
    database.dispose()
    assert runs == [DUE]
