from contextlib import closing

import httpx2
import psycopg
import pytest
from sqlalchemy import Engine, text

from api.settings import Settings
from decisions.database import transaction
from tests.api.served import QUESTIONS, Api, StandInWorker, client_of, make_key, served

#: Nothing listens there.
NOWHERE = "127.0.0.1:1"


def test_a_process_that_serves_is_alive_and_ready(api: Api) -> None:
    assert httpx2.get(f"{api.url}/healthz").json() == {"status": "ok"}
    ready = httpx2.get(f"{api.url}/readyz")
    assert ready.status_code == 200
    assert ready.json() == {"status": "ok", "database": "ok", "redis": "ok"}


def test_without_a_database_nothing_is_ready_and_calls_may_be_tried_again(
    settings: Settings,
) -> None:
    gone = settings.model_copy(update={"database_url": f"postgresql://x@{NOWHERE}/x"})
    with served(gone) as url:
        assert httpx2.get(f"{url}/healthz").status_code == 200
        ready = httpx2.get(f"{url}/readyz")
        assert ready.status_code == 503
        assert ready.json()["database"] == "unreachable"
        with client_of(url, "wb_any") as client:
            refused = client.get("/v1/batches")
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        assert NOWHERE not in refused.text


def test_a_schema_that_is_not_current_is_not_ready(
    settings: Settings, empty_database_url: str
) -> None:
    with served(settings.model_copy(update={"database_url": empty_database_url})) as url:
        ready = httpx2.get(f"{url}/readyz")
    assert ready.status_code == 503
    assert ready.json()["database"] == "schema is not current"


def test_without_redis_submissions_are_accepted_and_said_to_be_degraded(
    settings: Settings, database: Engine, worker: StandInWorker, caplog: pytest.LogCaptureFixture
) -> None:
    gone = settings.model_copy(update={"redis_url": f"redis://{NOWHERE}/0"})
    with served(gone) as url, client_of(url, make_key(database, "acme")) as client:
        api = Api(url=url, client=client)
        batches = [api.submit([{"custom_id": "1", "state": "a"}]) for _ in range(3)]
        ready = httpx2.get(f"{url}/readyz")
        worker.work_until_empty()
        assert {api.batch(b["id"])["status"] for b in batches} == {"completed"}
    assert ready.status_code == 200
    assert ready.json() == {"status": "degraded", "database": "ok", "redis": "unreachable"}
    assert len([r for r in caplog.records if r.name == "api.bell"]) == 1


def test_the_api_survives_the_loss_of_its_database_connections(api: Api, database: Engine) -> None:
    api.submit([{"custom_id": "1", "state": "a"}])
    with transaction(database) as connection:
        connection.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )
    api.submit([{"custom_id": "1", "state": "a"}])


def test_metrics_count_what_is_in_the_database(api: Api, worker: StandInWorker) -> None:
    batch = api.submit([{"custom_id": str(i), "state": "a"} for i in range(5)])
    claims = worker.claim(limit=2)
    api.submit([{"custom_id": "1", "state": "a"}], lane="interactive")
    running = metrics(api)
    assert running['weighbridge_queue_items{lane="bulk",status="queued"}'] == 3
    assert running['weighbridge_queue_items{lane="bulk",status="leased"}'] == 2
    assert running['weighbridge_queue_items{lane="interactive",status="queued"}'] == 1
    assert running['weighbridge_queue_oldest_seconds{lane="bulk",status="queued"}'] >= 0
    assert running['weighbridge_batches{status="in_progress"}'] == 2
    up = 'weighbridge_worker_up{device="cpu",model="stand-in",worker="stand-in"}'
    assert running[up] == 1
    worker.complete(claims)
    worker.work_until_empty()
    done = metrics(api)
    assert done["weighbridge_prefills_total"] == 5
    assert done["weighbridge_reads_total"] == 5 * len(QUESTIONS)
    assert done['weighbridge_batches{status="completed"}'] == 1
    assert done["process_resident_memory_bytes"] > 0
    assert api.batch(batch["id"])["status"] == "completed"


def metrics(api: Api) -> dict[str, float]:
    response = httpx2.get(f"{api.url}/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    samples = [line for line in response.text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (s.rsplit(" ", 1) for s in samples)}


def test_a_submission_that_breaks_off_leaves_nothing(
    settings: Settings, database: Engine, api: Api
) -> None:
    """A client that got no answer may ask again under the same key, and gets one batch."""
    body = {"requests": [{"custom_id": "1", "state": "a"}], "questions": QUESTIONS}
    url = settings.database_url.replace("postgresql+psycopg", "postgresql")
    with closing(psycopg.connect(url)) as blocker:
        blocker.execute("LOCK TABLE items IN EXCLUSIVE MODE")
        with pytest.raises(httpx2.ReadTimeout):
            api.client.post("/v1/batches", json=body, headers={"Idempotency-Key": "k"}, timeout=0.5)
    again = api.client.post("/v1/batches", json=body, headers={"Idempotency-Key": "k"})
    assert again.status_code == 202
    assert len(api.client.get("/v1/batches").json()["data"]) == 1
