"""The main job at two sizes: how fast, where a worker's time goes, and what memory grows with.

Starts the whole of Weighbridge on embedded servers in a temporary folder, submits `--items` tickets
(one short yes/no question each, eight tickets about each state) once per size, and ends in one JSON
line. `engine_share` is the engine's part of the time that the worker spent on claims; the rest is the
queue, the database, tokenising and arithmetic. Peaks are the most that a process ever held.
"""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
from sqlalchemy import text

from cli.client import Client
from cli.paths import Home
from cli.stack import Stack, start_stack
from cli.supervisor import Supervisor
from decisions.database import sync_engine


def tickets(count: int) -> list[dict[str, str]]:
    made = [
        {"custom_id": str(n), "state": f"Order {n // 8}: the parcel has not come, where is it?"}
        for n in range(count)
    ]
    random.Random(0).shuffle(made)  # noqa: S311 - not a secret
    return made


def run(stack: Stack, supervisor: Supervisor, items: int) -> dict[str, float]:
    before = worker_counters(stack)
    started = time.monotonic()
    with Client(stack.address) as client:
        body = {"requests": distinct_questions(tickets(items))}
        batch = client.post("/v1/batches", body)
        submitted = time.monotonic() - started
        while batch["status"] == "in_progress":
            supervisor.tend()
            time.sleep(0.5)
            batch = client.get(f"/v1/batches/{batch['id']}")
            print(batch["request_counts"], file=sys.stderr)
    seconds = time.monotonic() - started
    spent = {name: value - before[name] for name, value in worker_counters(stack).items()}
    return {
        "items": items,
        "submit_seconds": round(submitted, 2),
        "seconds": round(seconds, 1),
        "decisions_per_second": round(items / seconds, 2),
        "prefills": int(spent["prefills"]),
        "reads": int(spent["reads"]),
        "engine_share": round(spent["engine_seconds"] / spent["busy_seconds"], 4),
        "api_peak_mb": peak_mb(stack.api.pid),
        "worker_peak_mb": peak_mb(stack.worker.pid),
    }


def distinct_questions(items: list[dict[str, str]]) -> list[dict[str, object]]:
    """Eight tickets about one state ask eight different things, so that none is read for another."""
    return [
        {
            **item,
            "questions": {
                "q": {
                    "type": "noul",
                    "instructions": f"Is this urgent? ({int(item['custom_id']) % 8})",
                }
            },
        }
        for item in items
    ]


def worker_counters(stack: Stack) -> dict[str, float]:
    engine = sync_engine(stack.database_url)
    names = ("prefills", "reads", "engine_seconds", "busy_seconds")
    sums = ", ".join(f"coalesce(sum({name}), 0)::float8 AS {name}" for name in names)
    with engine.begin() as connection:
        row = connection.execute(text(f"SELECT {sums} FROM workers")).one()
    engine.dispose()
    return dict(row._mapping)


def peak_mb(pid: int | None) -> float:
    """VmHWM: what the process held at most since it started."""
    assert pid is not None
    status = Path(f"/proc/{psutil.Process(pid).pid}/status").read_text()
    return round(int(status.split("VmHWM:")[1].split()[0]) / 1024, 1)


def main(sizes: Sequence[int]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="weighbridge-bench-"))
    folder.chmod(0o711)
    env = {k: v for k, v in os.environ.items() if k not in ("DATABASE_URL", "REDIS_URL")}
    try:
        with Supervisor() as supervisor:
            stack = start_stack(supervisor, Home(path=folder), env, port=0, say=lambda _: None)
            runs = [run(stack, supervisor, size) for size in sizes]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps({"bench": "main_job", "cores": os.cpu_count(), "runs": runs}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, nargs="+", default=[1000, 10000])
    main(parser.parse_args().items)
