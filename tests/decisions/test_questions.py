import json
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decisions.errors import InvalidQuestion
from decisions.questions import (
    Rules,
    Structured,
    canonical,
    content_hash,
    from_canonical,
    parse_question_set,
)
from decisions.types import Json, Option, Question, QuestionSet, QuestionType

NOUL: Json = {"type": "noul"}


#: The limits of vLLM's next-token models.
VLLM = Rules(questions=64, options=26, levels=10)


def parsed(wire: Json, rules: Rules = VLLM) -> Question:
    (question,) = parse_question_set({"q": wire}, rules=rules).questions
    return question


def options(wire: Json, rules: Rules = VLLM) -> list[tuple[str, str | None]]:
    return [(o.name, o.description) for o in parsed(wire, rules).options]


def refusal(questions: Json, instructions: Json = None) -> tuple[str, str | None]:
    with pytest.raises(InvalidQuestion) as refused:
        parse_question_set(questions, instructions, VLLM)
    return refused.value.message, refused.value.param


def test_a_question_set_is_parsed_in_the_order_of_the_request() -> None:
    found = parse_question_set(
        {
            "z": {"type": "choice", "instructions": "Which?", "criteria": {"b": "B", "a": None}},
            "a": {"type": "noul", "criteria": {"false": "no!", "true": "yes!"}},
            "m": {"type": "score", "criteria": ["low", "high"]},
        },
        "Be brief.",
    )
    assert found == QuestionSet(
        instructions="Be brief.",
        questions=(
            Question(
                id="z",
                type=QuestionType.CHOICE,
                instructions="Which?",
                options=(Option(name="b", description="B"), Option(name="a")),
            ),
            Question(
                id="a",
                type=QuestionType.NOUL,
                instructions="",
                options=(
                    Option(name="yes", description="yes!"),
                    Option(name="no", description="no!"),
                ),
            ),
            Question(
                id="m",
                type=QuestionType.SCORE,
                instructions="",
                options=(Option(name="low"), Option(name="high")),
            ),
        ),
    )


def test_empty_system_instructions_are_none() -> None:
    assert parse_question_set({"q": NOUL}, "").instructions is None
    assert parse_question_set({"q": NOUL}, None).instructions is None


def test_what_is_not_text_becomes_text_as_in_vllm() -> None:
    described: Json = {"a": {"k": 1}, "b": 7, "c": False, "d": None, "e": "", "f": [1, None]}
    assert options({"type": "choice", "criteria": described}) == [
        ("a", "{'k': 1}"),
        ("b", "7"),
        ("c", "False"),
        ("d", None),
        ("e", None),
        ("f", "[1, None]"),
    ]
    assert options({"type": "score", "criteria": [None, 1, 2.5, True, {"k": 1}]}) == [
        ("None", None),
        ("1", None),
        ("2.5", None),
        ("True", None),
        ("{'k': 1}", None),
    ]
    assert options({"type": "noul", "criteria": {"true": 1}}) == [("yes", "1"), ("no", None)]


def test_under_other_rules_structured_texts_become_json() -> None:
    rules = Rules(structured=Structured.JSON)
    described: Json = {"a": {"k": [True, None, "ä"]}, "b": None, "c": "text"}
    assert options({"type": "choice", "criteria": described}, rules) == [
        ("a", '{"k": [true, null, "ä"]}'),
        ("b", None),
        ("c", "text"),
    ]


@pytest.mark.parametrize(
    ("instructions", "text"), [(None, ""), ("", ""), (5, "5"), ({"k": [1]}, "{'k': [1]}")]
)
def test_instructions_that_are_not_text_become_text(instructions: Json, text: str) -> None:
    wire: Json = {"type": "noul", "instructions": instructions}
    assert parsed(wire).instructions == text


def test_a_choice_may_have_one_option_and_a_noul_no_criteria() -> None:
    assert options({"type": "choice", "criteria": {"only": None}}) == [("only", None)]
    ways: list[Json] = [NOUL, {"type": "noul", "criteria": None}, {"type": "noul", "criteria": {}}]
    for wire in ways:
        assert options(wire) == [("yes", None), ("no", None)]


def test_the_limits_themselves_are_accepted() -> None:
    names: dict[str, Json] = {f"o{i}": None for i in range(26)}
    assert len(options({"type": "choice", "criteria": names})) == 26
    assert len(options({"type": "score", "criteria": list(range(10))})) == 10
    many: dict[str, Json] = {f"q{i}": NOUL for i in range(64)}
    assert len(parse_question_set(many, rules=VLLM).questions) == 64


CHOICE_CRITERIA = "question 'q': choice criteria must map option names to a description or null"
NOUL_CRITERIA = "question 'q': noul criteria must be an object with true and false"
SCORE_CRITERIA = "question 'q': score criteria must be an ordered list of levels"


@pytest.mark.parametrize(
    ("questions", "message", "param"),
    [
        ({}, "questions: needs at least one question", "questions"),
        (
            {f"q{i}": NOUL for i in range(65)},
            "questions: at most 64 for this model",
            "questions",
        ),
        ({"": NOUL}, "question ids must be non-empty", "questions"),
        ([NOUL], "questions must map ids to questions", "questions"),
        ("q", "questions must map ids to questions", "questions"),
        (None, "questions must map ids to questions", "questions"),
        ({"q": "noul"}, "question 'q': must be an object", "questions.q"),
        ({"q": None}, "question 'q': must be an object", "questions.q"),
        (
            {"q": {"type": "noul", "z": 1, "x": 2}},
            "question 'q': unknown field(s) ['x', 'z']",
            "questions.q",
        ),
        (
            {"q": {"type": "foo"}},
            "unknown question type 'foo'; supported: ['choice', 'noul', 'score']",
            "questions.q.type",
        ),
        (
            {"q": {}},
            "unknown question type None; supported: ['choice', 'noul', 'score']",
            "questions.q.type",
        ),
        (
            {"q": {"type": ["noul"]}},
            "unknown question type ['noul']; supported: ['choice', 'noul', 'score']",
            "questions.q.type",
        ),
        ({"q": {"type": "choice"}}, CHOICE_CRITERIA, "questions.q.criteria"),
        ({"q": {"type": "choice", "criteria": {}}}, CHOICE_CRITERIA, "questions.q.criteria"),
        ({"q": {"type": "choice", "criteria": ["a"]}}, CHOICE_CRITERIA, "questions.q.criteria"),
        (
            {"q": {"type": "choice", "criteria": {str(i): None for i in range(27)}}},
            "question 'q': at most 26 options for this model",
            "questions.q.criteria",
        ),
        ({"q": {"type": "noul", "criteria": {"yes": ""}}}, NOUL_CRITERIA, "questions.q.criteria"),
        ({"q": {"type": "noul", "criteria": ["true"]}}, NOUL_CRITERIA, "questions.q.criteria"),
        ({"q": {"type": "noul", "criteria": False}}, NOUL_CRITERIA, "questions.q.criteria"),
        ({"q": {"type": "score"}}, SCORE_CRITERIA, "questions.q.criteria"),
        ({"q": {"type": "score", "criteria": ["a"]}}, SCORE_CRITERIA, "questions.q.criteria"),
        (
            {"q": {"type": "score", "criteria": {"0": "a", "1": "b"}}},
            SCORE_CRITERIA,
            "questions.q.criteria",
        ),
        (
            {"q": {"type": "score", "criteria": list(range(11))}},
            "question 'q': at most 10 options for this model",
            "questions.q.criteria",
        ),
    ],
)
def test_a_refusal_has_vllms_words_and_names_the_field(
    questions: Json, message: str, param: str
) -> None:
    assert refusal(questions) == (message, param)


def test_system_instructions_must_be_text() -> None:
    expected = ("instructions must be a string", "instructions")
    assert refusal({"q": NOUL}, ["x"]) == expected
    assert refusal({"q": NOUL}, 5) == expected


#: What strict JSON can hold: anything but lone surrogates.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
)
wires = st.one_of(
    st.fixed_dictionaries(
        {
            "type": st.just("choice"),
            "criteria": st.dictionaries(texts, values, min_size=1, max_size=5),
        },
        optional={"instructions": values},
    ),
    st.fixed_dictionaries(
        {"type": st.just("noul")},
        optional={"instructions": values, "criteria": st.just({"true": "x"}) | st.none()},
    ),
    st.fixed_dictionaries(
        {"type": st.just("score"), "criteria": st.lists(values, min_size=2, max_size=10)},
        optional={"instructions": values},
    ),
)
question_sets = st.builds(
    parse_question_set,
    st.dictionaries(st.text(min_size=1, max_size=8), wires, min_size=1, max_size=4),
    st.none() | texts,
)


@settings(max_examples=40)
@given(question_sets)
def test_what_the_store_keeps_gives_the_same_questions_back(asked: QuestionSet) -> None:
    assert from_canonical(json.loads(canonical(asked))) == asked


@settings(max_examples=30)
@given(question_sets, question_sets)
def test_sets_have_the_same_text_only_when_they_are_equal(a: QuestionSet, b: QuestionSet) -> None:
    assert (canonical(a) == canonical(b)) == (a == b)


def test_the_order_of_options_makes_another_question_set() -> None:
    first = parse_question_set({"q": {"type": "choice", "criteria": {"a": None, "b": None}}})
    second = parse_question_set({"q": {"type": "choice", "criteria": {"b": None, "a": None}}})
    assert content_hash(canonical(first)) != content_hash(canonical(second))


def test_ways_to_write_the_same_set_have_the_same_hash() -> None:
    first: Json = {"type": "noul", "criteria": None, "instructions": None}
    second: Json = {"criteria": {"true": ""}, "type": "noul"}
    texts = [canonical(parse_question_set({"q": wire})) for wire in (first, second, NOUL)]
    assert len({content_hash(text) for text in texts}) == 1


def test_the_stored_text_and_its_hash_do_not_change_between_versions() -> None:
    wire = cast(
        Json, {"q": {"type": "choice", "instructions": "Wähle", "criteria": {"b": "B", "a": None}}}
    )
    text = canonical(parse_question_set(wire, "Kurz."))
    assert text == (
        '{"instructions":"Kurz.","questions":[{"id":"q","type":"choice",'
        '"instructions":"Wähle","options":[["b","B"],["a",null]]}]}'
    )
    assert content_hash(text).hex() == (
        "e8007769d93a7e9d3955abebc206d80681a545eaee1960c59567849910be7dc7"
    )
