"""What goes through the broker, and how the worker listens to it."""

import json
from base64 import b64decode

import redis

from decisions.lanes import bell_queue, transport_options
from decisions.types import Lane
from workers.bells import make_app, ring, unheard


def test_a_bell_holds_the_name_of_a_lane_and_nothing_else(redis_url: str) -> None:
    app = make_app(redis_url)
    assert ring(app, Lane.BULK)
    assert unheard(app, Lane.BULK) == 1
    assert unheard(app, Lane.NIGHTLY) == 0
    with redis.Redis.from_url(redis_url) as client:
        prefix = transport_options()["global_keyprefix"]
        [message] = client.lrange(f"{prefix}{bell_queue(Lane.BULK)}", 0, -1)
    assert len(message) < 2000
    args, kwargs, _ = json.loads(b64decode(json.loads(message)["body"]))
    assert (args, kwargs) == ([], {"lane": "bulk"})


def test_a_broker_that_is_away_is_said_and_not_raised() -> None:
    assert ring(make_app("redis://127.0.0.1:9"), Lane.BULK) is False


def test_the_worker_listens_as_measured() -> None:
    """Each of these was seen to lose, double or pile up work when it is otherwise."""
    conf = make_app("redis://unused").conf
    assert conf.task_acks_late is False
    assert conf.task_ignore_result is True
    assert conf.worker_disable_prefetch is True
    assert conf.worker_pool_start_method == "spawn"
    assert conf.worker_proc_alive_timeout >= 600
    assert conf.worker_send_task_events is False
    assert conf.task_send_sent_event is False
    assert conf.accept_content == ["json"]
    assert conf.result_backend is None
