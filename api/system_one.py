"""The synchronous route of vLLM and TypeSafe: `POST /v1/systemone`."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr

from api.batch import Batch
from api.bodies import read_json, validated
from api.documentation import problem, takes
from api.replies import system_one_reply
from api.synchronous import CallerDep, ask
from api.system_one_errors import SystemOneRoute
from decisions.answers import Confidence

ERRORS = problem(
    "SystemOneErrorBody", "application/json", 400, 401, 404, 409, 413, 422, 429, 500, 503, 504
)

router = APIRouter(tags=["decisions"], route_class=SystemOneRoute, responses=ERRORS)

EXAMPLE: Any = {
    "state": {"subject": "Refund", "text": "You charged me twice, and I want it back today!"},
    "questions": {
        "team": {
            "type": "choice",
            "instructions": "Which team should handle this ticket?",
            "criteria": {"billing": "payments and refunds", "shipping": "deliveries"},
        },
        "urgent": {"type": "noul", "instructions": "Is this urgent?"},
        "tone": {"type": "score", "criteria": ["calm", "annoyed", "furious"]},
    },
}


class SystemOneRequest(BaseModel):
    """Typed questions about one state. Unknown fields are ignored, as TypeSafe ignores them."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    #: A served model or an alias; none takes what is served.
    model: StrictStr | None = None
    #: Any JSON: a string is shown to the model as it is, anything else as JSON.
    state: Any
    #: Question id to `{"type": "choice" | "noul" | "score", "instructions"?, "criteria"?}`.
    questions: dict[str, Any]
    #: Becomes the system message.
    instructions: StrictStr | None = None
    images: list[StrictStr] | None = None
    audio: list[StrictStr] | None = None
    videos: list[StrictStr] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    joint: StrictBool = False
    cache_salt: StrictStr | None = None
    #: Within the interactive lane, lower goes first.
    priority: Annotated[int, Field(strict=True, ge=-(1 << 63), lt=1 << 63)] = 0
    #: Becomes a part of the reply's id, unless X-Request-Id is sent.
    request_id: Annotated[StrictStr, Field(max_length=200)] | None = None
    #: Which formula the reply's confidence follows; the server's own without.
    confidence: Confidence | None = None


class Diagnostics(BaseModel):
    #: Probability of all labels over the full vocabulary.
    label_mass: float
    #: Whether the likeliest token of all is a label.
    argmax_is_label: bool


class SystemOneUsage(BaseModel):
    input_tokens: int
    output_tokens: int


class SystemOneReply(BaseModel):
    """As vLLM replies; `decisions` is ours."""

    id: str
    object: Literal["structured_decision"]
    created: int
    model: str
    answers: dict[str, dict[str, Any]]
    diagnostics: dict[str, Diagnostics]
    #: Question id to the id of the stored decision.
    decisions: dict[str, str]
    usage: SystemOneUsage
    joint: None


@router.post(
    "/v1/systemone",
    response_model=SystemOneReply,
    responses={202: {"model": Batch, "description": "Accepted; the answer is not there yet"}},
    openapi_extra=takes(SystemOneRequest),
)
async def system_one(request: Request, caller: CallerDep) -> Response:
    """Wait for the answers, as long as `Prefer: wait` says. Every answer is auditable by its id."""
    settings = caller.resources.settings
    body = await read_json(request, settings.max_body_bytes)
    call = validated(SystemOneRequest, body)
    assert isinstance(body, dict)  # noqa: S101 - it is valid
    answered = await ask(caller, "/v1/systemone", body, priority=call.priority)
    if isinstance(answered, Response):
        return answered
    id_ = f"decision-{_request_id(request, call) or answered.batch_id.hex}"
    formula = call.confidence or settings.confidence
    reply = system_one_reply(answered.row, answered.reads, id_=id_, formula=formula)
    return JSONResponse(reply, headers={**answered.headers, "x-typesafe-request-id": id_})


def _request_id(request: Request, call: SystemOneRequest) -> str | None:
    return request.headers.get("x-request-id") or call.request_id
