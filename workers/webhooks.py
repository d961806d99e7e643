"""`python -m workers.webhooks`: the worker that sends webhooks, until SIGTERM. Needs no model and no torch.

It has a Celery queue of its own, so an endpoint that answers slowly never slows a read. Its bell says
that something is due; what is due stands in Postgres.
"""

import logging
import os
import sys
from threading import Event, Thread
from typing import Any

from celery import signals
from pydantic import ValidationError
from sqlalchemy.exc import SQLAlchemyError

from decisions.database import sync_engine
from decisions.webhooks import BELL_QUEUE, DELIVER_TASK
from workers.bells import make_app
from workers.logs import log_to_stderr
from workers.settings import SenderSettings
from workers.sweeper import Sweeper
from workers.webhooks_sender import Sender

logger = logging.getLogger(__name__)


def main() -> int:
    log_to_stderr()
    try:
        settings = SenderSettings()
    except ValidationError as wrong:
        print(f"weighbridge webhooks: {wrong}", file=sys.stderr)  # noqa: T201
        return 2
    serve(settings)
    return 0


def serve(settings: SenderSettings) -> None:
    database = sync_engine(settings.database_url)
    app = make_app(settings.redis_url)
    sender = Sender(database, settings)

    @app.task(name=DELIVER_TASK)
    def deliver() -> None:
        try:
            sender.run()
        except SQLAlchemyError as error:
            # Leases bring back what was under way, and the sweep rings again.
            logger.warning(
                "sending is held up: %s", type(error).__name__, extra={"action": "send_held_up"}
            )

    def stop(**_: Any) -> None:
        sender.stopping.set()

    signals.worker_shutting_down.connect(stop, weak=False)
    pulse = Event()
    sweeper = Thread(target=Sweeper(database, app).run, args=(pulse,), daemon=True)
    sweeper.start()
    try:
        app.worker_main(_arguments())
    finally:
        pulse.set()
        sweeper.join()
        sender.close()
        database.dispose()


def _arguments() -> list[str]:
    return [
        "--quiet",
        "worker",
        "--pool=solo",
        "--concurrency=1",
        f"--queues={BELL_QUEUE}",
        f"--hostname=weighbridge-webhooks-{os.getpid()}@%h",
        "--without-gossip",
        "--without-mingle",
        "--without-heartbeat",
        "--loglevel=WARNING",
    ]


if __name__ == "__main__":
    sys.exit(main())
