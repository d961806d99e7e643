"""What is wrong with one item is that item's result, with its line and field; its neighbours go on.

What is wrong with the request around the items refuses it as a whole.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from api.settings import Settings
from tests.api.served import QUESTIONS, Api, StandInWorker, lines_of, served

FINE = b'{"custom_id":"fine","state":"a"}'
LATER = b'{"custom_id":"later","state":"b"}'


def refused_line(api: Api, line: bytes) -> dict[str, Any]:
    """The stored error of a line between two good ones, which must not mind."""
    batch = api.submit_file(b"\n".join([FINE, line, LATER]))
    assert batch["request_counts"] == {"total": 3, "completed": 0, "failed": 1}
    (shown,) = batch["errors"]["data"]
    (row,) = api.results(batch["id"])
    assert row["status"] == "failed"
    assert row["error"] == shown
    assert shown["line"] == row["line"] == 2
    error: dict[str, Any] = shown
    return error


BAD_LINES = {
    "not JSON": (b"hello", "invalid_json", None),
    "half a line": (b'{"custom_id":"x","sta', "invalid_json", None),
    "not an object": (b'["custom_id"]', "invalid_type", None),
    "no custom_id": (b'{"state":"a"}', "invalid_custom_id", "custom_id"),
    "an empty custom_id": (b'{"custom_id":"","state":"a"}', "invalid_custom_id", "custom_id"),
    "a number as custom_id": (b'{"custom_id":7,"state":"a"}', "invalid_custom_id", "custom_id"),
    "a long custom_id": (
        b'{"custom_id":"' + b"x" * 257 + b'","state":"a"}',
        "invalid_custom_id",
        "custom_id",
    ),
    "no state": (b'{"custom_id":"x"}', "missing_field", "state"),
    "an unknown field": (b'{"custom_id":"x","state":"a","sate":1}', "unknown_field", "sate"),
    "questions of another type": (
        b'{"custom_id":"x","state":"a","questions":[]}',
        "invalid_question",
        "questions",
    ),
    "no question": (
        b'{"custom_id":"x","state":"a","questions":{}}',
        "invalid_question",
        "questions",
    ),
    "an unknown type of question": (
        b'{"custom_id":"x","state":"a","questions":{"q":{"type":"essay"}}}',
        "invalid_question",
        "questions.q.type",
    ),
    "a choice without options": (
        b'{"custom_id":"x","state":"a","questions":{"q":{"type":"choice"}}}',
        "invalid_question",
        "questions.q.criteria",
    ),
    "instructions of another type": (
        b'{"custom_id":"x","state":"a","instructions":7}',
        "invalid_question",
        "instructions",
    ),
    "NaN": (b'{"custom_id":"x","state":{"a":NaN}}', "invalid_json", None),
    "Infinity": (b'{"custom_id":"x","state":-Infinity}', "invalid_json", None),
    "a number out of range": (b'{"custom_id":"x","state":1e400}', "invalid_json", None),
    "an integer of 5000 digits": (
        b'{"custom_id":"x","state":' + b"7" * 5000 + b"}",
        "invalid_json",
        None,
    ),
    "a lone surrogate": (b'{"custom_id":"x","state":"\\ud83d!"}', "invalid_json", None),
    "a lone surrogate in a key": (b'{"custom_id":"x","state":{"\\udc00":1}}', "invalid_json", None),
    "bytes that are not UTF-8": (b'{"custom_id":"x","state":"\xff\xfe"}', "invalid_json", None),
    "a raw NUL": (b'{"custom_id":"x","state":"a\0b"}', "invalid_json", None),
    "U+0000": (
        b'{"custom_id":"x","state":{"a":["b","c\\u0000d"]}}',
        "invalid_character",
        "state.a.1",
    ),
    "U+0000 in a key": (
        b'{"custom_id":"x","state":{"a":{"c\\u0000d":1}}}',
        "invalid_character",
        "state.a",
    ),
    "deep nesting": (
        b'{"custom_id":"x","state":' + b"[" * 300 + b"]" * 300 + b"}",
        "too_deep",
        None,
    ),
    "very deep nesting": (
        b'{"custom_id":"x","state":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "too_deep",
        None,
    ),
    "a second custom_id": (
        b'{"custom_id":"fine","state":"c"}',
        "duplicate_custom_id",
        "custom_id",
    ),
    "a line of 10 MB": (
        b'{"custom_id":"x","state":"' + b"x" * 10_000_000 + b'"}',
        "line_too_long",
        None,
    ),
    "another url": (
        b'{"custom_id":"x","method":"POST","url":"/v1/embeddings","body":{"state":"a"}}',
        "invalid_url",
        "url",
    ),
    "another method": (
        b'{"custom_id":"x","method":"GET","url":"/v1/systemone","body":{"state":"a"}}',
        "invalid_method",
        "method",
    ),
    "a body that is no object": (
        b'{"custom_id":"x","method":"POST","url":"/v1/systemone","body":"a"}',
        "invalid_type",
        "body",
    ),
}


@pytest.mark.parametrize("what", BAD_LINES)
def test_a_bad_line_has_an_error_that_names_it_and_takes_no_neighbour_down(
    api: Api, what: str
) -> None:
    line, code, param = BAD_LINES[what]
    error = refused_line(api, line)
    assert (error["code"], error["param"]) == (code, param)
    assert error["message"]


def test_the_neighbours_of_a_bad_line_are_answered(api: Api, worker: StandInWorker) -> None:
    batch = api.submit_file(b"\n".join([FINE, b"hello", LATER]))
    worker.work_until_empty()
    assert api.batch(batch["id"])["status"] == "completed"
    rows = [(row["line"], row["custom_id"], row["status"]) for row in api.results(batch["id"])]
    assert rows == [(1, "fine", "done"), (2, None, "failed"), (3, "later", "done")]


def test_a_duplicate_names_the_line_that_was_first(api: Api) -> None:
    message = refused_line(api, FINE)["message"]
    assert "line 1" in message
    assert "fine" in message


def test_marks_and_line_ends_of_other_systems_are_no_errors(
    api: Api, worker: StandInWorker
) -> None:
    content = b"\xef\xbb\xbf" + FINE + b"\r\n\r\n   \n" + b"oops\r\n" + LATER
    batch = api.submit_file(content)
    worker.work_until_empty()
    rows = [(row["line"], row["status"]) for row in api.results(batch["id"])]
    assert rows == [(1, "done"), (4, "failed"), (5, "done")]


def test_line_separators_inside_a_text_end_no_line_and_come_back(
    api: Api, worker: StandInWorker
) -> None:
    odd = "a\u2028b\u2029c\x85d"
    questions = {odd: {"type": "choice", "criteria": {odd: odd, "other": None}}}
    item = {"custom_id": odd, "state": odd, "questions": questions}
    line = json.dumps(item, ensure_ascii=False).encode()
    batch = api.submit_file(line + b"\n" + FINE)
    worker.work_until_empty()
    content = api.client.get(f"/v1/batches/{batch['id']}/results").content
    first, second = (json.loads(line) for line in lines_of(content))
    assert content.decode().splitlines() == content.decode().split("\n")[:-1]
    assert first["custom_id"] == odd
    assert first["answers"][odd]["choice"] == odd
    assert second["custom_id"] == "fine"
    decision = api.client.get(f"/v1/decisions/{first['decisions'][odd]}").json()
    assert decision["state"] == odd
    assert odd in decision["prompt"]["user"]


def test_a_huge_integer_is_kept_digit_by_digit(api: Api, worker: StandInWorker) -> None:
    batch = api.submit([{"custom_id": "1", "state": {"n": 2**200}}])
    worker.work_until_empty()
    (row,) = api.results(batch["id"])
    decision = api.client.get(f"/v1/decisions/{row['decisions']['urgent']}").json()
    assert decision["state"] == {"n": 2**200}


def test_a_batch_of_bad_lines_only_has_failed(api: Api) -> None:
    batch = api.submit_file(b"hello\nworld\n")
    assert batch["status"] == "failed"
    assert batch["failed_at"] >= batch["created_at"]
    assert [e["line"] for e in batch["errors"]["data"]] == [1, 2]


def test_a_batch_shows_a_hundred_errors_and_its_results_all(api: Api) -> None:
    batch = api.submit_file(b"hello\n" * 120)
    assert len(batch["errors"]["data"]) == 100
    assert len(api.results(batch["id"])) == 120


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf"])
def test_a_file_without_lines_makes_no_batch(api: Api, content: bytes) -> None:
    file_id = api.upload(content)["id"]
    refused = api.client.post("/v1/batches", json={"input_file_id": file_id})
    assert refused.status_code == 422
    assert refused.json()["error"]["code"] == "invalid_batch"
    assert api.client.get("/v1/batches").json()["data"] == []


def test_a_bad_item_of_a_request_is_refused_alone(api: Api, worker: StandInWorker) -> None:
    bad: list[Any] = [7, {"custom_id": "a"}, {"custom_id": "b", "state": "\0"}]
    batch = api.submit([*bad, {"custom_id": "c", "state": "fine"}])
    worker.work_until_empty()
    rows = api.results(batch["id"])
    assert [row["status"] for row in rows] == ["failed", "failed", "failed", "done"]
    assert [row["error"]["line"] for row in rows[:3]] == [1, 2, 3]
    assert [row["error"]["param"] for row in rows[:3]] == [None, "state", "state"]


def refused(api: Api, **fields: Any) -> dict[str, Any]:
    """The problem of a request that is refused as a whole."""
    body = {"requests": [{"custom_id": "1", "state": "a"}], "questions": QUESTIONS, **fields}
    response = api.client.post("/v1/batches", json=body)
    assert response.status_code == 422, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert api.client.get("/v1/batches").json()["data"] == []
    problem: dict[str, Any] = response.json()
    return problem


BAD_FIELDS: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown field": ({"request": []}, "request"),
    "no items": ({"requests": []}, "requests"),
    "more items than memory is good for": ({"requests": [None] * 100_001}, "requests"),
    "items of another type": ({"requests": {"a": 1}}, "requests"),
    "an unknown lane": ({"lane": "express"}, "lane"),
    "a lane of another type": ({"lane": 3}, "lane"),
    "a priority out of range": ({"priority": 40_000}, "priority"),
    "a priority of another type": ({"priority": "1"}, "priority"),
    "another endpoint": ({"endpoint": "/v1/embeddings"}, "endpoint"),
    "a window without a unit": ({"completion_window": "24"}, "completion_window"),
    "a window of nothing": ({"completion_window": "0h"}, "completion_window"),
    "a window of years": ({"completion_window": "9999d"}, "completion_window"),
    "metadata of another type": ({"metadata": {"a": 1}}, "metadata.a"),
    "too much metadata": ({"metadata": {str(i): "" for i in range(17)}}, "metadata"),
    "a long metadata value": ({"metadata": {"a": "x" * 513}}, "metadata.a"),
    "U+0000 in metadata": ({"metadata": {"a": "\0"}}, "metadata.a"),
    "U+0000 in a shared question": (
        {"questions": {"q": {"type": "noul", "instructions": "\0"}}},
        "questions.q.instructions",
    ),
    "a webhook without a url": ({"webhook": {}}, "webhook.url"),
    "a webhook that is no web address": ({"webhook": {"url": "ftp://a"}}, "webhook.url"),
    "a webhook over plain http": ({"webhook": {"url": "http://example.com/"}}, "webhook.url"),
    "a webhook with a user": ({"webhook": {"url": "https://me@example.com/"}}, "webhook.url"),
    "a webhook whose secret is a word": (
        {"webhook": {"url": "https://example.com/", "secret": "secret"}},
        "webhook.secret",
    ),
    "bad shared questions": ({"questions": {"q": {"type": "essay"}}}, "questions.q.type"),
    "bad shared instructions": ({"instructions": 7}, "instructions"),
}


@pytest.mark.parametrize("what", BAD_FIELDS)
def test_a_bad_field_refuses_the_request_and_is_named(api: Api, what: str) -> None:
    fields, param = BAD_FIELDS[what]
    problem = refused(api, **fields)
    assert problem["error"]["param"] == param
    assert problem["error"]["message"] == problem["detail"]


def test_items_and_a_file_exclude_each_other(api: Api) -> None:
    file_id = api.upload(FINE)["id"]
    assert "either" in refused(api, input_file_id=file_id)["detail"]
    assert api.client.post("/v1/batches", json={}).status_code == 422


@pytest.mark.parametrize("name", ["file-" + "0" * 32, "file-x", "batch_1", ""])
def test_a_file_that_is_not_there_is_named(api: Api, name: str) -> None:
    response = api.client.post("/v1/batches", json={"input_file_id": name})
    assert response.status_code == 422
    assert response.json()["error"]["param"] == "input_file_id"


UNREADABLE = {
    "nothing": b"",
    "no JSON": b"hello",
    "NaN": b'{"requests":[{"custom_id":"a","state":NaN}]}',
    "a lone surrogate": b'{"requests":[{"custom_id":"a","state":"\\ud800"}]}',
    "bytes that are not UTF-8": b'{"requests":["\xff"]}',
    "deep nesting": b"[" * 100_000 + b"]" * 100_000,
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_a_body_that_cannot_be_read_is_a_400(api: Api, what: str) -> None:
    json_type = {"Content-Type": "application/json"}
    response = api.client.post("/v1/batches", content=UNREADABLE[what], headers=json_type)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "malformed_body"


@pytest.mark.parametrize("body", [b"null", b"7", b"[]", b'"text"'])
def test_a_body_that_is_no_object_is_a_422(api: Api, body: bytes) -> None:
    assert api.client.post("/v1/batches", content=body).status_code == 422


def test_another_media_type_is_a_415(api: Api) -> None:
    response = api.client.post("/v1/batches", content="a: 1", headers={"Content-Type": "text/yaml"})
    assert response.status_code == 415


@pytest.fixture
def small(settings: Settings) -> Iterator[str]:
    with served(settings.model_copy(update={"max_body_bytes": 500, "max_file_bytes": 2000})) as url:
        yield url


def test_a_body_beyond_the_limit_is_a_413_that_says_the_limit(small: str, api: Api) -> None:
    for body in (b"x" * 501, iter([b"x" * 300, b"x" * 300])):
        response = api.client.post(f"{small}/v1/batches", content=body)
        assert response.status_code == 413
        assert "500 bytes" in response.json()["detail"]


def test_a_file_beyond_the_limit_is_a_413(small: str, api: Api) -> None:
    response = api.client.post(
        f"{small}/v1/files", files={"file": b"x" * 3000}, data={"purpose": "batch"}
    )
    assert response.status_code == 413
    assert api.client.get("/v1/files").json()["data"] == []
