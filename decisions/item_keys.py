"""Idempotency keys of single items: who sends an item again under its key is led to the first one.

They share the table of the keys of whole batches. An item is found through its batch and custom_id, so
a batch whose items have keys must not hold a custom_id twice.
"""

from collections.abc import Mapping
from hashlib import sha256
from uuid import UUID

from sqlalchemy import Select, TextClause, select, text

from decisions.bodies import Body
from decisions.tables import items
from decisions.types import Submission

#: Characters of a key.
MAX_KEY = 200

_PREFIX = "item:"


def stored(key: str) -> str:
    return _PREFIX + key


def request_hash(custom_id: str, body: Body) -> bytes:
    """Equal for items that ask the same under the same name."""
    hashed = sha256(body.state_hash + body.question_set_hash)
    hashed.update(custom_id.encode())
    return hashed.digest()


def take(batch_id: UUID, submission: Submission) -> TextClause:
    """Returns a row for each key that was free; waits for submissions under way that hold one of them."""
    # In the order of the keys, so that two of those cannot wait for each other.
    keys = sorted(submission.item_keys)
    return text(
        """
        INSERT INTO idempotency_keys (tenant_id, key, request_hash, batch_id)
        SELECT :tenant_id, key, request_hash, :batch_id
        FROM unnest(CAST(:keys AS text[]), CAST(:hashes AS bytea[])) AS new(key, request_hash)
        ON CONFLICT DO NOTHING RETURNING key
        """
    ).bindparams(
        tenant_id=submission.tenant_id,
        batch_id=batch_id,
        keys=[stored(key) for key in keys],
        hashes=[submission.item_keys[key] for key in keys],
    )


def find(tenant_id: int, custom_ids: Mapping[str, str]) -> TextClause:
    """(key, request_hash, id) of the items that were submitted under these keys; key -> custom_id.

    The id is null when the item under that key has another custom_id.
    """
    return text(
        """
        SELECT substr(k.key, :skipped) AS key, k.request_hash, i.id
        FROM unnest(CAST(:keys AS text[]), CAST(:custom_ids AS text[])) AS asked(key, custom_id)
        JOIN idempotency_keys k ON k.tenant_id = :tenant_id AND k.key = asked.key
        LEFT JOIN items i ON i.batch_id = k.batch_id AND i.custom_id = asked.custom_id
        """
    ).bindparams(
        tenant_id=tenant_id,
        skipped=len(_PREFIX) + 1,
        keys=[stored(key) for key in custom_ids],
        custom_ids=list(custom_ids.values()),
    )


def of_batch(batch_id: UUID) -> Select[int, int]:
    """(id, line) of its items."""
    return select(items.c.id, items.c.line).where(items.c.batch_id == batch_id)
