"""Server-sent events from lines: what the API tells, one JSON object an event."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Event:
    #: None for a heartbeat.
    type: str | None
    data: Any
    #: To come back with; None leaves the one before in force.
    id: str | None


def events_of(lines: Iterable[bytes]) -> Iterator[Event]:
    """An event that is cut off is none."""
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.rstrip(b"\r").decode().partition(":")
        if name or value:
            fields[name] = value.removeprefix(" ")
            continue
        data = fields.get("data")
        yield Event(
            type=fields.get("event"),
            data=None if data is None else json.loads(data),
            id=fields.get("id"),
        )
        fields = {}
