"""States and question sets, kept once per tenant and content hash.

They are written before the batch that needs them, in transactions of their own: two clients that
send the same states at the same time must neither wait for each other's upload nor deadlock.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Select, TextClause, select, text, tuple_

from decisions.tables import question_sets, states


def store_states(tenant_id: int, contents: Mapping[bytes, str]) -> TextClause:
    """Insert what is not there yet, and bring back what was purged; hash -> JSON text."""
    hashes = sorted(contents)
    return text(
        """
        INSERT INTO states (tenant_id, hash, content)
        SELECT :tenant_id, hash, content
        FROM unnest(CAST(:hashes AS bytea[]), CAST(:contents AS text[])) AS new(hash, content)
        ON CONFLICT (tenant_id, hash) DO UPDATE SET content = excluded.content, purged_at = NULL
        WHERE states.content IS NULL
        """
    ).bindparams(tenant_id=tenant_id, hashes=hashes, contents=[contents[h] for h in hashes])


def store_question_sets(tenant_id: int, contents: Mapping[bytes, str]) -> TextClause:
    hashes = sorted(contents)
    return text(
        """
        INSERT INTO question_sets (tenant_id, hash, content)
        SELECT :tenant_id, hash, CAST(content AS json)
        FROM unnest(CAST(:hashes AS bytea[]), CAST(:contents AS text[])) AS new(hash, content)
        ON CONFLICT (tenant_id, hash) DO NOTHING
        """
    ).bindparams(tenant_id=tenant_id, hashes=hashes, contents=[contents[h] for h in hashes])


def load_states(keys: Sequence[tuple[int, bytes]]) -> Select[int, bytes, str | None]:
    """(tenant_id, hash, content) for each key; content is None once purged."""
    return select(states.c.tenant_id, states.c.hash, states.c.content).where(
        tuple_(states.c.tenant_id, states.c.hash).in_(keys)
    )


def load_question_sets(keys: Sequence[tuple[int, bytes]]) -> Select[int, bytes, Any]:
    return select(question_sets.c.tenant_id, question_sets.c.hash, question_sets.c.content).where(
        tuple_(question_sets.c.tenant_id, question_sets.c.hash).in_(keys)
    )
