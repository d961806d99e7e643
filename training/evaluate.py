"""Reads the evaluation sets with a model folder and prints one JSON line per set and kind of question.

Used for the base and for the merged default alike; reads through the packed forward of student.py, whose equality with
the plain one a test holds. Knows no training data.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from transformers import AutoTokenizer

from training import evalsets
from training.metrics import Read, calibration_error, fit_temperature, summary
from training.packing import Packer, Tree
from training.prompts import Case, Question
from training.student import Student

KINDS = ("choice", "noul", "score")


@torch.no_grad()
def read(
    student: Student, packer: Packer, cases: Sequence[Case], tokens: int = 1000
) -> Iterator[Read]:
    """One read per question, in order."""
    batch: list[tuple[Case, Tree]] = []
    for case in cases:
        batch.append((case, packer.tree(case)))
        if sum(len(t.ids) for _, t in batch) >= tokens:
            yield from _read(student, batch)
            batch = []
    if batch:
        yield from _read(student, batch)


def _read(student: Student, batch: list[tuple[Case, Tree]]) -> Iterator[Read]:
    logp = student([t for _, t in batch])[0].log_softmax(-1)
    row = 0
    for case, tree in batch:
        for question, target in zip(tree.questions, tree.targets, strict=True):
            labels = logp[row, [i for i, _ in target[:-1]]]
            yield Read(question=question, source=case.source, logp=tuple(labels.tolist()))
            row += 1


def backwards(case: Case) -> Case:
    """The same choices with their options in the opposite order."""
    return replace(
        case, questions=tuple(_reversed(q) for q in case.questions if q.kind == "choice")
    )


def _reversed(q: Question) -> Question:
    n = len(q.options)
    return replace(
        q,
        options=q.options[::-1],
        descriptions=q.descriptions[::-1],
        target=q.target[::-1],
        right=None if q.right is None else n - 1 - q.right,
    )


def calibrated(reads: Sequence[Read]) -> dict[str, float]:
    """Temperature from the even reads, error on the odd ones."""
    t = fit_temperature(reads[::2])
    return {
        "temperature": t,
        "ece raw": calibration_error(reads[1::2], 1.0),
        "ece": calibration_error(reads[1::2], t),
    }


def sets(data: Path, share: float) -> Iterator[tuple[str, list[Case]]]:
    """Every set that is there; `share` below 1 takes an even sample of each."""

    def some(cases: Iterator[Case]) -> list[Case]:
        every = list(cases)
        return every[:: max(1, round(1 / share))]

    yield "triage", some(evalsets.triage())
    yield "sample", some(evalsets.sample())
    if (data / "intents.json").exists():
        yield "intents", some(evalsets.intents(data / "intents.json", 250))
    yield "mails", some(evalsets.spam(data / "mails", 150))
    yield "news", some(evalsets.news(data / "news", 150))
    yield "typed", some(evalsets.typed(data / "typed.jsonl.gz"))


def report(name: str, reads: Sequence[Read], turned: Sequence[Read]) -> Iterator[dict[str, object]]:
    for kind in KINDS:
        part = [r for r in reads if r.question.kind == kind]
        if part:
            row: dict[str, object] = {
                "set": name,
                "kind": kind,
                **summary(part),
                **calibrated(part),
            }
            if kind == "choice" and turned:
                n = [len(r.logp) - 1 for r in part]
                row["flips"] = sum(
                    a.answer != m - b.answer for a, b, m in zip(part, turned, n, strict=True)
                ) / len(part)
            yield {k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}


def run(
    model: Path,
    adapter: Path | None,
    data: Path,
    share: float = 1.0,
    only: tuple[str, ...] = (),
    turn: bool = True,
) -> None:
    """Prints the report of every set; `turn` also reads choices with their options reversed."""
    torch.set_num_threads(1)
    packer = Packer(AutoTokenizer.from_pretrained(model))
    student = Student(model, merged=adapter)
    for name, cases in sets(data, share):
        if not only or name in only:
            reads = list(read(student, packer, cases))
            around = [c for c in map(backwards, cases) if c.questions]
            for row in report(name, reads, list(read(student, packer, around)) if turn else []):
                print(json.dumps(row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument(
        "--adapter", type=Path, help="an adapter's folder, merged in as the engine does"
    )
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--no-turn", action="store_true")
    a = parser.parse_args()
    run(
        a.model,
        a.adapter,
        a.packages,
        a.share,
        tuple(a.only.split(",")) if a.only else (),
        not a.no_turn,
    )


if __name__ == "__main__":
    main()
