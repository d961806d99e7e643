"""No stored form moves the default model's answers further than its budget says."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from engine.budgets import BUDGETS
from engine.config import EngineConfig
from engine.engine import load_engine
from engine.kv import FORMATS
from engine.models import ModelFolder
from engine.prefixes import PrefixStore
from engine.tokenizer import load_tokenizer
from engine.types import Group, GroupScores, Suffix

STATES = [
    {
        "ticket": "I was charged twice for invoice 2024-118 and nobody answers since Monday.",
        "customer": {"plan": "business", "since": "2019-04-02", "open_tickets": 3},
        "history": ["refund asked", "no reply", "second mail", "call not returned"],
    },
    "Deploy 7f3a failed on two of nine hosts. Rollback ran by itself after 94 seconds. Error rate "
    "went from 0.2% to 3.1% and back. No customer has written. The on-call person was asleep.",
]
QUESTIONS = {
    "Question: Who should see this?\nA: billing\nB: operations\nC: sales\nD: nobody": "ABCD",
    "Question: Is it urgent?\nyes: today\nno: can wait": ("yes", "no"),
    "Question: How bad is it?\n0: fine\n1: annoying\n2: serious\n3: critical": "0123",
}


def groups(tokenizer: Any) -> list[Group]:
    def ids(text: str) -> tuple[int, ...]:
        return tuple(tokenizer.encode(text))

    tail = "\nAnswer with one option only.<|im_end|>\n<|im_start|>assistant\n"
    suffixes = tuple(
        Suffix(token_ids=ids(question + tail), label_ids=tuple(ids(label)[0] for label in labels))
        for question, labels in QUESTIONS.items()
    )
    texts = [state if isinstance(state, str) else json.dumps(state) for state in STATES]
    prefixes = [ids(f"<|im_start|>user\n{text}\n\n") for text in texts]
    return [Group(prefix_ids=prefix, suffixes=suffixes) for prefix in prefixes]


def answers(scores: list[GroupScores]) -> list[tuple[float, list[float]]]:
    """Label mass and the labels' probabilities among themselves."""
    found = []
    for score in (score for group in scores for score in group.scores):
        weights = [math.exp(value) for value in score.log_probs]
        found.append((sum(weights), [weight / sum(weights) for weight in weights]))
    return found


@pytest.fixture(scope="module")
def cases(default_model: ModelFolder) -> list[Group]:
    return groups(load_tokenizer(default_model))


def test_every_format_has_a_budget_and_keeps_to_it(cases: list[Group], cache_dir: Path) -> None:
    """In float32, so that what moves is the stored form and not the rounding after it."""
    assert set(BUDGETS) == set(FORMATS)
    engine = load_engine(EngineConfig(cache_dir=cache_dir, dtype="float32"))
    truth = answers(engine.read(cases))
    for name, budget in BUDGETS.items():
        found = answers(engine._read(cases, PrefixStore(0), FORMATS[name]))
        changes = [
            max(abs(a - b) for a, b in zip(ours, theirs, strict=True))
            for (_, ours), (_, theirs) in zip(found, truth, strict=True)
        ]
        masses = [abs(ours - theirs) for (ours, _), (theirs, _) in zip(found, truth, strict=True)]
        assert max(changes) <= budget.probability, name
        assert sum(changes) / len(changes) <= budget.mean_probability, name
        assert max(masses) <= budget.label_mass, name
        if name != "native":
            assert max(changes) > 0, name


def test_an_exact_read_gives_the_bits_of_an_unquantised_store(tiny: Any) -> None:
    calls = tiny.groups(seed=41)
    native = tiny.engine(tiny.build("gemma3")).read(calls)
    engine = tiny.engine(tiny.build("gemma3"), kv_format="nvfp4")
    rough = engine.read(calls)
    exact = engine.read_exact(calls)
    assert [group.scores for group in exact] == [group.scores for group in native]
    assert [group.scores for group in rough] != [group.scores for group in native]
    assert engine.read(calls)[0].scores == rough[0].scores
    assert (engine.info.kv_format, engine.exact_info.kv_format) == ("nvfp4", "native")
    engine.check_integrity()
