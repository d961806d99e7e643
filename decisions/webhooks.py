"""Webhooks as values: events, secrets, payloads, signatures, and what becomes of an attempt.

Standard Webhooks:

    webhook-id         evt_<n>, the event's: the same in every attempt, whoever makes it
    webhook-timestamp  seconds, the attempt's
    webhook-signature  v1,<base64 of HMAC-SHA256(secret, "id.timestamp.body")>, one for each secret in force
    body               {"type", "timestamp", "data": {"id", ...}}, the same bytes in every attempt

Knows neither SQL nor how a request is sent.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any

from standardwebhooks import Webhook

from decisions.ids import EVENT, public
from decisions.types import DeliveryStatus

#: Name of the Celery task that sends what is due, and its queue.
DELIVER_TASK = "weighbridge.deliver"
BELL_QUEUE = "bell-webhooks"

#: Seconds before each attempt: about three days from the first to the last.
SCHEDULE = (0, 5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
#: An attempt comes later than scheduled by up to this share, so that many do not come at once.
JITTER = 0.2
#: Seconds that a Retry-After may put an attempt off at most.
LONGEST_RETRY_AFTER = 86_400.0
#: An endpoint that has only failed for so many seconds is disabled.
FAILING_SECONDS = 5 * 86_400.0

#: Bytes of a payload; one that would be longer tells ids alone.
MAX_PAYLOAD = 20_000


class EventType(StrEnum):
    """What may be told."""

    BATCH_COMPLETED = "batch.completed"
    BATCH_FAILED = "batch.failed"
    BATCH_EXPIRED = "batch.expired"
    BATCH_CANCELLED = "batch.cancelled"
    #: One decision was stored. Only to those who ask for it.
    DECISION_COMPLETED = "decision.completed"
    #: A run of a schedule has ended, with its verdict. Only to those who ask for it.
    SCHEDULE_REPORT = "schedule.report"
    #: Reserved: a policy will send a decision to people. There are no policies yet, so it never happens.
    DECISION_REVIEW = "decision.review"
    #: Asked for by hand, to try an endpoint.
    TEST = "webhook.test"


#: The events of an endpoint that does not choose.
BATCH_EVENTS = (
    EventType.BATCH_COMPLETED,
    EventType.BATCH_FAILED,
    EventType.BATCH_EXPIRED,
    EventType.BATCH_CANCELLED,
)
#: What an endpoint may choose.
EVENTS = (*BATCH_EVENTS, EventType.DECISION_COMPLETED, EventType.SCHEDULE_REPORT)


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Something that happened, to be told."""

    id: int
    type: str
    #: When it happened.
    created_at: datetime
    data: Mapping[str, Any]

    @property
    def webhook_id(self) -> str:
        return public(EVENT, self.id)


@dataclass(frozen=True, kw_only=True, slots=True)
class Delivery:
    """An event on its way to an endpoint, held by a sender until the lease ends."""

    id: int
    #: Of this attempt: only the newest one settles the delivery.
    fence: int
    #: Attempts, this one included, since it was made or sent again by hand.
    tries: int
    endpoint_id: int
    url: str
    #: Those in force, the newest first.
    secrets: tuple[str, ...]
    #: How long the endpoint has only failed.
    failing_seconds: float
    event: Event


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What came of one attempt."""

    #: Null when there was no answer.
    status_code: int | None = None
    #: The beginning of its body.
    response_body: str = ""
    #: Why there was no answer.
    error: str | None = None
    #: Seconds that the endpoint asks to be left alone.
    retry_after: float | None = None
    milliseconds: int = 0

    @property
    def ok(self) -> bool:
        return self.status_code is not None and 200 <= self.status_code < 300


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What becomes of a delivery after an attempt."""

    status: DeliveryStatus
    #: Seconds until the next attempt, of one that waits.
    delay: float = 0.0
    #: Why the endpoint gets nothing from now on: `gone` or `failing`.
    disable: str | None = None


def judge(delivery: Delivery, outcome: Outcome, jitter: float) -> Verdict:
    """`jitter` from 0 to 1. A redirect is a failure like every other answer that is not 2xx."""
    if outcome.ok:
        return Verdict(status=DeliveryStatus.DELIVERED)
    if outcome.status_code == 410:
        return Verdict(status=DeliveryStatus.FAILED, disable="gone")
    if delivery.failing_seconds > FAILING_SECONDS:
        return Verdict(status=DeliveryStatus.FAILED, disable="failing")
    if delivery.tries >= len(SCHEDULE):
        return Verdict(status=DeliveryStatus.FAILED)
    asked = min(outcome.retry_after or 0.0, LONGEST_RETRY_AFTER)
    delay = max(SCHEDULE[delivery.tries], asked) * (1 + JITTER * jitter)
    return Verdict(status=DeliveryStatus.WAITING, delay=delay)


def retry_after(header: str | None, now: datetime) -> float | None:
    """Seconds from a Retry-After header, which holds seconds or a date. None when it holds neither."""
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        return float(text[:12])
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (date.replace(tzinfo=date.tzinfo or UTC) - now).total_seconds())


def payload(event: Event) -> bytes:
    """The body, at most MAX_PAYLOAD bytes."""
    whole = _body(event, event.data)
    if len(whole) <= MAX_PAYLOAD:
        return whole
    return _body(event, {name: event.data.get(name) for name in ("id", "batch_id")})


def _body(event: Event, data: Mapping[str, Any]) -> bytes:
    time = event.created_at.astimezone(UTC).isoformat(timespec="milliseconds")
    body = {"type": event.type, "timestamp": time.replace("+00:00", "Z"), "data": data}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def signed_headers(
    event: Event, keys: Sequence[str], body: bytes, now: datetime
) -> Mapping[str, str]:
    """One signature for each key, so that a receiver may know either while a secret is rotated."""
    signatures = [Webhook(key).sign(event.webhook_id, now, body.decode()) for key in keys]
    return {
        "webhook-id": event.webhook_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(signatures),
    }
