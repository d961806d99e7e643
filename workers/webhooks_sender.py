"""Sends what is due, many at a time: claim, post, judge, record. The flow is `Sender.run`.

Threads only call out; every statement is this one's, so a slow endpoint holds a thread and nothing else.
"""

import logging
import random
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime
from importlib.metadata import version
from threading import Event
from time import monotonic

from sqlalchemy import Engine

from decisions import webhook_deliveries
from decisions.database import transaction
from decisions.webhooks import Delivery, Outcome, judge, payload, signed_headers
from workers.settings import SenderSettings
from workers.webhooks_http import Poster

logger = logging.getLogger(__name__)

#: Between two looks for new events, dead senders and disabled endpoints, while there is work.
SWEEP_SECONDS = 1.0


class Sender:
    """Owns its threads until `close`. Any number of senders may run on one database."""

    def __init__(self, database: Engine, settings: SenderSettings) -> None:
        self._database = database
        self._settings = settings
        self._poster = Poster(
            allow_private=settings.webhook_allow_private, seconds=settings.webhook_timeout_seconds
        )
        self._threads = ThreadPoolExecutor(settings.webhook_threads, "webhook")
        self._headers = {
            "Content-Type": "application/json",
            "User-Agent": f"weighbridge/{version('weighbridge')}",
        }
        self._swept = 0.0
        #: Set it, and nothing is claimed any more; what is under way ends.
        self.stopping = Event()

    def close(self) -> None:
        self.stopping.set()
        self._threads.shutdown()

    def run(self) -> None:
        """Until nothing is due. What waits for a later attempt is the next run's."""
        running: dict[Future[Outcome], Delivery] = {}
        self._swept = 0.0
        while True:
            for delivery in self._claim(self._settings.webhook_threads - len(running)):
                running[self._threads.submit(self._send, delivery)] = delivery
            if not running:
                return
            ended, _ = wait(running, timeout=SWEEP_SECONDS, return_when=FIRST_COMPLETED)
            for future in ended:
                self._record(running.pop(future), future.result())

    def _claim(self, limit: int) -> list[Delivery]:
        if self.stopping.is_set():
            return []
        if monotonic() - self._swept > SWEEP_SECONDS:
            self._sweep()
            self._swept = monotonic()
        if not limit:
            return []
        with transaction(self._database) as connection:
            statement = webhook_deliveries.claim(
                limit,
                self._settings.webhook_threads_per_endpoint,
                self._settings.webhook_lease_seconds,
            )
            return [webhook_deliveries.delivery_of(row) for row in connection.execute(statement)]

    def _sweep(self) -> None:
        for statement in (
            webhook_deliveries.sweep(),
            webhook_deliveries.dispatch(),
            webhook_deliveries.fail_disabled(),
        ):
            with transaction(self._database) as connection:
                connection.execute(statement)

    def _send(self, delivery: Delivery) -> Outcome:
        try:
            body = payload(delivery.event)
            headers = self._signed(delivery, body)
            return self._poster.post(delivery.url, headers, body)
        except Exception:
            # A thread's edge: the attempt counts, and the others go on.
            logger.exception(
                "%s could not be sent",
                delivery.event.webhook_id,
                extra={"action": "webhook_broken"},
            )
            return Outcome(error="it could not be sent")

    def _signed(self, delivery: Delivery, body: bytes) -> Mapping[str, str]:
        now = datetime.now(UTC)
        return {**self._headers, **signed_headers(delivery.event, delivery.secrets, body, now)}

    def _record(self, delivery: Delivery, outcome: Outcome) -> None:
        verdict = judge(delivery, outcome, random.random())  # noqa: S311 - spreads load, hides nothing
        with transaction(self._database) as connection:
            connection.execute(webhook_deliveries.record(delivery, outcome, verdict))
        logger.info(
            "%s to endpoint %d, attempt %d: %s",
            delivery.event.webhook_id,
            delivery.endpoint_id,
            delivery.tries,
            outcome.status_code or outcome.error,
            extra={"action": "webhook_sent"},
        )
        if verdict.disable:
            logger.warning(
                "endpoint %d is disabled: %s",
                delivery.endpoint_id,
                verdict.disable,
                extra={"action": "webhook_disabled"},
            )
