"""The text of one question as the service shows it, and the target that training aims at.

Knows contracts.md 1.4's layout and no model. A target is a distribution over the labels plus the share that belongs to
the token of `NONE`, the word a model says when no option fits:

    target(label_i) = fits * p_i,   target(NONE) = 1 - fits
"""

import json
from dataclasses import dataclass
from typing import Literal

Kind = Literal["choice", "noul", "score"]

#: Where the mass goes when no option fits; one token in the default model's vocabulary.
NONE = "None"

REPLY: dict[Kind, str] = {
    "choice": "Answer with the letter of one option only.",
    "noul": "Answer with yes or no only.",
    "score": "Answer with the number of one level only.",
}
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question about a state with its target."""

    #: `choice`, `noul` or `score`.
    kind: Kind
    #: What is asked; empty drops the line.
    instructions: str
    #: Option names (choice), `yes` and `no` (noul) or levels (score), in the order shown.
    options: tuple[str, ...]
    #: One description or None per option; all None for a score.
    descriptions: tuple[str | None, ...]
    #: Probability of each option given that one fits; sums to one.
    target: tuple[float, ...]
    #: Share of the whole vocabulary's mass that the labels deserve, 0 to 1.
    fits: float = 0.97
    #: The one right option where a person or a data set named it; None takes the likeliest.
    right: int | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        if self.kind == "noul":
            return ("yes", "no")
        codes = LETTERS if self.kind == "choice" else "0123456789"
        return tuple(codes[: len(self.options)])

    @property
    def best(self) -> int:
        if self.right is not None:
            return self.right
        return max(range(len(self.target)), key=self.target.__getitem__)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One state with its questions."""

    #: Text, or anything JSON can hold.
    state: object
    questions: tuple[Question, ...]
    #: Which generator or file it came from.
    source: str = ""


def state_text(state: object) -> str:
    return state if isinstance(state, str) else json.dumps(state, ensure_ascii=False)


def option_lines(question: Question) -> list[str]:
    if question.kind == "score":
        return [
            f"{label}: {level}"
            for label, level in zip(question.labels, question.options, strict=True)
        ]
    lines = []
    for label, name, text in zip(
        question.labels, question.options, question.descriptions, strict=True
    ):
        if question.kind == "noul":
            lines.append(f"{label}: {text}" if text else label)
        else:
            lines.append(f"{label}: {name} - {text}" if text else f"{label}: {name}")
    return lines


def question_text(question: Question) -> str:
    head = [f"Question: {question.instructions}"] if question.instructions else []
    return "\n".join([*head, *option_lines(question), REPLY[question.kind]])


def user_turn(state: object, question: Question) -> str:
    return f"{state_text(state)}\n\n{question_text(question)}"
