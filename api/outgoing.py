"""Lines that a stream answers with, by `object`:

stream.accepted   {"batch_id", "first_line"}: line n of this batch is the stream's first_line + n - 1
stream.result     what became of a `line`: a result as a batch has it, and its `batch_id`
stream.end        {"lines", "unanswered", "complete"}; a stream without it was cut off
"""

from collections.abc import Sequence
from typing import Any

from api.incoming import Incoming
from api.placing import Placed
from api.results import result_of
from decisions.ids import BATCH, public
from decisions.types import ItemError, Json, QuestionSet


def result(row: Any, question_set: QuestionSet | None, line: int) -> dict[str, Json]:
    """From a row of `decisions.progress.finished`."""
    found = result_of(row, question_set)
    error = found["error"]
    return {
        "object": "stream.result",
        **found,
        "line": line,
        "error": {**error, "line": line} if isinstance(error, dict) else None,
        "batch_id": public(BATCH, row.batch_id),
    }


def accepted(placed: Placed) -> list[dict[str, Json]]:
    if placed.batch_id is None:
        return []
    return [
        {
            "object": "stream.accepted",
            "batch_id": public(BATCH, placed.batch_id),
            "first_line": placed.first_line,
        }
    ]


def conflict(one: Incoming) -> dict[str, Json]:
    error = ItemError(
        code="idempotency_key_reused",
        message="this key was used before for another item",
        param="key",
        line=one.item.line,
    )
    return refusal(one, error)


def refusal(one: Incoming, error: ItemError) -> dict[str, Json]:
    """The result of a line that was not accepted."""
    return {
        "object": "stream.result",
        "custom_id": one.item.custom_id,
        "line": one.item.line,
        "status": "failed",
        "answers": {},
        "diagnostics": {},
        "decisions": {},
        "usage": {"input_tokens": 0, "output_tokens": 0},
        "error": dict(error.as_json()),
        "batch_id": None,
    }


def end(lines: int, unanswered: Sequence[int], *, complete: bool) -> dict[str, Json]:
    return {
        "object": "stream.end",
        "lines": lines,
        "unanswered": list(unanswered),
        "complete": complete,
    }
