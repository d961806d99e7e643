"""The door: a full queue refuses work before anything of it is accepted, and says when to ask again."""

from api.errors import ApiError
from api.resources import Resources
from decisions import batches
from decisions.database import async_statement

#: Seconds. A full queue does not empty faster.
RETRY_AFTER = "30"


class QueueFull(ApiError):
    """The queue is full. Nothing was accepted."""

    headers = {"Retry-After": RETRY_AFTER}


async def admit(resources: Resources, tenant_id: int) -> None:
    """Raises QueueFull when the server's open items, or the tenant's, have reached their limit."""
    settings = resources.settings
    async with async_statement(resources.database) as connection:
        open_items = (await connection.execute(batches.open_items(tenant_id))).one()
    if open_items.everybody >= settings.max_open_items:
        raise QueueFull(
            f"The queue is full: this server holds {settings.max_open_items} open items."
        )
    if open_items.tenant >= settings.max_open_items_per_tenant:
        limit = settings.max_open_items_per_tenant
        raise QueueFull(f"The queue is full: a tenant may have {limit} open items.")
