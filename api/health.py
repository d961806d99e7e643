"""Routes for whoever watches this process: alive, and ready to accept work."""

from typing import Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel
from sqlalchemy.exc import SQLAlchemyError

from api.resources import Resources, ResourcesDep
from decisions.database import async_transaction, is_current

router = APIRouter(tags=["health"])


class Health(BaseModel):
    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    #: `degraded` still accepts everything, and finishes it when Redis is back or the workers sweep.
    status: Literal["ok", "degraded", "unready"]
    database: Literal["ok", "unreachable", "schema is not current"]
    redis: Literal["ok", "unreachable"]


@router.get("/healthz")
async def healthz() -> Health:
    """The process answers."""
    return Health()


@router.get("/readyz", responses={503: {"model": Readiness}})
async def readyz(resources: ResourcesDep, response: Response) -> Readiness:
    """Submissions are accepted. Redis may be away: nothing needs it to be stored or finished."""
    database = await _database(resources)
    redis: Literal["ok", "unreachable"] = "ok" if resources.bell.reachable else "unreachable"
    if database != "ok":
        response.status_code = 503
        return Readiness(status="unready", database=database, redis=redis)
    status: Literal["ok", "degraded"] = "ok" if redis == "ok" else "degraded"
    return Readiness(status=status, database=database, redis=redis)


async def _database(
    resources: Resources,
) -> Literal["ok", "unreachable", "schema is not current"]:
    try:
        async with async_transaction(resources.database) as connection:
            current = await connection.run_sync(is_current)
    except SQLAlchemyError:
        return "unreachable"
    return "ok" if current else "schema is not current"
