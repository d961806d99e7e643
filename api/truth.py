"""Routes of truth: right answers in, one or many; and all that was said of a decision."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from api.auth import TenantDep
from api.batch import LineError, LineErrors
from api.bodies import limited
from api.documentation import PROBLEMS
from api.encodings import decompressed
from api.errors import MalformedBody, UnsupportedMediaType
from api.resources import Resources, ResourcesDep
from decisions import truth
from decisions.database import async_transaction, transaction
from decisions.errors import InvalidItem, NotFound
from decisions.ids import DECISION, TRUTH, number_of, public
from decisions.strict_json import decode
from decisions.truth_input import Defaults, NewTruth, check_truth, read_csv, read_lines
from decisions.types import ItemError, Json

router = APIRouter(tags=["truth"], responses=PROBLEMS)

JSON_LINES = ("application/jsonl", "application/x-ndjson", "application/x-jsonlines")
MEDIA_TYPES = ("application/json", *JSON_LINES, "text/csv")

EXAMPLE = {
    "batch_id": "batch_0192f0c1a2b37c4d8e5f60718293a4b5",
    "custom_id": "t-1",
    "question": "team",
    "answer": "billing",
    "source": "dana",
    "time": "2026-03-29T09:00:00Z",
}


class Truth(BaseModel):
    """What somebody said the right answer is. Times are ISO 8601."""

    id: str
    object: Literal["truth"] = "truth"
    decision_id: str
    #: As the decision's question names it.
    answer: str
    source: str
    said_at: str
    created_at: str
    #: Whether nothing newer was said.
    in_force: bool


class TruthList(BaseModel):
    """All that was said of one decision, the newest first."""

    object: Literal["list"] = "list"
    data: list[Truth]


class TruthImport(BaseModel):
    """What became of many truths."""

    object: Literal["truth.import"] = "truth.import"
    total: int
    stored: int
    #: Said before, at the same time by the same source.
    repeated: int
    failed: int
    #: The first thousand.
    errors: LineErrors


_BODIES: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "One object; or many, as JSON Lines, or as CSV with these columns",
        "content": {
            name: {"schema": {"type": "object"}, "example": EXAMPLE} for name in MEDIA_TYPES[:1]
        }
        | {name: {"schema": {"type": "string"}} for name in MEDIA_TYPES[1:]},
    }
}


@router.post(
    "/v1/truth",
    response_model=Truth | TruthImport,
    responses={201: {"model": Truth, "description": "One, stored"}},
    openapi_extra=_BODIES,
)
async def give_truth(
    request: Request,
    tenant: TenantDep,
    resources: ResourcesDep,
    batch_id: Annotated[str | None, Query(description="Of lines without their own")] = None,
    question: Annotated[str | None, Query(description="Of lines without their own")] = None,
    source: Annotated[
        str, Query(description="Of lines without their own", min_length=1, max_length=128)
    ] = "api",
) -> Response:
    """Say what the right answer is, of a decision by its id or by batch_id, custom_id and question.

    A correction is one more truth: the newest is in force, and all are kept. Of many, each bad line fails
    alone; the others are stored when this returns. The same word again, of the same time and source, is
    counted as repeated, so a file with times may be sent twice.
    """
    given = {"batch_id": batch_id, "question": question, "source": source}
    defaults = Defaults(now=datetime.now(UTC), **{k: v for k, v in given.items() if v is not None})
    media_type, raw = await _body(request, resources)
    if media_type == "application/json":
        stored = await _one(resources, tenant, _wire(raw), defaults)
        return Response(stored.model_dump_json(), 201, media_type="application/json")
    lines = (
        read_csv(raw, defaults)
        if media_type == "text/csv"
        else read_lines(raw, defaults, resources.settings.max_line_bytes)
    )
    imported = await _many(resources, tenant, lines)
    return Response(imported.model_dump_json(), media_type="application/json")


async def _body(request: Request, resources: Resources) -> tuple[str, bytes]:
    """Its media type and its bytes."""
    media_type = request.headers.get("content-type", "application/json").partition(";")[0]
    media_type = media_type.strip().lower()
    if media_type not in MEDIA_TYPES:
        raise UnsupportedMediaType(f"send one of {', '.join(MEDIA_TYPES)}", param="Content-Type")
    max_bytes = resources.settings.max_body_bytes
    raw = b"".join([chunk async for chunk in limited(request, max_bytes)])
    return media_type, decompressed(raw, request.headers.get("content-encoding", ""), max_bytes)


def _wire(raw: bytes) -> Json:
    try:
        return decode(raw)
    except InvalidItem as wrong:
        raise MalformedBody(wrong.message) from None


async def _one(resources: Resources, tenant: int, wire: Json, defaults: Defaults) -> Truth:
    new = check_truth(wire, 1, defaults)

    def store() -> int:
        with transaction(resources.submissions) as connection:
            return truth.store_one(connection, tenant, new)

    decision = await to_thread.run_sync(store, limiter=resources.submission_limit)
    said = await _history(resources, tenant, decision)
    return next(t for t in said if t.source == new.source and t.said_at == _iso(new.said_at))


async def _many(
    resources: Resources, tenant: int, lines: Iterator[NewTruth | ItemError]
) -> TruthImport:
    def store() -> truth.Imported:
        with transaction(resources.submissions) as connection:
            return truth.store(connection, tenant, lines)

    imported = await to_thread.run_sync(store, limiter=resources.submission_limit)
    return TruthImport(
        total=imported.total,
        stored=imported.stored,
        repeated=imported.repeated,
        failed=imported.failed,
        errors=LineErrors(data=[LineError(**_plain(error)) for error in imported.errors]),
    )


def _plain(error: ItemError) -> Mapping[str, Any]:
    return error.as_json()


@router.get("/v1/decisions/{decision_id}/truth")
async def read_truth(decision_id: str, tenant: TenantDep, resources: ResourcesDep) -> TruthList:
    """What was said of a decision, the newest first. Empty while nobody said anything."""
    return TruthList(data=await _history(resources, tenant, number_of(DECISION, decision_id)))


async def _history(resources: Resources, tenant: int, decision: int) -> list[Truth]:
    async with async_transaction(resources.database) as connection:
        rows = list(await connection.execute(truth.history(tenant, decision)))
    if not rows:
        raise NotFound(f"There is no {public(DECISION, decision)!r}.")
    return [
        Truth(
            id=public(TRUTH, row.id),
            decision_id=public(DECISION, row.of),
            answer=row.answer,
            source=row.source,
            said_at=_iso(row.said_at),
            created_at=_iso(row.created_at),
            in_force=n == 0,
        )
        for n, row in enumerate(rows)
        if row.id is not None
    ]


def _iso(time: datetime) -> str:
    return time.astimezone(UTC).isoformat()
