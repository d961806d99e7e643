"""OpenAI's Decisions request to our values: lettered questions about the text of an input."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from decisions.errors import InvalidQuestion
from decisions.openai_input import content, parse_input
from decisions.questions import DEFAULT_RULES, Rules
from decisions.types import Json, Option, Question, QuestionSet, QuestionType
from decisions.wire import a_list, a_string, an_object

FIELDS = frozenset(
    {
        "model",
        "input",
        "questions",
        "prompt_cache_key",
        "prompt_cache_options",
        "safety_identifier",
        "cache_salt",
        "joint",
    }
)


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """What is asked about which text."""

    state: str
    question_set: QuestionSet


def parse_request(body: Mapping[str, Json], rules: Rules = DEFAULT_RULES) -> DecisionRequest:
    """Raises InvalidQuestion, whose `param` is the path of the field at fault."""
    for name in body:
        if name not in FIELDS:
            raise InvalidQuestion(f"Unknown parameter: '{name}'.", param=name)
    if body.get("joint"):
        raise InvalidQuestion("joint: this model reads each question on its own", param="joint")
    state, instructions = parse_input(body.get("input"))
    questions = parse_questions(body.get("questions"), rules)
    return DecisionRequest(state, QuestionSet(instructions=instructions, questions=questions))


def parse_questions(wire: Json, rules: Rules = DEFAULT_RULES) -> tuple[Question, ...]:
    questions = a_list(wire, "questions")
    if not 1 <= len(questions) <= rules.questions:
        raise InvalidQuestion(
            f"questions: between 1 and {rules.questions} for this model", param="questions"
        )
    return tuple(_question(q, i, rules) for i, q in enumerate(questions))


def _question(wire: Json, index: int, rules: Rules) -> Question:
    where = f"questions.{index}"
    question = an_object(wire, where)
    parsers = {
        "predicate": (QuestionType.NOUL, _predicate, set()),
        "choice": (QuestionType.CHOICE, _choices, {"choices"}),
        "score": (QuestionType.SCORE, _levels, {"levels"}),
    }
    kind = question.get("type")
    if not isinstance(kind, str) or kind not in parsers:
        raise InvalidQuestion(
            f"{where}.type: must be one of {', '.join(parsers)}", param=f"{where}.type"
        )
    type_, parse, own = parsers[kind]
    if unknown := sorted(set(question) - {"type", "name", "instructions"} - own):
        raise InvalidQuestion(f"{where}: unknown field(s) {unknown}", param=f"{where}.{unknown[0]}")
    instructions = question.get("instructions")
    if instructions is None:
        raise InvalidQuestion(f"{where}.instructions: is required", param=f"{where}.instructions")
    return Question(
        id=str(index),
        type=type_,
        instructions=content(instructions, f"{where}.instructions", ("input_text", "input_json")),
        options=parse(question, where, rules),
        lettered=True,
        name=_name(question, where),
    )


def _name(question: Mapping[str, Json], where: str) -> str | None:
    if "name" not in question:
        return None
    name = question["name"]
    if not isinstance(name, str):
        raise InvalidQuestion("name must be a string when provided", param=f"{where}.name")
    return name


def _predicate(question: Mapping[str, Json], where: str, rules: Rules) -> tuple[Option, ...]:
    return Option(name="false"), Option(name="true")


def _choices(question: Mapping[str, Json], where: str, rules: Rules) -> tuple[Option, ...]:
    where = f"{where}.choices"
    choices = _bounded(question.get("choices"), where, rules.options)
    options = []
    for i, wire in enumerate(choices):
        choice = an_object(wire, f"{where}.{i}")
        value = choice.get("value")
        if not isinstance(value, str | bool):
            raise InvalidQuestion(
                f"{where}.{i}.value: must be a string or a boolean", param=f"{where}.{i}.value"
            )
        # As JSON, so that "true" and true are two names.
        options.append(
            Option(
                name=json.dumps(value, ensure_ascii=False),
                description=_description(choice, f"{where}.{i}", {"value"}),
            )
        )
    if len({option.name for option in options}) < len(options):
        raise InvalidQuestion(f"{where}: values must be distinct", param=where)
    return tuple(options)


def _levels(question: Mapping[str, Json], where: str, rules: Rules) -> tuple[Option, ...]:
    where = f"{where}.levels"
    levels = _bounded(question.get("levels"), where, rules.levels)
    return tuple(
        Option(
            name=a_string(an_object(level, f"{where}.{i}").get("label"), f"{where}.{i}.label"),
            description=_description(an_object(level, f"{where}.{i}"), f"{where}.{i}", {"label"}),
        )
        for i, level in enumerate(levels)
    )


def _description(wire: Mapping[str, Json], where: str, own: set[str]) -> str | None:
    if unknown := sorted(set(wire) - own - {"description"}):
        raise InvalidQuestion(f"{where}: unknown field(s) {unknown}", param=f"{where}.{unknown[0]}")
    return a_string(wire.get("description", ""), f"{where}.description") or None


def _bounded(wire: Json, where: str, most: int) -> list[Json]:
    entries = a_list(wire, where)
    if not 2 <= len(entries) <= most:
        raise InvalidQuestion(f"{where}: between 2 and {most} for this model", param=where)
    return entries
