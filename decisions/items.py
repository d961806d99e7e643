"""One item as a client sends it, checked: from a line of a file or an entry of `requests`.

Two shapes are read. Ours is `{"custom_id", "state", "questions"?, "instructions"?}`; OpenAI's batch line
is `{"custom_id", "method", "url", "body": {"state", "questions", ...}}`. What is wrong with an item is
an InvalidItem that names the field; it never concerns the items beside it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from decisions.bodies import Body, BodyParser
from decisions.errors import InvalidItem, InvalidQuestion
from decisions.strict_json import decode, may_hold_nul, refuse_nul
from decisions.types import ItemError, Json

MAX_CUSTOM_ID = 256

#: Characters of an error's message.
MAX_MESSAGE = 500

_OURS = {"custom_id", "state", "questions", "instructions"}
_OPENAI = {"custom_id", "method", "url", "body"}


@dataclass(frozen=True, kw_only=True, slots=True)
class NewItem:
    """An item on its way into the store: with a body, or with the error that took its place."""

    line: int
    custom_id: str | None
    body: Body | None = None
    error: ItemError | None = None


def read_item(raw: bytes, line: int, parse_body: BodyParser, url: str) -> NewItem:
    """Never raises for bad input: the error becomes the item."""
    try:
        wire = decode(raw)
    except InvalidItem as wrong:
        return _refused(line, None, wrong.code, wrong)
    return check_item(wire, line, parse_body, url, search_nul=may_hold_nul(raw))


def check_item(
    wire: Json, line: int, parse_body: BodyParser, url: str, *, search_nul: bool
) -> NewItem:
    """Like `read_item`, for what `decode` gave. Without `search_nul` nobody looks for U+0000."""
    custom_id: str | None = None
    try:
        if not isinstance(wire, dict):
            raise InvalidItem("invalid_type", "an item must be an object")
        if search_nul:
            refuse_nul(wire)
        custom_id = _custom_id(wire)
        return NewItem(line=line, custom_id=custom_id, body=parse_body(_unwrapped(wire, url)))
    except InvalidItem as wrong:
        return _refused(line, custom_id, wrong.code, wrong)
    except InvalidQuestion as wrong:
        return _refused(line, custom_id, "invalid_question", wrong)


def too_long(line: int, max_bytes: int) -> NewItem:
    wrong = InvalidItem("line_too_long", f"the line is longer than {max_bytes} bytes")
    return _refused(line, None, wrong.code, wrong)


def _refused(
    line: int, custom_id: str | None, code: str, wrong: InvalidItem | InvalidQuestion
) -> NewItem:
    message, param = shortened(wrong.message), wrong.param and shortened(wrong.param)
    error = ItemError(code=code, message=message, param=param, line=line)
    return NewItem(line=line, custom_id=custom_id, error=error)


def shortened(text: str) -> str:
    """What a message quotes of its input may be of any length."""
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"


def _custom_id(wire: Mapping[str, Json]) -> str:
    custom_id = wire.get("custom_id")
    if not isinstance(custom_id, str) or not custom_id:
        raise InvalidItem(
            "invalid_custom_id", "custom_id must be a non-empty string", param="custom_id"
        )
    if len(custom_id) > MAX_CUSTOM_ID:
        raise InvalidItem(
            "invalid_custom_id",
            f"custom_id is longer than {MAX_CUSTOM_ID} characters",
            param="custom_id",
        )
    return custom_id


def _unwrapped(wire: Mapping[str, Json], url: str) -> Mapping[str, Json]:
    openai = "body" in wire
    if unknown := sorted(set(wire) - (_OPENAI if openai else _OURS)):
        raise InvalidItem("unknown_field", f"unknown field(s) {unknown}", param=unknown[0])
    if not openai:
        return {key: value for key, value in wire.items() if key != "custom_id"}
    if wire.get("method", "POST") != "POST":
        raise InvalidItem("invalid_method", "method must be POST", param="method")
    if wire.get("url", url) != url:
        raise InvalidItem("invalid_url", f"url must be the batch's endpoint, {url}", param="url")
    body = wire["body"]
    if not isinstance(body, dict):
        raise InvalidItem("invalid_type", "body must be an object", param="body")
    return body
