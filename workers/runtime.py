"""All that a reading process owns: database, engine, drain, and threads that keep the rest going.

One per process, built after the fork or spawn, closed on shutdown.
"""

import logging
import os
import socket
from collections.abc import Mapping
from dataclasses import asdict
from threading import Event, Thread
from typing import Any
from uuid import UUID, uuid4

from celery import Celery
from sqlalchemy.exc import SQLAlchemyError

from decisions import fleet
from decisions.database import sync_engine, transaction
from decisions.prompts import PROMPT_VERSION
from engine.config import EngineConfig
from engine.engine import Engine, load_engine
from engine.models import find_model
from engine.tokenizer import load_tokenizer
from workers.bells import ring
from workers.decide import Decider
from workers.drain import Drain, EngineCounters
from workers.patience import PASSING
from workers.prompts import Prompter
from workers.scheduler import Scheduler
from workers.settings import WorkerSettings
from workers.sweeper import Sweeper

logger = logging.getLogger(__name__)

_ALIVE_SECONDS = 5.0


def engine_config(settings: WorkerSettings) -> EngineConfig:
    return EngineConfig(
        cache_dir=settings.cache,
        model=settings.model,
        adapter=settings.adapter or None,
        dtype=settings.dtype,
        device=settings.device,
        kv_format=settings.kv_format,
        max_tokens_per_pass=settings.max_tokens_per_pass,
        prefix_store_bytes=settings.prefix_store_bytes,
        threads=settings.threads or None,
    )


def load_prompter(settings: WorkerSettings) -> Prompter:
    """Fails by name when the model is missing, has no usable template, or reads no single-token labels."""
    folder = find_model(settings.model, cache_dir=settings.cache, adapter=settings.adapter or None)
    return Prompter(load_tokenizer(folder), folder.name)


class Runtime:
    """A registered worker, ready to drain."""

    def __init__(self, settings: WorkerSettings, app: Celery) -> None:
        self._settings = settings
        self._app = app
        self._id = uuid4()
        self._database = sync_engine(settings.database_url)
        prompter = load_prompter(settings)
        engine = load_engine(engine_config(settings))
        version = self._register(engine)
        decider = Decider(
            engine,
            prompter,
            worker_id=self._id,
            model_version_id=version,
            confidence=settings.confidence,
        )
        counters = EngineCounters(lambda: engine.stats)
        self._drain = Drain(
            self._database, decider, self._id, engine.info.model, settings, counters
        )
        self._pulse = Event()
        self._threads = [
            Thread(target=Sweeper(self._database, app).run, args=(self._pulse,), daemon=True),
            Thread(target=self._say_alive, daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        # Nobody waits for it at the end: what it has begun then is rolled back, and others do it.
        Thread(target=Scheduler(self._database).run, args=(self._pulse,), daemon=True).start()
        logger.info("reads with %s", engine.info, extra={"action": "worker_ready"})

    def drain(self) -> None:
        """Drain every lane that this worker serves, then ring again if items may be left."""
        try:
            left = self._drain.run(self._settings.drain_seconds)
        except PASSING as error:
            # The sweep rings again when the database is back, and finds what was claimed.
            logger.warning("a drain was broken off: %s", error, extra={"action": "drain_broken"})
            return
        if left and not self._drain.stopping.is_set():
            ring(self._app, self._settings.lanes[0])

    def stop(self) -> None:
        """Let the claim in flight end; nothing is claimed after it."""
        self._drain.stopping.set()

    def close(self) -> None:
        self.stop()
        self._pulse.set()
        for thread in self._threads:
            thread.join()
        try:
            with transaction(self._database) as connection:
                connection.execute(fleet.stopped(self._id))
        except PASSING:
            logger.warning("the database did not hear that this worker stopped")
        self._database.dispose()

    def _register(self, engine: Engine) -> int:
        with transaction(self._database) as connection:
            version: int = connection.execute(
                fleet.record_model_version(_version_settings(engine))
            ).scalar_one()
            connection.execute(
                fleet.register_worker(
                    self._id,
                    f"{socket.gethostname()}:{os.getpid()}",
                    version,
                    engine.info.context_tokens,
                    self._settings.lanes,
                )
            )
        return version

    def _say_alive(self) -> None:
        while not self._pulse.wait(_ALIVE_SECONDS):
            try:
                with transaction(self._database) as connection:
                    connection.execute(fleet.seen(self._id))
            except SQLAlchemyError:
                continue  # nobody is harmed: leases are kept elsewhere

    @property
    def id(self) -> UUID:
        return self._id


def _version_settings(engine: Engine) -> Mapping[str, Any]:
    """Everything that a read's bits may depend on; how long a context is does not matter to them."""
    return {**asdict(engine.info), "prompt_version": PROMPT_VERSION}
