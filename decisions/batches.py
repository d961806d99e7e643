"""Batches: insert, read, list, cancel, results. Statements only."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Insert, Select, TextClause, func, insert, literal, select, text
from sqlalchemy.dialects.postgresql import insert as upsert

from decisions.queue import SETTLE
from decisions.tables import batches, idempotency_keys, items
from decisions.types import TERMINAL, BatchStatus, ItemStatus, Submission

FINAL = tuple(s for s in ItemStatus if s not in (ItemStatus.QUEUED, ItemStatus.LEASED))

#: Line errors that a batch shows of itself; all of them are in its results.
SHOWN_ERRORS = 100


def insert_batch(batch_id: UUID, submission: Submission) -> Insert:
    return insert(batches).values(
        id=batch_id,
        tenant_id=submission.tenant_id,
        status=BatchStatus.IN_PROGRESS,
        lane=submission.lane,
        endpoint=submission.endpoint,
        model=submission.model,
        input_file_id=submission.input_file_id,
        completion_window=submission.completion_window,
        metadata=submission.metadata,
        webhook=submission.webhook,
        expires_at=func.now() + submission.expires_in,
    )


def take_key(batch_id: UUID, submission: Submission) -> Insert:
    """Returns a row only to the first submission with this key; others wait for the first to end."""
    return (
        upsert(idempotency_keys)
        .values(
            tenant_id=submission.tenant_id,
            key=submission.idempotency_key,
            request_hash=submission.request_hash,
            batch_id=batch_id,
        )
        .on_conflict_do_nothing()
        .returning(idempotency_keys.c.batch_id)
    )


def find_key(submission: Submission) -> Select[UUID, bytes]:
    return select(idempotency_keys.c.batch_id, idempotency_keys.c.request_hash).where(
        idempotency_keys.c.tenant_id == submission.tenant_id,
        idempotency_keys.c.key == submission.idempotency_key,
    )


def refuse_duplicates(batch_id: UUID) -> TextClause:
    """Every item but the first with its custom_id fails, and says which line was first."""
    return text(
        """
        WITH numbered AS (
          SELECT id, line, custom_id, min(line) OVER (PARTITION BY custom_id) AS first
          FROM items WHERE batch_id = :batch_id AND custom_id IS NOT NULL
        )
        UPDATE items i SET status = 'failed', finished_at = now(), error = jsonb_build_object(
          'code', 'duplicate_custom_id',
          'message', format('custom_id %s is already on line %s', to_json(n.custom_id), n.first),
          'param', 'custom_id', 'line', n.line)
        FROM numbered n WHERE i.id = n.id AND n.line > n.first AND i.status = 'queued'
        """
    ).bindparams(batch_id=batch_id)


def count_items(batch_id: UUID) -> TextClause:
    """Give the new batch its totals; one whose every line was refused has failed. Returns the total."""
    return text(
        """
        WITH counted AS (
          SELECT count(*) AS total, count(*) FILTER (WHERE status = 'failed') AS failed
          FROM items WHERE batch_id = :batch_id
        ), shown AS (
          SELECT jsonb_agg(error ORDER BY line) AS errors FROM (
            SELECT error, line FROM items WHERE batch_id = :batch_id AND status = 'failed'
            ORDER BY line LIMIT :shown) first
        ), updated AS (
          UPDATE batches b SET total = counted.total, failed = counted.failed,
            errors = shown.errors,
            status = CASE WHEN counted.failed = counted.total AND counted.total > 0
              THEN 'failed' ELSE b.status END,
            failed_at = CASE WHEN counted.failed = counted.total AND counted.total > 0
              THEN now() END
          FROM counted, shown WHERE b.id = :batch_id
          RETURNING b.id, b.tenant_id, b.status, b.total, b.failed
        ), stepped AS (
          INSERT INTO steps (tenant_id, batch_id, status, total, done, failed, dead, cancelled,
            expired, item_ids)
          SELECT tenant_id, id, status, total, 0, failed, 0, 0, 0, '{}' FROM updated WHERE total > 0
        ), told AS (
          INSERT INTO events (tenant_id, batch_id, type)
          SELECT tenant_id, id, 'batch.failed' FROM updated WHERE status = 'failed'
        )
        SELECT total FROM updated
        """
    ).bindparams(batch_id=batch_id, shown=SHOWN_ERRORS)


# Few items are leased at a time, whatever the batch's size, and they have an index of their own.
_LEASED = (
    select(func.count())
    .where(items.c.batch_id == batches.c.id, items.c.status == ItemStatus.LEASED)
    .scalar_subquery()
    .label("leased")
)


def get(tenant_id: int, batch_id: UUID) -> Select[Any]:
    """The batch, and how many of its items are `leased`."""
    return select(batches, _LEASED).where(
        batches.c.tenant_id == tenant_id, batches.c.id == batch_id
    )


def page(tenant_id: int, after: UUID | None, limit: int) -> Select[Any]:
    """Like `get`, newest first; `after` is the last id of the page before. Ids are in order of creation."""
    query = select(batches, _LEASED).where(batches.c.tenant_id == tenant_id)
    if after is not None:
        query = query.where(batches.c.id < after)
    return query.order_by(batches.c.id.desc()).limit(limit)


def statuses() -> Select[str, int]:
    """How many batches there are of each status, of all tenants."""
    return select(batches.c.status, func.count().label("batches")).group_by(batches.c.status)


def start_cancel(tenant_id: int, batch_id: UUID) -> TextClause:
    """Does nothing to a batch that is final already."""
    return text(
        """
        UPDATE batches SET status = 'cancelling', cancelling_at = now()
        WHERE id = :batch_id AND tenant_id = :tenant_id AND status = 'in_progress'
        """
    ).bindparams(tenant_id=tenant_id, batch_id=batch_id)


def cancel_queued(batch_id: UUID) -> TextClause:
    """Finish what no worker holds; after `start_cancel`, in the same transaction.

    Items that are locked just now are left to the next sweep: whoever locked them may wait for the batch,
    which `start_cancel` has locked.
    """
    return text(
        f"""
        WITH waiting AS (
          SELECT i.id FROM items i JOIN batches b ON b.id = i.batch_id
          WHERE b.id = :batch_id AND b.status = 'cancelling' AND i.status = 'queued'
          FOR UPDATE OF i SKIP LOCKED
        ), final AS (
          UPDATE items i SET status = 'cancelled', finished_at = now()
          FROM waiting WHERE i.id = waiting.id
          RETURNING i.id, i.batch_id, i.status, 0 AS input_tokens, 0 AS output_tokens
        ), {SETTLE}
        SELECT count(*) FROM final
        """
    ).bindparams(batch_id=batch_id)


# Of an item `i`: what became of it, its decisions as JSON.
RESULT = """
  i.id, i.batch_id, i.line, i.custom_id, i.status, i.error, i.question_set_hash, i.finished_at,
  (SELECT json_agg(json_build_object(
      'id', d.id, 'question_id', d.question_id, 'answer_index', d.answer_index,
      'value', d.value, 'probabilities', d.probabilities, 'confidence', d.confidence,
      'label_mass', d.label_mass, 'argmax_is_label', d.argmax_is_label,
      'prompt_tokens', d.prompt_tokens, 'cached_tokens', d.cached_tokens, 'model', m.model))
    FROM decisions d JOIN model_versions m ON m.id = d.model_version_id
    WHERE d.item_id = i.id) AS decisions
"""


def results(
    batch_id: UUID, after_line: int, limit: int, statuses: Sequence[ItemStatus] = FINAL
) -> TextClause:
    """Final items in line order, each with its decisions as JSON, from `after_line` on."""
    return text(
        f"""
        SELECT {RESULT}
        FROM items i
        WHERE i.batch_id = :batch_id AND i.line > :after_line
          AND i.status = ANY(:statuses)
        ORDER BY i.line LIMIT :limit
        """
    ).bindparams(
        batch_id=batch_id,
        after_line=after_line,
        limit=limit,
        statuses=[str(status) for status in statuses],
    )


def open_items(tenant_id: int) -> Select[int, int]:
    """Items that are not final, of `everybody` and of one `tenant`; reads open batches."""
    final = sum((batches.c[fate] for fate in FINAL), start=literal(0))
    left = batches.c.total - final
    return select(
        func.coalesce(func.sum(left), 0).label("everybody"),
        func.coalesce(func.sum(left).filter(batches.c.tenant_id == tenant_id), 0).label("tenant"),
    ).where(batches.c.status.not_in(TERMINAL))
