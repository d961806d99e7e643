"""The generators keep their promises, and nothing of an evaluation set is in what they draw."""

import json
import random
from collections import Counter
from collections.abc import Iterable

import pytest

from training import copying, evalsets, records
from training.bank import load
from training.messages import Messages
from training.prompts import Case, state_text

#: A state is a near duplicate when more than this share of its runs of so many words is in training. Single formulas
#: ("Dear Sir or Madam, could you send me") are everybody's.
RUN, SHARE = 5, 0.2


@pytest.fixture(scope="module")
def drawn() -> list[Case]:
    rng, messages = random.Random(11), Messages(load(held=False))  # noqa: S311
    words = ["apple", "river", "needle", "castle", "ticket", "garden", "violin", "button"]
    return [
        case
        for _ in range(1500)
        for case in (
            messages.case(rng),
            messages.case(rng),
            records.case(rng),
            copying.case(words, rng),
        )
    ]


def test_the_same_seed_draws_the_same_cases() -> None:
    messages = Messages(load(held=False))
    first, second = random.Random(4), random.Random(4)  # noqa: S311
    assert messages.case(first) == messages.case(second)


def test_targets_are_distributions(drawn: list[Case]) -> None:
    for case in drawn:
        for question in case.questions:
            assert sum(question.target) == pytest.approx(1.0)
            assert len(question.target) == len(question.options) == len(question.descriptions)
            assert 2 <= len(question.options) <= 12


def test_the_place_of_an_option_does_not_tell_the_answer(drawn: list[Case]) -> None:
    right: Counter[int] = Counter()
    expected: Counter[int] = Counter()
    for case in drawn:
        for question in case.questions:
            if question.kind == "choice" and question.fits > 0.5:
                right[question.best] += 1
                expected.update(
                    {i: 1 / len(question.options) for i in range(len(question.options))}
                )
    for place in range(4):
        assert right[place] == pytest.approx(expected[place], rel=0.12)


def test_yes_and_no_are_about_as_frequent(drawn: list[Case]) -> None:
    yes = [q.target[0] for c in drawn for q in c.questions if q.kind == "noul"]
    assert 0.4 < sum(yes) / len(yes) < 0.6


def test_questions_that_the_state_does_not_answer_are_asked(drawn: list[Case]) -> None:
    share = sum(q.fits < 0.5 for c in drawn for q in c.questions) / sum(
        len(c.questions) for c in drawn
    )
    assert 0.02 < share < 0.2


def test_phrases_kept_for_validation_are_not_in_training() -> None:
    def phrases(held: bool) -> dict[str, set[str]]:
        bank = load(held=held)
        return {
            f"{d.name}/{t.name}": set(t.phrases)
            for d in bank.domains
            for t in d.topics
            if len(t.phrases) > 1
        }

    kept, trained = phrases(held=True), phrases(held=False)
    assert all(not kept[topic] & trained.get(topic, set()) for topic in kept)


def test_no_evaluation_state_is_in_the_training_data(drawn: list[Case]) -> None:
    ours = {" ".join(words(state_text(c.state))) for c in drawn}
    theirs = {" ".join(words(text)) for text in evaluation_texts()}
    assert not ours & theirs


def test_no_evaluation_state_is_nearly_in_the_training_data(drawn: list[Case]) -> None:
    runs = {run for case in drawn for run in word_runs(state_text(case.state))}
    for text in evaluation_texts():
        said = set(word_runs(text))
        assert len(said & runs) <= SHARE * len(said), text


def test_no_evaluation_question_is_in_the_training_data(drawn: list[Case]) -> None:
    ours = {q.options for c in drawn for q in c.questions if q.kind != "noul"}
    theirs = {
        q.options
        for c in [*evalsets.triage(), *evalsets.sample()]
        for q in c.questions
        if q.kind != "noul"
    }
    assert not ours & theirs


def evaluation_texts() -> list[str]:
    return [
        json.dumps(c.state) if not isinstance(c.state, str) else c.state
        for c in [*evalsets.triage(), *evalsets.sample()]
    ]


def words(text: str) -> list[str]:
    return "".join(ch if ch.isalnum() else " " for ch in text.lower()).split()


def word_runs(text: str) -> Iterable[tuple[str, ...]]:
    said = words(text)
    return (tuple(said[i : i + RUN]) for i in range(len(said) - RUN + 1))
