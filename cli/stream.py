"""`weighbridge stream`: a consumer group on a Redis stream, whose entries are decided and answered on another."""

import json
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Annotated, Any

import redis
import typer

from cli.client import Address, Client, find_address
from cli.inputs import load_questions
from cli.output import JsonOption, KeyOption, UrlOption, notes, print_json, reporting
from cli.stream_entries import Streams
from cli.stream_group import BLOCK, Consumer
from cli.stream_pump import Pump

#: Seconds that what is in flight has to be answered after SIGTERM; what is not goes to others.
GRACE = 20.0


def stream(
    entries: Annotated[str, typer.Option("--in", help="The Redis stream to read.")],
    answers: Annotated[str, typer.Option("--out", help="The Redis stream for answers.")],
    group: Annotated[str, typer.Option(help="The consumer group; made if new.")] = "weighbridge",
    questions: Annotated[
        Path | None,
        typer.Option("--questions", "-q", help="YAML or JSON, for entries that bring none."),
    ] = None,
    redis_url: Annotated[
        str, typer.Option("--redis-url", help="Where both streams are.", envvar="REDIS_URL")
    ] = "redis://127.0.0.1:6379/0",
    start: Annotated[
        str, typer.Option("--from", help="Where a new group begins: 0 or an id, or $ for the end.")
    ] = "0",
    lane: Annotated[str, typer.Option(help="interactive or bulk.")] = "bulk",
    idle: Annotated[
        float,
        typer.Option(help="Seconds without a sign of life until others take over.", min=0.5),
    ] = 30.0,
    pumps: Annotated[int, typer.Option(help="Exchanges with the API at a time.", min=1)] = 4,
    count: Annotated[int, typer.Option(help="Entries of one exchange.", min=1, max=1000)] = 128,
    maxlen: Annotated[
        int, typer.Option(help="About how many answers are kept; 0 keeps all.", min=0)
    ] = 0,
    url: UrlOption = None,
    api_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Decide what comes on a Redis stream, until SIGTERM or Ctrl-C.

    An entry is {custom_id, state, questions?}; an answer {custom_id, entry, status, result}. Any number of
    these may run. Kill one at any point, and another takes over what it had, after --idle seconds; an
    entry is decided once and answered once.

    weighbridge stream --in tickets --out answers -q triage.yaml
    """
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    with reporting(as_json), _redis_errors():
        address = find_address(url, api_key, os.environ)
        asked = load_questions(questions) if questions else {}
        _check(address, asked)
        streams = Streams(entries=entries, answers=answers, group=group, start=start, maxlen=maxlen)
        stopping = Event()
        made = [
            Pump(
                client=Client(address),
                consumer=Consumer(_connect(redis_url), streams, _name(n), idle),
                streams=streams,
                questions=asked,
                lane=lane,
                count=count,
                stopping=stopping,
            )
            for n in range(pumps)
        ]
        if not as_json:
            notes.print(f"From {entries} to {answers} as {group}; Ctrl-C ends in order.")
        _run(made, stopping, idle)
        _report(made, as_json)


def _check(address: Address, asked: dict[str, Any]) -> None:
    """Raises for an address, a key or questions that cannot be served."""
    first = json.dumps(asked).encode() if asked else b""
    with Client(address) as client:
        for line in client.exchange("/v1/stream", first):
            if error := json.loads(line).get("error"):
                raise ValueError(error["message"])


@contextmanager
def _redis_errors() -> Iterator[None]:
    """What Redis refuses, in words."""
    try:
        yield
    except redis.RedisError as error:
        raise ValueError(f"Redis: {error}") from None


def _connect(url: str) -> "redis.Redis":
    return redis.Redis.from_url(url, socket_timeout=BLOCK / 1000 + 10, socket_keepalive=True)


def _name(number: int) -> str:
    """New with every process: a name that came again would hold what its dead namesake held."""
    return f"{socket.gethostname()}-{os.getpid()}-{os.urandom(4).hex()}-{number}"


def _run(pumps: Sequence[Pump], stopping: Event, idle: float) -> None:
    """Says for the pumps that they live, until all have ended."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    threads = [Thread(target=pump.run, daemon=True) for pump in pumps]
    for thread in threads:
        thread.start()
    while not stopping.wait(idle / 3):
        _each(pumps, Consumer.keep)
    until = time.monotonic() + GRACE
    while time.monotonic() < until and (alive := [t for t in threads if t.is_alive()]):
        alive[0].join(min(idle / 3, until - time.monotonic()))
        _each(pumps, Consumer.keep)
    _each(pumps, Consumer.leave)
    for failure in (pump.failure for pump in pumps if pump.failure):
        raise failure


def _each(pumps: Sequence[Pump], tell: Callable[[Consumer], None]) -> None:
    """Redis may be away, or emptied: then there is nobody to tell."""
    for pump in pumps:
        with suppress(redis.ConnectionError, redis.TimeoutError, redis.ResponseError):
            tell(pump.consumer)


def _report(pumps: Sequence[Pump], as_json: bool) -> None:
    answered = sum(pump.tally.answered for pump in pumps)
    failed = sum(pump.tally.failed for pump in pumps)
    if as_json:
        print_json({"answered": answered, "failed": failed})
    else:
        notes.print(f"{answered} entries answered, {failed} of them with an error.")
