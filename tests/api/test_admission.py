"""A full queue: refused at the door, with a time to ask again, and nothing of it accepted."""

import pytest
from sqlalchemy import Engine, text

from api.settings import Settings
from decisions.database import transaction
from tests.api.served import QUESTIONS, StandInWorker, client_of, make_key, served

BODY = {
    "requests": [{"custom_id": str(n), "state": f"ticket {n}"} for n in range(3)],
    "questions": QUESTIONS,
}


@pytest.mark.parametrize("limit", ["max_open_items", "max_open_items_per_tenant"])
def test_a_full_queue_refuses_before_anything_is_accepted(
    settings: Settings, database: Engine, limit: str
) -> None:
    full = settings.model_copy(update={limit: 3})
    with served(full) as url, client_of(url, make_key(database, "acme")) as client:
        assert client.post("/v1/batches", json=BODY).status_code == 202
        refused = client.post("/v1/batches", json=BODY)
        assert refused.status_code == 429
        assert int(refused.headers["Retry-After"]) > 0
        assert refused.json()["error"]["code"] == "queue_full"
        with transaction(database) as connection:
            assert connection.execute(text("SELECT count(*) FROM items")).scalar_one() == 3
        StandInWorker(database).work_until_empty()
        assert client.post("/v1/batches", json=BODY).status_code == 202


def test_one_tenants_full_queue_is_not_anothers(settings: Settings, database: Engine) -> None:
    full = settings.model_copy(update={"max_open_items_per_tenant": 3})
    with served(full) as url:
        with client_of(url, make_key(database, "acme")) as client:
            client.post("/v1/batches", json=BODY)
            assert client.post("/v1/batches", json=BODY).status_code == 429
        with client_of(url, make_key(database, "globex")) as client:
            assert client.post("/v1/batches", json=BODY).status_code == 202
