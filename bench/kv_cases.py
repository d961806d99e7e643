"""The Typed Decisions cases of the package tool-eval-bench as groups for the engine. For evaluation only."""

import gzip
import importlib.metadata
import json
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from decisions.types import Option, Question, QuestionType
from engine.types import Group
from workers.prompts import Prompter

CASES = "tool_eval_bench/plugins/decision/vendor/typed_decisions/test.jsonl.gz"


def case_groups(prompter: Prompter, count: int, joined: int) -> list[Group]:
    """`count` groups; each state is a list of `joined` cases, asked the questions of the first."""
    cases = _cases()
    groups = []
    for _ in range(count):
        together = list(islice(cases, joined))
        state = [case["state"] for case in together] if joined > 1 else together[0]["state"]
        questions = [_question(name, body) for name, body in together[0]["questions"].items()]
        groups.append(prompter.group(state, None, questions))
    return groups


def _cases() -> Iterator[dict[str, Any]]:
    distribution = importlib.metadata.distribution("tool-eval-bench")
    with gzip.open(Path(str(distribution.locate_file(CASES))), "rt", encoding="utf-8") as lines:
        # The file is ordered by workflow: a step through it sees all of them.
        cases = [json.loads(line) for line in lines]
    yield from (cases[(number * 87) % len(cases)] for number in range(len(cases)))


def _question(name: str, body: Mapping[str, Any]) -> Question:
    return Question(
        id=name,
        type=QuestionType(body["type"]),
        instructions=body["instructions"],
        options=tuple(_options(body["type"], body.get("criteria") or {})),
    )


def _options(kind: str, criteria: Any) -> Iterator[Option]:
    if kind == "score":
        yield from (Option(name=level) for level in criteria)
    elif kind == "noul":
        yield Option(name="yes", description=criteria.get("true"))
        yield Option(name="no", description=criteria.get("false"))
    else:
        yield from (Option(name=name, description=text) for name, text in criteria.items())
