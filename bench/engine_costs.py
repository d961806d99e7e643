"""What sharing costs: N questions about a cold state, and about a stored one, in prefills of the state.

    python bench/engine_costs.py

cold: processor time of a state and its N questions, over (S + N * L) / S prefills of the state alone
warm: processor time of the N questions of a stored state, over N * L / S prefills
Both would be 1.00 if attention to a longer past, the head and everything around the model were free.
"""

import os
import random
from dataclasses import replace

from engine_workload import (
    QUESTION_TOKENS,
    arguments,
    finish,
    middle,
    processor_seconds,
    random_groups,
    show,
)

from engine.threads import set_thread_environment


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--states", type=int, nargs="+", default=[500, 2000])
    parser.add_argument("--questions", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--kv-format", default="int8")
    options = parser.parse_args()
    set_thread_environment(os.environ, options.threads)
    from engine.config import EngineConfig
    from engine.engine import load_engine

    base = EngineConfig(cache_dir=options.cache, dtype=options.dtype, threads=options.threads)
    engine = load_engine(replace(base, kv_format=options.kv_format))
    draw, result = random.Random(3), {}  # noqa: S311 - synthetic prompts
    engine.read(random_groups(draw, 1, 100, 2))
    show("state  questions  prefill ms  cold ms  warm ms  cold ratio  warm ratio")
    for state in options.states:
        for questions in options.questions:
            cold, warm, alone = [], [], []
            for _ in range(options.rounds):
                (group,) = random_groups(draw, 1, state, questions)
                (other,) = random_groups(draw, 1, state, 1)
                # One token after another state of the same length: its prefill and next to nothing.
                tiny = replace(other.suffixes[0], token_ids=other.suffixes[0].token_ids[:1])
                one = replace(other, suffixes=(tiny,))
                both = [processor_seconds(lambda: engine.read([one])) for _ in range(2)]  # noqa: B023
                alone.append(both[0] - both[1])
                cold.append(processor_seconds(lambda: engine.read([group])))  # noqa: B023
                warm.append(processor_seconds(lambda: engine.read([group])))  # noqa: B023
            prefill, tokens = middle(alone), questions * QUESTION_TOKENS
            ratios = (
                middle(cold) / prefill / ((state + tokens) / state),
                middle(warm) / prefill / (tokens / state),
            )
            times = (prefill * 1e3, middle(cold) * 1e3, middle(warm) * 1e3)
            show(
                f"{state:5} {questions:10} {times[0]:11.0f} {times[1]:8.0f} {times[2]:8.0f}"
                f" {ratios[0]:11.2f} {ratios[1]:11.2f}"
            )
            result[f"{state}|{questions}"] = {"cold": ratios[0], "warm": ratios[1]}
    finish(result)


if __name__ == "__main__":
    main()
