"""What a synchronous call costs beside the model: `POST /v1/systemone`, one call after the other.

Overhead is what the client waited less what the engine says that it read. With `--bulk N` a batch of N
items runs beside it. Starts embedded servers, the API and a worker in a temporary folder, and ends in
one JSON line. `--model tiny` takes random weights that read in no time, so that overhead is not lost in
the noise of a busy machine.
"""

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
import psutil

from cli.paths import Home
from cli.processes import Process
from cli.stack import Stack, start_stack
from cli.supervisor import Supervisor
from engine.tiny import save_tiny_model
from workers.settings import default_cache

QUESTIONS = {
    "team": {"type": "choice", "criteria": {"billing": None, "shipping": None}},
    "urgent": {"type": "noul", "instructions": "Is it urgent?"},
    "tone": {"type": "score", "criteria": ["calm", "cross", "furious"]},
}


def call(client: httpx2.Client, number: int) -> tuple[float, str]:
    """Seconds of the call, and the id of one of its decisions."""
    body = {"state": f"Ticket {number}: my parcel has not come.", "questions": QUESTIONS}
    started = time.perf_counter()
    reply = client.post("/v1/systemone", json=body).raise_for_status()
    return time.perf_counter() - started, reply.json()["decisions"]["team"]


def timing(client: httpx2.Client, decision: str) -> dict[str, float]:
    found: dict[str, Any] = client.get(f"/v1/decisions/{decision}").raise_for_status().json()
    return dict(found["timing"])


def measure(stack: Stack, calls: int, bulk: int) -> dict[str, Any]:
    address = stack.address
    headers = {"Authorization": f"Bearer {address.api_key}"}
    with httpx2.Client(base_url=address.url, headers=headers, timeout=300) as client:
        for number in range(10):  # the first ones wait for the model
            call(client, -number)
        if bulk:
            submit(client, bulk)
        before = {name: cpu_seconds(process) for name, process in processes(stack)}
        waited = [call(client, number) for number in range(calls)]
        cpu = {name: cpu_seconds(p) - before[name] for name, p in processes(stack)}
        timings = [timing(client, decision) for _, decision in waited]
        left = remaining(client) if bulk else 0
    engine = [t["read_seconds"] for t in timings]
    overhead = [seconds - read for (seconds, _), read in zip(waited, engine, strict=True)]
    return {
        "calls": calls,
        "call_ms": quantiles([seconds for seconds, _ in waited]),
        "engine_ms": quantiles(engine),
        "overhead_ms": quantiles(overhead),
        "queue_ms": quantiles([t["queue_seconds"] for t in timings]),
        "cpu_ms_per_call": {name: round(s / calls * 1000, 2) for name, s in cpu.items()},
        "bulk_items": bulk,
        "bulk_items_left": left,
    }


def processes(stack: Stack) -> list[tuple[str, Process]]:
    return [("api", stack.api), ("worker", stack.worker)]


def cpu_seconds(process: Process) -> float:
    """Of a process and its children; says more than waiting does where others keep the machine busy."""
    assert process.pid
    own = psutil.Process(process.pid)
    times = [p.cpu_times() for p in (own, *own.children(recursive=True))]
    return sum(t.user + t.system for t in times)


def submit(client: httpx2.Client, items: int) -> None:
    requests = [{"custom_id": str(i), "state": f"Bulk ticket {i}."} for i in range(items)]
    body = {"requests": requests, "questions": QUESTIONS}
    client.post("/v1/batches", json=body).raise_for_status()


def remaining(client: httpx2.Client) -> int:
    """Items of the bulk batch that are not final; none means that it ended before the calls did."""
    listed = client.get("/v1/batches", params={"limit": 100}).json()["data"]
    running = [batch["counts"] for batch in listed if batch["lane"] == "bulk"]
    return sum(counts["queued"] + counts["leased"] for counts in running)


def quantiles(seconds: Sequence[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "median": round(statistics.median(ordered) * 1000, 2),
        "p95": round(ordered[int(len(ordered) * 0.95)] * 1000, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--bulk", type=int, default=0)
    parser.add_argument("--model", default="default")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="weighbridge-bench-"))
    folder.chmod(0o711)
    model = arguments.model
    if model == "tiny":
        model = str(folder / "tiny")
        save_tiny_model(folder / "tiny", cache_dir=default_cache())
    env = {"OMP_WAIT_POLICY": "PASSIVE", **os.environ, "WEIGHBRIDGE_MODEL": model}
    try:
        with Supervisor() as supervisor:
            stack = start_stack(
                supervisor, Home(path=folder / "home"), env, port=0, say=lambda _: None
            )
            measured = measure(stack, arguments.calls, arguments.bulk)
    finally:
        shutil.rmtree(folder)
    print(json.dumps({"model": arguments.model, **measured}))


if __name__ == "__main__":
    main()
