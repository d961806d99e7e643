"""Schedules and their runs as clients see them. Times are ISO 8601."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel

from decisions.ids import BATCH, RUN, SCHEDULE, public


class Schedule(BaseModel):
    """When which decisions are read again, what is changed, and what is asked of the result."""

    id: str
    object: Literal["schedule"] = "schedule"
    name: str
    cron: str
    timezone: str
    source: dict[str, Any]
    change: dict[str, Any]
    thresholds: dict[str, Any]
    status: Literal["active", "paused"]
    #: Null while it is paused.
    next_due_at: str | None
    created_at: str


class ScheduleList(BaseModel):
    """Newest first. The next page is after `last_id`."""

    object: Literal["list"] = "list"
    data: list[Schedule]
    last_id: str | None
    has_more: bool


class Run(BaseModel):
    """One run of a schedule."""

    id: str
    object: Literal["schedule.run"] = "schedule.run"
    schedule_id: str
    #: `due`, `running`; and in the end `compared`, `empty` or `failed`.
    status: str
    due_at: str
    #: Asked for, not due.
    by_hand: bool
    #: Due times before this one that had no run.
    missed: int
    batch_id: str | None
    #: Decisions that the source matches; of these, those whose state was purged.
    matched: int
    purged: int
    #: Chosen, but the changed question has another type.
    incomparable: int
    #: `promote` or `hold`; null until it has ended.
    verdict: str | None
    error: dict[str, Any] | None
    created_at: str
    finished_at: str | None
    report_url: str


class RunList(BaseModel):
    """Newest first. The next page is after `last_id`."""

    object: Literal["list"] = "list"
    data: list[Run]
    last_id: str | None
    has_more: bool


def schedule_of(row: Any) -> Schedule:
    return Schedule(
        id=public(SCHEDULE, row.id),
        name=row.name,
        cron=row.cron,
        timezone=row.timezone,
        source=row.source,
        change=row.change,
        thresholds=row.thresholds,
        status="active" if row.paused_at is None else "paused",
        next_due_at=_iso(row.next_due_at),
        created_at=row.created_at.isoformat(),
    )


def run_of(row: Any) -> Run:
    id_, schedule_id = public(RUN, row.id), public(SCHEDULE, row.schedule_id)
    return Run(
        id=id_,
        schedule_id=schedule_id,
        status=row.status,
        due_at=row.due_at.isoformat(),
        by_hand=row.by_hand,
        missed=row.missed,
        batch_id=None if row.batch_id is None else public(BATCH, row.batch_id),
        matched=row.matched,
        purged=row.purged,
        incomparable=row.incomparable,
        verdict=row.verdict,
        error=row.error,
        created_at=row.created_at.isoformat(),
        finished_at=_iso(row.finished_at),
        report_url=f"/v1/schedules/{schedule_id}/runs/{id_}/report",
    )


def last_id(data: Sequence[Schedule | Run]) -> str | None:
    return data[-1].id if data else None


def _iso(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()
