import json
from itertools import pairwise

import pytest

from tests.api.served import QUESTIONS, Api, StandInWorker, lines_of

ITEMS = [{"custom_id": f"{i}", "state": f"text {i}"} for i in range(6)]


def test_a_result_carries_its_answers_in_the_order_of_the_questions(
    api: Api, worker: StandInWorker
) -> None:
    batch = api.submit(ITEMS[:1])
    worker.work_until_empty()
    (row,) = api.results(batch["id"])
    assert list(row) == [
        "custom_id",
        "line",
        "status",
        "answers",
        "diagnostics",
        "decisions",
        "usage",
        "error",
    ]
    assert list(row["answers"]) == list(row["diagnostics"]) == list(row["decisions"])
    assert list(row["answers"]) == list(QUESTIONS)
    assert row["answers"]["team"] == {
        "type": "choice",
        "choice": "shipping",
        "probabilities": {"shipping": 0.5, "billing": 0.5},
        "confidence": pytest.approx(0.45),
    }
    assert row["answers"]["urgent"]["noul"] == 0.5
    assert row["answers"]["tone"]["legend"] == {"0": "calm", "1": "cross", "2": "furious"}
    assert row["answers"]["tone"]["score"] == pytest.approx(1.0)
    assert row["diagnostics"]["team"]["label_mass"] == pytest.approx(0.9)
    assert row["diagnostics"]["team"]["argmax_is_label"] is True
    assert row["decisions"]["team"].startswith("dec_")
    assert row["usage"] == {"input_tokens": 30, "output_tokens": 3}
    assert row["error"] is None


def test_results_are_readable_while_the_batch_runs_and_in_input_order(
    api: Api, worker: StandInWorker
) -> None:
    batch = api.submit(ITEMS)
    assert api.results(batch["id"]) == []
    first, second = worker.claim(limit=2), worker.claim(limit=2)
    worker.complete(second)
    assert [row["line"] for row in api.results(batch["id"])] == [3, 4]
    worker.complete(first)
    assert [row["line"] for row in api.results(batch["id"])] == [1, 2, 3, 4]
    assert api.batch(batch["id"])["status"] == "in_progress"


def test_reading_goes_on_after_a_line(api: Api, worker: StandInWorker) -> None:
    batch = api.submit(ITEMS)
    worker.work_until_empty()
    assert [row["line"] for row in api.results(batch["id"], after_line=4)] == [5, 6]


def test_more_results_than_a_page_come_once_each(api: Api, worker: StandInWorker) -> None:
    batch = api.submit([{"custom_id": str(i), "state": "a"} for i in range(1201)])
    while worker.work(limit=400):
        pass
    numbers = [row["line"] for row in api.results(batch["id"])]
    assert len(numbers) == 1201
    assert all(b == a + 1 for a, b in pairwise(numbers))


def test_results_are_json_lines(api: Api, worker: StandInWorker) -> None:
    batch = api.submit(ITEMS)
    worker.work_until_empty()
    response = api.client.get(f"/v1/batches/{batch['id']}/results")
    assert response.headers["content-type"] == "application/jsonl"
    assert [json.loads(line)["custom_id"] for line in lines_of(response.content)] == [
        item["custom_id"] for item in ITEMS
    ]


def test_what_happened_to_the_rest_of_an_expired_batch_is_in_its_results(
    api: Api, worker: StandInWorker
) -> None:
    batch = api.submit(ITEMS)
    worker.work(limit=2)
    worker.expire(batch["id"])
    rows = api.results(batch["id"])
    assert [row["status"] for row in rows] == ["done"] * 2 + ["expired"] * 4
    assert rows[-1]["error"]["code"] == "batch_expired"
    assert api.batch(batch["id"])["status"] == "expired"


@pytest.mark.parametrize("line", [-1, 1 << 31, 1 << 63])
def test_a_line_that_cannot_be_is_refused(api: Api, line: int) -> None:
    batch = api.submit(ITEMS[:1])
    path = f"/v1/batches/{batch['id']}/results"
    assert api.client.get(path, params={"after_line": line}).status_code == 422
