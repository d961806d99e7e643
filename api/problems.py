"""From exceptions to error responses, by one table.

One body serves three kinds of clients: RFC 9457's fields for those that read problem details, and
OpenAI's `error` object beside them for its SDK and those that follow it:

    {"type", "title", "status", "detail", "errors"?, "error": {"message", "type", "param", "code"}}

The rule for statuses: a body that cannot be read at all is a 400, a readable one with a wrong field is
a 422 that names the field. Nothing of an unexpected error is shown.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException

from api.errors import (
    ApiError,
    BodyTooLarge,
    InvalidRequest,
    MalformedBody,
    Unauthorized,
    UnsupportedMediaType,
)
from decisions.errors import (
    DecisionError,
    IdempotencyConflict,
    InvalidBatch,
    InvalidItem,
    InvalidQuestion,
    NotFound,
)
from decisions.items import shortened

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"

#: Exception type -> status and stable code; subclasses that are not listed take their base's.
TABLE: Mapping[type[Exception], tuple[int, str]] = {
    MalformedBody: (400, "malformed_body"),
    Unauthorized: (401, "invalid_api_key"),
    NotFound: (404, "not_found"),
    BodyTooLarge: (413, "body_too_large"),
    UnsupportedMediaType: (415, "unsupported_media_type"),
    InvalidRequest: (422, "invalid_request"),
    InvalidBatch: (422, "invalid_batch"),
    InvalidQuestion: (422, "invalid_question"),
    InvalidItem: (422, "invalid_item"),
    IdempotencyConflict: (422, "idempotency_key_reused"),
    OperationalError: (503, "database_unavailable"),
    InterfaceError: (503, "database_unavailable"),
    PoolTimeout: (503, "database_unavailable"),
}

#: What some statuses must or should carry.
_HEADERS: Mapping[int, Mapping[str, str]] = {
    401: {"WWW-Authenticate": 'Bearer realm="weighbridge"'},
    503: {"Retry-After": "1"},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """An error as a client sees it."""

    status: int
    #: Stable, for programs.
    code: str
    #: For people.
    detail: str
    #: The field at fault, as a path.
    param: str | None = None
    #: Every field at fault, when there may be several: `{"param", "detail"}` each.
    errors: tuple[Mapping[str, str], ...] = ()

    def as_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "type": f"urn:weighbridge:problem:{self.code}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
        if self.errors:
            body["errors"] = list(self.errors)
        kind = "server_error" if self.status >= 500 else _OPENAI_TYPES.get(self.status)
        body["error"] = {
            "message": self.detail,
            "type": kind or "invalid_request_error",
            "param": self.param,
            "code": self.code,
        }
        return body

    def response(self, headers: Mapping[str, str] | None = None) -> JSONResponse:
        return JSONResponse(
            self.as_json(),
            status_code=self.status,
            headers={**_HEADERS.get(self.status, {}), **(headers or {})},
            media_type=MEDIA_TYPE,
        )


_OPENAI_TYPES = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


def install(app: FastAPI) -> None:
    for type_ in (*TABLE, ApiError, DecisionError):
        app.add_exception_handler(type_, _known)
    app.add_exception_handler(RequestValidationError, _invalid_parameters)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)


def _known(_: Request, error: Exception) -> JSONResponse:
    status, code = next((TABLE[t] for t in type(error).__mro__ if t in TABLE), (422, "invalid"))
    if status >= 500:
        logger.warning(
            "The database does not serve us: %s",
            type(error).__name__,
            extra={"action": "database_away"},
        )
        return Problem(
            status=status, code=code, detail="The database cannot be reached."
        ).response()
    return Problem(
        status=status,
        code=getattr(error, "code", code),
        detail=shortened(str(error)),
        param=getattr(error, "param", None),
        errors=getattr(error, "errors", ()),
    ).response()


def _invalid_parameters(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - as installed
    # The location starts with where the parameter is: query, path or header.
    return _known(request, InvalidRequest.of((e["loc"][1:], e["msg"]) for e in error.errors()))


def _http(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - as installed
    status = HTTPStatus(error.status_code)
    code = status.name.lower()
    return Problem(status=status, code=code, detail=error.detail).response(error.headers)


def _unexpected(_: Request, error: Exception) -> JSONResponse:
    # Starlette raises it again after this, and the server logs it with its traceback.
    return Problem(
        status=500, code="internal_error", detail="Something went wrong on our side."
    ).response()
