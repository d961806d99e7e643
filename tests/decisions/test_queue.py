import random
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Barrier
from typing import Any

import psycopg
import pytest
from sqlalchemy.exc import DBAPIError, IntegrityError

from decisions import queue
from decisions.database import transaction
from decisions.queue import ENDED_CHANNEL, MAX_ATTEMPTS
from decisions.types import Claim, Lane
from tests.decisions.store import Store, Worker, bad_item, item, items_about

ROUNDS = 150


def ids(claims: list[Claim]) -> list[int]:
    return [claim.id for claim in claims]


def lines(store: Store, claims: list[Claim]) -> list[int]:
    line_of = {row["id"]: row["line"] for row in store.items()}
    return [line_of[claim.id] for claim in claims]


def shuffled_states(states: int, each: int) -> list[str]:
    order = [f"state {i}" for i in range(states)] * each
    random.Random(7).shuffle(order)  # noqa: S311
    return order


# Claim


def test_a_claim_says_what_was_claimed_and_leases_it(store: Store) -> None:
    batch_id = store.batch("a")
    worker = store.worker()
    (claim,) = worker.claim(lease_seconds=60)
    (row,) = store.rows(
        "SELECT *, extract(epoch FROM lease_until - now())::float8 AS lease FROM items"
    )
    assert (claim.id, claim.fence, claim.attempt) == (row["id"], row["fence"], 1)
    assert (claim.state_hash, claim.tenant_id) == (row["state_hash"], store.tenant)
    assert claim.question_set_hash == row["question_set_hash"]
    assert 0 <= claim.queue_seconds < 60
    assert (row["status"], row["lease_owner"], row["attempt"]) == ("leased", worker.id, 1)
    assert 50 < row["lease"] <= 60
    assert store.counts(batch_id) == {"total": 1}


def test_items_about_one_state_are_claimed_together_however_they_were_shuffled(
    store: Store,
) -> None:
    store.batch(*shuffled_states(states=25, each=8))
    worker = store.worker()
    seen: set[bytes] = set()
    for _ in range(5):
        claims = worker.claim(limit=40)
        states = {claim.state_hash for claim in claims}
        assert len(claims) == 40
        assert len(states) == 5
        assert not states & seen
        seen |= states
    assert worker.claim() == []


def test_the_oldest_item_is_always_in_the_next_claim(store: Store) -> None:
    store.batch(*shuffled_states(states=10, each=6))
    worker = store.worker()
    waiting = list(range(1, 61))
    while waiting:
        claimed = lines(store, worker.claim(limit=7))
        assert min(waiting) in claimed
        waiting = [line for line in waiting if line not in claimed]


def test_a_lower_priority_number_goes_first_and_then_age(store: Store) -> None:
    for priority, state in [(0, "a"), (5, "b"), (-1, "c"), (0, "d"), (-1, "e")]:
        store.batch(state, priority=priority)
    worker = store.worker()
    order = [worker.claim(limit=1)[0].id for _ in range(5)]
    assert order == [3, 5, 1, 4, 2]


def test_an_urgent_item_brings_others_about_its_state_along(store: Store) -> None:
    store.batch("a", "b", "c")
    store.batch("c", priority=-1)
    assert ids(store.worker().claim(limit=2)) == [3, 4]


def test_lanes_and_tenants_are_kept_apart(store: Store) -> None:
    store.batch("a", lane=Lane.BULK)
    store.batch("a", lane=Lane.INTERACTIVE)
    worker = store.worker()
    assert ids(worker.claim(lane=Lane.NIGHTLY)) == []
    assert ids(worker.claim(lane=Lane.INTERACTIVE)) == [2]
    assert ids(worker.claim(lane=Lane.BULK)) == [1]


def test_the_same_state_of_another_tenant_is_another_state(store: Store) -> None:
    store.run("INSERT INTO tenants (name) VALUES ('globex')")
    first = store.tenant
    store.batch("a")
    (row,) = store.rows("SELECT id FROM tenants WHERE name = 'globex'")
    store.tenant = row["id"]
    store.batch("b", "a")
    (claim,) = store.worker().claim(limit=1)
    assert claim.tenant_id == first


def test_a_claim_never_exceeds_its_limit(store: Store) -> None:
    store.batch(*["same"] * 10)
    assert len(store.worker().claim(limit=3)) == 3


def test_a_claim_passes_over_what_another_is_about_to_take(store: Store) -> None:
    """The first claim is not committed yet, so its items are locked but look queued."""
    store.batch("a", "a", "b", "b")
    first, second = store.worker(), store.worker()
    with transaction(store.engine) as connection:
        statement = queue.claim(first.id, Lane.BULK, 2, 60)
        taken = {row.id for row in connection.execute(statement)}
        assert ids(second.claim(limit=10)) == [3, 4]
    assert taken == {1, 2}


def test_claimers_at_once_never_share_an_item(store: Store) -> None:
    store.batch(*shuffled_states(states=40, each=10))
    start = Barrier(6)

    def drain(worker: Worker) -> list[int]:
        start.wait(30)
        mine: list[int] = []
        while claims := worker.claim(limit=7):
            mine += ids(claims)
        return mine

    with ThreadPoolExecutor(6) as pool:
        taken = [
            id_ for mine in pool.map(drain, [store.worker() for _ in range(6)]) for id_ in mine
        ]
    # A claim may come back empty while others hold the locks of what is left.
    rest = ids(store.worker().claim(limit=400))
    assert sorted(taken + rest) == list(range(1, 401))


def test_an_extended_lease_is_not_swept(store: Store) -> None:
    store.batch("a", "b")
    worker = store.worker()
    claims = worker.claim()
    store.end_leases()
    worker.extend(claims[:1], 60)
    assert store.sweep() == 1
    assert store.statuses() == ["leased", "queued"]


def test_nobody_extends_the_lease_of_another(store: Store) -> None:
    store.batch("a")
    claims = store.worker().claim()
    store.end_leases()
    store.worker().extend(claims, 60)
    assert store.sweep() == 1


# Complete


def test_completed_items_move_the_counters_and_the_last_one_closes_the_batch(
    store: Store,
) -> None:
    batch_id = store.batch("a", "b", "c")
    worker = store.worker()
    claims = worker.claim()
    assert worker.complete(claims[:2]) == {1, 2}
    assert store.counts(batch_id) == {"total": 3, "done": 2}
    assert store.row(batch_id)["status"] == "in_progress"
    assert store.events(batch_id) == []
    assert worker.complete(claims[2:]) == {3}
    batch = store.row(batch_id)
    assert batch["status"] == "completed"
    assert batch["completed_at"] is not None
    assert (batch["input_tokens"], batch["output_tokens"]) == (60, 6)
    assert store.counts(batch_id) == {"total": 3, "done": 3}
    assert store.events(batch_id) == ["batch.completed"]
    assert all(row["lease_until"] is None and row["finished_at"] for row in store.items())


def test_a_decision_is_stored_for_every_question_with_what_the_item_knows(store: Store) -> None:
    batch_id = store.batch("a")
    worker = store.worker()
    claims = worker.claim()
    worker.complete(claims, log_probs=[-0.5, "-Infinity"], label_ids=[1, 2], probabilities=[1, 0])
    (row, other) = store.rows("SELECT * FROM decisions ORDER BY id")
    assert {row["question_id"], other["question_id"]} == {"team", "urgent"}
    assert row["batch_id"] == batch_id
    assert row["item_id"] == claims[0].id
    assert row["state_hash"] == claims[0].state_hash
    assert row["question_set_hash"] == claims[0].question_set_hash
    assert row["log_probs"] == [-0.5, float("-inf")]
    assert (row["attempt"], row["tenant_id"], row["prompt_hash"]) == (1, store.tenant, bytes(32))


def test_a_batch_of_failures_only_is_completed_too(store: Store) -> None:
    batch_id = store.batch("a", "b")
    worker = store.worker()
    worker.fail(worker.claim())
    assert store.counts(batch_id) == {"total": 2, "failed": 2}
    assert store.row(batch_id)["status"] == "completed"
    assert store.items()[0]["error"] == {
        "code": "read_failed",
        "message": "it could not be read",
    }
    assert store.count("decisions") == 0


def test_lines_that_failed_on_arrival_count_towards_the_end(store: Store) -> None:
    batch_id = store.submit([bad_item(1), item(2)]).batch_id
    worker = store.worker()
    worker.complete(worker.claim())
    assert store.counts(batch_id) == {"total": 2, "done": 1, "failed": 1}
    assert store.events(batch_id) == ["batch.completed"]


def test_completing_twice_stores_once(store: Store) -> None:
    batch_id = store.batch("a", "b")
    worker = store.worker()
    claims = worker.claim()
    assert worker.complete(claims) == {1, 2}
    assert worker.complete(claims) == set()
    assert store.counts(batch_id) == {"total": 2, "done": 2}
    assert store.count("decisions") == 4
    assert store.events(batch_id) == ["batch.completed"]


def test_a_stale_result_changes_nothing_and_is_told_by_its_absence(store: Store) -> None:
    batch_id = store.batch("a", "b")
    slow, quick = store.worker(), store.worker()
    claims = slow.claim()
    store.end_leases(claims[:1])
    store.sweep()
    assert slow.complete(claims) == {2}
    assert store.statuses() == ["queued", "done"]
    again = quick.claim_suspect()
    assert slow.fail(claims) == set()
    assert store.statuses() == ["leased", "done"]
    assert quick.complete(again) == {1}
    assert store.counts(batch_id) == {"total": 2, "done": 2}
    assert {
        row["worker_id"] for row in store.rows("SELECT * FROM decisions WHERE item_id = 1")
    } == {quick.id}


def test_a_result_in_time_counts_even_when_its_lease_is_over_and_nobody_swept(
    store: Store,
) -> None:
    store.batch("a")
    worker = store.worker()
    claims = worker.claim()
    store.end_leases()
    assert worker.complete(claims) == {1}


def test_one_result_may_finish_items_of_several_batches(store: Store) -> None:
    batches = [store.batch("a", "b"), store.batch("b"), store.batch("a", "c")]
    worker = store.worker()
    worker.complete(worker.claim(limit=4))
    assert [store.counts(id_) for id_ in batches] == [
        {"total": 2, "done": 2},
        {"total": 1, "done": 1},
        {"total": 2, "done": 1},
    ]
    assert [store.row(id_)["status"] for id_ in batches] == [
        "completed",
        "completed",
        "in_progress",
    ]


@pytest.mark.parametrize(
    "changed",
    [
        {"label_mass": 1.01},
        {"label_mass": -0.01},
        {"label_mass": "NaN"},
        {"confidence": "NaN"},
        {"confidence": -2.3e-16},
        {"margin": "NaN"},
        {"probabilities": ["NaN", 0.5]},
        {"probabilities": [1.5, 0.5]},
        {"probabilities": [1.0]},
        {"answer_index": 5},
    ],
    ids=str,
)
def test_numbers_out_of_range_are_refused_and_nothing_is_stored(
    store: Store, changed: dict[str, Any]
) -> None:
    batch_id = store.batch("a")
    worker = store.worker()
    claims = worker.claim()
    with pytest.raises(IntegrityError):
        worker.complete(claims, **changed)
    assert store.statuses() == ["leased"]
    assert store.counts(batch_id) == {"total": 1}
    assert store.count("decisions") == 0


@pytest.fixture
def ended(store: Store) -> Iterator[psycopg.Connection]:
    """Listens for batches that end."""
    url = store.engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"LISTEN {ENDED_CHANNEL}")
        yield connection


def test_a_batch_that_ends_is_told_to_those_who_listen(
    store: Store, ended: psycopg.Connection
) -> None:
    completed, cancelled = store.batch("a", "b"), store.batch("c")
    worker = store.worker()
    claims = worker.claim(limit=2)
    worker.complete(claims[:1])
    store.cancel(cancelled)
    worker.complete(claims[1:])
    told = [n.payload for n in ended.notifies(timeout=10, stop_after=2)]
    assert told == [str(cancelled), str(completed)]


def test_completes_of_two_batches_in_opposite_orders_do_not_deadlock(store: Store) -> None:
    """Two workers finish items of the same two batches, one the older batch first, one the newer."""
    first = store.batch(*["a"] * ROUNDS * 2)
    second = store.batch(*["b"] * ROUNDS * 2)
    workers = store.worker(), store.worker()
    claims = workers[0].claim(limit=ROUNDS * 4)
    of_first, of_second = claims[: ROUNDS * 2], claims[ROUNDS * 2 :]
    start = Barrier(2)

    def finish(offset: int) -> int:
        finished = 0
        for i in range(offset, ROUNDS * 2, 2):
            start.wait(30)
            pair = [of_first[i], of_second[-1 - i]]
            finished += len(workers[offset].complete(pair if offset else pair[::-1]))
        return finished

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(finish, [0, 1])) == [ROUNDS * 2, ROUNDS * 2]
    for batch_id in (first, second):
        assert store.counts(batch_id) == {"total": ROUNDS * 2, "done": ROUNDS * 2}
        assert store.events(batch_id) == ["batch.completed"]
    assert store.count("decisions") == ROUNDS * 8


# Give back


def test_what_is_given_back_is_as_if_it_had_not_been_claimed(store: Store) -> None:
    store.batch("a", "b")
    first, second = store.worker(), store.worker()
    claims = first.claim()
    first.give_back(claims[:1])
    assert store.statuses() == ["queued", "leased"]
    assert [(row["attempt"], row["suspect"]) for row in store.items()] == [(0, False), (1, False)]
    assert first.complete(claims) == {2}
    (again,) = second.claim()
    assert (again.id, again.attempt) == (1, 1)


def test_only_the_holder_gives_back(store: Store) -> None:
    store.batch("a", "b")
    holder, other = store.worker(), store.worker()
    claims = holder.claim()
    other.give_back(claims)
    assert store.statuses() == ["leased", "leased"]
    holder.complete(claims)
    holder.give_back(claims)
    assert store.statuses() == ["done", "done"]


# Sweep


def test_items_whose_lease_is_over_come_back_as_suspects(store: Store) -> None:
    store.batch("a", "a", "b")
    dead, alive = store.worker(), store.worker()
    dead.claim(limit=2)
    alive.claim()
    store.end_leases(None)
    alive.extend([*alive_claims(store, alive)], 60)
    assert store.sweep() == 2
    assert [(row["status"], row["suspect"]) for row in store.items()] == [
        ("queued", True),
        ("queued", True),
        ("leased", False),
    ]
    assert alive.claim() == []
    assert [ids(alive.claim_suspect()) for _ in range(3)] == [[1], [2], []]


def alive_claims(store: Store, worker: Worker) -> list[Claim]:
    rows = store.rows("SELECT * FROM items WHERE lease_owner = :id", id=worker.id)
    names = ("id", "fence", "attempt", "tenant_id", "state_hash", "question_set_hash")
    return [Claim(queue_seconds=0, **{name: row[name] for name in names}) for row in rows]


def test_a_lease_that_runs_is_not_swept(store: Store) -> None:
    store.batch("a")
    store.worker().claim()
    assert store.sweep() == 0
    assert store.statuses() == ["leased"]


def test_an_item_that_was_claimed_five_times_in_vain_is_dead_and_says_why(store: Store) -> None:
    batch_id = store.batch("a", "good")
    worker = store.worker()
    worker.complete(worker.claim()[1:])
    for attempt in range(1, MAX_ATTEMPTS):
        store.end_leases()
        store.sweep()
        assert store.statuses()[0] == "queued"
        assert worker.claim_suspect()[0].attempt == attempt + 1
    store.end_leases()
    store.sweep()
    assert store.statuses() == ["dead", "done"]
    assert store.items()[0]["error"] == {
        "code": "attempts_exhausted",
        "message": "its worker died or stalled in each of 5 attempts",
        "param": None,
        "line": 1,
    }
    assert store.counts(batch_id) == {"total": 2, "done": 1, "dead": 1}
    assert store.events(batch_id) == ["batch.completed"]
    assert store.sweep() == 0


def test_giving_back_costs_a_suspect_no_attempt(store: Store) -> None:
    store.batch("a")
    worker = store.worker()
    worker.claim()
    store.end_leases()
    store.sweep()
    for _ in range(2 * MAX_ATTEMPTS):
        worker.give_back(worker.claim_suspect())
    assert [(row["attempt"], row["suspect"]) for row in store.items()] == [(1, True)]


def test_a_sweep_moves_no_more_than_its_limit(store: Store) -> None:
    batch_id = store.batch("a", "b", "c")
    store.worker().claim()
    store.end_leases()
    with transaction(store.engine) as connection:
        assert connection.execute(queue.sweep_leases(limit=2)).scalar_one() == 2
    assert sorted(store.statuses()) == ["leased", "queued", "queued"]
    store.end_window(batch_id)
    with transaction(store.engine) as connection:
        assert connection.execute(queue.sweep_closed(limit=1)).scalar_one() == 1
    assert sorted(store.statuses()) == ["expired", "leased", "queued"]


# Cancel and expire


def test_cancelling_finishes_what_waits_and_leaves_what_is_held_to_its_worker(
    store: Store,
) -> None:
    batch_id = store.batch("a", "b", "c")
    worker = store.worker()
    claims = worker.claim(limit=1)
    store.cancel(batch_id)
    assert store.statuses() == ["leased", "cancelled", "cancelled"]
    batch = store.row(batch_id)
    assert (batch["status"], batch["cancelling_at"] is None) == ("cancelling", False)
    assert store.events(batch_id) == []
    worker.complete(claims)
    batch = store.row(batch_id)
    assert (batch["status"], batch["cancelled_at"] is None) == ("cancelled", False)
    assert store.counts(batch_id) == {"total": 3, "done": 1, "cancelled": 2}
    assert store.events(batch_id) == ["batch.cancelled"]
    assert store.count("decisions") == 2


def test_an_item_that_comes_back_to_a_cancelled_batch_is_swept(store: Store) -> None:
    batch_id = store.batch("a", "b")
    worker = store.worker()
    claims = worker.claim()
    store.cancel(batch_id)
    worker.give_back(claims[:1])
    store.end_leases(claims[1:])
    assert store.sweep() == 3
    assert store.statuses() == ["cancelled", "cancelled"]
    assert store.events(batch_id) == ["batch.cancelled"]


def test_a_batch_nobody_has_begun_is_cancelled_at_once(store: Store) -> None:
    batch_id = store.batch("a", "b")
    store.cancel(batch_id)
    assert store.row(batch_id)["status"] == "cancelled"
    assert store.worker().claim() == []
    store.cancel(batch_id)
    assert store.events(batch_id) == ["batch.cancelled"]


def test_a_final_batch_cannot_be_cancelled(store: Store) -> None:
    batch_id = store.batch("a")
    worker = store.worker()
    worker.complete(worker.claim())
    before = store.row(batch_id)
    store.cancel(batch_id)
    assert store.row(batch_id) == before


def test_another_tenant_cancels_nothing(store: Store) -> None:
    batch_id = store.batch("a")
    store.run("INSERT INTO tenants (name) VALUES ('globex')")
    store.tenant += 1
    store.cancel(batch_id)
    assert store.row(batch_id)["status"] == "in_progress"
    assert store.statuses() == ["queued"]


def test_a_window_that_ends_expires_what_waits(store: Store) -> None:
    batch_id, other = store.batch("a", "b", "c"), store.batch("d")
    worker = store.worker()
    claims = worker.claim(limit=1)
    store.end_window(batch_id)
    assert store.sweep() == 2
    assert store.statuses(batch_id) == ["leased", "expired", "expired"]
    assert store.row(batch_id)["status"] == "in_progress"
    worker.complete(claims)
    batch = store.row(batch_id)
    assert (batch["status"], batch["expired_at"] is None) == ("expired", False)
    assert store.counts(batch_id) == {"total": 3, "done": 1, "expired": 2}
    assert store.events(batch_id) == ["batch.expired"]
    assert store.statuses(other) == ["queued"]


def test_a_batch_that_was_done_in_its_window_stays_completed(store: Store) -> None:
    batch_id = store.batch("a")
    worker = store.worker()
    worker.complete(worker.claim())
    store.end_window(batch_id)
    assert store.sweep() == 0
    assert store.row(batch_id)["status"] == "completed"


def test_cancelling_and_sweeping_an_expired_batch_at_once_do_not_deadlock(store: Store) -> None:
    """One finishes items and then their batch, the other closes the batch and then its items."""
    batches = [store.batch(*["a"] * 20) for _ in range(40)]
    for batch_id in batches:
        store.end_window(batch_id)
    start = Barrier(3)

    def sweep() -> None:
        for _ in batches:
            start.wait(30)
            with transaction(store.engine) as connection:
                connection.execute(queue.sweep_closed(limit=20))

    def cancel() -> None:
        for batch_id in batches:
            start.wait(30)
            store.cancel(batch_id)

    run_together(sweep, cancel, lambda: [start.wait(30) for _ in batches])
    while store.sweep():
        pass
    for batch_id in batches:
        assert sum(store.counts(batch_id).values()) == 40
        assert len(store.events(batch_id)) == 1


def test_cancelling_while_workers_claim_and_complete_does_not_deadlock(store: Store) -> None:
    batches = [store.batch(*["a", "b"] * 10) for _ in range(30)]

    def work() -> None:
        worker = store.worker()
        while claims := worker.claim(limit=5):
            worker.complete(claims)

    def cancel() -> None:
        for batch_id in reversed(batches):
            store.cancel(batch_id)

    run_together(work, work, cancel)
    worker = store.worker()
    while claims := worker.claim():
        worker.complete(claims)
    store.sweep()
    for batch_id in batches:
        assert sum(store.counts(batch_id).values()) == 40
        assert len(store.events(batch_id)) == 1


def run_together(*actions: Any) -> None:
    with ThreadPoolExecutor(len(actions)) as pool:
        futures: list[Future[Any]] = [pool.submit(action) for action in actions]
        wait(futures, 60)
        for future in futures:
            future.result(0)


# What the sweepers ask


def test_lanes_with_items_that_wait_are_named(store: Store) -> None:
    def waiting() -> set[str]:
        with transaction(store.engine) as connection:
            return set(connection.execute(queue.waiting_lanes()).scalars())

    assert waiting() == set()
    store.batch("a", lane=Lane.BULK)
    store.batch("a", lane=Lane.NIGHTLY)
    assert waiting() == {"bulk", "nightly"}
    worker = store.worker()
    worker.claim(lane=Lane.NIGHTLY)
    assert waiting() == {"bulk"}
    store.end_leases()
    store.sweep()
    worker.complete(worker.claim(lane=Lane.BULK))
    assert waiting() == {"nightly"}, "a suspect waits too"


def test_the_depth_of_the_queue_is_told_by_lane_and_status(store: Store) -> None:
    store.submit(items_about("a", "b", "c"))
    store.batch("d", lane=Lane.INTERACTIVE)
    worker = store.worker()
    worker.claim(limit=1)
    worker.complete(worker.claim(limit=1))
    with transaction(store.engine) as connection:
        rows = connection.execute(queue.depth()).all()
    assert {(row.lane, row.status): row.items for row in rows} == {
        ("bulk", "queued"): 1,
        ("bulk", "leased"): 1,
        ("interactive", "queued"): 1,
    }
    assert all(0 <= row.oldest_seconds < 60 for row in rows)


# What no statement may do


@pytest.mark.parametrize("final", ["done", "failed", "dead", "cancelled", "expired"])
def test_no_statement_moves_an_item_that_is_final(store: Store, final: str) -> None:
    batch_id = store.batch("a", "other")
    worker = store.worker()
    (claim,) = worker.claim(limit=1)
    error = '{"code": "x"}' if final in ("failed", "dead") else None
    store.run(
        "UPDATE items SET status = :final, finished_at = now(), error = CAST(:error AS jsonb),"
        " lease_until = NULL, lease_owner = NULL WHERE id = :id",
        final=final,
        error=error,
        id=claim.id,
    )
    before = store.items()[0]
    worker.complete([claim])
    worker.fail([claim])
    worker.give_back([claim])
    worker.extend([claim], 60)
    store.end_leases()
    store.end_window(batch_id)
    store.sweep()
    store.cancel(batch_id)
    worker.claim()
    worker.claim_suspect()
    assert store.items()[0] == before


def test_a_result_that_is_not_json_is_an_error_and_not_half_a_result(store: Store) -> None:
    store.batch("a")
    worker = store.worker()
    with pytest.raises(DBAPIError):
        worker.complete(worker.claim(), label_mass=float("nan"))
    assert store.statuses() == ["leased"]


def test_asking_which_lanes_wait_does_not_read_the_whole_queue(store: Store) -> None:
    """Every sweeper asks each second, also while 200,000 items wait in one lane."""
    batch_id = store.batch("a")
    store.run(
        "INSERT INTO items (tenant_id, batch_id, line, custom_id, state_hash, question_set_hash,"
        " lane, status) SELECT tenant_id, batch_id, n, n, state_hash, question_set_hash, lane,"
        " status FROM items, generate_series(2, 5000) n WHERE batch_id = :id",
        id=batch_id,
    )
    store.run("ANALYZE items")
    asked = queue.waiting_lanes()
    lanes = [str(lane) for lane in Lane]
    plan = store.rows(f"EXPLAIN (ANALYZE, FORMAT JSON) {asked.text}", lanes=lanes)[0]["QUERY PLAN"]
    assert rows_read(plan[0]["Plan"]) < 10


def rows_read(node: dict[str, Any]) -> float:
    """From the table of items, by all scans of a plan."""
    mine = node["Actual Rows"] * node["Actual Loops"] if node.get("Relation Name") == "items" else 0
    return float(mine + sum(rows_read(child) for child in node.get("Plans", [])))
