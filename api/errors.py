"""What can be wrong with a call before the domain sees it, as exceptions whose docstring is the message."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Self

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
    """The body's media type is not one that this route reads."""


class InvalidRequest(ApiError):
    """A field has a value that it must not have."""

    #: `{"param", "detail"}` of each field at fault.
    errors: tuple[Mapping[str, str], ...] = ()

    @classmethod
    def of(cls, wrong: Iterable[tuple[Sequence[int | str], str]]) -> Self:
        """From the path and the complaint of at least one field, the first of which gives the message."""
        named = [(".".join(str(part) for part in path), why) for path, why in islice(wrong, SHOWN)]
        path, why = named[0]
        error = cls(f"{path}: {why}" if path else why, param=path or None)
        error.errors = tuple({"param": path, "detail": why} for path, why in named)
        return error
