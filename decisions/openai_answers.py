"""Answers to lettered questions in the shape of OpenAI's Decisions."""

import json
from collections.abc import Sequence

from decisions.types import Json, Question, QuestionType


def openai_answer(
    question: Question,
    *,
    top: int,
    probabilities: Sequence[float],
    value: float | None,
    confidence: float,
) -> dict[str, Json]:
    match question.type:
        case QuestionType.NOUL:
            return {"type": "predicate", "name": question.name, "probability": value}
        case QuestionType.CHOICE:
            # Names are values as JSON, which keeps "true" and true apart.
            values: list[Json] = [json.loads(option.name) for option in question.options]
            return {
                "type": "choice",
                "name": question.name,
                "choice": values[top],
                "probabilities": [
                    {"value": v, "probability": p}
                    for v, p in zip(values, probabilities, strict=True)
                ],
                "confidence": confidence,
            }
        case QuestionType.SCORE:
            return {
                "type": "score",
                "name": question.name,
                "score": value,
                "probabilities": [
                    {"value": i, "label": option.name, "probability": p}
                    for i, (option, p) in enumerate(
                        zip(question.options, probabilities, strict=True)
                    )
                ],
                "confidence": confidence,
            }


def refusal(question: Question) -> dict[str, Json]:
    """In the place of an answer to a question that could not be read."""
    return {"type": "refusal", "name": question.name}
