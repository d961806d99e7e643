"""How far label probabilities move when a state is stored in fewer bits. Pure: scores in, numbers out."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine.types import LabelScores


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Over all reads, against the reads of the unquantised state."""

    #: Largest change of a label's probability (softmax over the labels), worst read and mean.
    probability_max: float
    probability_mean: float
    #: Change of the label mass, worst read.
    mass_max: float
    #: Reads whose winning label changed.
    flips: int
    #: Reads compared.
    reads: int


def drift(ours: Sequence[LabelScores], truth: Sequence[LabelScores]) -> Drift:
    """Aligned reads of the same prompts."""
    changes, masses, flips = [], [], 0
    for our, true in zip(ours, truth, strict=True):
        (our_mass, our_probs), (true_mass, true_probs) = _answer(our), _answer(true)
        pairs = zip(our_probs, true_probs, strict=True)
        changes.append(max(abs(a - b) for a, b in pairs))
        masses.append(abs(our_mass - true_mass))
        flips += our_probs.index(max(our_probs)) != true_probs.index(max(true_probs))
    return Drift(
        probability_max=max(changes),
        probability_mean=sum(changes) / len(changes),
        mass_max=max(masses),
        flips=flips,
        reads=len(changes),
    )


def _answer(score: LabelScores) -> tuple[float, list[float]]:
    weights = [math.exp(value) for value in score.log_probs]
    mass = sum(weights)
    return mass, [weight / mass for weight in weights]
