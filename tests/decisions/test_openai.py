"""OpenAI's Decisions: its questions read by letters, its answers, and vLLM's numbers for them."""

import json
from math import log
from typing import Any

import pytest

from decisions.answers import answer
from decisions.errors import InvalidQuestion
from decisions.openai import parse_request
from decisions.openai_answers import openai_answer, refusal
from decisions.prompts import question_block
from decisions.questions import canonical, from_canonical
from decisions.types import Json, Question

EXACT = 1e-12


def parsed(wire: dict[str, Json]) -> Question:
    request = parse_request({"model": "m", "input": "text", "questions": [wire]})
    return request.question_set.questions[0]


def answered(wire: dict[str, Json], *probabilities: float) -> dict[str, Any]:
    """The answer to a question whose options have these probabilities over the full vocabulary."""
    question = parsed(wire)
    read = answer(question, [log(p) for p in probabilities])
    return openai_answer(
        question,
        top=read.top,
        probabilities=read.probabilities,
        value=read.value,
        confidence=read.confidence,
    )


# V11 of vLLM's vectors.
def test_a_predicates_probability_is_that_of_true() -> None:
    found = answered({"type": "predicate", "instructions": ""}, 0.6, 0.3)
    assert found["probability"] == pytest.approx(0.3333333333333333, abs=EXACT)


def test_string_and_boolean_values_are_told_apart() -> None:
    choices: list[Json] = [{"value": "returns"}, {"value": True}, {"value": "true"}]
    found = answered({"type": "choice", "instructions": "", "choices": choices}, 0.5, 0.3, 0.1)
    assert found["choice"] == "returns"
    assert [entry["value"] for entry in found["probabilities"]] == ["returns", True, "true"]
    assert [entry["probability"] for entry in found["probabilities"]] == pytest.approx(
        [0.5555555555555556, 0.3333333333333333, 0.11111111111111116], abs=EXACT
    )
    assert found["confidence"] == pytest.approx(0.5, abs=EXACT)


def test_a_score_is_the_expected_level() -> None:
    levels: list[Json] = [{"label": "cosmetic"}, {"label": "broken"}]
    found = answered({"type": "score", "instructions": "", "levels": levels}, 0.2, 0.7)
    assert found["score"] == pytest.approx(0.7777777777777777, abs=EXACT)
    assert found["confidence"] == pytest.approx(0.6999999999999998, abs=EXACT)


def test_a_refusal_keeps_the_questions_name() -> None:
    question = parsed({"type": "predicate", "instructions": "", "name": "n"})
    assert refusal(question) == {"type": "refusal", "name": "n"}


@pytest.mark.parametrize(
    "wire",
    [
        {"type": "predicate", "instructions": "Is it?", "name": "n"},
        {"type": "predicate", "instructions": "Is it?"},
        {
            "type": "choice",
            "instructions": [{"type": "input_text", "text": "Which?"}],
            "choices": [{"value": "é", "description": "d"}, {"value": False}],
        },
        {
            "type": "score",
            "instructions": "",
            "levels": [{"label": "low", "description": "little"}, {"label": ""}],
        },
    ],
)
def test_a_lettered_question_comes_out_of_the_store_as_it_went_in(wire: dict[str, Json]) -> None:
    request = parse_request({"input": "text", "questions": [wire]})
    stored = json.loads(canonical(request.question_set))
    assert from_canonical(stored) == request.question_set
    assert question_block(from_canonical(stored).questions[0]).endswith(
        "Answer with the letter of one option only."
    )


def test_the_input_is_joined_as_vllm_joins_it() -> None:
    def message(*texts: str) -> dict[str, Json]:
        return {"role": "user", "content": [{"type": "input_text", "text": t} for t in texts]}

    question: dict[str, Json] = {"type": "predicate", "instructions": ""}
    body: dict[str, Json] = {"input": [message("a", "b"), message("c")], "questions": [question]}
    assert parse_request(body).state == "a\nb\n\nc"


def test_a_very_long_input_is_refused() -> None:
    question: Json = {"type": "predicate", "instructions": ""}
    with pytest.raises(InvalidQuestion, match="10485760"):
        parse_request({"input": "x" * 10_485_761, "questions": [question]})
