from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from api.settings import Settings
from tests.api.served import QUESTIONS, Api, StandInWorker, client_of, make_key, served


@pytest.fixture
def own(settings: Settings, database: Engine) -> Iterator[Api]:
    """An API of its own: what is served is remembered for a moment."""
    aliased = settings.model_copy(update={"model_aliases": ("jev-latest", "gpt-6-luna")})
    with served(aliased) as url, client_of(url, make_key(database, "acme")) as client:
        yield Api(url=url, client=client)


def test_models_are_listed_in_openais_and_typesafes_shape(own: Api, database: Engine) -> None:
    assert own.client.get("/v1/models").json() == {"object": "list", "data": [], "models": []}
    StandInWorker(database)
    models = own.client.get("/v1/models").json()
    names = ["stand-in", "jev-latest", "gpt-6-luna"]
    assert [m["id"] for m in models["data"]] == names
    assert {m["object"] for m in models["data"]} == {"model"}
    assert [m["name"] for m in models["models"]] == names
    assert all(m["description"] and m["release_date"] for m in models["models"])


def test_a_batch_may_ask_for_what_is_served_and_nothing_else(own: Api, database: Engine) -> None:
    StandInWorker(database)
    body = {"requests": [{"custom_id": "1", "state": "a"}], "questions": QUESTIONS}
    assert own.client.post("/v1/batches", json={**body, "model": "gpt-6-luna"}).status_code == 202
    refused = own.client.post("/v1/batches", json={**body, "model": "gpt-99"})
    assert refused.status_code == 404
    assert refused.json()["error"]["code"] == "model_not_found"


def test_a_line_that_asks_for_another_model_fails_alone(own: Api, worker: StandInWorker) -> None:
    lines = [
        {
            "custom_id": model,
            "method": "POST",
            "url": "/v1/systemone",
            "body": {"model": model, "state": "a", "questions": QUESTIONS},
        }
        for model in ("gpt-99", "stand-in")
    ]
    batch = own.submit(lines)
    worker.work_until_empty()
    bad, good = own.results(batch["id"])
    assert (bad["status"], bad["error"]["code"]) == ("failed", "model_not_found")
    assert good["status"] == "done"


def test_while_no_worker_lives_every_name_is_taken(own: Api) -> None:
    """Nobody can say what will be served, and the items wait."""
    body = {"requests": [{"custom_id": "1", "state": "a"}], "questions": QUESTIONS}
    assert own.client.post("/v1/batches", json={**body, "model": "later"}).status_code == 202
