"""One connection of a stream: lines in, answers out in the order in which they come.

Two tasks: one reads the body and stores it group by group, one writes what became final. No more than
a number of items are in flight: while they are, the body is not read, and the client feels that in his
own socket. A client that does not read his answers stops the writing, and so the reading.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import suppress
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection
from starlette.requests import ClientDisconnect, Request
from starlette.types import Send

from api import outgoing
from api.incoming import Incoming, Incomings, grouped
from api.placing import Stream, place
from api.resources import Resources
from api.results import json_line, question_sets_of
from decisions import progress
from decisions.lines import Line, LineSplitter
from decisions.types import Json, QuestionSet

#: Seconds after which one looks without being woken: a worker of the version before wakes nobody.
LOOK = 2.0

#: Answers that are read and written at a time.
PAGE = 100


class Exchange:
    def __init__(
        self, resources: Resources, stream: Stream, incomings: Incomings, send: Send
    ) -> None:
        self._resources = resources
        self._stream = stream
        self._incomings = incomings
        self._send = send
        self._writing = asyncio.Lock()
        #: Item id -> the lines that wait for it.
        self._open: dict[int, list[int]] = {}
        self._lines = 0
        self._room = asyncio.Event()
        self._whole = False

    async def run(self, request: Request) -> None:
        with self._resources.steps.follow(self._stream.tenant_id) as moved:
            reader = asyncio.create_task(self._read(request, moved))
            reader.add_done_callback(lambda _: moved.set())
            try:
                await self._answer(reader, moved)
                await self._write([self._ending()])
            except ClientDisconnect:
                pass
            finally:
                reader.cancel()
                with suppress(asyncio.CancelledError, ClientDisconnect):
                    await reader

    async def _answer(self, reader: "asyncio.Task[None]", moved: asyncio.Event) -> None:
        """Until everything is answered; raises what ended the reader."""
        while not (self._whole and not self._open):
            moved.clear()
            await self._write_finished()
            if reader.done():
                reader.result()
            if self._resources.steps.stopping:
                return
            if not (self._whole and not self._open):
                with suppress(TimeoutError):
                    await asyncio.wait_for(moved.wait(), LOOK)

    async def _write_finished(self) -> None:
        full = True
        while full and self._open:
            rows, question_sets = await self._finished(list(self._open))
            # Taken out before they are written: the reader may add to them meanwhile.
            lines = {row.id: self._open.pop(row.id) for row in rows}
            await self._write(
                outgoing.result(row, question_sets.get(row.question_set_hash), line)
                for row in rows
                for line in lines[row.id]
            )
            self._room.set()
            full = len(rows) == PAGE

    async def _finished(
        self, item_ids: Sequence[int]
    ) -> tuple[Sequence[Any], dict[bytes, QuestionSet]]:
        async def query(
            connection: AsyncConnection,
        ) -> tuple[Sequence[Any], dict[bytes, QuestionSet]]:
            rows = (await connection.execute(progress.finished(item_ids, PAGE))).all()
            return rows, await question_sets_of(connection, self._stream.tenant_id, rows)

        return await self._resources.steps.read(query)

    async def _read(self, request: Request, moved: asyncio.Event) -> None:
        """The body; then nothing, until the client is gone."""
        splitter = LineSplitter(self._resources.settings.max_line_bytes)
        async for chunk in _body(request):
            for group in grouped(self._checked(splitter.feed(chunk))):
                await self._take(group)
                moved.set()
        for group in grouped(self._checked(splitter.end())):
            await self._take(group)
        self._whole = True
        moved.set()
        while (await request.receive())["type"] != "http.disconnect":
            pass
        raise ClientDisconnect

    def _checked(self, lines: Iterable[Line]) -> Iterable[Incoming]:
        for line in lines:
            self._lines = line.number
            incoming = self._incomings.read(line)
            if incoming is not None:
                yield incoming

    async def _take(self, group: Sequence[Incoming]) -> None:
        good = [one for one in group if one.item.error is None]
        await self._write(outgoing.refusal(one, one.item.error) for one in group if one.item.error)
        if not good:
            return
        while self._open and len(self._open) + len(good) > self._resources.settings.stream_items:
            self._room.clear()
            await self._room.wait()
        placed = await place(self._resources, self._stream, good)
        await self._write([*outgoing.accepted(placed), *map(outgoing.conflict, placed.conflicts)])
        for item_id, lines in placed.lines.items():
            self._open.setdefault(item_id, []).extend(lines)

    def _ending(self) -> dict[str, Json]:
        unanswered = [line for lines in self._open.values() for line in lines]
        complete = self._whole and not unanswered
        return outgoing.end(self._lines, unanswered, complete=complete)

    async def _write(self, values: Iterable[dict[str, Json]]) -> None:
        if body := b"".join(json_line(value) for value in values):
            async with self._writing:
                await self._send({"type": "http.response.body", "body": body, "more_body": True})


async def _body(request: Request) -> AsyncGenerator[bytes, None]:
    async for chunk in request.stream():
        if chunk:
            yield chunk
