"""The sender against real sockets: what a receiver does, and what becomes of the delivery."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from celery import Celery
from sqlalchemy import Engine

from decisions import webhook_endpoints
from decisions.database import sync_engine, transaction
from decisions.webhooks import BATCH_EVENTS
from tests.decisions.store import Store
from tests.receiver import SECONDS, Answer, Call, Receiver, receiving
from workers.bells import make_app, webhooks_unheard
from workers.settings import SenderSettings
from workers.sweeper import Sweeper
from workers.webhooks_sender import Sender

SECRET = "whsec_" + "c2Vj" * 8


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    made = sync_engine(database_url)
    yield made
    made.dispose()


@pytest.fixture
def store(engine: Engine) -> Store:
    return Store(engine)


@pytest.fixture
def make_sender(engine: Engine, database_url: str) -> Iterator[Callable[..., Sender]]:
    made: list[Sender] = []

    def make(**changed: Any) -> Sender:
        values = {"webhook_allow_private": True, "webhook_threads": 4, **changed}
        settings = SenderSettings.model_validate(
            {"DATABASE_URL": database_url, "REDIS_URL": "redis://unused", **values}
        )
        made.append(Sender(engine, settings))
        return made[-1]

    yield make
    for sender in made:
        sender.close()


@pytest.fixture
def sender(make_sender: Callable[..., Sender]) -> Sender:
    return make_sender()


def endpoint(store: Store, url: str, events: Any = BATCH_EVENTS) -> int:
    with transaction(store.engine) as connection:
        statement = webhook_endpoints.create(store.tenant, url, events, SECRET)
        made: int = connection.execute(statement).scalar_one()
    return made


def end_batches(store: Store, count: int = 1) -> None:
    for n in range(count):
        store.batch(f"state {n}")
    worker = store.worker()
    while claims := worker.claim():
        worker.complete(claims)


def make_due(store: Store) -> None:
    """As if the time of every next attempt had come."""
    store.run("UPDATE webhook_deliveries SET due_at = now() WHERE status = 'waiting'")


def delivery(store: Store) -> Any:
    (row,) = store.rows(
        "SELECT d.*, extract(epoch FROM d.due_at - now()) AS delay FROM webhook_deliveries d"
    )
    return row


def test_a_receiver_can_verify_what_it_is_told(
    store: Store, receiver: Receiver, sender: Sender
) -> None:
    endpoint(store, receiver.url)
    end_batches(store)
    sender.run()
    call = receiver.next()
    told = call.verified(SECRET)
    (event,) = store.rows("SELECT * FROM events")
    assert call.id == f"evt_{event['id']}"
    assert told["type"] == "batch.completed"
    assert told["data"] == {
        "id": f"batch_{event['batch_id'].hex}",
        "status": "completed",
        "counts": {"total": 1, "done": 1, "failed": 0, "dead": 0, "cancelled": 0, "expired": 0},
    }
    assert delivery(store)["status"] == "delivered"
    sender.run()
    assert receiver.all() == []


def test_a_batchs_own_webhook_is_called_with_its_own_secret(
    store: Store, receiver: Receiver, sender: Sender
) -> None:
    own = "whsec_" + "b3du" * 8
    store.batch("one", webhook={"url": receiver.url, "secret": own})
    end_batches(store, 0)
    sender.run()
    assert receiver.next().verified(own)["data"]["status"] == "completed"


def test_a_decision_is_answered_by_webhook(
    store: Store, receiver: Receiver, sender: Sender
) -> None:
    endpoint(store, receiver.url, ["decision.completed"])
    end_batches(store)
    sender.run()
    told = [call.verified(SECRET) for call in receiver.all()]
    assert {t["type"] for t in told} == {"decision.completed"}
    assert {t["data"]["question_id"]: t["data"]["answer"] for t in told} == {
        "team": "shipping",
        "urgent": "yes",
    }


def test_a_receiver_that_fails_is_told_later_under_the_same_id_with_the_same_bytes(
    store: Store, receiver: Receiver, sender: Sender
) -> None:
    endpoint(store, receiver.url)
    end_batches(store)
    receiver.answer = lambda _: Answer(status=500, body=b"no" * 1000)
    sender.run()
    first = receiver.next()
    row = delivery(store)
    assert (row["status"], row["tries"]) == ("waiting", 1)
    assert 4 < row["delay"] < 6.1
    receiver.answer = lambda _: Answer()
    make_due(store)
    sender.run()
    second = receiver.next()
    assert (second.id, second.body) == (first.id, first.body)
    second.verified(SECRET)
    assert delivery(store)["status"] == "delivered"
    attempts = store.rows("SELECT * FROM webhook_attempts ORDER BY fence")
    assert [(a["status_code"], len(a["response_body"])) for a in attempts] == [
        (500, 1024),
        (200, 9),
    ]


def test_a_receiver_that_always_fails_is_given_up_after_ten_attempts(
    store: Store, receiver: Receiver, sender: Sender
) -> None:
    endpoint(store, receiver.url)
    end_batches(store)
    receiver.answer = lambda _: Answer(status=502)
    for _ in range(12):
        sender.run()
        make_due(store)
    calls = receiver.all()
    assert len(calls) == 10
    assert len({call.id for call in calls}) == 1
    assert delivery(store)["status"] == "failed"


def test_a_receiver_that_hangs_is_told_later_and_holds_up_no_other(
    store: Store, receiver: Receiver, make_sender: Callable[..., Sender]
) -> None:
    with receiving() as stuck:
        stuck.answer = stuck.hang
        endpoint(store, stuck.url)
        endpoint(store, receiver.url)
        sender = make_sender(webhook_threads=2, webhook_threads_per_endpoint=1)
        end_batches(store, 20)
        # It hangs for longer than all that the other is told.
        running = Thread(target=sender.run)
        running.start()
        calls = [receiver.next() for _ in range(20)]
        assert len({call.id for call in calls}) == 20
        assert stuck.calls.qsize() == 1
        sender.stopping.set()
        stuck.ending.set()
        running.join(SECONDS)
        assert not running.is_alive()


def test_no_answer_in_time_is_a_failure_that_is_logged(
    store: Store, receiver: Receiver, make_sender: Callable[..., Sender]
) -> None:
    receiver.answer = receiver.hang
    endpoint(store, receiver.url)
    end_batches(store)
    make_sender(webhook_timeout_seconds=0.3).run()
    assert delivery(store)["status"] == "waiting"
    (attempt,) = store.rows("SELECT * FROM webhook_attempts")
    assert (attempt["status_code"], attempt["error"]) == (None, "no answer within 0.3 s")


def test_a_receiver_that_redirects_to_a_metadata_address_has_failed(
    store: Store, receiver: Receiver, sender: Sender
) -> None:
    where = "http://169.254.169.254/latest/meta-data/"
    receiver.answer = lambda _: Answer(status=307, headers={"Location": where})
    endpoint(store, receiver.url)
    end_batches(store)
    sender.run()
    assert delivery(store)["status"] == "waiting"
    assert store.rows("SELECT status_code FROM webhook_attempts") == [{"status_code": 307}]


def test_a_receiver_that_is_gone_is_disabled(
    store: Store, receiver: Receiver, sender: Sender
) -> None:
    receiver.answer = lambda _: Answer(status=410)
    endpoint(store, receiver.url)
    end_batches(store)
    sender.run()
    end_batches(store)
    sender.run()
    assert len(receiver.all()) == 1
    assert delivery(store)["status"] == "failed"
    assert store.rows("SELECT disabled_reason FROM webhook_endpoints") == [
        {"disabled_reason": "gone"}
    ]


def test_a_receiver_that_asks_for_time_gets_it(
    store: Store, receiver: Receiver, sender: Sender
) -> None:
    receiver.answer = lambda _: Answer(status=429, headers={"Retry-After": "600"})
    endpoint(store, receiver.url)
    end_batches(store)
    sender.run()
    assert 590 < delivery(store)["delay"] < 600 * 1.21


def test_a_name_that_resolves_to_a_private_address_is_not_called(
    store: Store, receiver: Receiver, make_sender: Callable[..., Sender]
) -> None:
    port = receiver.url.rpartition(":")[2]
    endpoint(store, f"https://localhost:{port}")
    end_batches(store)
    make_sender(webhook_allow_private=False).run()
    assert receiver.all() == []
    (attempt,) = store.rows("SELECT * FROM webhook_attempts")
    assert "denied by policy" in attempt["error"]
    assert delivery(store)["status"] == "waiting"


def test_an_event_that_cannot_be_signed_takes_no_other_with_it(
    store: Store, receiver: Receiver, sender: Sender
) -> None:
    endpoint(store, receiver.url)
    store.batch("one", webhook={"url": receiver.url, "secret": "whsec_"})
    end_batches(store, 0)
    sender.run()
    assert len(receiver.all()) == 1
    rows = store.rows("SELECT status FROM webhook_deliveries ORDER BY status")
    assert [row["status"] for row in rows] == ["delivered", "waiting"]


def test_two_senders_send_each_event_once(
    store: Store, receiver: Receiver, make_sender: Callable[..., Sender]
) -> None:
    endpoint(store, receiver.url)
    end_batches(store, 40)
    runs = [Thread(target=make_sender().run) for _ in range(2)]
    for run in runs:
        run.start()
    for run in runs:
        run.join(SECONDS)
    calls = receiver.all()
    assert len(calls) == len({call.id for call in calls}) == 40


def test_a_stopping_sender_ends_what_it_has_begun_and_begins_nothing(
    store: Store, receiver: Receiver, sender: Sender
) -> None:
    endpoint(store, receiver.url)
    end_batches(store)

    def stop(_: Call) -> Answer:
        sender.stopping.set()
        end_batches(store)
        return Answer()

    receiver.answer = stop
    sender.run()
    rows = store.rows("SELECT status FROM webhook_deliveries ORDER BY id")
    assert rows[0]["status"] == "delivered"
    assert len(receiver.all()) == 1


def test_the_sweep_rings_when_something_is_due_and_then_waits_to_be_heard(
    store: Store, receiver: Receiver, redis_url: str
) -> None:
    app: Celery = make_app(redis_url)
    sweeper = Sweeper(store.engine, app)
    sweeper.sweep()
    assert webhooks_unheard(app) == 0
    endpoint(store, receiver.url)
    end_batches(store)
    for _ in range(3):
        sweeper.sweep()
        assert webhooks_unheard(app) == 1
    app.close()


@pytest.fixture
def start_process(
    database_url: str, redis_url: str, tmp_path: Path
) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """`python -m workers.webhooks`, as it is run."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        env = {
            "PATH": os.environ["PATH"],
            "DATABASE_URL": database_url,
            "REDIS_URL": redis_url,
            "WEIGHBRIDGE_WEBHOOK_ALLOW_PRIVATE": "true",
        }
        with (tmp_path / "webhooks.log").open("ab") as log:
            command = [sys.executable, "-m", "workers.webhooks"]
            started.append(subprocess.Popen(command, env=env, stdout=log, stderr=log))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_a_sender_that_is_killed_between_the_call_and_its_mark_is_replaced_under_the_same_id(
    store: Store,
    receiver: Receiver,
    sender: Sender,
    start_process: Callable[[], subprocess.Popen[bytes]],
) -> None:
    endpoint(store, receiver.url)
    process = start_process()

    def kill(_: Call) -> Answer:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        return Answer()

    receiver.answer = kill
    end_batches(store)
    first = receiver.next()
    assert process.wait(SECONDS) == -signal.SIGKILL
    receiver.answer = lambda _: Answer()
    assert delivery(store)["status"] == "sending"
    sender.run()
    assert receiver.all() == [], "the dead sender's lease still holds"
    store.run("UPDATE webhook_deliveries SET lease_until = now() - interval '1 s'")
    sender.run()
    second = receiver.next()
    assert (second.id, second.body) == (first.id, first.body)
    assert delivery(store)["status"] == "delivered"
    attempts = store.rows("SELECT status_code FROM webhook_attempts ORDER BY fence")
    assert [a["status_code"] for a in attempts] == [None, 200]


def test_a_sender_that_is_asked_to_stop_ends_its_calls(
    store: Store, receiver: Receiver, start_process: Callable[[], subprocess.Popen[bytes]]
) -> None:
    endpoint(store, receiver.url)
    process = start_process()
    called: list[Call] = []

    def answer_after_the_signal(call: Call) -> Answer:
        process.send_signal(signal.SIGTERM)
        called.append(call)
        return Answer()

    receiver.answer = answer_after_the_signal
    end_batches(store)
    assert process.wait(SECONDS) == 0
    assert len(called) == 1
    assert delivery(store)["status"] == "delivered"


def test_the_sender_needs_no_model_and_no_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = sys.modules['transformers'] = None;"
        "import workers.webhooks; print('engine' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert json.loads(done.stdout.strip().lower()) is False
