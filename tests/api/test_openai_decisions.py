"""`/v1/decisions`: OpenAI's shapes, vLLM's lettered prompt."""

from typing import Any

import httpx2
import pytest

from tests.api.served import Api, StandInWorker

QUESTIONS: list[dict[str, Any]] = [
    {"type": "predicate", "instructions": "The customer wants money back.", "name": "refund"},
    {
        "type": "choice",
        "instructions": "Which department?",
        "choices": [
            {"value": "returns", "description": "goods come back"},
            {"value": True},
            {"value": "true"},
        ],
    },
    {
        "type": "score",
        "instructions": "",
        "levels": [{"label": "cosmetic", "description": "only looks"}, {"label": "broken"}],
        "name": "damage",
    },
]


def ask(api: Api, **fields: Any) -> httpx2.Response:
    body = {"model": "default", "input": "It arrived broken.", "questions": QUESTIONS, **fields}
    return api.client.post("/v1/decisions", json=body)


def prompts(api: Api, reply: dict[str, Any]) -> list[dict[str, Any]]:
    return [api.client.get(f"/v1/decisions/{id_}").json()["prompt"] for id_ in reply["decisions"]]


def test_the_reply_has_openais_fields_in_the_order_of_the_questions(
    api: Api, answering: StandInWorker
) -> None:
    response = ask(api)
    assert response.status_code == 200, response.text
    reply = response.json()
    assert reply["model"] == "stand-in"
    refund, department, damage = reply["answers"]
    assert refund == {"type": "predicate", "name": "refund", "probability": 0.5}
    third = pytest.approx(1 / 3)
    assert department == {
        "type": "choice",
        "name": None,
        "choice": "returns",
        "probabilities": [
            {"value": "returns", "probability": third},
            {"value": True, "probability": third},
            {"value": "true", "probability": third},
        ],
        "confidence": pytest.approx(0.3),
    }
    assert damage == {
        "type": "score",
        "name": "damage",
        "score": 0.5,
        "probabilities": [
            {"value": 0, "label": "cosmetic", "probability": 0.5},
            {"value": 1, "label": "broken", "probability": 0.5},
        ],
        "confidence": pytest.approx(0.45),
    }
    assert reply["usage"] == {
        "input_tokens": 30,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 33,
    }


def test_every_question_is_read_by_letters_as_vllm_does(api: Api, answering: StandInWorker) -> None:
    reply = ask(api).json()
    end = "Answer with the letter of one option only."
    assert [p["user"] for p in prompts(api, reply)] == [
        f"It arrived broken.\n\nQuestion: The customer wants money back.\nA: false\nB: true\n{end}",
        "It arrived broken.\n\nQuestion: Which department?\n"
        f'A: "returns" - goods come back\nB: true\nC: "true"\n{end}',
        f"It arrived broken.\n\nA: cosmetic - only looks\nB: broken\n{end}",
    ]
    assert {p["version"] for p in prompts(api, reply)} == {"decisions-1"}


def shown(api: Api, input_: Any, **fields: Any) -> tuple[str, str | None]:
    """What the model is shown of an input: the user's text and the system's."""
    response = ask(api, input=input_, questions=QUESTIONS[:1], **fields)
    assert response.status_code == 200, response.text
    (prompt,) = prompts(api, response.json())
    text, _, _ = prompt["user"].rpartition("\n\nQuestion:")
    return text, prompt["system"]


def text_part(text: str) -> dict[str, str]:
    return {"type": "input_text", "text": text}


def test_messages_of_a_user_are_joined_as_vllm_joins_them(
    api: Api, answering: StandInWorker
) -> None:
    first = {"role": "user", "content": [text_part("a"), text_part("b")]}
    second = {"type": "message", "role": "user", "content": "c"}
    assert shown(api, [first, second]) == ("a\nb\n\nc", None)


def test_system_and_developer_messages_become_the_system_message(
    api: Api, answering: StandInWorker
) -> None:
    messages = [
        {"role": "system", "content": "Be fair."},
        {"role": "user", "content": "a"},
        {"role": "developer", "content": [text_part("Be brief.")]},
    ]
    assert shown(api, messages) == ("a", "Be fair.\n\nBe brief.")


def test_a_conversation_with_tools_says_who_speaks(api: Api, answering: StandInWorker) -> None:
    items = [
        {"role": "user", "content": "Where is it?"},
        {
            "role": "assistant",
            "phase": "commentary",
            "content": [
                {"type": "output_text", "text": "I look."},
                {"type": "refusal", "refusal": "No."},
            ],
        },
        {"type": "function_call", "call_id": "1", "name": "find", "arguments": '{"id":7}'},
        {"type": "function_call_output", "call_id": "1", "output": [text_part("at sea")]},
        {"type": "custom_tool_call", "call_id": "2", "name": "ask", "input": "ship?"},
        {"type": "custom_tool_call_output", "call_id": "2", "output": "yes"},
    ]
    text, system = shown(api, items)
    assert system is None
    assert text == (
        "user: Where is it?\n\nassistant: I look.\nNo.\n\n"
        'tool call find: {"id":7}\n\ntool output: at sea\n\ntool call ask: ship?\n\ntool output: yes'
    )


def test_json_parts_are_compact_json(api: Api, answering: StandInWorker) -> None:
    part = {"type": "input_json", "data": {"a": [1, None], "é": "x"}}
    assert shown(api, [{"role": "user", "content": [part]}])[0] == '{"a":[1,null],"é":"x"}'


def test_instructions_may_be_parts(api: Api, answering: StandInWorker) -> None:
    parts = [text_part("Compare with"), {"type": "input_json", "data": [{"a": 1}]}]
    reply = ask(api, questions=[{"type": "predicate", "instructions": parts}]).json()
    assert "Question: Compare with\n" + '[{"a":1}]\nA: false' in prompts(api, reply)[0]["user"]


def test_what_concerns_openais_own_cache_is_accepted(api: Api, answering: StandInWorker) -> None:
    fields = {
        "prompt_cache_key": "k",
        "prompt_cache_options": {"mode": "explicit", "ttl": "30m"},
        "safety_identifier": "user",
        "input": [
            {
                "role": "user",
                "content": [
                    {**text_part("a"), "prompt_cache_breakpoint": {"mode": "explicit"}},
                ],
            }
        ],
    }
    assert ask(api, **fields).status_code == 200


def choice(count: int) -> dict[str, Any]:
    choices = [{"value": str(i)} for i in range(count)]
    return {"type": "choice", "instructions": "?", "choices": choices}


IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,"}
PREDICATE = QUESTIONS[0]

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"questions": []}, "questions"),
    ({"questions": [PREDICATE] * 401}, "questions"),
    ({"questions": [{"type": "noul"}]}, "questions.0.type"),
    ({"questions": [7]}, "questions.0"),
    ({"questions": [{"type": "predicate"}]}, "questions.0.instructions"),
    ({"questions": [{**PREDICATE, "name": None}]}, "questions.0.name"),
    ({"questions": [{**PREDICATE, "choices": []}]}, "questions.0.choices"),
    ({"questions": [choice(1)]}, "questions.0.choices"),
    ({"questions": [choice(256)]}, "questions.0.choices"),
    (
        {"questions": [{**choice(2), "choices": [{"value": "a"}, {"value": "a"}]}]},
        "questions.0.choices",
    ),
    (
        {"questions": [{**choice(2), "choices": [{"value": 1}, {"value": "a"}]}]},
        "questions.0.choices.0.value",
    ),
    (
        {"questions": [{"type": "score", "instructions": "", "levels": [{"label": "a"}]}]},
        "questions.0.levels",
    ),
    ({"input": []}, "input"),
    ({"input": 7}, "input.str"),
    ({"input": [{"role": "tool", "content": "a"}]}, "input.0.role"),
    ({"input": [{"role": "user", "content": [IMAGE]}]}, "input.0.content.0"),
    ({"input": [{"role": "user", "content": [{"type": "x"}]}]}, "input.0.content.0.type"),
    (
        {"input": [{"role": "user", "content": [{"type": "input_json", "data": "a"}]}]},
        "input.0.content.0.data",
    ),
    (
        {"input": [{"type": "function_call_output", "call_id": "1", "output": ""}]},
        "input.0.call_id",
    ),
    ({"stream": True}, "stream"),
    ({"model": None}, "model"),
    ({"joint": True}, "joint"),
]


@pytest.mark.parametrize(("fields", "param"), WRONG)
def test_what_is_wrong_is_a_400_that_names_it(api: Api, fields: dict[str, Any], param: str) -> None:
    response = ask(api, **fields)
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert error["param"] == param
    assert error["type"] == "invalid_request_error"


def test_an_image_is_refused_in_vllms_words(api: Api) -> None:
    message = ask(api, input=[{"role": "user", "content": [IMAGE]}]).json()["error"]["message"]
    assert message == "Decisions supports text input only; images are not supported"


@pytest.mark.parametrize("data", [{"a": list(range(10_000))}, {"a": "x" * 262_144}])
def test_a_json_part_beyond_openais_limits_is_refused(api: Api, data: Any) -> None:
    part = {"type": "input_json", "data": data}
    assert ask(api, input=[{"role": "user", "content": [part]}]).status_code == 400


def test_deep_json_parts_are_refused(api: Api) -> None:
    data: Any = {}
    for _ in range(33):
        data = {"a": data}
    part = {"type": "input_json", "data": data}
    assert ask(api, input=[{"role": "user", "content": [part]}]).status_code == 400
