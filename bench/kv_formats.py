"""Drift, bytes and speed of each form of stored states, against float32 keys and values.

    python bench/kv_formats.py                 (needs: pip install --no-deps tool-eval-bench)

The model computes in float32 so that all drift is the format's. The last row is for scale: a bfloat16
model that stores what it computes.
"""

import os
from dataclasses import asdict, replace

from engine_workload import arguments, finish, processor_seconds, show
from kv_cases import case_groups
from kv_drift import drift

from engine.threads import set_thread_environment


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--groups", type=int, default=16, help="states of each length")
    options = parser.parse_args()
    set_thread_environment(os.environ, options.threads)
    from engine.config import KV_FORMATS, EngineConfig
    from engine.engine import load_engine
    from engine.models import find_model
    from engine.tokenizer import load_tokenizer
    from workers.prompts import Prompter

    folder = find_model("default", cache_dir=options.cache)
    prompter = Prompter(load_tokenizer(folder), folder.name)
    lengths = {joined: case_groups(prompter, options.groups, joined) for joined in (1, 6)}
    base = EngineConfig(cache_dir=options.cache, dtype="float32", threads=options.threads)
    configs = {name: replace(base, kv_format=name) for name in KV_FORMATS}
    configs["native, bf16 model"] = replace(base, dtype="bfloat16")
    truth, result = {}, {}
    show(
        "format              state  dp max  dp mean  dmass max  flips  bytes/token  tokens/GB   warm s"
    )
    for name, config in configs.items():
        engine = load_engine(config)
        for joined, groups in lengths.items():
            reads = [score for group in engine.read(groups) for score in group.scores]
            warm = processor_seconds(lambda: engine.read(groups))  # noqa: B023 - called at once
            truth.setdefault(joined, reads)
            found = drift(reads, truth[joined])
            tokens = sum(len(group.prefix_ids) for group in groups)
            stats = engine.stats
            per_token = stats.stored_bytes / stats.prefilled_tokens
            show(
                f"{name:19} {tokens // len(groups):5} {found.probability_max:7.4f}"
                f" {found.probability_mean:8.4f} {found.mass_max:10.4f} {found.flips:3}/{found.reads}"
                f" {per_token:12.0f} {1e9 / per_token:10.0f} {warm:8.2f}"
            )
            result[f"{name}_{joined}"] = asdict(found) | {
                "bytes_per_token": per_token,
                "warm_s": warm,
            }
    finish(result)


if __name__ == "__main__":
    main()
