"""How much memory a large file takes on its way in: uploaded, accepted, and read back.

Serves the API in a process of its own on embedded servers in a temporary folder, uploads a file of
`--lines` items of about a kilobyte, each with a state of its own, makes a batch of it, and ends in one
JSON line. `peak_rss_mb` is the most that the API's process ever held.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
from sqlalchemy import Engine

from cli.embedded import EmbeddedPostgres, EmbeddedValkey
from cli.paths import Home
from decisions import keys
from decisions.database import migrate, sync_engine, transaction

QUESTIONS = {
    "team": {"type": "choice", "criteria": {"billing": None, "shipping": None}},
    "urgent": {"type": "noul", "instructions": "Is it urgent?"},
}
TEXT = "The parcel was to come on Monday, and nobody at the counter knows where it is. " * 12


def write_items(path: Path, lines: int) -> None:
    with path.open("w") as file:
        for i in range(lines):
            item = {"custom_id": f"ticket-{i}", "state": f"Ticket {i}. {TEXT}"}
            file.write(json.dumps(item) + "\n")


@contextmanager
def api_process(database_url: str, redis_url: str) -> Iterator[tuple[str, int]]:
    """The base URL and the process id."""
    port = 18_765
    env = os.environ | {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "WEIGHBRIDGE_PORT": str(port),
    }
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen([sys.executable, "-m", "api"], env=env)
    try:
        wait_until_ready(url, process)
        yield url, process.pid
    finally:
        process.terminate()
        process.wait(30)


def wait_until_ready(url: str, process: "subprocess.Popen[bytes]") -> None:
    while process.poll() is None:
        try:
            if httpx2.get(f"{url}/readyz").status_code == 200:
                return
        except httpx2.TransportError:
            time.sleep(0.05)
    raise SystemExit("the API did not start")


def memory_mb(pid: int, field: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise KeyError(field)


def new_secret(database: Engine) -> str:
    key = keys.new_key()
    with transaction(database) as connection:
        tenant = connection.execute(keys.ensure_tenant(keys.DEFAULT_TENANT)).scalar_one()
        connection.execute(keys.store(tenant, "bench", key))
    return key.secret


def ingest(client: httpx2.Client, path: Path) -> dict[str, float]:
    started = time.perf_counter()
    with path.open("rb") as file:
        upload = client.post("/v1/files", files={"file": file}, data={"purpose": "batch"})
    uploaded = time.perf_counter()
    body = {"input_file_id": upload.raise_for_status().json()["id"], "questions": QUESTIONS}
    batch = client.post("/v1/batches", json=body).raise_for_status().json()
    accepted = time.perf_counter()
    assert batch["counts"]["failed"] == 0, batch["errors"]
    return {
        "lines": batch["request_counts"]["total"],
        "upload_seconds": round(uploaded - started, 2),
        "accept_seconds": round(accepted - uploaded, 2),
        "seconds": round(accepted - started, 2),
    }


def read_back(client: httpx2.Client, batch_id: str) -> float:
    started = time.perf_counter()
    with client.stream("GET", f"/v1/batches/{batch_id}/results") as response:
        for _ in response.iter_raw():
            pass
    return round(time.perf_counter() - started, 2)


def cancel(client: httpx2.Client) -> dict[str, float]:
    """Ends the batch, so that it has results, and streams them all."""
    batch_id = client.get("/v1/batches").json()["data"][0]["id"]
    started = time.perf_counter()
    client.post(f"/v1/batches/{batch_id}/cancel").raise_for_status()
    return {
        "cancel_seconds": round(time.perf_counter() - started, 2),
        "results_seconds": read_back(client, batch_id),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=200_000)
    lines = parser.parse_args().lines
    folder = Path(tempfile.mkdtemp(prefix="weighbridge-bench-"))
    folder.chmod(0o711)
    home = Home(path=folder)
    path = folder / "items.jsonl"
    write_items(path, lines)
    try:
        with EmbeddedPostgres(home) as postgres, EmbeddedValkey(home) as valkey:
            migrate(postgres.url)
            secret = new_secret(sync_engine(postgres.url))
            with api_process(postgres.url, valkey.url) as (url, pid):
                before = memory_mb(pid, "VmRSS")
                headers = {"Authorization": f"Bearer {secret}"}
                with httpx2.Client(base_url=url, headers=headers, timeout=1800) as client:
                    measured = ingest(client, path) | cancel(client)
                peak = memory_mb(pid, "VmHWM")
    finally:
        size = path.stat().st_size
        shutil.rmtree(folder)
    memory = {"idle_rss_mb": round(before, 1), "peak_rss_mb": round(peak, 1)}
    print(json.dumps({**measured, "bytes": size, **memory}))


if __name__ == "__main__":
    main()
