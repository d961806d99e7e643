"""What OpenAI's Batch API says of output and error files."""

import json
from typing import Any

from tests.api.served import QUESTIONS, Api, StandInWorker, lines_of

DECISION = {
    "model": "default",
    "input": "It arrived broken.",
    "questions": [{"type": "predicate", "instructions": "It is whole.", "name": "whole"}],
}


def line(custom_id: str, url: str, body: Any) -> bytes:
    entry = {"custom_id": custom_id, "method": "POST", "url": url, "body": body}
    return json.dumps(entry).encode() + b"\n"


def content(api: Api, name: str) -> list[dict[str, Any]]:
    response = api.client.get(f"/v1/files/{name}/content").raise_for_status()
    file = api.client.get(f"/v1/files/{name}").json()
    assert file["bytes"] == len(response.content)
    assert file["purpose"] == "batch_output"
    return [json.loads(entry) for entry in lines_of(response.content)]


def test_a_finished_batch_has_an_output_file(api: Api, worker: StandInWorker) -> None:
    batch = api.submit([{"custom_id": str(i), "state": "a"} for i in range(3)])
    assert batch["output_file_id"] is None
    worker.work_until_empty()
    batch = api.batch(batch["id"])
    assert batch["error_file_id"] is None
    rows = content(api, batch["output_file_id"])
    assert [row["custom_id"] for row in rows] == ["0", "1", "2"]
    assert rows[0]["id"].startswith("batch_req_")
    assert rows[0]["error"] is None
    response = rows[0]["response"]
    assert response["status_code"] == 200
    assert response["body"]["object"] == "structured_decision"
    assert list(response["body"]["answers"]) == list(QUESTIONS)


def test_a_batch_of_openais_decisions_has_openais_answers(api: Api, worker: StandInWorker) -> None:
    file = b"".join(line(str(i), "/v1/decisions", DECISION) for i in range(2))
    file_id = api.upload(file)["id"]
    body = {
        "input_file_id": file_id,
        "endpoint": "/v1/decisions",
        "completion_window": "24h",
        "output_expires_after": {"anchor": "created_at", "seconds": 3600},
    }
    batch = api.client.post("/v1/batches", json=body).json()
    worker.work_until_empty()
    rows = content(api, api.batch(batch["id"])["output_file_id"])
    assert rows[1]["response"]["body"]["answers"] == [
        {"type": "predicate", "name": "whole", "probability": 0.5}
    ]


def test_failed_lines_are_in_the_error_file_with_their_status(
    api: Api, worker: StandInWorker
) -> None:
    file = (
        line("good", "/v1/systemone", {"state": "a", "questions": QUESTIONS})
        + line("no state", "/v1/systemone", {"questions": QUESTIONS})
        + b"hello\n"
    )
    batch = api.submit_file(file)
    worker.work_until_empty()
    batch = api.batch(batch["id"])
    assert len(content(api, batch["output_file_id"])) == 1
    no_state, hello = content(api, batch["error_file_id"])
    assert no_state["custom_id"] == "no state"
    assert no_state["error"] is None
    assert no_state["response"]["status_code"] == 400
    assert no_state["response"]["body"]["error"]["param"] == "state"
    assert hello["custom_id"] is None
    assert hello["response"]["body"]["error"]["line"] == 3


def test_what_expired_says_so_in_the_error_file(api: Api, worker: StandInWorker) -> None:
    batch = api.submit([{"custom_id": str(i), "state": "a"} for i in range(3)])
    worker.work(limit=1)
    worker.expire(batch["id"])
    batch = api.batch(batch["id"])
    assert len(content(api, batch["output_file_id"])) == 1
    rows = content(api, batch["error_file_id"])
    assert [row["custom_id"] for row in rows] == ["1", "2"]
    assert [row["error"]["code"] for row in rows] == ["batch_expired"] * 2
    assert [row["response"] for row in rows] == [None] * 2


def test_output_files_belong_to_their_tenant_and_end(
    api: Api, other: Api, worker: StandInWorker
) -> None:
    batch = api.submit([{"custom_id": "1", "state": "a"}])
    name = batch["id"].replace("batch_", "file-") + "-output"
    assert api.client.get(f"/v1/files/{name}").status_code == 404
    worker.work_until_empty()
    assert api.client.get(f"/v1/files/{name}").status_code == 200
    assert other.client.get(f"/v1/files/{name}").status_code == 404
    assert other.client.get(f"/v1/files/{name}/content").status_code == 404
    assert api.client.get(f"/v1/files/{name.replace('output', 'errors')}").status_code == 404
    assert api.client.delete(f"/v1/files/{name}").status_code == 404
