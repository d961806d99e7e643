"""From exceptions to error responses, by one table.

One body serves three kinds of clients: RFC 9457's fields for those that read problem details, and
OpenAI's `error` object beside them for its SDK and those that follow it:

    {"type", "title", "status", "detail", "errors"?, "error": {"message", "type", "param", "code"}}

The rule for statuses: a body that cannot be read at all is a 400, a readable one with a wrong field is
a 422 that names the field. Nothing of an unexpected error is shown.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException

from api.admission import QueueFull
from api.errors import (
    BodyTooLarge,
    InvalidRequest,
    MalformedBody,
    NotAnswered,
    StillWaiting,
    Unauthorized,
    UnsupportedMediaType,
    WrongField,
)
from decisions.errors import (
    IdempotencyConflict,
    InvalidBatch,
    InvalidItem,
    InvalidQuestion,
    InvalidSchedule,
    InvalidTruth,
    InvalidWebhook,
    NotFound,
    UnknownModel,
)
from decisions.items import shortened

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"

#: Exception type -> status and stable code; subclasses that are not listed take their base's.
TABLE: Mapping[type[Exception], tuple[int, str]] = {
    MalformedBody: (400, "malformed_body"),
    Unauthorized: (401, "invalid_api_key"),
    NotFound: (404, "not_found"),
    UnknownModel: (404, "model_not_found"),
    BodyTooLarge: (413, "body_too_large"),
    UnsupportedMediaType: (415, "unsupported_media_type"),
    InvalidRequest: (422, "invalid_request"),
    InvalidBatch: (422, "invalid_batch"),
    InvalidQuestion: (422, "invalid_question"),
    InvalidSchedule: (422, "invalid_schedule"),
    InvalidTruth: (422, "invalid_truth"),
    InvalidItem: (422, "invalid_item"),
    InvalidWebhook: (422, "invalid_webhook"),
    IdempotencyConflict: (422, "idempotency_key_reused"),
    QueueFull: (429, "queue_full"),
    NotAnswered: (500, "not_answered"),
    StillWaiting: (504, "still_waiting"),
    OperationalError: (503, "database_unavailable"),
    InterfaceError: (503, "database_unavailable"),
    PoolTimeout: (503, "database_unavailable"),
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
    #: Every field at fault, when there may be several.
    fields: Sequence[WrongField] = ()
    headers: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        kind = "server_error" if self.status >= 500 else _OPENAI_TYPES.get(self.status)
        body: dict[str, Any] = {
            "type": f"urn:weighbridge:problem:{self.code}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "errors": [{"param": f.param, "detail": f.message} for f in self.fields],
            "error": {
                "message": self.detail,
                "type": kind or "invalid_request_error",
                "param": self.param,
                "code": self.code,
            },
        }
        return body if self.fields else {k: v for k, v in body.items() if k != "errors"}

    def response(self) -> JSONResponse:
        return JSONResponse(self.as_json(), self.status, self.all_headers, media_type=MEDIA_TYPE)

    @property
    def all_headers(self) -> dict[str, str]:
        challenge = {"WWW-Authenticate": 'Bearer realm="weighbridge"'} if self.status == 401 else {}
        return {**challenge, **self.headers}


_OPENAI_TYPES = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


def install(app: FastAPI) -> None:
    for type_ in (*TABLE, RequestValidationError):
        app.add_exception_handler(type_, _known)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)


def problem_of(error: Exception) -> Problem | None:
    """None for what nobody expected."""
    if isinstance(error, RequestValidationError):
        # The location starts with where the parameter is: query, path or header.
        error = InvalidRequest.of(WrongField.of(e, e["loc"][1:]) for e in error.errors())
    if isinstance(error, HTTPException):
        status = HTTPStatus(error.status_code)
        return Problem(status=status, code=status.name.lower(), detail=error.detail)
    listed = next((t for t in type(error).__mro__ if t in TABLE), None)
    if listed is None:
        return None
    status_code, code = TABLE[listed]
    if status_code == 503:
        detail = "The database cannot be reached."
        return Problem(status=status_code, code=code, detail=detail, headers={"Retry-After": "1"})
    return Problem(
        status=getattr(error, "status", status_code),
        code=getattr(error, "code", code),
        detail=shortened(str(error)),
        param=getattr(error, "param", None),
        fields=getattr(error, "fields", ()),
        headers=getattr(error, "headers", {}),
    )


def _known(_: Request, error: Exception) -> JSONResponse:
    problem = problem_of(error)
    assert problem is not None  # noqa: S101 - only what is listed is installed
    if problem.status == 503:
        logger.warning(
            "The database does not serve us: %s",
            type(error).__name__,
            extra={"action": "database_away"},
        )
    return problem.response()


def _http(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - as installed
    problem = problem_of(error)
    assert problem is not None  # noqa: S101 - it is a known type
    response = problem.response()
    response.headers.update(error.headers or {})
    return response


def _unexpected(_: Request, error: Exception) -> JSONResponse:
    # Starlette raises it again after this, and the server logs it with its traceback.
    return Problem(
        status=500, code="internal_error", detail="Something went wrong on our side."
    ).response()
