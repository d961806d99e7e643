"""The queue: claim, extend, give back, complete, sweep, close. Statements only; callers hold the transaction.

An item is claimed with a lease and a fence. Whatever happens to a worker, the sweep brings its items
back when their lease ends, and only the newest fence may finish an item, so reading may happen more
than once and storing happens once.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import TextClause, text

from decisions.types import Lane

#: The channel that tells a batch's id when it has ended.
ENDED_CHANNEL = "weighbridge_batch_ended"

#: An item that was claimed this often and never finished is dead.
MAX_ATTEMPTS = 5

# Takes `final(id, batch_id, status, input_tokens, output_tokens)`, the items that just became final;
# moves their batches' counters, closes the batches that have no item left, and records the step and the
# event of each, all in the transaction that made the items final. Batches are locked in order of their
# ids, so that two workers which finish items of the same batches cannot deadlock.
SETTLE = f"""
counts AS (
  SELECT batch_id,
    count(*) FILTER (WHERE status = 'done') AS done,
    count(*) FILTER (WHERE status = 'failed') AS failed,
    count(*) FILTER (WHERE status = 'dead') AS dead,
    count(*) FILTER (WHERE status = 'cancelled') AS cancelled,
    count(*) FILTER (WHERE status = 'expired') AS expired,
    count(*) AS final,
    coalesce(sum(input_tokens), 0) AS input_tokens,
    coalesce(sum(output_tokens), 0) AS output_tokens,
    coalesce(array_agg(id ORDER BY id) FILTER (WHERE status IN ('done', 'failed', 'dead')),
      '{{}}') AS item_ids
  FROM final GROUP BY batch_id
), locked AS MATERIALIZED (
  SELECT id FROM batches WHERE id IN (SELECT batch_id FROM counts) ORDER BY id FOR UPDATE
), settled AS (
  UPDATE batches b SET
    done = b.done + c.done,
    failed = b.failed + c.failed,
    dead = b.dead + c.dead,
    cancelled = b.cancelled + c.cancelled,
    expired = b.expired + c.expired,
    input_tokens = b.input_tokens + c.input_tokens,
    output_tokens = b.output_tokens + c.output_tokens,
    status = CASE
      WHEN b.done + b.failed + b.dead + b.cancelled + b.expired + c.final < b.total THEN b.status
      WHEN b.status = 'cancelling' THEN 'cancelled'
      WHEN b.expired + c.expired > 0 THEN 'expired'
      ELSE 'completed' END,
    completed_at = CASE
      WHEN b.done + b.failed + b.dead + b.cancelled + b.expired + c.final = b.total
        AND b.status <> 'cancelling' AND b.expired + c.expired = 0 THEN now() END,
    expired_at = CASE
      WHEN b.done + b.failed + b.dead + b.cancelled + b.expired + c.final = b.total
        AND b.status <> 'cancelling' AND b.expired + c.expired > 0 THEN now() END,
    cancelled_at = CASE
      WHEN b.done + b.failed + b.dead + b.cancelled + b.expired + c.final = b.total
        AND b.status = 'cancelling' THEN now() END
  FROM counts c JOIN locked l ON l.id = c.batch_id
  WHERE b.id = c.batch_id
  RETURNING b.id, b.tenant_id, b.status, b.total, b.done, b.failed, b.dead, b.cancelled, b.expired,
    c.item_ids
), stepped AS (
  INSERT INTO steps (tenant_id, batch_id, status, total, done, failed, dead, cancelled, expired,
    item_ids)
  SELECT tenant_id, id, status, total, done, failed, dead, cancelled, expired, item_ids FROM settled
), told AS (
  INSERT INTO events (tenant_id, batch_id, type)
  SELECT tenant_id, id, 'batch.' || status FROM settled
  WHERE status IN ('completed', 'failed', 'expired', 'cancelled')
  ON CONFLICT DO NOTHING
  RETURNING pg_notify('{ENDED_CHANNEL}', batch_id::text)
)
"""

_LEASE = """
UPDATE items i SET
  status = 'leased',
  lease_owner = :worker,
  lease_until = now() + make_interval(secs => :lease_seconds),
  attempt = attempt + 1,
  fence = nextval('fence_seq')
FROM chosen WHERE i.id = chosen.id
RETURNING i.id, i.fence, i.attempt, i.tenant_id, i.state_hash, i.question_set_hash,
  extract(epoch FROM now() - i.created_at)::float8 AS queue_seconds
"""


def claim(
    worker: UUID, lane: Lane, limit: int, lease_seconds: float, model: str = ""
) -> TextClause:
    """Up to `limit` items that ask for `model`: the head of the lane, then more about the same states.

    The head is by priority and age. Items about one state come together, so that one prefill serves
    them all, however they were shuffled in the lane.
    """
    return text(
        f"""
        WITH head AS (
          SELECT tenant_id, state_hash, priority, id FROM items
          WHERE status = 'queued' AND NOT suspect AND lane = :lane AND model = :model
          ORDER BY priority, id LIMIT :limit FOR UPDATE SKIP LOCKED
        ), heads AS (
          SELECT tenant_id, state_hash, min(priority) AS priority, min(id) AS id
          FROM head GROUP BY 1, 2 ORDER BY 3, 4
        ), chosen AS (
          SELECT same.id FROM heads CROSS JOIN LATERAL (
            SELECT id FROM items
            WHERE status = 'queued' AND NOT suspect AND lane = :lane AND model = :model
              AND tenant_id = heads.tenant_id AND state_hash = heads.state_hash
            ORDER BY priority, id LIMIT :limit FOR UPDATE SKIP LOCKED
          ) same ORDER BY heads.priority, heads.id LIMIT :limit
        ) {_LEASE}
        """
    ).bindparams(
        worker=worker, lane=str(lane), model=model, limit=limit, lease_seconds=lease_seconds
    )


def claim_suspect(worker: UUID, lane: Lane, lease_seconds: float, model: str = "") -> TextClause:
    """One item whose group died with a worker: it is read alone, so that it takes nobody with it."""
    return text(
        f"""
        WITH chosen AS (
          SELECT id FROM items
          WHERE status = 'queued' AND suspect AND lane = :lane AND model = :model
          ORDER BY priority, id LIMIT 1 FOR UPDATE SKIP LOCKED
        ) {_LEASE}
        """
    ).bindparams(worker=worker, lane=str(lane), model=model, lease_seconds=lease_seconds)


def extend(worker: UUID, items: Sequence[int], lease_seconds: float) -> TextClause:
    """Keep the leases of items that are still being read."""
    return text(
        """
        UPDATE items SET lease_until = now() + make_interval(secs => :lease_seconds)
        WHERE id = ANY(:items) AND status = 'leased' AND lease_owner = :worker
        """
    ).bindparams(worker=worker, items=list(items), lease_seconds=lease_seconds)


def give_back(worker: UUID, items: Sequence[int]) -> TextClause:
    """Queue claimed items that were not read, as if they had not been claimed."""
    return text(
        """
        UPDATE items SET status = 'queued', lease_owner = NULL, lease_until = NULL,
          attempt = attempt - 1
        WHERE id = ANY(:items) AND status = 'leased' AND lease_owner = :worker
        """
    ).bindparams(worker=worker, items=list(items))


def complete(
    results: Sequence[Mapping[str, Any]], decisions: Sequence[Mapping[str, Any]]
) -> TextClause:
    """Finish items and store their decisions; returns the ids that were finished.

    `results` rows: id, fence, status (`done` or `failed`), error, input_tokens, output_tokens.
    `decisions` rows: the columns of the table, less what the item knows. An id that is missing in
    what comes back had a newer fence: its result is thrown away, here and by the caller. Each stored
    decision is an event too, if its tenant has an endpoint that asks for it.
    """
    return text(
        f"""
        WITH result AS (
          SELECT * FROM json_to_recordset(CAST(:results AS json)) AS r(
            id bigint, fence bigint, status text, error jsonb,
            input_tokens integer, output_tokens integer)
        ), final AS (
          UPDATE items i SET status = result.status, error = result.error, finished_at = now(),
            lease_owner = NULL, lease_until = NULL
          FROM result
          WHERE i.id = result.id AND i.fence = result.fence AND i.status = 'leased'
          RETURNING i.id, i.tenant_id, i.batch_id, i.status, i.attempt, i.state_hash,
            i.question_set_hash, result.input_tokens, result.output_tokens
        ), stored AS (
          INSERT INTO decisions (tenant_id, batch_id, item_id, attempt, state_hash,
            question_set_hash, question_id, type, answer, answer_index, value, probabilities,
            log_probs, label_ids, label_mass, argmax_token, argmax_is_label, margin, entropy,
            confidence, confidence_formula, prompt_version, prompt_hash, prompt_tokens,
            model_version_id, worker_id, queue_seconds, read_seconds, prefilled_tokens,
            cached_tokens)
          SELECT final.tenant_id, final.batch_id, final.id, final.attempt, final.state_hash,
            final.question_set_hash, d.question_id, d.type, d.answer, d.answer_index, d.value,
            d.probabilities, d.log_probs, d.label_ids, d.label_mass, d.argmax_token,
            d.argmax_is_label, d.margin, d.entropy, d.confidence, d.confidence_formula,
            d.prompt_version, decode(d.prompt_hash, 'hex'), d.prompt_tokens, d.model_version_id,
            d.worker_id, d.queue_seconds, d.read_seconds, d.prefilled_tokens, d.cached_tokens
          FROM json_to_recordset(CAST(:decisions AS json)) AS d(
            item_id bigint, question_id text, type text, answer text, answer_index smallint,
            value float8, probabilities float8[], log_probs float8[], label_ids integer[],
            label_mass float8, argmax_token integer, argmax_is_label boolean, margin float8,
            entropy float8, confidence float8, confidence_formula text, prompt_version text,
            prompt_hash text, prompt_tokens integer, model_version_id integer, worker_id uuid,
            queue_seconds float8, read_seconds float8, prefilled_tokens integer,
            cached_tokens integer)
          JOIN final ON final.id = d.item_id
          ON CONFLICT DO NOTHING
          RETURNING id, tenant_id, batch_id
        ), told_each AS (
          INSERT INTO events (tenant_id, batch_id, decision_id, type)
          SELECT tenant_id, batch_id, id, 'decision.completed' FROM stored
          WHERE tenant_id IN (SELECT tenant_id FROM webhook_endpoints
            WHERE batch_id IS NULL AND disabled_at IS NULL
              AND 'decision.completed' = ANY(events))
          ON CONFLICT DO NOTHING
        ), {SETTLE}
        SELECT id FROM final
        """
    ).bindparams(results=json.dumps(list(results)), decisions=json.dumps(list(decisions)))


def sweep_leases(limit: int = 5000) -> TextClause:
    """Queue items whose lease ran out, alone from now on; those out of attempts are dead.

    Returns the number of items that it moved.
    """
    return text(
        f"""
        WITH late AS (
          SELECT id FROM items WHERE status = 'leased' AND lease_until < now()
          ORDER BY id LIMIT :limit FOR UPDATE SKIP LOCKED
        ), swept AS (
          UPDATE items i SET
            status = CASE WHEN attempt >= :max_attempts THEN 'dead' ELSE 'queued' END,
            finished_at = CASE WHEN attempt >= :max_attempts THEN now() END,
            error = CASE WHEN attempt >= :max_attempts THEN jsonb_build_object(
              'code', 'attempts_exhausted',
              'message', format('its worker died or stalled in each of %s attempts', attempt),
              'param', NULL, 'line', line) END,
            suspect = true, lease_owner = NULL, lease_until = NULL
          FROM late WHERE i.id = late.id
          RETURNING i.id, i.batch_id, i.status
        ), final AS (
          SELECT id, batch_id, status, 0 AS input_tokens, 0 AS output_tokens
          FROM swept WHERE status = 'dead'
        ), {SETTLE}
        SELECT count(*) FROM swept
        """
    ).bindparams(limit=limit, max_attempts=MAX_ATTEMPTS)


def sweep_closed(limit: int = 5000) -> TextClause:
    """Finish queued items of batches that are being cancelled or whose window has ended.

    Returns the number of items that it moved. Items that a worker holds are left to it.
    """
    return text(
        f"""
        WITH closed AS (
          SELECT id, CASE status WHEN 'cancelling' THEN 'cancelled' ELSE 'expired' END AS fate
          FROM batches
          WHERE status IN ('in_progress', 'cancelling')
            AND (status = 'cancelling' OR expires_at < now())
        ), chosen AS (
          SELECT i.id, closed.fate FROM items i JOIN closed ON closed.id = i.batch_id
          WHERE i.status = 'queued' ORDER BY i.id LIMIT :limit FOR UPDATE OF i SKIP LOCKED
        ), final AS (
          UPDATE items i SET status = chosen.fate, finished_at = now()
          FROM chosen WHERE i.id = chosen.id
          RETURNING i.id, i.batch_id, i.status, 0 AS input_tokens, 0 AS output_tokens
        ), {SETTLE}
        SELECT count(*) FROM final
        """
    ).bindparams(limit=limit)


def waiting_lanes() -> TextClause:
    """Lanes that have queued items, so their bell must ring."""
    # In two halves, as the indexes are: each is answered by the first entry of one.
    return text(
        """
        SELECT lane FROM unnest(CAST(:lanes AS text[])) AS lane
        WHERE EXISTS (SELECT FROM items
            WHERE status = 'queued' AND NOT suspect AND items.lane = lane.lane)
          OR EXISTS (SELECT FROM items
            WHERE status = 'queued' AND suspect AND items.lane = lane.lane)
        """
    ).bindparams(lanes=[str(lane) for lane in Lane])


def depth() -> TextClause:
    """Per lane and status: items that are not final, and the age in seconds of the oldest."""
    return text(
        """
        SELECT lane, status, count(*) AS items,
          extract(epoch FROM now() - min(created_at))::float8 AS oldest_seconds
        FROM items WHERE status = 'queued' OR status = 'leased' GROUP BY lane, status
        """
    )
