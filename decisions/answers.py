"""From a read's label log-probabilities to an answer. Pure arithmetic in float64.

With lp_i the log-probability of label i over the full vocabulary:

    probabilities = softmax(lp)            over the question's labels alone
    label mass    = sum_i exp(lp_i)        how much of the model's belief the labels hold
    score         = sum_i i * p_i          expectation over 0-based levels

Confidence has three conventions in the field; each decision records which one it carries:

    label_mass  p_top * label mass                                     (vLLM)
    peak        choice (p_top - 1/n) / (1 - 1/n), score 1 - spread / D  (TypeSafe)
    entropy     1 - H(p) / ln n                                         (Ollama)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import exp, inf, isnan, log

from decisions.errors import NonFiniteScores
from decisions.types import Json, Question, QuestionType


class Confidence(StrEnum):
    """Which formula `confidence` follows."""

    LABEL_MASS = "label_mass"
    PEAK = "peak"
    ENTROPY = "entropy"


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What one read says about one question."""

    #: Position of the winning option; the first of equals.
    top: int
    #: Per option, in option order; sums to 1.
    probabilities: tuple[float, ...]
    #: Per option, over the full vocabulary; may be -inf.
    log_probs: tuple[float, ...]
    #: Between 0 and 1; a sum that rounding took above 1 counts as 1.
    label_mass: float
    #: Between the two best options; 1 when there is only one.
    margin: float
    #: In nats.
    entropy: float
    #: The probability of yes, the expected level of a score, None for a choice.
    value: float | None
    confidence: float
    confidence_formula: Confidence


def answer(
    question: Question, log_probs: Sequence[float], formula: Confidence = Confidence.LABEL_MASS
) -> Answer:
    """Raises NonFiniteScores when no label has a finite score or one is NaN or +inf."""
    if any(isnan(lp) or lp == inf for lp in log_probs) or max(log_probs) == -inf:
        raise NonFiniteScores()
    p = softmax(log_probs)
    top = max(range(len(p)), key=p.__getitem__)
    mass = min(1.0, sum(exp(lp) for lp in log_probs))
    ranked = sorted(p, reverse=True)
    return Answer(
        top=top,
        probabilities=p,
        log_probs=tuple(log_probs),
        label_mass=mass,
        margin=ranked[0] - ranked[1] if len(p) > 1 else 1.0,
        entropy=entropy(p),
        value=_value(question, p),
        confidence=confidence(question.type, p, mass, formula),
        confidence_formula=formula,
    )


def softmax(log_probs: Sequence[float]) -> tuple[float, ...]:
    peak = max(log_probs)
    weights = [exp(lp - peak) for lp in log_probs]
    total = sum(weights)
    return tuple(w / total for w in weights)


def entropy(p: Sequence[float]) -> float:
    # Not the sum's negative, which is -0.0 for a sure answer.
    return sum(-x * log(x) for x in p if x > 0)


def confidence(
    type_: QuestionType, p: Sequence[float], label_mass: float, formula: Confidence
) -> float:
    n = len(p)
    match formula:
        case Confidence.LABEL_MASS:
            return max(p) * label_mass
        case Confidence.ENTROPY:
            # Rounding takes an even belief's entropy above ln n.
            return 1.0 if n == 1 else max(0.0, 1 - entropy(p) / log(n))
        case Confidence.PEAK if n == 1:
            return 1.0
        case Confidence.PEAK if type_ is QuestionType.SCORE:
            return _score_peak(p)
        case Confidence.PEAK:
            return (max(p) - 1 / n) / (1 - 1 / n)


def _score_peak(p: Sequence[float]) -> float:
    """1 - (mean distance from the top level) / (the same for a uniform belief around the middle)."""
    n = len(p)
    top = max(range(n), key=p.__getitem__)
    uniform = sum(abs(i - (n - 1) / 2) for i in range(n)) / n
    return max(0.0, 1 - sum(x * abs(i - top) for i, x in enumerate(p)) / uniform)


def _value(question: Question, p: Sequence[float]) -> float | None:
    match question.type:
        case QuestionType.CHOICE:
            return None
        case QuestionType.NOUL:
            return p[question.yes]
        case QuestionType.SCORE:
            # The probabilities may sum to a little more than 1.
            return min(len(p) - 1.0, sum(i * x for i, x in enumerate(p)))


def wire_answer(
    question: Question,
    *,
    top: int,
    probabilities: Sequence[float],
    value: float | None,
    confidence: float,
) -> dict[str, Json]:
    """The answer in the System One shape, as vLLM gives it."""
    names = [o.name for o in question.options]
    head: dict[str, Json] = {"type": question.type.value}
    match question.type:
        case QuestionType.CHOICE:
            head["choice"] = names[top]
        case QuestionType.NOUL:
            head["noul"] = value
        case QuestionType.SCORE:
            head["score"] = value
            head["legend"] = {str(i): name for i, name in enumerate(names)}
            names = [str(i) for i in range(len(names))]
    by_name: dict[str, Json] = dict(zip(names, probabilities, strict=True))
    return {**head, "probabilities": by_name, "confidence": confidence}
