"""The route of a batch's results: JSON Lines from the database, page by page, from the first moment on.

A line is an item that is final, and lines come in the order of the input. While a batch runs they are
those that are final by now; the same call later has the others too.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from api.auth import TenantDep
from api.batches import find
from api.documentation import PROBLEMS
from api.replies import answer_fields, error_of, reads_of
from api.resources import ResourcesDep
from decisions import batches, contents
from decisions.database import async_transaction
from decisions.ids import BATCH, uuid_of
from decisions.questions import from_canonical
from decisions.types import ItemStatus, Json, QuestionSet

router = APIRouter(prefix="/v1/batches", tags=["batches"], responses=PROBLEMS)

#: The largest number of a line.
MAX_LINE = (1 << 31) - 1

#: Items that are read at a time.
PAGE = 500

# Python's own line splitting, and others', end a line at these as well. JSON may escape them.
_LINE_ENDS = str.maketrans({"\u2028": "\\u2028", "\u2029": "\\u2029", "\x85": "\\u0085"})


@router.get(
    "/{batch_id}/results",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/jsonl": {}}}},
)
async def read_results(
    batch_id: str,
    tenant: TenantDep,
    resources: ResourcesDep,
    after_line: Annotated[
        int, Query(ge=0, le=MAX_LINE, description="Leaves out lines up to this one")
    ] = 0,
) -> StreamingResponse:
    """One JSON object a line: `custom_id`, `line`, `status`, `answers`, `decisions`, `error`, and more."""
    key = uuid_of(BATCH, batch_id)
    async with async_transaction(resources.database) as connection:
        await find(connection, tenant, key)
    lines = result_lines(resources.database, tenant, key, after_line)
    return StreamingResponse(lines, media_type="application/jsonl")


async def result_lines(
    database: AsyncEngine, tenant: int, batch_id: UUID, after_line: int
) -> AsyncIterator[bytes]:
    async for rows in pages(database, tenant, batch_id, after_line):
        yield b"".join(json_line(result_of(row, question_set)) for row, question_set in rows)


async def pages(
    database: AsyncEngine,
    tenant: int,
    batch_id: UUID,
    after_line: int = 0,
    statuses: Sequence[ItemStatus] = batches.FINAL,
) -> AsyncIterator[list[tuple[Any, QuestionSet | None]]]:
    """Final items and what was asked of them. Holds no connection between two pages."""
    while True:
        async with async_transaction(database) as connection:
            statement = batches.results(batch_id, after_line, PAGE, statuses)
            rows = list(await connection.execute(statement))
            question_sets = await question_sets_of(connection, tenant, rows)
        if not rows:
            return
        yield [(row, question_sets.get(row.question_set_hash)) for row in rows]
        after_line = rows[-1].line


async def question_sets_of(
    connection: AsyncConnection, tenant: int, rows: Sequence[Any]
) -> dict[bytes, QuestionSet]:
    keys = {(tenant, row.question_set_hash) for row in rows if row.decisions}
    if not keys:
        return {}
    loaded = await connection.execute(contents.load_question_sets(list(keys)))
    return {row.hash: from_canonical(row.content) for row in loaded}


def json_line(value: Mapping[str, Json]) -> bytes:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_LINE_ENDS).encode() + b"\n"


def result_of(row: Any, question_set: QuestionSet | None) -> dict[str, Json]:
    """From a row of `decisions.batches.results`."""
    return {
        "custom_id": row.custom_id,
        "line": row.line,
        "status": row.status,
        **answer_fields(reads_of(row, question_set), None),
        "error": error_of(row),
    }
