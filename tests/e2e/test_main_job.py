"""From an HTTP submit to stored, auditable decisions, through real processes and real weights."""

import json
import os
import random
import re
import signal
import sys
import time
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import redis
import yaml

from cli.embedded import EmbeddedValkey
from cli.paths import Home

Running = Any
Start = Callable[..., Running]

SAMPLE = Path(str(resources.files("cli"))) / "sample"
URGENT: Any = {"urgent": {"type": "noul", "instructions": "Is this urgent?"}}


def metric(running: Running, name: str) -> int:
    found = re.search(
        rf"^weighbridge_{name}_total(?:{{[^}}]*}})? (\S+)$", running.client.text("/metrics"), re.M
    )
    assert found, f"no weighbridge_{name}_total"
    return int(float(found[1]))


def test_tickets_are_decided_by_the_default_model_and_can_be_audited(start: Start) -> None:
    running = start("default")
    lines = (SAMPLE / "tickets.jsonl").read_text(encoding="utf-8").split("\n")[:12]
    tickets = [json.loads(line) for line in lines]
    questions = yaml.safe_load((SAMPLE / "triage.yaml").read_text())["questions"]
    batch = running.client.post("/v1/batches", {"requests": tickets, "questions": questions})
    done = running.finished(batch["id"])
    assert done["status"] == "completed"
    assert done["request_counts"] == {"total": 12, "completed": 12, "failed": 0}

    results = [json.loads(r) for r in running.client.lines(f"/v1/batches/{batch['id']}/results")]
    assert [r["custom_id"] for r in results] == [t["custom_id"] for t in tickets]
    for result in results:
        assert list(result["answers"]) == ["team", "urgent", "tone"]
        for answer in result["answers"].values():
            assert abs(sum(answer["probabilities"].values()) - 1) < 1e-9
        for diagnostics in result["diagnostics"].values():
            assert 0 < diagnostics["label_mass"] <= 1

    decision = running.client.get(f"/v1/decisions/{results[0]['decisions']['team']}")
    assert decision["custom_id"] == tickets[0]["custom_id"]
    assert decision["state"] == tickets[0]["state"]
    assert decision["model"]["name"] == "SmolLM2-135M-Decisions"
    assert "Question: Which team should answer this ticket?\nA: billing" in json.dumps(
        decision["prompt"], ensure_ascii=False
    ).replace("\\n", "\n")
    assert metric(running, "prefills") == 12
    assert metric(running, "reads") == 36


def test_two_thousand_items_about_250_states_prefill_each_state_once(
    start: Start, tiny_model: Path
) -> None:
    running = start(tiny_model)
    sets = [{"q": {"type": "noul", "instructions": f"Variant {n}?"}} for n in range(8)]
    items = [
        {"custom_id": f"{state}-{n}", "state": f"ticket {state}: where is it?", "questions": asked}
        for state in range(250)
        for n, asked in enumerate(sets)
    ]
    random.Random(8).shuffle(items)  # noqa: S311 - test data
    batch = running.client.post("/v1/batches", {"requests": items})
    assert running.finished(batch["id"])["request_counts"]["completed"] == 2000
    assert metric(running, "prefills") == 250
    assert metric(running, "reads") == 2000


def test_bad_lines_of_a_file_fail_alone(start: Start, tiny_model: Path, tmp_path: Path) -> None:
    running = start(tiny_model)
    file = tmp_path / "mixed.jsonl"
    file.write_bytes(
        b'\xef\xbb\xbf{"custom_id": "a", "state": "one\xe2\x80\xa8line"}\r\n'
        b"\r\n"
        b"{not json}\n"
        b'{"custom_id": "a", "state": "again"}\n'
        b'{"custom_id": "b", "state": "\\ud83d"}\n'
        b'{"custom_id": "c"}\n'
        b'{"custom_id": "d", "state": "last"}'
    )
    body = {"input_file_id": running.client.upload(file, "mixed.jsonl"), "questions": URGENT}
    batch = running.finished(running.client.post("/v1/batches", body)["id"])
    assert batch["request_counts"] == {"total": 6, "completed": 2, "failed": 4}
    rows = [json.loads(r) for r in running.client.lines(f"/v1/batches/{batch['id']}/results")]
    assert [(r["line"], r["status"], (r["error"] or {}).get("code")) for r in rows] == [
        (1, "done", None),
        (3, "failed", "invalid_json"),
        (4, "failed", "duplicate_custom_id"),
        (5, "failed", "invalid_json"),
        (6, "failed", "missing_field"),
        (7, "done", None),
    ]


def test_a_worker_killed_in_the_middle_loses_nothing_and_stores_nothing_twice(
    start: Start, tiny_model: Path
) -> None:
    running = start(tiny_model, WEIGHBRIDGE_CLAIM_SECONDS="0.2")
    running.add_worker()
    items = [{"custom_id": f"i{n}", "state": f"ticket {n % 1500}"} for n in range(3000)]
    batch = running.client.post("/v1/batches", {"requests": items, "questions": URGENT})
    first = running.wait(
        "a lease of the first worker",
        lambda: running.rows(
            "SELECT w.id FROM workers w JOIN items i ON i.lease_owner = w.id"
            " WHERE w.name LIKE :name LIMIT 1",
            name=f"%:{running.stack.worker.pid}",
        ),
    )
    running.stack.worker.send(signal.SIGKILL)
    killed = time.monotonic()
    running.wait(
        "the return of its items",
        lambda: not running.rows("SELECT 1 FROM items WHERE lease_owner = :id", id=first[0].id),
    )
    assert time.monotonic() - killed < 10
    done = running.finished(batch["id"])
    assert done["request_counts"] == {"total": 3000, "completed": 3000, "failed": 0}
    [counted] = running.rows(
        "SELECT count(*), count(DISTINCT (item_id, question_id)) FROM decisions"
    )
    assert tuple(counted) == (3000, 3000)
    assert running.rows("SELECT type FROM events") == [("batch.completed",)]


def test_an_emptied_redis_delays_nothing_for_long(
    start: Start, tiny_model: Path, redis_url: str
) -> None:
    running = start(tiny_model)
    batch = running.client.post(
        "/v1/batches", {"requests": [{"custom_id": "a", "state": "x"}], "questions": URGENT}
    )
    with redis.Redis.from_url(redis_url) as client:
        client.flushall()
    assert running.finished(batch["id"])["status"] == "completed"


def test_a_redis_that_is_down_refuses_no_submit(start: Start, tiny_model: Path, home: Home) -> None:
    own = EmbeddedValkey(Home(path=home.path / "own"))
    own.start()
    running = start(tiny_model, REDIS_URL=own.url)
    own.stop()
    body = {"requests": [{"custom_id": "a", "state": "x"}], "questions": URGENT}
    batch = running.client.post("/v1/batches", body)
    assert batch["status"] == "in_progress"
    with own:
        assert running.finished(batch["id"])["status"] == "completed"


def test_an_item_that_kills_its_worker_dies_alone_after_five_attempts(
    start: Start, tiny_model: Path
) -> None:
    poisoned = str(Path(__file__).with_name("poisoned_worker.py"))
    # The stack's own worker would read it; it serves another lane.
    running = start(tiny_model, WEIGHBRIDGE_LANES='["nightly"]', WEIGHBRIDGE_LEASE_SECONDS="2")
    running.add_worker([sys.executable, poisoned], WEIGHBRIDGE_LANES='["bulk"]')
    items = [{"custom_id": f"i{n}", "state": f"ticket {n}"} for n in range(40)]
    items[20]["state"] = "POISON"
    body = {"requests": items, "questions": URGENT}
    batch = running.finished(running.client.post("/v1/batches", body)["id"])
    assert batch["status"] == "completed"
    assert batch["counts"]["done"] == 39
    assert batch["counts"]["dead"] == 1
    [dead] = running.rows("SELECT custom_id, attempt, error FROM items WHERE status = 'dead'")
    assert (dead.custom_id, dead.attempt) == ("i20", 5)
    assert dead.error["code"] == "attempts_exhausted"
    assert running.rows("SELECT count(*) FROM decisions") == [(39,)]


def test_a_worker_that_is_told_to_stop_gives_nothing_away(start: Start, tiny_model: Path) -> None:
    running = start(tiny_model, WEIGHBRIDGE_CLAIM_LIMIT="8")
    items = [{"custom_id": f"i{n}", "state": f"ticket {n}"} for n in range(600)]
    batch = running.client.post("/v1/batches", {"requests": items, "questions": URGENT})
    running.wait("the first results", lambda: running.rows("SELECT 1 FROM decisions LIMIT 1"))
    running.stack.worker.send(signal.SIGTERM)
    running.wait("its end", lambda: not running.stack.worker.alive, tend=False)
    assert running.rows("SELECT 1 FROM items WHERE status = 'leased'") == []
    assert running.rows("SELECT stopped_at IS NOT NULL FROM workers") == [(True,)]
    assert running.rows("SELECT max(attempt) FROM items") == [(1,)]
    assert running.finished(batch["id"])["request_counts"]["completed"] == 600


def test_a_reading_child_that_is_killed_is_replaced(start: Start, tiny_model: Path) -> None:
    running = start(tiny_model, WEIGHBRIDGE_POOL="prefork", WEIGHBRIDGE_CLAIM_LIMIT="8")
    items = [{"custom_id": f"i{n}", "state": f"ticket {n}"} for n in range(600)]
    batch = running.client.post("/v1/batches", {"requests": items, "questions": URGENT})
    [first] = running.wait(
        "a lease",
        lambda: running.rows(
            "SELECT w.name FROM workers w JOIN items i ON i.lease_owner = w.id LIMIT 1"
        ),
    )
    child = int(first.name.rpartition(":")[2])
    assert child != running.stack.worker.pid
    os.kill(child, signal.SIGKILL)
    assert running.finished(batch["id"])["request_counts"]["completed"] == 600
    assert running.stack.worker.alive
    assert running.rows("SELECT count(*) FROM workers") == [(2,)]


def test_a_worker_that_is_told_to_quit_at_once_loses_no_item(
    start: Start, tiny_model: Path
) -> None:
    running = start(tiny_model, WEIGHBRIDGE_CLAIM_LIMIT="8")
    items = [{"custom_id": f"i{n}", "state": f"ticket {n}"} for n in range(400)]
    batch = running.client.post("/v1/batches", {"requests": items, "questions": URGENT})
    running.wait("the first results", lambda: running.rows("SELECT 1 FROM decisions LIMIT 1"))
    running.stack.worker.send(signal.SIGQUIT)
    assert running.finished(batch["id"])["request_counts"]["completed"] == 400
    assert running.rows("SELECT count(*) FROM decisions") == [(400,)]
