"""Routes of a schedule's runs: ask for one, list, read, and what they found."""

from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncConnection

from api.auth import TenantDep
from api.documentation import PROBLEMS
from api.resources import ResourcesDep
from api.schedule import Run, RunList, last_id, run_of
from api.schedules import find
from decisions import comparison, schedule_store
from decisions.database import async_transaction
from decisions.errors import NotFound
from decisions.ids import BATCH, DECISION, RUN, SCHEDULE, new_uuid, public, uuid_of

router = APIRouter(
    prefix="/v1/schedules/{schedule_id}/runs", tags=["schedules"], responses=PROBLEMS
)


class Side(BaseModel):
    """One of the two answers."""

    decision_id: str
    answer: str
    #: Of this answer.
    probability: float
    label_mass: float
    confidence: float


class Flip(BaseModel):
    """A decision whose answer became another."""

    #: Of the source: where it was asked first.
    batch_id: str
    custom_id: str
    question: str
    before: Side
    after: Side
    #: The truth in force of the decision before.
    truth: str | None


class FlipList(BaseModel):
    """In the order of the run's items. The next page is after `last`."""

    data: list[Flip]
    last: int | None
    has_more: bool


@router.post("", status_code=202)
async def ask_for_run(schedule_id: str, tenant: TenantDep, resources: ResourcesDep) -> Run:
    """Run it now, whether it is paused or not. When it is due stays as it is."""
    key, run = uuid_of(SCHEDULE, schedule_id), new_uuid()
    async with async_transaction(resources.database) as connection:
        schedule = await find(connection, tenant, key)
        now = datetime.now(UTC)
        added = schedule_store.add_run(run, schedule, now, missed=0, by_hand=True)
        await connection.execute(added)
        return run_of(await _find_run(connection, tenant, key, run))


@router.get("")
async def list_runs(
    schedule_id: str,
    tenant: TenantDep,
    resources: ResourcesDep,
    after: Annotated[str | None, Query(description="The last id of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> RunList:
    """Newest first."""
    key = uuid_of(SCHEDULE, schedule_id)
    start = None if after is None else uuid_of(RUN, after)
    async with async_transaction(resources.database) as connection:
        await find(connection, tenant, key)
        statement = schedule_store.page_of_runs(tenant, key, start, limit + 1)
        rows = list(await connection.execute(statement))
    data = [run_of(row) for row in rows[:limit]]
    return RunList(data=data, last_id=last_id(data), has_more=len(rows) > limit)


@router.get("/{run_id}")
async def read_run(
    schedule_id: str, run_id: str, tenant: TenantDep, resources: ResourcesDep
) -> Run:
    key, run = uuid_of(SCHEDULE, schedule_id), uuid_of(RUN, run_id)
    async with async_transaction(resources.database) as connection:
        return run_of(await _find_run(connection, tenant, key, run))


async def _find_run(connection: AsyncConnection, tenant: int, schedule: UUID, run: UUID) -> Any:
    row = (await connection.execute(schedule_store.get_run(tenant, schedule, run))).first()
    if row is None:
        raise NotFound(f"There is no {public(RUN, run)!r}.")
    return row


@router.get("/{run_id}/report", response_class=JSONResponse)
async def read_report(
    schedule_id: str, run_id: str, tenant: TenantDep, resources: ResourcesDep
) -> JSONResponse:
    """What the run found: agreement, flips, drift and truth, each per question, and the verdict.

    Drift is PSI over bins that are cut at the deciles of the distribution before, which `edges` are.
    """
    key, run = uuid_of(SCHEDULE, schedule_id), uuid_of(RUN, run_id)
    async with async_transaction(resources.database) as connection:
        row = await _find_run(connection, tenant, key, run)
    if row.report is None:
        raise NotFound(f"The report of {run_id!r} is not there yet: the run is {row.status}.")
    head = run_of(row).model_dump(exclude={"object", "verdict", "report_url", "created_at"})
    flips = f"/v1/schedules/{schedule_id}/runs/{run_id}/flips"
    body = {**head, "object": "schedule.report", **row.report, "flips_url": flips}
    return JSONResponse(body)


@router.get("/{run_id}/flips")
async def read_flips(
    schedule_id: str,
    run_id: str,
    tenant: TenantDep,
    resources: ResourcesDep,
    question: Annotated[str | None, Query(description="Of this question alone")] = None,
    after: Annotated[int, Query(ge=0, description="`last` of the page before")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> FlipList:
    """Answers that changed, both of each, as far as the run has come."""
    key, run = uuid_of(SCHEDULE, schedule_id), uuid_of(RUN, run_id)
    async with async_transaction(resources.database) as connection:
        row = await _find_run(connection, tenant, key, run)
        if row.batch_id is None:
            return FlipList(data=[], last=None, has_more=False)
        statement = comparison.flips(row.batch_id, after, limit + 1, question)
        rows = list(await connection.execute(statement))
    shown = rows[:limit]
    return FlipList(
        data=[_flip(row) for row in shown],
        last=shown[-1].line if shown else None,
        has_more=len(rows) > limit,
    )


def _flip(row: Any) -> Flip:
    return Flip(
        batch_id=public(BATCH, row.source_batch),
        custom_id=row.custom_id,
        question=row.question_id,
        before=_side(row, "before"),
        after=_side(row, "after"),
        truth=row.truth,
    )


def _side(row: Any, side: str) -> Side:
    return Side(
        decision_id=public(DECISION, getattr(row, f"{side}_id")),
        answer=getattr(row, side),
        probability=getattr(row, f"{side}_probability"),
        label_mass=getattr(row, f"{side}_mass"),
        confidence=getattr(row, f"{side}_confidence"),
    )
