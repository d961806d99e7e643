import json
import logging
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
import redis
from sqlalchemy import Engine, text
from sqlalchemy.ext.asyncio import AsyncEngine

from api.bell import Bell, deliver, producer
from api.settings import Settings
from api.sweeper import sweep
from decisions.database import async_engine, transaction
from decisions.lanes import DRAIN_TASK
from decisions.types import Lane
from tests.api.served import Api, StandInWorker, client_of, make_key, served


@pytest.fixture
def bells(redis_url: str) -> Iterator["Bells"]:
    with closing(redis.Redis.from_url(redis_url, decode_responses=True)) as client:
        yield Bells(client)


class Bells:
    """The bells that wait in Redis."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    def wait(self, lane: Lane) -> dict[str, Any]:
        """The next bell of a lane, as soon as there is one."""
        taken = self._client.brpop([f"weighbridge:bell-{lane}"], timeout=20)
        assert taken, "no bell rang"
        message: dict[str, Any] = json.loads(taken[1])
        return message

    def waiting(self, lane: Lane) -> int:
        return int(self._client.llen(f"weighbridge:bell-{lane}"))


def test_a_submission_rings_the_bell_of_its_lane(
    settings: Settings, database: Engine, bells: Bells
) -> None:
    with served(settings) as url, client_of(url, make_key(database, "acme")) as client:
        Api(url=url, client=client).submit([{"custom_id": "1", "state": "a"}], lane="nightly")
        message = bells.wait(Lane.NIGHTLY)
    assert message["headers"]["task"] == DRAIN_TASK
    assert message["headers"]["kwargsrepr"] == "{'lane': 'nightly'}"


def test_a_lane_whose_bell_rings_gets_no_second_one(redis_url: str, bells: Bells) -> None:
    app = producer(redis_url)
    with app.connection_for_write() as connection:
        for _ in range(3):
            deliver(app, connection, Lane.BULK)
        assert bells.waiting(Lane.BULK) == 1
        bells.wait(Lane.BULK)
        deliver(app, connection, Lane.BULK)
        assert bells.waiting(Lane.BULK) == 1
    app.close()


def test_a_lane_that_waits_is_rung_again_after_redis_lost_everything(
    settings: Settings, database: Engine, bells: Bells
) -> None:
    often = settings.model_copy(update={"sweep_seconds": 0.05})
    with served(often) as url, client_of(url, make_key(database, "acme")) as client:
        Api(url=url, client=client).submit([{"custom_id": "1", "state": "a"}])
        bells.wait(Lane.BULK)  # and nobody drains
        assert bells.wait(Lane.BULK)["headers"]["task"] == DRAIN_TASK


def test_bells_ring_again_when_redis_is_back(
    redis_url: str, bells: Bells, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    bell = Bell("redis://127.0.0.1:1/0")
    bell._note(ConnectionError("refused"))
    assert not bell.reachable
    bell._note(None)
    assert bell.reachable
    assert [r.levelname for r in caplog.records if r.name == "api.bell"] == ["WARNING", "INFO"]


@pytest.fixture
def swept(settings: Settings) -> AsyncEngine:
    return async_engine(settings.database_url)


@pytest.mark.anyio
async def test_a_sweep_returns_late_items_and_names_the_lanes_that_wait(
    swept: AsyncEngine, api: Api, database: Engine, worker: StandInWorker
) -> None:
    batch = api.submit([{"custom_id": "1", "state": "a"}], lane="interactive")
    worker.claim(Lane.INTERACTIVE)
    assert await sweep(swept) == []
    with transaction(database) as connection:
        connection.execute(
            text("UPDATE items SET lease_until = now() - CAST(:late AS interval)"),
            {"late": timedelta(seconds=1)},
        )
    assert await sweep(swept) == [Lane.INTERACTIVE]
    assert api.batch(batch["id"])["counts"]["queued"] == 1
    await swept.dispose()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
