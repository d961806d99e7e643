"""What an item asks, ready for the store: from each endpoint's body to a state and a question set."""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

from decisions.errors import InvalidItem, UnknownModel
from decisions.openai import parse_request
from decisions.questions import (
    DEFAULT_RULES,
    Rules,
    canonical,
    content_hash,
    parse_question_set,
)
from decisions.system_one import check_fields
from decisions.types import Json, QuestionSet


@dataclass(frozen=True, kw_only=True, slots=True)
class Body:
    """What is asked, ready for the store."""

    #: The state's JSON, and its hash.
    state: str
    state_hash: bytes
    #: The question set's canonical JSON, and its hash.
    question_set: str
    question_set_hash: bytes


#: From what a client wrote to a body; each endpoint has its own. Raises InvalidItem or InvalidQuestion.
BodyParser = Callable[[Mapping[str, Json]], Body]


def system_one_body(
    shared: Mapping[str, Json],
    rules: Rules = DEFAULT_RULES,
    models: Collection[str] | None = None,
) -> BodyParser:
    """Bodies of `/v1/systemone`. Fields that it does not know are left alone, as TypeSafe does.

    `shared` are the batch's own questions and instructions, for bodies without; `models` the names that
    are served, None accepts every name.
    """

    @lru_cache(maxsize=1)
    def shared_set() -> tuple[str, bytes]:
        return _stored(_question_set(shared, rules))

    def parse(body: Mapping[str, Json]) -> Body:
        check_fields(body)
        check_model(body.get("model"), models)
        if "state" not in body:
            raise InvalidItem("missing_field", "state is required", param="state")
        if body.keys() & {"questions", "instructions"}:
            own = _stored(_question_set({**shared, **body}, rules))
        else:
            own = shared_set()
        return body_of(body["state"], own)

    return parse


def openai_body(
    shared: Mapping[str, Json],
    rules: Rules = DEFAULT_RULES,
    models: Collection[str] | None = None,
) -> BodyParser:
    """Bodies of `/v1/decisions`, with the arguments of `system_one_body`."""
    given = {name: value for name, value in shared.items() if value is not None}

    def parse(body: Mapping[str, Json]) -> Body:
        check_model(body.get("model"), models)
        request = parse_request({**given, **body}, rules)
        return body_of(request.state, _stored(request.question_set))

    return parse


def _question_set(fields: Mapping[str, Json], rules: Rules) -> QuestionSet:
    if fields.get("questions") is None:
        raise InvalidItem(
            "missing_field", "questions: neither the item nor its batch has any", param="questions"
        )
    return parse_question_set(fields["questions"], fields.get("instructions"), rules)


def check_model(model: Json, known: Collection[str] | None) -> None:
    """No name, or an empty one, takes what is served."""
    if not model or known is None:
        return
    if not isinstance(model, str):
        raise InvalidItem("invalid_type", "model must be a string", param="model")
    if model not in known:
        raise UnknownModel(model, known)


def _stored(question_set: QuestionSet) -> tuple[str, bytes]:
    text = canonical(question_set)
    return text, content_hash(text)


def body_of(state: Json, question_set: tuple[str, bytes]) -> Body:
    """From a state, and a question set's canonical text and hash."""
    text = json.dumps(state, ensure_ascii=False)
    return Body(
        state=text,
        state_hash=content_hash(text),
        question_set=question_set[0],
        question_set_hash=question_set[1],
    )
