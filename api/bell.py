"""Rings the bell of a lane: one message through Celery that wakes a worker.

Ringing never blocks and never fails, because a worker that is not woken is only late: the sweep rings
again. A lane that has a bell in its queue needs no second one.
"""

import logging
from threading import Condition, Thread
from typing import Any

from celery import Celery
from kombu import Connection

from decisions.lanes import DRAIN_TASK, bell_queue, transport_options
from decisions.types import Lane

logger = logging.getLogger(__name__)

#: Seconds to wait for Redis. The thread that rings has nothing better to do, but must end in time.
TIMEOUT = 2


class Bell:
    """Owns a thread and a connection to Redis, from `start` to `close`."""

    def __init__(self, redis_url: str) -> None:
        self._celery = producer(redis_url)
        self._wanted: set[Lane] = set()
        self._closed = False
        self._changed = Condition()
        self._silent = False
        self._thread = Thread(target=self._run, name="bell", daemon=True)

    @property
    def reachable(self) -> bool:
        """Whether the last bell could be rung."""
        return not self._silent

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(timeout=2 * TIMEOUT)
        self._celery.close()

    def ring(self, lane: Lane) -> None:
        with self._changed:
            self._wanted.add(lane)
            self._changed.notify()

    def _run(self) -> None:
        connection = self._celery.connection_for_write()
        while lanes := self._take():
            try:
                for lane in lanes:
                    deliver(self._celery, connection, lane)
                self._note(None)
            except Exception as e:  # noqa: BLE001 - a thread's edge; the sweep rings again
                self._note(e)
                connection.close()
                connection = self._celery.connection_for_write()
        connection.close()

    def _take(self) -> set[Lane]:
        """The lanes to ring for; empty when it is time to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._wanted or self._closed)
            lanes, self._wanted = self._wanted, set()
            return set() if self._closed else lanes

    def _note(self, error: Exception | None) -> None:
        if error and not self._silent:
            logger.warning(
                "No bell can be rung; workers sweep until Redis is back: %s",
                error,
                extra={"action": "bell_silent"},
            )
        if not error and self._silent:
            logger.info("Bells ring again.", extra={"action": "bell_rings"})
        self._silent = error is not None


def producer(redis_url: str) -> Celery:
    app = Celery("weighbridge", broker=redis_url, set_as_current=False)
    app.conf.broker_transport_options = transport_options() | {
        "max_retries": 0,
        "socket_timeout": TIMEOUT,
        "socket_connect_timeout": TIMEOUT,
    }
    app.conf.task_ignore_result = True
    return app


def deliver(app: Celery, connection: Connection, lane: Lane) -> None:
    if not _waiting(connection, bell_queue(lane)):
        app.send_task(
            DRAIN_TASK,
            kwargs={"lane": str(lane)},
            queue=bell_queue(lane),
            connection=connection,
            retry=False,
        )


def _waiting(connection: Connection, queue: str) -> int:
    """Messages in a queue, which is declared so that it may be asked about."""
    channel: Any = connection.default_channel
    return int(channel.queue_declare(queue=queue).message_count)
