import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine, text

from decisions.database import transaction
from tests.api.served import QUESTIONS, Api, StandInWorker

ITEMS = [{"custom_id": f"ticket-{i}", "state": f"text {i % 3}"} for i in range(6)]


def test_a_submission_is_accepted_with_its_address_and_a_time_to_ask_again(api: Api) -> None:
    response = api.client.post("/v1/batches", json={"requests": ITEMS, "questions": QUESTIONS})
    batch = response.json()
    assert response.status_code == 202
    assert response.headers["location"] == f"/v1/batches/{batch['id']}"
    assert int(response.headers["retry-after"]) > 0
    assert batch["object"] == "batch"
    assert batch["status"] == "in_progress"
    assert batch["lane"] == "bulk"
    assert batch["endpoint"] == "/v1/systemone"
    assert batch["completion_window"] == "24h"
    assert batch["expires_at"] == batch["created_at"] + 24 * 3600
    assert batch["request_counts"] == {"total": 6, "completed": 0, "failed": 0}
    assert batch["counts"]["queued"] == 6
    assert batch["errors"] is None


def test_what_a_client_says_of_its_batch_is_stored_and_shown(api: Api) -> None:
    batch = api.submit(
        ITEMS,
        lane="nightly",
        priority=-3,
        model="default",
        metadata={"run": "7"},
        completion_window="90m",
        webhook={"url": "https://example.com/hook", "secret": "whsec_" + "c2Vj" * 8},
    )
    assert (batch["lane"], batch["model"], batch["metadata"]) == (
        "nightly",
        "default",
        {"run": "7"},
    )
    assert batch["expires_at"] == batch["created_at"] + 90 * 60
    assert batch["webhook"] == {"url": "https://example.com/hook"}
    assert "whsec" not in json.dumps(batch)


def test_states_and_question_sets_are_stored_once_per_content(api: Api, database: Engine) -> None:
    api.submit(ITEMS)
    api.submit(ITEMS)
    with transaction(database) as connection:
        assert connection.scalar(text("SELECT count(*) FROM states")) == 3
        assert connection.scalar(text("SELECT count(*) FROM question_sets")) == 1
        assert connection.scalar(text("SELECT count(*) FROM items")) == 12


def test_an_item_may_bring_its_own_questions(api: Api, worker: StandInWorker) -> None:
    own = {"only": {"type": "noul", "instructions": "Really?"}}
    batch = api.submit([*ITEMS[:1], {"custom_id": "own", "state": None, "questions": own}])
    worker.work_until_empty()
    first, second = api.results(batch["id"])
    assert list(first["answers"]) == ["team", "urgent", "tone"]
    assert list(second["answers"]) == ["only"]


def test_counts_and_status_follow_the_work(api: Api, worker: StandInWorker) -> None:
    batch = api.submit(ITEMS)
    claims = worker.claim(limit=2)
    running = api.batch(batch["id"])
    assert (running["counts"]["queued"], running["counts"]["leased"]) == (4, 2)
    worker.complete(claims)
    worker.work_until_empty()
    done = api.batch(batch["id"])
    assert done["status"] == "completed"
    assert done["request_counts"] == {"total": 6, "completed": 6, "failed": 0}
    assert done["counts"]["queued"] == done["counts"]["leased"] == 0
    assert done["completed_at"] >= done["created_at"]
    assert done["usage"]["input_tokens"] == 60
    assert done["usage"]["total_tokens"] == 66


def test_an_unchanged_batch_is_not_sent_again(api: Api, worker: StandInWorker) -> None:
    path = f"/v1/batches/{api.submit(ITEMS)['id']}"
    first = api.client.get(path)
    again = {"If-None-Match": first.headers["etag"]}
    assert api.client.get(path, headers=again).status_code == 304
    assert "retry-after" in first.headers
    worker.work_until_empty()
    changed = api.client.get(path, headers=again)
    assert changed.status_code == 200
    assert "retry-after" not in changed.headers


def test_batches_are_listed_newest_first_page_by_page(api: Api) -> None:
    ids = [api.submit(ITEMS[:1])["id"] for _ in range(5)][::-1]
    first = api.client.get("/v1/batches", params={"limit": 3}).json()
    assert [b["id"] for b in first["data"]] == ids[:3]
    assert (first["object"], first["has_more"]) == ("list", True)
    assert (first["first_id"], first["last_id"]) == (ids[0], ids[2])
    rest = api.client.get("/v1/batches", params={"limit": 3, "after": first["last_id"]}).json()
    assert [b["id"] for b in rest["data"]] == ids[3:]
    assert rest["has_more"] is False
    end = api.client.get("/v1/batches", params={"after": ids[-1]}).json()
    assert (end["data"], end["first_id"], end["last_id"]) == ([], None, None)


def test_cancelling_ends_what_is_queued_and_leaves_what_is_being_read(
    api: Api, worker: StandInWorker
) -> None:
    batch = api.submit(ITEMS)
    claims = worker.claim(limit=2)
    cancelling = api.client.post(f"/v1/batches/{batch['id']}/cancel").json()
    assert cancelling["status"] == "cancelling"
    assert cancelling["counts"]["cancelled"] == 4
    worker.complete(claims)
    cancelled = api.batch(batch["id"])
    assert cancelled["status"] == "cancelled"
    assert cancelled["counts"]["done"] == 2
    rows = api.results(batch["id"])
    assert sorted({row["status"] for row in rows}) == ["cancelled", "done"]
    ended = next(row for row in rows if row["status"] == "cancelled")
    assert ended["error"]["code"] == "batch_cancelled"
    assert ended["error"]["line"] == ended["line"]


def test_cancelling_twice_or_too_late_changes_nothing(api: Api, worker: StandInWorker) -> None:
    batch = api.submit(ITEMS)
    worker.work_until_empty()
    again = api.client.post(f"/v1/batches/{batch['id']}/cancel")
    assert again.status_code == 200
    assert again.json()["status"] == "completed"


def submit_under_key(api: Api, key: str, requests: list[Any]) -> Any:
    return api.client.post(
        "/v1/batches",
        json={"requests": requests, "questions": QUESTIONS},
        headers={"Idempotency-Key": key},
    )


def test_fifty_equal_submissions_at_once_make_one_batch(api: Api, database: Engine) -> None:
    with ThreadPoolExecutor(50) as pool:
        responses = list(pool.map(lambda _: submit_under_key(api, "k1", ITEMS), range(50)))
    assert {r.status_code for r in responses} == {202}
    assert len({r.json()["id"] for r in responses}) == 1
    replayed = [r for r in responses if r.headers.get("idempotency-replayed") == "true"]
    assert len(replayed) == 49
    with transaction(database) as connection:
        assert connection.scalar(text("SELECT count(*) FROM batches")) == 1
        assert connection.scalar(text("SELECT count(*) FROM items")) == 6


def test_a_key_with_another_body_is_refused(api: Api) -> None:
    first = submit_under_key(api, "k1", ITEMS)
    other = submit_under_key(api, "k1", ITEMS[:2])
    assert first.status_code == 202
    assert other.status_code == 422
    assert other.json()["error"]["code"] == "idempotency_key_reused"


def test_a_key_belongs_to_its_tenant(api: Api, other: Api) -> None:
    ids = {submit_under_key(who, "k1", ITEMS).json()["id"] for who in (api, other)}
    assert len(ids) == 2


def test_a_refused_submission_does_not_use_its_key_up(api: Api) -> None:
    assert submit_under_key(api, "k1", [7]).status_code == 202  # every item refused, yet stored
    assert (
        api.client.post(
            "/v1/batches", json={"requests": []}, headers={"Idempotency-Key": "k2"}
        ).status_code
        == 422
    )
    assert submit_under_key(api, "k2", ITEMS).status_code == 202


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_a_key_that_cannot_be_kept_is_refused(api: Api, key: str) -> None:
    assert submit_under_key(api, key, ITEMS).status_code == 422


def test_a_batch_of_a_file_is_a_batch_of_its_lines(api: Api, worker: StandInWorker) -> None:
    content = b"".join(json.dumps(item).encode() + b"\n" for item in ITEMS)
    batch = api.submit_file(content)
    assert batch["input_file_id"].startswith("file-")
    worker.work_until_empty()
    assert [row["custom_id"] for row in api.results(batch["id"])] == [
        item["custom_id"] for item in ITEMS
    ]


def test_openais_batch_lines_are_read_as_well(api: Api, worker: StandInWorker) -> None:
    line = {
        "custom_id": "1",
        "method": "POST",
        "url": "/v1/systemone",
        "body": {"model": "default", "state": "text", "questions": QUESTIONS},
    }
    batch = api.submit_file(json.dumps(line).encode())
    worker.work_until_empty()
    (row,) = api.results(batch["id"])
    assert row["status"] == "done"
    assert list(row["answers"]) == list(QUESTIONS)
