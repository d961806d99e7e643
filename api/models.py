"""Which models are served: what workers that live say of themselves. The route and the check of names."""

import time
from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from api.auth import TenantDep
from api.documentation import PROBLEMS
from api.resources import ResourcesDep

router = APIRouter(prefix="/v1/models", tags=["models"], responses=PROBLEMS)


class OpenAIModel(BaseModel):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str


class TypeSafeModel(BaseModel):
    name: str
    description: str
    release_date: str


class Models(BaseModel):
    """`data` for OpenAI's SDK, `models` for TypeSafe's. The same models, then their aliases."""

    object: Literal["list"] = "list"
    data: list[OpenAIModel]
    models: list[TypeSafeModel]


@router.get("")
async def list_models(tenant: TenantDep, resources: ResourcesDep) -> Models:
    """What workers that live serve, and the names that mean it."""
    served = await resources.served.models()
    named = [(m.name, m.name, m.since) for m in served]
    if served:
        named += [
            (alias, f"alias of {served[0].name}", served[0].since)
            for alias in resources.settings.model_aliases
        ]
    return Models(
        data=[
            OpenAIModel(id=name, created=since, owned_by="weighbridge") for name, _, since in named
        ],
        models=[
            TypeSafeModel(
                name=name,
                description=what,
                release_date=time.strftime("%Y-%m-%d", time.gmtime(since)),
            )
            for name, what, since in named
        ],
    )
