"""The route of a stream: items in and answers out on one connection, of any length, on the durable path."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from starlette.types import Receive, Scope, Send

from api.auth import TenantDep
from api.documentation import PROBLEMS
from api.errors import UnsupportedMediaType
from api.exchange import Exchange
from api.incoming import Incomings
from api.placing import Stream
from api.resources import Resources, ResourcesDep
from decisions.bodies import check_model
from decisions.ids import new_uuid
from decisions.questions import parse_question_set
from decisions.strict_json import decode, refuse_nul
from decisions.types import Json, Lane

router = APIRouter(prefix="/v1", tags=["events"], responses=PROBLEMS)

_LINES = {"schema": {"type": "string", "description": "JSON Lines"}}


class ExchangeResponse(Response):
    """Answers while it reads. Starlette's own streaming reads the rest of the body away."""

    media_type = "application/jsonl"

    def __init__(self, resources: Resources, stream: Stream, incomings: Incomings) -> None:
        super().__init__(headers={"Weighbridge-Stream": stream.id, "X-Accel-Buffering": "no"})
        # Its length is not known.
        del self.headers["content-length"]
        self._exchange = (resources, stream, incomings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        await Exchange(*self._exchange, send).run(Request(scope, receive))
        await send({"type": "http.response.body", "body": b"", "more_body": False})


@router.post(
    "/stream",
    response_class=Response,
    responses={200: {"content": {"application/jsonl": {}}}},
    openapi_extra={"requestBody": {"required": True, "content": {"application/jsonl": _LINES}}},
)
async def stream(
    request: Request,
    tenant: TenantDep,
    resources: ResourcesDep,
    questions: Annotated[str | None, Query(description="For all items; as JSON")] = None,
    instructions: Annotated[str | None, Query(description="For all items; as text")] = None,
    lane: Literal["bulk", "interactive"] = "bulk",
    model: Annotated[str | None, Query(max_length=256)] = None,
) -> Response:
    """Items as JSON Lines, `{"custom_id", "state", "questions"?, "instructions"?, "key"?}`.

    Read the answers while you write: no more than some items are in flight, and the rest waits in your
    socket. What is wrong with a line is its answer, and the others go on. What was accepted is decided
    whatever happens to the connection; sent again under the same `key` it is answered, not read again.
    """
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise UnsupportedMediaType("a stream cannot be compressed", param="Content-Encoding")
    names = await resources.served.names()
    check_model(model, names)
    settings = resources.settings
    shared = _shared(questions, instructions)
    if "questions" in shared:
        parse_question_set(shared["questions"], shared.get("instructions"), settings.rules)
    return ExchangeResponse(
        resources,
        Stream(
            id=f"stream_{new_uuid().hex}", tenant_id=tenant, lane=Lane(lane), model=model or None
        ),
        Incomings(shared, settings.rules, names, settings.max_line_bytes),
    )


def _shared(questions: str | None, instructions: str | None) -> dict[str, Json]:
    shared: dict[str, Json] = {}
    if questions is not None:
        shared["questions"] = decode(questions.encode())
    if instructions is not None:
        shared["instructions"] = instructions
    refuse_nul(shared)
    return shared
