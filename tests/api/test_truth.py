"""What people say later, over HTTP, about decisions that a stand-in has made."""

import json
from typing import Any

import pytest

from tests.api.served import Api, StandInWorker

JSON_LINES = {"Content-Type": "application/jsonl"}
CSV = {"Content-Type": "text/csv; charset=utf-8"}


def decided(api: Api, worker: StandInWorker, *names: str) -> str:
    """The id of a finished batch with an item per name."""
    batch = api.submit([{"custom_id": name, "state": f"about {name}"} for name in names])
    worker.work_until_empty()
    return str(batch["id"])


def said(api: Api, decision: str) -> list[tuple[str, str, bool]]:
    response = api.client.get(f"/v1/decisions/{decision}/truth").raise_for_status()
    return [(t["answer"], t["source"], t["in_force"]) for t in response.json()["data"]]


def decisions_of(api: Api, batch: str) -> dict[tuple[str, str], str]:
    return {
        (row["custom_id"], question): id_
        for row in api.results(batch)
        for question, id_ in row["decisions"].items()
    }


def import_lines(api: Api, lines: list[Any], **query: str) -> dict[str, Any]:
    content = b"".join(
        (line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines
    )
    response = api.client.post("/v1/truth", content=content, headers=JSON_LINES, params=query)
    imported: dict[str, Any] = response.raise_for_status().json()
    return imported


def test_one_truth_is_stored_by_the_decision_s_id(api: Api, worker: StandInWorker) -> None:
    ids = decisions_of(api, decided(api, worker, "a"))
    body = {"decision_id": ids["a", "team"], "answer": "billing", "source": "dana"}
    response = api.client.post("/v1/truth", json=body | {"time": "2026-03-29T11:00:00+02:00"})
    assert response.status_code == 201
    truth = response.json()
    assert truth["said_at"] == "2026-03-29T09:00:00+00:00"
    assert truth["in_force"]
    assert said(api, ids["a", "team"]) == [("billing", "dana", True)]
    assert said(api, ids["a", "urgent"]) == []


def test_the_newest_word_is_in_force_and_all_are_kept(api: Api, worker: StandInWorker) -> None:
    id_ = decisions_of(api, decided(api, worker, "a"))["a", "team"]
    for answer, day in (("billing", 3), ("shipping", 1), ("shipping", 5), ("billing", 4)):
        body = {"decision_id": id_, "answer": answer, "time": f"2026-03-0{day}"}
        api.client.post("/v1/truth", json=body).raise_for_status()
    history = api.client.get(f"/v1/decisions/{id_}/truth").json()["data"]
    assert [(t["answer"], t["said_at"][8:10], t["in_force"]) for t in history] == [
        ("shipping", "05", True),
        ("billing", "04", False),
        ("billing", "03", False),
        ("shipping", "01", False),
    ]


def test_a_truth_is_named_as_its_question_names_it(api: Api, worker: StandInWorker) -> None:
    batch = decided(api, worker, "a")
    for question, given, stored in (
        ("urgent", True, "yes"),
        ("urgent", "No", "no"),
        ("tone", 2, "furious"),
        ("tone", "calm", "calm"),
    ):
        name = {"batch_id": batch, "custom_id": "a", "question": question}
        response = api.client.post("/v1/truth", json={**name, "answer": given})
        assert response.json()["answer"] == stored


@pytest.mark.parametrize(
    ("changed", "status", "param"),
    [
        ({"answer": "nobody"}, 422, "answer"),
        ({"answer": None}, 422, "answer"),
        ({"answer": 0}, 422, "answer"),
        ({"custom_id": "z"}, 404, "custom_id"),
        ({"question": "colour"}, 404, "custom_id"),
        ({"decision_id": "dec_999999"}, 404, "decision_id"),
        ({"decision_id": "team"}, 404, None),
        ({"batch_id": None}, 422, "batch_id"),
        ({"time": "yesterday"}, 422, "time"),
        ({"time": "9999-01-01"}, 422, "time"),
        ({"source": 7}, 422, "source"),
        ({"sources": "dana"}, 422, "sources"),
        ({"source": "a\0b"}, 422, "source"),
    ],
)
def test_one_that_is_wrong_is_refused_by_field(
    api: Api, worker: StandInWorker, changed: dict[str, Any], status: int, param: str | None
) -> None:
    batch = decided(api, worker, "a")
    body = {"batch_id": batch, "custom_id": "a", "question": "team", "answer": "billing"}
    response = api.client.post("/v1/truth", json=body | changed)
    assert (response.status_code, response.json()["error"]["param"]) == (status, param)


def test_of_many_lines_each_bad_one_fails_alone(api: Api, worker: StandInWorker) -> None:
    batch = decided(api, worker, "a", "b")
    imported = import_lines(
        api,
        [
            {"custom_id": "a", "answer": "billing"},
            b"{not json}",
            {"custom_id": "b", "answer": "nobody"},
            {"custom_id": "z", "answer": "billing"},
            [],
            {"custom_id": "b", "question": "urgent", "answer": True, "source": "eve"},
        ],
        batch_id=batch,
        question="team",
        source="dana",
    )
    assert {k: imported[k] for k in ("total", "stored", "repeated", "failed")} == {
        "total": 6,
        "stored": 2,
        "repeated": 0,
        "failed": 4,
    }
    assert [(e["line"], e["code"], e["param"]) for e in imported["errors"]["data"]] == [
        (2, "invalid_json", None),
        (3, "invalid_truth", "answer"),
        (4, "not_found", "custom_id"),
        (5, "invalid_truth", None),
    ]
    ids = decisions_of(api, batch)
    assert said(api, ids["a", "team"]) == [("billing", "dana", True)]
    assert said(api, ids["b", "urgent"]) == [("yes", "eve", True)]


def test_a_csv_is_read_as_spreadsheets_write_it(api: Api, worker: StandInWorker) -> None:
    batch = decided(api, worker, "a,1", "b")
    content = (
        b"\xef\xbb\xbfcustom_id,question,answer,time\r\n"
        b'"a,1",team,billing,\r\n'
        b"\r\n"
        b"b,tone,2,2026-03-01T00:00:00Z\r\n"
        b"b,team\r\n"
        b"b,team,red,\r\n"
    )
    response = api.client.post(
        "/v1/truth", content=content, headers=CSV, params={"batch_id": batch}
    )
    imported = response.raise_for_status().json()
    assert (imported["stored"], imported["failed"]) == (2, 2)
    assert [(e["line"], e["code"]) for e in imported["errors"]["data"]] == [
        (5, "invalid_csv"),
        (6, "invalid_truth"),
    ]
    assert said(api, decisions_of(api, batch)["b", "tone"]) == [("furious", "api", True)]


def test_a_csv_with_a_column_that_means_nothing_is_refused(api: Api) -> None:
    response = api.client.post("/v1/truth", content=b"custom_id,anwser\n", headers=CSV)
    assert response.status_code == 422
    assert "anwser" in response.json()["detail"]


def test_a_file_that_is_sent_twice_is_counted_as_repeated(api: Api, worker: StandInWorker) -> None:
    batch = decided(api, worker, "a")
    lines = [{"custom_id": "a", "question": "team", "answer": "billing", "time": "2026-03-01"}]
    assert import_lines(api, lines, batch_id=batch)["stored"] == 1
    again = import_lines(api, lines, batch_id=batch)
    assert (again["stored"], again["repeated"]) == (0, 1)
    assert len(said(api, decisions_of(api, batch)["a", "team"])) == 1


def test_another_tenant_s_decisions_are_not_there(
    api: Api, other: Api, worker: StandInWorker
) -> None:
    batch = decided(api, worker, "a")
    id_ = decisions_of(api, batch)["a", "team"]
    for name in ({"decision_id": id_}, {"batch_id": batch, "custom_id": "a", "question": "team"}):
        response = other.client.post("/v1/truth", json={**name, "answer": "billing"})
        assert response.status_code == 404
    imported = import_lines(other, [{"decision_id": id_, "answer": "billing"}])
    assert (imported["stored"], imported["failed"]) == (0, 1)
    assert other.client.get(f"/v1/decisions/{id_}/truth").status_code == 404
    assert said(api, id_) == []


def test_many_more_lines_than_fit_into_one_statement_are_stored(
    api: Api, worker: StandInWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("decisions.truth.CHUNK", 7)
    names = [f"n{n}" for n in range(30)]
    batch = decided(api, worker, *names)
    lines = [{"custom_id": name, "question": "team", "answer": "billing"} for name in names]
    assert import_lines(api, lines, batch_id=batch)["stored"] == 30
