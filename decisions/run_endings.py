"""How a run of a schedule ends: with a report, without anything to compare, or with a reason; and its event."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, func

from decisions import schedule_store
from decisions.errors import DecisionError
from decisions.ids import BATCH, RUN, SCHEDULE, public
from decisions.types import RunStatus, Verdict

#: Reasons that an event tells; the report has them all.
TOLD_REASONS = 20


def compared(connection: Connection, run: Any, report: Mapping[str, Any]) -> None:
    _end(connection, run, RunStatus.COMPARED, report, {})


def empty(connection: Connection, run: Any, counts: Mapping[str, int]) -> None:
    reason = "no stored decision matches the source"
    if counts["matched"]:
        reason = "no decision that matches the source could be read again"
    _end(connection, run, RunStatus.EMPTY, _held(reason), counts)


def failed(connection: Connection, run: Any, wrong: Exception) -> None:
    error = error_of(wrong)
    report = _held(f"the run failed: {error['message']}")
    _end(connection, run, RunStatus.FAILED, report, {"error": error})


def error_of(wrong: Exception) -> dict[str, str | None]:
    if isinstance(wrong, DecisionError):
        return {"code": "not_possible", "message": wrong.message, "param": wrong.param}
    # Of the driver's message; what follows may quote values.
    first_line = str(getattr(wrong, "orig", wrong)).partition("\n")[0]
    return {"code": "refused", "message": first_line, "param": None}


def _held(reason: str) -> dict[str, Any]:
    return {"verdict": Verdict.HOLD, "reasons": [reason]}


def _end(
    connection: Connection,
    run: Any,
    status: RunStatus,
    report: Mapping[str, Any],
    values: Mapping[str, Any],
) -> None:
    """Make it final, and tell whoever asked to be told, in the caller's transaction."""
    ended = {"status": status, "finished_at": func.now(), "verdict": report["verdict"]}
    connection.execute(schedule_store.change_run(run.id, {**ended, "report": report, **values}))
    data = {
        "id": public(RUN, run.id),
        "schedule_id": public(SCHEDULE, run.schedule_id),
        "batch_id": None if run.batch_id is None else public(BATCH, run.batch_id),
        "name": run.name,
        "due_at": run.due_at.isoformat(),
        "status": status,
        "verdict": report["verdict"],
        "reasons": report["reasons"][:TOLD_REASONS],
        **{name: report[name] for name in ("compared", "flips", "agreement") if name in report},
    }
    connection.execute(schedule_store.tell(run, run.batch_id, data))
