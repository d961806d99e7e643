from typing import Any
from uuid import uuid4

from decisions import fleet
from decisions.database import transaction
from decisions.types import Lane
from tests.decisions.store import MODEL, Store


def live(store: Store, within_seconds: float = 30) -> list[Any]:
    with transaction(store.engine) as connection:
        return list(connection.execute(fleet.live(within_seconds)).all())


def test_a_model_version_is_known_by_everything_it_was_made_with(store: Store) -> None:
    def version(**settings: Any) -> int:
        with transaction(store.engine) as connection:
            id_: int = connection.execute(fleet.record_model_version(settings)).scalar_one()
            return id_

    backwards = dict(reversed(MODEL.items()))
    assert version(**MODEL) == version(**backwards) == store.model
    assert version(**MODEL, tile=16) != store.model
    assert version(**{**MODEL, "dtype": "bfloat16"}) != store.model
    assert store.count("model_versions") == 3


def test_a_worker_is_live_until_it_stops_or_falls_silent(store: Store) -> None:
    worker, silent = store.worker(), store.worker()
    store.run("UPDATE workers SET seen_at = now() - interval '31 s' WHERE id = :id", id=silent.id)
    (row,) = live(store)
    assert (row.id, row.model, row.lanes) == (worker.id, "none", [str(lane) for lane in Lane])
    assert {r.id for r in live(store, within_seconds=60)} == {worker.id, silent.id}
    with transaction(store.engine) as connection:
        connection.execute(fleet.seen(silent.id))
    assert {r.id for r in live(store)} == {worker.id, silent.id}
    with transaction(store.engine) as connection:
        connection.execute(fleet.stopped(worker.id))
    assert {r.id for r in live(store)} == {silent.id}


def test_counters_add_up_over_all_workers_also_those_that_stopped(store: Store) -> None:
    first, second = store.worker(), store.worker()
    store.run("UPDATE workers SET seen_at = now() - interval '1 h'")
    with transaction(store.engine) as connection:
        connection.execute(fleet.count(first.id, {"claims": 1, "busy_seconds": 0.5}))
        connection.execute(fleet.count(first.id, {"claims": 1, "prefills": 3}))
        connection.execute(fleet.count(second.id, {"claims": 2, "busy_seconds": 0.25}))
        connection.execute(fleet.count(uuid4(), {"claims": 100}))
        connection.execute(fleet.stopped(second.id))
        totals = connection.execute(fleet.totals()).one()
    assert (totals.claims, totals.prefills, totals.reads) == (4, 3, 0)
    assert totals.busy_seconds == 0.75
    assert [row.id for row in live(store)] == [first.id]


def test_without_workers_every_total_is_zero(store: Store) -> None:
    with transaction(store.engine) as connection:
        totals = connection.execute(fleet.totals()).one()
    assert len(totals) > 5
    assert set(totals) == {0}
