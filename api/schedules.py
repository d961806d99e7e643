"""Routes of schedules: make, list, read, change, delete."""

from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncConnection

from api.auth import TenantDep
from api.bodies import read_json, validated
from api.documentation import PROBLEMS, takes
from api.new_schedule import Change, NewSchedule, ScheduleChange
from api.resources import Resources, ResourcesDep
from api.schedule import Schedule, ScheduleList, last_id, schedule_of
from decisions import schedule_store
from decisions.cron import check_cron
from decisions.database import async_transaction
from decisions.errors import InvalidSchedule, NotFound
from decisions.ids import SCHEDULE, new_uuid, public, uuid_of
from decisions.questions import parse_question_set
from decisions.strict_json import refuse_nul

router = APIRouter(prefix="/v1/schedules", tags=["schedules"], responses=PROBLEMS)


@router.post("", status_code=201, response_model=Schedule, openapi_extra=takes(NewSchedule))
async def create_schedule(request: Request, tenant: TenantDep, resources: ResourcesDep) -> Response:
    """Read stored decisions again, whenever it is due, and compare.

    A due time has one run, which is an ordinary batch in the nightly lane. A fixed hour and minute run once
    a day, through daylight-saving changes; `*` at the beginning of either runs by elapsed time. When due
    times were missed, the newest has a run that counts the others.
    """
    new = NewSchedule.model_validate(await _body(request, resources, NewSchedule))
    _check(resources, new.change)
    now = datetime.now(UTC)
    due = check_cron(new.cron, new.timezone, now)
    values = {
        **_columns(new),
        "next_due_at": None if new.paused else due,
        "paused_at": now if new.paused else None,
    }
    key = new_uuid()
    async with async_transaction(resources.database) as connection:
        await connection.execute(schedule_store.create(tenant, key, values))
        made = await find(connection, tenant, key)
    location = {"Location": f"/v1/schedules/{public(SCHEDULE, key)}"}
    body = schedule_of(made).model_dump_json()
    return Response(body, 201, location, "application/json")


async def _body(request: Request, resources: Resources, model: type[BaseModel]) -> Any:
    """Valid for the model, with the order of keys that it came in."""
    body = await read_json(request, resources.settings.max_body_bytes)
    refuse_nul(body)
    validated(model, body)
    return body


def _check(resources: Resources, change: Change | None) -> None:
    """Raises InvalidSchedule or InvalidQuestion."""
    if change is None:
        return
    if change.questions is not None:
        parse_question_set(change.questions, None, resources.settings.rules)
    if change.model in resources.settings.model_aliases:
        raise InvalidSchedule(
            f"{change.model!r} means whatever is served; name the model itself",
            param="change.model",
        )


def _columns(given: NewSchedule | ScheduleChange) -> dict[str, Any]:
    """As they are stored, without what was not said."""
    plain = given.model_dump(mode="json", exclude_none=True, exclude={"paused"})
    if given.change is not None and given.change.questions is not None:
        # As it came: null means something in questions.
        plain["change"]["questions"] = given.change.questions
    return plain


async def find(
    connection: AsyncConnection, tenant: int, schedule_id: UUID, *, lock: bool = False
) -> Any:
    """The row. Raises NotFound, also for another tenant's schedule."""
    statement = schedule_store.get(tenant, schedule_id, lock=lock)
    row = (await connection.execute(statement)).first()
    if row is None:
        raise NotFound(f"There is no {public(SCHEDULE, schedule_id)!r}.")
    return row


@router.get("")
async def list_schedules(
    tenant: TenantDep,
    resources: ResourcesDep,
    after: Annotated[str | None, Query(description="The last id of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> ScheduleList:
    """Newest first."""
    start = None if after is None else uuid_of(SCHEDULE, after)
    async with async_transaction(resources.database) as connection:
        rows = list(await connection.execute(schedule_store.page(tenant, start, limit + 1)))
    data = [schedule_of(row) for row in rows[:limit]]
    return ScheduleList(data=data, last_id=last_id(data), has_more=len(rows) > limit)


@router.get("/{schedule_id}")
async def read_schedule(schedule_id: str, tenant: TenantDep, resources: ResourcesDep) -> Schedule:
    async with async_transaction(resources.database) as connection:
        return schedule_of(await find(connection, tenant, uuid_of(SCHEDULE, schedule_id)))


@router.patch("/{schedule_id}", response_model=Schedule, openapi_extra=takes(ScheduleChange))
async def change_schedule(
    schedule_id: str, request: Request, tenant: TenantDep, resources: ResourcesDep
) -> Schedule:
    """Replace fields; `paused` stops and resumes it. A run under way goes on as it was.

    Resuming it, or changing when it is due, looks for the next due time from now on: what passed while it
    was paused is not missed.
    """
    wanted = ScheduleChange.model_validate(await _body(request, resources, ScheduleChange))
    _check(resources, wanted.change)
    key = uuid_of(SCHEDULE, schedule_id)
    async with async_transaction(resources.database) as connection:
        row = await find(connection, tenant, key, lock=True)
        values = _columns(wanted) | _due(row, wanted, datetime.now(UTC))
        if values:
            await connection.execute(schedule_store.change(key, values))
        return schedule_of(await find(connection, tenant, key))


def _due(row: Any, wanted: ScheduleChange, now: datetime) -> dict[str, Any]:
    """What becomes of its next due time."""
    first = check_cron(wanted.cron or row.cron, wanted.timezone or row.timezone, now)
    was_paused = row.paused_at is not None
    paused = was_paused if wanted.paused is None else wanted.paused
    if paused:
        return {} if was_paused else {"paused_at": now, "next_due_at": None}
    if was_paused or wanted.cron or wanted.timezone:
        return {"paused_at": None, "next_due_at": first}
    return {}


@router.delete("/{schedule_id}")
async def delete_schedule(
    schedule_id: str, tenant: TenantDep, resources: ResourcesDep
) -> dict[str, str | bool]:
    """It is never due again. A run under way ends, and is told to webhooks."""
    key = uuid_of(SCHEDULE, schedule_id)
    async with async_transaction(resources.database) as connection:
        await find(connection, tenant, key, lock=True)
        await connection.execute(schedule_store.delete(key))
    return {"id": public(SCHEDULE, key), "object": "schedule", "deleted": True}
