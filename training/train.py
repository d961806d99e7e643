"""Trains the adapter: cross entropy at the read token, and probes that tell early which option fits.

    loss = mean over reads of  - sum_t target(t) log p(t | prompt)        over the whole vocabulary
         + marks * binary cross entropy of the probes at the end of every option's line, on middle layers

The probes are thrown away afterwards. They are what makes letters learnable at this size: they ask of each option's last
token whether the option fits, so that the read token only has to look up the letter of the line that does
(docs/log.md). What is validated and kept is a running average of the weights. Knows the model and the mixture; knows
nothing of evaluation sets.
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

from training.average import Average
from training.mixture import Mixture, Sources
from training.packing import Packer, Tree
from training.student import Student


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a leg is made of, written beside its result."""

    rank: int = 16
    alpha: float = 32.0
    first: int = 10  #: lowest adapted layer
    marks: float = 1.0  #: weight of the probes
    rate: float = 1.5e-3
    warm_up: int = 20
    tokens: int = 500  #: per step
    longest: int = 360  #: longer trees are drawn again
    average: float = 0.98  #: share of the old average that a step keeps; 0 for none
    minutes: float = 110.0
    steps: int = 0  #: when above 0, the length of the leg instead of minutes
    seed: int = 7
    settled: bool = False  #: the mixture's final shares from the start on
    every: int = 100  #: steps between validations


@dataclass(frozen=True, kw_only=True)
class Losses:
    """Of one packed batch: Q reads, P probes, M marks, V tokens."""

    reads: Tensor  #: [Q] cross entropy minus the target's own entropy, so that zero is the best
    marks: Tensor  #: scalar
    logp: Tensor  #: [Q, V]
    probes: Tensor  #: [P, M]


def losses(student: Student, trees: list[Tree]) -> Losses:
    scores, probes = student(trees)
    logp = scores.log_softmax(-1)
    targets = [t for tree in trees for t in tree.targets]
    reads = torch.stack(
        [
            sum((p * (math.log(p) - logp[q, i]) for i, p in t if p > 0), torch.zeros(()))
            for q, t in enumerate(targets)
        ]
    )
    wanted = torch.cat([t.mark_targets for t in trees]).expand_as(probes)
    marks = F.binary_cross_entropy_with_logits(probes, wanted) if len(probes) else torch.zeros(())
    return Losses(reads=reads, marks=marks, logp=logp, probes=probes)


@torch.no_grad()
def validate(student: Student, trees: list[tuple[str, Tree]]) -> dict[str, float]:
    """Mean loss, and per source and kind the share of reads whose best label is right, where an option fits."""
    found: dict[str, list[float]] = defaultdict(list)
    for start in range(0, len(trees), 4):
        part = trees[start : start + 4]
        seen = losses(student, [t for _, t in part])
        row = mark = 0
        for source, tree in part:
            for question, target in zip(tree.questions, tree.targets, strict=True):
                labels = seen.logp[row, [i for i, _ in target[:-1]]]
                found["loss"].append(seen.reads[row].item())
                n = len(question.options)
                if question.fits < 0.5:
                    found["mass none"].append(labels.exp().sum().item())
                elif max(question.target) > 0.6:
                    found[f"{source} {question.kind}"].append(
                        float(int(labels.argmax()) == question.best)
                    )
                    found[f"all {question.kind}"].append(
                        float(int(labels.argmax()) == question.best)
                    )
                    found[f"probe {question.kind}"].append(
                        float(int(seen.probes[-1, mark : mark + n].argmax()) == question.best)
                    )
                    found["mass fits"].append(labels.exp().sum().item())
                row, mark = row + 1, mark + n
    return {name: round(sum(v) / len(v), 4) for name, v in sorted(found.items())}


class Leg:
    """One run of the optimizer. `out` holds the last average; its .log.jsonl the learning curve."""

    def __init__(
        self, base: Path, sources: Sources, out: Path, settings: Settings, start: Path | None
    ) -> None:
        torch.manual_seed(settings.seed)
        torch.set_num_threads(1)
        self.settings, self.out = settings, out
        self.rng = random.Random(settings.seed)
        self.packer = Packer(AutoTokenizer.from_pretrained(base))
        self.mixture, held = Mixture(sources, held=False), Mixture(sources, held=True)
        self.validation = [(c.source, self.packer.tree(c)) for c in held.fixed(16, seed=1)]
        self.student = Student(base, rank=settings.rank, alpha=settings.alpha, first=settings.first)
        if start:
            self.student.load(start)
        self.parameters = [p for p in self.student.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(
            self.parameters, lr=settings.rate, betas=(0.9, 0.98), weight_decay=0.0
        )
        self.average = Average(self.parameters, settings.average)
        self.step = self.reads = self.tokens = 0
        self.recent: dict[str, list[float]] = defaultdict(list)

    def run(self) -> None:
        began, progress = time.monotonic(), 0.0
        with self.out.with_suffix(".log.jsonl").open("w") as log:
            log.write(json.dumps(asdict(self.settings)) + "\n")
            while progress < 1.0:
                spent = (time.monotonic() - began) / 60
                progress = (
                    self.step / self.settings.steps
                    if self.settings.steps
                    else spent / self.settings.minutes
                )
                self._learn(progress)
                if self.step % self.settings.every == 0 or progress >= 1.0:
                    log.write(json.dumps(self._check(round(spent, 1))) + "\n")
                    log.flush()

    def _batch(self, progress: float) -> tuple[list[str], list[Tree]]:
        sources: list[str] = []
        trees: list[Tree] = []
        while sum(len(t.ids) for t in trees) < self.settings.tokens:
            case = self.mixture.draw(self.rng, 1.0 if self.settings.settled else progress)
            tree = self.packer.tree(case)
            if len(tree.ids) <= self.settings.longest:
                trees.append(tree)
                sources += [case.source] * len(tree.questions)
        return sources, trees

    def _learn(self, progress: float) -> None:
        sources, trees = self._batch(progress)
        s = self.settings
        for group in self.optimizer.param_groups:
            group["lr"] = s.rate * min(1, (self.step + 1) / s.warm_up) * max(0.03, 1 - progress)
        seen = losses(self.student, trees)
        (seen.reads.mean() + s.marks * seen.marks).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.average.update()
        self.step += 1
        self.reads += len(sources)
        self.tokens += sum(len(t.ids) for t in trees)
        for source, value in zip(sources, seen.reads.tolist(), strict=True):
            self.recent["train"].append(value)
            self.recent[f"train {source}"].append(value)
        self.recent["train probe"].append(seen.marks.item())

    def _check(self, minutes: float) -> dict[str, float]:
        row: dict[str, float] = {
            "step": self.step,
            "reads": self.reads,
            "tokens": self.tokens,
            "minutes": minutes,
        }
        row |= {name: round(sum(v) / len(v), 4) for name, v in sorted(self.recent.items())}
        self.recent.clear()
        with self.average.applied():
            row |= validate(self.student, self.validation)
            self.student.save(self.out, {"step": str(self.step)})
        return row


def train(
    base: Path, sources: Sources, out: Path, settings: Settings, start: Path | None = None
) -> None:
    Leg(base, sources, out, settings, start).run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--start", type=Path)
    for name, value in asdict(Settings()).items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            parser.add_argument(flag, action="store_true")
        else:
            parser.add_argument(flag, type=type(value), default=value)
    arguments = vars(parser.parse_args())
    base, packages, out, start = (arguments.pop(n) for n in ("base", "packages", "out", "start"))
    sources = Sources(
        wordnet=packages / "wordnet", mails=packages / "mails", commands=packages / "commands.json"
    )
    train(base, sources, out, Settings(**arguments), start)


if __name__ == "__main__":
    main()
