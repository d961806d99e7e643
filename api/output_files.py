"""A batch's output and error files, in the lines of OpenAI's Batch API.

They are not stored: what is stored are the decisions, and a file is written of them whenever it is read.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from api.batch import batch_of
from api.output_names import ERRORS, OUTPUT
from api.replies import error_of, openai_reply, reads_of, status_of, system_one_reply
from api.resources import Resources
from api.results import json_line, pages
from decisions import batches
from decisions.answers import Confidence
from decisions.errors import NotFound
from decisions.ids import BATCH, FILE, uuid_of
from decisions.types import ItemStatus, Json, QuestionSet

_STATUSES: Mapping[str, Sequence[ItemStatus]] = {
    OUTPUT: (ItemStatus.DONE,),
    ERRORS: (ItemStatus.FAILED, ItemStatus.DEAD, ItemStatus.CANCELLED, ItemStatus.EXPIRED),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputFile:
    """A file of a batch that has ended."""

    name: str
    batch_id: UUID
    tenant: int
    endpoint: str
    #: Unix seconds of the batch's end.
    created_at: int
    statuses: Sequence[ItemStatus]

    @property
    def filename(self) -> str:
        return f"{self.name.replace(FILE, BATCH, 1)}.jsonl"


def is_output(name: str) -> bool:
    return name.endswith((OUTPUT, ERRORS))


async def find_output(connection: AsyncConnection, tenant: int, name: str) -> OutputFile:
    """Raises NotFound, also when the batch runs on or has no such items."""
    kind = OUTPUT if name.endswith(OUTPUT) else ERRORS
    batch_id = uuid_of(FILE, name.removesuffix(kind))
    row = (await connection.execute(batches.get(tenant, batch_id))).first()
    batch = row and batch_of(row)
    if row is None or batch is None or name not in (batch.output_file_id, batch.error_file_id):
        raise NotFound(f"There is no {name!r}.")
    ends = (batch.completed_at, batch.failed_at, batch.expired_at, batch.cancelled_at)
    return OutputFile(
        name=name,
        batch_id=batch_id,
        tenant=tenant,
        endpoint=row.endpoint,
        created_at=next(end for end in ends if end),
        statuses=_STATUSES[kind],
    )


async def output_lines(resources: Resources, file: OutputFile) -> AsyncIterator[bytes]:
    formula = resources.settings.confidence
    rows = pages(resources.database, file.tenant, file.batch_id, statuses=file.statuses)
    async for page in rows:
        yield b"".join(json_line(line_of(file.endpoint, *entry, formula)) for entry in page)


async def output_bytes(resources: Resources, file: OutputFile) -> int:
    """The size is known only by writing the file once."""
    return sum([len(lines) async for lines in output_lines(resources, file)])


def line_of(
    endpoint: str, row: Any, question_set: QuestionSet | None, formula: Confidence
) -> dict[str, Json]:
    line: dict[str, Json] = {"id": f"batch_req_{row.id}", "custom_id": row.custom_id}
    error = error_of(row)
    if error is None:
        reads = reads_of(row, question_set)
        reply = (
            openai_reply(reads, formula=formula)
            if endpoint == "/v1/decisions"
            else system_one_reply(row, reads, id_=f"decision-{row.id}", formula=formula)
        )
        return {**line, "response": _response(row, 200, reply), "error": None}
    if row.status in (ItemStatus.CANCELLED, ItemStatus.EXPIRED):
        short = {"code": error["code"], "message": error["message"]}
        return {**line, "response": None, "error": short}
    status = status_of(error["code"])
    kind = "server_error" if status >= 500 else "invalid_request_error"
    body: Json = {"error": {**error, "type": kind}}
    return {**line, "response": _response(row, status, body), "error": None}


def _response(row: Any, status: int, body: Json) -> dict[str, Json]:
    return {"status_code": status, "request_id": f"req_{row.id}", "body": body}
