"""The `weighbridge` command, as a person types it, against real processes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from cli.paths import Home

Start = Callable[..., Any]

QUESTIONS = "urgent: {type: noul, instructions: 'Is this urgent?'}\n"
SECONDS = 240


def weighbridge(
    *arguments: str, env: dict[str, str], **how: Any
) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", "from cli.main import app; app()", *arguments]
    return subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=SECONDS, check=False, **how
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "q.yaml").write_text(QUESTIONS)
    (tmp_path / "t.jsonl").write_text(
        '{"custom_id": "a", "state": "one"}\n{"custom_id": "b", "state": "two"}\n'
    )
    (tmp_path / "t.csv").write_text("id,body\n7,late parcel\n8,thanks\n")
    return tmp_path


def test_the_life_of_a_batch_is_typed(start: Start, tiny_model: Path, folder: Path) -> None:
    running = start(tiny_model)
    env = running.stack.api.command.env | {
        "WEIGHBRIDGE_URL": running.stack.address.url,
        "WEIGHBRIDGE_API_KEY": running.stack.address.api_key,
    }

    def run(*arguments: str, fails: bool = False, **how: Any) -> str:
        done = weighbridge(*arguments, env=env, cwd=folder, **how)
        assert (done.returncode != 0) == fails, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout

    # Waits, shows progress, writes the file whole.
    run("submit", "t.jsonl", "-q", "q.yaml", "--wait", "-o", "answers.jsonl")
    answers = [
        json.loads(line) for line in (folder / "answers.jsonl").read_text().split("\n") if line
    ]
    assert [a["custom_id"] for a in answers] == ["a", "b"]
    assert not (folder / "answers.jsonl.part").exists()

    # CSV by its columns; the same key twice is one batch.
    typed = (
        "submit",
        "t.csv",
        "--column",
        "custom_id=id",
        "--column",
        "state=body",
        "-q",
        "q.yaml",
    )
    keyed = (*typed, "--idempotency-key", "k1", "--json")
    batch = json.loads(run(*keyed))
    json.loads(run("watch", batch["id"], "--json"))
    rows = [json.loads(line) for line in run("results", batch["id"]).split("\n") if line]
    assert [row["custom_id"] for row in rows] == ["7", "8"]

    # stdin.
    lines = (folder / "t.jsonl").read_text()
    from_pipe = json.loads(run("submit", "-", "-q", "q.yaml", "--json", "--wait", input=lines))
    assert from_pipe["request_counts"]["completed"] == 2

    listed = json.loads(run("status", "--json"))
    assert [b["id"] for b in listed["data"]][:2] == [from_pipe["id"], batch["id"]]
    assert "completed" in run("status", batch["id"])
    assert json.loads(run("cancel", batch["id"], "--json"))["status"] == "completed"

    # Errors are words, or one JSON line, never a traceback.
    assert "There is no" in json.loads(run("status", "batch_00", "--json", fails=True))["error"]
    refused = json.loads(run("submit", "t.jsonl", "--lane", "fast", "--json", fails=True))
    assert refused["status"] == 422
    run("submit", "missing.jsonl", fails=True)

    env.pop("WEIGHBRIDGE_API_KEY")
    made = json.loads(run("keys", "create", "ci", "--tenant", "other", "--json"))
    env["WEIGHBRIDGE_API_KEY"] = made["key"]
    assert json.loads(run("status", "--json"))["data"] == []
    run("keys", "revoke", str(made["id"]))
    assert json.loads(run("status", "--json", fails=True))["status"] == 401
    assert made["key"] not in run("keys", "list")

    found = json.loads(run("doctor", "--json"))
    assert found["ok"], found
    assert {f["name"] for f in found["findings"]} >= {"postgres", "redis", "api", "engine", "model"}


def test_an_api_that_is_not_there_is_said_in_words(folder: Path) -> None:
    done = weighbridge("status", "--url", "http://127.0.0.1:9", env=dict(os.environ), cwd=folder)
    assert done.returncode == 1
    assert "does not answer" in done.stderr
    assert "Traceback" not in done.stderr


def demo_env(home: Home, model: Path) -> dict[str, str]:
    return dict(os.environ) | {"WEIGHBRIDGE_HOME": str(home.path), "WEIGHBRIDGE_MODEL": str(model)}


def servers_of(home: Home) -> list[psutil.Process]:
    """Processes that have anything to do with this home, by their command line or environment."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "environ"]):
        told = [*(process.info["cmdline"] or []), *(process.info["environ"] or {}).values()]
        if process.pid != os.getpid() and any(str(home.path) in part for part in told):
            found.append(process)
    return found


def test_the_demo_ends_in_one_json_line_and_leaves_nothing_behind(
    home: Home, tiny_model: Path, folder: Path
) -> None:
    done = weighbridge("demo", "--json", env=demo_env(home, tiny_model), cwd=folder)
    assert done.returncode == 0, done.stderr
    [line] = done.stdout.splitlines()
    report = json.loads(line)
    assert report["items"] == 262
    assert report["errors"] == 0
    assert report["decisions"] == 3 * 262
    assert report["prefills"] == report["states"]
    assert report["seconds"] > 0
    assert len((folder / "weighbridge-results.jsonl").read_text().splitlines()) == 262
    assert servers_of(home) == []


def test_a_demo_that_is_interrupted_leaves_nothing_behind(
    home: Home, tiny_model: Path, folder: Path
) -> None:
    command = [sys.executable, "-c", "from cli.main import app; app()", "demo"]
    with subprocess.Popen(
        command, env=demo_env(home, tiny_model), cwd=folder, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stderr is not None
        for line in demo.stderr:
            if "Starting a worker" in line:
                break
        demo.send_signal(signal.SIGINT)
        assert demo.wait(SECONDS) == 130
    deadline = time.monotonic() + 10
    while servers_of(home):
        assert time.monotonic() < deadline, servers_of(home)
