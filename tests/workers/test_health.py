"""What a container's health check says about workers that live, stopped, or are elsewhere."""

from uuid import uuid4

import pytest
from sqlalchemy import Engine

from decisions import fleet
from decisions.database import sync_engine, transaction
from workers.health import alive_here

SETTINGS = dict.fromkeys(
    ("model", "revision", "dtype", "kv_format", "attention", "engine_version", "device"), "x"
)


@pytest.fixture
def database(database_url: str) -> Engine:
    return sync_engine(database_url)


def test_only_a_live_worker_of_this_host_is_healthy(database_url: str, database: Engine) -> None:
    worker = uuid4()
    assert not alive_here(database_url, "host")
    with transaction(database) as connection:
        version = connection.execute(fleet.record_model_version(SETTINGS)).scalar_one()
        connection.execute(fleet.register_worker(worker, "host:7", version, 2048, []))
    assert alive_here(database_url, "host")
    assert not alive_here(database_url, "hos")
    with transaction(database) as connection:
        connection.execute(fleet.stopped(worker))
    assert not alive_here(database_url, "host")
    database.dispose()
