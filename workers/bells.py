"""The Celery application and its two verbs: ring a bell, and count the bells not yet heard."""

from typing import Any

from celery import Celery
from kombu.exceptions import OperationalError

from decisions.lanes import (
    BY_URGENCY,
    DRAIN_TASK,
    VISIBILITY_TIMEOUT,
    bell_queue,
    transport_options,
)
from decisions.types import Lane
from decisions.webhooks import BELL_QUEUE, DELIVER_TASK


def make_app(redis_url: str) -> Celery:
    """Bells only: no results, JSON, acknowledged when taken, one at a time."""
    app = Celery("weighbridge", broker=redis_url, set_as_current=False)
    app.conf.update(
        broker_transport_options=transport_options(),
        broker_connection_retry_on_startup=True,
        visibility_timeout=VISIBILITY_TIMEOUT,
        task_ignore_result=True,
        task_acks_late=False,
        task_serializer="json",
        accept_content=["json"],
        task_create_missing_queues=True,
        task_default_queue=bell_queue(BY_URGENCY[0]),
        # CUDA cannot be used in a forked child.
        worker_pool_start_method="spawn",
        worker_prefetch_multiplier=1,
        worker_disable_prefetch=True,
        worker_send_task_events=False,
        task_send_sent_event=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        # A child loads the model before it says that it is up.
        worker_proc_alive_timeout=600,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
    )
    return app


def ring(app: Celery, lane: Lane) -> bool:
    """Whether the broker took it; a bell that is lost is rung again by the next sweep."""
    return _send(app, DRAIN_TASK, bell_queue(lane), {"lane": str(lane)})


def ring_webhooks(app: Celery) -> bool:
    """Like `ring`, for the worker that sends webhooks."""
    return _send(app, DELIVER_TASK, BELL_QUEUE, {})


def unheard(app: Celery, lane: Lane) -> int:
    """Bells of a lane that wait for a worker. Raises OperationalError when the broker is away."""
    return _waiting(app, bell_queue(lane))


def webhooks_unheard(app: Celery) -> int:
    """Like `unheard`, for the worker that sends webhooks."""
    return _waiting(app, BELL_QUEUE)


def _send(app: Celery, task: str, queue: str, arguments: dict[str, str]) -> bool:
    try:
        app.send_task(task, kwargs=arguments, queue=queue, retry=False)
    except OperationalError:
        return False
    return True


def _waiting(app: Celery, queue: str) -> int:
    with app.connection_for_write() as connection:
        channel: Any = connection.default_channel
        return int(channel.queue_declare(queue=queue).message_count)
