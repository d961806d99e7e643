"""The input of OpenAI's Decisions request, as text.

A text, or the messages of a user, become what vLLM makes of them. Other messages and tool calls, which
vLLM does not take, are told apart by who speaks; what system and developer say becomes the system
message.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from decisions.errors import InvalidQuestion
from decisions.types import Json
from decisions.wire import a_list, a_string, an_object

MAX_CHARACTERS = 10_485_760
MAX_JSON_BYTES = 256 * 1024
MAX_JSON_LEVELS = 32
MAX_JSON_VALUES = 10_000


def parse_input(wire: Json) -> tuple[str, str | None]:
    """The state, and what system and developer messages say."""
    if isinstance(wire, str):
        text, system = wire, []
    else:
        items = [_item(item, f"input.{i}") for i, item in enumerate(a_list(wire, "input"))]
        if not items:
            raise InvalidQuestion("input: needs at least one item", param="input")
        _match_outputs(items)
        system = [item.text for item in items if item.speaker in ("system", "developer")]
        text = _conversation([i for i in items if i.speaker not in ("system", "developer")])
    if len(text) > MAX_CHARACTERS:
        raise InvalidQuestion(f"input: at most {MAX_CHARACTERS} characters", param="input")
    return text, "\n\n".join(system) or None


@dataclass(frozen=True, slots=True)
class _Item:
    """One entry of `input`."""

    #: A role, or `tool call NAME`, or `tool output`.
    speaker: str
    text: str
    #: Of a tool's call and its output.
    call_id: str | None = None


def _conversation(items: Sequence[_Item]) -> str:
    """As vLLM joins the messages of a user; with others among them, each says whose it is."""
    if all(item.speaker == "user" for item in items):
        return "\n\n".join(item.text for item in items)
    return "\n\n".join(f"{item.speaker}: {item.text}" for item in items)


def _match_outputs(items: Sequence[_Item]) -> None:
    called: set[str | None] = set()
    for i, item in enumerate(items):
        if item.speaker == "tool output" and item.call_id not in called:
            where = f"input.{i}.call_id"
            raise InvalidQuestion(f"{where}: no call before it has this id", param=where)
        called.add(item.call_id)


_PARTS = {
    "user": ("input_text", "input_json"),
    "developer": ("input_text",),
    "system": ("input_text",),
    "assistant": ("output_text", "refusal"),
}


def _item(wire: Json, where: str) -> _Item:
    item = an_object(wire, where)
    kind = item.get("type", "message")
    if kind == "message":
        role = item.get("role")
        if not isinstance(role, str) or role not in _PARTS:
            known = ", ".join(_PARTS)
            raise InvalidQuestion(f"{where}.role: must be one of {known}", param=f"{where}.role")
        return _Item(role, content(item.get("content"), f"{where}.content", _PARTS[role]))
    call_id = a_string(item.get("call_id"), f"{where}.call_id") if isinstance(kind, str) else ""
    if kind in ("function_call", "custom_tool_call"):
        name = a_string(item.get("name"), f"{where}.name")
        field = "arguments" if kind == "function_call" else "input"
        text = a_string(item.get(field), f"{where}.{field}")
        return _Item(f"tool call {name}", text, call_id)
    if kind in ("function_call_output", "custom_tool_call_output"):
        output = content(item.get("output"), f"{where}.output", ("input_text",))
        return _Item("tool output", output, call_id)
    raise InvalidQuestion(f"{where}.type: unknown type {kind!r}", param=f"{where}.type")


def content(wire: Json, where: str, allowed: Sequence[str]) -> str:
    """A text, or parts joined by line ends."""
    if isinstance(wire, str):
        return wire
    parts = [_part(part, f"{where}.{i}", allowed) for i, part in enumerate(a_list(wire, where))]
    return "\n".join(parts)


def _part(wire: Json, where: str, allowed: Sequence[str]) -> str:
    part = an_object(wire, where)
    kind = part.get("type")
    if kind == "input_image":
        raise InvalidQuestion(
            "Decisions supports text input only; images are not supported", param=where
        )
    if kind not in allowed:
        known = ", ".join(allowed)
        raise InvalidQuestion(f"{where}.type: must be one of {known}", param=f"{where}.type")
    if kind == "input_json":
        return _json(part.get("data"), f"{where}.data")
    field = "refusal" if kind == "refusal" else "text"
    return a_string(part.get(field), f"{where}.{field}")


def _json(data: Json, where: str) -> str:
    if not isinstance(data, dict) and not (
        isinstance(data, list) and all(isinstance(entry, dict) for entry in data)
    ):
        raise InvalidQuestion(f"{where}: must be an object or a list of objects", param=where)
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    levels, values = _extent(data)
    if levels > MAX_JSON_LEVELS or values > MAX_JSON_VALUES or len(text.encode()) > MAX_JSON_BYTES:
        raise InvalidQuestion(
            f"{where}: at most {MAX_JSON_LEVELS} levels, {MAX_JSON_VALUES} values and"
            f" {MAX_JSON_BYTES} bytes",
            param=where,
        )
    return text


def _extent(data: Json) -> tuple[int, int]:
    """Levels of containers, and values in all."""
    children = (
        list(data.values()) if isinstance(data, dict) else data if isinstance(data, list) else []
    )
    below = [_extent(child) for child in children]
    depth = max((levels for levels, _ in below), default=0)
    return depth + isinstance(data, dict | list), 1 + sum(values for _, values in below)
