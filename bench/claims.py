"""The queue alone: how fast items are submitted, claimed and completed, with no engine behind it.

Embedded Postgres in a temporary folder, one process, one decision per item, `--items` items about an
eighth as many states in shuffled order, `--claim` at a time. Ends in one JSON line.
"""

import argparse
import json
import random
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Engine

from cli.embedded import EmbeddedPostgres
from cli.paths import Home
from decisions import fleet, keys, queue
from decisions.bodies import system_one_body
from decisions.database import migrate, sync_engine, transaction
from decisions.items import read_item
from decisions.submit import submit
from decisions.types import Lane, Submission

SHARED: Any = {"questions": {"urgent": {"type": "noul", "instructions": "Is this urgent?"}}}
VERSION = ("model", "revision", "dtype", "kv_format", "attention", "engine_version", "device")


def fill(engine: Engine, items: int) -> float:
    """Items per second."""
    lines = [
        json.dumps({"custom_id": str(n), "state": f"ticket {n // 8}: " + "where is it? " * 20})
        for n in range(items)
    ]
    random.Random(0).shuffle(lines)  # noqa: S311 - not a secret
    parse = system_one_body(SHARED)
    with transaction(engine) as connection:
        tenant = connection.execute(keys.ensure_tenant("bench")).scalar_one()
    started = time.monotonic()
    made = (read_item(line.encode(), n, parse, "/v1/systemone") for n, line in enumerate(lines, 1))
    submit(engine, Submission(tenant_id=tenant), made)
    return items / (time.monotonic() - started)


def drain(engine: Engine, claim: int) -> float:
    """Items per second through claim, complete and the worker's counters."""
    worker, version = uuid4(), 0
    with transaction(engine) as connection:
        settings = dict.fromkeys(VERSION, "bench")
        version = connection.execute(fleet.record_model_version(settings)).scalar_one()
        connection.execute(fleet.register_worker(worker, "bench", version, 2048, list(Lane)))
    done, started = 0, time.monotonic()
    while True:
        with transaction(engine) as connection:
            claims = connection.execute(queue.claim(worker, Lane.BULK, claim, 60)).all()
        if not claims:
            return done / (time.monotonic() - started)
        with transaction(engine) as connection:
            connection.execute(queue.complete(*rows(claims, worker, version)))
            connection.execute(fleet.count(worker, {"claims": 1, "items_done": len(claims)}))
        done += len(claims)


def rows(claims: Sequence[Any], worker: UUID, version: int) -> tuple[list[Any], list[Any]]:
    results = [
        {"id": c.id, "fence": c.fence, "status": "done", "input_tokens": 60, "output_tokens": 1}
        for c in claims
    ]
    decisions = [
        {
            "item_id": c.id,
            "question_id": "urgent",
            "type": "noul",
            "answer": "yes",
            "answer_index": 0,
            "value": 0.75,
            "probabilities": [0.75, 0.25],
            "log_probs": [-0.4, -1.5],
            "label_ids": [1, 2],
            "label_mass": 0.9,
            "argmax_token": 1,
            "argmax_is_label": True,
            "margin": 0.5,
            "entropy": 0.56,
            "confidence": 0.67,
            "confidence_formula": "label_mass",
            "prompt_version": "bench",
            "prompt_hash": "00" * 32,
            "prompt_tokens": 60,
            "model_version_id": version,
            "worker_id": str(worker),
            "queue_seconds": c.queue_seconds,
            "read_seconds": 0.0,
            "prefilled_tokens": 40,
            "cached_tokens": 0,
        }
        for c in claims
    ]
    return results, decisions


def main(items: int, claim: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="weighbridge-bench-"))
    folder.chmod(0o711)
    try:
        with EmbeddedPostgres(Home(path=folder)) as postgres:
            migrate(postgres.url)
            engine = sync_engine(postgres.url)
            report = {
                "bench": "claims",
                "items": items,
                "claim": claim,
                "submitted_per_second": round(fill(engine, items)),
                "drained_per_second": round(drain(engine, claim)),
            }
            engine.dispose()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(report))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--claim", type=int, default=64)
    arguments = parser.parse_args()
    main(arguments.items, arguments.claim)
