"""JSON of a type that we ask for, or an InvalidQuestion that names the field."""

from decisions.errors import InvalidQuestion
from decisions.types import Json


def a_list(wire: Json, where: str) -> list[Json]:
    if wire is None:
        raise InvalidQuestion(f"Missing required parameter: '{where}'.", param=where)
    if not isinstance(wire, list):
        raise InvalidQuestion(f"{where}: must be a list", param=where)
    return wire


def an_object(wire: Json, where: str) -> dict[str, Json]:
    if not isinstance(wire, dict):
        raise InvalidQuestion(f"{where}: must be an object", param=where)
    return wire


def a_string(wire: Json, where: str) -> str:
    if not isinstance(wire, str):
        raise InvalidQuestion(f"{where}: must be a string", param=where)
    return wire
