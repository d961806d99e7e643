"""A store with a tenant and workers: what the tests submit to, claim from and look into."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Engine, TextClause, text

from decisions import batches, fleet, keys, queue
from decisions.answers import answer
from decisions.bodies import system_one_body
from decisions.database import transaction
from decisions.items import NewItem, read_item
from decisions.questions import parse_question_set
from decisions.submit import Submitted, submit
from decisions.types import Claim, Json, Lane, Submission

URL = "/v1/systemone"
QUESTIONS: dict[str, Json] = {
    "team": {"type": "choice", "criteria": {"shipping": None, "billing": None, "else": None}},
    "urgent": {"type": "noul"},
}
MODEL = {
    "model": "none",
    "revision": "1",
    "dtype": "float32",
    "kv_format": "fp32",
    "attention": "none",
    "engine_version": "0",
    "device": "cpu",
}
TERMINAL = ("completed", "failed", "expired", "cancelled")

Row = Mapping[str, Any]


def item(line: int, state: Json = "state", custom_id: Json = None) -> NewItem:
    """A good item; unless it is told otherwise, its custom_id is its line."""
    raw = json.dumps({"custom_id": custom_id or f"line-{line}", "state": state}).encode()
    return read_item(raw, line, system_one_body({"questions": QUESTIONS}), URL)


def bad_item(line: int) -> NewItem:
    return read_item(b"not JSON", line, system_one_body({"questions": QUESTIONS}), URL)


def items_about(*states: Json) -> list[NewItem]:
    return [item(line, state) for line, state in enumerate(states, start=1)]


@dataclass(kw_only=True)
class Worker:
    """Holds claims, and completes them with invented reads of label mass 0.9."""

    database: Engine
    model: int
    id: UUID = field(default_factory=uuid4)

    def claim(
        self, limit: int = 100, lane: Lane = Lane.BULK, lease_seconds: float = 60
    ) -> list[Claim]:
        return self._claimed(queue.claim(self.id, lane, limit, lease_seconds))

    def claim_suspect(self, lane: Lane = Lane.BULK) -> list[Claim]:
        return self._claimed(queue.claim_suspect(self.id, lane, 60))

    def _claimed(self, statement: TextClause) -> list[Claim]:
        with transaction(self.database) as connection:
            rows = connection.execute(statement).mappings()
            return sorted((Claim(**row) for row in rows), key=lambda claim: claim.id)

    def complete(self, claims: Sequence[Claim], **changed: Any) -> set[int]:
        """The ids that were finished. `changed` is written over every decision's columns."""
        rows = [row | changed for claim in claims for row in self._decisions(claim)]
        return self._completed([result(claim) for claim in claims], rows)

    def fail(self, claims: Sequence[Claim]) -> set[int]:
        error = {"code": "read_failed", "message": "it could not be read"}
        return self._completed([result(c, status="failed", error=error) for c in claims], [])

    def _completed(self, results: Sequence[Row], decisions: Sequence[Row]) -> set[int]:
        with transaction(self.database) as connection:
            return set(connection.execute(queue.complete(results, decisions)).scalars())

    def give_back(self, claims: Sequence[Claim]) -> None:
        with transaction(self.database) as connection:
            connection.execute(queue.give_back(self.id, [claim.id for claim in claims]))

    def extend(self, claims: Sequence[Claim], lease_seconds: float) -> None:
        with transaction(self.database) as connection:
            ids = [claim.id for claim in claims]
            connection.execute(queue.extend(self.id, ids, lease_seconds))

    def _decisions(self, claim: Claim) -> Iterator[dict[str, Any]]:
        for question in parse_question_set(QUESTIONS).questions:
            n = len(question.options)
            found = answer(question, [log(0.9 / n)] * n)
            yield {
                "item_id": claim.id,
                "question_id": question.id,
                "type": question.type.value,
                "answer": question.options[found.top].name,
                "answer_index": found.top,
                "value": found.value,
                "probabilities": found.probabilities,
                "log_probs": found.log_probs,
                "label_ids": list(range(n)),
                "label_mass": found.label_mass,
                "argmax_token": 0,
                "argmax_is_label": True,
                "margin": found.margin,
                "entropy": found.entropy,
                "confidence": found.confidence,
                "confidence_formula": found.confidence_formula.value,
                "prompt_version": "systemone-1",
                "prompt_hash": "00" * 32,
                "prompt_tokens": 10,
                "model_version_id": self.model,
                "worker_id": str(self.id),
                "queue_seconds": claim.queue_seconds,
                "read_seconds": 0.01,
                "prefilled_tokens": 5,
                "cached_tokens": 0,
            }


def result(claim: Claim, **changed: Any) -> dict[str, Any]:
    return {
        "id": claim.id,
        "fence": claim.fence,
        "status": "done",
        "error": None,
        "input_tokens": 20,
        "output_tokens": 2,
    } | changed


class Store:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        with transaction(engine) as connection:
            self.tenant: int = connection.execute(keys.ensure_tenant("acme")).scalar_one()
            self.model: int = connection.execute(fleet.record_model_version(MODEL)).scalar_one()

    def worker(self) -> Worker:
        made = Worker(database=self.engine, model=self.model)
        with transaction(self.engine) as connection:
            connection.execute(fleet.register_worker(made.id, "w", self.model, 2048, list(Lane)))
        return made

    def submit(self, items: Iterable[NewItem], **fields: Any) -> Submitted:
        return submit(self.engine, Submission(**{"tenant_id": self.tenant, **fields}), items)

    def batch(self, *states: Json, **fields: Any) -> UUID:
        """The id of a new batch with an item per state."""
        return self.submit(items_about(*states), **fields).batch_id

    def cancel(self, batch_id: UUID) -> None:
        with transaction(self.engine) as connection:
            connection.execute(batches.start_cancel(self.tenant, batch_id))
            connection.execute(batches.cancel_queued(batch_id))

    def sweep(self) -> int:
        """How many items were moved, by both sweeps."""
        with transaction(self.engine) as connection:
            late: int = connection.execute(queue.sweep_leases()).scalar_one()
        with transaction(self.engine) as connection:
            closed: int = connection.execute(queue.sweep_closed()).scalar_one()
        return late + closed

    def end_leases(self, claims: Iterable[Claim] | None = None) -> None:
        """As if the time of these leases, or of all, were over."""
        ids = None if claims is None else [claim.id for claim in claims]
        self.run(
            "UPDATE items SET lease_until = now() - interval '1 s'"
            " WHERE status = 'leased' AND (CAST(:ids AS bigint[]) IS NULL OR id = ANY(:ids))",
            ids=ids,
        )

    def end_window(self, batch_id: UUID) -> None:
        self.run(
            "UPDATE batches SET expires_at = now() - interval '1 s' WHERE id = :id", id=batch_id
        )

    def run(self, statement: str, **values: Any) -> None:
        with transaction(self.engine) as connection:
            connection.execute(text(statement), values)

    def rows(self, query: str, **values: Any) -> list[Row]:
        with transaction(self.engine) as connection:
            return [dict(row) for row in connection.execute(text(query), values).mappings()]

    def count(self, table: str) -> int:
        return int(self.rows(f"SELECT count(*) AS n FROM {table}")[0]["n"])

    def row(self, batch_id: UUID) -> Row:
        """The batch."""
        (row,) = self.rows("SELECT * FROM batches WHERE id = :id", id=batch_id)
        return row

    def items(self, batch_id: UUID | None = None) -> list[Row]:
        """A batch's items, or all, in line order."""
        return self.rows(
            "SELECT * FROM items WHERE CAST(:id AS uuid) IS NULL OR batch_id = :id"
            " ORDER BY batch_id, line",
            id=batch_id,
        )

    def statuses(self, batch_id: UUID | None = None) -> list[str]:
        return [row["status"] for row in self.items(batch_id)]

    def counts(self, batch_id: UUID) -> dict[str, int]:
        """The batch's counters that are not 0."""
        names = ("total", "done", "failed", "dead", "cancelled", "expired")
        return {name: n for name, n in self.row(batch_id).items() if name in names and n}

    def events(self, batch_id: UUID) -> list[str]:
        rows = self.rows("SELECT type FROM events WHERE batch_id = :id ORDER BY id", id=batch_id)
        return [row["type"] for row in rows]
