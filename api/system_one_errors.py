"""Errors of `/v1/systemone`, in one body for the clients of vLLM and of TypeSafe.

    {"error": {"message", "type", "param", "code": status},                  as vLLM
     "detail": [{"loc", "msg", "type"}] or {"error_type", "message"}, ...}   as TypeSafe, on 422 and else

An invalid call is a 400 as vLLM's, or a 422 as TypeSafe's by the setting `invalid_status`.
"""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from api.errors import WrongField
from api.problems import Problem, problem_of
from api.settings import Settings

#: vLLM's names of errors; a schema violation has the status' own words.
_VLLM: Mapping[int, str] = {
    400: "BadRequestError",
    404: "NotFoundError",
    422: "UnprocessableEntityError",
    500: "InternalServerError",
    501: "NotImplementedError",
}

_TYPESAFE: Mapping[int, str] = {
    401: "authentication_error",
    413: "max_tokens_exceeded",
    429: "rate_limit_error",
}


class SystemOneRoute(APIRoute):
    """A route whose errors have that body."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_in_style(request: Request) -> Response:
            try:
                return await handle(request)
            except Exception as error:
                problem = problem_of(error)
                if problem is None:
                    raise
                return response_of(problem, request.app.state.resources.settings)

        return handle_in_style


def response_of(problem: Problem, settings: Settings) -> JSONResponse:
    if problem.status in (400, 415, 422):
        problem = replace(problem, status=settings.invalid_status)
    body = {"error": _vllm(problem), "detail": _typesafe(problem)}
    return JSONResponse(body, problem.status, problem.all_headers)


def _vllm(problem: Problem) -> dict[str, Any]:
    # What is wrong with a question has no param at vLLM; a path does no harm.
    param = _path(problem.fields[0]) if problem.fields else problem.param
    schema = problem.fields or problem.code in ("malformed_body", "unsupported_media_type")
    phrase = HTTPStatus(problem.status).phrase
    return {
        "message": _message(problem),
        "type": phrase if schema else _VLLM.get(problem.status, phrase),
        "param": param,
        "code": problem.status,
    }


def _message(problem: Problem) -> str:
    if not problem.fields:
        return problem.detail
    count = len(problem.fields)
    shown = [f"  {_repr(field)}" for field in problem.fields[:10]]
    return "\n".join([f"{count} validation error{'s' if count > 1 else ''}:", *shown])


def _path(field: WrongField) -> str:
    return f"body.{field.param}" if field.param else "body"


def _repr(field: WrongField) -> str:
    """As vLLM shows pydantic's error: a Python dict, containers only by their size."""
    shown = field.input
    if isinstance(shown, dict | list):
        shown = f"<{type(shown).__name__} of {len(shown)} items>"
    elif isinstance(shown, str) and len(shown) > 100:
        shown = f"<str of {len(shown)} characters>"
    return repr({"type": field.type, "loc": _path(field), "msg": field.message, "input": shown})


def _typesafe(problem: Problem) -> Any:
    if problem.status != 422:
        kind = _TYPESAFE.get(
            problem.status, "api_usage_error" if problem.status < 500 else "api_error"
        )
        return {"error_type": kind, "message": problem.detail}
    if problem.fields:
        return [_detail(f.param, f.message, f.type) for f in problem.fields]
    return [_detail(problem.param or "", problem.detail, "value_error")]


def _detail(path: str, message: str, type_: str) -> dict[str, Any]:
    return {"loc": ["body", *path.split(".")] if path else ["body"], "msg": message, "type": type_}
