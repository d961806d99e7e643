"""What tool-eval-bench's Typed Decisions cases give to guesses that ignore the state.

`uniform` gives every option the same probability; `prior` gives each question's mean gold distribution
over these very cases, so it is an upper bound for guesses of its kind. Ends in one JSON line.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from math import log
from typing import Any

from tool_eval_bench.plugins.decision.typed_decisions import load_cases

Distribution = Mapping[str, float]


def main() -> None:
    golds = [
        (f"{case.workflow}/{name}", case.gold[name])
        for case in load_cases()
        for name in case.questions
    ]
    total: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for question, gold in golds:
        for option, p in gold.probabilities.items():
            total[question][option] += p
    prior = {
        question: {option: p / sum(options.values()) for option, p in options.items()}
        for question, options in total.items()
    }
    found = {
        "decisions": len(golds),
        "uniform": scores(golds, lambda _, gold: dict.fromkeys(gold, 1 / len(gold))),
        "prior": scores(golds, lambda question, _: prior[question]),
    }
    print(json.dumps(found))


def scores(
    golds: list[tuple[str, Any]], guess: Callable[[str, Distribution], Distribution]
) -> dict[str, float]:
    """Accuracy in percent (ties count in parts), KL(gold || guess) in nats, summed squared difference."""
    accuracy = kl = brier = 0.0
    for question, gold in golds:
        p = guess(question, gold.probabilities)
        best = [option for option in p if p[option] == max(p.values())]
        accuracy += (gold.label in best) / len(best)
        kl += sum(q * log(q / p[option]) for option, q in gold.probabilities.items() if q > 0)
        brier += sum((q - p[option]) ** 2 for option, q in gold.probabilities.items())
    n = len(golds)
    return {
        "accuracy": round(accuracy / n * 100, 1),
        "kl": round(kl / n, 3),
        "brier": round(brier / n, 3),
    }


if __name__ == "__main__":
    main()
