"""The synchronous route of vLLM and TypeSafe: `POST /v1/systemone`."""

from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr

from api.bodies import read_json, validated
from api.documentation import PROBLEMS, takes
from api.replies import system_one_reply
from api.synchronous import CallerDep, ask
from api.system_one_errors import SystemOneRoute
from decisions.answers import Confidence

router = APIRouter(tags=["decisions"], route_class=SystemOneRoute, responses=PROBLEMS)

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


@router.post(
    "/v1/systemone",
    response_class=JSONResponse,
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
