"""Builders that put options in a random order: a label's place never tells the answer. Knows no domain."""

import random
from collections.abc import Sequence

from training.prompts import Question

#: A name and its description.
Option = tuple[str, str | None]
#: What yes and no mean, where that is told.
Sides = tuple[str | None, str | None]


def choice(
    rng: random.Random,
    text: str,
    options: Sequence[Option],
    right: int | None,
    *,
    soft: Sequence[float] | None = None,
) -> Question:
    """`right` None: no option fits. `soft` overrides the one-hot target, in the order of `options`."""
    order = list(range(len(options)))
    rng.shuffle(order)
    if soft is not None:
        target = [soft[i] for i in order]
    elif right is None:
        target = [1 / len(order)] * len(order)
    else:
        target = [float(i == right) for i in order]
    return Question(
        kind="choice",
        instructions=text,
        options=tuple(options[i][0] for i in order),
        descriptions=tuple(options[i][1] for i in order),
        target=tuple(target),
        fits=0.97 if right is not None or soft is not None else 0.3,
    )


def noul(rng: random.Random, text: str, sides: Sides, truth: bool | float | None) -> Question:
    """`sides` describe true and false; `truth` is the probability of yes, None when the state does not tell."""
    yes = 0.5 if truth is None else float(truth)
    return Question(
        kind="noul",
        instructions=text,
        options=("yes", "no"),
        descriptions=tuple(sides),
        target=(yes, 1 - yes),
        fits=0.3 if truth is None else 0.97,
    )


def score(text: str, levels: Sequence[str], target: Sequence[float] | None) -> Question:
    flat = tuple(1 / len(levels) for _ in levels)
    return Question(
        kind="score",
        instructions=text,
        options=tuple(levels),
        descriptions=(None,) * len(levels),
        target=flat if target is None else tuple(target),
        fits=0.3 if target is None else 0.97,
    )
