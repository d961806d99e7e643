"""The easiest questions there are: the answer stands in the state word for word.

A small model must first learn to bind an option's words to its letter; these teach that alone, on short prompts, before
meaning comes in. Knows only a list of words.
"""

import random

from training.prompts import Case, Question
from training.shapes import choice, noul

FRAMES = (
    "{}", "The answer is {}.", "It is about {}.", "Subject: {}", "We talked about {} today.", "I'd like {}, please.",
    "{} again!", "Somebody wrote: {}", "Topic: {}. Nothing else.", "They chose {} in the end.",
)  # fmt: skip
ASKS = (
    "Which word is in the text?",
    "What is it about?",
    "Which one is named?",
    "What does the text mention?",
    "",
)


def case(words: list[str], rng: random.Random) -> Case:
    picked = rng.sample(words, 7)
    state = rng.choice(FRAMES).format(picked[0])
    return Case(
        state=state,
        questions=tuple(_question(picked, rng) for _ in range(rng.randint(2, 4))),
        source="copying",
    )


def _question(words: list[str], rng: random.Random) -> Question:
    if rng.random() < 0.65:
        n = rng.randint(2, 6)
        others = rng.sample(words[1:], n - 1)
        return choice(rng, rng.choice(ASKS), [(w, None) for w in (words[0], *others)], 0)
    true = rng.random() < 0.5
    word = words[0] if true else rng.choice(words[1:])
    ask = rng.choice(["Does the text mention {}?", "Is it about {}?", "Is {} named?", "{}?"])
    return noul(rng, ask.format(word), (None, None), true)
