"""Events become deliveries once, and senders share them without sending the same attempt twice."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import TextClause

from decisions import webhook_deliveries, webhook_endpoints, webhook_log
from decisions.database import transaction
from decisions.keys import ensure_tenant
from decisions.types import DeliveryStatus
from decisions.webhook_input import new_secret
from decisions.webhooks import BATCH_EVENTS, Delivery, Outcome, Verdict, judge
from tests.decisions.store import Row, Store, bad_item

URL = "https://example.com/hook"
SECRET = "whsec_" + "c2Vj" * 8


class Hooks:
    """The webhooks of a store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def endpoint(
        self, events: Sequence[str] = BATCH_EVENTS, tenant: int | None = None, url: str = URL
    ) -> int:
        made: int = self._scalar(
            webhook_endpoints.create(tenant or self.store.tenant, url, events, SECRET)
        )
        return made

    def dispatch(self) -> None:
        self._execute(webhook_deliveries.dispatch())

    def claim(self, limit: int = 100, per_endpoint: int = 100) -> list[Delivery]:
        with transaction(self.store.engine) as connection:
            rows = connection.execute(webhook_deliveries.claim(limit, per_endpoint, 60))
            return [webhook_deliveries.delivery_of(row) for row in rows]

    def record(self, delivery: Delivery, outcome: Outcome, jitter: float = 0) -> Verdict:
        verdict = judge(delivery, outcome, jitter)
        self._execute(webhook_deliveries.record(delivery, outcome, verdict))
        return verdict

    def sweep(self) -> None:
        self._execute(webhook_deliveries.sweep())
        self._execute(webhook_deliveries.fail_disabled())

    def due(self) -> bool:
        return bool(self._scalar(webhook_deliveries.something_due()))

    def end_leases(self) -> None:
        self.store.run(
            "UPDATE webhook_deliveries SET lease_until = now() - interval '1 s'"
            " WHERE status = 'sending'"
        )

    def make_due(self) -> None:
        self.store.run("UPDATE webhook_deliveries SET due_at = now() WHERE status = 'waiting'")

    def rows(self) -> list[Row]:
        return self.store.rows("SELECT * FROM webhook_deliveries ORDER BY id")

    def statuses(self) -> list[str]:
        return [row["status"] for row in self.rows()]

    def _execute(self, statement: Any) -> None:
        with transaction(self.store.engine) as connection:
            connection.execute(statement)

    def _scalar(self, statement: TextClause) -> Any:
        with transaction(self.store.engine) as connection:
            return connection.execute(statement).scalar()


@pytest.fixture
def hooks(store: Store) -> Hooks:
    return Hooks(store)


def finish(store: Store, batch_id: UUID) -> None:
    worker = store.worker()
    worker.complete(worker.claim())
    assert store.row(batch_id)["status"] == "completed"


OK = Outcome(status_code=204)
DOWN = Outcome(status_code=503, response_body="later", milliseconds=12)


def test_an_event_becomes_one_delivery_for_each_endpoint_that_wants_it(
    store: Store, hooks: Hooks
) -> None:
    wants, wants_too = hooks.endpoint(), hooks.endpoint(["batch.completed"])
    hooks.endpoint(["batch.failed"])
    with transaction(store.engine) as connection:
        other = connection.execute(ensure_tenant("globex")).scalar_one()
    hooks.endpoint(tenant=other)
    finish(store, store.batch("one"))
    hooks.dispatch()
    hooks.dispatch()
    assert [row["endpoint_id"] for row in hooks.rows()] == [wants, wants_too]


@pytest.mark.parametrize("fate", BATCH_EVENTS)
def test_each_way_a_batch_ends_is_told_once(store: Store, hooks: Hooks, fate: str) -> None:
    hooks.endpoint()
    if fate == "batch.failed":
        store.submit([bad_item(1)])
    else:
        batch = store.batch("one")
        if fate == "batch.completed":
            finish(store, batch)
        elif fate == "batch.cancelled":
            store.cancel(batch)
        else:
            store.end_window(batch)
            store.sweep()
    hooks.dispatch()
    (sent,) = hooks.claim()
    assert sent.event.type == fate
    assert sent.event.data["status"] == fate.removeprefix("batch.")
    assert sent.event.data["counts"]["total"] == 1


def test_senders_that_hand_out_at_once_hand_out_once(store: Store, hooks: Hooks) -> None:
    hooks.endpoint()
    batches = [store.batch(f"state {n}") for n in range(20)]
    worker = store.worker()
    worker.complete(worker.claim())
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: hooks.dispatch(), range(8)))
    assert len(hooks.rows()) == len(batches)
    with ThreadPoolExecutor(8) as threads:
        claims = [c for found in threads.map(lambda _: hooks.claim(7), range(8)) for c in found]
    # One may come back empty while another holds the locks of more than it takes.
    claims += hooks.claim(20)
    assert sorted(c.id for c in claims) == [row["id"] for row in hooks.rows()]


def test_a_batch_may_bring_its_own_address(store: Store, hooks: Hooks) -> None:
    secret = new_secret()
    batch = store.batch("one", webhook={"url": URL, "secret": secret})
    store.batch("two")
    worker = store.worker()
    worker.complete(worker.claim())
    hooks.dispatch()
    (sent,) = hooks.claim()
    assert (sent.url, sent.secrets) == (URL, (secret,))
    assert sent.event.data["id"] == f"batch_{batch.hex}"


def test_a_batch_of_older_code_without_a_secret_is_signed_all_the_same(
    store: Store, hooks: Hooks
) -> None:
    batch = store.batch("one", webhook={"url": URL, "secret": None})
    finish(store, batch)
    hooks.dispatch()
    (sent,) = hooks.claim()
    assert sent.secrets[0].startswith("whsec_")


def test_decisions_are_told_to_those_alone_who_ask(store: Store, hooks: Hooks) -> None:
    worker = store.worker()
    hooks.endpoint()
    store.batch("one")
    worker.complete(worker.claim())
    assert store.count("events") == 1
    hooks.endpoint(["decision.completed"])
    batch = store.batch("two", "three")
    worker.complete(worker.claim())
    assert store.count("events") == 1 + 1 + 4
    hooks.dispatch()
    told = [c.event for c in hooks.claim() if c.event.type == "decision.completed"]
    assert len(told) == 4
    assert {e.data["custom_id"] for e in told} == {"line-1", "line-2"}
    assert {e.data["batch_id"] for e in told} == {f"batch_{batch.hex}"}
    assert {(e.data["question_id"], e.data["answer"]) for e in told} == {
        ("team", "shipping"),
        ("urgent", "yes"),
    }


def test_a_late_result_tells_nothing(store: Store, hooks: Hooks) -> None:
    hooks.endpoint(["decision.completed"])
    store.batch("one")
    slow, fast = store.worker(), store.worker()
    claims = slow.claim()
    store.end_leases()
    store.sweep()
    fast.complete(fast.claim_suspect())
    assert slow.complete(claims) == set()
    assert store.count("events") == 1 + 2


def ended(store: Store, hooks: Hooks) -> Delivery:
    """A batch that has ended, on its way."""
    finish(store, store.batch("one"))
    hooks.dispatch()
    (sent,) = hooks.claim()
    return sent


def test_what_is_on_its_way_is_not_claimed_again(store: Store, hooks: Hooks) -> None:
    hooks.endpoint()
    ended(store, hooks)
    hooks.sweep()
    assert hooks.claim() == []
    assert not hooks.due()


def test_a_failure_waits_and_a_success_ends(store: Store, hooks: Hooks) -> None:
    hooks.endpoint()
    first = ended(store, hooks)
    hooks.record(first, DOWN)
    assert hooks.claim() == []
    assert not hooks.due()
    hooks.make_due()
    assert hooks.due()
    (second,) = hooks.claim()
    assert (second.tries, second.event) == (2, first.event)
    hooks.record(second, OK)
    assert hooks.statuses() == ["delivered"]
    attempts = store.rows("SELECT * FROM webhook_attempts ORDER BY fence")
    assert [a["status_code"] for a in attempts] == [503, 204]
    assert (attempts[0]["response_body"], attempts[0]["milliseconds"]) == ("later", 12)


def test_a_delay_is_counted_from_the_end_of_the_attempt(store: Store, hooks: Hooks) -> None:
    hooks.endpoint()
    hooks.record(ended(store, hooks), Outcome(status_code=429, retry_after=90))
    (row,) = store.rows(
        "SELECT extract(epoch FROM d.due_at - a.finished_at) AS delay"
        " FROM webhook_deliveries d JOIN webhook_attempts a ON a.delivery_id = d.id"
    )
    assert float(row["delay"]) == pytest.approx(90)


def test_a_dead_senders_delivery_is_sent_by_another_under_the_same_id(
    store: Store, hooks: Hooks
) -> None:
    hooks.endpoint()
    dead = ended(store, hooks)
    hooks.end_leases()
    assert hooks.due()
    hooks.sweep()
    (alive,) = hooks.claim()
    assert alive.event.webhook_id == dead.event.webhook_id
    assert alive.fence > dead.fence
    hooks.record(dead, DOWN)
    assert hooks.statuses() == ["sending"], "the older attempt settled the newer one's delivery"
    hooks.record(alive, OK)
    assert hooks.statuses() == ["delivered"]
    attempts = store.rows("SELECT status_code FROM webhook_attempts ORDER BY fence")
    assert [a["status_code"] for a in attempts] == [503, 204]


def test_a_delivery_that_kills_its_senders_is_given_up(store: Store, hooks: Hooks) -> None:
    hooks.endpoint()
    ended(store, hooks)
    for _ in range(9):
        hooks.end_leases()
        hooks.sweep()
        assert len(hooks.claim()) == 1
    hooks.end_leases()
    hooks.sweep()
    assert hooks.statuses() == ["failed"]


def test_gone_disables_and_what_comes_due_fails(store: Store, hooks: Hooks) -> None:
    endpoint = hooks.endpoint()
    store.batch("one")
    store.batch("two")
    worker = store.worker()
    worker.complete(worker.claim())
    hooks.dispatch()
    first, second = hooks.claim()
    hooks.record(second, DOWN)
    hooks.record(first, Outcome(status_code=410))
    (row,) = store.rows("SELECT * FROM webhook_endpoints")
    assert row["disabled_reason"] == "gone"
    hooks.make_due()
    hooks.sweep()
    assert hooks.claim() == []
    assert hooks.statuses() == ["failed", "failed"]
    assert not hooks.due()
    finish(store, store.batch("three"))
    hooks.dispatch()
    assert len(hooks.rows()) == 2, "a disabled endpoint gets nothing new"
    hooks._execute(webhook_endpoints.enable(store.tenant, endpoint))
    finish(store, store.batch("four"))
    hooks.dispatch()
    assert hooks.statuses() == ["failed", "failed", "waiting"]


def test_five_days_of_nothing_but_failure_disable(store: Store, hooks: Hooks) -> None:
    hooks.endpoint()
    first = ended(store, hooks)
    hooks.record(first, DOWN)
    store.run("UPDATE webhook_endpoints SET failing_since = now() - interval '5 days 1 s'")
    hooks.make_due()
    (second,) = hooks.claim()
    hooks.record(second, DOWN)
    (row,) = store.rows("SELECT * FROM webhook_endpoints")
    assert row["disabled_reason"] == "failing"
    assert hooks.statuses() == ["failed"]


def test_a_success_ends_the_days_of_failure(store: Store, hooks: Hooks) -> None:
    hooks.endpoint()
    hooks.record(ended(store, hooks), DOWN)
    assert store.rows("SELECT failing_since FROM webhook_endpoints")[0]["failing_since"]
    hooks.make_due()
    (second,) = hooks.claim()
    hooks.record(second, OK)
    assert store.rows("SELECT failing_since FROM webhook_endpoints")[0]["failing_since"] is None


def test_no_endpoint_takes_all_the_senders_threads(store: Store, hooks: Hooks) -> None:
    hooks.endpoint(["decision.completed"], url="https://flooded.example/")
    for n in range(30):
        store.batch(f"state {n}")
    worker = store.worker()
    worker.complete(worker.claim())
    hooks.dispatch()
    hooks.endpoint(url="https://calm.example/")
    finish(store, store.batch("last"))
    hooks.dispatch()
    claims = hooks.claim(limit=64, per_endpoint=8)
    assert sorted(c.url for c in claims) == ["https://calm.example/"] + 8 * [
        "https://flooded.example/"
    ]
    assert hooks.claim(limit=64, per_endpoint=8) == [], "eight of it are on their way already"
    flooded = [claim for claim in claims if "flooded" in claim.url]
    for claim in flooded[:3]:
        hooks.record(claim, OK)
    assert len(hooks.claim(limit=64, per_endpoint=8)) == 3


def test_both_secrets_are_in_force_until_the_overlap_ends(store: Store, hooks: Hooks) -> None:
    endpoint = hooks.endpoint()
    newer = new_secret()
    hooks._execute(webhook_endpoints.rotate(store.tenant, endpoint, newer, 3600))
    sent = ended(store, hooks)
    assert sent.secrets == (newer, SECRET)
    hooks.record(sent, DOWN)
    store.run("UPDATE webhook_endpoints SET previous_secret_until = now()")
    hooks.make_due()
    (later,) = hooks.claim()
    assert later.secrets == (newer,)


def test_a_delivery_that_was_given_up_is_sent_again_under_its_id(
    store: Store, hooks: Hooks
) -> None:
    hooks.endpoint()
    first = ended(store, hooks)
    hooks.record(first, Outcome(status_code=410))
    hooks._execute(webhook_endpoints.enable(store.tenant, first.endpoint_id))
    hooks._execute(webhook_log.resend(store.tenant, first.id))
    (again,) = hooks.claim()
    assert (again.id, again.tries, again.event) == (first.id, 1, first.event)


def test_nobody_sends_a_delivery_of_another_tenant_again(store: Store, hooks: Hooks) -> None:
    hooks.endpoint()
    sent = ended(store, hooks)
    hooks.record(sent, OK)
    hooks._execute(webhook_log.resend(store.tenant + 1, sent.id))
    assert hooks.statuses() == [DeliveryStatus.DELIVERED]


def test_an_endpoint_is_deleted_with_its_log_and_a_batch_with_its_events(
    store: Store, hooks: Hooks
) -> None:
    endpoint = hooks.endpoint()
    hooks.record(ended(store, hooks), DOWN)
    hooks._execute(webhook_endpoints.remove(store.tenant, endpoint))
    assert store.count("webhook_deliveries") == store.count("webhook_attempts") == 0
    assert store.count("events") == 1
    store.run("DELETE FROM batches")
    assert store.count("events") == 0


def test_a_tenant_keeps_so_many_endpoints_and_no_more(store: Store, hooks: Hooks) -> None:
    made = [hooks.endpoint() for _ in range(webhook_endpoints.MOST + 1)]
    assert made[-1] is None
    assert None not in made[:-1]
