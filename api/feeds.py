"""From steps to events: what a follower of one batch, or of all batches of a tenant, is told.

    decision            one stored decision: its answer, probabilities and label mass
    failure             an item that has no answers, and why
    progress            a batch's counts, after the decisions and failures that they count
    batch.completed     (or .failed, .expired, .cancelled) a batch's last counts, instead of progress

An event's id is where a reader stands who has it: the Position or the Window to go on from. Knows
nothing of how events are written on a connection.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from api.replies import error_of, reads_of
from api.results import question_sets_of
from api.steps import Steps
from decisions import batches, progress
from decisions.answers import wire_answer
from decisions.ids import BATCH, DECISION, public
from decisions.progress import Position, Window
from decisions.types import TERMINAL, Json, QuestionSet

#: Steps, and items of a step, that are read at a time.
PAGE = 100

COUNTS = ("total", "open", "done", "failed", "dead", "cancelled", "expired")


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    #: Without a type it is a heartbeat.
    type: str | None
    data: dict[str, Json] | None = None
    #: None leaves the reader where he stands.
    id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Follower:
    """Who is told, and what."""

    steps: Steps
    tenant_id: int
    #: Of decision, failure and progress; the end of a batch is always told.
    types: Collection[str]
    #: Seconds of silence after which there is a heartbeat.
    heartbeat: float


#: What a step's event is, and where its reader stands then.
_Told = tuple[str, dict[str, Json], Position]


async def of_batch(follower: Follower, batch_id: UUID, position: Position) -> AsyncIterator[Event]:
    """Ends with the batch."""

    async def query(connection: AsyncConnection) -> tuple[Sequence[Any], Any]:
        # In this order: a batch that is over by now has all its steps then.
        batch = (await connection.execute(batches.get(follower.tenant_id, batch_id))).first()
        steps = await connection.execute(progress.of_batch(batch_id, position, PAGE))
        return steps.all(), batch

    with follower.steps.follow(follower.tenant_id, batch_id) as moved:
        while not follower.steps.stopping:
            moved.clear()
            steps, batch = await follower.steps.read(query)
            for step in steps:
                async for type_, data, at in _told(follower, step, position):
                    yield Event(type=type_, data=data, id=str(at))
                position = Position(step.id + 1)
                if step.status in TERMINAL:
                    return
            if batch is None:
                return
            if not steps and batch.status in TERMINAL:
                # Its end is older than steps are, or was written by a worker that knows none.
                yield Event(type=f"batch.{batch.status}", data=_counts(batch, batch.id))
                return
            if not steps and not await _woken(moved, follower.heartbeat):
                yield Event(type=None)


async def of_tenant(follower: Follower, window: Window | None) -> AsyncIterator[Event]:
    """Endless. Without a window it begins with what happens from now on."""
    with follower.steps.follow(follower.tenant_id) as moved:
        if window is None:
            now = await follower.steps.read(_now)
            window = Window(since=now, until=now)
        yield Event(type=None, id=str(window))
        old = True
        while not follower.steps.stopping:
            moved.clear()
            window, steps = await _page(follower, window, old)
            for step in steps:
                async for type_, data, at in _told(follower, step, window.position):
                    yield Event(type=type_, data=data, id=str(window.at(at)))
                window = window.at(Position(step.id + 1))
            if not old and not steps and not await _woken(moved, follower.heartbeat):
                yield Event(type=None, id=str(window))
            old = len(steps) == PAGE


async def _now(connection: AsyncConnection) -> str:
    now: str = (await connection.execute(progress.snapshot())).scalar_one()
    return now


async def _page(follower: Follower, window: Window, old: bool) -> tuple[Window, Sequence[Any]]:
    """Steps of a window that has some left, or of the one that follows it."""

    async def query(connection: AsyncConnection) -> tuple[Window, Sequence[Any]]:
        here = window if old else Window(since=window.until, until=await _now(connection))
        steps = await connection.execute(progress.of_tenant(follower.tenant_id, here, PAGE))
        return here, steps.all()

    return await follower.steps.read(query)


async def _woken(moved: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(moved.wait(), seconds)
    except TimeoutError:
        return False
    return True


async def _told(follower: Follower, step: Any, position: Position) -> AsyncIterator[_Told]:
    """A step's events, less those that its reader has."""
    given = position.given if position.step == step.id else 0
    if {"decision", "failure"} & set(follower.types):
        number = 0
        for start in range(0, len(step.item_ids), PAGE):
            for type_, data in await _of_items(follower, step.item_ids[start : start + PAGE]):
                number += 1
                if number > given and type_ in follower.types:
                    yield type_, data, Position(step.id, number)
    data = _counts(step, step.batch_id)
    if step.status in TERMINAL:
        yield f"batch.{step.status}", data, Position(step.id + 1)
    elif "progress" in follower.types:
        yield "progress", data, Position(step.id + 1)


async def _of_items(
    follower: Follower, item_ids: Sequence[int]
) -> list[tuple[str, dict[str, Json]]]:
    async def query(
        connection: AsyncConnection,
    ) -> tuple[Sequence[Any], dict[bytes, QuestionSet]]:
        rows = (await connection.execute(progress.finished(item_ids, PAGE))).all()
        return rows, await question_sets_of(connection, follower.tenant_id, rows)

    rows, question_sets = await follower.steps.read(query)
    return [
        event for row in rows for event in _of_item(row, question_sets.get(row.question_set_hash))
    ]


def _of_item(row: Any, question_set: QuestionSet | None) -> list[tuple[str, dict[str, Json]]]:
    """From a row of `decisions.progress.finished`."""
    where: dict[str, Json] = {
        "batch_id": public(BATCH, row.batch_id),
        "custom_id": row.custom_id,
        "line": row.line,
    }
    if (error := error_of(row)) is not None:
        return [("failure", {**where, "status": row.status, "error": error})]
    return [
        (
            "decision",
            {
                "id": public(DECISION, read.stored["id"]),
                **where,
                "question": read.question.id,
                "answer": wire_answer(read.question, **read.answer(None)),
                "label_mass": read.stored["label_mass"],
                "argmax_is_label": read.stored["argmax_is_label"],
                "model": read.stored["model"],
            },
        )
        for read in reads_of(row, question_set)
    ]


def _counts(row: Any, batch_id: UUID) -> dict[str, Json]:
    """From a step, or from a batch."""
    final = row.done + row.failed + row.dead + row.cancelled + row.expired
    counts = {**row._mapping, "open": row.total - final}
    return {
        "batch_id": public(BATCH, batch_id),
        "status": row.status,
        "counts": {name: counts[name] for name in COUNTS},
    }
