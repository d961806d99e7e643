"""JSON that can be stored and served again, from bytes."""

from collections.abc import Iterable

import msgspec

from decisions.errors import InvalidItem
from decisions.types import Json

#: Objects and arrays inside each other; far beyond what people send, far below what Python can follow.
MAX_DEPTH = 256


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
        message = f"{path or 'an object key'} contains U+0000, which cannot be stored"
        raise InvalidItem("invalid_character", message, param=path or None)


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
            return path
        if (found := _path_of_nul(child, inner)) is not None:
            return found
    return None
