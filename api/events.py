"""Routes of server-sent events: one batch until its end, or all batches of a tenant.

Who comes back with the `Last-Event-ID` of what he had last goes on exactly after it, whatever happened
meanwhile to the connection or to this process: all of it is read from the database.
"""

from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import StreamingResponse
from fastapi.sse import format_sse_event

from api import feeds
from api.auth import TenantDep
from api.batches import find
from api.documentation import PROBLEMS
from api.errors import InvalidRequest
from api.feeds import Event, Follower
from api.resources import Resources, ResourcesDep
from api.results import json_line
from decisions import progress
from decisions.database import async_transaction
from decisions.ids import BATCH, uuid_of
from decisions.progress import Position, Window
from decisions.types import TERMINAL

Place = TypeVar("Place")

router = APIRouter(prefix="/v1", tags=["events"], responses=PROBLEMS)

_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
_TYPE = "(decision|failure|progress)"

Types = Annotated[
    str,
    Query(
        pattern=f"^{_TYPE}(,{_TYPE})*$",
        description="What is told besides the end of a batch, separated by commas",
    ),
]
Heartbeat = Annotated[
    float, Query(ge=0.1, le=60, description="Seconds of silence after which a comment is sent")
]
LastEventId = Annotated[str | None, Header(description="The id of the last event that you have")]

_STREAM: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}


@router.get("/batches/{batch_id}/events", response_class=StreamingResponse, responses=_STREAM)
async def batch_events(
    batch_id: str,
    tenant: TenantDep,
    resources: ResourcesDep,
    types: Types = "decision,failure,progress",
    heartbeat: Heartbeat = 15,
    last_event_id: LastEventId = None,
) -> Response:
    """All that happened to a batch and will happen, until its end.

    204 to who has its end already: that is how a browser's EventSource is told to stop.
    """
    key = uuid_of(BATCH, batch_id)
    position = _parsed(Position.parse, last_event_id) or Position()
    async with async_transaction(resources.database) as connection:
        batch = await find(connection, tenant, key)
        left = (await connection.execute(progress.of_batch(key, position, 1))).first()
    if last_event_id is not None and left is None and batch.status in TERMINAL:
        return Response(status_code=204)
    follower = _follower(resources, tenant, types, heartbeat)
    return _stream(feeds.of_batch(follower, key, position))


@router.get("/events", response_class=StreamingResponse, responses=_STREAM)
async def tenant_events(
    tenant: TenantDep,
    resources: ResourcesDep,
    types: Types = "decision,failure,progress",
    heartbeat: Heartbeat = 15,
    last_event_id: LastEventId = None,
) -> Response:
    """What happens to all of your batches from now on, or from the Last-Event-ID on. Endless."""
    window = _parsed(Window.parse, last_event_id)
    follower = _follower(resources, tenant, types, heartbeat)
    return _stream(feeds.of_tenant(follower, window))


def _follower(resources: Resources, tenant: int, types: str, heartbeat: float) -> Follower:
    return Follower(
        steps=resources.steps,
        tenant_id=tenant,
        types=frozenset(types.split(",")),
        heartbeat=heartbeat,
    )


def _parsed(parse: Callable[[str], Place], last_event_id: str | None) -> Place | None:
    if last_event_id is None:
        return None
    try:
        return parse(last_event_id)
    except ValueError as wrong:
        raise InvalidRequest(f"Last-Event-ID {wrong}", param="Last-Event-ID") from None


def _stream(events: AsyncIterator[Event]) -> StreamingResponse:
    return StreamingResponse(_written(events), headers=_HEADERS, media_type="text/event-stream")


async def _written(events: AsyncIterator[Event]) -> AsyncIterator[bytes]:
    async for event in events:
        yield format_sse_event(
            comment="heartbeat" if event.type is None else None,
            event=event.type,
            data_str=None if event.data is None else json_line(event.data).decode().rstrip("\n"),
            id=event.id,
        )
