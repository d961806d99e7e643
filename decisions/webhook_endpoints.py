"""Endpoints that tenants keep for their events. Statements only.

A batch that brings its own address has an endpoint too, which `webhook_deliveries.dispatch` makes when
the batch ends; it is no tenant's to list, change or delete.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Select, TextClause, Update, delete, func, select, text, update
from sqlalchemy.sql.dml import ReturningDelete

from decisions.tables import webhook_endpoints as endpoints

#: Endpoints of one tenant.
MOST = 50


def create(tenant_id: int, url: str, events: Sequence[str], secret: str) -> TextClause:
    """Returns the id; no row when the tenant has MOST already."""
    return text(
        """
        INSERT INTO webhook_endpoints (tenant_id, url, events, secret)
        SELECT :tenant_id, :url, :events, :secret
        WHERE (SELECT count(*) FROM webhook_endpoints
          WHERE tenant_id = :tenant_id AND batch_id IS NULL) < :most
        RETURNING id
        """
    ).bindparams(tenant_id=tenant_id, url=url, events=list(events), secret=secret, most=MOST)


def listing(tenant_id: int) -> Select[Any]:
    return (
        select(endpoints)
        .where(endpoints.c.tenant_id == tenant_id, endpoints.c.batch_id.is_(None))
        .order_by(endpoints.c.id)
    )


def get(tenant_id: int, endpoint_id: int) -> Select[Any]:
    return listing(tenant_id).where(endpoints.c.id == endpoint_id)


def remove(tenant_id: int, endpoint_id: int) -> ReturningDelete[int]:
    """With its deliveries. Returns the id when there was one."""
    return delete(endpoints).where(*_one(tenant_id, endpoint_id)).returning(endpoints.c.id)


def rotate(tenant_id: int, endpoint_id: int, secret: str, overlap_seconds: float) -> Update:
    """The secret so far signs too for `overlap_seconds`; 0 ends it at once. Returns the id."""
    kept = overlap_seconds > 0
    until = func.now() + func.make_interval(0, 0, 0, 0, 0, 0, overlap_seconds) if kept else None
    return (
        update(endpoints)
        .where(*_one(tenant_id, endpoint_id))
        .values(
            secret=secret,
            previous_secret=endpoints.c.secret if kept else None,
            previous_secret_until=until,
        )
        .returning(endpoints.c.id)
    )


def disable(tenant_id: int, endpoint_id: int) -> Update:
    """What comes due for it meanwhile fails. Returns the id."""
    return _switched(
        tenant_id,
        endpoint_id,
        disabled_at=func.coalesce(endpoints.c.disabled_at, func.now()),
        disabled_reason=func.coalesce(endpoints.c.disabled_reason, "asked"),
    )


def enable(tenant_id: int, endpoint_id: int) -> Update:
    return _switched(
        tenant_id, endpoint_id, disabled_at=None, disabled_reason=None, failing_since=None
    )


def _switched(tenant_id: int, endpoint_id: int, **values: Any) -> Update:
    return (
        update(endpoints)
        .where(*_one(tenant_id, endpoint_id))
        .values(**values)
        .returning(endpoints.c.id)
    )


def _one(tenant_id: int, endpoint_id: int) -> tuple[Any, ...]:
    return (
        endpoints.c.tenant_id == tenant_id,
        endpoints.c.id == endpoint_id,
        endpoints.c.batch_id.is_(None),
    )
