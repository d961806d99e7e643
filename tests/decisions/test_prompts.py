import pytest

from decisions.prompts import labels, question_block, state_text
from decisions.questions import parse_question_set
from decisions.types import Json, Question


def question(type_: str, criteria: Json = None, instructions: Json = "") -> Question:
    wire: Json = {"type": type_, "criteria": criteria, "instructions": instructions}
    return asked({"q": wire})


def asked(wire: Json) -> Question:
    (found,) = parse_question_set(wire).questions
    return found


TEAM = question(
    "choice",
    {"billing": "payments and refunds", "shipping": "deliveries", "security": None},
    "Which team should handle this ticket?",
)


def test_a_choice_has_a_letter_per_option() -> None:
    assert question_block(TEAM) == (
        "Question: Which team should handle this ticket?\n"
        "A: billing - payments and refunds\n"
        "B: shipping - deliveries\n"
        "C: security\n"
        "Answer with the letter of one option only."
    )


def test_a_side_of_a_noul_without_description_is_the_bare_label() -> None:
    assert question_block(question("noul", {"true": "money is moving"}, "Is it urgent?")) == (
        "Question: Is it urgent?\nyes: money is moving\nno\nAnswer with yes or no only."
    )
    assert question_block(question("noul", {"true": "", "false": "it can wait"})) == (
        "yes\nno: it can wait\nAnswer with yes or no only."
    )
    assert question_block(question("noul")) == "yes\nno\nAnswer with yes or no only."


def test_a_score_has_a_number_per_level() -> None:
    assert question_block(question("score", ["calm", "annoyed", "furious"], "How angry?")) == (
        "Question: How angry?\n0: calm\n1: annoyed\n2: furious\n"
        "Answer with the number of one level only."
    )


def test_empty_instructions_drop_their_line() -> None:
    assert question_block(question("choice", {"a": None, "b": ""})) == (
        "A: a\nB: b\nAnswer with the letter of one option only."
    )
    assert question_block(question("noul", instructions=None)).startswith("yes\n")


def test_names_and_levels_may_be_empty_text() -> None:
    assert question_block(question("choice", {"": None, "b": None})).startswith("A: \nB: b\n")
    assert question_block(question("score", ["", "high"])).startswith("0: \n1: high\n")


def test_texts_are_shown_as_they_are() -> None:
    text = "héllo \u2028 wörld\u0085 \U0001f600\nsecond line"
    assert question_block(question("noul", {"true": text}, text)) == (
        f"Question: {text}\nyes: {text}\nno\nAnswer with yes or no only."
    )
    assert question_block(question("choice", {text: text})).startswith(f"A: {text} - {text}\n")


def test_the_id_of_a_question_is_not_shown() -> None:
    wire: Json = {"type": "noul", "instructions": "Urgent?"}
    assert question_block(asked({"a": wire})) == question_block(asked({"b": wire}))


def test_labels_are_letters_words_or_digits() -> None:
    many: dict[str, Json] = {f"option {i}": None for i in range(26)}
    assert labels(TEAM) == ("A", "B", "C")
    assert labels(question("choice", many)) == tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    assert labels(question("noul")) == ("yes", "no")
    assert labels(question("score", [str(i) for i in range(10)])) == tuple("0123456789")


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ("a text, as it is\u2028\n ", "a text, as it is\u2028\n "),
        ("", ""),
        (None, "null"),
        (True, "true"),
        (1.0, "1.0"),
        ({"a": 1, "b": [True, None]}, '{"a": 1, "b": [true, null]}'),
        ({"z": 1, "a": {"y": [], "b": {}}}, '{"z": 1, "a": {"y": [], "b": {}}}'),
        ({"näme": "héllo \u2028 \U0001f600"}, '{"näme": "héllo \u2028 \U0001f600"}'),
        ([1, "two", 'quo"te\n'], '[1, "two", "quo\\"te\\n"]'),
        (10**30, "1000000000000000000000000000000"),
    ],
)
def test_a_state_is_its_text_or_its_json(state: Json, shown: str) -> None:
    assert state_text(state) == shown
