"""Webhooks as they are typed, from a submitted batch to a receiver that verifies, through real processes."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.receiver import Answer, Receiver, receiving

Start = Callable[..., Any]
SECONDS = 240
QUESTIONS: Any = {"urgent": {"type": "noul", "instructions": "Is this urgent?"}}
ITEMS = [{"custom_id": "1", "state": "Where is my parcel?"}]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


def test_webhooks_are_kept_tried_read_and_sent_again_by_hand(
    start: Start, tiny_model: Path, receiver: Receiver
) -> None:
    running = start(tiny_model, WEIGHBRIDGE_WEBHOOK_ALLOW_PRIVATE="true")
    env = running.stack.api.command.env | {
        "WEIGHBRIDGE_URL": running.stack.address.url,
        "WEIGHBRIDGE_API_KEY": running.stack.address.api_key,
        "COLUMNS": "200",
    }

    def run(*arguments: str, fails: bool = False) -> str:
        code = "from cli.main import app; app()"
        done = subprocess.run(
            [sys.executable, "-c", code, "webhooks", *arguments],
            env=env,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert (done.returncode != 0) == fails, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout

    def log(**query: str) -> Any:
        return running.client.get("/v1/webhooks/deliveries", **query)["data"]

    assert "No webhooks yet" in run("list")
    secret = run("create", receiver.url).strip()
    assert "wh_1" in run("list")
    run("test", "wh_1")
    assert receiver.next().verified(secret)["type"] == "webhook.test"

    body = {"requests": ITEMS, "questions": QUESTIONS}
    batch = running.client.post("/v1/batches", body)
    told = receiver.next()
    assert told.verified(secret)["data"]["id"] == batch["id"]
    running.wait("the mark", lambda: log(batch=batch["id"], status="delivered"))
    (delivery,) = json.loads(run("deliveries", "--batch", batch["id"], "--json"))
    assert (delivery["event_id"], delivery["attempts"][0]["status_code"]) == (told.id, 200)
    assert delivery["id"] in run("deliveries", "--webhook", "wh_1", "--status", "delivered")

    newer = json.loads(run("rotate", "wh_1", "--json"))["secret"]
    run("resend", delivery["id"])
    again = receiver.next()
    assert (again.id, again.body) == (told.id, told.body)
    assert again.verified(secret) == again.verified(newer)

    run("disable", "wh_1")
    assert "disabled" in run("test", "wh_1", "--json", fails=True)
    run("enable", "wh_1")
    run("delete", "wh_1")
    assert "No deliveries" in run("deliveries")
    run("delete", "wh_1", fails=True)


def test_a_batchs_webhook_arrives_though_redis_was_emptied_and_the_receiver_was_down(
    start: Start, tiny_model: Path, receiver: Receiver, redis_url: str
) -> None:
    running = start(tiny_model, WEIGHBRIDGE_WEBHOOK_ALLOW_PRIVATE="true")
    receiver.answer = lambda _: Answer(status=503)
    body = {"requests": ITEMS, "questions": QUESTIONS, "webhook": {"url": receiver.url}}
    batch = running.client.post("/v1/batches", body)
    failed = receiver.next()
    running.wait(
        "the next attempt's time",
        lambda: running.rows("SELECT 1 FROM webhook_deliveries WHERE status = 'waiting'"),
    )
    with closing(redis.Redis.from_url(redis_url)) as client:
        client.flushall()
    receiver.answer = lambda _: Answer()
    running.stack.webhooks.send(signal.SIGKILL)
    running.rows("UPDATE webhook_deliveries SET due_at = now() RETURNING 1")
    running.wait("a call by the sender's successor", lambda: receiver.calls.qsize())
    told = receiver.next()
    assert told.id == failed.id
    assert told.verified(batch["webhook"]["secret"])["data"]["status"] == "completed"
