"""One item as a batch of its own, in one statement: what a synchronous call submits.

The same rows as `decisions.submit` writes for one item, in one trip instead of a dozen. Without an
idempotency key, so that nothing has to be looked at before something is written.
"""

from uuid import UUID

from sqlalchemy import TextClause, text

from decisions.bodies import Body
from decisions.types import Submission


def submit_single(batch_id: UUID, submission: Submission, custom_id: str, body: Body) -> TextClause:
    return text(
        """
        WITH question_set AS (
          INSERT INTO question_sets (tenant_id, hash, content)
          VALUES (:tenant_id, :question_set_hash, CAST(:question_set AS json))
          ON CONFLICT (tenant_id, hash) DO NOTHING
        ), state AS (
          INSERT INTO states (tenant_id, hash, content) VALUES (:tenant_id, :state_hash, :state)
          ON CONFLICT (tenant_id, hash) DO UPDATE SET content = excluded.content, purged_at = NULL
          WHERE states.content IS NULL
        ), batch AS (
          INSERT INTO batches (id, tenant_id, status, lane, endpoint, model, completion_window,
            expires_at, total)
          VALUES (:batch_id, :tenant_id, 'in_progress', :lane, :endpoint, :model,
            :completion_window, now() + :expires_in, 1)
        ), step AS (
          INSERT INTO steps (tenant_id, batch_id, status, total, done, failed, dead, cancelled,
            expired, item_ids)
          VALUES (:tenant_id, :batch_id, 'in_progress', 1, 0, 0, 0, 0, 0, '{}')
        )
        INSERT INTO items (tenant_id, batch_id, line, custom_id, state_hash, question_set_hash,
          lane, model, priority, status)
        VALUES (:tenant_id, :batch_id, 1, :custom_id, :state_hash, :question_set_hash,
          :lane, :reader, :priority, 'queued')
        """
    ).bindparams(
        tenant_id=submission.tenant_id,
        batch_id=batch_id,
        custom_id=custom_id,
        question_set=body.question_set,
        question_set_hash=body.question_set_hash,
        state=body.state,
        state_hash=body.state_hash,
        lane=str(submission.lane),
        endpoint=submission.endpoint,
        model=submission.model,
        reader=submission.reader,
        completion_window=submission.completion_window,
        expires_in=submission.expires_in,
        priority=submission.priority,
    )
