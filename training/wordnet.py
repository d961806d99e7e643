"""Questions from WordNet's glosses and examples: wide meaning, short text, exact truth.

Knows WordNet's file format (data.POS, index.sense) and nothing of tokens. WordNet's licence allows use and copying for
any purpose; its notice is quoted in the model card.
"""

import random
import re
from dataclasses import dataclass
from pathlib import Path

from training.prompts import Case, Question
from training.shapes import choice, noul

PARTS = ("noun", "verb", "adj")
#: WordNet's lexicographer files (lexnames(5WN)) that a plain reader can tell apart.
FIELDS = {
    4: ("act", "something that people do"), 5: ("animal", "an animal of any kind"),
    6: ("artifact", "a thing made by people"), 8: ("body", "a part of the body"),
    10: ("communication", "words, messages, signs, texts"), 12: ("feeling", "an emotion"),
    13: ("food", "something to eat or drink"), 15: ("place", "a location or region"),
    18: ("person", "a human being"), 20: ("plant", "a plant of any kind"),
    21: ("possession", "money, property and what is owned"), 26: ("state", "a condition that somebody or something is in"),
    27: ("substance", "a material, gas or liquid"), 28: ("time", "a period or point in time"),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Sense:
    """One synset that is common enough to ask about."""

    words: tuple[str, ...]  #: its words, underscores as spaces
    gloss: str  #: the definition, without examples
    examples: tuple[str, ...]
    field: int  #: number of the lexicographer file
    part: str  #: noun, verb or adj
    parents: tuple[str, ...]  #: offsets of hypernyms


def read(folder: Path) -> list[Sense]:
    counts = _counts(folder)
    senses: list[Sense] = []
    for part in PARTS:
        for line in (folder / f"data.{part}").read_text("latin-1").splitlines():
            if line.startswith("  "):
                continue
            sense = _sense(line, part)
            if (
                counts.get((sense.words[0].lower(), part), 0) >= 3
                and 3 <= len(sense.gloss.split()) <= 24
            ):
                senses.append(sense)
    return senses


def _counts(folder: Path) -> dict[tuple[str, str], int]:
    names = {"1": "noun", "2": "verb", "3": "adj", "5": "adj"}
    counts: dict[tuple[str, str], int] = {}
    for line in (folder / "index.sense").read_text("latin-1").splitlines():
        key, _, _, count = line.split()
        lemma, rest = key.split("%", 1)
        part = names.get(rest[0])
        if part:
            at = (lemma.replace("_", " "), part)
            counts[at] = counts.get(at, 0) + int(count)
    return counts


def _sense(line: str, part: str) -> Sense:
    data, _, text = line.partition(" | ")
    f = data.split()
    n = int(f[3], 16)
    words = tuple(re.sub(r"\(\w+\)$", "", f[4 + 2 * i]).replace("_", " ") for i in range(n))
    pointers = f[5 + 2 * n :]
    parents = tuple(
        pointers[i + 1] for i in range(0, 4 * int(f[4 + 2 * n]), 4) if pointers[i] == "@"
    )
    examples = tuple(re.findall(r'"([^"]{12,120})"', text))
    gloss = re.sub(r"\s+", " ", text.split('; "')[0]).strip(" ;")
    return Sense(
        words=words, gloss=gloss, examples=examples, field=int(f[1]), part=part, parents=parents
    )


class WordNet:
    """Draws cases; the same generator state gives the same case."""

    def __init__(self, senses: list[Sense]) -> None:
        self.senses = senses
        self.by_part = {p: [s for s in senses if s.part == p] for p in PARTS}
        self.fields = {f: [s for s in senses if s.part == "noun" and s.field == f] for f in FIELDS}
        self.fields = {f: senses for f, senses in self.fields.items() if len(senses) >= 8}

    def case(self, rng: random.Random) -> Case:
        sense = (
            rng.choice(self.fields[rng.choice(list(self.fields))])
            if rng.random() < 0.6
            else rng.choice(self.senses)
        )
        word = rng.choice(sense.words)
        shown = rng.random()
        if shown < 0.5 or not sense.examples:
            state = sense.gloss if rng.random() < 0.7 else f"Definition: {sense.gloss}"
            asks = [self._which_word, self._is_word, self._which_word]
        else:
            state = (
                f"{word}: {sense.gloss}"
                if rng.random() < 0.5
                else f'{word}, as in "{rng.choice(sense.examples)}"'
            )
            asks = [self._which_gloss, self._is_gloss, self._has_word]
        if sense.part == "noun" and sense.field in self.fields:
            asks += [self._which_field, self._is_field]
        rng.shuffle(asks)
        return Case(
            state=state,
            questions=tuple(a(sense, rng) for a in asks[: rng.randint(2, 4)]),
            source="wordnet",
        )

    def _others(self, sense: Sense, n: int, rng: random.Random) -> list[Sense]:
        found: list[Sense] = []
        while len(found) < n:
            other = rng.choice(self.by_part[sense.part])
            if not set(other.words) & set(sense.words) and all(
                o.words[0] != other.words[0] for o in found
            ):
                found.append(other)
        return found

    def _which_word(self, sense: Sense, rng: random.Random) -> Question:
        others = [o.words[0] for o in self._others(sense, rng.randint(1, 6), rng)]
        text = rng.choice(
            [
                "Which word is meant?",
                "What does this describe?",
                "Choose the word that fits the definition.",
                "",
            ]
        )
        return choice(rng, text, [(w, None) for w in (sense.words[0], *others)], 0)

    def _which_gloss(self, sense: Sense, rng: random.Random) -> Question:
        others = self._others(sense, rng.randint(1, 3), rng)
        text = rng.choice(
            ["What does the word mean?", "Which meaning fits?", "Pick the right description."]
        )
        names = rng.sample(
            ["first", "second", "third", "fourth", "one", "two", "alpha", "beta", "gamma", "delta"],
            len(others) + 1,
        )
        return choice(
            rng, text, list(zip(names, (sense.gloss, *(o.gloss for o in others)), strict=True)), 0
        )

    def _which_field(self, sense: Sense, rng: random.Random) -> Question:
        others = [f for f in self.fields if f != sense.field]
        others = rng.sample(others, min(len(others), rng.randint(1, 6)))
        text = rng.choice(
            ["What kind of thing is it?", "Which group does it belong to?", "Classify it."]
        )
        described = rng.random() < 0.6
        return choice(
            rng,
            text,
            [(FIELDS[f][0], FIELDS[f][1] if described else None) for f in (sense.field, *others)],
            0,
        )

    def _is_field(self, sense: Sense, rng: random.Random) -> Question:
        true = rng.random() < 0.5
        field = sense.field if true else rng.choice([f for f in self.fields if f != sense.field])
        return noul(rng, f"Is this {FIELDS[field][1]}?", (None, None), true)

    def _is_word(self, sense: Sense, rng: random.Random) -> Question:
        true = rng.random() < 0.5
        word = sense.words[0] if true else self._others(sense, 1, rng)[0].words[0]
        text = rng.choice(
            ["Does this describe the word {!r}?", "Is this the meaning of {!r}?", "Is {!r} meant?"]
        )
        return noul(rng, text.format(word), (None, None), true)

    def _is_gloss(self, sense: Sense, rng: random.Random) -> Question:
        true = rng.random() < 0.5
        gloss = sense.gloss if true else self._others(sense, 1, rng)[0].gloss
        if rng.random() < 0.5:
            return noul(rng, f"Does the word mean: {gloss}?", (None, None), true)
        return noul(rng, "What does the word mean?", (gloss, "something else"), true)

    def _has_word(self, sense: Sense, rng: random.Random) -> Question:
        true = rng.random() < 0.5
        word = sense.words[-1] if true else self._others(sense, 1, rng)[0].words[0]
        return noul(rng, f"Could one say {word!r} for this?", (None, None), true)
