"""Endpoints and the delivery log, over HTTP."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, text

from api.settings import Settings
from decisions.database import transaction
from tests.api.served import Api, StandInWorker, client_of, make_key, served
from tests.receiver import Answer, Receiver, receiving
from workers.settings import SenderSettings
from workers.webhooks_sender import Sender

URL = "https://example.com/hook"
ITEM = [{"custom_id": "1", "state": "Where is my parcel?"}]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


@pytest.fixture
def private(settings: Settings, database: Engine) -> Iterator[Api]:
    """An API that takes private addresses, as a demo on one machine does."""
    with (
        served(settings.model_copy(update={"webhook_allow_private": True})) as url,
        client_of(url, make_key(database, "acme")) as client,
    ):
        yield Api(url=url, client=client)


@pytest.fixture
def sender(database: Engine, settings: Settings) -> Iterator[Sender]:
    sending = SenderSettings.model_validate(
        {
            "DATABASE_URL": settings.database_url,
            "REDIS_URL": settings.redis_url,
            "webhook_allow_private": True,
            "webhook_threads": 4,
        }
    )
    made = Sender(database, sending)
    yield made
    made.close()


def create(api: Api, **fields: Any) -> dict[str, Any]:
    response = api.client.post("/v1/webhooks", json={"url": URL, **fields})
    assert response.status_code == 201, response.text
    made: dict[str, Any] = response.json()
    return made


def post(api: Api, path: str, **body: Any) -> dict[str, Any]:
    response = api.client.post(path, json=body)
    assert response.is_success, response.text
    answer: dict[str, Any] = response.json()
    return answer


def deliveries(api: Api, **query: Any) -> list[dict[str, Any]]:
    response = api.client.get("/v1/webhooks/deliveries", params=query).raise_for_status()
    found: list[dict[str, Any]] = response.json()["data"]
    return found


def test_an_endpoint_is_made_shown_and_deleted(api: Api) -> None:
    made = create(api)
    assert made["id"] == "wh_1"
    assert made["events"] == ["batch.cancelled", "batch.completed", "batch.expired", "batch.failed"]
    assert (made["status"], made["disabled_reason"]) == ("enabled", None)
    shown = {name: value for name, value in made.items() if name != "secret"}
    assert api.client.get("/v1/webhooks").json()["data"] == [shown]
    assert api.client.get("/v1/webhooks/wh_1").json() == shown
    assert api.client.delete("/v1/webhooks/wh_1").json()["deleted"] is True
    assert api.client.get("/v1/webhooks").json()["data"] == []
    assert api.client.delete("/v1/webhooks/wh_1").status_code == 404


def test_a_secret_is_shown_once(api: Api) -> None:
    made = create(api)
    assert made["secret"].startswith("whsec_")
    for path in ("/v1/webhooks", "/v1/webhooks/wh_1", "/v1/webhooks/deliveries"):
        assert "whsec_" not in api.client.get(path).text


def test_another_tenant_sees_nothing_and_changes_nothing(api: Api, other: Api) -> None:
    create(api)
    sent = post(api, "/v1/webhooks/wh_1/test")
    assert other.client.get("/v1/webhooks").json()["data"] == []
    assert deliveries(other) == []
    for path in ("wh_1/test", "wh_1/enable", "wh_1/disable", f"deliveries/{sent['id']}/resend"):
        assert other.client.post(f"/v1/webhooks/{path}").status_code == 404
    assert other.client.post("/v1/webhooks/wh_1/rotate", json={}).status_code == 404
    for path in ("wh_1", f"deliveries/{sent['id']}"):
        assert other.client.get(f"/v1/webhooks/{path}").status_code == 404
    assert other.client.delete("/v1/webhooks/wh_1").status_code == 404
    assert len(api.client.get("/v1/webhooks").json()["data"]) == 1


BAD = {
    "no url": ({}, "url"),
    "plain http": ({"url": "http://example.com/"}, "url"),
    "a password in the url": ({"url": "https://a:b@example.com/"}, "url"),
    "a NUL in the url": ({"url": "https://example.com/\0"}, "url"),
    "no events": ({"url": URL, "events": []}, "events"),
    "an unknown event": ({"url": URL, "events": ["batch.begun"]}, "events"),
    "a reserved event": ({"url": URL, "events": ["decision.review"]}, "events"),
    "a secret that is a word": ({"url": URL, "secret": "secret"}, "secret"),
    "a field that is none": ({"url": URL, "color": "red"}, "color"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_wrong_field_is_a_422_that_names_it(api: Api, what: str) -> None:
    body, param = BAD[what]
    response = api.client.post("/v1/webhooks", json=body)
    assert response.status_code == 422, response.text
    assert response.json()["error"]["param"] == param
    assert api.client.get("/v1/webhooks").json()["data"] == []


@pytest.mark.parametrize("overlap", [-1, 8 * 24 * 3600, "1"])
def test_an_overlap_that_cannot_be_is_a_422(api: Api, overlap: Any) -> None:
    create(api)
    response = api.client.post("/v1/webhooks/wh_1/rotate", json={"overlap_seconds": overlap})
    assert response.status_code == 422


@pytest.mark.parametrize("name", ["wh_0", "wh_x", "nothing", "wh_99999999999999999999", "wh_-1"])
def test_what_is_not_there_is_a_404(api: Api, name: str) -> None:
    assert api.client.get(f"/v1/webhooks/{name}").status_code == 404
    assert api.client.post(f"/v1/webhooks/{name}/test").status_code == 404


def test_without_a_key_nothing_is_shown(shared_url: str, database: Engine) -> None:
    with client_of(shared_url) as client:
        for path in ("/v1/webhooks", "/v1/webhooks/deliveries", "/v1/webhooks/wh_1"):
            assert client.get(path).status_code == 401


def test_a_rotated_secret_signs_beside_the_old_one_and_then_alone(
    private: Api, receiver: Receiver, sender: Sender, database: Engine
) -> None:
    old = create(private, url=receiver.url)["secret"]
    rotated = post(private, "/v1/webhooks/wh_1/rotate", overlap_seconds=3600)
    new = rotated["secret"]
    assert new != old
    assert rotated["previous_secret_until"] is not None
    post(private, "/v1/webhooks/wh_1/test")
    sender.run()
    call = receiver.next()
    for secret in (new, old):
        assert call.verified(secret)["type"] == "webhook.test"
    with transaction(database) as connection:
        connection.execute(text("UPDATE webhook_endpoints SET previous_secret_until = now()"))
    post(private, "/v1/webhooks/wh_1/test")
    sender.run()
    later = receiver.next()
    assert later.verified(new)
    assert len(later.headers["webhook-signature"].split()) == 1


def test_a_secret_may_end_at_once(private: Api, receiver: Receiver, sender: Sender) -> None:
    create(private, url=receiver.url)
    new = post(private, "/v1/webhooks/wh_1/rotate", overlap_seconds=0)["secret"]
    post(private, "/v1/webhooks/wh_1/test")
    sender.run()
    call = receiver.next()
    assert call.verified(new)
    assert len(call.headers["webhook-signature"].split()) == 1


def test_the_log_shows_every_attempt_and_a_resend_keeps_the_id(
    private: Api, receiver: Receiver, sender: Sender, worker: StandInWorker
) -> None:
    create(private, url=receiver.url)
    receiver.answer = lambda _: Answer(status=410, body=b"go away")
    batch = private.submit(ITEM)
    worker.work_until_empty()
    sender.run()
    (delivery,) = deliveries(private)
    assert (delivery["type"], delivery["status"]) == ("batch.completed", "failed")
    assert (delivery["batch_id"], delivery["webhook_id"]) == (batch["id"], "wh_1")
    (attempt,) = delivery["attempts"]
    assert (attempt["status_code"], attempt["response_body"]) == (410, "go away")
    assert attempt["milliseconds"] >= 0
    refused = private.client.post(f"/v1/webhooks/deliveries/{delivery['id']}/resend")
    assert (refused.status_code, "disabled" in refused.text) == (422, True)
    assert private.client.get("/v1/webhooks/wh_1").json()["disabled_reason"] == "gone"
    assert post(private, "/v1/webhooks/wh_1/enable")["status"] == "enabled"
    receiver.answer = lambda _: Answer()
    assert post(private, f"/v1/webhooks/deliveries/{delivery['id']}/resend")["status"] == "waiting"
    sender.run()
    first, second = receiver.all()
    assert first.id == second.id == delivery["event_id"]
    assert first.body == second.body
    (delivery,) = deliveries(private)
    assert [a["status_code"] for a in delivery["attempts"]] == [410, 200]
    assert delivery["status"] == "delivered"


def test_the_log_is_filtered_and_paged(
    private: Api, receiver: Receiver, sender: Sender, worker: StandInWorker
) -> None:
    create(private, url=receiver.url)
    create(private, url=receiver.url, events=["decision.completed"])
    one, two = private.submit(ITEM), private.submit(ITEM)
    worker.work_until_empty()
    sender.run()
    everything = deliveries(private, limit=100)
    assert len(everything) == 2 + 2 * 3
    assert len(deliveries(private, webhook="wh_1")) == 2
    assert {d["type"] for d in deliveries(private, webhook="wh_2")} == {"decision.completed"}
    assert {d["batch_id"] for d in deliveries(private, batch=one["id"])} == {one["id"]}
    assert len(deliveries(private, batch=two["id"], webhook="wh_1")) == 1
    assert len(deliveries(private, status="delivered")) == 8
    assert deliveries(private, status="failed") == []
    found: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = private.client.get("/v1/webhooks/deliveries", params={"limit": 3, **after}).json()
        found += [d["id"] for d in page["data"]]
        if not page["has_more"]:
            break
        after = {"after": page["last_id"]}
    assert found == [d["id"] for d in everything]
    decision = deliveries(private, webhook="wh_2")[0]["decision_id"]
    assert private.client.get(f"/v1/decisions/{decision}").status_code == 200


def test_a_batch_without_a_secret_is_told_the_one_that_was_made_once(
    private: Api, receiver: Receiver, sender: Sender, worker: StandInWorker
) -> None:
    body = {
        "requests": ITEM,
        "questions": {"q": {"type": "noul"}},
        "webhook": {"url": receiver.url},
    }
    headers = {"Idempotency-Key": "k"}
    first = private.client.post("/v1/batches", json=body, headers=headers).json()
    again = private.client.post("/v1/batches", json=body, headers=headers).json()
    assert first["webhook"] == again["webhook"]
    secret = first["webhook"]["secret"]
    assert private.batch(first["id"])["webhook"] == {"url": receiver.url}
    worker.work_until_empty()
    sender.run()
    assert receiver.next().verified(secret)["data"]["id"] == first["id"]
    (delivery,) = deliveries(private, batch=first["id"])
    assert (delivery["webhook_id"], delivery["url"]) == (None, receiver.url)
    assert private.client.get("/v1/webhooks").json()["data"] == []


def test_a_disabled_endpoint_is_told_nothing(
    private: Api, receiver: Receiver, sender: Sender, worker: StandInWorker
) -> None:
    create(private, url=receiver.url)
    disabled = post(private, "/v1/webhooks/wh_1/disable")
    assert (disabled["status"], disabled["disabled_reason"]) == ("disabled", "asked")
    assert private.client.post("/v1/webhooks/wh_1/test").status_code == 422
    private.submit(ITEM)
    worker.work_until_empty()
    sender.run()
    assert receiver.all() == []
    assert deliveries(private) == []
    post(private, "/v1/webhooks/wh_1/enable")
    private.submit(ITEM)
    worker.work_until_empty()
    sender.run()
    assert len(receiver.all()) == 1


def test_there_are_only_so_many_endpoints(api: Api) -> None:
    for _ in range(50):
        create(api)
    response = api.client.post("/v1/webhooks", json={"url": URL})
    assert response.status_code == 422
    assert "50" in response.json()["detail"]


def test_metrics_say_what_is_due_and_how_late(
    private: Api, receiver: Receiver, sender: Sender, database: Engine
) -> None:
    def metric(name: str) -> float:
        (line,) = re.findall(
            rf"^weighbridge_webhooks_{name} (\S+)$", private.client.get("/metrics").text, re.M
        )
        return float(line)

    create(private, url=receiver.url)
    assert (metric("due"), metric("late_seconds")) == (0, 0)
    post(private, "/v1/webhooks/wh_1/test")
    with transaction(database) as connection:
        connection.execute(
            text("UPDATE webhook_deliveries SET due_at = now() - interval '90 seconds'")
        )
    assert metric("due") == 1
    assert 90 <= metric("late_seconds") < 120
    sender.run()
    assert metric("due") == 0
