"""What the process holds open, made in the app's lifespan, and the routes' way to it."""

from dataclasses import dataclass
from typing import Annotated

from anyio import CapacityLimiter
from fastapi import Depends, Request
from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncEngine

from api.bell import Bell
from api.endings import Endings
from api.served_models import ServedModels
from api.settings import Settings
from api.steps import Steps


@dataclass(frozen=True, kw_only=True, slots=True)
class Resources:
    settings: Settings
    database: AsyncEngine
    #: For submissions, which run in threads. Each holds one connection and for moments a second one,
    #: so there is always one connection more than submissions, and the last second one comes free.
    submissions: Engine
    submission_limit: CapacityLimiter
    #: For the interactive lane, which must not wait for large files to be written.
    urgent_limit: CapacityLimiter
    bell: Bell
    endings: Endings
    steps: Steps
    served: ServedModels


async def _resources(request: Request) -> Resources:
    resources: Resources = request.app.state.resources
    return resources


ResourcesDep = Annotated[Resources, Depends(_resources)]
