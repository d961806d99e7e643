"""`/v1/systemone`: vLLM's shapes and words, TypeSafe's where they do not collide."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from sqlalchemy import Engine, text

from api.settings import Settings
from decisions.database import transaction
from decisions.types import Lane
from tests.api.served import QUESTIONS, Api, StandInWorker, client_of, make_key, served

BODY: dict[str, Any] = {"state": {"text": "Où est mon colis?"}, "questions": QUESTIONS}


def ask(api: Api, headers: dict[str, str] | None = None, **fields: Any) -> httpx2.Response:
    return api.client.post("/v1/systemone", json={**BODY, **fields}, headers=headers)


def test_the_reply_has_vllms_fields_and_the_ids_of_an_audit(
    api: Api, answering: StandInWorker
) -> None:
    response = ask(api, instructions="Be fair.")
    assert response.status_code == 200, response.text
    reply = response.json()
    assert reply["id"].startswith("decision-")
    assert reply["object"] == "structured_decision"
    assert reply["model"] == "stand-in"
    assert reply["joint"] is None
    assert list(reply["answers"]) == list(QUESTIONS)
    assert reply["answers"]["team"]["confidence"] == pytest.approx(0.45)
    assert reply["answers"]["urgent"]["probabilities"] == {"yes": 0.5, "no": 0.5}
    assert reply["usage"] == {"input_tokens": 30, "output_tokens": 3}
    decision = api.client.get(f"/v1/decisions/{reply['decisions']['team']}").json()
    assert decision["state"] == BODY["state"]
    assert decision["prompt"]["system"] == "Be fair."
    assert decision["lane"] == "interactive"
    assert api.client.get(response.headers["location"]).json()["status"] == "completed"


@pytest.mark.parametrize("state", [None, "", "text", 7, True, [1, "a"], {}, {"a": {"b": None}}])
def test_any_json_is_a_state(api: Api, answering: StandInWorker, state: Any) -> None:
    reply = ask(api, state=state).raise_for_status().json()
    decision = api.client.get(f"/v1/decisions/{reply['decisions']['team']}").json()
    assert decision["state"] == state


def test_the_callers_request_id_is_in_the_replys_id(api: Api, answering: StandInWorker) -> None:
    assert ask(api, request_id="mine").json()["id"] == "decision-mine"
    sent = ask(api, {"X-Request-Id": "header"}, request_id="mine")
    assert sent.json()["id"] == sent.headers["x-typesafe-request-id"] == "decision-header"


def test_fields_that_nobody_knows_are_ignored(api: Api, answering: StandInWorker) -> None:
    assert ask(api, x_nonce="1", seed=7, temperature=0).status_code == 200


@pytest.mark.parametrize("model", ["stand-in", "jev-latest", "default", "", None])
def test_a_served_model_and_its_aliases_are_known(
    api: Api, answering: StandInWorker, model: str | None
) -> None:
    assert ask(api, model=model).json()["model"] == "stand-in"


def test_another_model_is_a_404_that_names_those_that_are(fresh: Api) -> None:
    response = ask(fresh, model="gpt-99")
    assert response.status_code == 404
    error = response.json()["error"]
    assert error["type"] == "NotFoundError"
    assert error["param"] == "model"
    assert error["message"].startswith("The model `gpt-99` does not exist. Valid aliases: ")
    assert "stand-in" in error["message"]


@pytest.fixture
def fresh(settings: Settings, database: Engine, worker: StandInWorker) -> Iterator[Api]:
    """An API that has not asked for the served models before the worker was there."""
    with served(settings) as url, client_of(url, make_key(database, "acme")) as client:
        yield Api(url=url, client=client)


@pytest.mark.parametrize(
    ("formula", "confidence"), [("label_mass", 0.45), ("peak", 0.0), ("entropy", 0.0)]
)
def test_confidence_follows_the_formula_that_was_asked_for(
    api: Api, answering: StandInWorker, formula: str, confidence: float
) -> None:
    reply = ask(api, confidence=formula).json()
    assert reply["answers"]["team"]["confidence"] == pytest.approx(confidence)


def problem(response: httpx2.Response, status: int = 400) -> dict[str, Any]:
    assert response.status_code == status, response.text
    body: dict[str, Any] = response.json()
    assert body["error"]["code"] == status
    return body


def test_a_missing_field_has_vllms_very_words(api: Api) -> None:
    response = api.client.post("/v1/systemone", json={"questions": QUESTIONS})
    assert problem(response)["error"] == {
        "message": "1 validation error:\n  {'type': 'missing', 'loc': 'body.state', "
        "'msg': 'Field required', 'input': '<dict of 1 items>'}",
        "type": "Bad Request",
        "param": "body.state",
        "code": 400,
    }


@pytest.mark.parametrize(
    ("fields", "param", "kind"),
    [
        ({"questions": []}, "body.questions", "dict_type"),
        ({"joint": "yes"}, "body.joint", "bool_type"),
        ({"instructions": 7}, "body.instructions", "string_type"),
        ({"images": "a"}, "body.images", "list_type"),
    ],
)
def test_a_wrong_type_is_named_as_vllm_names_it(
    api: Api, fields: dict[str, Any], param: str, kind: str
) -> None:
    error = problem(ask(api, **fields))["error"]
    assert (error["param"], error["type"]) == (param, "Bad Request")
    assert f"'type': '{kind}'" in error["message"]


QUESTION_ERRORS = [
    ({}, "questions: needs at least one question"),
    ({"": {"type": "noul"}}, "question ids must be non-empty"),
    ({"q": {"type": "noul", "x": 1}}, "question 'q': unknown field(s) ['x']"),
    (
        {"q": {"type": "foo"}},
        "unknown question type 'foo'; supported: ['choice', 'noul', 'score']",
    ),
    (
        {"q": {"type": "choice", "criteria": []}},
        "question 'q': choice criteria must map option names to a description or null",
    ),
    (
        {"q": {"type": "noul", "criteria": {"maybe": ""}}},
        "question 'q': noul criteria must be an object with true and false",
    ),
    (
        {"q": {"type": "score", "criteria": {"0": "low"}}},
        "question 'q': score criteria must be an ordered list of levels",
    ),
    (
        {"q": {"type": "choice", "criteria": {str(i): None for i in range(256)}}},
        "question 'q': at most 255 options for this model",
    ),
    (
        {str(i): {"type": "noul"} for i in range(401)},
        "questions: at most 400 for this model",
    ),
]


@pytest.mark.parametrize(("questions", "message"), QUESTION_ERRORS)
def test_what_is_wrong_with_a_question_has_vllms_words(
    api: Api, questions: Any, message: str
) -> None:
    body = problem(ask(api, questions=questions))
    assert body["error"]["message"] == message
    assert body["error"]["type"] == "BadRequestError"
    assert body["detail"] == {"error_type": "api_usage_error", "message": message}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"images": ["data:image/png;base64,"]}, "this model does not take image inputs"),
        ({"audio": ["a"], "videos": ["b"]}, "this model does not take audio, video inputs"),
        ({"assets": {"a": {"type": "image"}}}, "this model does not take image inputs"),
        (
            {"joint": True},
            "joint: this model reads each question on its own; joint reads need DiffusionGemma",
        ),
        (
            {"chat_template_kwargs": {"enable_thinking": True}},
            "a read is the reply's first token, so thinking must be off",
        ),
    ],
)
def test_what_is_not_served_is_refused_in_vllms_words(
    api: Api, fields: dict[str, Any], message: str
) -> None:
    assert problem(ask(api, **fields))["error"]["message"] == message


@pytest.mark.parametrize("salt", ["", "a@b", "a/b", "a\\b", "x" * 129])
def test_a_bad_cache_salt_is_refused(api: Api, salt: str) -> None:
    assert problem(ask(api, cache_salt=salt))["error"]["param"] == "cache_salt"


def test_what_changes_nothing_is_accepted(api: Api, answering: StandInWorker) -> None:
    fields: dict[str, Any] = {
        "images": [],
        "audio": None,
        "joint": False,
        "cache_salt": "mine",
        "priority": 1 << 40,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    assert ask(api, **fields).status_code == 200


def test_an_invalid_call_stores_nothing(api: Api, database: Engine) -> None:
    problem(ask(api, questions={}))
    problem(ask(api, state="\0"))
    with transaction(database) as connection:
        assert connection.scalar(text("SELECT count(*) FROM batches")) == 0


def test_the_status_and_shape_of_typesafes_errors_are_a_setting(
    settings: Settings, database: Engine
) -> None:
    typesafe = settings.model_copy(update={"invalid_status": 422})
    with served(typesafe) as url, client_of(url, make_key(database, "acme")) as client:
        api = Api(url=url, client=client)
        missing = problem(client.post("/v1/systemone", json={"questions": QUESTIONS}), 422)
        wrong = problem(ask(api, questions={"q": {"type": "foo"}}), 422)
    assert missing["detail"] == [
        {"loc": ["body", "state"], "msg": "Field required", "type": "missing"}
    ]
    assert wrong["detail"][0]["loc"] == ["body", "questions", "q", "type"]


def test_a_call_without_a_key_has_both_shapes(api: Api) -> None:
    response = httpx2.post(f"{api.url}/v1/systemone", json=BODY)
    body = problem(response, 401)
    assert body["detail"]["error_type"] == "authentication_error"
    assert response.headers["www-authenticate"].startswith("Bearer")


def test_limits_are_settings_and_are_said(settings: Settings, database: Engine) -> None:
    small = settings.model_copy(update={"max_questions": 2, "max_options": 3, "max_levels": 2})
    with served(small) as url, client_of(url, make_key(database, "acme")) as client:
        api = Api(url=url, client=client)
        assert "at most 2" in problem(ask(api))["error"]["message"]
        for question in (
            {"type": "choice", "criteria": dict.fromkeys("abcd")},
            {"type": "score", "criteria": ["a", "b", "c"]},
        ):
            assert "at most" in problem(ask(api, questions={"q": question}))["error"]["message"]


@pytest.mark.parametrize(("setting", "shown"), [("repr", "{'a': 1}"), ("json", '{"a": 1}')])
def test_structured_text_is_written_as_the_setting_says(
    settings: Settings, database: Engine, answering: StandInWorker, setting: str, shown: str
) -> None:
    changed = Settings.model_validate({**settings.model_dump(), "structured_text": setting})
    question = {"type": "noul", "instructions": {"a": 1}}
    with served(changed) as url, client_of(url, make_key(database, "acme")) as client:
        reply = ask(Api(url=url, client=client), questions={"q": question}).json()
        decision = client.get(f"/v1/decisions/{reply['decisions']['q']}").json()
    assert decision["question"]["instructions"] == shown


def test_who_does_not_want_to_wait_gets_an_address(api: Api, worker: StandInWorker) -> None:
    response = ask(api, {"Prefer": "respond-async"})
    assert response.status_code == 202
    assert response.headers["preference-applied"] == "respond-async"
    batch = response.json()
    assert response.headers["location"] == f"/v1/batches/{batch['id']}"
    worker.work_until_empty(Lane.INTERACTIVE)
    (row,) = api.results(batch["id"])
    assert list(row["answers"]) == list(QUESTIONS)


def test_who_wants_to_wait_so_long_gets_an_address_after_it(api: Api) -> None:
    response = ask(api, {"Prefer": "wait=0"})
    assert response.status_code == 202
    assert response.headers["preference-applied"] == "wait=0"


def test_who_said_nothing_gets_a_504_and_the_answer_is_not_lost(
    settings: Settings, database: Engine, worker: StandInWorker
) -> None:
    impatient = settings.model_copy(update={"wait_seconds": 0})
    with served(impatient) as url, client_of(url, make_key(database, "acme")) as client:
        api = Api(url=url, client=client)
        response = ask(api)
        body = problem(response, 504)
        assert response.headers["location"] in body["error"]["message"]
        assert response.headers["x-should-retry"] == "false"
        worker.work_until_empty(Lane.INTERACTIVE)
        batch = client.get(response.headers["location"]).json()
    assert batch["status"] == "completed"


def test_a_repeated_call_gets_the_first_ones_answer(
    api: Api, answering: StandInWorker, database: Engine
) -> None:
    with ThreadPoolExecutor(10) as pool:
        key = {"Idempotency-Key": "k"}
        responses = list(pool.map(lambda _: ask(api, key), range(10)))
    assert {r.status_code for r in responses} == {200}
    assert len({r.json()["decisions"]["team"] for r in responses}) == 1
    assert sum(r.headers.get("idempotency-replayed") == "true" for r in responses) == 9
    assert problem(ask(api, key, state="other"), 400)["error"]["message"].startswith("This Idem")


@pytest.mark.parametrize(
    ("code", "status"),
    [("context_length_exceeded", 400), ("read_failed", 500), ("too_many_options", 400)],
)
def test_an_item_that_failed_is_an_error_with_its_reason(
    api: Api, worker: StandInWorker, code: str, status: int
) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ask, api)
        while not (claims := worker.claim(Lane.INTERACTIVE)):
            pass
        worker.fail(claims, code, "the reason")
        body = problem(waiting.result(), status)
    assert body["error"]["message"] == "the reason"


def test_many_calls_at_once_all_get_their_own_answer(api: Api, answering: StandInWorker) -> None:
    with ThreadPoolExecutor(20) as pool:
        states = [f"state {i}" for i in range(60)]
        replies = list(pool.map(lambda s: ask(api, state=s).json(), states))
    for state, reply in zip(states, replies, strict=True):
        decision = api.client.get(f"/v1/decisions/{reply['decisions']['team']}").json()
        assert decision["state"] == state


def test_a_call_with_a_key_does_not_wait_for_what_is_being_written(
    settings: Settings, database: Engine, answering: StandInWorker
) -> None:
    """One submission may be written at a time, and it hangs on a key that another one holds."""
    one = settings.model_copy(update={"concurrent_submissions": 1})
    body = {"requests": [{"custom_id": "1", "state": "a"}], "questions": QUESTIONS}
    with (
        served(one) as url,
        client_of(url, make_key(database, "acme")) as client,
        ThreadPoolExecutor(1) as pool,
        database.connect() as blocker,
    ):
        client.post("/v1/batches", json=body, headers={"Idempotency-Key": "held"})
        blocker.execute(text("DELETE FROM idempotency_keys"))
        held = {"Idempotency-Key": "held"}
        hanging = pool.submit(client.post, "/v1/batches", json=body, headers=held)
        answered = ask(Api(url=url, client=client), {"Idempotency-Key": "free"})
        assert answered.status_code == 200
        assert not hanging.done()
        blocker.rollback()
        assert hanging.result().headers["idempotency-replayed"] == "true"


def test_a_full_queue_takes_no_call_and_says_when_to_ask_again(
    settings: Settings, database: Engine
) -> None:
    full = settings.model_copy(update={"max_open_items": 1})
    with served(full) as url, client_of(url, make_key(database, "acme")) as client:
        api = Api(url=url, client=client)
        api.submit([{"custom_id": "1", "state": "a"}])
        response = ask(api)
    assert response.status_code == 429
    assert int(response.headers["retry-after"]) > 0
    assert "full" in response.json()["error"]["message"]


@pytest.mark.parametrize(("asked", "reader"), [("stand-in", "stand-in"), ("jev-latest", "")])
def test_a_call_that_names_a_model_is_read_by_that_model(
    fresh: Api, database: Engine, asked: str, reader: str
) -> None:
    assert ask(fresh, {"Prefer": "respond-async"}, model=asked).status_code == 202
    with transaction(database) as connection:
        assert connection.scalar(text("SELECT model FROM items")) == reader
