"""What became of an item, in the shape of each endpoint's reply, be it sent at once or in an output file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from decisions.answers import Confidence, confidence, wire_answer
from decisions.ids import DECISION, public
from decisions.openai_answers import openai_answer
from decisions.types import ItemError, ItemStatus, Json, Question, QuestionSet

_ENDINGS = {
    ItemStatus.CANCELLED: ("batch_cancelled", "the batch was cancelled before this item was read"),
    ItemStatus.EXPIRED: ("batch_expired", "the completion window ended before this item was read"),
}

#: The status of a reply that has an error instead of answers; other codes are the sender's fault.
_STATUSES = {
    "model_not_found": 404,
    "batch_cancelled": 409,
    "state_purged": 409,
    "read_failed": 500,
    "non_finite_scores": 500,
    "attempts_exhausted": 500,
    "batch_expired": 504,
}


def status_of(code: str) -> int:
    return _STATUSES.get(code, 400)


@dataclass(frozen=True, slots=True)
class Read:
    """A question, and what was stored of its read."""

    question: Question
    stored: Mapping[str, Any]

    def answer(self, formula: Confidence | None) -> dict[str, Any]:
        """For `wire_answer` and `openai_answer`. Without a formula confidence is as it was stored."""
        stored = self.stored
        p, mass = stored["probabilities"], stored["label_mass"]
        return {
            "top": stored["answer_index"],
            "probabilities": p,
            "value": stored["value"],
            "confidence": confidence(self.question.type, p, mass, formula)
            if formula
            else stored["confidence"],
        }


def reads_of(row: Any, question_set: QuestionSet | None) -> Sequence[Read]:
    """In the order of the questions, from a row of `decisions.batches.results`."""
    stored = {decision["question_id"]: decision for decision in row.decisions or ()}
    questions = question_set.questions if question_set else ()
    return [Read(q, stored[q.id]) for q in questions if q.id in stored]


def answer_fields(reads: Sequence[Read], formula: Confidence | None) -> dict[str, Json]:
    """Answers by question in the System One shape, and what belongs to them."""
    return {
        "answers": {r.question.id: wire_answer(r.question, **r.answer(formula)) for r in reads},
        "diagnostics": {
            r.question.id: {
                "label_mass": r.stored["label_mass"],
                "argmax_is_label": r.stored["argmax_is_label"],
            }
            for r in reads
        },
        "decisions": {r.question.id: public(DECISION, r.stored["id"]) for r in reads},
        "usage": {"input_tokens": input_tokens(reads), "output_tokens": len(reads)},
    }


def input_tokens(reads: Sequence[Read]) -> int:
    """Whole prompts, as the other servers count; the state is in each of them."""
    return sum(read.stored["prompt_tokens"] for read in reads)


def system_one_reply(
    row: Any, reads: Sequence[Read], *, id_: str, formula: Confidence
) -> dict[str, Json]:
    return {
        "id": id_,
        "object": "structured_decision",
        "created": int(row.finished_at.timestamp()),
        "model": reads[0].stored["model"],
        **answer_fields(reads, formula),
        "joint": None,
    }


def openai_reply(reads: Sequence[Read], *, formula: Confidence) -> dict[str, Json]:
    """OpenAI's fields, and beside them the diagnostics and the ids that an audit starts from."""
    tokens = input_tokens(reads)
    cached = max(read.stored["cached_tokens"] for read in reads)
    return {
        "model": reads[0].stored["model"],
        "answers": [openai_answer(r.question, **r.answer(formula)) for r in reads],
        "usage": {
            "input_tokens": tokens,
            "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
            "output_tokens": len(reads),
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens + len(reads),
        },
        "decisions": [public(DECISION, r.stored["id"]) for r in reads],
        "diagnostics": [
            {
                "label_mass": r.stored["label_mass"],
                "argmax_is_label": r.stored["argmax_is_label"],
            }
            for r in reads
        ],
    }


def error_of(row: Any) -> dict[str, Any] | None:
    """Why an item has no answers, from a row of `decisions.batches.results`."""
    if row.status in _ENDINGS:
        code, message = _ENDINGS[row.status]
        return dict(ItemError(code=code, message=message, line=row.line).as_json())
    # A worker knows the item, not its line.
    return None if row.error is None else {**row.error, "line": row.line}
