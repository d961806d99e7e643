from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from api.settings import Settings
from decisions.database import sync_engine
from tests.api.served import Api, StandInWorker, client_of, make_key, served


@pytest.fixture
def database(database_url: str) -> Iterator[Engine]:
    engine = sync_engine(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def settings(database_url: str, redis_url: str) -> Settings:
    """Sweeps only once, at the start, so that nothing moves behind a test's back."""
    return Settings(database_url=database_url, redis_url=redis_url, port=0, sweep_seconds=3600)


@pytest.fixture
def url(settings: Settings) -> Iterator[str]:
    with served(settings) as url:
        yield url


@pytest.fixture
def api(url: str, database: Engine) -> Iterator[Api]:
    with client_of(url, make_key(database, "acme")) as client:
        yield Api(url=url, client=client)


@pytest.fixture
def other(url: str, database: Engine) -> Iterator[Api]:
    """The same API, seen by another tenant."""
    with client_of(url, make_key(database, "globex")) as client:
        yield Api(url=url, client=client)


@pytest.fixture
def worker(database: Engine) -> StandInWorker:
    return StandInWorker(database)
