"""Lines in and answers out on one connection, on the durable path."""

import itertools
import json
from collections.abc import Iterator
from threading import Thread
from typing import Any, NoReturn

import httpx2
import pytest
from sqlalchemy import Engine, text

from api.settings import Settings
from decisions.database import transaction
from decisions.types import Lane
from tests.api.duplex import Duplex, streaming
from tests.api.served import QUESTIONS, Api, StandInWorker, client_of, lines_of, make_key, served

SHARED = json.dumps(QUESTIONS)


def item(n: int, **fields: Any) -> dict[str, Any]:
    return {"custom_id": f"t-{n}", "state": f"text {n}", **fields}


@pytest.fixture
def bulk(worker: StandInWorker, redis_url: str) -> Iterator[StandInWorker]:
    """A stand-in that answers the bulk lane as its bell rings."""
    with worker.listening(redis_url, Lane.BULK):
        yield worker


def post(api: Api, content: bytes, **query: str) -> list[dict[str, Any]]:
    """A whole stream at once, its notices left out."""
    response = api.client.post("/v1/stream", content=content, params=query)
    assert response.status_code == 200, response.text
    lines = [json.loads(line) for line in lines_of(response.content)]
    return [line for line in lines if line["object"] != "stream.accepted"]


def count(database: Engine, table: str) -> int:
    with transaction(database) as connection:
        return int(connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())


def test_answers_come_while_the_body_is_still_being_sent(api: Api, bulk: StandInWorker) -> None:
    with streaming(api, questions=SHARED) as stream:
        for n in range(3):
            stream.send(item(n))
            answer = stream.line()
            assert (answer["object"], answer["custom_id"]) == ("stream.result", f"t-{n}")
            assert (answer["line"], answer["status"]) == (n + 1, "done")
        stream.end()
        assert list(stream.lines()) == []
        assert stream.last == {
            "object": "stream.end",
            "lines": 3,
            "unanswered": [],
            "complete": True,
        }


def test_an_answer_is_a_result_of_a_batch_that_can_be_found_again(
    api: Api, bulk: StandInWorker
) -> None:
    with streaming(api, questions=SHARED) as stream:
        stream.send(item(1), item(2))
        stream.end()
        answers = {answer["custom_id"]: answer for answer in stream.lines()}
        name = stream.response.headers["Weighbridge-Stream"]
    (told,) = {answer["batch_id"] for answer in answers.values()}
    assert stream.batches == [{"object": "stream.accepted", "batch_id": told, "first_line": 1}]
    assert api.batch(told)["metadata"] == {"stream": name, "first_line": "1"}
    for result in api.results(told):
        assert result.items() <= answers[result["custom_id"]].items()


def test_the_first_line_may_bring_the_questions(api: Api, bulk: StandInWorker) -> None:
    own = {"mine": {"type": "noul"}}
    with streaming(api) as stream:
        stream.send({"questions": QUESTIONS, "instructions": "Be fair."})
        stream.send(item(1), item(2, questions=own))
        stream.end()
        answers = {answer["line"]: answer for answer in stream.lines()}
    assert list(answers[2]["answers"]) == list(QUESTIONS)
    assert list(answers[3]["answers"]) == list(own)
    decision = api.client.get(f"/v1/decisions/{answers[2]['decisions']['team']}").json()
    assert decision["prompt"]["system"] == "Be fair."


def test_bad_lines_are_answered_in_place_and_the_others_go_on(
    api: Api, bulk: StandInWorker, database: Engine
) -> None:
    content = (
        b'\xef\xbb\xbf{"custom_id": "a", "state": "one\xe2\x80\xa8line"}\r\n'
        b"\r\n"
        b"{not json}\n"
        b'{"custom_id": "a", "state": "again"}\n'
        b'{"custom_id": "b", "state": "\\u0000"}\n'
        b'{"custom_id": "c"}\n'
        b'{"custom_id": "d", "state": 1, "key": ""}\n'
        b'{"custom_id": "e", "state": 1, "questions": {}}\n'
        b'{"custom_id": "f", "state": 1, "other": 2}\n'
        b'{"custom_id": "g", "state": "last"}'
    )
    *answers, end = post(api, content, questions=SHARED)
    found = {(a["line"], a["status"], (a["error"] or {}).get("code")) for a in answers}
    assert found == {
        (1, "done", None),
        (3, "failed", "invalid_json"),
        (4, "done", None),
        (5, "failed", "invalid_character"),
        (6, "failed", "missing_field"),
        (7, "failed", "invalid_key"),
        (8, "failed", "invalid_question"),
        (9, "failed", "unknown_field"),
        (10, "done", None),
    }
    assert all(a["error"]["line"] == a["line"] for a in answers if a["error"])
    assert end["lines"] == 10
    assert count(database, "items") == 3


def test_bad_shared_questions_are_a_422_or_the_first_lines_error(
    api: Api, bulk: StandInWorker
) -> None:
    refused = api.client.post("/v1/stream", content=b"", params={"questions": "{}"})
    assert refused.status_code == 422
    assert api.client.post("/v1/stream", params={"questions": "{"}).status_code == 422
    first, second, _ = post(api, b'{"questions": {}}\n{"custom_id": "a", "state": 1}\n')
    assert (first["line"], first["error"]["code"]) == (1, "invalid_question")
    assert (second["line"], second["error"]["code"]) == (2, "missing_field")


def test_a_line_sent_again_under_its_key_is_answered_and_not_read_again(
    api: Api, bulk: StandInWorker, database: Engine
) -> None:
    lines = [json.dumps(item(n, key=f"orders/{n}")).encode() + b"\n" for n in range(3)]
    first = post(api, b"".join(lines[:2]), questions=SHARED)
    again = post(api, b"".join(lines), questions=SHARED)
    decisions = {a["custom_id"]: a["decisions"] for a in again[:-1]}
    assert {a["custom_id"]: a["decisions"] for a in first[:-1]}.items() < decisions.items()
    assert sorted(a["line"] for a in again[:-1]) == [1, 2, 3]
    assert count(database, "items") == 3


def test_a_line_that_comes_twice_in_one_stream_is_read_once(
    api: Api, worker: StandInWorker, database: Engine
) -> None:
    with streaming(api, questions=SHARED) as stream:
        stream.send(*[item(1, key="k")] * 3)
        stream.end()
        while not worker.work():
            pass
        answers = list(stream.lines())
    assert sorted(a["line"] for a in answers) == [1, 2, 3]
    assert len({a["decisions"]["team"] for a in answers}) == 1
    assert count(database, "items") == 1


def test_a_key_that_was_used_for_another_item_is_refused(
    api: Api, bulk: StandInWorker, database: Engine
) -> None:
    lines = [item(1, key="k"), item(1, key="k", state="other"), item(2, key="k"), item(3)]
    content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    *answers, _ = post(api, content, questions=SHARED)
    codes = {a["line"]: (a["error"] or {}).get("code") for a in answers}
    reused = "idempotency_key_reused"
    assert codes == {1: None, 2: reused, 3: reused, 4: None}
    assert count(database, "items") == 2


def test_streams_that_send_the_same_lines_at_once_read_each_once(
    api: Api, bulk: StandInWorker, database: Engine
) -> None:
    lines = [json.dumps(item(n, key=f"k{n}")).encode() + b"\n" for n in range(200)]
    told: list[set[str]] = []

    def run(content: bytes) -> None:
        with client_of(api.url) as client:
            client.headers["Authorization"] = api.client.headers["Authorization"]
            *answers, _ = post(Api(url=api.url, client=client), content, questions=SHARED)
            told.append({a["decisions"]["team"] for a in answers})

    orders = [lines, lines[::-1], lines[100:] + lines[:100]]
    threads = [Thread(target=run, args=[b"".join(order)]) for order in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(one) for one in told] == [200] * 3
    assert told[0] == told[1] == told[2]
    assert count(database, "items") == 200


@pytest.fixture
def narrow(settings: Settings, database: Engine, worker: StandInWorker) -> Iterator[Api]:
    """An API that lets 8 items of a stream be in flight."""
    few = settings.model_copy(update={"stream_items": 8})
    with served(few) as url, client_of(url, make_key(database, "acme")) as client:
        yield Api(url=url, client=client)


def send_until_it_blocks(stream: Duplex) -> NoReturn:
    stream.connection.sock.settimeout(1)
    for n in itertools.count():
        stream.send(item(n, state="x" * 20_000))
    raise AssertionError


def test_a_full_stream_is_not_read_until_answers_are_there(
    narrow: Api, worker: StandInWorker, database: Engine
) -> None:
    with streaming(narrow, questions=SHARED) as stream:
        with pytest.raises(TimeoutError):
            send_until_it_blocks(stream)
        assert 0 < count(database, "items") < 8 + 64
        # What was cut off above is a broken chunk: the connection ends, and nothing accepted is lost.
    accepted = count(database, "items")
    worker.work_until_empty()
    assert count(database, "decisions") == 3 * accepted


def test_a_full_queue_is_waited_for(
    settings: Settings, database: Engine, bulk: StandInWorker
) -> None:
    full = settings.model_copy(update={"max_open_items_per_tenant": 1})
    with served(full) as url, client_of(url, make_key(database, "acme")) as client:
        api = Api(url=url, client=client)
        with streaming(api, questions=SHARED) as stream:
            for n in range(3):
                stream.send(item(n))
            stream.end()
            assert len(list(stream.lines())) == 3


def test_what_was_accepted_is_decided_when_the_connection_dies(
    api: Api, worker: StandInWorker, database: Engine
) -> None:
    with streaming(api, questions=SHARED) as stream:
        stream.send(*(item(n, key=f"k{n}") for n in range(5)))
        while count(database, "items") < 5:
            pass
        notice = json.loads(stream.response.readline())
    worker.work_until_empty()
    assert len(api.results(notice["batch_id"])) == 5
    content = b"".join(json.dumps(item(n, key=f"k{n}")).encode() + b"\n" for n in range(5))
    assert [a["status"] for a in post(api, content, questions=SHARED)[:-1]] == ["done"] * 5
    assert count(database, "items") == 5


def test_a_cancelled_batch_of_a_stream_answers_its_lines(api: Api) -> None:
    with streaming(api, questions=SHARED) as stream:
        stream.send(item(1))
        notice = json.loads(stream.response.readline())
        api.client.post(f"/v1/batches/{notice['batch_id']}/cancel").raise_for_status()
        assert stream.line()["error"]["code"] == "batch_cancelled"
        stream.end()
        assert list(stream.lines()) == []


def test_the_interactive_lane_can_be_asked_for(api: Api, answering: StandInWorker) -> None:
    (answer, _) = post(api, json.dumps(item(1)).encode(), questions=SHARED, lane="interactive")
    assert api.batch(answer["batch_id"])["lane"] == "interactive"
    assert api.client.post("/v1/stream", params={"lane": "nightly"}).status_code == 422


def test_an_empty_stream_ends(api: Api) -> None:
    (end,) = post(api, b"")
    assert (end["lines"], end["complete"]) == (0, True)


def test_a_stream_that_cannot_be_served_is_refused_before_it_begins(narrow: Api) -> None:
    url = f"{narrow.url}/v1/stream"
    assert httpx2.post(url, content=b"").status_code == 401
    assert narrow.client.post(url, params={"model": "gpt-99"}).status_code == 404
    packed = narrow.client.post(url, content=b"", headers={"Content-Encoding": "gzip"})
    assert packed.status_code == 415
