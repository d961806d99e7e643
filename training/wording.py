"""Ways to ask and to list levels, names without meaning, and small damage to text. Constants and pure functions."""

import random
from collections.abc import Sequence

from training.prompts import Question
from training.shapes import Sides, score

TOPIC_ASKS = (
    "What is this about?", "Which team should handle this?", "Classify the text.", "Choose the best category.",
    "Which topic fits best?", "Who should answer this?", "Route the message.", "What does the writer want?", "Category?",
    "Which of these describes the text?", "",
)  # fmt: skip
NAMES = (
    "q1",
    "q2",
    "q3",
    "q4",
    "q5",
    "q6",
    "q7",
    "red",
    "blue",
    "green",
    "amber",
    "north",
    "south",
    "east",
    "west",
    "alpha",
    "beta",
    "gamma",
    "delta",
    "team-1",
    "team-2",
    "team-3",
)
OTHER = (
    ("other", "none of the above"),
    ("other", None),
    ("something else", "fits no other option"),
    ("none", None),
)
GREETINGS = (
    "Hello,",
    "Hi,",
    "Dear team,",
    "Good morning,",
    "Hi there,",
    "Dear Sir or Madam,",
    "To whom it may concern,",
)

ABSENT = (
    "Is the writer left-handed?", "Is the writer older than forty?", "Does the writer own a cat?", "Was it written on a Monday?",
    "Does the writer like jazz?", "Is the writer taller than his brother?", "Has the writer been to Brazil?", "Is the writer a teacher?",
)  # fmt: skip
ABSENT_CHOICES = (
    ("What is the writer's eye colour?", ("brown", "blue", "green")),
    ("Which instrument does the writer play?", ("piano", "guitar", "violin", "drums")),
    ("In which month was the writer born?", ("March", "June", "October")),
    ("What did the writer have for breakfast?", ("bread", "eggs", "fruit", "nothing")),
    ("Which car does the writer drive?", ("a van", "a sports car", "a small car")),
)

UPSET = ("angry or upset", "calm or friendly")
ANGRY: tuple[tuple[str, Sides, bool], ...] = (
    ("Is the writer angry?", UPSET, True),
    ("Is the customer upset?", ("upset, complaining loudly", "calm"), True),
    ("Does the message sound hostile?", ("hostile words", "polite words"), True),
    ("Would you call this writer furious or fed up?", (None, None), True),
    ("Does the writer express thanks or praise?", ("warm words", "no warm words"), False),
    ("Is the writer friendly?", ("kind and warm", "not kind"), False),
)
URGENT: tuple[tuple[str, Sides], ...] = (
    ("Is it urgent?", ("must be dealt with today", "can wait")),
    ("Does this need an answer today?", ("an emergency or a deadline within a day", "it has time")),
    ("Should it be put before others?", ("time is short", "there is no hurry")),
    ("Does the writer press for time?", ("wants it now or by tomorrow", "gives a week or more")),
    (
        "Must somebody act today?",
        (
            "danger, an attack or a crime going on, a loss that grows by the hour, or a date that is today or tomorrow",
            "an ordinary matter that may take several days",
        ),
    ),
    (
        "Is this an emergency or nearly one?",
        (
            "health, safety or property is at stake, somebody is stranded, or time runs out within a day",
            "a question, a wish, a complaint or praise without any time pressure",
        ),
    ),
    (
        "Put it at the top of the queue?",
        (
            "harm, theft or an outage that is happening, or a deadline before tomorrow night",
            "nothing bad happens if the reply comes in a few days, however angry the writer is",
        ),
    ),
    ("Is there a deadline soon?", ("within hours or a day", "later or none")),
)
URGENCY_LEVELS = (
    ("How urgent is it?", ("no hurry", "this week", "by tomorrow", "immediately")),
    ("When must it be answered?", ("whenever", "within days", "within a day", "right now")),
    ("Priority?", ("low", "normal", "high", "critical")),
    (
        "How soon is a reply needed?",
        ("some day", "in the coming days", "today or tomorrow", "within minutes"),
    ),
)

SCALES: dict[int, tuple[tuple[str, ...], ...]] = {
    2: (("calm", "angry"), ("friendly or neutral", "upset"), ("content", "discontent")),
    3: (
        ("friendly", "neutral", "angry"),
        ("warm", "slightly annoyed", "furious"),
        ("positive", "mixed", "negative"),
    ),
    4: (
        ("thankful", "neutral", "annoyed", "furious"),
        ("happy", "matter of fact", "unhappy", "enraged"),
    ),
    5: (
        ("warm, grateful", "neutral", "a bit annoyed", "very upset", "furious, insulting"),
        ("very friendly", "matter of fact", "irritated", "angry", "abusive"),
        ("delighted", "plain", "disappointed", "fed up", "raging"),
    ),
    7: (("overjoyed", "friendly", "neutral", "irritated", "annoyed", "angry", "furious"),),
    10: (("1 friendly", "2", "3", "4", "5 annoyed", "6", "7", "8 very upset", "9", "10 furious"),),
}
TONE_ASKS = (
    "How does the writer sound?",
    "How angry is the writer?",
    "Rate the tone.",
    "What is the mood?",
    "How upset is the customer?",
)
BACKWARD_ASKS = (
    "How satisfied is the writer?",
    "How friendly is the tone?",
    "Rate the tone.",
    "What is the mood?",
)


def tone_question(tone: int, rng: random.Random) -> Question:
    """`tone` is 0 to 4; the target is spread over the levels next to its place on the scale."""
    n = rng.choices((2, 3, 4, 5, 7, 10), (1, 3, 3, 6, 1, 1))[0]
    levels = rng.choice(SCALES[n])
    target = spread(tone / 4 * (n - 1), n)
    if rng.random() < 0.25:
        return score(rng.choice(BACKWARD_ASKS), levels[::-1], target[::-1])
    return score(rng.choice(TONE_ASKS), levels, target)


def spread(place: float, n: int) -> list[float]:
    """Weight falls with the distance from `place`: 1 at it, 0 a level and a half away."""
    weights = [max(0.0, 1 - abs(i - place) / 1.5) ** 2 for i in range(n)]
    total = sum(weights)
    return [w / total for w in weights]


def spoil(text: str, rng: random.Random, *, angry: bool) -> str:
    roll = rng.random()
    if angry and roll < 0.2:
        return text.upper()
    if roll < 0.12:
        return text.lower()
    if roll < 0.2:
        return text.replace(".", "").replace(",", "")
    if roll < 0.3:
        return _typos(text, rng)
    return text


def _typos(text: str, rng: random.Random) -> str:
    chars: Sequence[str] = list(text)
    out = list(chars)
    for _ in range(max(1, len(out) // 60)):
        i = rng.randrange(len(out) - 1)
        if out[i].isalpha() and out[i + 1].isalpha():
            out[i], out[i + 1] = out[i + 1], out[i]
    return "".join(out)
