"""Decisions per second over each way in and out, with a model of random weights that reads in no time.

What is measured is therefore everything around the engine. Starts the whole of Weighbridge on embedded
servers in a temporary folder with one worker, sends `--items` tickets of their own state and one yes/no
question over each way in turn, and ends in one JSON line:

    batch     one POST /v1/batches, then its results when it is over
    sse       one POST /v1/batches, its decisions as server-sent events
    stream    POST /v1/stream, written by one thread and read by another
    redis     XADD, one `weighbridge stream`, XREAD of the answers

`first_ms` is the time from the first byte sent to the first decision received, `api_cpu` and `worker_cpu`
the seconds of processor time that these used. The client, the API, the
worker, Postgres and Valkey share the machine.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
import redis

from cli.client import Client
from cli.paths import Home
from cli.stack import Stack, start_stack
from cli.supervisor import Supervisor
from engine.tiny import save_tiny_model
from workers.settings import default_cache

QUESTIONS = {"urgent": {"type": "noul", "instructions": "Is this urgent?"}}

#: Yields once for each decision that is received.
Way = Callable[[Stack, list[dict[str, str]]], Iterator[object]]


def tickets(way: str, items: int) -> list[dict[str, str]]:
    return [
        {"custom_id": f"{way}-{n}", "state": f"Ticket {n} by {way}: where is my parcel?"}
        for n in range(items)
    ]


def by_batch(stack: Stack, items: list[dict[str, str]]) -> Iterator[object]:
    with Client(stack.address) as client:
        batch = client.post("/v1/batches", {"requests": items, "questions": QUESTIONS})
        path = f"/v1/batches/{batch['id']}"
        for event in client.events(f"{path}/events", None, heartbeat=15, types="progress"):
            if event.type == "batch.completed":
                break
        yield from client.lines(f"{path}/results")


def by_events(stack: Stack, items: list[dict[str, str]]) -> Iterator[object]:
    with Client(stack.address) as client:
        batch = client.post("/v1/batches", {"requests": items, "questions": QUESTIONS})
        path = f"/v1/batches/{batch['id']}/events"
        for event in client.events(path, None, heartbeat=15, types="decision"):
            if event.type == "decision":
                yield event


def by_stream(stack: Stack, items: list[dict[str, str]]) -> Iterator[object]:
    host = stack.address.url.removeprefix("http://")
    with closing(HTTPConnection(host, timeout=600)) as connection:
        connection.putrequest("POST", "/v1/stream")
        connection.putheader("Authorization", f"Bearer {stack.address.api_key}")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        writer = Thread(target=write, args=(connection, [{"questions": QUESTIONS}, *items]))
        writer.start()
        for line in connection.getresponse():
            if json.loads(line)["object"] == "stream.result":
                yield line
        writer.join()


def write(connection: HTTPConnection, lines: list[Mapping[str, Any]]) -> None:
    for start in range(0, len(lines), 50):
        chunk = b"".join(json.dumps(line).encode() + b"\n" for line in lines[start : start + 50])
        connection.send(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
    connection.send(b"0\r\n\r\n")


def by_redis(stack: Stack, items: list[dict[str, str]]) -> Iterator[object]:
    with closing(redis.Redis.from_url(stack.api.command.env["REDIS_URL"])) as server:
        pipeline = server.pipeline(transaction=False)
        for item in items:
            pipeline.xadd("bench-in", {**item, "questions": json.dumps(QUESTIONS)})
        pipeline.execute()
        last: Any = "0-0"
        while True:
            read: Any = server.xread({"bench-out": last}, count=1000, block=1000)
            found = answers(read)
            last = found[-1][0] if found else last
            yield from found


def answers(read: Any) -> list[Any]:
    """Of one stream, in either version of the protocol."""
    found = list(read.values()) if isinstance(read, dict) else [raw for _, raw in read or ()]
    return [] if not found else found[0][0] if isinstance(found[0][0], list) else found[0]


@contextmanager
def consumer(stack: Stack) -> Iterator[None]:
    """A running `weighbridge stream`, which waits for its first entry."""
    env = {
        **stack.api.command.env,
        "WEIGHBRIDGE_URL": stack.address.url,
        "WEIGHBRIDGE_API_KEY": stack.address.api_key or "",
    }
    command = [sys.executable, "-c", "from cli.main import app; app()", "stream"]
    with (
        subprocess.Popen([*command, "--in", "bench-in", "--out", "bench-out"], env=env) as process,
        closing(redis.Redis.from_url(env["REDIS_URL"])) as server,
    ):
        while not server.exists("bench-in"):
            time.sleep(0.05)
        yield
        process.send_signal(signal.SIGTERM)


def measure(name: str, way: Way, stack: Stack, items: int) -> dict[str, float]:
    sent = tickets(name, items)
    before = cpu_seconds(stack)
    started = time.perf_counter()
    received, first = 0, started
    for _ in way(stack, sent):
        received += 1
        if received == 1:
            first = time.perf_counter()
        if received == items:
            break
    seconds = time.perf_counter() - started
    assert received == items, (name, received)
    measured = {
        "seconds": round(seconds, 2),
        "decisions_per_second": round(items / seconds, 1),
        "first_ms": round(1000 * (first - started)),
        **{name: round(now - before[name], 2) for name, now in cpu_seconds(stack).items()},
    }
    print(name, measured, file=sys.stderr)
    return measured


def cpu_seconds(stack: Stack) -> dict[str, float]:
    """What API and worker have used; says more than the clock on a machine that others use too."""
    times = {
        "api_cpu": psutil.Process(stack.api.pid).cpu_times(),
        "worker_cpu": psutil.Process(stack.worker.pid).cpu_times(),
    }
    return {name: used.user + used.system for name, used in times.items()}


def run(stack: Stack, items: int) -> dict[str, dict[str, float]]:
    measure("warm-up", by_batch, stack, 64)
    ways: dict[str, Way] = {"batch": by_batch, "sse": by_events, "stream": by_stream}
    measured = {name: measure(name, way, stack, items) for name, way in ways.items()}
    with consumer(stack):
        measured["redis"] = measure("redis", by_redis, stack, items)
    return measured


def main(items: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="weighbridge-bench-"))
    folder.chmod(0o711)
    env = {k: v for k, v in os.environ.items() if k not in ("DATABASE_URL", "REDIS_URL")}
    model = folder / "model"
    save_tiny_model(model, cache_dir=default_cache())
    try:
        with Supervisor() as supervisor:
            home = Home(path=folder / "home")
            home.make()
            env["WEIGHBRIDGE_MODEL"] = str(model)
            stack = start_stack(supervisor, home, env, port=0, say=lambda _: None)
            measured = run(stack, items)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps({"bench": "stream", "cores": os.cpu_count(), "items": items, **measured}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=4000)
    main(parser.parse_args().items)
