"""Uploaded files, kept in chunks in Postgres, so that any process can read them and nothing else is to back up."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Delete,
    Insert,
    Select,
    Update,
    delete,
    func,
    insert,
    select,
    update,
)

from decisions.tables import file_chunks, files

#: Bytes per stored chunk.
CHUNK_BYTES = 1 << 20


def start(
    file_id: UUID, tenant_id: int, filename: str, purpose: str, lifetime: timedelta | None
) -> Insert:
    """First of a file's statements; all of them are one transaction."""
    return insert(files).values(
        id=file_id,
        tenant_id=tenant_id,
        filename=filename,
        purpose=purpose,
        bytes=0,
        sha256=b"",
        expires_at=None if lifetime is None else func.now() + lifetime,
    )


def append(file_id: UUID, ordinal: int, content: bytes) -> Insert:
    return insert(file_chunks).values(file_id=file_id, ordinal=ordinal, content=content)


def finish(file_id: UUID, size: int, sha256: bytes) -> Update:
    return update(files).where(files.c.id == file_id).values(bytes=size, sha256=sha256)


def get(tenant_id: int, file_id: UUID) -> Select[Any]:
    return select(files).where(files.c.tenant_id == tenant_id, files.c.id == file_id, _alive())


def _alive() -> ColumnElement[bool]:
    return files.c.expires_at.is_(None) | (files.c.expires_at > func.now())


def page(tenant_id: int, after: UUID | None, limit: int) -> Select[Any]:
    """Newest first; `after` is the last id of the page before."""
    query = select(files).where(files.c.tenant_id == tenant_id, _alive())
    if after is not None:
        query = query.where(files.c.id < after)
    return query.order_by(files.c.id.desc()).limit(limit)


def chunk(file_id: UUID, ordinal: int) -> Select[bytes]:
    return select(file_chunks.c.content).where(
        file_chunks.c.file_id == file_id, file_chunks.c.ordinal == ordinal
    )


def remove(tenant_id: int, file_id: UUID) -> Delete:
    return delete(files).where(files.c.tenant_id == tenant_id, files.c.id == file_id)
