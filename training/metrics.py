"""Numbers about reads: accuracy with its interval, label mass, divergence from soft gold, calibration. Pure; no model."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from training.prompts import Question


@dataclass(frozen=True, kw_only=True)
class Read:
    """What a model said to one question."""

    question: Question
    source: str
    logp: tuple[float, ...]  #: log-probability of each label over the whole vocabulary

    @property
    def mass(self) -> float:
        return sum(math.exp(x) for x in self.logp)

    @property
    def right(self) -> bool:
        return self.answer == self.question.best

    @property
    def answer(self) -> int:
        return max(range(len(self.logp)), key=self.logp.__getitem__)

    def probabilities(self, temperature: float = 1.0) -> list[float]:
        top = max(self.logp)
        weights = [math.exp((x - top) / temperature) for x in self.logp]
        return [w / sum(weights) for w in weights]


def interval(hits: int, n: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share."""
    if n == 0:
        return 0.0, 1.0
    z, p = 1.96, hits / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return middle - half, middle + half


def summary(reads: Sequence[Read]) -> dict[str, float]:
    n = len(reads)
    hits = sum(r.right for r in reads)
    low, high = interval(hits, n)
    near = sum(abs(r.answer - r.question.best) <= 1 for r in reads)
    return {
        "n": n,
        "accuracy": hits / n,
        "low": low,
        "high": high,
        "within one": near / n,
        "chance": sum(1 / len(r.logp) for r in reads) / n,
        "most frequent": most_frequent(reads),
        "mass": sum(r.mass for r in reads) / n,
        "kl": sum(divergence(r.question.target, r.probabilities()) for r in reads) / n,
    }


def most_frequent(reads: Sequence[Read]) -> float:
    """Accuracy of always giving the answer that is right most often in this very set."""
    asked: dict[object, Counter[str]] = defaultdict(Counter)
    for r in reads:
        key = (r.source, r.question.instructions, frozenset(r.question.options))
        asked[key][r.question.options[r.question.best]] += 1
    return sum(max(found.values()) for found in asked.values()) / len(reads)


def divergence(target: Sequence[float], said: Sequence[float]) -> float:
    """Kullback-Leibler divergence of what was said from the target, nats."""
    return sum(t * math.log(t / max(s, 1e-9)) for t, s in zip(target, said, strict=True) if t > 0)


def calibration_error(reads: Sequence[Read], temperature: float, bins: int = 10) -> float:
    """Expected calibration error of the top probability."""
    groups: dict[int, list[tuple[float, bool]]] = {}
    for r in reads:
        top = max(r.probabilities(temperature))
        groups.setdefault(min(bins - 1, int(top * bins)), []).append((top, r.right))
    gaps = (abs(sum(p for p, _ in g) - sum(hit for _, hit in g)) for g in groups.values())
    return sum(gaps) / len(reads)


def fit_temperature(reads: Sequence[Read]) -> float:
    """The temperature of the least log loss, by golden section between 0.2 and 5."""

    def cost(log_t: float) -> float:
        t = math.exp(log_t)
        return -sum(math.log(max(r.probabilities(t)[r.question.best], 1e-12)) for r in reads)

    return math.exp(_golden(cost, math.log(0.2), math.log(5.0)))


def _golden(cost: Callable[[float], float], low: float, high: float) -> float:
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(40):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, b) if cost(a) < cost(b) else (a, high)
    return (low + high) / 2
