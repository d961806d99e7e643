"""The text a model reads: the state, a blank line, one question block. Pure functions of values.

This is the text of vLLM's routes for next-token models, line by line, so that a model gives the same
numbers here as there: `/v1/systemone` reads each type of question by labels of its own, `/v1/decisions`
reads them all by letters. The chat template and the tokens are the worker's business.
"""

import json

from decisions.types import Json, Question, QuestionType

#: Recorded with every decision; changes whenever one character of the text would.
PROMPT_VERSION = "systemone-1"
LETTERED_VERSION = "decisions-1"

SEPARATOR = "\n\n"

_REPLY = {
    QuestionType.CHOICE: "Answer with the letter of one option only.",
    QuestionType.NOUL: "Answer with yes or no only.",
    QuestionType.SCORE: "Answer with the number of one level only.",
}


LETTERS = tuple(chr(ord("A") + i) for i in range(26))

#: For choices of more options: pairs of letters that are one token each to the tokenizers of SmolLM2,
#: Qwen2.5 and Qwen3, in alphabetical order.
PAIRS = tuple(
    f"{first}{second}"
    for first, seconds in (
        ("A", "ABCDEFGHIKLMNPRSTUVWXY"),
        ("B", "ABCDEFGHILMNOPRSTUVY"),
        ("C", "ABCDEFGHILMNOPRSTUVY"),
        ("D", "ABCDEFHILMNOPRST"),
        ("E", "ACDEFGLMNPRSTUVWX"),
        ("F", "ACDEFILMNOPRSTW"),
        ("G", "ABCDEFGHILMNOPRSTWY"),
        ("H", "ACDEFILOPRSTV"),
        ("I", "ABCDEFGHIKLMNOPRSTUVXZ"),
        ("J", "CDOSV"),
        ("K", "ABDEGKNS"),
        ("L", "ACDEGILMOPRSTUVY"),
        ("M", "ABCDEHILMNOPRSTWY"),
        ("N", "ABCDEFGHILMNOPRSTVWY"),
        ("O", "ABCDFGHKLMNOPRSTW"),
        ("P", "ACDEFGHI"),
    )
    for second in seconds
)


def version(question: Question) -> str:
    return LETTERED_VERSION if question.lettered else PROMPT_VERSION


def state_text(state: Json) -> str:
    """A string is shown as it is, anything else as JSON with its keys in the order they came."""
    return state if isinstance(state, str) else json.dumps(state, ensure_ascii=False)


def labels(question: Question) -> tuple[str, ...]:
    """The single tokens that the options are read by, in option order."""
    n = len(question.options)
    if question.lettered or question.type is QuestionType.CHOICE:
        return LETTERS[:n] if n <= len(LETTERS) else PAIRS[:n]
    return ("yes", "no") if question.type is QuestionType.NOUL else tuple(map(str, range(n)))


def question_block(question: Question) -> str:
    """What follows the state: the instructions, a line per option, how to reply."""
    lines = [f"Question: {question.instructions}"] if question.instructions else []
    lines += [_option_line(question, label, i) for i, label in enumerate(labels(question))]
    reply = _REPLY[QuestionType.CHOICE if question.lettered else question.type]
    return "\n".join([*lines, reply])


def _option_line(question: Question, label: str, index: int) -> str:
    option = question.options[index]
    described = option.name + (f" - {option.description}" if option.description else "")
    if question.lettered or question.type is QuestionType.CHOICE:
        return f"{label}: {described}"
    if question.type is QuestionType.SCORE:
        return f"{label}: {option.name}"
    # A yes/no side without description is the bare label.
    return f"{label}: {option.description}" if option.description else label
