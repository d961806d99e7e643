"""The demo's tickets, questions and truths belong together."""

import json
from pathlib import Path
from typing import Any

import yaml

SAMPLE = Path(__file__).parents[2] / "cli" / "sample"


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SAMPLE / name).read_text().splitlines()]


def test_there_are_at_least_240_tickets_and_some_people_submit_twice() -> None:
    states = [json.dumps(row["state"]) for row in rows("tickets.jsonl")]
    assert len(states) >= 240
    assert 10 <= len(states) - len(set(states)) <= 20


def test_each_ticket_has_one_truth_and_the_same_text_has_the_same_truth() -> None:
    tickets, truths = rows("tickets.jsonl"), rows("truth.jsonl")
    assert [t["custom_id"] for t in tickets] == [t["custom_id"] for t in truths]
    by_text: dict[str, object] = {}
    for ticket, truth in zip(tickets, truths, strict=True):
        answers = [truth["team"], truth["urgent"], truth["tone"]]
        assert by_text.setdefault(json.dumps(ticket["state"]), answers) == answers


def test_each_truth_is_an_option_of_its_question() -> None:
    questions = yaml.safe_load((SAMPLE / "triage.yaml").read_text())["questions"]
    for truth in rows("truth.jsonl"):
        assert truth["team"] in questions["team"]["criteria"]
        assert isinstance(truth["urgent"], bool)
        assert truth["tone"] in range(len(questions["tone"]["criteria"]))
