from collections.abc import Callable

import httpx2
import pytest
from sqlalchemy import Engine

from api.settings import Auth, Settings
from decisions import keys
from decisions.database import transaction
from tests.api.served import Api, StandInWorker, client_of, make_key, served

ROUTES = [
    ("GET", "/v1/batches"),
    ("POST", "/v1/batches"),
    ("GET", "/v1/batches/batch_1"),
    ("GET", "/v1/batches/batch_1/results"),
    ("POST", "/v1/batches/batch_1/cancel"),
    ("GET", "/v1/files"),
    ("POST", "/v1/files"),
    ("GET", "/v1/files/file-1"),
    ("GET", "/v1/files/file-1/content"),
    ("DELETE", "/v1/files/file-1"),
    ("GET", "/v1/decisions/dec_1"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_route_asks_for_a_key(api: Api, method: str, path: str) -> None:
    response = httpx2.request(method, api.url + path)
    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith("Bearer")
    assert response.json()["error"]["type"] == "authentication_error"


@pytest.mark.parametrize("header", ["Bearer wb_unknown", "Bearer", "Basic YTpi", "wb_unknown"])
def test_what_is_no_key_is_refused(api: Api, header: str) -> None:
    response = httpx2.get(f"{api.url}/v1/batches", headers={"Authorization": header})
    assert response.status_code == 401


def test_a_revoked_key_is_refused(api: Api, database: Engine) -> None:
    assert api.client.get("/v1/batches").status_code == 200
    with transaction(database) as connection:
        (key,) = connection.execute(keys.listing()).all()
        assert key.last_used_at is not None
        connection.execute(keys.revoke(key.id))
    assert api.client.get("/v1/batches").status_code == 401


def test_without_authentication_everyone_is_the_default_tenant(
    settings: Settings, database: Engine
) -> None:
    with served(settings.model_copy(update={"auth": Auth.OFF})) as url:
        body = {
            "requests": [{"custom_id": "1", "state": "a", "questions": {"q": {"type": "noul"}}}]
        }
        made = httpx2.post(f"{url}/v1/batches", json=body, headers={"Authorization": "Bearer x"})
        assert made.status_code == 202
        with client_of(url, make_key(database, keys.DEFAULT_TENANT)) as client:
            assert client.get(f"/v1/batches/{made.json()['id']}").status_code == 200


def test_tenants_cannot_see_each_other(api: Api, other: Api, worker: StandInWorker) -> None:
    batch = api.submit_file(b'{"custom_id":"1","state":"a"}')
    worker.work_until_empty()
    (row,) = api.results(batch["id"])
    file_id, decision_id = batch["input_file_id"], row["decisions"]["team"]
    get: Callable[[str], httpx2.Response] = other.client.get
    assert get("/v1/batches").json()["data"] == []
    assert get("/v1/files").json()["data"] == []
    for path in (
        f"/v1/batches/{batch['id']}",
        f"/v1/batches/{batch['id']}/results",
        f"/v1/files/{file_id}",
        f"/v1/files/{file_id}/content",
        f"/v1/decisions/{decision_id}",
    ):
        assert api.client.get(path).status_code == 200
        assert get(path).status_code == 404
    assert other.client.post(f"/v1/batches/{batch['id']}/cancel").status_code == 404
    assert other.client.delete(f"/v1/files/{file_id}").status_code == 404
    stolen = other.client.post("/v1/batches", json={"input_file_id": file_id})
    assert stolen.json()["error"]["param"] == "input_file_id"


def test_the_same_state_of_two_tenants_is_stored_twice(
    api: Api, other: Api, worker: StandInWorker
) -> None:
    batches = [who.submit([{"custom_id": "1", "state": "a"}]) for who in (api, other)]
    worker.work_until_empty()
    for who, batch in zip((api, other), batches, strict=True):
        assert [row["status"] for row in who.results(batch["id"])] == ["done"]
