"""One item as a client sends it, checked: from a line of a file or an entry of `requests`.

Two shapes are read. Ours is `{"custom_id", "state", "questions"?, "instructions"?}`; OpenAI's batch line
is `{"custom_id", "method", "url", "body": {"state", "questions", ...}}`. What is wrong with an item is
an InvalidItem that names the field; it never concerns the items beside it.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from decisions.errors import InvalidItem, InvalidQuestion
from decisions.questions import canonical, content_hash, parse_question_set
from decisions.types import ItemError, Json

MAX_CUSTOM_ID = 256

#: Characters of an error's message.
MAX_MESSAGE = 500

#: Objects and arrays inside each other; far beyond what people send, far below what Python can follow.
MAX_DEPTH = 256

_OURS = {"custom_id", "state", "questions", "instructions"}
_OPENAI = {"custom_id", "method", "url", "body"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Body:
    """What is asked, ready for the store."""

    #: The state's JSON, and its hash.
    state: str
    state_hash: bytes
    #: The question set's canonical JSON, and its hash.
    question_set: str
    question_set_hash: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class NewItem:
    """An item on its way into the store: with a body, or with the error that took its place."""

    line: int
    custom_id: str | None
    body: Body | None = None
    error: ItemError | None = None


#: From what a client wrote to a body; each endpoint has its own. Raises InvalidItem or InvalidQuestion.
BodyParser = Callable[[Mapping[str, Json]], Body]


def read_item(raw: bytes, line: int, parse_body: BodyParser, url: str) -> NewItem:
    """Never raises for bad input: the error becomes the item."""
    try:
        wire = decode(raw)
    except InvalidItem as wrong:
        return _refused(line, None, wrong.code, wrong)
    return check_item(wire, line, parse_body, url, may_hold_nul=may_hold_nul(raw))


def check_item(
    wire: Json, line: int, parse_body: BodyParser, url: str, *, may_hold_nul: bool
) -> NewItem:
    """Like `read_item`, for what `decode` gave. Without `may_hold_nul` nobody looks for U+0000."""
    custom_id: str | None = None
    try:
        if not isinstance(wire, dict):
            raise InvalidItem("invalid_type", "an item must be an object")
        if may_hold_nul:
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


def decode(raw: bytes) -> Json:
    """Strict JSON: no NaN, no lone surrogates, UTF-8 only, at most `MAX_DEPTH` deep."""
    too_deep = InvalidItem("too_deep", f"the JSON is nested deeper than {MAX_DEPTH} levels")
    try:
        decoded: Json = msgspec.json.decode(raw)
    except RecursionError:
        raise too_deep from None
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as e:
        raise InvalidItem("invalid_json", f"not valid JSON: {e}") from None
    # Brackets, some of them perhaps inside strings, bound the depth from above.
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH and _is_too_deep(decoded):
        raise too_deep
    return decoded


def _is_too_deep(decoded: Json) -> bool:
    level = [decoded]
    for _ in range(MAX_DEPTH):
        level = [child for value in level for child in _children(value)]
    return any(isinstance(value, dict | list) for value in level)


def _children(value: Json) -> Iterable[Json]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def may_hold_nul(raw: bytes) -> bool:
    """Whether strict JSON can hold U+0000, which Postgres cannot store. Spares most lines the search."""
    return b"\\u0000" in raw


def refuse_nul(value: Json) -> None:
    """Raises InvalidItem with the path of the first U+0000."""
    path = _path_of_nul(value)
    if path is not None:
        raise InvalidItem(
            "invalid_character", f"{path} contains U+0000, which cannot be stored", param=path
        )


def _path_of_nul(value: Json, path: str = "") -> str | None:
    if isinstance(value, str):
        return path if "\0" in value else None
    pairs = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, child in pairs:
        inner = f"{path}.{key}" if path else str(key)
        if "\0" in str(key):
            return path or "an object key"
        if (found := _path_of_nul(child, inner)) is not None:
            return found
    return None


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


def system_one_body(shared: Mapping[str, Json]) -> BodyParser:
    """Bodies with `state` and `questions`; questions and instructions default to the batch's own."""

    @lru_cache(maxsize=1)
    def shared_set() -> tuple[str, bytes]:
        return _question_set(shared.get("questions"), shared.get("instructions"))

    def parse(body: Mapping[str, Json]) -> Body:
        if "state" not in body:
            raise InvalidItem("missing_field", "state is required", param="state")
        if body.keys() & {"questions", "instructions"}:
            question_set, set_hash = _question_set(
                body.get("questions", shared.get("questions")),
                body.get("instructions", shared.get("instructions")),
            )
        else:
            question_set, set_hash = shared_set()
        state = json.dumps(body["state"], ensure_ascii=False)
        return Body(
            state=state,
            state_hash=content_hash(state),
            question_set=question_set,
            question_set_hash=set_hash,
        )

    return parse


def _question_set(questions: Json, instructions: Json) -> tuple[str, bytes]:
    if questions is None:
        raise InvalidItem(
            "missing_field", "questions: neither the item nor its batch has any", param="questions"
        )
    text = canonical(parse_question_set(questions, instructions))
    return text, content_hash(text)
