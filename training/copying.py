"""The easiest questions there are: the answer stands in the state word for word.

A small model must first learn to bind an option's words to its letter, and a level's to its digit; these teach that
alone, on short prompts, before meaning comes in. Knows only lists of words.
"""

import random

from training.prompts import Case, Question
from training.shapes import choice, noul, score

FRAMES = (
    "{}", "The answer is {}.", "It is about {}.", "Subject: {}", "We talked about {} today.", "I'd like {}, please.",
    "{} again!", "Somebody wrote: {}", "Topic: {}. Nothing else.", "They chose {} in the end.",
)  # fmt: skip
ASKS = (
    "Which word is in the text?", "What is it about?", "Which one is named?", "What does the text mention?", "",
)  # fmt: skip
SCALES = (
    ("very low", "low", "medium", "high", "very high"), ("never", "rarely", "sometimes", "often", "always"),
    ("terrible", "bad", "mediocre", "good", "excellent"), ("freezing", "cool", "warm", "hot"), ("tiny", "small", "large", "huge"),
    ("none", "few", "some", "many", "all"), ("beginner", "advanced", "expert"), ("empty", "half full", "full"),
    ("cheap", "fair", "dear", "unaffordable"), ("silent", "quiet", "loud", "deafening"), ("asleep", "drowsy", "awake"),
    ("impossible", "unlikely", "possible", "likely", "certain"), ("newborn", "child", "teenager", "adult", "old"),
    ("dawn", "morning", "noon", "evening", "night", "midnight"), ("minor", "moderate", "serious", "critical"),
    ("dry", "damp", "wet", "flooded"), ("hated", "disliked", "tolerated", "liked", "loved"), ("red", "amber", "green"),
)  # fmt: skip
LEVELS = (
    "level: {}",
    "It was {}.",
    "I'd say {}.",
    "Overall {}!",
    "state: {}",
    "They call it {}.",
    "{}",
    "Quite {}, I think.",
)
RATES = ("Which level?", "Rate it.", "How is it?", "Where on the scale?", "")


def case(words: list[str], rng: random.Random) -> Case:
    if rng.random() < 0.45:
        return _rated(rng)
    picked = rng.sample(words, 7)
    state = rng.choice(FRAMES).format(picked[0])
    questions = tuple(_question(picked, rng) for _ in range(rng.randint(2, 4)))
    return Case(state=state, questions=questions, source="copying")


def _rated(rng: random.Random) -> Case:
    scale = rng.choice(SCALES)
    at = rng.randrange(len(scale))
    if rng.random() < 0.3:
        scale, at = scale[::-1], len(scale) - 1 - at
    near = [0.94 if i == at else 0.0 for i in range(len(scale))]
    for i in (at - 1, at + 1):
        if 0 <= i < len(scale):
            near[i] = 0.03
    target = [p / sum(near) for p in near]
    questions = [score(rng.choice(RATES), scale, target)]
    if rng.random() < 0.7:
        questions.append(choice(rng, rng.choice(RATES), [(level, None) for level in scale], at))
    if rng.random() < 0.5:
        other = rng.choice([i for i in range(len(scale)) if i != at])
        true = rng.random() < 0.5
        questions.append(noul(rng, f"Is it {scale[at if true else other]}?", (None, None), true))
    return Case(
        state=rng.choice(LEVELS).format(scale[at]), questions=tuple(questions), source="copying"
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
