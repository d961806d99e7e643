"""Who calls: a bearer key leads to its tenant. Without authentication everyone is the tenant `default`."""

from typing import Annotated

from fastapi import Depends
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from api.errors import Unauthorized
from api.resources import Resources, ResourcesDep
from api.settings import Auth
from decisions import keys
from decisions.database import async_statement

_bearer = HTTPBearer(auto_error=False, description="An API key, `wb_...`")


async def _tenant(
    resources: ResourcesDep,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> int:
    if resources.settings.auth is Auth.OFF:
        return await _default_tenant(resources)
    if credentials is None:
        raise Unauthorized(param="Authorization")
    return await _tenant_of_key(resources, credentials.credentials)


async def _default_tenant(resources: Resources) -> int:
    async with async_statement(resources.database) as connection:
        found = (await connection.execute(keys.find_tenant(keys.DEFAULT_TENANT))).scalar()
        if found is not None:
            return found
        return (await connection.execute(keys.ensure_tenant(keys.DEFAULT_TENANT))).scalar_one()


async def _tenant_of_key(resources: Resources, secret: str) -> int:
    async with async_statement(resources.database) as connection:
        found = (await connection.execute(keys.find(secret))).first()
        if found is None:
            raise Unauthorized(
                "This API key is unknown or has been revoked.", param="Authorization"
            )
        key_id, tenant_id, unnoted = found
        if unnoted:
            await connection.execute(keys.used(key_id))
    return int(tenant_id)


#: The id of the calling tenant.
TenantDep = Annotated[int, Depends(_tenant)]
