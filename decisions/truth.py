"""Truth: the right answers that people give later, with everything that was ever said.

The newest is in force, by the time at which it was said and then by its arrival; none is overwritten.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias

from sqlalchemy import Connection, Select, TextClause, select, text

from decisions import contents
from decisions.errors import InvalidTruth, NotFound
from decisions.questions import from_canonical
from decisions.tables import decisions, truths
from decisions.truth_input import NewTruth, name_of_answer, refused
from decisions.types import ItemError, Question

#: Truths that are in memory at a time.
CHUNK = 5000
#: Line errors that are told; all are counted.
SHOWN_ERRORS = 1000

# One row: the truth in force of the decision `{decision}`, which is an id's SQL.
IN_FORCE = """(SELECT t.answer FROM truths t WHERE t.decision_id = {decision}
  ORDER BY t.said_at DESC, t.id DESC LIMIT 1)"""


@dataclass(slots=True)
class Imported:
    """What became of many truths."""

    total: int = 0
    stored: int = 0
    #: Said before, at the same time by the same source.
    repeated: int = 0
    failed: int = 0
    #: The first of them.
    errors: list[ItemError] = field(default_factory=list)

    def refuse(self, error: ItemError) -> None:
        self.failed += 1
        if len(self.errors) < SHOWN_ERRORS:
            self.errors.append(error)


@dataclass(frozen=True, slots=True)
class _Decided:
    """A decision that a truth is about."""

    id: int
    question: Question


Key: TypeAlias = "int | tuple[Any, str, str] | None"


def store(connection: Connection, tenant: int, lines: Iterable[NewTruth | ItemError]) -> Imported:
    """Each line that is good, whatever the others are."""
    imported = Imported()
    pending = iter(lines)
    while chunk := list(islice(pending, CHUNK)):
        imported.total += len(chunk)
        given: list[NewTruth] = []
        for one in chunk:
            if isinstance(one, NewTruth):
                given.append(one)
            else:
                imported.refuse(one)
        _store_chunk(connection, tenant, given, imported)
    imported.errors.sort(key=lambda error: error.line or 0)
    return imported


def store_one(connection: Connection, tenant: int, new: NewTruth) -> int:
    """The decision's id. Raises NotFound or InvalidTruth."""
    decided = _decided(_find(connection, tenant, [new]), new)
    answer = name_of_answer(decided.question, new.answer)
    connection.execute(_insert(tenant, [(decided.id, answer, new)]))
    return decided.id


def _store_chunk(
    connection: Connection, tenant: int, given: Sequence[NewTruth], imported: Imported
) -> None:
    found = _find(connection, tenant, given)
    rows = []
    for new in given:
        try:
            decided = _decided(found, new)
            rows.append((decided.id, name_of_answer(decided.question, new.answer), new))
        except (InvalidTruth, NotFound) as wrong:
            imported.refuse(refused(wrong, new.line))
    stored = len(connection.execute(_insert(tenant, rows)).all())
    imported.stored += stored
    imported.repeated += len(rows) - stored


def _key(new: NewTruth) -> Key:
    return new.decision_id if new.name is None else new.name


def _decided(found: dict[Key, _Decided], new: NewTruth) -> _Decided:
    decided = found.get(_key(new))
    if decided is None:
        raise NotFound(
            "There is no such decision.", param="custom_id" if new.name else "decision_id"
        )
    return decided


def _find(connection: Connection, tenant: int, given: Sequence[NewTruth]) -> dict[Key, _Decided]:
    """By id and by name; what is not there is missing."""
    rows = list(connection.execute(_by_id(tenant, [n.decision_id for n in given if not n.name])))
    named = list(connection.execute(_by_name(tenant, [n.name for n in given if n.name])))
    hashes = {row.question_set_hash for row in (*rows, *named)}
    sets = {
        row.hash: {q.id: q for q in from_canonical(row.content).questions}
        for row in connection.execute(contents.load_question_sets([(tenant, h) for h in hashes]))
    }
    found: dict[Key, _Decided] = {}
    for row in rows:
        found[row.id] = _Decided(row.id, sets[row.question_set_hash][row.question_id])
    for row in named:
        decided = _Decided(row.id, sets[row.question_set_hash][row.question_id])
        found[row.batch_id, row.custom_id, row.question_id] = decided
    return found


def _by_id(tenant: int, ids: Sequence[int | None]) -> Select[Any]:
    return select(decisions.c.id, decisions.c.question_id, decisions.c.question_set_hash).where(
        decisions.c.tenant_id == tenant, decisions.c.id.in_(ids)
    )


def _by_name(tenant: int, names: Sequence[tuple[Any, str, str]]) -> TextClause:
    """Somewhat more than what is named: every pairing of these batches and custom_ids."""
    return text(
        """
        SELECT d.id, d.question_id, d.question_set_hash, i.batch_id, i.custom_id
        FROM items i JOIN decisions d ON d.item_id = i.id
        WHERE i.tenant_id = :tenant AND i.batch_id = ANY(:batches) AND i.custom_id = ANY(:names)
        """
    ).bindparams(
        tenant=tenant,
        batches=list({batch for batch, _, _ in names}),
        names=list({custom_id for _, custom_id, _ in names}),
    )


def _insert(tenant: int, rows: Sequence[tuple[int, str, NewTruth]]) -> TextClause:
    """Returns a row for each that is new."""
    return text(
        """
        INSERT INTO truths (tenant_id, decision_id, answer, source, said_at)
        SELECT :tenant, decision_id, answer, source, said_at
        FROM unnest(CAST(:ids AS bigint[]), CAST(:answers AS text[]), CAST(:sources AS text[]),
          CAST(:times AS timestamptz[])) AS new(decision_id, answer, source, said_at)
        ON CONFLICT DO NOTHING RETURNING id
        """
    ).bindparams(
        tenant=tenant,
        ids=[id_ for id_, _, _ in rows],
        answers=[answer for _, answer, _ in rows],
        sources=[new.source for _, _, new in rows],
        times=[new.said_at for _, _, new in rows],
    )


def history(tenant: int, decision_id: int) -> Select[Any]:
    """The first is in force. One row with nulls of a decision that has none; none of no decision."""
    return (
        select(truths, decisions.c.id.label("of"))
        .select_from(decisions.outerjoin(truths, truths.c.decision_id == decisions.c.id))
        .where(decisions.c.tenant_id == tenant, decisions.c.id == decision_id)
        .order_by(truths.c.said_at.desc(), truths.c.id.desc())
    )
