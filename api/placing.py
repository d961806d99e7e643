"""Puts the items of a stream into the store, a group at a time, and finds those that are there already.

Every group is an ordinary batch under a key of its own, so that asking again after a lost answer stores
nothing twice. A store that does not take items now is waited for: the stream is not read meanwhile.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from uuid import UUID

from api.incoming import ENDPOINT, Incoming
from api.problems import problem_of
from api.resources import Resources
from api.submissions import submit_items
from decisions import item_keys
from decisions.database import async_transaction
from decisions.submit import ItemsTaken
from decisions.types import Lane, Submission

#: Seconds until a store that took nothing is asked again.
PAUSE = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Stream:
    """What all groups of one stream have in common."""

    id: str
    tenant_id: int
    lane: Lane
    model: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Placed:
    """Where a group is: item ids and the lines of the stream that they answer."""

    lines: Mapping[int, Sequence[int]]
    #: Lines whose key was used for something else.
    conflicts: Sequence[Incoming] = ()
    #: The batch that was made for the rest, and the stream's line that is its line 1.
    batch_id: UUID | None = None
    first_line: int = 0


@dataclass(slots=True)
class _Found:
    lines: dict[int, list[int]] = field(default_factory=dict)
    conflicts: list[Incoming] = field(default_factory=list)
    new: list[Incoming] = field(default_factory=list)


async def place(resources: Resources, stream: Stream, group: Sequence[Incoming]) -> Placed:
    """A group without errors and without a custom_id that comes twice."""
    while True:
        try:
            return await _place(resources, stream, group)
        except ItemsTaken:
            # Another stream was first with one of the keys; now it can be found.
            continue
        except Exception as refused:
            problem = problem_of(refused)
            if problem is None or problem.status not in (429, 503):
                raise
        await asyncio.sleep(PAUSE)


async def _place(resources: Resources, stream: Stream, group: Sequence[Incoming]) -> Placed:
    found = await _found(resources, stream, group)
    if not found.new:
        return Placed(lines=found.lines, conflicts=found.conflicts)
    first_line = group[0].item.line
    offset = first_line - 1
    items = [replace(one.item, line=one.item.line - offset) for one in found.new]
    submission = _submission(stream, first_line, found.new)
    submitted = await submit_items(resources, submission, items)
    async with async_transaction(resources.database) as connection:
        rows = (await connection.execute(item_keys.of_batch(submitted.batch_id))).all()
    return Placed(
        lines={**found.lines, **{id_: [line + offset] for id_, line in rows}},
        conflicts=found.conflicts,
        batch_id=submitted.batch_id,
        first_line=first_line,
    )


async def _found(resources: Resources, stream: Stream, group: Sequence[Incoming]) -> _Found:
    keyed = {one.key: one.item.custom_id or "" for one in group if one.key is not None}
    if not keyed:
        return _Found(new=list(group))
    async with async_transaction(resources.database) as connection:
        rows = (await connection.execute(item_keys.find(stream.tenant_id, keyed))).all()
    known = {row.key: row for row in rows}
    found = _Found()
    for one in group:
        row = known.get(one.key)
        if row is None:
            found.new.append(one)
        elif row.id is None or bytes(row.request_hash) != _hash(one):
            found.conflicts.append(one)
        else:
            found.lines.setdefault(row.id, []).append(one.item.line)
    return found


def _submission(stream: Stream, first_line: int, new: Sequence[Incoming]) -> Submission:
    key = f"{stream.id}/{first_line}"
    return Submission(
        tenant_id=stream.tenant_id,
        lane=stream.lane,
        endpoint=ENDPOINT,
        model=stream.model,
        metadata={"stream": stream.id, "first_line": str(first_line)},
        idempotency_key=key,
        # Ours alone, so there is nobody else whose items could differ.
        request_hash=sha256(key.encode()).digest(),
        item_keys={one.key: _hash(one) for one in new if one.key is not None},
    )


def _hash(one: Incoming) -> bytes:
    assert one.item.body is not None  # noqa: S101 - a group has no errors
    return item_keys.request_hash(one.item.custom_id or "", one.item.body)
