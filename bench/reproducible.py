"""What reproducible bits cost: the same fresh states with the setting on and off, interleaved.

python bench/reproducible.py
"""

import random
from dataclasses import replace

from engine_workload import arguments, finish, middle, processor_seconds, random_groups, show

from engine.threads import set_thread_environment

#: (states, state tokens, questions): 64 reads each.
WORKLOADS = ((8, 300, 8), (64, 120, 1))


def main() -> None:
    options = arguments(__doc__).parse_args()
    import os

    set_thread_environment(os.environ, options.threads)
    from engine.config import EngineConfig
    from engine.engine import load_engine

    result = {}
    show("dtype     reads  state  on ms/read  off ms/read  cost")
    for dtype in ("float32", "bfloat16"):
        base = EngineConfig(cache_dir=options.cache, dtype=dtype, threads=options.threads)
        engines = {on: load_engine(replace(base, reproducible=on)) for on in (True, False)}
        for states, state, questions in WORKLOADS:
            reads, seconds = states * questions, {True: [], False: []}
            draw = random.Random(states)  # noqa: S311 - synthetic prompts
            for engine in engines.values():
                engine.read(random_groups(draw, 1, 100, 2))
            for _ in range(options.rounds):
                groups = random_groups(draw, states, state, questions)
                for on, engine in engines.items():
                    work = lambda engine=engine, groups=groups: engine.read(groups)  # noqa: E731
                    seconds[on].append(processor_seconds(work))
            on, off = (middle(seconds[key]) / reads * 1e3 for key in (True, False))
            cost = on / off - 1
            show(f"{dtype:9} {reads:5} {state:6} {on:11.1f} {off:12.1f} {cost:+6.1%}")
            result[f"{dtype}_{reads}_{state}"] = {"on_ms": on, "off_ms": off, "cost": cost}
    finish(result)


if __name__ == "__main__":
    main()
