"""The fields of a System One body beside state and questions: what each may be, in vLLM's words."""

from collections.abc import Mapping

from decisions.errors import InvalidItem
from decisions.types import Json

MAX_CACHE_SALT = 128


def check_fields(body: Mapping[str, Json]) -> None:
    """Raises InvalidItem for what would change an answer and is not served."""
    media = [name for name in ("audio", "image", "video") if body.get(_FIELD_OF[name])]
    if media or body.get("assets"):
        kinds = ", ".join(media or ["image"])
        field = _FIELD_OF[media[0]] if media else "assets"
        raise _unserved(f"this model does not take {kinds} inputs", field)
    _check_joint(body.get("joint", False))
    _check_template(body.get("chat_template_kwargs"))
    _check_salt(body.get("cache_salt"))


_FIELD_OF = {"audio": "audio", "image": "images", "video": "videos"}


def _check_joint(joint: Json) -> None:
    if not isinstance(joint, bool):
        raise InvalidItem("invalid_type", "joint must be a boolean", param="joint")
    if joint:
        raise _unserved(
            "joint: this model reads each question on its own; joint reads need DiffusionGemma",
            "joint",
        )


def _check_template(kwargs: Json) -> None:
    if kwargs is None:
        return
    where = "chat_template_kwargs"
    if not isinstance(kwargs, dict):
        raise InvalidItem("invalid_type", f"{where} must be an object", param=where)
    if kwargs.get("enable_thinking"):
        raise _unserved("a read is the reply's first token, so thinking must be off", where)
    if unknown := sorted(set(kwargs) - {"enable_thinking"}):
        raise _unserved(f"{where}: only enable_thinking is known, not {unknown}", where)


def _check_salt(salt: Json) -> None:
    """It keeps callers' caches apart at vLLM. Ours can be shared: a hit never changes an answer."""
    if salt is None:
        return
    if (
        not isinstance(salt, str)
        or not 0 < len(salt) <= MAX_CACHE_SALT
        or any(character in salt for character in "@/\\\0")
    ):
        raise InvalidItem(
            "invalid_value",
            f"cache_salt must be 1 to {MAX_CACHE_SALT} characters without @, /, \\ and NUL",
            param="cache_salt",
        )


def _unserved(message: str, param: str) -> InvalidItem:
    return InvalidItem("unsupported", message, param=param)
