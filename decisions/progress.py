"""Steps, and how a reader follows them without missing one. Values and statements only.

A step is what a batch's counts were when some of its items became final, and which items those were. It
is written in the transaction that made them final (`decisions.queue.SETTLE`).

*Of one batch*, a step's id is drawn under the batch's lock, so ids are in the order of the commits: who
has seen a step has seen all before it, and a `Position` is all that needs to be remembered.

*Of a tenant*, batches end beside each other, and a step may commit after one with a greater id. What has
been seen is therefore a snapshot of Postgres (`xmin:xmax:running`), which says of every transaction
whether it was over. Read next is what a newer snapshot has seen and that one has not: a `Window`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self
from uuid import UUID

from sqlalchemy import TextClause, text

from decisions.batches import FINAL, RESULT

_STEP = """id, batch_id, status, total, done, failed, dead, cancelled, expired, item_ids,
  total - done - failed - dead - cancelled - expired AS open"""


@dataclass(frozen=True, slots=True)
class Position:
    """From a step on, less those of its events that the reader has."""

    step: int = 0
    given: int = 0

    def __str__(self) -> str:
        return f"{self.step}.{self.given}"

    @classmethod
    def parse(cls, written: str) -> Self:
        """Raises ValueError."""
        if not (parts := re.fullmatch(r"([0-9]{1,18})\.([0-9]{1,9})", written, re.ASCII)):
            raise ValueError("is not an id of an event of this stream")
        return cls(int(parts[1]), int(parts[2]))


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """Steps that one snapshot has seen and an earlier one has not, from a position on."""

    since: str
    until: str
    position: Position = Position()

    def at(self, position: Position) -> Self:
        return replace(self, position=position)

    def __str__(self) -> str:
        return f"{self.since}~{self.until}~{self.position}"

    @classmethod
    def parse(cls, written: str) -> Self:
        """Raises ValueError. A snapshot alone is the empty window after it."""
        since, _, rest = written.partition("~")
        until, _, position = rest.partition("~")
        if not rest:
            return cls(since=_snapshot(since), until=since)
        return cls(
            since=_snapshot(since), until=_snapshot(until), position=Position.parse(position)
        )


def _snapshot(written: str) -> str:
    """As Postgres will accept it."""
    number = "[1-9][0-9]{0,17}"
    if parts := re.fullmatch(f"({number}):({number}):((?:{number}(?:,{number})*)?)", written):
        first, last = int(parts[1]), int(parts[2])
        running = [int(n) for n in parts[3].split(",") if n]
        ordered = [first, *running, last]
        if ordered == sorted(ordered) and last not in running:
            return written
    raise ValueError("is not an id of an event of this stream")


def of_batch(batch_id: UUID, position: Position, limit: int) -> TextClause:
    return text(
        f"SELECT {_STEP} FROM steps WHERE batch_id = :batch_id AND id >= :step"
        " ORDER BY id LIMIT :limit"
    ).bindparams(batch_id=batch_id, step=position.step, limit=limit)


def of_tenant(tenant_id: int, window: Window, limit: int) -> TextClause:
    return text(
        f"""
        SELECT {_STEP} FROM steps
        WHERE tenant_id = :tenant_id AND {_IN_WINDOW} AND id >= :step ORDER BY id LIMIT :limit
        """
    ).bindparams(
        tenant_id=tenant_id,
        since=window.since,
        until=window.until,
        step=window.position.step,
        limit=limit,
    )


def moved(tenants: Sequence[int], since: str, until: str) -> TextClause:
    """(tenant_id, batch_id) of the batches that have steps between two snapshots."""
    return text(
        f"""
        SELECT DISTINCT tenant_id, batch_id FROM steps
        WHERE tenant_id = ANY(:tenants) AND {_IN_WINDOW}
        """
    ).bindparams(tenants=list(tenants), since=since, until=until)


# The comparison is for the index, and bounds what the functions must look at.
_IN_WINDOW = """
  transaction >= CAST(CAST(pg_snapshot_xmin(CAST(:since AS pg_snapshot)) AS text) AS bigint)
  AND NOT pg_visible_in_snapshot(
    CAST(CAST(transaction AS text) AS xid8), CAST(:since AS pg_snapshot))
  AND pg_visible_in_snapshot(CAST(CAST(transaction AS text) AS xid8), CAST(:until AS pg_snapshot))
"""


def snapshot() -> TextClause:
    """What is over by now."""
    return text("SELECT CAST(pg_current_snapshot() AS text)")


def finished(item_ids: Sequence[int], limit: int) -> TextClause:
    """Those of the items that are final, in the order in which they became so; rows as of `results`."""
    return text(
        f"""
        SELECT {RESULT} FROM items i WHERE i.id = ANY(:ids) AND i.status = ANY(:final)
        ORDER BY i.finished_at, i.id LIMIT :limit
        """
    ).bindparams(ids=list(item_ids), limit=limit, final=[str(status) for status in FINAL])
