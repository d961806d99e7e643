"""The openai package: decisions, files, batches, errors, retries."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from cli.client import Address

QUESTIONS: list[Any] = [
    {"type": "predicate", "instructions": "The customer wants money back.", "name": "refund"},
    {
        "type": "choice",
        "instructions": "Which one?",
        "choices": [{"value": "true"}, {"value": True}, {"value": "other", "description": "else"}],
    },
    {
        "type": "score",
        "instructions": "How angry?",
        "levels": [{"label": "calm"}, {"label": "mad"}],
    },
]


@pytest.fixture
def client(server: Address) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{server.url}/v1", api_key=server.api_key) as client:
        yield client


def test_decisions_come_back_typed(client: OpenAI) -> None:
    decision = client.decisions.create(
        model="default", input="I was charged twice!", questions=QUESTIONS
    )
    refund, which, anger = decision.answers
    assert refund.type == "predicate"
    assert refund.name == "refund"
    assert 0 < refund.probability < 1
    assert which.type == "choice"
    assert [type(p.value) for p in which.probabilities] == [str, bool, str]
    assert sum(p.probability for p in which.probabilities) == pytest.approx(1)
    assert anger.type == "score"
    assert [p.label for p in anger.probabilities] == ["calm", "mad"]
    assert decision.usage.total_tokens == decision.usage.input_tokens + 3
    assert decision.model.startswith("SmolLM2")


def test_decisions_about_a_conversation(client: OpenAI) -> None:
    conversation: list[Any] = [
        {"role": "developer", "content": "Be strict."},
        {"role": "user", "content": [{"type": "input_json", "data": {"paid": 2}}]},
        {"type": "function_call", "call_id": "1", "name": "find", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "paid twice"},
    ]
    decision = client.decisions.create(
        model="default",
        input=conversation,
        questions=QUESTIONS[:1],
        prompt_cache_key="k",
        safety_identifier="s",
    )
    assert decision.answers[0].type == "predicate"


@pytest.mark.anyio
async def test_decisions_without_blocking(server: Address) -> None:
    async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key=server.api_key) as client:
        decision = await client.decisions.create(
            model="default", input="I was charged twice!", questions=QUESTIONS[:1]
        )
    assert decision.answers[0].type == "predicate"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_errors_are_the_sdks_own_classes(client: OpenAI, server: Address) -> None:
    ask = client.decisions.create
    with pytest.raises(openai.BadRequestError) as bad:
        ask(model="default", input="a", questions=[])
    assert bad.value.param == "questions"
    assert bad.value.type == "invalid_request_error"
    with pytest.raises(openai.NotFoundError) as unknown:
        ask(model="gpt-99", input="a", questions=QUESTIONS)
    assert unknown.value.code == "model_not_found"
    stranger = client.with_options(api_key="wb_wrong")
    with pytest.raises(openai.AuthenticationError):
        stranger.decisions.create(model="default", input="a", questions=QUESTIONS)
    with pytest.raises(openai.UnprocessableEntityError):
        client.batches.create(
            input_file_id="file-none", endpoint="/v1/responses", completion_window="24h"
        )


class BusyOnce(httpx2.HTTPTransport):
    """Says once what our server says when its queue is full, and passes everything else on."""

    def __init__(self) -> None:
        super().__init__()
        self.attempts: list[str] = []

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        self.attempts.append(request.headers["x-stainless-retry-count"])
        if len(self.attempts) == 1:
            return httpx2.Response(429, headers={"Retry-After": "1"}, request=request)
        return super().handle_request(request)


def test_a_call_is_tried_again_when_we_say_so(server: Address) -> None:
    transport = BusyOnce()
    with OpenAI(
        base_url=f"{server.url}/v1",
        api_key=server.api_key,
        http_client=httpx2.Client(transport=transport),
    ) as client:
        decision = client.decisions.create(model="default", input="a", questions=QUESTIONS)
    assert len(decision.answers) == 3
    assert transport.attempts == ["0", "1"]


def test_who_does_not_want_to_wait_gets_an_address(client: OpenAI) -> None:
    impatient = {"Prefer": "wait=0"}
    waiting = client.decisions.with_raw_response.create(
        model="default", input="a", questions=QUESTIONS, extra_headers=impatient
    )
    assert waiting.status_code == 202
    assert waiting.headers["location"].startswith("/v1/batches/")


def test_models_are_listed(client: OpenAI) -> None:
    names = [model.id for model in client.models.list()]
    assert "jev-latest" in names
    assert any(name.startswith("SmolLM2") for name in names)


def line(custom_id: str, body: dict[str, Any], endpoint: str) -> str:
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": endpoint, "body": body})


@pytest.mark.parametrize("endpoint", ["/v1/decisions", "/v1/systemone"])
def test_a_batch_goes_from_file_to_file(client: OpenAI, endpoint: Any) -> None:
    bodies: dict[str, dict[str, Any]] = {
        "/v1/decisions": {"model": "default", "input": "Hello.", "questions": QUESTIONS},
        "/v1/systemone": {"state": "Hello.", "questions": {"q": {"type": "noul"}}},
    }
    lines = [line(f"row-{i}", bodies[endpoint], endpoint) for i in range(5)]
    lines.append(line("bad", {"model": "default"}, endpoint))
    file = client.files.create(
        file=("items.jsonl", "\n".join(lines).encode()),
        purpose="batch",
        expires_after={"anchor": "created_at", "seconds": 3600},
    )
    assert file.purpose == "batch"
    assert client.files.retrieve(file.id).bytes == file.bytes
    batch = client.batches.create(
        input_file_id=file.id,
        endpoint=endpoint,
        completion_window="24h",
        metadata={"run": "1"},
        output_expires_after={"anchor": "created_at", "seconds": 3600},
    )
    assert batch.metadata == {"run": "1"}
    done = finished(client, batch.id)
    assert done.status == "completed"
    assert done.request_counts is not None
    assert (done.request_counts.total, done.request_counts.completed) == (6, 5)
    assert done.output_file_id is not None
    output = client.files.content(done.output_file_id).text.splitlines()
    rows = [json.loads(row) for row in output]
    assert {row["custom_id"] for row in rows} == {f"row-{i}" for i in range(5)}
    assert {row["response"]["status_code"] for row in rows} == {200}
    assert done.error_file_id is not None
    (error,) = client.files.content(done.error_file_id).text.splitlines()
    assert json.loads(error)["custom_id"] == "bad"
    assert json.loads(error)["response"]["status_code"] == 400
    assert batch.id in [b.id for b in client.batches.list(limit=1)]
    assert client.files.delete(file.id).deleted


def finished(client: OpenAI, batch_id: str) -> Any:
    """Polls, as the SDK's users do."""
    while True:
        batch = client.batches.retrieve(batch_id)
        if batch.status not in ("validating", "in_progress", "finalizing", "cancelling"):
            return batch


def test_a_batch_is_cancelled(client: OpenAI) -> None:
    body = {"state": "Hello.", "questions": {"q": {"type": "noul"}}}
    content = "\n".join(line(str(i), body, "/v1/systemone") for i in range(3000))
    file = client.files.create(file=("items.jsonl", content.encode()), purpose="batch")
    endpoint: Any = "/v1/systemone"
    batch = client.batches.create(input_file_id=file.id, endpoint=endpoint, completion_window="24h")
    assert client.batches.cancel(batch.id).status in ("cancelling", "cancelled")
    assert finished(client, batch.id).status == "cancelled"
