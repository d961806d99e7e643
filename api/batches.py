"""Routes of batches: submit, read, list, cancel."""

from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Header, Query, Request, Response
from sqlalchemy.ext.asyncio import AsyncConnection

from api.auth import TenantDep
from api.batch import Batch, BatchList, batch_of
from api.bodies import read_json
from api.documentation import PROBLEMS, takes
from api.file_chunks import chunks_of
from api.new_batch import NewBatch
from api.resources import Resources, ResourcesDep
from api.submissions import body_parser, submit_items
from decisions import batches, files
from decisions.bodies import check_model
from decisions.database import async_transaction
from decisions.errors import InvalidBatch, NotFound
from decisions.ids import BATCH, FILE, public, uuid_of
from decisions.items import NewItem, check_item, read_item, too_long
from decisions.lines import split_lines
from decisions.submit import Submitted
from decisions.types import TERMINAL, Submission

router = APIRouter(prefix="/v1/batches", tags=["batches"], responses=PROBLEMS)

#: Seconds until it is worth asking again about a batch that runs.
RETRY_AFTER = "2"


@router.post("", status_code=202, response_model=Batch, openapi_extra=takes(NewBatch))
async def create_batch(
    request: Request,
    tenant: TenantDep,
    resources: ResourcesDep,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=255)] = None,
) -> Response:
    """Accept items. They are stored when this returns, whatever happens then.

    A second call with the same Idempotency-Key returns the first one's batch, and a 422 when its body
    differs.
    """
    new = NewBatch.read(await read_json(request, resources.settings.max_body_bytes))
    if new.webhook is not None:
        new.webhook.check(allow_private=resources.settings.webhook_allow_private)
    submission = new.submission(tenant, idempotency_key)
    submission, items = await _source(resources, new, submission)
    submitted = await submit_items(resources, submission, items)
    async with async_transaction(resources.database) as connection:
        batch = await find(connection, tenant, submitted.batch_id, show_secret=new.needs_secret)
    return _accepted(batch, submitted)


async def _source(
    resources: Resources, new: NewBatch, submission: Submission
) -> tuple[Submission, Iterator[NewItem]]:
    """The items, and the submission with what is known of where they come from."""
    check_model(new.model, await resources.served.names())
    shared = new.shared(resources.settings.rules)
    parse, url = await body_parser(resources, new.endpoint, shared), new.endpoint
    if new.requests is not None:
        wires = enumerate(new.requests, start=1)
        return submission, (check_item(w, n, parse, url, search_nul=True) for n, w in wires)
    file_id = await _input_file(resources, submission.tenant_id, new.input_file_id or "")
    limit = resources.settings.max_line_bytes
    lines = split_lines(chunks_of(resources.submissions, file_id), limit)
    items = (
        too_long(line.number, limit)
        if line.content is None
        else read_item(line.content, line.number, parse, url)
        for line in lines
    )
    return replace(submission, input_file_id=file_id), items


async def _input_file(resources: Resources, tenant: int, name: str) -> UUID:
    try:
        file_id = uuid_of(FILE, name)
        async with async_transaction(resources.database) as connection:
            if (await connection.execute(files.get(tenant, file_id))).first():
                return file_id
    except NotFound:
        pass
    raise InvalidBatch(f"there is no file {name!r}", param="input_file_id")


def _accepted(batch: Batch, submitted: Submitted) -> Response:
    headers = {"Location": f"/v1/batches/{batch.id}", "Retry-After": RETRY_AFTER}
    if submitted.replayed:
        headers["Idempotency-Replayed"] = "true"
    return Response(batch.model_dump_json(), 202, headers, "application/json")


async def find(
    connection: AsyncConnection, tenant: int, batch_id: UUID, *, show_secret: bool = False
) -> Batch:
    """Raises NotFound, also for another tenant's batch."""
    row = (await connection.execute(batches.get(tenant, batch_id))).first()
    if row is None:
        raise NotFound(f"There is no {public(BATCH, batch_id)!r}.")
    return batch_of(row, show_secret=show_secret)


@router.get("/{batch_id}", response_model=Batch, responses={304: {"description": "Unchanged"}})
async def read_batch(
    batch_id: str,
    tenant: TenantDep,
    resources: ResourcesDep,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """How far a batch is. Its ETag changes with anything in it."""
    async with async_transaction(resources.database) as connection:
        batch = await find(connection, tenant, uuid_of(BATCH, batch_id))
    body = batch.model_dump_json().encode()
    headers = {"ETag": f'"{sha256(body).hexdigest()[:32]}"'}
    if batch.status not in TERMINAL:
        headers["Retry-After"] = RETRY_AFTER
    if if_none_match is not None and _matches(headers["ETag"], if_none_match):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type="application/json")


def _matches(etag: str, if_none_match: str) -> bool:
    named = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return etag in named or "*" in named


@router.get("")
async def list_batches(
    tenant: TenantDep,
    resources: ResourcesDep,
    after: Annotated[str | None, Query(description="The last id of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> BatchList:
    """Newest first."""
    start = None if after is None else uuid_of(BATCH, after)
    async with async_transaction(resources.database) as connection:
        rows: list[Any] = list(await connection.execute(batches.page(tenant, start, limit + 1)))
    data = [batch_of(row) for row in rows[:limit]]
    return BatchList(
        data=data,
        first_id=data[0].id if data else None,
        last_id=data[-1].id if data else None,
        has_more=len(rows) > limit,
    )


@router.post("/{batch_id}/cancel")
async def cancel_batch(batch_id: str, tenant: TenantDep, resources: ResourcesDep) -> Batch:
    """Items that no worker holds are cancelled at once; those being read still get their answers."""
    key = uuid_of(BATCH, batch_id)
    async with async_transaction(resources.database) as connection:
        await find(connection, tenant, key)
        await connection.execute(batches.start_cancel(tenant, key))
        await connection.execute(batches.cancel_queued(key))
        return await find(connection, tenant, key)
