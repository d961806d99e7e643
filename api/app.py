"""The application: what is wired to what, and what lives as long as the process."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from importlib.metadata import version

from anyio import CapacityLimiter
from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware

from api import (
    batches,
    decisions,
    documentation,
    events,
    files,
    health,
    metrics,
    models,
    openai_decisions,
    problems,
    results,
    schedule_runs,
    schedules,
    stream,
    system_one,
    truth,
    webhooks,
)
from api.bell import Bell
from api.endings import Endings
from api.files import NewFile
from api.new_batch import NewBatch
from api.new_schedule import NewSchedule, ScheduleChange
from api.openai_decisions import DecisionsRequest
from api.resources import Resources
from api.scheduler import schedule_forever
from api.served_models import ServedModels
from api.settings import Settings
from api.steps import Steps
from api.sweeper import sweep_forever
from api.system_one import SystemOneRequest
from api.webhook import NewWebhook, Rotation
from decisions.database import async_engine, sync_engine

DESCRIPTION = """
Asynchronous decisions from language models: durable batches, one prefill per state, an audit of every
answer. Send states and typed questions to `/v1/batches`; every accepted item ends with exactly one
stored decision per question, or one stored error.
"""

TAGS = [
    {"name": "batches", "description": "Items, and their results."},
    {"name": "events", "description": "What happens to batches, as it happens."},
    {"name": "files", "description": "Items as files, for batches too large for one request."},
    {
        "name": "decisions",
        "description": "Ask and wait; and stored answers, with their provenance.",
    },
    {"name": "truth", "description": "What the right answer is, as people say later."},
    {
        "name": "schedules",
        "description": "Stored decisions, read again by another model or otherwise, and compared.",
    },
    {"name": "webhooks", "description": "Who is told what has happened, and what became of it."},
    {"name": "models", "description": "What is served."},
    {"name": "health", "description": "For whoever watches the service."},
]


ROUTES = (
    system_one,
    openai_decisions,
    batches,
    results,
    events,
    stream,
    files,
    decisions,
    truth,
    schedules,
    schedule_runs,
    webhooks,
    models,
    health,
    metrics,
)

#: What routes read by hand, for the OpenAPI document.
BODIES = (
    NewBatch,
    NewFile,
    NewSchedule,
    ScheduleChange,
    NewWebhook,
    Rotation,
    SystemOneRequest,
    DecisionsRequest,
)


def create_app(settings: Settings) -> FastAPI:
    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with opened(settings) as resources:
            app.state.resources = resources
            yield

    app = FastAPI(
        title="Weighbridge",
        version=version("weighbridge"),
        description=DESCRIPTION,
        openapi_tags=TAGS,
        lifespan=lifespan,
    )
    for module in ROUTES:
        app.include_router(module.router)
    problems.install(app)
    documentation.document(app, BODIES)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["*"],
            allow_headers=["*"],
        )
    return app


@contextlib.asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Resources]:
    at_once = settings.concurrent_submissions
    database = async_engine(settings.database_url, pool_size=settings.database_connections)
    resources = Resources(
        settings=settings,
        database=database,
        submissions=sync_engine(settings.database_url, pool_size=2 * at_once + 1, max_overflow=0),
        submission_limit=CapacityLimiter(at_once),
        urgent_limit=CapacityLimiter(at_once),
        bell=Bell(settings.redis_url),
        endings=Endings(settings.database_url),
        steps=Steps(database),
        served=ServedModels(database, settings.model_aliases),
    )
    # Of its own, since a large run takes long: a run needs a connection and for moments a second one.
    schedules_database = sync_engine(settings.database_url, pool_size=2, max_overflow=0)
    resources.bell.start()
    background = asyncio.gather(
        sweep_forever(database, resources.bell, settings.sweep_seconds),
        schedule_forever(schedules_database, settings.sweep_seconds),
        resources.endings.listen_forever(),
        resources.steps.look_forever(),
    )
    try:
        yield resources
    finally:
        background.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await background
        await asyncio.to_thread(resources.bell.close)
        await database.dispose()
        resources.submissions.dispose()
        schedules_database.dispose()
