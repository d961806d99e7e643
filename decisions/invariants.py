"""What must hold whatever died: each statement counts what breaks one promise. Zero everywhere is well."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import Select, TextClause, func, select, text

from decisions.tables import batches, items
from decisions.types import TERMINAL


def open_batches() -> Select[int]:
    return select(func.count()).select_from(batches).where(batches.c.status.not_in(TERMINAL))


def fates(batch_id: UUID) -> Select[str, str]:
    """(custom_id, status) of every item of a batch."""
    return select(items.c.custom_id, items.c.status).where(items.c.batch_id == batch_id)


def reread() -> TextClause:
    """How often items were claimed beyond the first time, over all of them."""
    return text("SELECT coalesce(sum(attempt - 1), 0) FROM items WHERE attempt > 1")


_VIOLATIONS: Mapping[str, str] = {
    "items that are not final in a batch that is": """
        SELECT count(*) FROM items i JOIN batches b ON b.id = i.batch_id
        WHERE i.finished_at IS NULL
          AND b.status IN ('completed', 'failed', 'expired', 'cancelled')""",
    "questions of done items without a decision": """
        SELECT coalesce(sum(json_array_length(q.content -> 'questions') - d.stored), 0)
        FROM items i
        JOIN question_sets q ON q.tenant_id = i.tenant_id AND q.hash = i.question_set_hash
        CROSS JOIN LATERAL (SELECT count(*) AS stored FROM decisions WHERE item_id = i.id) d
        WHERE i.status = 'done'""",
    "questions with two decisions": """
        SELECT count(*) FROM (
          SELECT FROM decisions GROUP BY item_id, question_id HAVING count(*) > 1) twice""",
    "decisions of items that are not done": """
        SELECT count(*) FROM decisions d JOIN items i ON i.id = d.item_id
        WHERE i.status <> 'done'""",
    "batches whose counters are not their items": """
        SELECT count(*) FROM batches b CROSS JOIN LATERAL (
          SELECT count(*) FILTER (WHERE status = 'done') AS done,
            count(*) FILTER (WHERE status = 'failed') AS failed,
            count(*) FILTER (WHERE status = 'dead') AS dead,
            count(*) FILTER (WHERE status = 'cancelled') AS cancelled,
            count(*) FILTER (WHERE status = 'expired') AS expired, count(*) AS total
          FROM items WHERE batch_id = b.id) i
        WHERE (b.done, b.failed, b.dead, b.cancelled, b.expired, b.total)
          IS DISTINCT FROM (i.done, i.failed, i.dead, i.cancelled, i.expired, i.total)""",
    "final batches without their one event": """
        SELECT count(*) FROM batches b
        WHERE b.status IN ('completed', 'failed', 'expired', 'cancelled')
          AND (SELECT count(*) FROM events e WHERE e.batch_id = b.id
               AND e.type = 'batch.' || b.status) <> 1""",
    "batches that share an idempotency key": """
        SELECT count(*) FROM (
          SELECT FROM idempotency_keys GROUP BY tenant_id, key HAVING count(*) > 1) twice""",
}


def violations() -> Mapping[str, Any]:
    """Name of a broken promise -> the statement that counts how often it is broken."""
    return {name: text(sql) for name, sql in _VIOLATIONS.items()}
