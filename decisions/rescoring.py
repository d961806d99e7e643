"""Runs of schedules, from their due time to their report. `tick` does all that is to be done at a time.

Three steps, each one transaction under a lock that other schedulers skip, so any number of processes may
tick at once and each due time still has one run, one batch and one report:

    due      a row for the newest due time that has passed, and the schedule's next one
    start    its batch, made of hashes in the store
    compare  once the batch is final: the report, the verdict, the event

A process that dies in one leaves nothing of it, and the next tick does it.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Engine, func
from sqlalchemy.exc import DataError, IntegrityError, InternalError, ProgrammingError

from decisions import batches, contents, report, schedule_store, sources
from decisions.cron import next_due, passed
from decisions.database import transaction
from decisions.errors import DecisionError, InvalidSchedule
from decisions.ids import BATCH, RUN, SCHEDULE, new_uuid, public
from decisions.questions import from_canonical
from decisions.schedules import Change, Changed, Plan, plan_of
from decisions.types import Lane, RunStatus, Submission, Verdict

logger = logging.getLogger(__name__)

#: What a batch of a run has, after which items that nobody has read expire.
WINDOW = "24h"

#: Question sets that are in memory at a time.
CHUNK = 500

#: What the database answers to a run that it will never take. Others pass.
_REFUSALS = (DataError, IntegrityError, InternalError, ProgrammingError)


def tick(engine: Engine, now: datetime) -> None:
    """Raises SQLAlchemyError when the database is away."""
    with transaction(engine) as connection:
        mark_due(connection, now)
    with transaction(engine) as connection:
        runs = list(connection.execute(schedule_store.open_runs()))
    for run_id, status in runs:
        step = _start if status == RunStatus.DUE else _compare
        try:
            step(engine, run_id)
        except (DecisionError, *_REFUSALS) as wrong:
            _fail(engine, run_id, RunStatus(status), wrong)


def mark_due(connection: Connection, now: datetime) -> None:
    for schedule in connection.execute(schedule_store.take_due(now)).all():
        times = passed(schedule.cron, schedule.timezone, schedule.next_due_at, now)
        connection.execute(
            schedule_store.add_run(
                new_uuid(), schedule, times[-1], missed=len(times) - 1, by_hand=False
            )
        )
        following = next_due(schedule.cron, schedule.timezone, times[-1])
        connection.execute(schedule_store.change(schedule.id, {"next_due_at": following}))


def _start(engine: Engine, run_id: UUID) -> None:
    with transaction(engine) as connection:
        run = connection.execute(schedule_store.take_run(run_id, RunStatus.DUE)).first()
        if run is None:
            return
        plan = plan_of(run)
        _check_readers(connection, plan.change)
        counts = _choose(engine, connection, run, plan)
        if not connection.execute(sources.count_asked()).scalar_one():
            _end(connection, run, RunStatus.EMPTY, {**counts, **_empty(counts)})
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


def _empty(counts: Mapping[str, int]) -> dict[str, Any]:
    reason = "no stored decision matches the source"
    if counts["matched"]:
        reason = "no decision that matches the source could be read again"
    return {"verdict": Verdict.HOLD, "report": {"verdict": Verdict.HOLD, "reasons": [reason]}}


def _compare(engine: Engine, run_id: UUID) -> None:
    with transaction(engine) as connection:
        run = connection.execute(schedule_store.take_run(run_id, RunStatus.RUNNING)).first()
        if run is not None:
            found = report.make(connection, run)
            ended = {"verdict": found["verdict"], "report": found}
            _end(connection, run, RunStatus.COMPARED, ended)


def _fail(engine: Engine, run_id: UUID, status: RunStatus, wrong: Exception) -> None:
    """It ends with its reason, rather than be tried for ever."""
    if isinstance(wrong, DecisionError):
        error = {"code": "not_possible", "message": wrong.message, "param": wrong.param}
    else:
        first_line = str(getattr(wrong, "orig", wrong)).partition("\n")[0]
        error = {"code": "refused_by_the_database", "message": first_line, "param": None}
    with transaction(engine) as connection:
        run = connection.execute(schedule_store.take_run(run_id, status)).first()
        if run is not None:
            reasons = [f"the run failed: {error['message']}"]
            ended = {"verdict": Verdict.HOLD, "error": error}
            ended["report"] = {"verdict": Verdict.HOLD, "reasons": reasons}
            _end(connection, run, RunStatus.FAILED, ended)
    logger.warning("a scheduled run failed: %s", error["message"], extra={"action": "run_failed"})


def _end(connection: Connection, run: Any, status: RunStatus, values: Mapping[str, Any]) -> None:
    """Make it final, and tell whoever asked to be told."""
    ended = {"status": status, "finished_at": func.now(), **values}
    connection.execute(schedule_store.change_run(run.id, ended))
    found = values["report"]
    batch = None if run.batch_id is None else public(BATCH, run.batch_id)
    data = {
        "id": public(RUN, run.id),
        "schedule_id": public(SCHEDULE, run.schedule_id),
        "batch_id": batch,
        "name": run.name,
        "due_at": run.due_at.isoformat(),
        "status": status,
        "verdict": found["verdict"],
        "reasons": found["reasons"][: report.TOLD_REASONS],
        **{name: found[name] for name in ("compared", "flips", "agreement") if name in found},
    }
    connection.execute(schedule_store.tell(run, run.batch_id, data))
