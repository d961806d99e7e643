"""Messages with known topic, tone, urgency and facts, and questions about them.

Knows the phrase bank; knows no model. What the writer did not say is asked too: its answer is that no label fits.
"""

import random
from dataclasses import dataclass

from training.bank import Bank, Domain, Fact, Topic
from training.prompts import Case, Question
from training.shapes import Option, Sides, choice, noul, score
from training.wording import (
    ABSENT,
    ABSENT_CHOICES,
    ANGRY,
    GREETINGS,
    NAMES,
    OTHER,
    TOPIC_ASKS,
    URGENCY_LEVELS,
    URGENT,
    spoil,
    tone_question,
)

CHANNELS = ("email", "chat", "phone", "web form", "letter", "app")
TIERS = ("basic", "silver", "gold", "business", "trial")


@dataclass(frozen=True, kw_only=True)
class Message:
    """A text and everything that is true of it."""

    text: str
    domain: Domain
    topic: Topic
    tone: int | None  #: 0 to 4, None where nothing shows it
    urgency: int | None  #: 0 to 3, None where nothing is said
    facts: tuple[tuple[Fact, bool], ...]
    fields: dict[str, str]  #: shown as JSON beside the text; empty for plain text


class Messages:
    """Draws cases; the same generator state gives the same case."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    def case(self, rng: random.Random) -> Case:
        if rng.random() < 0.17:
            return self._situation(rng)
        message = self._message(rng)
        asks = [
            self._topic,
            self._topic,
            self._is_topic,
            self._is_topic,
            self._domain,
            self._absent,
        ]
        if message.tone is not None:
            asks += [self._tone] * 4 + [self._angry]
        if message.urgency is not None:
            asks += [self._urgent, self._urgent, self._how_urgent, self._how_urgent]
        asks += [self._fact] * (1 + len(message.facts))
        if message.fields:
            asks += [self._field, self._field]
        rng.shuffle(asks)
        count = rng.choice((2, 3, 3, 4, 4, 5))
        return Case(
            state=_shown(message),
            questions=tuple(a(message, rng) for a in asks[:count]),
            source="messages",
        )

    def _situation(self, rng: random.Random) -> Case:
        """Urgency and tone that are told, not announced."""
        told = rng.choice(self.bank.situations)
        urgent = noul(rng, *rng.choice(URGENT), told.urgent)
        if rng.random() < 0.3:
            urgent = noul(rng, urgent.instructions, (None, None), told.urgent)
        text, sides, upset = rng.choice(ANGRY)
        asks = [urgent, tone_question(told.tone, rng), _anger(told.tone, text, sides, upset, rng)]
        if rng.random() < 0.5:
            target = (0.02, 0.08, 0.4, 0.5) if told.urgent else (0.5, 0.4, 0.08, 0.02)
            asks.append(score(*rng.choice(URGENCY_LEVELS), target))
        rng.shuffle(asks)
        return Case(
            state=spoil(_letter([told.text], True, rng), rng, angry=told.tone == 4),
            questions=tuple(asks),
            source="messages",
        )

    def _message(self, rng: random.Random) -> Message:
        domain = rng.choice(self.bank.domains)
        topic = rng.choice(domain.topics)
        said = [rng.choice(topic.phrases)]
        if rng.random() < 0.2 and len(topic.phrases) > 1:
            said.append(rng.choice(topic.phrases))
        tone = urgency = None
        facts: list[tuple[Fact, bool]] = []
        tail: list[str] = []
        if domain.personal:
            if rng.random() < 0.75:
                tone = rng.choices(range(5), (15, 30, 20, 20, 15))[0]
                tail += rng.sample(
                    self.bank.tones[tone], min(rng.choice((1, 1, 2)), len(self.bank.tones[tone]))
                )
            if rng.random() < 0.55:
                urgency = rng.randrange(4)
                tail.append(rng.choice(self.bank.urgencies[urgency]))
            for fact in rng.sample(self.bank.facts, rng.choice((0, 0, 1, 1, 2))):
                holds = rng.random() < 0.5
                facts.append((fact, holds))
                tail.append(rng.choice(fact.holds if holds else fact.denied))
        rng.shuffle(tail)
        parts = [*dict.fromkeys(said), *tail] if rng.random() < 0.8 else [*tail, *said]
        text = spoil(_letter(parts, domain.personal, rng), rng, angry=tone == 4)
        fields = {}
        if domain.personal and rng.random() < 0.3:
            fields = {
                "channel": rng.choice(CHANNELS),
                "tier": rng.choice(TIERS),
                "id": f"{rng.randrange(10**5)}",
            }
            fields = dict(rng.sample(list(fields.items()), rng.randint(1, 3)))
        return Message(
            text=text,
            domain=domain,
            topic=topic,
            tone=tone,
            urgency=urgency,
            facts=tuple(facts),
            fields=fields,
        )

    def _topic(self, m: Message, rng: random.Random) -> Question:
        others = [t for t in m.domain.topics if t is not m.topic]
        others = rng.sample(others, rng.randint(1, len(others)))
        right: int | None = 0
        shown = [m.topic, *others]
        extra: list[Option] = []
        options: list[Option]
        kind = rng.random()
        if kind < 0.16:
            foreign = rng.choice([d for d in self.bank.domains if d.name != m.domain.name])
            shown = rng.sample(foreign.topics, min(len(foreign.topics), rng.randint(2, 5)))
            right = None
        if rng.random() < 0.15 or (right is None and rng.random() < 0.3):
            extra = [rng.choice(OTHER)]
            right = len(shown) if right is None else right
        style = rng.random()
        if style < 0.45:
            options = [(t.name, t.description) for t in shown]
        elif style < 0.8:
            options = [(t.name, None) for t in shown]
        else:
            names = rng.sample(NAMES, len(shown))
            options = [(n, t.description) for n, t in zip(names, shown, strict=True)]
        return choice(rng, rng.choice(TOPIC_ASKS), [*options, *extra], right)

    def _is_topic(self, m: Message, rng: random.Random) -> Question:
        true = rng.random() < 0.5
        others = [t for t in m.domain.topics if t is not m.topic]
        topic = m.topic if true else rng.choice(others)
        if len(others) > 2 and rng.random() < 0.3:
            return self._is_one_of(m, others, rng)
        called = rng.choice((topic.name, topic.description))
        if rng.random() < 0.4:
            return noul(
                rng,
                rng.choice(("What is the text about?", "", "Decide.")),
                (f"it is about {called}", rng.choice(("it is about something else", None))),
                true,
            )
        text = rng.choice(
            (
                "Is this about {}?",
                "Does the text concern {}?",
                "Topic: {}?",
                "Should this go to the team for {}?",
            )
        )
        return noul(rng, text.format(called), (None, None), true)

    def _is_one_of(self, m: Message, others: list[Topic], rng: random.Random) -> Question:
        """A side that names several things, of which one is enough."""
        true = rng.random() < 0.5
        named = rng.sample(others, 2) + ([m.topic] if true else [others[-1]])
        rng.shuffle(named)
        first, second, third = (t.description for t in named)
        said = f"{first}; {second}; or {third}"
        if rng.random() < 0.5:
            return noul(
                rng, rng.choice(("Is it one of these?", "")), (said, "something else"), true
            )
        return noul(rng, f"Is this about one of these: {said}?", (None, None), true)

    def _domain(self, m: Message, rng: random.Random) -> Question:
        others = rng.sample(
            [d for d in self.bank.domains if d.name != m.domain.name], rng.randint(1, 5)
        )
        described = rng.random() < 0.5
        text = rng.choice(
            (
                "Where does this text belong?",
                "Who is it written to?",
                "What kind of text is it?",
                "Pick the department.",
            )
        )
        return choice(
            rng, text, [(d.name, d.about if described else None) for d in (m.domain, *others)], 0
        )

    def _tone(self, m: Message, rng: random.Random) -> Question:
        assert m.tone is not None
        return tone_question(m.tone, rng)

    def _angry(self, m: Message, rng: random.Random) -> Question:
        assert m.tone is not None
        text, sides, upset = rng.choice(ANGRY)
        return _anger(m.tone, text, sides, upset, rng)

    def _urgent(self, m: Message, rng: random.Random) -> Question:
        assert m.urgency is not None
        text, sides = rng.choice(URGENT)
        style = rng.random()
        shown = sides if style < 0.6 else (sides[0], None) if style < 0.75 else (None, None)
        return noul(rng, text, shown, (0.0, 0.15, 0.9, 1.0)[m.urgency])

    def _how_urgent(self, m: Message, rng: random.Random) -> Question:
        assert m.urgency is not None
        text, levels = rng.choice(URGENCY_LEVELS)
        return score(text, levels, [0.94 if i == m.urgency else 0.02 for i in range(4)])

    def _fact(self, m: Message, rng: random.Random) -> Question:
        if m.facts and rng.random() < 0.75:
            fact, holds = rng.choice(m.facts)
        else:
            told = [f for f, _ in m.facts]
            fact, holds = rng.choice([f for f in self.bank.facts if f not in told]), False
        if rng.random() < 0.3:
            return noul(
                rng,
                rng.choice(("", "Which is true?")),
                (fact.clause, rng.choice((None, "not so"))),
                holds,
            )
        text = rng.choice(
            ("Is it true that {}?", "Does the text say that {}?", "Would you say {}?")
        )
        return noul(rng, text.format(fact.clause), (None, None), holds)

    def _absent(self, m: Message, rng: random.Random) -> Question:
        if rng.random() < 0.5:
            return noul(rng, rng.choice(ABSENT), (None, None), None)
        text, options = rng.choice(ABSENT_CHOICES)
        return choice(rng, text, [(o, None) for o in options], None)

    def _field(self, m: Message, rng: random.Random) -> Question:
        name = rng.choice([f for f in m.fields if f != "id"] or ["id"])
        if name == "id":
            return self._is_topic(m, rng)
        values = CHANNELS if name == "channel" else TIERS
        if rng.random() < 0.6:
            others = rng.sample([v for v in values if v != m.fields[name]], rng.randint(1, 4))
            return choice(
                rng, f"Which {name} is it?", [(v, None) for v in (m.fields[name], *others)], 0
            )
        true = rng.random() < 0.5
        value = m.fields[name] if true else rng.choice([v for v in values if v != m.fields[name]])
        return noul(rng, f"Is the {name} {value}?", (None, None), true)


def _anger(tone: int, text: str, sides: Sides, upset: bool, rng: random.Random) -> Question:
    p = (0.0, 0.0, 0.5, 1.0, 1.0)[tone] if upset else (1.0, 0.2, 0.0, 0.0, 0.0)[tone]
    return noul(rng, text, sides if rng.random() < 0.6 else (None, None), p)


def _letter(parts: list[str], personal: bool, rng: random.Random) -> str:
    glue = rng.choice((" ", " ", " ", "\n", "\n\n"))
    text = glue.join(parts)
    if personal and rng.random() < 0.3:
        text = f"{rng.choice(GREETINGS)}{rng.choice((' ', chr(10), chr(10) * 2))}{text}"
    if personal and rng.random() < 0.07:
        text = f"From: customer@example.com\nSubject: {rng.choice(('question', 'help', 'my request', 're: your mail'))}\n\n{text}"
    return text


def _shown(m: Message) -> object:
    if not m.fields:
        return m.text
    return {**m.fields, "text": m.text} if len(m.text) % 2 else {"message": m.text, **m.fields}
