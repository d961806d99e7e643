"""States and questions of given lengths, the default model, and processor time: for the engine benches."""

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.types import Group, Suffix

#: Tokens of one question, as in the peers' workload.
QUESTION_TOKENS = 60


def arguments(description: str) -> argparse.ArgumentParser:
    """The options that every engine bench has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "weighbridge")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    return parser


def random_groups(draw: random.Random, states: int, state: int, questions: int) -> list[Group]:
    """`states` fresh states of `state` tokens with `questions` questions each."""

    def tokens(count: int) -> tuple[int, ...]:
        return tuple(draw.randrange(100, 49_000) for _ in range(count))

    return [
        Group(
            prefix_ids=tokens(state),
            suffixes=tuple(
                Suffix(token_ids=tokens(QUESTION_TOKENS), label_ids=(55, 56, 57, 58))
                for _ in range(questions)
            ),
        )
        for _ in range(states)
    ]


def processor_seconds(work: Callable[[], Any]) -> float:
    """Processor time of all threads of this process: steady when others use the machine too."""
    before = time.process_time()
    work()
    return time.process_time() - before


def middle(values: list[float]) -> float:
    return statistics.median(values)


def show(line: str) -> None:
    print(line, flush=True)


def finish(result: dict[str, Any]) -> None:
    """The last line of a bench is its result as JSON."""
    sys.stdout.write(json.dumps(result) + "\n")
