"""Workers and the model versions they serve.

A worker is one row per process start. Its counters move in the transaction that stores what they
count, so they never run ahead of the decisions.
"""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any
from uuid import UUID

from sqlalchemy import Insert, Select, TextClause, Update, func, select, text, update
from sqlalchemy.dialects.postgresql import insert

from decisions.tables import model_versions, workers
from decisions.types import Lane


def record_model_version(settings: Mapping[str, Any]) -> Insert:
    """Returns the id of the version that has exactly these settings, new or known."""
    canonical = json.dumps(settings, sort_keys=True)
    names = ("model", "revision", "dtype", "kv_format", "attention", "engine_version", "device")
    statement = insert(model_versions).values(
        hash=sha256(canonical.encode()).digest(),
        settings=dict(settings),
        **{name: str(settings[name]) for name in names},
    )
    # An update that changes nothing, so that RETURNING gives the id of a known version too.
    return statement.on_conflict_do_update(
        index_elements=["hash"], set_={"hash": statement.excluded.hash}
    ).returning(model_versions.c.id)


def register_worker(
    id_: UUID, name: str, model_version_id: int, context_tokens: int, lanes: Sequence[Lane]
) -> Insert:
    return insert(workers).values(
        id=id_,
        name=name,
        model_version_id=model_version_id,
        context_tokens=context_tokens,
        lanes=[str(lane) for lane in lanes],
    )


def count(worker: UUID, counts: Mapping[str, float]) -> Update:
    """Add to a worker's counters, and note that it lives."""
    return (
        update(workers)
        .where(workers.c.id == worker)
        .values({workers.c[k]: workers.c[k] + v for k, v in counts.items()})
        .values(seen_at=func.now())
    )


def seen(worker: UUID) -> Update:
    return update(workers).where(workers.c.id == worker).values(seen_at=func.now())


def stopped(worker: UUID) -> Update:
    return update(workers).where(workers.c.id == worker).values(stopped_at=func.now())


def totals() -> Select[Any]:
    """Every counter, summed over all workers that ever ran: monotone, so fit for Prometheus."""
    counters = [
        c for c in workers.c if c.server_default is not None and c.type.python_type in (int, float)
    ]
    return select(*(func.coalesce(func.sum(c), 0).label(c.name) for c in counters))


def live(within_seconds: float = 30) -> TextClause:
    """Workers seen lately, with the model they serve."""
    return text(
        """
        SELECT w.id, w.name, w.lanes, w.context_tokens, w.started_at, w.seen_at,
          m.model, m.revision, m.dtype, m.kv_format, m.attention, m.device
        FROM workers w JOIN model_versions m ON m.id = w.model_version_id
        WHERE w.stopped_at IS NULL AND w.seen_at > now() - make_interval(secs => :within)
        ORDER BY w.started_at
        """
    ).bindparams(within=within_seconds)
