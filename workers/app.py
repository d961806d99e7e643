"""The Celery application of this process, its one task, and the runtime behind it.

Celery finds the app and connects its signals by importing this module, in the parent and in each
spawned child; that is why the app and its runtime are module-level here, and nowhere else.
"""

import logging
import os
from typing import Any

from celery import signals

from decisions.lanes import DRAIN_TASK
from workers.bells import make_app
from workers.logs import log_to_stderr
from workers.runtime import Runtime
from workers.settings import WorkerSettings

logger = logging.getLogger(__name__)

#: Of a child that cannot load its model; Celery would keep it and let every task fail.
EXIT_UNUSABLE = 78


class Process:
    """Holds the runtime of this process, once it has one."""

    def __init__(self) -> None:
        self.settings = WorkerSettings()
        self.app = make_app(self.settings.redis_url)
        self.runtime: Runtime | None = None

    def open(self) -> None:
        if self.runtime is None:
            self.runtime = Runtime(self.settings, self.app)

    def close(self) -> None:
        if self.runtime is not None:
            self.runtime.close()
            self.runtime = None


process = Process()
app = process.app


@app.task(name=DRAIN_TASK)
def drain(lane: str) -> None:
    """A bell: some lane has items. Which one does not matter, the most urgent is drained first."""
    assert process.runtime is not None, "a drain came before the engine was loaded"  # noqa: S101
    process.runtime.drain()


@signals.worker_process_init.connect
def _child_started(**_: Any) -> None:
    log_to_stderr()  # a spawned child starts without the parent's settings
    try:
        process.open()
    except Exception:
        logger.exception("this worker cannot read", extra={"action": "worker_unusable"})
        logging.shutdown()
        os._exit(EXIT_UNUSABLE)


@signals.worker_shutting_down.connect
def _shutting_down(**_: Any) -> None:
    if process.runtime is not None:
        process.runtime.stop()


@signals.worker_process_shutdown.connect
@signals.worker_shutdown.connect
def _shut_down(**_: Any) -> None:
    process.close()
