"""What can be wrong with a call, as exceptions whose docstring is the message; `api.problems` answers them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Self

#: Wrong fields that an error names at most.
SHOWN = 100


class ApiError(Exception):
    """The call cannot be served."""

    def __init__(self, message: str | None = None, *, param: str | None = None) -> None:
        super().__init__(message or self.__doc__)
        #: The field, parameter or header at fault; None when no single one is.
        self.param = param


class Unauthorized(ApiError):
    """Send an API key in force as `Authorization: Bearer wb_...`."""


class MalformedBody(ApiError):
    """The body cannot be read."""


class BodyTooLarge(ApiError):
    """The body is too large."""


class UnsupportedMediaType(ApiError):
    """The body's media type or encoding is not one that this route reads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WrongField:
    """A field that is not what it must be."""

    #: A path such as `requests.3.state`; empty for the body as a whole.
    param: str
    message: str
    #: Pydantic's name of the fault, and what stood there.
    type: str
    input: Any

    @classmethod
    def of(cls, error: Mapping[str, Any], path: Sequence[int | str]) -> Self:
        """From one of a ValidationError's errors."""
        param = ".".join(str(part) for part in path)
        return cls(param=param, message=error["msg"], type=error["type"], input=error["input"])


class InvalidRequest(ApiError):
    """A field has a value that it must not have."""

    fields: tuple[WrongField, ...] = ()

    @classmethod
    def of(cls, wrong: Iterable[WrongField]) -> Self:
        """At least one field, the first of which gives the message."""
        fields = tuple(islice(wrong, SHOWN))
        first = fields[0]
        message = f"{first.param}: {first.message}" if first.param else first.message
        error = cls(message, param=first.param or None)
        error.fields = fields
        return error


class NotAnswered(ApiError):
    """The question was accepted, and its item ended without an answer."""

    def __init__(self, status: int, code: str, message: str, *, param: str | None) -> None:
        super().__init__(message, param=param)
        self.status = status
        self.code = code


class StillWaiting(ApiError):
    """The answer is not there yet. Nothing is lost: it will be under the address in Location."""

    def __init__(self, location: str) -> None:
        super().__init__(f"The answer is not there yet. It will be at {location}")
        # OpenAI's SDK asks again on a 504 unless it is told that this makes a second decision.
        self.headers = {"Location": location, "x-should-retry": "false"}
