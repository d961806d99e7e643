"""The synchronous route of OpenAI's Decisions: `POST /v1/decisions`."""

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, StrictStr

from api.batch import Batch
from api.bodies import read_json, validated
from api.documentation import problem, takes
from api.problems import MEDIA_TYPE, problem_of
from api.replies import openai_reply
from api.synchronous import CallerDep, ask

EXAMPLE: Any = {
    "model": "default",
    "input": "You charged me twice, and I want it back today!",
    "questions": [
        {"type": "predicate", "instructions": "The customer wants money back.", "name": "refund"},
        {
            "type": "choice",
            "instructions": "Which team should handle this?",
            "choices": [{"value": "billing", "description": "payments"}, {"value": "shipping"}],
        },
        {
            "type": "score",
            "instructions": "How angry is the customer?",
            "levels": [{"label": "calm"}, {"label": "annoyed"}, {"label": "furious"}],
        },
    ],
}


class OpenAIRoute(APIRoute):
    """OpenAI answers an invalid request with a 400, whatever is wrong with it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_in_style(request: Request) -> Response:
            try:
                return await handle(request)
            except Exception as error:
                problem = problem_of(error)
                if problem is None or problem.status not in (415, 422):
                    raise
                return replace(problem, status=400).response()

        return handle_in_style


ERRORS = problem("ProblemBody", MEDIA_TYPE, 400, 401, 404, 409, 413, 422, 429, 500, 503, 504)

router = APIRouter(tags=["decisions"], route_class=OpenAIRoute, responses=ERRORS)


class DecisionsRequest(BaseModel):
    """Questions about an input, as OpenAI's SDK sends them. `input` and `questions` are checked by hand."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"examples": [EXAMPLE]})

    model: StrictStr
    input: str | list[Any]
    questions: list[Any]
    prompt_cache_key: StrictStr | None = None
    prompt_cache_options: dict[str, Any] | None = None
    safety_identifier: StrictStr | None = None


class DecisionsReply(BaseModel):
    """As OpenAI replies; `decisions` and `diagnostics` are ours, in the order of the questions."""

    model: str
    answers: list[dict[str, Any]]
    usage: dict[str, Any]
    decisions: list[str]
    diagnostics: list[dict[str, Any]]


@router.post(
    "/v1/decisions",
    response_model=DecisionsReply,
    responses={202: {"model": Batch, "description": "Accepted; the answer is not there yet"}},
    openapi_extra=takes(DecisionsRequest),
)
async def decide(request: Request, caller: CallerDep) -> Response:
    """Answers in the order of the questions, each auditable by its id in `decisions`."""
    settings = caller.resources.settings
    body = await read_json(request, settings.max_body_bytes)
    validated(DecisionsRequest, body)
    assert isinstance(body, dict)  # noqa: S101 - it is valid
    answered = await ask(caller, "/v1/decisions", body)
    if isinstance(answered, Response):
        return answered
    reply = openai_reply(answered.reads, formula=settings.confidence)
    return JSONResponse(reply, headers=dict(answered.headers))
