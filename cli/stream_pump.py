"""Entries in, answers out: takes some from a Redis stream, sends them to the API, delivers what it answers.

What goes wrong on the way leaves entries held, and they are sent again under the same keys, so nothing
is read twice. The flow is `Pump.once`.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import redis

from cli.client import ApiError, Client
from cli.stream_entries import Entry, Streams, answer_of, key_of, line_of, refused
from cli.stream_group import Consumer

logger = logging.getLogger(__name__)

#: Seconds before a server that was away is tried again.
PAUSE = 0.5


@dataclass
class Tally:
    """What became of the entries that one pump answered."""

    answered: int = 0
    #: Of these, those that have an error instead of answers.
    failed: int = 0


@dataclass(kw_only=True)
class Pump:
    """One thread's work."""

    client: Client
    consumer: Consumer
    streams: Streams
    #: What entries without questions are asked: the first line of every stream; empty for none.
    questions: Mapping[str, Any]
    lane: str
    count: int
    stopping: Event
    tally: Tally = field(default_factory=Tally)
    #: What ended it before its time.
    failure: Exception | None = None

    def run(self) -> None:
        """Until it is told to stop, and then until what it holds is answered or a server is away."""
        try:
            while not self.stopping.is_set():
                if self._patiently(self.once):
                    self.stopping.wait(PAUSE)
        except Exception as error:  # noqa: BLE001 - a thread's edge; the command raises it again
            self.failure = error
            self.stopping.set()

    def _patiently(self, work: Callable[[], None]) -> bool:
        """Whether a server was away."""
        try:
            work()
        except (redis.ConnectionError, redis.TimeoutError, ApiError) as error:
            if isinstance(error, ApiError) and not _passes(error):
                raise
            logger.warning("%s", error, extra={"action": "stream_held_up"})
            return True
        return False

    def once(self) -> None:
        """Take, ask, answer."""
        sent: list[Entry] = []
        body = b""
        for entry in self.consumer.held or self.consumer.take(self.count):
            try:
                body += line_of(entry, key_of(self.streams, entry)) + b"\n"
                sent.append(entry)
            except ValueError as wrong:
                self._answer(entry, refused(wrong))
        if sent:
            self._ask(body, sent)

    def _ask(self, body: bytes, sent: Sequence[Entry]) -> None:
        first = json.dumps(self.questions).encode() + b"\n" if self.questions else b""
        shift = 1 + bool(first)
        for line in self.client.exchange("/v1/stream", first + body, lane=self.lane):
            told = json.loads(line)
            if told["object"] == "stream.result":
                self._answer(sent[told["line"] - shift], told)
        if self.consumer.held:
            raise ApiError("The stream was cut off before every entry was answered.")

    def _answer(self, entry: Entry, result: Mapping[str, Any]) -> None:
        if self.consumer.answer(entry, answer_of(entry, result)):
            self.tally.answered += 1
            self.tally.failed += result["status"] != "done"


def _passes(error: ApiError) -> bool:
    """What is not the fault of what was sent."""
    return error.status is None or error.status == 429 or error.status >= 500
