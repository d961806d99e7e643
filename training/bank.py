"""The phrases that messages are made of, read from data/*.txt. Knows the files' format and nothing of questions.

domains:   @ name | what its texts are      # topic | what it covers      one phrase a line
tones:     # level, 0 (warm) to 4 (furious), then sentences; urgency likewise, 0 to 3
situations: urgent (0 or 1), tone (0 to 4), text
facts:     # id | the fact as a clause | a word; sentences where it holds, after = where it does not
"""

import zlib
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parent / "data"
#: Domains whose texts have no writer who could be angry or in a hurry.
IMPERSONAL = ("news", "assistant", "code", "security", "recipe", "property", "review")
#: Every sixth phrase is kept for validation.
HELD = 6


@dataclass(frozen=True, kw_only=True)
class Topic:
    """What a text can be about, within a domain."""

    name: str
    description: str
    phrases: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Domain:
    """A kind of sender or publication with its topics."""

    name: str
    about: str
    topics: tuple[Topic, ...]

    @property
    def personal(self) -> bool:
        return self.name not in IMPERSONAL


@dataclass(frozen=True, kw_only=True)
class Fact:
    """Something a writer may say or deny."""

    clause: str
    holds: tuple[str, ...]
    denied: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Situation:
    """A whole message whose urgency and tone are in what it tells."""

    urgent: bool
    tone: int
    text: str


@dataclass(frozen=True, kw_only=True)
class Bank:
    """All phrases of one split."""

    domains: tuple[Domain, ...]
    tones: tuple[tuple[str, ...], ...]
    urgencies: tuple[tuple[str, ...], ...]
    facts: tuple[Fact, ...]
    situations: tuple[Situation, ...]


def load(*, held: bool, data: Path = DATA) -> Bank:
    """The bank of training phrases, or with `held` of the phrases kept for validation."""
    return Bank(
        domains=tuple(
            d
            for path in sorted(data.glob("domains_*.txt"))
            for d in _domains(path.read_text(), held)
        ),
        tones=tuple(_keep(lines, held) for _, lines in _sections((data / "tones.txt").read_text())),
        urgencies=tuple(
            _keep(lines, held) for _, lines in _sections((data / "urgency.txt").read_text())
        ),
        situations=tuple(
            Situation(urgent=line[0] == "1", tone=int(line[2]), text=line[4:])
            for line in _keep((data / "situations.txt").read_text().splitlines(), held)
        ),
        facts=tuple(
            _fact(head, lines, held) for head, lines in _sections((data / "facts.txt").read_text())
        ),
    )


def _domains(text: str, held: bool) -> list[Domain]:
    found = []
    for block in text.split("@ ")[1:]:
        head, _, body = block.partition("\n")
        name, about = head.split(" | ")
        topics = []
        for title, lines in _sections(body):
            topic, description = title.split(" | ")
            topics.append(Topic(name=topic, description=description, phrases=_keep(lines, held)))
        found.append(Domain(name=name, about=about, topics=tuple(topics)))
    return found


def _sections(text: str) -> list[tuple[str, list[str]]]:
    blocks = ("\n" + text).split("\n# ")[1:]
    return [
        (b.splitlines()[0], [line for line in b.splitlines()[1:] if line.strip()]) for b in blocks
    ]


def _keep(lines: list[str], held: bool) -> tuple[str, ...]:
    """At least one line on either side, chosen by the text so that a new line moves no other."""
    marked = [line for line in lines if zlib.crc32(line.encode()) % HELD == 0] or lines[-1:]
    rest = [line for line in lines if line not in marked] or lines[:1]
    return tuple(marked if held else rest)


def _fact(head: str, lines: list[str], held: bool) -> Fact:
    _, clause, _ = head.split(" | ")
    holds = [line for line in lines if not line.startswith("= ")]
    denied = [line[2:] for line in lines if line.startswith("= ")]
    return Fact(clause=clause, holds=_keep(holds, held), denied=_keep(denied, held))
