"""Steps are followed without missing one, in whatever order their transactions end."""

from collections.abc import Sequence
from threading import Thread
from typing import Any

import pytest
from sqlalchemy import Connection

from decisions import progress, queue
from decisions.database import transaction
from decisions.progress import Position, Window
from decisions.types import Claim
from tests.decisions.store import Store, items_about, result


def complete(connection: Connection, claims: Sequence[Claim]) -> None:
    connection.execute(queue.complete([result(claim) for claim in claims], []))


def now(store: Store) -> str:
    with transaction(store.engine) as connection:
        found: str = connection.execute(progress.snapshot()).scalar_one()
        return found


def steps_in(store: Store, window: Window) -> list[Any]:
    with transaction(store.engine) as connection:
        return list(connection.execute(progress.of_tenant(store.tenant, window, 100)))


def steps_of(store: Store, batch_id: Any) -> list[Any]:
    with transaction(store.engine) as connection:
        return list(connection.execute(progress.of_batch(batch_id, Position(), 100)))


def test_a_step_that_commits_after_one_with_a_greater_id_is_not_missed(store: Store) -> None:
    worker = store.worker()
    store.batch("one")
    first = worker.claim()
    store.batch("two")
    second = worker.claim()
    start = now(store)
    with transaction(store.engine) as late:
        complete(late, first)
        with transaction(store.engine) as connection:
            complete(connection, second)
        middle = now(store)
        seen = steps_in(store, Window(since=start, until=middle))
    end = now(store)
    rest = steps_in(store, Window(since=middle, until=end))
    assert [list(step.item_ids) for step in (*seen, *rest)] == [[second[0].id], [first[0].id]]
    # Who only remembered the greatest id would have missed it.
    assert rest[0].id < seen[0].id
    assert steps_in(store, Window(since=end, until=now(store))) == []


def test_a_window_can_be_read_in_parts(store: Store) -> None:
    start = now(store)
    ids = [store.batch(str(n)) for n in range(5)]
    window = Window(since=start, until=now(store))
    store.batch("after")
    read = []
    while steps := steps_in(store, window)[:2]:
        read += steps
        window = window.at(Position(steps[-1].id + 1))
    assert [step.batch_id for step in read] == ids


def test_ids_of_a_batchs_steps_are_in_the_order_of_their_commits(store: Store) -> None:
    worker = store.worker()
    batch_id = store.submit(items_about("a", "b", "c")).batch_id
    claims = worker.claim()

    def second() -> None:
        with transaction(store.engine) as connection:
            complete(connection, claims[1:])

    thread = Thread(target=second)
    with transaction(store.engine) as connection:
        complete(connection, claims[:1])
        thread.start()
        waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        while not store.rows(waiting):
            pass
        assert [step.open for step in steps_of(store, batch_id)] == [3]
    thread.join()
    steps = steps_of(store, batch_id)
    assert [step.open for step in steps] == [3, 2, 0]
    assert [step.status for step in steps] == ["in_progress", "in_progress", "completed"]


def test_items_become_final_in_steps_whatever_they_become(store: Store) -> None:
    worker = store.worker()
    batch_id = store.batch("a", "b", "c", "d")
    claims = worker.claim(limit=2)
    worker.complete(claims[:1])
    worker.fail(claims[1:])
    store.cancel(batch_id)
    steps = steps_of(store, batch_id)
    assert [list(step.item_ids) for step in steps] == [[], [claims[0].id], [claims[1].id], []]
    last = steps[-1]
    assert (last.status, last.done, last.failed, last.cancelled) == ("cancelled", 1, 1, 2)


def test_a_place_is_written_and_read_back() -> None:
    window = Window(since="731:731:", until="731:740:731,735", position=Position(12, 3))
    assert Window.parse(str(window)) == window
    assert Window.parse("731:740:735") == Window(since="731:740:735", until="731:740:735")
    assert Position.parse(str(Position(4))) == Position(4)


@pytest.mark.parametrize("written", ["", "7", "1.2.3", "-1.0", "1.", "9" * 19 + ".0", "\u0661.2"])
def test_what_is_no_position_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="not an id"):
        Position.parse(written)


@pytest.mark.parametrize(
    "written",
    ["", "0:5:", "5:3:", "1:5:6", "1:9:9", "1:9:5,4", "1:9:0", "1:2:3~", "1:9:~1:9", "1:9:~1:9:~x"],
)
def test_what_is_no_window_is_refused(store: Store, written: str) -> None:
    with pytest.raises(ValueError, match="not an id"):
        Window.parse(written)


@pytest.mark.parametrize("written", ["1:1:", "1:9:1", "1:9:5,,6", "3:9:3,8"])
def test_postgres_takes_every_window_that_is_not_refused(store: Store, written: str) -> None:
    try:
        window = Window.parse(written)
    except ValueError:
        return
    assert steps_in(store, window) == []
