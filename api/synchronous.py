"""One item, asked and answered in one call, through the same queue and store as every batch.

The flow is `ask`: submit in the interactive lane, wait until the item is final, read what became of it.
Whatever happens to the caller, the item goes on; its answer is under the address in Location.
"""

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any
from uuid import UUID, uuid4

import msgspec
from fastapi import Depends, Header, Response
from fastapi.responses import JSONResponse

from api.auth import TenantDep
from api.batch import batch_of
from api.errors import NotAnswered, StillWaiting
from api.prefer import Preference, PreferenceDep
from api.replies import Read, error_of, reads_of, status_of
from api.resources import Resources, ResourcesDep
from api.submissions import admitted, body_parser, submit_items
from decisions import batches
from decisions.bodies import Body
from decisions.database import async_statement, async_transaction
from decisions.ids import BATCH, new_uuid, public
from decisions.items import NewItem
from decisions.questions import from_canonical
from decisions.single import submit_single
from decisions.strict_json import refuse_nul
from decisions.submit import Submitted
from decisions.types import Json, Lane, Submission

#: Seconds after which a waiting call looks for itself; a notification wakes it long before.
LOOK = 2.0

SMALLEST, LARGEST = -(1 << 15), (1 << 15) - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """What a synchronous call brings besides its body."""

    tenant: int
    resources: Resources
    preference: Preference
    idempotency_key: str | None
    #: The caller's own id of the request, or one of ours.
    request_id: str


async def _caller(
    tenant: TenantDep,
    resources: ResourcesDep,
    preference: PreferenceDep,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=255)] = None,
    x_request_id: Annotated[str | None, Header(max_length=200)] = None,
) -> Caller:
    return Caller(
        tenant=tenant,
        resources=resources,
        preference=preference,
        idempotency_key=idempotency_key,
        request_id=x_request_id or uuid4().hex,
    )


CallerDep = Annotated[Caller, Depends(_caller)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """The reads of a call, in the order of its questions."""

    batch_id: UUID
    #: Of `decisions.batches.results`.
    row: Any
    reads: Sequence[Read]
    headers: Mapping[str, str]


async def ask(
    caller: Caller, endpoint: str, body: dict[str, Json], *, priority: int = 0
) -> Answered | Response:
    """A response instead of an answer is the 202 of a caller who did not want to wait so long.

    Raises InvalidItem, InvalidQuestion or UnknownModel for a bad body, before anything is stored; then
    NotAnswered for an item that ended without answers, and StillWaiting.
    """
    refuse_nul(body)
    parse = await body_parser(caller.resources, endpoint)
    parsed = parse(body)
    submission = _submission(caller, endpoint, body, priority)
    if caller.idempotency_key is None:
        submitted, row = await _ask_new(caller, submission, parsed)
    else:
        submitted, row = await _ask_once(caller, submission, parsed)
    headers = {**caller.preference.applied, "Location": _location(submitted.batch_id)}
    if submitted.replayed:
        headers["Idempotency-Replayed"] = "true"
    if row is None:
        return await _not_yet(caller, submitted.batch_id, headers)
    return Answered(
        batch_id=submitted.batch_id, row=row, reads=_reads(row, parsed), headers=headers
    )


async def _ask_new(caller: Caller, submission: Submission, body: Body) -> tuple[Submitted, Any]:
    """Without a key nothing has to be looked at first: one statement, and whoever waits is there before."""
    resources, batch_id = caller.resources, new_uuid()
    submission = await admitted(resources, submission)
    with resources.endings.watch(batch_id) as ended:
        async with async_statement(resources.database) as connection:
            await connection.execute(submit_single(batch_id, submission, caller.request_id, body))
        resources.bell.ring(submission.lane)
        row = await _wait(caller, batch_id, ended)
    return Submitted(batch_id, replayed=False), row


async def _ask_once(caller: Caller, submission: Submission, body: Body) -> tuple[Submitted, Any]:
    """With a key, which may lead to a batch that was final long since."""
    item = NewItem(line=1, custom_id=caller.request_id, body=body)
    submitted = await submit_items(caller.resources, submission, [item])
    with caller.resources.endings.watch(submitted.batch_id) as ended:
        ended.set()
        row = await _wait(caller, submitted.batch_id, ended)
    return submitted, row


def _submission(caller: Caller, endpoint: str, body: dict[str, Json], priority: int) -> Submission:
    model = body.get("model")
    key = caller.idempotency_key
    hashed = sha256(msgspec.json.encode([endpoint, body])).digest() if key else b""
    return Submission(
        tenant_id=caller.tenant,
        lane=Lane.INTERACTIVE,
        priority=min(max(priority, SMALLEST), LARGEST),
        endpoint=endpoint,
        model=model if isinstance(model, str) else None,
        idempotency_key=key,
        request_hash=hashed,
    )


def _location(batch_id: UUID) -> str:
    return f"/v1/batches/{public(BATCH, batch_id)}"


def _patience(caller: Caller) -> float:
    """Seconds to wait."""
    settings = caller.resources.settings
    if caller.preference.respond_async:
        return 0
    if caller.preference.wait is None:
        return settings.wait_seconds
    return min(caller.preference.wait, settings.max_wait_seconds)


async def _wait(caller: Caller, batch_id: UUID, ended: asyncio.Event) -> Any:
    """The item's row as soon as it is final; None when patience ends before."""
    until = time.monotonic() + _patience(caller)
    while True:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), min(until - time.monotonic(), LOOK))
        ended.clear()
        if row := await _final(caller.resources, batch_id):
            return row
        if time.monotonic() >= until:
            return None


async def _final(resources: Resources, batch_id: UUID) -> Any:
    async with async_statement(resources.database) as connection:
        return (await connection.execute(batches.results(batch_id, 0, 1))).first()


async def _not_yet(caller: Caller, batch_id: UUID, headers: dict[str, str]) -> Response:
    if not caller.preference.applied:
        raise StillWaiting(headers["Location"])
    async with async_transaction(caller.resources.database) as connection:
        row = (await connection.execute(batches.get(caller.tenant, batch_id))).one()
    return JSONResponse(batch_of(row).model_dump(), 202, {**headers, "Retry-After": "1"})


def _reads(row: Any, body: Body) -> Sequence[Read]:
    if error := error_of(row):
        raise NotAnswered(
            status_of(error["code"]), error["code"], error["message"], param=error["param"]
        )
    return reads_of(row, from_canonical(msgspec.json.decode(body.question_set)))
