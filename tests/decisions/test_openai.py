"""OpenAI's Decisions request, read as vLLM reads it: every question by letters."""

import json
from math import log

import pytest

from decisions.answers import answer
from decisions.errors import InvalidQuestion
from decisions.openai import parse_request
from decisions.prompts import labels, question_block
from decisions.questions import canonical, from_canonical
from decisions.types import Json, Question, QuestionSet

CHOICE: Json = {
    "type": "choice",
    "name": "dep",
    "instructions": "Which?",
    "choices": [
        {"value": "returns", "description": "sent back"},
        {"value": True},
        {"value": "true"},
    ],
}
PREDICATE: Json = {"type": "predicate", "instructions": "Is it late?"}
SCORE: Json = {
    "type": "score",
    "instructions": "",
    "levels": [{"label": "cosmetic"}, {"label": "broken", "description": "does not work"}],
}


def asked(*questions: Json) -> QuestionSet:
    return parse_request({"input": "s", "questions": list(questions)}).question_set


def only(wire: Json) -> Question:
    (question,) = asked(wire).questions
    return question


def exactly(expected: float | tuple[float, ...]) -> object:
    return pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_every_type_is_asked_as_a_lettered_choice() -> None:
    assert question_block(only(PREDICATE)) == (
        "Question: Is it late?\nA: false\nB: true\nAnswer with the letter of one option only."
    )
    assert question_block(only(CHOICE)) == (
        'Question: Which?\nA: "returns" - sent back\nB: true\nC: "true"\n'
        "Answer with the letter of one option only."
    )
    assert question_block(only(SCORE)) == (
        "A: cosmetic\nB: broken - does not work\nAnswer with the letter of one option only."
    )
    assert [labels(only(q)) for q in (PREDICATE, CHOICE, SCORE)] == [
        ("A", "B"),
        ("A", "B", "C"),
        ("A", "B"),
    ]


def test_v11_the_answers() -> None:
    predicate = answer(only(PREDICATE), [log(0.6), log(0.3)])
    choice = answer(only(CHOICE), [log(0.5), log(0.3), log(0.1)])
    score = answer(only(SCORE), [log(0.2), log(0.7)])
    assert predicate.value == exactly(0.3333333333333333), "the probability of true"
    assert choice.probabilities == exactly(
        (0.5555555555555556, 0.3333333333333333, 0.11111111111111116)
    )
    assert choice.confidence == exactly(0.5)
    assert score.value == exactly(0.7777777777777777)
    assert score.confidence == exactly(0.6999999999999998)


def test_messages_are_joined_by_a_blank_line_and_their_parts_by_a_newline() -> None:
    def message(*texts: str) -> Json:
        content: list[Json] = [{"type": "input_text", "text": text} for text in texts]
        return {"role": "user", "content": content}

    body: dict[str, Json] = {
        "input": [message("a", "b"), message("c")],
        "questions": [PREDICATE],
    }
    assert parse_request(body).state == "a\nb\n\nc"


def test_what_the_store_keeps_gives_the_same_questions_back() -> None:
    question_set = asked(CHOICE, PREDICATE, SCORE)
    assert from_canonical(json.loads(canonical(question_set))) == question_set
    assert [q.name for q in question_set.questions] == ["dep", None, None]


def test_a_lettered_question_is_another_than_the_one_with_labels_of_its_own() -> None:
    lettered = asked(SCORE).questions[0]
    assert '"lettered":true' in canonical(QuestionSet(instructions=None, questions=(lettered,)))


@pytest.mark.parametrize(
    ("question", "param"),
    [
        ({"type": "noul", "instructions": ""}, "questions.0.type"),
        ({"type": "predicate"}, "questions.0.instructions"),
        ({"type": "predicate", "instructions": "", "name": None}, "questions.0.name"),
        (
            {"type": "choice", "instructions": "", "choices": [{"value": "a"}]},
            "questions.0.choices",
        ),
        (
            {"type": "choice", "instructions": "", "choices": [{"value": "a"}, {"value": 1}]},
            "questions.0.choices.1.value",
        ),
        (
            {"type": "choice", "instructions": "", "choices": [{"value": "a"}, {"value": "a"}]},
            "questions.0.choices",
        ),
        ({"type": "score", "instructions": "", "levels": [{"label": "a"}]}, "questions.0.levels"),
        ({"type": "predicate", "instructions": "", "x": 1}, "questions.0.x"),
    ],
)
def test_a_refusal_names_the_field(question: Json, param: str) -> None:
    with pytest.raises(InvalidQuestion) as refused:
        asked(question)
    assert refused.value.param == param
