"""From claimed items to decisions: group by state, render, read, answer. The flow is `Decider.decide`.

The one place where a Question meets a Prompt. Touches no database: rows come in, rows go out.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from time import perf_counter
from typing import Any
from uuid import UUID

import numpy as np

from decisions.answers import Answer, Confidence, answer
from decisions.errors import NonFiniteScores
from decisions.prompts import version
from decisions.types import Claim, ItemError, Json, Question, QuestionSet
from engine.engine import Engine
from engine.types import Group, GroupScores, LabelScores, Suffix
from workers.contents import Contents, Key
from workers.prompts import Prompter

logger = logging.getLogger(__name__)

Row = dict[str, Any]


@dataclass(slots=True)
class Outcome:
    """What a claim came to, ready for `decisions.queue.complete`."""

    results: list[Row] = field(default_factory=list)
    decisions: list[Row] = field(default_factory=list)
    #: Time in `Engine.read`.
    engine_seconds: float = 0.0

    def each(self) -> Iterator["Outcome"]:
        """The same, an item at a time; the first of them carries the time."""
        seconds = self.engine_seconds
        for result in self.results:
            mine = [row for row in self.decisions if row["item_id"] == result["id"]]
            yield Outcome([result], mine, seconds)
            seconds = 0.0

    def refused(self, why: Exception) -> "Outcome":
        """Failed instead: the database would not take it."""
        error = ItemError(code="not_storable", message=f"{type(why).__name__}: {_first_line(why)}")
        failed = [
            row | {"status": "failed", "error": dict(error.as_json())} for row in self.results
        ]
        return Outcome(failed, [], self.engine_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One state, all that its items ask about it, and the prompts of that."""

    claims: tuple[Claim, ...]
    #: Each distinct set once, however many items ask it.
    question_sets: dict[Key, QuestionSet]
    prompts: Group

    def suffixes_of(self, key: Key) -> slice:
        start = 0
        for other, question_set in self.question_sets.items():
            if other == key:
                return slice(start, start + len(question_set.questions))
            start += len(question_set.questions)
        raise KeyError(key)


class Decider:
    """Reads with one engine. One thread uses it at a time."""

    def __init__(
        self,
        engine: Engine,
        prompter: Prompter,
        *,
        worker_id: UUID,
        model_version_id: int,
        confidence: Confidence,
    ) -> None:
        self._engine = engine
        self._prompter = prompter
        self._formula = confidence
        self._provenance: Row = {
            "model_version_id": model_version_id,
            "worker_id": str(worker_id),
        }

    def decide(self, claims: Sequence[Claim], contents: Contents) -> Outcome:
        """One result for every claim, and a decision for each question of those that are done."""
        outcome = Outcome()
        asked = self._render(claims, contents, outcome)
        started = perf_counter()
        read = self._read(asked, outcome)
        outcome.engine_seconds = perf_counter() - started
        for one, scores in read:
            for claim in one.claims:
                self._answer(claim, one, scores, outcome)
        return outcome

    def _render(
        self, claims: Sequence[Claim], contents: Contents, outcome: Outcome
    ) -> list[_Asked]:
        """Claims that share a state and its system instructions become one group of prompts."""
        together: dict[tuple[int, bytes, str | None], list[Claim]] = {}
        for claim in claims:
            if (claim.tenant_id, claim.state_hash) not in contents.states:
                _fail(claim, outcome, "state_purged", "the state was purged", "state")
                continue
            question_set = contents.question_sets[claim.tenant_id, claim.question_set_hash]
            if (most := self._prompter.most_options) < _options(question_set):
                message = f"this model reads at most {most} options"
                _fail(claim, outcome, "too_many_options", message, "questions")
                continue
            key = (claim.tenant_id, claim.state_hash, question_set.instructions)
            together.setdefault(key, []).append(claim)
        return [
            one
            for (tenant, state_hash, _), group in together.items()
            for one in self._fitting(group, contents.states[tenant, state_hash], contents, outcome)
        ]

    def _fitting(
        self, claims: list[Claim], state: Json, contents: Contents, outcome: Outcome
    ) -> list[_Asked]:
        """The group, less the items that have a prompt longer than the model's context."""
        asked = self._ask(claims, state, contents)
        limit = self._engine.info.context_tokens
        fits: list[Claim] = []
        for claim in claims:
            key = (claim.tenant_id, claim.question_set_hash)
            longest = max(_tokens(asked, s) for s in asked.prompts.suffixes[asked.suffixes_of(key)])
            if longest > limit:
                message = (
                    f"the state and a question take {longest} tokens, this model reads {limit}"
                )
                _fail(claim, outcome, "context_length_exceeded", message, "state")
            else:
                fits.append(claim)
        if len(fits) == len(claims):
            return [asked]
        return [self._ask(fits, state, contents)] if fits else []

    def _ask(self, claims: list[Claim], state: Json, contents: Contents) -> _Asked:
        keys = dict.fromkeys((claim.tenant_id, claim.question_set_hash) for claim in claims)
        sets = {key: contents.question_sets[key] for key in keys}
        instructions = next(iter(sets.values())).instructions
        questions = [question for one in sets.values() for question in one.questions]
        return _Asked(
            claims=tuple(claims),
            question_sets=sets,
            prompts=self._prompter.group(state, instructions, questions),
        )

    def _read(self, asked: Sequence[_Asked], outcome: Outcome) -> list[tuple[_Asked, GroupScores]]:
        """Read all in as few passes as fit; if that fails, group by group, so that one fails alone."""
        if not asked:
            return []
        try:
            scores = self._engine.read([one.prompts for one in asked])
        except Exception as error:
            if len(asked) > 1:
                return [pair for one in asked for pair in self._read([one], outcome)]
            logger.exception("a group could not be read", extra={"action": "read_failed"})
            for claim in asked[0].claims:
                _fail(claim, outcome, "read_failed", f"{type(error).__name__}: {error}", None)
            return []
        return list(zip(asked, scores, strict=True))

    def _answer(self, claim: Claim, one: _Asked, scores: GroupScores, outcome: Outcome) -> None:
        key = (claim.tenant_id, claim.question_set_hash)
        mine = one.suffixes_of(key)
        prefix_hash = sha256(_bytes(one.prompts.prefix_ids))
        rows = []
        for question, suffix, read in zip(
            one.question_sets[key].questions,
            one.prompts.suffixes[mine],
            scores.scores[mine],
            strict=True,
        ):
            try:
                found = answer(question, read.log_probs, self._formula)
            except NonFiniteScores as wrong:
                message = f"question '{question.id}': {wrong.message}"
                _fail(claim, outcome, "non_finite_scores", message, f"questions.{question.id}")
                return
            prompt_hash = prefix_hash.copy()
            prompt_hash.update(_bytes(suffix.token_ids))
            rows.append(
                self._provenance
                | _answer_row(question, found, suffix, read)
                | {
                    "item_id": claim.id,
                    "prompt_hash": prompt_hash.hexdigest(),
                    "prompt_tokens": _tokens(one, suffix),
                    "queue_seconds": claim.queue_seconds,
                    "read_seconds": outcome.engine_seconds,
                    "prefilled_tokens": scores.prefilled_tokens,
                    "cached_tokens": scores.cached_tokens,
                }
            )
        outcome.decisions += rows
        outcome.results.append(
            _result(claim, "done", None, sum(row["prompt_tokens"] for row in rows), len(rows))
        )


def _answer_row(question: Question, found: Answer, suffix: Suffix, read: LabelScores) -> Row:
    return {
        "question_id": question.id,
        "type": question.type.value,
        "prompt_version": version(question),
        "answer": question.options[found.top].name,
        "answer_index": found.top,
        "value": found.value,
        "probabilities": found.probabilities,
        # JSON has no infinity; Postgres reads this spelling of it.
        "log_probs": [lp if lp > float("-inf") else "-Infinity" for lp in found.log_probs],
        "label_ids": suffix.label_ids,
        "label_mass": found.label_mass,
        "argmax_token": read.argmax_id,
        "argmax_is_label": read.argmax_id in suffix.label_ids,
        "margin": found.margin,
        "entropy": found.entropy,
        "confidence": found.confidence,
        "confidence_formula": found.confidence_formula.value,
    }


def _result(
    claim: Claim, status: str, error: ItemError | None, input_tokens: int, output_tokens: int
) -> Row:
    return {
        "id": claim.id,
        "fence": claim.fence,
        "status": status,
        "error": error and dict(error.as_json()),
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
    }


def _fail(claim: Claim, outcome: Outcome, code: str, message: str, param: str | None) -> None:
    error = ItemError(code=code, message=message, param=param)
    outcome.results.append(_result(claim, "failed", error, 0, 0))


def _options(question_set: QuestionSet) -> int:
    return max(len(question.options) for question in question_set.questions)


def _first_line(error: Exception) -> str:
    """Of the driver's message; what follows may quote values."""
    return str(getattr(error, "orig", error)).partition("\n")[0]


def _tokens(asked: _Asked, suffix: Suffix) -> int:
    return len(asked.prompts.prefix_ids) + len(suffix.token_ids)


def _bytes(token_ids: tuple[int, ...]) -> bytes:
    return np.asarray(token_ids, dtype="<i4").tobytes()
