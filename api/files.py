"""Routes of files: upload, read, list, delete, in OpenAI's shapes."""

from datetime import timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.datastructures import FormData, UploadFile

from api.auth import TenantDep
from api.bodies import read_form, validated
from api.documentation import PROBLEMS, takes
from api.errors import InvalidRequest
from api.file_chunks import store_chunks, stream_chunks
from api.output_files import find_output, is_output, output_bytes, output_lines
from api.resources import ResourcesDep
from decisions import files
from decisions.database import async_transaction
from decisions.errors import NotFound
from decisions.ids import FILE, new_uuid, public, uuid_of

router = APIRouter(prefix="/v1/files", tags=["files"], responses=PROBLEMS)


class NewFile(BaseModel):
    """The fields of the form beside the file itself."""

    model_config = ConfigDict(extra="forbid")

    purpose: Literal["batch"]
    anchor: Annotated[Literal["created_at"] | None, Field(alias="expires_after[anchor]")] = None
    #: From an hour to thirty days; without it the file is kept.
    seconds: Annotated[int | None, Field(alias="expires_after[seconds]", ge=3600, le=2_592_000)] = (
        None
    )


class File(BaseModel):
    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    expires_at: int | None
    filename: str
    purpose: str
    status: Literal["processed"] = "processed"


class FileList(BaseModel):
    """Newest first. The next page is after `last_id`."""

    object: Literal["list"] = "list"
    data: list[File]
    first_id: str | None
    last_id: str | None
    has_more: bool


class DeletedFile(BaseModel):
    id: str
    object: Literal["file"] = "file"
    deleted: Literal[True] = True


@router.post("", openapi_extra=takes(NewFile, file=True))
async def upload_file(request: Request, tenant: TenantDep, resources: ResourcesDep) -> File:
    """Store a file of items. Its lines are checked when a batch is made of it."""
    async with read_form(request, resources.settings.max_file_bytes) as form:
        upload, new = _parts(form)
        file_id = new_uuid()
        lifetime = None if new.seconds is None else timedelta(seconds=new.seconds)
        async with async_transaction(resources.database) as connection:
            name = upload.filename or "upload"
            await connection.execute(files.start(file_id, tenant, name, new.purpose, lifetime))
            stored = await store_chunks(connection, file_id, upload.read)
            await connection.execute(files.finish(file_id, stored.size, stored.sha256))
            return _file((await connection.execute(files.get(tenant, file_id))).one())


def _parts(form: FormData) -> tuple[UploadFile, NewFile]:
    upload = form.get("file")
    if not isinstance(upload, UploadFile):
        raise InvalidRequest("file: a file is required", param="file")
    if "\0" in (upload.filename or ""):
        raise InvalidRequest("file: its name contains U+0000", param="file")
    fields = {name: value for name, value in form.items() if isinstance(value, str)}
    return upload, validated(NewFile, dict(fields))


def _file(row: Any) -> File:
    return File(
        id=public(FILE, row.id),
        bytes=row.bytes,
        created_at=int(row.created_at.timestamp()),
        expires_at=int(row.expires_at.timestamp()) if row.expires_at else None,
        filename=row.filename,
        purpose=row.purpose,
    )


@router.get("")
async def list_files(
    tenant: TenantDep,
    resources: ResourcesDep,
    after: Annotated[str | None, Query(description="The last id of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
) -> FileList:
    """Newest first."""
    start = None if after is None else uuid_of(FILE, after)
    async with async_transaction(resources.database) as connection:
        rows = list(await connection.execute(files.page(tenant, start, limit + 1)))
    data = [_file(row) for row in rows[:limit]]
    return FileList(
        data=data,
        first_id=data[0].id if data else None,
        last_id=data[-1].id if data else None,
        has_more=len(rows) > limit,
    )


@router.get("/{file_id}")
async def read_file(file_id: str, tenant: TenantDep, resources: ResourcesDep) -> File:
    """An uploaded file, or the output of a batch."""
    if not is_output(file_id):
        return await _found(resources, tenant, uuid_of(FILE, file_id))
    async with async_transaction(resources.database) as connection:
        output = await find_output(connection, tenant, file_id)
    return File(
        id=file_id,
        bytes=await output_bytes(resources, output),
        created_at=output.created_at,
        expires_at=None,
        filename=output.filename,
        purpose="batch_output",
    )


@router.get("/{file_id}/content", response_class=StreamingResponse)
async def read_content(
    file_id: str, tenant: TenantDep, resources: ResourcesDep
) -> StreamingResponse:
    """The bytes as they were uploaded, or the lines of a batch's output."""
    if is_output(file_id):
        async with async_transaction(resources.database) as connection:
            output = await find_output(connection, tenant, file_id)
        lines = output_lines(resources, output)
        return StreamingResponse(lines, media_type="application/jsonl")
    file = await _found(resources, tenant, uuid_of(FILE, file_id))
    return StreamingResponse(
        stream_chunks(resources.database, uuid_of(FILE, file_id)),
        media_type="application/octet-stream",
        headers={"Content-Length": str(file.bytes)},
    )


async def _found(resources: ResourcesDep, tenant: int, key: UUID) -> File:
    async with async_transaction(resources.database) as connection:
        row = (await connection.execute(files.get(tenant, key))).first()
    if row is None:
        raise NotFound(f"There is no {public(FILE, key)!r}.")
    return _file(row)


@router.delete("/{file_id}")
async def delete_file(file_id: str, tenant: TenantDep, resources: ResourcesDep) -> DeletedFile:
    """Batches that were made of it stay."""
    key = uuid_of(FILE, file_id)
    async with async_transaction(resources.database) as connection:
        removed = await connection.execute(files.remove(tenant, key))
    if not removed.rowcount:
        raise NotFound(f"There is no {file_id!r}.")
    return DeletedFile(id=file_id)
