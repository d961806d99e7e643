"""The log of deliveries, and what a person may do with one: send it again, or try an endpoint. Statements only."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Select, TextClause, select, text

from decisions.ids import WEBHOOK
from decisions.tables import events, webhook_attempts, webhook_deliveries, webhook_endpoints
from decisions.types import DeliveryStatus
from decisions.webhooks import EventType


@dataclass(frozen=True, kw_only=True, slots=True)
class Filter:
    """Which deliveries; None is any."""

    endpoint_id: int | None = None
    batch_id: UUID | None = None
    status: DeliveryStatus | None = None


def page(tenant_id: int, wanted: Filter, before: int | None, limit: int) -> Select[Any]:
    """Newest first; `before` is the last id of the page before."""
    query = _deliveries(tenant_id).order_by(webhook_deliveries.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(webhook_deliveries.c.id < before)
    if wanted.endpoint_id is not None:
        query = query.where(webhook_deliveries.c.endpoint_id == wanted.endpoint_id)
    if wanted.batch_id is not None:
        query = query.where(events.c.batch_id == wanted.batch_id)
    if wanted.status is not None:
        query = query.where(webhook_deliveries.c.status == wanted.status)
    return query


def get(tenant_id: int, delivery_id: int) -> Select[Any]:
    return _deliveries(tenant_id).where(webhook_deliveries.c.id == delivery_id)


def _deliveries(tenant_id: int) -> Select[Any]:
    return (
        select(
            webhook_deliveries,
            events.c.type,
            events.c.batch_id,
            events.c.decision_id,
            webhook_endpoints.c.url,
            webhook_endpoints.c.disabled_at,
            webhook_endpoints.c.batch_id.label("endpoint_batch_id"),
        )
        .join(events, events.c.id == webhook_deliveries.c.event_id)
        .join(webhook_endpoints, webhook_endpoints.c.id == webhook_deliveries.c.endpoint_id)
        .where(webhook_deliveries.c.tenant_id == tenant_id)
    )


def attempts(deliveries: Sequence[int]) -> Select[Any]:
    """Of all of them, the oldest first."""
    return (
        select(webhook_attempts)
        .where(webhook_attempts.c.delivery_id.in_(deliveries))
        .order_by(webhook_attempts.c.fence)
    )


def backlog() -> TextClause:
    """Of all tenants: deliveries that are due or on their way, and how many seconds the oldest is late."""
    return text(
        """
        SELECT count(*) AS deliveries,
          coalesce(extract(epoch FROM now() - min(due_at)), 0)::float8 AS late_seconds
        FROM webhook_deliveries
        WHERE (status = 'waiting' AND due_at <= now()) OR status = 'sending'
        """
    )


def resend(tenant_id: int, delivery_id: int) -> TextClause:
    """Due at once, with the whole schedule before it again; nothing when it is being sent just now."""
    return text(
        """
        UPDATE webhook_deliveries SET status = 'waiting', tries = 0, due_at = now(),
          finished_at = NULL
        WHERE id = :id AND tenant_id = :tenant_id AND status <> 'sending'
        """
    ).bindparams(id=delivery_id, tenant_id=tenant_id)


def send_test(tenant_id: int, endpoint_id: int) -> TextClause:
    """An event for one of the tenant's own endpoints alone. Returns the delivery's id."""
    return text(
        f"""
        WITH endpoint AS (
          SELECT id, tenant_id FROM webhook_endpoints
          WHERE id = :id AND tenant_id = :tenant_id AND batch_id IS NULL
        ), event AS (
          INSERT INTO events (tenant_id, type, data, dispatched_at)
          SELECT tenant_id, '{EventType.TEST}', jsonb_build_object('id', '{WEBHOOK}' || id), now()
          FROM endpoint
          RETURNING id
        )
        INSERT INTO webhook_deliveries (tenant_id, event_id, endpoint_id, status, due_at)
        SELECT endpoint.tenant_id, event.id, endpoint.id, 'waiting', now() FROM endpoint, event
        RETURNING id
        """
    ).bindparams(id=endpoint_id, tenant_id=tenant_id)
