"""What FastAPI cannot see of routes that read their bodies by hand, for the OpenAPI document."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from api.problems import MEDIA_TYPE


class ErrorBody(BaseModel):
    """The error as OpenAI's clients read it."""

    message: str
    type: str
    param: str | None
    code: str


class WrongField(BaseModel):
    #: A path such as `requests.3.state`.
    param: str
    detail: str


class ProblemBody(BaseModel):
    """An error: RFC 9457's fields, and OpenAI's error object."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[WrongField] = []
    error: ErrorBody


class StatusError(BaseModel):
    """The error as vLLM's clients read it."""

    message: str
    type: str
    param: str | None
    code: int


class SystemOneErrorBody(BaseModel):
    """An error of `/v1/systemone`: vLLM's `error`, and TypeSafe's `detail`."""

    error: StatusError
    #: A list of `{"loc", "msg", "type"}` on 422, else `{"error_type", "message"}`.
    detail: list[dict[str, Any]] | dict[str, Any]


_DESCRIPTIONS = {
    400: "The body cannot be read",
    401: "No API key in force",
    404: "There is no such thing, or it is another tenant's",
    413: "The body is too large",
    415: "The body has another media type",
    422: "A field or parameter is wrong; `param` and `errors` name it",
    409: "The item was cancelled, or its state was purged, before it was read",
    500: "The item could not be read",
    429: "The queue is full; Retry-After says when to ask again",
    503: "The database cannot be reached; try again",
    504: "The answer is not there yet; Location says where it will be",
}


def problem(schema: str, media_type: str, *statuses: int) -> dict[int | str, dict[str, Any]]:
    """For a route's `responses`: those statuses with that body."""
    content = {media_type: {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {s: {"description": _DESCRIPTIONS[s], "content": content} for s in statuses}


#: For a router's `responses`.
PROBLEMS = problem("ProblemBody", MEDIA_TYPE, 400, 401, 404, 413, 415, 422, 429, 503)


def takes(model: type[BaseModel], *, file: bool = False) -> dict[str, Any]:
    """For a route's `openapi_extra`: a JSON body, or a form with a file."""
    schema: dict[str, Any] = {"$ref": f"#/components/schemas/{model.__name__}"}
    if not file:
        return {
            "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}
        }
    fields = model.model_json_schema()
    fields["properties"]["file"] = {"type": "string", "format": "binary"}
    fields["required"].append("file")
    return {
        "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": fields}}}
    }


def document(app: FastAPI, bodies: tuple[type[BaseModel], ...]) -> None:
    """Make `app.openapi` include the models that `takes` and `PROBLEMS` point at."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app, bodies)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _document(app: FastAPI, bodies: tuple[type[BaseModel], ...]) -> dict[str, Any]:
    document = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        tags=app.openapi_tags,
    )
    models: list[type[BaseModel]] = [*bodies, ProblemBody, SystemOneErrorBody]
    _, schemas = models_json_schema(
        [(model, "validation") for model in models],
        ref_template="#/components/schemas/{model}",
    )
    document["components"]["schemas"].update(schemas["$defs"])
    return document
