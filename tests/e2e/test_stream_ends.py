"""Streams through real processes: they end when the API is told to stop, and are followed through its death."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

Start = Callable[..., Any]

URGENT: Any = {"urgent": {"type": "noul", "instructions": "Is this urgent?"}}


def items(n: int) -> list[dict[str, str]]:
    return [{"custom_id": f"i{i}", "state": f"ticket {i}"} for i in range(n)]


def test_an_api_that_stops_ends_its_streams_at_once_and_says_what_is_unanswered(
    start: Start, tiny_model: Path
) -> None:
    # No worker serves the lane, so nothing is answered and no stream has another reason to end.
    running = start(tiny_model, WEIGHBRIDGE_LANES='["nightly"]')
    batch = running.client.post("/v1/batches", {"requests": items(1), "questions": URGENT})
    events = running.client.events(f"/v1/batches/{batch['id']}/events", None, heartbeat=60)
    assert next(events).type == "progress"
    address = running.stack.address
    with closing(HTTPConnection(address.url.removeprefix("http://"), timeout=60)) as connection:
        connection.putrequest("POST", "/v1/stream")
        connection.putheader("Authorization", f"Bearer {address.api_key}")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        lines = [{"questions": URGENT}, *items(2)]
        body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        connection.send(f"{len(body):x}\r\n".encode() + body + b"\r\n")
        response = connection.getresponse()
        assert json.loads(response.readline())["object"] == "stream.accepted"
        running.stack.api.send(signal.SIGTERM)
        end = json.loads(response.readline())
        assert response.readline() == b""
    assert list(events) == []
    assert end == {"object": "stream.end", "lines": 3, "unanswered": [2, 3], "complete": False}
    # Far less than the seconds that ordinary requests have to end.
    running.wait("its end", lambda: not running.stack.api.alive, seconds=10, tend=False)


def test_watch_goes_on_through_the_death_of_the_api(start: Start, tiny_model: Path) -> None:
    running = start(tiny_model, WEIGHBRIDGE_CLAIM_SECONDS="0.1", WEIGHBRIDGE_LANES='["nightly"]')
    batch = running.client.post("/v1/batches", {"requests": items(400), "questions": URGENT})
    env = running.stack.api.command.env | {
        "WEIGHBRIDGE_URL": running.stack.address.url,
        "WEIGHBRIDGE_API_KEY": running.stack.address.api_key,
    }
    command = [sys.executable, "-c", "from cli.main import app; app()", "watch", batch["id"]]
    with subprocess.Popen([*command, "--json"], env=env, stdout=subprocess.PIPE) as watch:
        running.wait(
            "a look at the batch's steps, which nobody but watch asks for",
            lambda: running.rows(
                "SELECT 1 FROM pg_stat_user_tables"
                " WHERE relname = 'steps' AND seq_scan + idx_scan > 1"
            ),
        )
        running.stack.api.send(signal.SIGKILL)
        running.add_worker(WEIGHBRIDGE_LANES='["bulk"]')
        running.wait("the end of watch", lambda: watch.poll() is not None)
        assert watch.stdout is not None
        told = json.loads(watch.stdout.read())
    assert watch.returncode == 0
    assert told["request_counts"]["completed"] == 400
