"""Brings back items whose worker went silent, closes batches, and rings for what waits. Once a second.

Runs in every worker and in the API, and alone as `python -m workers.sweeper`. Any number of sweepers
may run: they skip what another one holds. Needs no model and no torch. Alone it runs schedules too.
"""

import logging
from threading import Event, Thread

from celery import Celery
from kombu.exceptions import OperationalError
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from decisions import queue, webhook_deliveries
from decisions.database import transaction
from decisions.types import Lane
from workers.bells import ring, ring_webhooks, unheard, webhooks_unheard

logger = logging.getLogger(__name__)

PERIOD_SECONDS = 1.0


class Sweeper:
    def __init__(self, database: Engine, app: Celery) -> None:
        self._database = database
        self._app = app
        self._was_away = False

    def run(self, stopping: Event) -> None:
        """Sweep until `stopping` is set. A database or a broker that is away is waited for."""
        while not stopping.wait(PERIOD_SECONDS):
            try:
                self.sweep()
                self._was_away = False
            except (SQLAlchemyError, OperationalError) as error:
                self._note(error)

    def sweep(self) -> None:
        with transaction(self._database) as connection:
            late = connection.execute(queue.sweep_leases()).scalar_one()
        with transaction(self._database) as connection:
            connection.execute(queue.sweep_closed())
        with transaction(self._database) as connection:
            waiting = [Lane(lane) for (lane,) in connection.execute(queue.waiting_lanes())]
            to_send = connection.execute(webhook_deliveries.something_due()).scalar_one()
        if late:
            logger.warning(
                "%d items lost their worker and are back", late, extra={"action": "leases_swept"}
            )
        for lane in waiting:
            if not unheard(self._app, lane):
                ring(self._app, lane)
        if to_send and not webhooks_unheard(self._app):
            ring_webhooks(self._app)

    def _note(self, error: Exception) -> None:
        """Once per outage, not once per second."""
        if not self._was_away:
            logger.warning("sweeping is held up: %s", error, extra={"action": "sweep_held_up"})
        self._was_away = True


def main() -> None:
    import signal

    from decisions.database import sync_engine
    from workers.bells import make_app
    from workers.logs import log_to_stderr
    from workers.scheduler import Scheduler
    from workers.settings import SweeperSettings

    log_to_stderr()
    settings = SweeperSettings()
    stopping = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    database = sync_engine(settings.database_url)
    Thread(target=Scheduler(database).run, args=(stopping,), daemon=True).start()
    Sweeper(database, make_app(settings.redis_url)).run(stopping)


if __name__ == "__main__":
    main()
