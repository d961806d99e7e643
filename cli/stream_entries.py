"""Entries of a Redis stream as lines of `POST /v1/stream`, and its results as entries.

In:  {"custom_id"?, "state": text, "questions"?: JSON, "instructions"?: text}, or {"item": JSON} with the
     same names inside, for states that are not text.
Out: {"custom_id", "entry", "status", "result": JSON}; `entry` is the id of the entry in.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

#: Characters of a key that the API takes, less those of an entry's id.
_MAX_NAME = 150

_FIELDS = {b"custom_id", b"state", b"questions", b"instructions"}

#: Of a result, what concerns the connection and not the item.
_OF_STREAM = {"object", "line"}


@dataclass(frozen=True, kw_only=True)
class Entry:
    #: Such as 1700000000000-0.
    id: str
    fields: Mapping[bytes, bytes]


@dataclass(frozen=True, kw_only=True)
class Streams:
    """What is read, by whom, and where answers go."""

    entries: str
    answers: str
    group: str
    #: Where a new group begins: 0 is the oldest entry, $ the next.
    start: str = "0"
    #: About how many answers are kept; 0 keeps all.
    maxlen: int = 0


def key_of(streams: Streams, entry: Entry) -> str:
    """The same whoever sends the entry, however often; another group may ask something else."""
    name = f"{streams.entries}/{streams.group}"
    if len(name) > _MAX_NAME:
        name = sha256(name.encode()).hexdigest()
    return f"{name}/{entry.id}"


def line_of(entry: Entry, key: str) -> bytes:
    """Raises ValueError for an entry that cannot be an item; what else is wrong with it the API says."""
    item = _item(entry)
    item.setdefault("custom_id", entry.id)
    return json.dumps({**item, "key": key}, ensure_ascii=False).encode("utf-8", "strict")


def _item(entry: Entry) -> dict[str, Any]:
    if b"item" in entry.fields:
        item = json.loads(entry.fields[b"item"])
        if not isinstance(item, dict):
            raise ValueError("item must be a JSON object")
        return item
    if unknown := sorted(set(entry.fields) - _FIELDS):
        raise ValueError(f"unknown field(s) {[name.decode(errors='replace') for name in unknown]}")
    item = {name.decode(): value.decode() for name, value in entry.fields.items()}
    if "questions" in item:
        item["questions"] = json.loads(item["questions"])
    return item


def refused(why: ValueError) -> dict[str, Any]:
    """The result of an entry that `line_of` refuses."""
    error = {"code": "invalid_entry", "message": str(why), "param": None, "line": None}
    return {"custom_id": None, "status": "failed", "answers": {}, "decisions": {}, "error": error}


def answer_of(entry: Entry, result: Mapping[str, Any]) -> dict[str, str]:
    """The fields of the entry out."""
    told = {name: value for name, value in result.items() if name not in _OF_STREAM}
    return {
        "custom_id": result["custom_id"] or entry.id,
        "entry": entry.id,
        "status": result["status"],
        "result": json.dumps(told, ensure_ascii=False),
    }
