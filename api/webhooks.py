"""Routes of webhooks: endpoints that a tenant keeps, and the log of what was delivered to them."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from sqlalchemy.ext.asyncio import AsyncConnection

from api.auth import TenantDep
from api.bodies import read_json, validated
from api.documentation import PROBLEMS, takes
from api.resources import ResourcesDep
from api.webhook import (
    DeletedWebhook,
    Delivery,
    DeliveryList,
    NewWebhook,
    Rotation,
    Webhook,
    WebhookList,
    WebhookWithSecret,
    delivery_of,
    webhook_of,
    with_secret,
)
from decisions import webhook_endpoints, webhook_log
from decisions.database import async_transaction
from decisions.errors import InvalidWebhook, NotFound
from decisions.ids import BATCH, DELIVERY, WEBHOOK, number_of, public, uuid_of
from decisions.types import DeliveryStatus
from decisions.webhook_input import check_events, check_secret, check_url, new_secret

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"], responses=PROBLEMS)


@router.post("", status_code=201, openapi_extra=takes(NewWebhook))
async def create_webhook(
    request: Request, tenant: TenantDep, resources: ResourcesDep
) -> WebhookWithSecret:
    """Keep an endpoint. Its secret is in this answer alone."""
    new = validated(NewWebhook, await read_json(request, resources.settings.max_body_bytes))
    url = check_url(new.url, allow_private=resources.settings.webhook_allow_private)
    secret = new_secret() if new.secret is None else check_secret(new.secret)
    statement = webhook_endpoints.create(tenant, url, check_events(new.events), secret)
    async with async_transaction(resources.database) as connection:
        made = (await connection.execute(statement)).scalar()
        if made is None:
            raise InvalidWebhook(f"there are {webhook_endpoints.MOST} already; delete one first")
        return with_secret(await _endpoint(connection, tenant, made))


@router.get("")
async def list_webhooks(tenant: TenantDep, resources: ResourcesDep) -> WebhookList:
    """The oldest first."""
    async with async_transaction(resources.database) as connection:
        rows = await connection.execute(webhook_endpoints.listing(tenant))
        return WebhookList(data=[webhook_of(row) for row in rows])


@router.get("/deliveries")
async def list_deliveries(
    tenant: TenantDep,
    resources: ResourcesDep,
    webhook: Annotated[str | None, Query(description="Of this endpoint")] = None,
    batch: Annotated[str | None, Query(description="Of events of this batch")] = None,
    status: Annotated[DeliveryStatus | None, Query(description="In this state")] = None,
    after: Annotated[str | None, Query(description="The last id of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> DeliveryList:
    """Newest first, each with every attempt."""
    wanted = webhook_log.Filter(
        endpoint_id=None if webhook is None else number_of(WEBHOOK, webhook),
        batch_id=None if batch is None else uuid_of(BATCH, batch),
        status=status,
    )
    before = None if after is None else number_of(DELIVERY, after)
    async with async_transaction(resources.database) as connection:
        page = webhook_log.page(tenant, wanted, before, limit + 1)
        rows = list(await connection.execute(page))
        data = await _with_attempts(connection, rows[:limit])
    return DeliveryList(
        data=data, last_id=data[-1].id if data else None, has_more=len(rows) > limit
    )


@router.get("/deliveries/{delivery_id}")
async def read_delivery(delivery_id: str, tenant: TenantDep, resources: ResourcesDep) -> Delivery:
    async with async_transaction(resources.database) as connection:
        return await _delivery(connection, tenant, number_of(DELIVERY, delivery_id))


@router.post("/deliveries/{delivery_id}/resend", status_code=202)
async def resend(delivery_id: str, tenant: TenantDep, resources: ResourcesDep) -> Delivery:
    """Send it again now, under the same webhook-id, whether it was delivered or given up."""
    key = number_of(DELIVERY, delivery_id)
    async with async_transaction(resources.database) as connection:
        row = (await connection.execute(webhook_log.get(tenant, key))).first()
        if row is not None and row.disabled_at is not None:
            raise InvalidWebhook("the endpoint is disabled; enable it first")
        await connection.execute(webhook_log.resend(tenant, key))
        return await _delivery(connection, tenant, key)


@router.get("/{webhook_id}")
async def read_webhook(webhook_id: str, tenant: TenantDep, resources: ResourcesDep) -> Webhook:
    async with async_transaction(resources.database) as connection:
        return webhook_of(await _endpoint(connection, tenant, number_of(WEBHOOK, webhook_id)))


@router.delete("/{webhook_id}")
async def delete_webhook(
    webhook_id: str, tenant: TenantDep, resources: ResourcesDep
) -> DeletedWebhook:
    """With the log of its deliveries."""
    key = number_of(WEBHOOK, webhook_id)
    async with async_transaction(resources.database) as connection:
        await _endpoint(connection, tenant, key)
        await connection.execute(webhook_endpoints.remove(tenant, key))
    return DeletedWebhook(id=webhook_id)


@router.post("/{webhook_id}/rotate", openapi_extra=takes(Rotation))
async def rotate_secret(
    webhook_id: str, request: Request, tenant: TenantDep, resources: ResourcesDep
) -> WebhookWithSecret:
    """A new secret, in this answer alone. The one before signs too until the overlap ends."""
    asked = validated(Rotation, await read_json(request, resources.settings.max_body_bytes))
    secret = new_secret() if asked.secret is None else check_secret(asked.secret)
    key = number_of(WEBHOOK, webhook_id)
    statement = webhook_endpoints.rotate(tenant, key, secret, asked.overlap_seconds)
    async with async_transaction(resources.database) as connection:
        await connection.execute(statement)
        return with_secret(await _endpoint(connection, tenant, key))


@router.post("/{webhook_id}/disable")
async def disable_webhook(webhook_id: str, tenant: TenantDep, resources: ResourcesDep) -> Webhook:
    """Nothing is sent to it; what comes due meanwhile has failed."""
    key = number_of(WEBHOOK, webhook_id)
    async with async_transaction(resources.database) as connection:
        await connection.execute(webhook_endpoints.disable(tenant, key))
        return webhook_of(await _endpoint(connection, tenant, key))


@router.post("/{webhook_id}/enable")
async def enable_webhook(webhook_id: str, tenant: TenantDep, resources: ResourcesDep) -> Webhook:
    """Also after it was disabled for a 410 or for failing."""
    key = number_of(WEBHOOK, webhook_id)
    async with async_transaction(resources.database) as connection:
        await connection.execute(webhook_endpoints.enable(tenant, key))
        return webhook_of(await _endpoint(connection, tenant, key))


@router.post("/{webhook_id}/test", status_code=202)
async def send_test(webhook_id: str, tenant: TenantDep, resources: ResourcesDep) -> Delivery:
    """Send it an event of type `webhook.test`, whatever it has chosen."""
    key = number_of(WEBHOOK, webhook_id)
    async with async_transaction(resources.database) as connection:
        if (await _endpoint(connection, tenant, key)).disabled_at is not None:
            raise InvalidWebhook("the endpoint is disabled; enable it first")
        made = (await connection.execute(webhook_log.send_test(tenant, key))).scalar_one()
        return await _delivery(connection, tenant, made)


async def _endpoint(connection: AsyncConnection, tenant: int, key: int) -> Any:
    row = (await connection.execute(webhook_endpoints.get(tenant, key))).first()
    if row is None:
        raise NotFound(f"There is no {public(WEBHOOK, key)!r}.")
    return row


async def _delivery(connection: AsyncConnection, tenant: int, key: int) -> Delivery:
    rows = list(await connection.execute(webhook_log.get(tenant, key)))
    if not rows:
        raise NotFound(f"There is no {public(DELIVERY, key)!r}.")
    return (await _with_attempts(connection, rows))[0]


async def _with_attempts(connection: AsyncConnection, rows: Sequence[Any]) -> list[Delivery]:
    found: dict[int, list[Any]] = {row.id: [] for row in rows}
    for attempt in await connection.execute(webhook_log.attempts(list(found))):
        found[attempt.delivery_id].append(attempt)
    return [delivery_of(row, found[row.id]) for row in rows]
