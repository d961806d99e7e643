"""Deliveries of events to endpoints: hand out, claim, record, send again. Statements only.

There is one delivery per event and endpoint, ever. It is claimed with a lease and a fence, as items are: a
sender that dies loses it, another one makes the next attempt, and only the newest attempt settles it. So
an endpoint may hear the same event twice, always under the same id.
"""

from typing import Any

from sqlalchemy import TextClause, text

from decisions.ids import BATCH, DECISION
from decisions.webhooks import BATCH_EVENTS, SCHEDULE, Delivery, Event, Outcome, Verdict

# What an event's payload says; of its batch, which is final, or of its decision, which never changes.
_DATA = f"""
  CASE
    WHEN d.id IS NOT NULL THEN jsonb_build_object('id', '{DECISION}' || d.id,
      'batch_id', '{BATCH}' || replace(d.batch_id::text, '-', ''), 'custom_id', i.custom_id,
      'question_id', d.question_id, 'type', d.type, 'answer', d.answer, 'value', d.value,
      'confidence', d.confidence, 'label_mass', d.label_mass)
    WHEN b.id IS NOT NULL THEN jsonb_build_object(
      'id', '{BATCH}' || replace(b.id::text, '-', ''), 'status', b.status,
      'counts', jsonb_build_object('total', b.total, 'done', b.done, 'failed', b.failed,
        'dead', b.dead, 'cancelled', b.cancelled, 'expired', b.expired))
    ELSE '{{}}' END || coalesce(e.data, '{{}}')
"""


def something_due() -> TextClause:
    """Whether a sender has anything to do."""
    return text(
        """
        SELECT EXISTS (SELECT FROM events WHERE dispatched_at IS NULL)
          OR EXISTS (SELECT FROM webhook_deliveries WHERE status = 'waiting' AND due_at <= now())
          OR EXISTS (SELECT FROM webhook_deliveries
            WHERE status = 'sending' AND lease_until < now())
        """
    )


def dispatch(limit: int = 5000) -> TextClause:
    """Make the deliveries of new events, and the endpoints of batches that bring their own address.

    Any number may run at once: each event is handed out by one of them.
    """
    # A batch that was accepted by older code may have no secret; its calls are signed all the same.
    return text(
        """
        WITH new AS (
          SELECT id, tenant_id, batch_id, type FROM events WHERE dispatched_at IS NULL
          ORDER BY id LIMIT :limit FOR UPDATE SKIP LOCKED
        ), own AS (
          INSERT INTO webhook_endpoints (tenant_id, batch_id, url, secret, events)
          SELECT DISTINCT ON (b.id) b.tenant_id, b.id, b.webhook->>'url',
            coalesce(b.webhook->>'secret', 'whsec_' || encode(sha256(
              uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())), 'base64')),
            CAST(:batch_events AS text[])
          FROM new JOIN batches b ON b.id = new.batch_id
          WHERE b.webhook->>'url' IS NOT NULL AND new.type = ANY(:batch_events)
          ON CONFLICT (batch_id) DO UPDATE SET batch_id = excluded.batch_id
          RETURNING id, batch_id, events, disabled_at
        ), wanted AS (
          SELECT new.id AS event_id, new.tenant_id, e.id AS endpoint_id
          FROM new JOIN webhook_endpoints e ON e.tenant_id = new.tenant_id
          WHERE e.batch_id IS NULL AND e.disabled_at IS NULL AND new.type = ANY(e.events)
          UNION ALL
          SELECT new.id, new.tenant_id, own.id FROM new JOIN own ON own.batch_id = new.batch_id
          WHERE own.disabled_at IS NULL AND new.type = ANY(own.events)
        ), made AS (
          INSERT INTO webhook_deliveries (tenant_id, event_id, endpoint_id, status, due_at)
          SELECT tenant_id, event_id, endpoint_id, 'waiting', now() FROM wanted
          ORDER BY event_id, endpoint_id
          ON CONFLICT DO NOTHING
        )
        UPDATE events SET dispatched_at = now() FROM new WHERE events.id = new.id
        """
    ).bindparams(limit=limit, batch_events=[str(e) for e in BATCH_EVENTS])


def sweep(limit: int = 5000) -> TextClause:
    """Let deliveries wait again whose sender went silent; those out of attempts have failed."""
    return text(
        """
        WITH late AS (
          SELECT id FROM webhook_deliveries WHERE status = 'sending' AND lease_until < now()
          ORDER BY id LIMIT :limit FOR UPDATE SKIP LOCKED
        )
        UPDATE webhook_deliveries d SET lease_until = NULL,
          status = CASE WHEN tries < :most THEN 'waiting' ELSE 'failed' END,
          due_at = CASE WHEN tries < :most THEN now() END,
          finished_at = CASE WHEN tries < :most THEN NULL ELSE now() END
        FROM late WHERE d.id = late.id
        """
    ).bindparams(limit=limit, most=len(SCHEDULE))


def fail_disabled(limit: int = 5000) -> TextClause:
    """What is due for a disabled endpoint has failed."""
    return text(
        """
        WITH chosen AS (
          SELECT d.id FROM webhook_deliveries d JOIN webhook_endpoints e ON e.id = d.endpoint_id
          WHERE d.status = 'waiting' AND d.due_at <= now() AND e.disabled_at IS NOT NULL
          ORDER BY d.id LIMIT :limit FOR UPDATE OF d SKIP LOCKED
        )
        UPDATE webhook_deliveries d SET status = 'failed', due_at = NULL, finished_at = now()
        FROM chosen WHERE d.id = chosen.id
        """
    ).bindparams(limit=limit)


def claim(limit: int, per_endpoint: int, lease_seconds: float) -> TextClause:
    """Up to `limit` due deliveries, so that about `per_endpoint` of an endpoint are sent at a time.

    The first part steps from one endpoint that has waiting deliveries to the next, in the index.
    """
    return text(
        f"""
        WITH RECURSIVE waiting(id) AS (
          SELECT min(endpoint_id) FROM webhook_deliveries WHERE status = 'waiting'
          UNION ALL
          SELECT (SELECT min(endpoint_id) FROM webhook_deliveries
            WHERE status = 'waiting' AND endpoint_id > waiting.id)
          FROM waiting WHERE waiting.id IS NOT NULL
        ), chosen AS (
          SELECT due.id FROM waiting
          JOIN webhook_endpoints e ON e.id = waiting.id AND e.disabled_at IS NULL
          CROSS JOIN LATERAL (
            SELECT id, due_at FROM webhook_deliveries
            WHERE status = 'waiting' AND endpoint_id = e.id AND due_at <= now()
            ORDER BY due_at, id
            LIMIT greatest(0, :per_endpoint - (SELECT count(*) FROM webhook_deliveries
              WHERE status = 'sending' AND endpoint_id = e.id))
            FOR UPDATE SKIP LOCKED
          ) due ORDER BY due.due_at, due.id LIMIT :limit
        ), claimed AS (
          UPDATE webhook_deliveries w SET status = 'sending', due_at = NULL, tries = tries + 1,
            fence = nextval('fence_seq'), lease_until = now() + make_interval(secs => :lease)
          FROM chosen WHERE w.id = chosen.id
          RETURNING w.id, w.fence, w.tries, w.event_id, w.endpoint_id
        ), noted AS (
          INSERT INTO webhook_attempts (delivery_id, fence) SELECT id, fence FROM claimed
        )
        SELECT claimed.id, claimed.fence, claimed.tries, claimed.endpoint_id, h.url, h.secret,
          CASE WHEN h.previous_secret_until > now() THEN h.previous_secret END AS previous_secret,
          coalesce(extract(epoch FROM now() - h.failing_since), 0)::float8 AS failing_seconds,
          e.id AS event_id, e.type, e.created_at, {_DATA} AS data
        FROM claimed
        JOIN webhook_endpoints h ON h.id = claimed.endpoint_id
        JOIN events e ON e.id = claimed.event_id
        LEFT JOIN batches b ON b.id = e.batch_id
        LEFT JOIN decisions d ON d.id = e.decision_id
        LEFT JOIN items i ON i.id = d.item_id
        """
    ).bindparams(limit=limit, per_endpoint=per_endpoint, lease=lease_seconds)


def delivery_of(row: Any) -> Delivery:
    """From a row of `claim`."""
    return Delivery(
        id=row.id,
        fence=row.fence,
        tries=row.tries,
        endpoint_id=row.endpoint_id,
        url=row.url,
        secrets=tuple(s for s in (row.secret, row.previous_secret) if s is not None),
        failing_seconds=row.failing_seconds,
        event=Event(id=row.event_id, type=row.type, created_at=row.created_at, data=row.data),
    )


def record(delivery: Delivery, outcome: Outcome, verdict: Verdict) -> TextClause:
    """Note an attempt's outcome, and settle its delivery unless another attempt has begun."""
    return text(
        """
        WITH noted AS (
          UPDATE webhook_attempts SET finished_at = now(), status_code = :status_code,
            milliseconds = :milliseconds, response_body = :response_body, error = :error
          WHERE delivery_id = :id AND fence = :fence
        ), health AS (
          UPDATE webhook_endpoints SET
            failing_since = CASE WHEN :ok THEN NULL ELSE coalesce(failing_since, now()) END,
            disabled_reason = coalesce(disabled_reason, :disable),
            disabled_at = CASE WHEN CAST(:disable AS text) IS NULL THEN disabled_at
              ELSE coalesce(disabled_at, now()) END
          WHERE id = :endpoint_id AND (:ok <> (failing_since IS NULL)
            OR CAST(:disable AS text) IS NOT NULL AND disabled_at IS NULL)
        )
        UPDATE webhook_deliveries SET status = :status, lease_until = NULL,
          due_at = CASE WHEN :status = 'waiting' THEN now() + make_interval(secs => :delay) END,
          finished_at = CASE WHEN :status <> 'waiting' THEN now() END
        WHERE id = :id AND fence = :fence AND status = 'sending'
        """
    ).bindparams(
        id=delivery.id,
        fence=delivery.fence,
        endpoint_id=delivery.endpoint_id,
        ok=outcome.ok,
        status_code=outcome.status_code,
        milliseconds=outcome.milliseconds,
        response_body=outcome.response_body,
        error=outcome.error,
        status=str(verdict.status),
        delay=verdict.delay,
        disable=verdict.disable,
    )
