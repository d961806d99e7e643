"""The stream of training cases, and the cases kept for validation; seeded, endless, nothing kept in memory.

Shares move from copying to meaning over the first part of the run.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from training import copying, mails, records, wordnet
from training.bank import load
from training.commands import Commands
from training.messages import Messages
from training.prompts import Case

#: Shares at the start and at the end.
SHARES = {
    "copying": (0.30, 0.08), "wordnet": (0.25, 0.18), "messages": (0.30, 0.52),
    "records": (0.07, 0.12), "commands": (0.05, 0.06), "mails": (0.03, 0.04),
}  # fmt: skip
#: The part of the run over which the shares move.
RAMP = 0.35


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Folders and files that the registry packages unpack to."""

    wordnet: Path
    mails: Path
    commands: Path


class Mixture:
    """One split: of WordNet's senses, phrases and mails a part is held out; records and copies differ by seed alone."""

    def __init__(self, sources: Sources, *, held: bool) -> None:
        senses = [s for i, s in enumerate(wordnet.read(sources.wordnet)) if (i % 25 == 0) == held]
        self.wordnet = wordnet.WordNet(senses)
        self.words = sorted({s.words[0] for s in senses if s.part == "noun"})
        self.messages = Messages(load(held=held))
        self.mails = mails.read(sources.mails, held=held)
        self.commands = Commands(sources.commands)

    def case(self, source: str, rng: random.Random) -> Case:
        match source:
            case "copying":
                return copying.case(self.words, rng)
            case "wordnet":
                return self.wordnet.case(rng)
            case "messages":
                return self.messages.case(rng)
            case "records":
                return records.case(rng)
            case "commands":
                return self.commands.case(rng)
            case _:
                return mails.case(self.mails, rng)

    def draw(self, rng: random.Random, progress: float) -> Case:
        part = min(1.0, progress / RAMP)
        weights = [a + (b - a) * part for a, b in SHARES.values()]
        return self.case(rng.choices(list(SHARES), weights)[0], rng)

    def fixed(self, count: int, seed: int) -> Iterator[Case]:
        """The same cases each time, `count` of every source but the copies."""
        rng = random.Random(seed)
        for source in SHARES:
            if source != "copying":
                for _ in range(count):
                    yield self.case(source, rng)
