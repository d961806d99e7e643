"""A stored file's bytes: into Postgres in chunks of one transaction, and out of it one by one."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from typing import Any
from uuid import UUID

from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from decisions import files
from decisions.database import async_transaction, transaction


@dataclass(frozen=True, slots=True)
class Stored:
    """What was written."""

    size: int
    sha256: bytes


async def store_chunks(
    connection: AsyncConnection, file_id: UUID, read: Callable[[int], Coroutine[Any, Any, bytes]]
) -> Stored:
    """`read` gives up to so many bytes, and none at the end. One chunk is in memory at a time."""
    size, digest = 0, sha256()
    for ordinal in count():
        content = await read(files.CHUNK_BYTES)
        if not content:
            break
        await connection.execute(files.append(file_id, ordinal, content))
        size += len(content)
        digest.update(content)
    return Stored(size, digest.digest())


def chunks_of(engine: Engine, file_id: UUID) -> Iterator[bytes]:
    """Holds no connection between two chunks."""
    for ordinal in count():
        with transaction(engine) as connection:
            content = connection.scalar(files.chunk(file_id, ordinal))
        if content is None:
            return
        yield content


async def stream_chunks(database: AsyncEngine, file_id: UUID) -> AsyncIterator[bytes]:
    """Like `chunks_of`, for clients, which may read slowly."""
    for ordinal in count():
        async with async_transaction(database) as connection:
            content = await connection.scalar(files.chunk(file_id, ordinal))
        if content is None:
            return
        yield content
