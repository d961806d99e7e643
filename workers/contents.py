"""Loads what claimed items point at: states and question sets, each once."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from decisions import contents
from decisions.questions import from_canonical
from decisions.types import Claim, Json, QuestionSet

Key = tuple[int, bytes]


@dataclass(frozen=True, slots=True)
class Contents:
    """By (tenant, hash)."""

    #: A state that was purged is missing here.
    states: dict[Key, Json]
    question_sets: dict[Key, QuestionSet]


def load(connection: Connection, claims: Sequence[Claim]) -> Contents:
    states = connection.execute(contents.load_states(_keys(claims, "state_hash")))
    sets = connection.execute(contents.load_question_sets(_keys(claims, "question_set_hash")))
    return Contents(
        {
            (row.tenant_id, row.hash): json.loads(row.content)
            for row in states
            if row.content is not None
        },
        {(row.tenant_id, row.hash): from_canonical(row.content) for row in sets},
    )


def _keys(claims: Sequence[Claim], name: str) -> list[Key]:
    return sorted({(claim.tenant_id, getattr(claim, name)) for claim in claims})
