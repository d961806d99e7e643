"""Runs of schedules, from their due time to their report. `tick` does all that is to be done at a time.

Three steps, each one transaction under a lock that other schedulers skip, so any number of processes may
tick at once and each due time still has one run, one batch and one report:

    due      a row for the newest due time that has passed, and the schedule's next one
    start    its batch, made of hashes in the store
    compare  once the batch is final: the report, the verdict, the event

A process that dies in one leaves nothing of it, and the next tick does it.
"""

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from msgspec import ValidationError
from sqlalchemy import Connection, Engine, func
from sqlalchemy.exc import (
    DataError,
    IntegrityError,
    InternalError,
    ProgrammingError,
    SQLAlchemyError,
)

from decisions import batches, contents, report, run_endings, schedule_store, sources
from decisions.cron import next_due, passed
from decisions.database import transaction
from decisions.errors import DecisionError, InvalidSchedule
from decisions.ids import RUN, SCHEDULE, new_uuid, public
from decisions.questions import from_canonical
from decisions.schedules import Change, Changed, Plan, plan_of
from decisions.types import Lane, RunStatus, Submission

logger = logging.getLogger(__name__)

#: What a batch of a run has, after which items that nobody has read expire.
WINDOW = "24h"

#: Question sets that are in memory at a time.
CHUNK = 500

#: What the database answers to a run that it will never take. Others pass.
_REFUSALS = (DataError, IntegrityError, InternalError, ProgrammingError)


def tick(engine: Engine, now: datetime) -> None:
    """Raises SQLAlchemyError when the database is away, after what it could do."""
    with transaction(engine) as connection:
        _mark_due(connection, now)
    with transaction(engine) as connection:
        runs = list(connection.execute(schedule_store.open_runs()))
    held_up: SQLAlchemyError | None = None
    for run_id, status in runs:
        try:
            _step(engine, run_id, RunStatus(status))
        except SQLAlchemyError as error:
            held_up = error
    if held_up is not None:
        raise held_up


def _mark_due(connection: Connection, now: datetime) -> None:
    for schedule in connection.execute(schedule_store.take_due(now)).all():
        try:
            times = passed(schedule.cron, schedule.timezone, schedule.next_due_at, now)
            following = next_due(schedule.cron, schedule.timezone, times[-1])
        except (InvalidSchedule, StopIteration) as wrong:
            # Another machine may know its time zone; the other schedules go on.
            logger.warning("a schedule cannot be run here: %s", wrong)
            continue
        run = schedule_store.add_run(
            new_uuid(), schedule, times[-1], missed=len(times) - 1, by_hand=False
        )
        connection.execute(run)
        connection.execute(schedule_store.change(schedule.id, {"next_due_at": following}))


def _step(engine: Engine, run_id: UUID, status: RunStatus) -> None:
    step = _start if status is RunStatus.DUE else _compare
    try:
        step(engine, run_id)
    except (DecisionError, ValidationError, *_REFUSALS) as wrong:
        _fail(engine, run_id, status, wrong)


def _start(engine: Engine, run_id: UUID) -> None:
    with transaction(engine) as connection:
        run = connection.execute(schedule_store.take_run(run_id, RunStatus.DUE)).first()
        if run is None:
            return
        plan = plan_of(run)
        _check_readers(connection, plan.change)
        counts = _choose(engine, connection, run, plan)
        if not connection.execute(sources.count_asked()).scalar_one():
            run_endings.empty(connection, run, counts)
            return
        batch_id = _make_batch(connection, run, plan)
        started = {"status": RunStatus.RUNNING, "batch_id": batch_id, "started_at": func.now()}
        connection.execute(schedule_store.change_run(run.id, {**started, **counts}))
    logger.info("a scheduled run has begun", extra={"action": "run_started"})


def _check_readers(connection: Connection, change: Change) -> None:
    """While no worker of the lane lives the items wait, as those of any batch."""
    live = connection.execute(sources.readers()).all()
    for name in ("model", "kv_format"):
        wanted = getattr(change, name)
        known = sorted({str(getattr(row, name)) for row in live})
        if wanted is not None and known and wanted not in known:
            raise InvalidSchedule(
                f"no worker of the nightly lane reads with {name} {wanted!r}, only with "
                + ", ".join(known),
                param=f"change.{name}",
            )


def _choose(engine: Engine, connection: Connection, run: Any, plan: Plan) -> dict[str, int]:
    """Fill `chosen` and `asked`; the run's counts."""
    connection.execute(sources.prepare())
    since, until = plan.source.window(run.due_at)
    connection.execute(sources.choose(run.tenant_id, plan.source, since, until))
    matched, purged = connection.execute(sources.count_matches()).one()
    connection.execute(sources.narrow(plan.source.sample))
    changed = Changed(plan.change)
    for pairs in _chunks(connection.execute(sources.distinct_questions()).all()):
        _ask(engine, connection, run.tenant_id, pairs, changed)
    incomparable: int = connection.execute(sources.count_unasked()).scalar_one()
    return {"matched": matched, "purged": purged, "incomparable": incomparable}


def _chunks(rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(rows), CHUNK):
        yield rows[start : start + CHUNK]


def _ask(
    engine: Engine, connection: Connection, tenant: int, pairs: Sequence[Any], changed: Changed
) -> None:
    keys = sorted({(tenant, row.question_set_hash) for row in pairs})
    stored = connection.execute(contents.load_question_sets(keys))
    sets = {row.hash: from_canonical(row.content) for row in stored}
    becomes, new = [], {}
    for set_hash, question_id in pairs:
        if (asked := changed.ask(sets[set_hash], question_id)) is not None:
            text, hash_ = asked
            becomes.append((set_hash, question_id, hash_))
            new[hash_] = text
    # In a transaction of its own, as a submission's: who sends the same questions must not wait for us.
    with transaction(engine) as own:
        own.execute(contents.store_question_sets(tenant, new))
    connection.execute(sources.ask(becomes))


def _make_batch(connection: Connection, run: Any, plan: Plan) -> UUID:
    batch_id = new_uuid()
    submission = Submission(
        tenant_id=run.tenant_id,
        lane=Lane.NIGHTLY,
        model=plan.change.model,
        completion_window=WINDOW,
        expires_in=timedelta(hours=24),
        metadata={"schedule": public(SCHEDULE, run.schedule_id), "run": public(RUN, run.id)},
    )
    connection.execute(batches.insert_batch(batch_id, submission))
    connection.execute(sources.make_items(run.tenant_id, batch_id))
    connection.execute(batches.count_items(batch_id))
    return batch_id


def _compare(engine: Engine, run_id: UUID) -> None:
    with transaction(engine) as connection:
        run = connection.execute(schedule_store.take_run(run_id, RunStatus.RUNNING)).first()
        if run is not None:
            run_endings.compared(connection, run, report.make(connection, run))


def _fail(engine: Engine, run_id: UUID, status: RunStatus, wrong: Exception) -> None:
    """It ends with its reason, rather than be tried for ever."""
    with transaction(engine) as connection:
        run = connection.execute(schedule_store.take_run(run_id, status)).first()
        if run is not None:
            run_endings.failed(connection, run, wrong)
            logger.warning("a scheduled run failed: %s", wrong, extra={"action": "run_failed"})
