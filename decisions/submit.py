"""From items to a stored batch: one transaction, constant memory.

States and question sets go first, in transactions of their own (see contents.py). The batch, its items
and its idempotency key are one transaction: a client that got an answer has a batch that will finish,
and one that did not may ask again under the same key.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Engine

from decisions import batches, contents, item_keys
from decisions.database import transaction
from decisions.errors import IdempotencyConflict, InvalidBatch
from decisions.ids import new_uuid
from decisions.items import NewItem
from decisions.types import Submission

#: Items that are in memory at a time, fewer when their texts are long.
CHUNK = 500
CHUNK_CHARACTERS = 4_000_000

_COPY = """COPY items (tenant_id, batch_id, line, custom_id, state_hash, question_set_hash, lane,
  model, priority, status, error, finished_at) FROM STDIN"""


@dataclass(frozen=True, slots=True)
class Submitted:
    """The batch that a submission made, or had made before under the same key."""

    batch_id: UUID
    replayed: bool


class ItemsTaken(Exception):
    """Some of the items were submitted before, under the same keys. Nothing was stored."""


class _AlreadySubmitted(Exception):
    """Another submission with this idempotency key was first."""


def submit(engine: Engine, submission: Submission, items: Iterable[NewItem]) -> Submitted:
    """Raises InvalidBatch when there are no items, IdempotencyConflict when the key was used for others,
    ItemsTaken when the keys of some items were used.

    Blocks while a submission with the same key is under way, then returns that one's batch.
    """
    batch_id = new_uuid()
    try:
        with transaction(engine) as connection:
            connection.execute(batches.insert_batch(batch_id, submission))
            _take_key(connection, batch_id, submission)
            _copy_all(engine, connection, batch_id, submission, items)
            _count(connection, batch_id)
    except _AlreadySubmitted:
        return _first_submission(engine, submission)
    return Submitted(batch_id, replayed=False)


def _take_key(connection: Connection, batch_id: UUID, submission: Submission) -> None:
    if submission.idempotency_key is not None:
        taken = connection.execute(batches.take_key(batch_id, submission)).first()
        if taken is None:
            raise _AlreadySubmitted
    if submission.item_keys:
        found = connection.execute(item_keys.take(batch_id, submission)).all()
        if len(found) < len(submission.item_keys):
            raise ItemsTaken


def _first_submission(engine: Engine, submission: Submission) -> Submitted:
    with transaction(engine) as connection:
        batch_id, request_hash = connection.execute(batches.find_key(submission)).one()
    if request_hash != submission.request_hash:
        raise IdempotencyConflict()
    return Submitted(batch_id, replayed=True)


def _copy_all(
    engine: Engine,
    connection: Connection,
    batch_id: UUID,
    submission: Submission,
    items: Iterable[NewItem],
) -> None:
    for chunk in _chunks(items):
        _store_contents(engine, submission.tenant_id, chunk)
        driver = connection.connection.driver_connection
        assert driver is not None  # noqa: S101 - the connection is open
        with driver.cursor() as cursor, cursor.copy(_COPY) as copy:
            for row in _rows(batch_id, submission, chunk):
                copy.write_row(row)


def _chunks(items: Iterable[NewItem]) -> Iterator[list[NewItem]]:
    chunk: list[NewItem] = []
    characters = 0
    for item in items:
        chunk.append(item)
        characters += len(item.body.state) + len(item.body.question_set) if item.body else 0
        if len(chunk) == CHUNK or characters > CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def _store_contents(engine: Engine, tenant_id: int, chunk: list[NewItem]) -> None:
    bodies = [item.body for item in chunk if item.body]
    states = {body.state_hash: body.state for body in bodies}
    sets = {body.question_set_hash: body.question_set for body in bodies}
    with transaction(engine) as connection:
        connection.execute(contents.store_question_sets(tenant_id, sets))
        connection.execute(contents.store_states(tenant_id, states))


def _rows(
    batch_id: UUID, submission: Submission, chunk: list[NewItem]
) -> Iterator[tuple[Any, ...]]:
    for item in chunk:
        yield (
            submission.tenant_id,
            batch_id,
            item.line,
            item.custom_id,
            item.body.state_hash if item.body else None,
            item.body.question_set_hash if item.body else None,
            str(submission.lane),
            submission.reader,
            submission.priority,
            "failed" if item.error else "queued",
            json.dumps(item.error.as_json()) if item.error else None,
            "now" if item.error else None,
        )


def _count(connection: Connection, batch_id: UUID) -> None:
    connection.execute(batches.refuse_duplicates(batch_id))
    total = connection.execute(batches.count_items(batch_id)).scalar_one()
    if not total:
        raise InvalidBatch("the batch has no items")
