"""Schedules as values: which decisions are read again, what is changed, and what is asked of the result.

Rules that a schedule follows:

    due       each due time has one run, however many schedulers there are
    missed    when several due times have passed, the newest has a run; the run counts the others
    source    stored decisions, never those that a run of a schedule has made
    range     `last` counts back from the due time, not from when the run really began
    run       one item per decision, under the decision's id, in the nightly lane; what its question set
              asked besides is not asked again
    change    the model and the KV format are those of workers that serve the nightly lane: a run that none
              of those that live can read fails by name, and one that was read otherwise is held
"""

import re
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Literal

import msgspec

from decisions.errors import InvalidSchedule
from decisions.questions import canonical, content_hash, parse_question_set
from decisions.types import Json, Option, Question, QuestionSet, QuestionType

_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Range:
    """From `min` to `max`, both included."""

    min: float = 0.0
    max: float = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """So many decisions, the same for the same seed."""

    size: int
    seed: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Which decisions. What is not said is not asked of them."""

    #: `90m`, `24h` or `7d` before the due time.
    last: str | None = None
    #: Or a fixed range; `until` is not in it.
    since: datetime | None = None
    until: datetime | None = None
    questions: tuple[str, ...] | None = None
    model: str | None = None
    #: Which way a policy sent them.
    route: str | None = None
    label_mass: Range | None = None
    confidence: Range | None = None
    sample: Sample | None = None

    def window(self, due: datetime) -> tuple[datetime | None, datetime]:
        """From when, and until when, exclusive."""
        if self.last is not None:
            return due - length(self.last), due
        return self.since, min(due, self.until) if self.until else due


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """What is different when they are read again. Nothing says: read again as it was."""

    #: Of the workers that serve the nightly lane.
    model: str | None = None
    kv_format: str | None = None
    #: Questions in the place of those with the same ids, in the System One shape.
    questions: dict[str, Any] | None = None
    #: In the place of every question set's own.
    instructions: str | None = None
    #: Of choices: the order of their labels.
    options: Literal["reversed", "shuffled"] | None = None
    #: Of the shuffle.
    seed: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Thresholds:
    """What a result must reach to be promoted; each is asked of every question."""

    #: Share of answers that stay, at least.
    agreement: float | None = None
    #: Of label mass and of each option's probability, at most.
    psi: float | None = None
    #: Of the mean, at most.
    label_mass_drop: float | None = None
    #: Of the share that agrees with truth, at most.
    accuracy_drop: float | None = None
    #: Decisions with truth, at least, before `accuracy_drop` says anything.
    truths: int = 1
    #: Share of all items that have an answer, at least.
    answered: float = 1.0

    @property
    def named(self) -> bool:
        asked = (self.agreement, self.psi, self.label_mass_drop, self.accuracy_drop)
        return any(limit is not None for limit in asked)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a run does: a schedule as it was when the run was due."""

    source: Source = field(default_factory=Source)
    change: Change = field(default_factory=Change)
    thresholds: Thresholds = field(default_factory=Thresholds)


def plan_of(row: Any) -> Plan:
    """From a row of a schedule or of a run."""
    stored = {name: getattr(row, name) for name in ("source", "change", "thresholds")}
    return msgspec.convert(stored, Plan)


def length(text: str) -> timedelta:
    """`90m`, `24h` or `7d` as time. Raises InvalidSchedule for anything else."""
    parts = re.fullmatch(r"([1-9][0-9]{0,5})([mhd])", text)
    if not parts:
        raise InvalidSchedule(
            "must be a number of minutes, hours or days, such as 90m, 24h or 7d",
            param="source.last",
        )
    return timedelta(**{_UNITS[parts[2]]: int(parts[1])})


class Changed:
    """A question set's one question, as a run asks it."""

    def __init__(self, change: Change) -> None:
        """Raises InvalidQuestion when the change's questions are not well formed."""
        self._change = change
        asked = parse_question_set(change.questions).questions if change.questions else ()
        self._questions = {question.id: question for question in asked}

    def ask(self, before: QuestionSet, question_id: str) -> tuple[str, bytes] | None:
        """Canonical JSON and hash; None when the question became one of another type."""
        was = next(q for q in before.questions if q.id == question_id)
        question = self._questions.get(question_id, was)
        if question.type is not was.type:
            return None
        text = canonical(
            QuestionSet(
                instructions=self._change.instructions or before.instructions,
                questions=(self._ordered(question),),
            )
        )
        return text, content_hash(text)

    def _ordered(self, question: Question) -> Question:
        order = self._change.options
        if order is None or question.type is not QuestionType.CHOICE:
            return question
        options = question.options[::-1] if order == "reversed" else self._shuffled(question)
        return replace(question, options=tuple(options))

    def _shuffled(self, question: Question) -> list[Option]:
        def rank(option: Option) -> bytes:
            return sha256(f"{self._change.seed}:{question.id}:{option.name}".encode()).digest()

        return sorted(question.options, key=rank)


def as_json(value: Source | Change | Thresholds) -> dict[str, Json]:
    """For the store, without what was not said."""
    plain: dict[str, Json] = msgspec.to_builtins(value)
    return {name: content for name, content in plain.items() if content is not None}
