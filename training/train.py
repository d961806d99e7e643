"""Trains the adapter: cross entropy at the read token, and a probe that tells early which option fits.

    loss = mean over reads of  - sum_t target(t) log p(t | prompt)        over the whole vocabulary
         + marks * binary cross entropy of the probe at the end of every option's line, on a middle layer

The probe is thrown away afterwards. It is what makes letters learnable at this size: it asks of each option's last token
whether the option fits, so that the read token only has to look up the letter of the line that does (docs/log.md).
Knows the model and the mixture; knows nothing of evaluation sets.
"""

import argparse
import json
import math
import random
import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import AutoTokenizer

from training.mixture import Mixture, Sources
from training.packing import Packer, Tree
from training.student import Student


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a run is made of, written beside its result."""

    rank: int = 16
    alpha: float = 32.0
    first: int = 10  #: lowest adapted layer
    marks: float = 1.0
    rate: float = 1.5e-3
    warm_up: int = 20
    tokens: int = 500  #: per step
    longest: int = 360  #: longer trees are drawn again
    minutes: float = 110.0
    steps: int = 0  #: when above 0, the length of the run instead of minutes
    seed: int = 7
    every: int = 100  #: steps between validations


def loss(student: Student, trees: list[Tree]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Losses per read [Q], the probe's mean loss, log-probabilities [Q, V], probe scores [P, M]."""
    scores, probe = student(trees)
    logp = scores.log_softmax(-1)
    targets = [t for tree in trees for t in tree.targets]
    reads = torch.stack(
        [-sum(p * logp[q, i] for i, p in t if p > 0) for q, t in enumerate(targets)]
    )
    marks = F.binary_cross_entropy_with_logits(
        probe, torch.cat([t.mark_targets for t in trees]).expand_as(probe)
    )
    return reads, marks, logp, probe


@torch.no_grad()
def validate(student: Student, trees: list[tuple[str, Tree]]) -> dict[str, float]:
    """Mean loss, and per source and kind the share of reads whose best label is right, where an option fits."""
    found: dict[str, list[float]] = defaultdict(list)
    for start in range(0, len(trees), 4):
        part = trees[start : start + 4]
        reads, _, logp, probe = loss(student, [t for _, t in part])
        row = mark = 0
        for source, tree in part:
            for question, target in zip(tree.questions, tree.targets, strict=True):
                labels = logp[row, [i for i, _ in target[:-1]]]
                found["loss"].append(float(reads[row]))
                mass = float(labels.exp().sum())
                n = len(question.options)
                if question.fits > 0.5 and max(question.target) > 0.6:
                    found[f"{source} {question.kind}"].append(
                        float(int(labels.argmax()) == question.best)
                    )
                    found[f"probe {question.kind}"].append(
                        float(int(probe[-1, mark : mark + n].argmax()) == question.best)
                    )
                    found["mass fits"].append(mass)
                elif question.fits < 0.5:
                    found["mass none"].append(mass)
                row, mark = row + 1, mark + n
    return {name: round(sum(v) / len(v), 4) for name, v in sorted(found.items())}


def train(
    base: Path, sources: Sources, out: Path, settings: Settings, start: Path | None = None
) -> None:
    """Writes `out` (the best adapter by validation loss) and `out` with .log.jsonl (the learning curve)."""
    torch.manual_seed(settings.seed)
    torch.set_num_threads(1)
    rng = random.Random(settings.seed)
    packer = Packer(AutoTokenizer.from_pretrained(base))
    mixture, held = Mixture(sources, held=False), Mixture(sources, held=True)
    validation = [(c.source, packer.tree(c)) for c in held.fixed(12, seed=1)]
    student = Student(base, rank=settings.rank, alpha=settings.alpha, first=settings.first)
    if start:
        student.load(start)
    parameters = [p for p in student.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=settings.rate, betas=(0.9, 0.98), weight_decay=0.0)
    log = out.with_suffix(".log.jsonl").open("w")
    log.write(json.dumps(asdict(settings)) + "\n")
    began, step, reads_seen, tokens_seen, best = time.monotonic(), 0, 0, 0, math.inf
    recent: list[tuple[float, float]] = []
    progress = 0.0
    while progress < 1.0:
        spent = time.monotonic() - began
        progress = step / settings.steps if settings.steps else spent / 60 / settings.minutes
        trees: list[Tree] = []
        while sum(len(t.ids) for t in trees) < settings.tokens:
            tree = packer.tree(mixture.draw(rng, progress))
            if len(tree.ids) <= settings.longest:
                trees.append(tree)
        for group in optimizer.param_groups:
            group["lr"] = (
                settings.rate * min(1, (step + 1) / settings.warm_up) * max(0.03, 1 - progress)
            )
        reads, marks, *_ = loss(student, trees)
        (reads.mean() + settings.marks * marks).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        reads_seen += len(reads)
        tokens_seen += sum(len(t.ids) for t in trees)
        recent.append((reads.mean().item(), marks.item()))
        if step % 10 == 0:
            print(
                step,
                reads_seen,
                tokens_seen,
                round(time.monotonic() - began),
                *_mean(recent[-10:]),
                flush=True,
            )
        if step % settings.every == 0 or progress >= 1.0:
            row = {
                "step": step, "reads": reads_seen, "tokens": tokens_seen, "seconds": round(time.monotonic() - began),
                "train loss": _mean(recent)[0], "probe loss": _mean(recent)[1],
                **validate(student, validation),
            }  # fmt: skip
            recent.clear()
            log.write(json.dumps(row) + "\n")
            log.flush()
            if row["loss"] < best:
                best = row["loss"]
                student.save(out, {"step": str(step), "validation_loss": str(best)})


def _mean(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    return round(sum(a for a, _ in pairs) / len(pairs), 4), round(
        sum(b for _, b in pairs) / len(pairs), 4
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--start", type=Path)
    for name, value in asdict(Settings()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    arguments = vars(parser.parse_args())
    base, packages, out, start = (arguments.pop(n) for n in ("base", "packages", "out", "start"))
    sources = Sources(
        wordnet=packages / "wordnet", mails=packages / "mails", commands=packages / "commands.json"
    )
    train(base, sources, out, Settings(**arguments), start)


if __name__ == "__main__":
    main()
