"""The vocabulary of the domain: frozen values, standard library only.

Nothing here knows HTTP, SQL, Celery or torch. Every other module of the project speaks in these words.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import TypeAlias
from uuid import UUID

#: Any JSON value as `msgspec.json.decode` returns it.
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


class Lane(StrEnum):
    """How urgent an item is. A worker always takes the most urgent lane that has items."""

    #: Somebody waits for the answer.
    INTERACTIVE = "interactive"
    #: A job whose results are wanted soon.
    BULK = "bulk"
    #: Work for idle hours, such as rescoring.
    NIGHTLY = "nightly"


class ItemStatus(StrEnum):
    """Where an item stands. All but QUEUED and LEASED are final."""

    #: Waits for a worker.
    QUEUED = "queued"
    #: A worker holds it until its lease runs out.
    LEASED = "leased"
    #: Every question has its decision.
    DONE = "done"
    #: It can never be answered; `error` says why.
    FAILED = "failed"
    #: Its workers died too often while they held it.
    DEAD = "dead"
    #: Its batch was cancelled before it was read.
    CANCELLED = "cancelled"
    #: Its batch's completion window ended before it was read.
    EXPIRED = "expired"


class BatchStatus(StrEnum):
    """OpenAI's batch states. An ingest is one transaction, so `validating` and `finalizing` never show."""

    IN_PROGRESS = "in_progress"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


TERMINAL = (
    BatchStatus.COMPLETED,
    BatchStatus.FAILED,
    BatchStatus.EXPIRED,
    BatchStatus.CANCELLED,
)


class DeliveryStatus(StrEnum):
    """Where the delivery of an event to an endpoint stands."""

    #: For its first or its next attempt.
    WAITING = "waiting"
    #: A sender holds it until its lease runs out.
    SENDING = "sending"
    #: The endpoint took it.
    DELIVERED = "delivered"
    #: Given up, until somebody asks to send it again.
    FAILED = "failed"


class RunStatus(StrEnum):
    """Where one run of a schedule stands. DUE and RUNNING are not final."""

    #: Its time has come, its batch is still to be made.
    DUE = "due"
    #: Its batch is being read.
    RUNNING = "running"
    #: Its batch is final and its report is there.
    COMPARED = "compared"
    #: Nothing matched its source, so there is no batch.
    EMPTY = "empty"
    #: It could not be made; `error` says why.
    FAILED = "failed"


class Verdict(StrEnum):
    """What a run's report says of the change that it tried."""

    PROMOTE = "promote"
    HOLD = "hold"


class QuestionType(StrEnum):
    """How a question is answered, in the words of the System One wire format."""

    #: One of several options.
    CHOICE = "choice"
    #: Yes or no.
    NOUL = "noul"
    #: A level on an ordered scale.
    SCORE = "score"


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """One possible answer: a choice's option, a side of a yes/no, or a level of a score."""

    #: What the answer is called in results.
    name: str
    #: What the model is told about it.
    description: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A typed question about a state."""

    #: The client's name for it; the model never sees it.
    id: str
    type: QuestionType
    #: What is asked; may be empty.
    instructions: str
    #: In the order of their labels. A yes/no has `yes`, `no`, or `false`, `true` when it is lettered; a
    #: score has its levels.
    options: tuple[Option, ...]
    #: Every option is read by a letter, as vLLM does on OpenAI's `/v1/decisions`.
    lettered: bool = False
    #: What an OpenAI client calls it; the id of such a question is its position.
    name: str | None = None

    @property
    def yes(self) -> int:
        """Which option of a yes/no is yes."""
        return 1 if self.lettered else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionSet:
    """Questions that are asked together, with the system instructions they share."""

    #: Becomes the system message; None leaves it out.
    instructions: str | None
    questions: tuple[Question, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Submission:
    """What a client wants done with its items."""

    tenant_id: int
    lane: Lane = Lane.BULK
    #: Within the lane; lower goes first.
    priority: int = 0
    #: The route whose bodies the items have.
    endpoint: str = "/v1/systemone"
    #: As the client wrote it.
    model: str | None = None
    #: The model that must read the items; empty for whatever is served.
    reader: str = ""
    input_file_id: UUID | None = None
    #: As the client wrote it, and as time.
    completion_window: str = "24h"
    expires_in: timedelta = timedelta(hours=24)
    metadata: dict[str, str] | None = None
    webhook: dict[str, Json] | None = None
    idempotency_key: str | None = None
    #: SHA-256 of the request, when it has a key.
    request_hash: bytes = b""
    #: Keys of single items, and the SHA-256 of what each asks.
    item_keys: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """An item that a worker holds: the right to finish it, until the lease ends."""

    id: int
    #: Only a result that carries the item's newest fence is stored.
    fence: int
    #: How often the item was claimed, this time included.
    attempt: int
    tenant_id: int
    state_hash: bytes
    question_set_hash: bytes
    #: Seconds between the item's submission and this claim.
    queue_seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemError:
    """Why an item has no answers, in words for the person who sent it."""

    #: Stable, for programs: `context_length_exceeded`, `duplicate_custom_id`, ...
    code: str
    message: str
    #: The field at fault, as a path such as `state` or `questions.team.criteria`.
    param: str | None = None
    #: The line of the input file, or the position in `requests`, counted from 1.
    line: int | None = None

    def as_json(self) -> Mapping[str, str | int | None]:
        return {
            "code": self.code,
            "message": self.message,
            "param": self.param,
            "line": self.line,
        }
