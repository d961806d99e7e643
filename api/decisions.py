"""The route of one stored decision: what was asked, what the model was shown, and what it said."""

from datetime import datetime
from typing import Any, Literal

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from api.auth import TenantDep
from api.documentation import PROBLEMS
from api.resources import ResourcesDep
from decisions import audit, prompts
from decisions.answers import wire_answer
from decisions.database import async_transaction
from decisions.errors import NotFound
from decisions.ids import BATCH, DECISION, number_of, public
from decisions.questions import from_canonical
from decisions.strict_json import decode
from decisions.types import Json, Question, QuestionSet

router = APIRouter(prefix="/v1/decisions", tags=["decisions"], responses=PROBLEMS)


class OptionRead(BaseModel):
    """What the read said about one option."""

    name: str
    description: str | None
    #: The token that the option was read by, as text and as id.
    label: str
    label_id: int
    probability: float
    #: Over the full vocabulary; null when it is minus infinity.
    log_probability: float | None


class Prompt(BaseModel):
    """What the model was shown."""

    version: str
    #: SHA-256 over the token ids.
    hash: str
    tokens: int
    system: str | None
    #: Null once the state was purged.
    user: str | None


class Model(BaseModel):
    """Everything that the bits of an answer may depend on beside its prompt."""

    name: str
    revision: str
    dtype: str
    kv_format: str
    attention: str
    engine_version: str
    device: str
    settings: dict[str, Any]


class Timing(BaseModel):
    submitted_at: str
    decided_at: str
    queue_seconds: float
    #: Of the forward pass that this read shared with others.
    read_seconds: float


class Work(BaseModel):
    """Who read it, and what it cost."""

    worker: str
    attempt: int
    #: Of the state: computed for this read, and taken from the prefix store.
    prefilled_tokens: int
    cached_tokens: int


class QuestionAsked(BaseModel):
    id: str
    type: str
    instructions: str


class Decision(BaseModel):
    """A stored answer with its provenance."""

    id: str
    object: Literal["decision"] = "decision"
    batch_id: str
    custom_id: str
    line: int
    lane: str
    question: QuestionAsked
    #: In the System One shape.
    answer: dict[str, Any]
    options: list[OptionRead]
    label_mass: float
    argmax_token: int
    argmax_is_label: bool
    margin: float
    #: In nats.
    entropy: float
    confidence: float
    confidence_formula: str
    #: Null once it was purged; the hash stays.
    state: Any
    state_hash: str
    question_set_hash: str
    prompt: Prompt
    model: Model
    work: Work
    timing: Timing
    policy_version: int | None
    route: str | None


@router.get("/{decision_id}", response_model=Decision)
async def read_decision(
    decision_id: str, tenant: TenantDep, resources: ResourcesDep
) -> JSONResponse:
    """Everything that is known about one answer."""
    number = number_of(DECISION, decision_id)
    async with async_transaction(resources.database) as connection:
        row = (await connection.execute(audit.decision(tenant, number))).first()
    if row is None:
        raise NotFound(f"There is no {decision_id!r}.")
    return JSONResponse(decision_of(row).model_dump())


def decision_of(row: Any) -> Decision:
    """From a row of `decisions.audit.decision`."""
    question_set = from_canonical(row.question_set)
    question = next(q for q in question_set.questions if q.id == row.question_id)
    state = None if row.state is None else decode(row.state.encode())
    return Decision(
        id=public(DECISION, row.id),
        batch_id=public(BATCH, row.batch_id),
        custom_id=row.custom_id,
        line=row.line,
        lane=row.lane,
        question=QuestionAsked(
            id=question.id, type=question.type.value, instructions=question.instructions
        ),
        answer=wire_answer(
            question,
            top=row.answer_index,
            probabilities=row.probabilities,
            value=row.value,
            confidence=row.confidence,
        ),
        options=_options(row, question),
        label_mass=row.label_mass,
        argmax_token=row.argmax_token,
        argmax_is_label=row.argmax_is_label,
        margin=row.margin,
        entropy=row.entropy,
        confidence=row.confidence,
        confidence_formula=row.confidence_formula,
        state=state,
        state_hash=row.state_hash.hex(),
        question_set_hash=row.question_set_hash.hex(),
        prompt=_prompt(row, question_set, question, state),
        model=Model(
            name=row.model,
            revision=row.revision,
            dtype=row.dtype,
            kv_format=row.kv_format,
            attention=row.attention,
            engine_version=row.engine_version,
            device=row.device,
            settings=row.settings,
        ),
        work=Work(
            worker=row.worker_id.hex,
            attempt=row.attempt,
            prefilled_tokens=row.prefilled_tokens,
            cached_tokens=row.cached_tokens,
        ),
        timing=Timing(
            submitted_at=_iso(row.submitted_at),
            decided_at=_iso(row.created_at),
            queue_seconds=row.queue_seconds,
            read_seconds=row.read_seconds,
        ),
        policy_version=row.policy_version,
        route=row.route,
    )


def _options(row: Any, question: Question) -> list[OptionRead]:
    read = zip(row.label_ids, row.probabilities, row.log_probs, strict=True)
    shown = zip(question.options, prompts.labels(question), strict=True)
    return [
        OptionRead(
            name=option.name,
            description=option.description,
            label=label,
            label_id=label_id,
            probability=probability,
            log_probability=None if log_probability == float("-inf") else log_probability,
        )
        for (option, label), (label_id, probability, log_probability) in zip(
            shown, read, strict=True
        )
    ]


def _prompt(row: Any, question_set: QuestionSet, question: Question, state: Json) -> Prompt:
    block = prompts.question_block(question)
    return Prompt(
        version=row.prompt_version,
        hash=row.prompt_hash.hex(),
        tokens=row.prompt_tokens,
        system=question_set.instructions,
        user=None if row.state is None else prompts.state_text(state) + prompts.SEPARATOR + block,
    )


def _iso(time: datetime) -> str:
    return time.isoformat()
