"""The engine against hand-written transformers: same weights, same fresh states, interleaved rounds.

    python bench/peers.py                                   the table of the README
    python bench/peers.py --states 2000 --questions 32      one cell

Processor seconds hold when others use the machine; rates and peak memory are of each reader's own process.
"""

import multiprocessing
import random
from collections import defaultdict
from typing import Any

from engine_workload import arguments, finish, middle, random_groups, show
from peers_readers import READERS, serve


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--states", type=int, nargs="+", default=[500, 2000])
    parser.add_argument("--questions", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--readers", nargs="+", default=list(READERS), choices=list(READERS))
    options = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    pipes: dict[str, Any] = {}
    for name in options.readers:
        pipes[name], other = spawn.Pipe()
        settings = (other, name, options.cache, options.dtype, options.threads)
        spawn.Process(target=serve, args=settings, daemon=True).start()
        other.close()
    draw, result = random.Random(17), {}  # noqa: S311 - synthetic prompts
    for name, pipe in pipes.items():
        pipe.send(random_groups(draw, 1, 64, 1))
        pipe.recv()
        show(f"{name} is loaded")
    show(
        "reader            state  questions  cpu ms/decision  wall ms  decisions/s  peak MiB  +idle MiB  max dlogp"
    )
    for state in options.states:
        for questions in options.questions:
            measured = defaultdict(list)
            for _ in range(options.rounds):
                groups = random_groups(draw, 1, state, questions)
                answers = {}
                for name, pipe in pipes.items():
                    if name.startswith("whole") and state * questions > 5000:
                        continue  # minutes for what is known to be (state + question) / question slower
                    pipe.send(groups)
                    *numbers, answers[name] = pipe.recv()
                    measured[name].append((*numbers, _difference(answers[name], answers)))
            for name, rows in measured.items():
                wall, cpu, idle, peak, off = (
                    middle(list(column)) for column in zip(*rows, strict=True)
                )
                row = {
                    "cpu_ms": cpu / questions * 1e3,
                    "wall_ms": wall / questions * 1e3,
                    "per_second": questions / wall,
                    "peak_mib": peak,
                    "grown_mib": peak - idle,
                }
                result[f"{name}|{state}|{questions}"] = row
                values = "{cpu_ms:16.1f} {wall_ms:8.1f} {per_second:12.1f} {peak_mib:9.0f} {grown_mib:10.0f}"
                show(f"{name:17} {state:5} {questions:10} {values.format(**row)} {off:10.4f}")
    for pipe in pipes.values():
        pipe.send(None)
    finish(result)


def _difference(ours: list[Any], answers: dict[str, list[Any]]) -> float:
    """The largest difference of a label's log-probability to the first reader's."""
    first = next(iter(answers.values()))
    flat = (
        [value for group in scores for read in group for value in read] for scores in (ours, first)
    )
    return max(abs(a - b) for a, b in zip(*flat, strict=True))


if __name__ == "__main__":
    main()
