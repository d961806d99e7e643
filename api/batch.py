"""The batch resource as clients see it: OpenAI's batch object, and more beside it."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel

from api.output_names import error_name, output_name
from decisions.ids import BATCH, FILE, public
from decisions.types import TERMINAL


class LineError(BaseModel):
    """Why an item has no answers."""

    #: Stable, for programs.
    code: str
    message: str
    #: The field at fault.
    param: str | None
    #: The line of the input file, or the position in `requests`, from 1.
    line: int | None


class LineErrors(BaseModel):
    object: Literal["list"] = "list"
    data: list[LineError]


class RequestCounts(BaseModel):
    """OpenAI's counts: what was neither completed nor failed is open, cancelled or expired."""

    total: int
    completed: int
    #: Items that can never be answered, those whose workers died too often among them.
    failed: int


class Counts(BaseModel):
    """Items by status; they add up to the total."""

    queued: int
    leased: int
    done: int
    failed: int
    dead: int
    cancelled: int
    expired: int


class Usage(BaseModel):
    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: dict[str, int]
    output_tokens_details: dict[str, int]


class WebhookTarget(BaseModel):
    url: str


class NewWebhookTarget(WebhookTarget):
    #: Made for this batch, since the client gave none. Shown in the answer to the submission alone.
    secret: str


class Batch(BaseModel):
    """Times are Unix seconds."""

    id: str
    object: Literal["batch"] = "batch"
    endpoint: str
    model: str | None
    lane: str
    status: str
    #: The first hundred items that could not be accepted; all of them are in the results.
    errors: LineErrors | None
    input_file_id: str | None
    output_file_id: str | None
    error_file_id: str | None
    completion_window: str
    created_at: int
    in_progress_at: int
    expires_at: int
    finalizing_at: int | None
    completed_at: int | None
    failed_at: int | None
    expired_at: int | None
    cancelling_at: int | None
    cancelled_at: int | None
    request_counts: RequestCounts
    counts: Counts
    usage: Usage
    metadata: dict[str, str] | None
    webhook: NewWebhookTarget | WebhookTarget | None
    #: Where the results are, readable from the start.
    results_url: str


class BatchList(BaseModel):
    """Newest first. The next page is after `last_id`."""

    object: Literal["list"] = "list"
    data: list[Batch]
    first_id: str | None
    last_id: str | None
    has_more: bool


def batch_of(row: Any, *, show_secret: bool = False) -> Batch:
    """From a row of `decisions.batches.get` or `page`."""
    id_ = public(BATCH, row.id)
    ended = row.status in TERMINAL
    open_ = row.total - (row.done + row.failed + row.dead + row.cancelled + row.expired)
    return Batch(
        id=id_,
        endpoint=row.endpoint,
        model=row.model,
        lane=row.lane,
        status=row.status,
        errors=LineErrors(data=row.errors) if row.errors else None,
        input_file_id=public(FILE, row.input_file_id) if row.input_file_id else None,
        output_file_id=output_name(row.id) if ended and row.done else None,
        error_file_id=error_name(row.id) if ended and row.done < row.total else None,
        completion_window=row.completion_window,
        created_at=int(row.created_at.timestamp()),
        in_progress_at=int(row.created_at.timestamp()),
        expires_at=int(row.expires_at.timestamp()),
        finalizing_at=None,
        completed_at=_unix(row.completed_at),
        failed_at=_unix(row.failed_at),
        expired_at=_unix(row.expired_at),
        cancelling_at=_unix(row.cancelling_at),
        cancelled_at=_unix(row.cancelled_at),
        request_counts=RequestCounts(
            total=row.total, completed=row.done, failed=row.failed + row.dead
        ),
        counts=Counts(
            queued=open_ - row.leased,
            leased=row.leased,
            done=row.done,
            failed=row.failed,
            dead=row.dead,
            cancelled=row.cancelled,
            expired=row.expired,
        ),
        usage=_usage(row.input_tokens, row.output_tokens),
        metadata=row.metadata,
        webhook=_target(row.webhook, show_secret) if row.webhook else None,
        results_url=f"/v1/batches/{id_}/results",
    )


def _target(webhook: dict[str, str], show_secret: bool) -> WebhookTarget:
    if show_secret:
        return NewWebhookTarget(url=webhook["url"], secret=webhook["secret"])
    return WebhookTarget(url=webhook["url"])


def _unix(time: datetime | None) -> int | None:
    return None if time is None else int(time.timestamp())


def _usage(input_tokens: int, output_tokens: int) -> Usage:
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        total_tokens=input_tokens + output_tokens,
        input_tokens_details={"cached_tokens": 0},
        output_tokens_details={"reasoning_tokens": 0},
    )
