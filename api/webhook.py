"""Webhooks as clients see them: endpoints, deliveries, attempts. Times are Unix seconds."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from decisions.ids import BATCH, DECISION, DELIVERY, EVENT, WEBHOOK, public
from decisions.webhooks import BATCH_EVENTS

WEEK = 7 * 24 * 3600


class NewWebhook(BaseModel):
    """An endpoint to be."""

    model_config = ConfigDict(extra="forbid", strict=True)

    #: https, unless this server may call private addresses.
    url: str
    #: Types of events. `decision.completed` comes only to those who choose it.
    events: Annotated[list[str], Field(min_length=1, max_length=16)] = [
        str(e) for e in BATCH_EVENTS
    ]
    #: `whsec_` and the base64 of 24 to 64 bytes. One is made when there is none.
    secret: str | None = None


class Rotation(BaseModel):
    """How a secret gives way to the next."""

    model_config = ConfigDict(extra="forbid", strict=True)

    #: For so long the old one signs too, beside the new one. 0 ends it at once.
    overlap_seconds: Annotated[int, Field(ge=0, le=WEEK)] = 24 * 3600
    #: The next secret. One is made when there is none.
    secret: str | None = None


class Webhook(BaseModel):
    """An endpoint that a tenant keeps."""

    id: str
    object: Literal["webhook"] = "webhook"
    url: str
    events: list[str]
    status: Literal["enabled", "disabled"]
    #: `asked`; `gone`: it answered 410; `failing`: it only failed, for five days.
    disabled_reason: str | None
    created_at: int
    disabled_at: int | None
    #: When it began to fail, if its last attempt did.
    failing_since: int | None
    #: Until then the secret before this one signs too.
    previous_secret_until: int | None


class WebhookWithSecret(Webhook):
    #: Shown in this answer alone.
    secret: str


class WebhookList(BaseModel):
    object: Literal["list"] = "list"
    data: list[Webhook]


class DeletedWebhook(BaseModel):
    id: str
    object: Literal["webhook"] = "webhook"
    deleted: Literal[True] = True


class Attempt(BaseModel):
    started_at: int
    #: Null while it runs, and for ever when its sender died.
    finished_at: int | None
    #: Null when there was no answer.
    status_code: int | None
    milliseconds: int | None
    #: The beginning of the answer's body.
    response_body: str | None
    #: Why there was no answer.
    error: str | None


class Delivery(BaseModel):
    """An event, on its way to one endpoint."""

    id: str
    object: Literal["webhook.delivery"] = "webhook.delivery"
    #: The event's id, which every attempt carries as `webhook-id`.
    event_id: str
    type: str
    #: Null for the endpoint that a batch brought itself.
    webhook_id: str | None
    url: str
    batch_id: str | None
    decision_id: str | None
    #: waiting, sending, delivered or failed.
    status: str
    created_at: int
    #: When the next attempt is due.
    due_at: int | None
    finished_at: int | None
    #: The oldest first.
    attempts: list[Attempt]


class DeliveryList(BaseModel):
    """Newest first. The next page is after `last_id`."""

    object: Literal["list"] = "list"
    data: list[Delivery]
    last_id: str | None
    has_more: bool


def webhook_of(row: Any) -> Webhook:
    return Webhook(**_webhook(row))


def with_secret(row: Any) -> WebhookWithSecret:
    return WebhookWithSecret(**_webhook(row), secret=row.secret)


def _webhook(row: Any) -> dict[str, Any]:
    return {
        "id": public(WEBHOOK, row.id),
        "url": row.url,
        "events": row.events,
        "status": "enabled" if row.disabled_at is None else "disabled",
        "disabled_reason": row.disabled_reason,
        "created_at": _unix(row.created_at),
        "disabled_at": _unix(row.disabled_at),
        "failing_since": _unix(row.failing_since),
        "previous_secret_until": _unix(row.previous_secret_until),
    }


def delivery_of(row: Any, attempts: Iterable[Any]) -> Delivery:
    own = row.endpoint_batch_id is not None
    return Delivery(
        id=public(DELIVERY, row.id),
        event_id=public(EVENT, row.event_id),
        type=row.type,
        webhook_id=None if own else public(WEBHOOK, row.endpoint_id),
        url=row.url,
        batch_id=None if row.batch_id is None else public(BATCH, row.batch_id),
        decision_id=None if row.decision_id is None else public(DECISION, row.decision_id),
        status=row.status,
        created_at=int(row.created_at.timestamp()),
        due_at=_unix(row.due_at),
        finished_at=_unix(row.finished_at),
        attempts=[_attempt(attempt) for attempt in attempts],
    )


def _attempt(row: Any) -> Attempt:
    return Attempt(
        started_at=int(row.started_at.timestamp()),
        finished_at=_unix(row.finished_at),
        status_code=row.status_code,
        milliseconds=row.milliseconds,
        response_body=row.response_body,
        error=row.error,
    )


def _unix(time: datetime | None) -> int | None:
    return None if time is None else int(time.timestamp())
