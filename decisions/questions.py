"""Questions as clients write them (the System One shape) to questions as we know them, and their hash.

The messages are those of vLLM's `/v1/systemone`, so that a client that reads them keeps working.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

from decisions.errors import InvalidQuestion
from decisions.types import Json, Option, Question, QuestionSet, QuestionType

_FIELDS = {"type", "instructions", "criteria"}


class Structured(StrEnum):
    """How an object or array in the place of a text is written into the prompt."""

    #: As Python's `str()` writes it, which is what vLLM does.
    REPR = "repr"
    #: As JSON, which is what TypeSafe does.
    JSON = "json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """How questions are read, and how many of them and of their options."""

    questions: int = 400
    options: int = 255
    levels: int = 10
    structured: Structured = Structured.REPR

    def text(self, value: Json) -> str:
        """What is not text becomes text; null becomes none."""
        if value is None or isinstance(value, str):
            return value or ""
        if self.structured is Structured.JSON:
            return json.dumps(value, ensure_ascii=False)
        return str(value)


DEFAULT_RULES = Rules()


def parse_question_set(
    questions: Json, instructions: Json = None, rules: Rules = DEFAULT_RULES
) -> QuestionSet:
    """`questions` maps ids to questions. Raises InvalidQuestion with the field's path."""
    if instructions is not None and not isinstance(instructions, str):
        raise InvalidQuestion("instructions must be a string", param="instructions")
    if not isinstance(questions, dict):
        raise InvalidQuestion("questions must map ids to questions", param="questions")
    if not questions:
        raise InvalidQuestion("questions: needs at least one question", param="questions")
    if len(questions) > rules.questions:
        raise InvalidQuestion(
            f"questions: at most {rules.questions} for this model", param="questions"
        )
    return QuestionSet(
        instructions=instructions or None,
        questions=tuple(parse_question(id_, q, rules) for id_, q in questions.items()),
    )


def parse_question(id_: str, wire: Json, rules: Rules = DEFAULT_RULES) -> Question:
    where = f"questions.{id_}"
    if not id_:
        raise InvalidQuestion("question ids must be non-empty", param="questions")
    if not isinstance(wire, dict):
        raise InvalidQuestion(f"question '{id_}': must be an object", param=where)
    if unknown := sorted(set(wire) - _FIELDS):
        raise InvalidQuestion(f"question '{id_}': unknown field(s) {unknown}", param=where)
    kind, criteria = wire.get("type"), wire.get("criteria")
    if kind not in tuple(QuestionType):
        known = [str(t) for t in QuestionType]
        raise InvalidQuestion(
            f"unknown question type {kind!r}; supported: {known}", param=f"{where}.type"
        )
    type_ = QuestionType(str(kind))
    options = {
        QuestionType.CHOICE: _choice,
        QuestionType.NOUL: _noul,
        QuestionType.SCORE: _score,
    }[type_](id_, criteria, rules)
    return Question(
        id=id_, type=type_, instructions=rules.text(wire.get("instructions")), options=options
    )


def _choice(id_: str, criteria: Json, rules: Rules) -> tuple[Option, ...]:
    if not isinstance(criteria, dict) or not criteria:
        raise _bad(id_, "choice criteria must map option names to a description or null")
    if len(criteria) > rules.options:
        raise _bad(id_, f"at most {rules.options} options for this model")
    return tuple(Option(name=n, description=rules.text(d) or None) for n, d in criteria.items())


def _noul(id_: str, criteria: Json, rules: Rules) -> tuple[Option, ...]:
    sides = {} if criteria is None else criteria
    if not isinstance(sides, dict) or set(sides) - {"true", "false"}:
        raise _bad(id_, "noul criteria must be an object with true and false")
    return (
        Option(name="yes", description=rules.text(sides.get("true")) or None),
        Option(name="no", description=rules.text(sides.get("false")) or None),
    )


def _score(id_: str, criteria: Json, rules: Rules) -> tuple[Option, ...]:
    if not isinstance(criteria, list) or len(criteria) < 2:
        raise _bad(id_, "score criteria must be an ordered list of levels")
    if len(criteria) > rules.levels:
        raise _bad(id_, f"at most {rules.levels} options for this model")
    # A null level is text to vLLM as well: Python's `None`.
    return tuple(
        Option(name=str(None) if level is None else rules.text(level)) for level in criteria
    )


def _bad(id_: str, problem: str) -> InvalidQuestion:
    return InvalidQuestion(f"question '{id_}': {problem}", param=f"questions.{id_}.criteria")


def canonical(question_set: QuestionSet) -> str:
    """JSON that is equal for equal sets; what the store keeps, and what the hash is taken of."""
    return json.dumps(
        {
            "instructions": question_set.instructions,
            "questions": [
                {
                    "id": q.id,
                    "type": q.type.value,
                    "instructions": q.instructions,
                    "options": [[o.name, o.description] for o in q.options],
                    **({"lettered": True, "name": q.name} if q.lettered else {}),
                }
                for q in question_set.questions
            ],
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


def from_canonical(stored: Mapping[str, Json]) -> QuestionSet:
    """The inverse of `canonical`, for what comes out of the store."""
    instructions, questions = stored["instructions"], stored["questions"]
    assert isinstance(questions, list)  # noqa: S101 - only `canonical` writes there
    return QuestionSet(
        instructions=None if instructions is None else str(instructions),
        questions=tuple(_stored_question(q) for q in questions if isinstance(q, dict)),
    )


def _stored_question(q: Mapping[str, Json]) -> Question:
    options = q["options"]
    assert isinstance(options, list)  # noqa: S101 - only `canonical` writes there
    pairs = [o for o in options if isinstance(o, list)]
    name = q.get("name")
    return Question(
        id=str(q["id"]),
        type=QuestionType(str(q["type"])),
        instructions=str(q["instructions"]),
        options=tuple(
            Option(name=str(option), description=None if text is None else str(text))
            for option, text in pairs
        ),
        lettered=bool(q.get("lettered")),
        name=None if name is None else str(name),
    )


def content_hash(text: str) -> bytes:
    """SHA-256 of the UTF-8 text: the name of a stored state or question set."""
    return sha256(text.encode()).digest()
