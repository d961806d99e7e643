"""The text a model reads: the state, a blank line, one question block. Pure functions of values.

This is the text of vLLM's `/v1/systemone` for next-token models, line by line, so that a model gives
the same numbers here as there. The chat template and the tokens are the worker's business.
"""

import json

from decisions.types import Json, Question, QuestionType

#: Recorded with every decision; changes whenever one character of the text would.
PROMPT_VERSION = "systemone-1"

SEPARATOR = "\n\n"

_REPLY = {
    QuestionType.CHOICE: "Answer with the letter of one option only.",
    QuestionType.NOUL: "Answer with yes or no only.",
    QuestionType.SCORE: "Answer with the number of one level only.",
}


def state_text(state: Json) -> str:
    """A string is shown as it is, anything else as JSON with its keys in the order they came."""
    return state if isinstance(state, str) else json.dumps(state, ensure_ascii=False)


def labels(question: Question) -> tuple[str, ...]:
    """The single tokens that the options are read by, in option order."""
    match question.type:
        case QuestionType.CHOICE:
            return tuple(chr(ord("A") + i) for i in range(len(question.options)))
        case QuestionType.NOUL:
            return ("yes", "no")
        case QuestionType.SCORE:
            return tuple(str(i) for i in range(len(question.options)))


def question_block(question: Question) -> str:
    """What follows the state: the instructions, a line per option, how to reply."""
    lines = [f"Question: {question.instructions}"] if question.instructions else []
    lines += [_option_line(question, label, i) for i, label in enumerate(labels(question))]
    return "\n".join([*lines, _REPLY[question.type]])


def _option_line(question: Question, label: str, index: int) -> str:
    option = question.options[index]
    match question.type:
        case QuestionType.CHOICE:
            text = option.name + (f" - {option.description}" if option.description else "")
        case QuestionType.NOUL:
            text = option.description or ""
        case QuestionType.SCORE:
            text = option.name
    # A yes/no side without description is the bare label; a score level may be empty text.
    return f"{label}: {text}" if text or question.type is QuestionType.SCORE else label
