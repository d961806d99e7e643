"""Schedules and their runs in the store. Statements only; `decisions.rescoring` says in which order."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Insert, Select, Update, func, insert, select, text, update
from sqlalchemy.dialects.postgresql import insert as upsert

from decisions.tables import events, schedule_runs, schedules
from decisions.types import RunStatus
from decisions.webhooks import EventType


def create(tenant: int, schedule_id: UUID, values: Mapping[str, Any]) -> Insert:
    """`values`: name, cron, timezone, source, change, thresholds, and next_due_at or paused_at."""
    return insert(schedules).values(id=schedule_id, tenant_id=tenant, **values)


def get(tenant: int, schedule_id: UUID, *, lock: bool = False) -> Select[Any]:
    query = select(schedules).where(
        schedules.c.tenant_id == tenant,
        schedules.c.id == schedule_id,
        schedules.c.deleted_at.is_(None),
    )
    return query.with_for_update() if lock else query


def page(tenant: int, after: UUID | None, limit: int) -> Select[Any]:
    """Newest first; `after` is the last id of the page before."""
    query = select(schedules).where(
        schedules.c.tenant_id == tenant, schedules.c.deleted_at.is_(None)
    )
    if after is not None:
        query = query.where(schedules.c.id < after)
    return query.order_by(schedules.c.id.desc()).limit(limit)


def change(schedule_id: UUID, values: Mapping[str, Any]) -> Update:
    return update(schedules).where(schedules.c.id == schedule_id).values(**values)


def delete(schedule_id: UUID) -> Update:
    """Never due again. Its runs stay, and one under way goes on."""
    return (
        update(schedules)
        .where(schedules.c.id == schedule_id)
        .values(deleted_at=func.now(), next_due_at=None)
    )


def take_due(now: datetime, limit: int = 100) -> Select[Any]:
    """Schedules whose time has come; any other scheduler leaves them alone until this transaction ends."""
    return (
        select(schedules)
        .where(schedules.c.next_due_at <= now)
        .order_by(schedules.c.next_due_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )


def add_run(run_id: UUID, schedule: Any, due: datetime, *, missed: int, by_hand: bool) -> Insert:
    """Returns the id, or nothing when this due time has its run. `schedule` is a row."""
    statement = upsert(schedule_runs).values(
        id=run_id,
        tenant_id=schedule.tenant_id,
        schedule_id=schedule.id,
        due_at=due,
        by_hand=by_hand,
        missed=missed,
        status=RunStatus.DUE,
        source=schedule.source,
        change=schedule.change,
        thresholds=schedule.thresholds,
    )
    return statement.on_conflict_do_nothing(index_elements=["schedule_id", "due_at"]).returning(
        schedule_runs.c.id
    )


def open_runs() -> Select[UUID, str]:
    """Runs that something may be done for: those that are due, and those whose batch is final."""
    final = text(
        "(status = 'due' OR EXISTS (SELECT FROM batches b WHERE b.id = batch_id"
        " AND b.status IN ('completed', 'failed', 'expired', 'cancelled')))"
    )
    return (
        select(schedule_runs.c.id, schedule_runs.c.status)
        .where(schedule_runs.c.finished_at.is_(None), final)
        .order_by(schedule_runs.c.due_at)
    )


def take_run(run_id: UUID, status: RunStatus) -> Select[Any]:
    """The run, unless somebody else has it or had it."""
    return (
        select(schedule_runs, schedules.c.name)
        .join(schedules, schedules.c.id == schedule_runs.c.schedule_id)
        .where(schedule_runs.c.id == run_id, schedule_runs.c.status == status)
        .with_for_update(of=schedule_runs, skip_locked=True)
    )


def change_run(run_id: UUID, values: Mapping[str, Any]) -> Update:
    return update(schedule_runs).where(schedule_runs.c.id == run_id).values(**values)


def tell(run: Any, batch_id: UUID | None, data: Mapping[str, Any]) -> Insert:
    """The event of a run that is final, written in the transaction that makes it so."""
    return insert(events).values(
        tenant_id=run.tenant_id, batch_id=batch_id, type=EventType.SCHEDULE_REPORT, data=data
    )


def get_run(tenant: int, schedule_id: UUID, run_id: UUID) -> Select[Any]:
    return _runs(tenant, schedule_id).where(schedule_runs.c.id == run_id)


def page_of_runs(tenant: int, schedule_id: UUID, after: UUID | None, limit: int) -> Select[Any]:
    """Newest first; `after` is the last id of the page before. Without their reports."""
    columns = [c for c in schedule_runs.c if c.name != "report"]
    query = _runs(tenant, schedule_id).with_only_columns(*columns)
    if after is not None:
        query = query.where(schedule_runs.c.id < after)
    return query.order_by(schedule_runs.c.id.desc()).limit(limit)


def _runs(tenant: int, schedule_id: UUID) -> Select[Any]:
    return (
        select(schedule_runs)
        .join(schedules, schedules.c.id == schedule_runs.c.schedule_id)
        .where(
            schedules.c.id == schedule_id,
            schedules.c.tenant_id == tenant,
            schedules.c.deleted_at.is_(None),
        )
    )
