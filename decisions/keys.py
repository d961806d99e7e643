"""Tenants and their API keys. A key is shown once, when it is made; the store keeps its SHA-256."""

import secrets
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from typing import Any

from sqlalchemy import Select, Update, func, select, true, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.sql.dml import ReturningInsert

from decisions.tables import api_keys, tenants

#: Work that needs no key belongs to it: embedded use, and servers whose authentication is off.
DEFAULT_TENANT = "default"


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was just made."""

    secret: str = field(repr=False)

    @property
    def prefix(self) -> str:
        return self.secret[:10]

    @property
    def hash(self) -> bytes:
        return key_hash(self.secret)


def new_key() -> NewKey:
    """256 random bits, so that a plain hash is enough to keep it."""
    return NewKey("wb_" + secrets.token_urlsafe(32))


def key_hash(secret: str) -> bytes:
    return sha256(secret.encode()).digest()


def find_tenant(name: str) -> Select[int]:
    return select(tenants.c.id).where(tenants.c.name == name)


def ensure_tenant(name: str) -> ReturningInsert[int]:
    """Returns the id of the tenant of this name, new or known."""
    statement = insert(tenants).values(name=name)
    return statement.on_conflict_do_update(
        index_elements=["name"], set_={"name": statement.excluded.name}
    ).returning(tenants.c.id)


def store(tenant_id: int, name: str, key: NewKey) -> ReturningInsert[int]:
    return (
        insert(api_keys)
        .values(tenant_id=tenant_id, name=name, prefix=key.prefix, hash=key.hash)
        .returning(api_keys.c.id)
    )


def find(secret: str) -> Select[int, int, bool]:
    """(key id, tenant id, whether its use is to be noted) of a key that is in force."""
    return select(
        api_keys.c.id,
        api_keys.c.tenant_id,
        (func.coalesce(api_keys.c.last_used_at < func.now() - timedelta(minutes=1), true())).label(
            "unnoted"
        ),
    ).where(api_keys.c.hash == key_hash(secret), api_keys.c.revoked_at.is_(None))


def used(key_id: int) -> Update:
    """At most one write a minute and key: two who note it at once write once."""
    return (
        update(api_keys)
        .where(
            api_keys.c.id == key_id,
            api_keys.c.last_used_at.is_(None)
            | (api_keys.c.last_used_at < func.now() - timedelta(minutes=1)),
        )
        .values(last_used_at=func.now())
    )


def listing() -> Select[Any]:
    return (
        select(
            api_keys.c.id,
            tenants.c.name.label("tenant"),
            api_keys.c.name,
            api_keys.c.prefix,
            api_keys.c.created_at,
            api_keys.c.last_used_at,
            api_keys.c.revoked_at,
        )
        .join(tenants, tenants.c.id == api_keys.c.tenant_id)
        .order_by(api_keys.c.id)
    )


def revoke(key_id: int) -> Update:
    """Returns the id when there was such a key in force."""
    return (
        update(api_keys)
        .where(api_keys.c.id == key_id, api_keys.c.revoked_at.is_(None))
        .values(revoked_at=func.now())
        .returning(api_keys.c.id)
    )
