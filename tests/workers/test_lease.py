"""Leases while a claim is read: kept as long as the reader lives, whatever a broker's timeouts say."""

from collections.abc import Callable
from typing import Any

import pytest

from decisions import queue
from decisions.database import transaction
from decisions.types import Lane
from engine.engine import Engine
from workers.lease import held

URGENT: Any = {"urgent": {"type": "noul", "instructions": "Is this urgent?"}}
SECONDS = 30


def test_a_read_that_takes_longer_than_its_lease_is_read_once(
    make_bench: Callable[..., Any], engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make_bench(engine, lease_seconds=1.1)
    bench.submit([{"custom_id": "a", "state": "x"}], URGENT)
    decide = bench.decider.decide

    def outlast_the_lease(claims: Any, loaded: Any) -> Any:
        [first] = bench.rows("SELECT lease_until FROM items")
        until_later_than(bench, first.lease_until)
        bench.execute(queue.sweep_leases())
        return decide(claims, loaded)

    monkeypatch.setattr(bench.decider, "decide", outlast_the_lease)
    bench.drain.run(SECONDS)
    assert bench.rows("SELECT status, attempt, suspect FROM items") == [("done", 1, False)]


def until_later_than(bench: Any, moment: Any) -> None:
    """Waits on the database's own clock."""
    bench.rows(
        "SELECT pg_sleep(greatest(0, extract(epoch FROM CAST(:moment AS timestamptz) - clock_timestamp()) + 0.2))",
        moment=moment,
    )


def test_leases_end_with_their_holder(bench: Any) -> None:
    bench.submit([{"custom_id": "a", "state": "x"}], URGENT)
    with transaction(bench.database) as connection:
        [claim] = connection.execute(queue.claim(bench.worker, Lane.BULK, 1, 0.4)).all()
    with held(bench.database, bench.worker, [claim.id], 0.4):
        bench.rows("SELECT pg_sleep(0.8)")
        assert bench.execute(queue.sweep_leases()) == [(0,)]
    bench.rows("SELECT pg_sleep(0.8)")
    assert bench.execute(queue.sweep_leases()) == [(1,)]
