"""Labels past Z, and questions that are read by letters whatever their type."""

from typing import Any

import pytest

from decisions.prompts import PAIRS, labels, version
from decisions.types import Option, Question, QuestionType
from workers.prompts import Prompter

Bench = Any


def choice(n: int) -> dict[str, Any]:
    return {"q": {"type": "choice", "criteria": {f"option {i}": None for i in range(n)}}}


def test_two_hundred_and_fifty_five_options_have_a_token_each(prompter: Prompter) -> None:
    assert prompter.most_options == 255
    question = Question(
        id="q",
        type=QuestionType.CHOICE,
        instructions="Which?",
        options=tuple(Option(name=str(i)) for i in range(255)),
    )
    assert labels(question) == PAIRS
    assert len(set(prompter.label_ids(question))) == 255


def test_a_choice_of_255_options_is_answered(bench: Bench) -> None:
    bench.submit([{"custom_id": "1", "state": "short"}], choice(255), lane="bulk")
    bench.drain.run(60)
    ((count, error),) = bench.rows(
        "SELECT cardinality(d.probabilities), i.error FROM items i LEFT JOIN decisions d"
        " ON d.item_id = i.id"
    )
    # 255 lines of options are longer than the test model's context, which is said, not cut.
    assert (count, error["code"]) in [(None, "context_length_exceeded"), (255, None)]


def test_a_choice_that_a_model_cannot_tell_apart_fails_alone(
    bench: Bench, prompter: Prompter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompter, "most_options", 26)
    items = [
        {"custom_id": "many", "state": "a", "questions": choice(27)},
        {"custom_id": "few", "state": "a", "questions": choice(26)},
    ]
    bench.submit(items, None)
    bench.drain.run(60)
    rows = bench.rows("SELECT custom_id, status, error->>'code' FROM items ORDER BY line")
    assert [tuple(row) for row in rows] == [
        ("many", "failed", "too_many_options"),
        ("few", "done", None),
    ]


def test_a_lettered_question_is_read_by_letters_and_says_so(bench: Bench) -> None:
    question = Question(
        id="0",
        type=QuestionType.NOUL,
        instructions="Is it so?",
        options=(Option(name="false"), Option(name="true")),
        lettered=True,
    )
    assert labels(question) == ("A", "B")
    assert version(question) == "decisions-1"
