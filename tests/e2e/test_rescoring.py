"""The commands of docs/rescoring.md, typed against real processes; the night is a scheduler whose clock is moved."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from decisions.cron import next_due
from workers.scheduler import Scheduler

Start = Callable[..., Any]

PAGE = (Path(__file__).parents[2] / "docs" / "rescoring.md").read_text(encoding="utf-8")
SAMPLE = Path(str(resources.files("cli"))) / "sample"
TICKETS = 20
SECONDS = 120


def block(language: str) -> str:
    """The page's only block in this language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S)
    return str(found)


class Shell:
    """Types commands in a folder, and remembers the ids that they print."""

    def __init__(self, running: Any, folder: Path) -> None:
        self._env = running.stack.api.command.env | {
            "WEIGHBRIDGE_URL": running.stack.address.url,
            "WEIGHBRIDGE_API_KEY": running.stack.address.api_key,
            "COLUMNS": "200",
        }
        self._running = running
        self._folder = folder
        self.ids: dict[str, str] = {}

    def type(self, command: str, *, code: int = 0) -> str:
        for name, id_ in self.ids.items():
            command = command.replace(f"${name}", id_)
        _, *arguments = shlex.split(command)
        try:
            done = self._run(arguments)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{command} does not end\n{self._running.logs()}")
        assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
        for name, prefix in (("BATCH", "batch_"), ("SCHEDULE", "sched_")):
            if found := re.search(rf"{prefix}[0-9a-f]{{32}}", done.stdout + done.stderr):
                self.ids.setdefault(name, found[0])
        return done.stdout + done.stderr

    def _run(self, arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-c", "from cli.main import app; app()", *arguments],
            env=self._env,
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )


def commands(section: str) -> Sequence[str]:
    text = PAGE.partition(f"## {section}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\$ (weighbridge .*)$", text, re.M)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = (SAMPLE / "tickets.jsonl").read_text(encoding="utf-8").split("\n")[:TICKETS]
    (tmp_path / "tickets.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "triage.yaml").write_text((SAMPLE / "triage.yaml").read_text(encoding="utf-8"))
    (tmp_path / "corrections.csv").write_text(block("csv"))
    (tmp_path / "rescore.yaml").write_text(block("yaml"))
    return tmp_path


def test_an_overnight_rescoring_is_typed_as_the_page_says(
    start: Start, tiny_model: Path, folder: Path
) -> None:
    running = start(tiny_model)
    shell = Shell(running, folder)
    submit, truth, create, listing, show, report, run = commands("An evening and a morning")

    shell.type(submit)
    assert "5 stored, 0 repeated, 0 failed" in shell.type(truth)
    shell.type(create)
    assert "Europe/Berlin" in shell.type(listing)
    # Nothing is due yet for the real clocks of the API and of the worker.
    assert "run_" not in shell.type(show)

    # The night comes, twice: for two schedulers at once, and again a minute later.
    now = datetime.now(UTC)
    due = next_due("30 2 * * *", "Europe/Berlin", now)
    for minutes in (0, 0, 1):
        Scheduler(running.database, clock=partial(due.__add__, timedelta(minutes=minutes))).tick()
    # Whoever comes first makes the batch: this scheduler, the API's or the worker's.
    [(batch,)] = running.wait(
        "its batch",
        lambda: running.rows("SELECT batch_id FROM schedule_runs WHERE batch_id IS NOT NULL"),
    )
    assert running.finished(f"batch_{batch.hex}")["counts"]["done"] == 2 * TICKETS
    # Real clocks compare; which process does is of no interest.
    running.wait(
        "the report", lambda: running.rows("SELECT 1 FROM schedule_runs WHERE status = 'compared'")
    )

    shown = shell.type(show)
    assert len(re.findall("run_[0-9a-f]{32}", shown)) == 1
    words = shell.type(report)
    assert f"{2 * TICKETS} compared" in words
    found = json.loads(shell.type(f"{report} --json"))
    team, urgent = found["questions"]
    assert (team["truth"]["count"], urgent["truth"]["count"]) == (2, 1)
    # A yes/no keeps its order, so it was read exactly as before; a choice was not.
    assert (urgent["flips"], {drift["psi"] for drift in urgent["drift"]}) == (0, {0})
    assert any(drift["psi"] > 0 for drift in team["drift"])
    assert team["flips"] == len(found["flipped"]) > 0
    assert all(flip["before"]["answer"] != flip["after"]["answer"] for flip in found["flipped"])
    assert found["verdict"] == "hold"
    [(event,)] = running.rows("SELECT data FROM events WHERE type = 'schedule.report'")
    assert event["verdict"] == "hold"

    # Random weights answer otherwise when options come in another order: it is held again.
    assert "hold" in shell.type(run, code=1)


def test_a_run_that_changes_nothing_reads_the_same_bits_and_is_promoted(
    start: Start, tiny_model: Path, folder: Path
) -> None:
    running = start(tiny_model)
    shell = Shell(running, folder)
    shell.type("weighbridge submit tickets.jsonl -q triage.yaml --wait -o answers.jsonl")
    running.rows(
        "UPDATE states SET content = NULL, purged_at = now()"
        " WHERE hash = (SELECT min(hash) FROM states) RETURNING hash"
    )
    body = {"name": "same", "cron": "0 0 1 1 *", "thresholds": {"agreement": 1, "psi": 0}}
    shell.ids["SCHEDULE"] = running.client.post("/v1/schedules", body)["id"]
    found = json.loads(shell.type("weighbridge schedules run $SCHEDULE --wait --json"))
    assert (found["verdict"], found["purged"]) == ("promote", 3)
    assert found["compared"] == 3 * (TICKETS - 1)
    repeated = running.rows(
        "SELECT a.prompt_hash = b.prompt_hash AND a.log_probs = b.log_probs AS same"
        " FROM decisions a JOIN items i ON i.id = a.item_id"
        " JOIN decisions b ON i.custom_id = 'dec_' || b.id"
    )
    assert [row.same for row in repeated] == [True] * len(repeated)
    assert len(repeated) == found["compared"]
