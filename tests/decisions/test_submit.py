from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from threading import Barrier, Event
from uuid import UUID

import pytest

from decisions.errors import IdempotencyConflict, InvalidBatch
from decisions.items import NewItem
from decisions.submit import CHUNK, Submitted, submit
from decisions.types import Json, Lane, Submission
from tests.decisions.store import Store, bad_item, item, items_about

ONE, OTHER = sha256(b"one body").digest(), sha256(b"another body").digest()


class Crash(Exception):
    """Something between two items."""


def crashing(items: list[NewItem]) -> Iterator[NewItem]:
    yield from items
    raise Crash


def test_a_batch_is_stored_with_its_items_in_the_order_of_their_lines(store: Store) -> None:
    submitted = store.submit(items_about("a", "b", {"c": 1}), lane=Lane.NIGHTLY, priority=-3)
    assert not submitted.replayed
    batch, items = store.row(submitted.batch_id), store.items(submitted.batch_id)
    assert batch["status"] == "in_progress"
    assert batch["errors"] is None
    assert store.counts(submitted.batch_id) == {"total": 3}
    assert [row["custom_id"] for row in items] == ["line-1", "line-2", "line-3"]
    assert {(row["status"], row["lane"], row["priority"]) for row in items} == {
        ("queued", "nightly", -3)
    }
    assert store.events(submitted.batch_id) == []


def test_a_text_is_stored_once_however_many_items_have_it(store: Store) -> None:
    store.batch("a", "b", "a", "a")
    store.batch("b", "c")
    contents = {row["content"] for row in store.rows("SELECT content FROM states")}
    assert contents == {'"a"', '"b"', '"c"'}
    assert store.count("states") == 3
    assert store.count("question_sets") == 1


def test_texts_of_all_kinds_arrive_as_they_were_sent(store: Store) -> None:
    state: Json = {"ключ": "tab\t newline\n backslash\\ \\N \\. \u2028 \x01 \U0001f600 'quote\""}
    batch_id = store.submit([item(1, state, 'id\t\n\\N \\. "\u2028')]).batch_id
    (row,) = store.items(batch_id)
    (stored,) = store.rows("SELECT content, hash FROM states")
    assert row["custom_id"] == 'id\t\n\\N \\. "\u2028'
    assert row["state_hash"] == stored["hash"] == sha256(stored["content"].encode()).digest()
    body = item(1, state).body
    assert body
    assert stored["content"] == body.state


def test_a_state_that_was_purged_comes_back_with_the_item_that_sends_it_again(
    store: Store,
) -> None:
    store.batch("a")
    store.run("UPDATE states SET content = NULL, purged_at = now()")
    store.batch("a")
    assert store.rows("SELECT content, purged_at FROM states") == [
        {"content": '"a"', "purged_at": None}
    ]


def test_a_bad_line_is_a_failed_item_and_its_neighbours_are_queued(store: Store) -> None:
    batch_id = store.submit([item(1), bad_item(2), item(4)]).batch_id
    assert store.statuses(batch_id) == ["queued", "failed", "queued"]
    assert store.counts(batch_id) == {"total": 3, "failed": 1}
    batch = store.row(batch_id)
    assert batch["status"] == "in_progress"
    assert [(e["code"], e["line"]) for e in batch["errors"]] == [("invalid_json", 2)]
    assert store.items(batch_id)[1]["error"] == batch["errors"][0]
    assert store.items(batch_id)[1]["finished_at"] is not None


def test_duplicates_name_their_own_line_and_the_first(store: Store) -> None:
    items = [item(2, "x", 'a"b'), item(5, "y", 'a"b'), item(6), item(9, "z", 'a"b')]
    batch_id = store.submit(items).batch_id
    assert store.statuses(batch_id) == ["queued", "failed", "queued", "failed"]
    errors = store.row(batch_id)["errors"]
    assert [(e["code"], e["line"], e["param"]) for e in errors] == [
        ("duplicate_custom_id", 5, "custom_id"),
        ("duplicate_custom_id", 9, "custom_id"),
    ]
    assert {e["message"] for e in errors} == {'custom_id "a\\"b" is already on line 2'}
    assert store.counts(batch_id) == {"total": 4, "failed": 2}


def test_lines_whose_custom_id_could_not_be_read_are_not_duplicates(store: Store) -> None:
    batch_id = store.submit([bad_item(1), bad_item(2), item(3)]).batch_id
    assert [row["error"] and row["error"]["code"] for row in store.items(batch_id)] == [
        "invalid_json",
        "invalid_json",
        None,
    ]


def test_duplicates_are_found_across_chunks_and_not_across_batches(store: Store) -> None:
    many = [item(line) for line in range(1, CHUNK + 2)]
    batch_id = store.submit([*many, item(CHUNK + 2, "x", "line-1")]).batch_id
    assert store.counts(batch_id) == {"total": CHUNK + 2, "failed": 1}
    assert store.statuses(store.batch("x")) == ["queued"]


def test_a_batch_without_a_good_line_has_failed_and_says_so_once(store: Store) -> None:
    batch_id = store.submit([bad_item(1), bad_item(2)]).batch_id
    batch = store.row(batch_id)
    assert batch["status"] == "failed"
    assert batch["failed_at"] is not None
    assert store.counts(batch_id) == {"total": 2, "failed": 2}
    assert store.events(batch_id) == ["batch.failed"]


def test_a_batch_shows_the_first_hundred_of_its_errors(store: Store) -> None:
    batch_id = store.submit([bad_item(line) for line in range(1, 150)]).batch_id
    assert [e["line"] for e in store.row(batch_id)["errors"]] == list(range(1, 101))


def test_an_empty_batch_is_refused_and_leaves_nothing_behind(store: Store) -> None:
    with pytest.raises(InvalidBatch, match="the batch has no items"):
        store.submit([], idempotency_key="k", request_hash=ONE)
    for table in ("batches", "items", "states", "question_sets", "idempotency_keys", "events"):
        assert store.count(table) == 0


@pytest.mark.parametrize("good", [0, 3, CHUNK + 3])
def test_a_crash_between_two_items_leaves_no_batch(store: Store, good: int) -> None:
    items = crashing([item(line) for line in range(1, good + 1)])
    with pytest.raises(Crash):
        store.submit(items, idempotency_key="k", request_hash=ONE)
    for table in ("batches", "items", "idempotency_keys", "events"):
        assert store.count(table) == 0
    again = store.submit(items_about("a"), idempotency_key="k", request_hash=ONE)
    assert not again.replayed
    assert store.statuses(again.batch_id) == ["queued"]


def test_nobody_sees_items_of_a_batch_that_is_still_arriving(store: Store) -> None:
    worker = store.worker()

    def arriving() -> Iterator[NewItem]:
        yield from (item(line) for line in range(1, CHUNK + 1))
        yield item(CHUNK + 1)
        assert store.count("items") == 0
        assert worker.claim() == []

    batch_id = store.submit(arriving()).batch_id
    assert store.counts(batch_id) == {"total": CHUNK + 1}


def test_the_same_key_with_the_same_body_is_the_same_batch(store: Store) -> None:
    first = store.submit(items_about("a"), idempotency_key="k", request_hash=ONE)
    second = store.submit(items_about("a"), idempotency_key="k", request_hash=ONE)
    assert second == Submitted(first.batch_id, replayed=True)
    assert store.count("batches") == store.count("items") == 1


def test_the_same_key_with_another_body_is_refused(store: Store) -> None:
    store.submit(items_about("a"), idempotency_key="k", request_hash=ONE)
    with pytest.raises(IdempotencyConflict):
        store.submit(items_about("b"), idempotency_key="k", request_hash=OTHER)
    assert store.count("batches") == 1


def test_another_key_and_no_key_are_other_batches(store: Store) -> None:
    keys = ("k", "other", None, None)
    ids = {store.submit(items_about("a"), idempotency_key=key).batch_id for key in keys}
    assert len(ids) == 4


def test_tenants_do_not_share_keys_or_texts(store: Store) -> None:
    other = Store(store.engine)
    store.run("INSERT INTO tenants (name) VALUES ('globex')")
    (row,) = store.rows("SELECT id FROM tenants WHERE name = 'globex'")
    other.tenant = row["id"]
    first = store.submit(items_about("a"), idempotency_key="k", request_hash=ONE)
    second = other.submit(items_about("a"), idempotency_key="k", request_hash=OTHER)
    assert first.batch_id != second.batch_id
    assert store.count("states") == 2


def test_fifty_equal_submissions_at_once_are_one_batch(store: Store) -> None:
    submission = Submission(tenant_id=store.tenant, idempotency_key="k", request_hash=ONE)
    start = Barrier(50)

    def send(_: int) -> Submitted:
        start.wait(30)
        return submit(store.engine, submission, items_about("a", "b"))

    with ThreadPoolExecutor(50) as pool:
        submitted = list(pool.map(send, range(50)))
    assert len({one.batch_id for one in submitted}) == 1
    assert sum(not one.replayed for one in submitted) == 1
    assert store.count("batches") == 1
    assert store.count("items") == 2


def test_equal_submissions_wait_for_the_first_and_one_takes_over_when_it_fails(
    store: Store,
) -> None:
    submission = Submission(tenant_id=store.tenant, idempotency_key="k", request_hash=ONE)
    first_has_the_key, first_may_crash = Event(), Event()

    def slow() -> Iterator[NewItem]:
        first_has_the_key.set()
        assert first_may_crash.wait(30)
        raise Crash
        yield

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(submit, store.engine, submission, slow())
        assert first_has_the_key.wait(30)
        second = pool.submit(submit, store.engine, submission, items_about("a"))
        first_may_crash.set()
        assert not second.result(30).replayed
        with pytest.raises(Crash):
            first.result(30)
    assert store.count("batches") == 1


def test_submissions_of_the_same_texts_in_opposite_orders_do_not_wait_for_each_other(
    store: Store,
) -> None:
    """Each has stored a chunk of its texts when it meets the other, and then sends the other's."""
    states = [f"state {i}" for i in range(2 * CHUNK)]
    meet = Barrier(2)

    def arriving(order: list[str]) -> Iterator[NewItem]:
        for line, state in enumerate(order, start=1):
            if line == CHUNK + 2:
                meet.wait(30)
            yield item(line, state)
        meet.wait(30)

    def send(order: list[str]) -> UUID:
        submission = Submission(tenant_id=store.tenant)
        return submit(store.engine, submission, arriving(order)).batch_id

    with ThreadPoolExecutor(2) as pool:
        ids = list(pool.map(send, [states, states[::-1]]))
    assert [store.counts(id_) for id_ in ids] == [{"total": 2 * CHUNK}] * 2
    assert store.count("states") == 2 * CHUNK


def test_many_submissions_of_the_same_texts_at_once_do_not_deadlock(store: Store) -> None:
    states = [f"state {i}" for i in range(30)]

    def send(shift: int) -> Submitted:
        order = states[shift:] + states[:shift]
        order = order[::-1] if shift % 2 else order
        return submit(store.engine, Submission(tenant_id=store.tenant), items_about(*order))

    with ThreadPoolExecutor(16) as pool:
        batches = list(pool.map(send, range(30)))
    assert len({one.batch_id for one in batches}) == 30
    assert store.count("states") == 30
    assert store.count("items") == 900


def test_two_items_on_one_line_are_refused_by_the_store(store: Store) -> None:
    with pytest.raises(Exception, match="uq_items_batch_id_line"):
        store.submit([item(1), replace(item(1), custom_id="other")])
    assert store.count("batches") == 0
