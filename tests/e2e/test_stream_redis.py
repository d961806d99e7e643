"""`weighbridge stream` as a real process on a real Valkey: each entry is answered once, whatever dies."""

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import redis

Start = Callable[..., Any]

QUESTIONS = "questions: {urgent: {type: noul, instructions: 'Is this urgent?'}}\n"
ENTRIES = 300


@pytest.fixture
def server(redis_url: str) -> Iterator[Any]:
    with closing(redis.Redis.from_url(redis_url, decode_responses=True)) as client:
        yield client


class Group:
    """Processes of one group between the streams `tickets` and `answers`."""

    def __init__(self, running: Any, folder: Path, server: Any) -> None:
        self.running = running
        self.server = server
        self._folder = folder
        self._processes: list[subprocess.Popen[str]] = []
        (folder / "q.yaml").write_text(QUESTIONS)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        command = ["stream", "--in", "tickets", "--out", "answers", "-q", "q.yaml", "--json"]
        stack = self.running.stack
        process = subprocess.Popen(
            [
                *(sys.executable, "-c", "from cli.main import app; app()", *command),
                *("--idle", "1", "--count", "10", "--pumps", "2", *arguments),
            ],
            env=stack.api.command.env
            | {
                "WEIGHBRIDGE_URL": stack.address.url,
                "WEIGHBRIDGE_API_KEY": stack.address.api_key,
            },
            cwd=self._folder,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._processes.append(process)
        return process

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()

    def wait(self, what: str, until: Callable[[], Any]) -> None:
        self.running.wait(what, until)

    def pending(self) -> int:
        with suppress(redis.ResponseError):  # there is no such stream, or no group, yet
            return int(self.server.xpending("tickets", "weighbridge")["pending"])
        return 0

    def answers(self) -> list[dict[str, str]]:
        return [fields for _, fields in self.server.xrange("answers")]

    def all_answered(self, entries: int) -> None:
        self.wait(f"{entries} answers", lambda: self.server.xlen("answers") >= entries)
        self.wait("the end of what is pending", lambda: self.pending() == 0)


@pytest.fixture
def group(start: Start, tiny_model: Path, tmp_path: Path, server: Any) -> Iterator[Group]:
    made = Group(start(tiny_model, WEIGHBRIDGE_CLAIM_SECONDS="0.2"), tmp_path, server)
    yield made
    made.close()


def add(server: Any, entries: int = ENTRIES) -> list[str]:
    return [
        server.xadd("tickets", {"custom_id": f"t-{n}", "state": f"ticket {n}"})
        for n in range(entries)
    ]


def each_answered_once(group: Group, ids: list[str]) -> None:
    answers = group.answers()
    assert Counter(answer["entry"] for answer in answers) == Counter(ids)
    assert {answer["status"] for answer in answers} == {"done"}
    assert group.running.rows("SELECT count(*) FROM decisions") == [(len(ids),)]


def test_entries_are_answered_once_though_their_consumers_are_killed_at_every_point(
    group: Group, server: Any
) -> None:
    ids = add(server)
    moments: list[tuple[str, Callable[[], Any]]] = [
        ("entries that were taken", group.pending),
        ("a batch", lambda: group.running.rows("SELECT 1 FROM batches LIMIT 1")),
        ("a decision", lambda: group.running.rows("SELECT 1 FROM decisions LIMIT 1")),
        *((f"{n} answers", lambda n=n: server.xlen("answers") >= n) for n in (1, 60, 150)),
    ]
    for what, moment in moments:
        process = group.start()
        group.wait(what, moment)
        process.kill()
        process.wait()
    group.start()
    group.start()
    group.all_answered(len(ids))
    each_answered_once(group, ids)


def test_a_consumer_that_is_told_to_stop_leaves_nothing_behind(group: Group, server: Any) -> None:
    ids = add(server)
    process = group.start()
    group.wait("answers", lambda: server.xlen("answers"))
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    answered = server.xlen("answers")
    assert json.loads(out) == {"answered": answered, "failed": 0}
    assert group.pending() == 0
    assert server.xinfo_consumers("tickets", "weighbridge") == []
    group.start()
    group.all_answered(len(ids))
    each_answered_once(group, ids)


def test_an_api_that_is_killed_delays_entries_and_loses_none(group: Group, server: Any) -> None:
    ids = add(server)
    group.start()
    group.wait("answers", lambda: server.xlen("answers"))
    group.running.stack.api.send(signal.SIGKILL)
    group.all_answered(len(ids))
    each_answered_once(group, ids)


def test_what_is_wrong_with_an_entry_is_its_answer(group: Group, server: Any) -> None:
    own = {"mine": {"type": "score", "criteria": ["low", "high"]}}
    added = {
        name: server.xadd("tickets", fields)
        for name, fields in {
            "text": {"custom_id": "a", "state": "7"},
            "own": {"state": "x", "questions": json.dumps(own)},
            "json": {"item": json.dumps({"custom_id": "b", "state": {"n": 7}})},
            "no state": {"custom_id": "c"},
            "no text": {"state": b"\xff"},
            "no json": {"item": "{"},
            "unknown": {"state": "x", "other": "y"},
        }.items()
    }
    group.start()
    group.all_answered(len(added))
    answers = {answer["entry"]: answer for answer in group.answers()}
    found = {name: answers[id_] for name, id_ in added.items()}
    results = {name: json.loads(answer["result"]) for name, answer in found.items()}
    assert {name: (results[name]["error"] or {}).get("code") for name in found} == {
        "text": None,
        "own": None,
        "json": None,
        "no state": "missing_field",
        "no text": "invalid_entry",
        "no json": "invalid_entry",
        "unknown": "invalid_entry",
    }
    assert [found[name]["custom_id"] for name in ("text", "json", "own")] == [
        "a",
        "b",
        added["own"],
    ]
    assert list(results["own"]["answers"]) == ["mine"]
    states = group.running.rows("SELECT CAST(content AS text) FROM states ORDER BY 1")
    assert [state for (state,) in states] == ['"7"', '"x"', '{"n": 7}']


def test_wrong_questions_are_said_before_anything_is_taken(
    group: Group, server: Any, tmp_path: Path
) -> None:
    add(server, 1)
    (tmp_path / "q.yaml").write_text("questions: {}\n")
    out, _ = group.start().communicate(timeout=60)
    assert "questions" in json.loads(out)["error"]
    assert server.xinfo_groups("tickets") == []
