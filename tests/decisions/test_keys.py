from typing import Any

from sqlalchemy import Executable, Row

from decisions import keys
from decisions.database import transaction
from tests.decisions.store import Store


def run(store: Store, statement: Executable) -> list[Row[Any]]:
    with transaction(store.engine) as connection:
        result = connection.execute(statement)
        return list(result.all()) if result.returns_rows else []


def test_a_key_is_found_by_its_secret_alone_and_the_secret_is_not_stored(store: Store) -> None:
    key = keys.new_key()
    ((key_id,),) = run(store, keys.store(store.tenant, "laptop", key))
    assert run(store, keys.find(key.secret)) == [(key_id, store.tenant, True)]
    assert run(store, keys.find(key.secret + "x")) == []
    assert run(store, keys.find(key.prefix)) == []
    (stored,) = store.rows("SELECT * FROM api_keys")
    assert key.secret not in map(str, stored.values())
    assert key.secret.startswith(stored["prefix"])


def test_no_two_keys_are_alike() -> None:
    assert len({keys.new_key().secret for _ in range(100)}) == 100
    assert all(keys.new_key().secret.startswith("wb_") for _ in range(3))


def test_a_new_key_that_is_logged_by_mistake_keeps_its_secret() -> None:
    key = keys.new_key()
    assert key.secret not in repr(key)


def test_a_revoked_key_opens_nothing_and_is_revoked_once(store: Store) -> None:
    key, other = keys.new_key(), keys.new_key()
    ((key_id,),) = run(store, keys.store(store.tenant, "old", key))
    run(store, keys.store(store.tenant, "new", other))
    assert run(store, keys.revoke(key_id)) == [(key_id,)]
    assert run(store, keys.revoke(key_id)) == []
    assert run(store, keys.find(key.secret)) == []
    assert len(run(store, keys.find(other.secret))) == 1


def test_the_last_use_of_a_key_is_written_at_most_once_a_minute(store: Store) -> None:
    ((key_id,),) = run(store, keys.store(store.tenant, "k", keys.new_key()))
    run(store, keys.used(key_id))
    (first,) = store.rows("SELECT last_used_at FROM api_keys")
    run(store, keys.used(key_id))
    assert store.rows("SELECT last_used_at FROM api_keys") == [first]
    store.run("UPDATE api_keys SET last_used_at = last_used_at - interval '61 s'")
    run(store, keys.used(key_id))
    assert (
        store.rows("SELECT last_used_at FROM api_keys")[0]["last_used_at"] >= first["last_used_at"]
    )


def test_a_tenant_is_made_once_per_name(store: Store) -> None:
    first = run(store, keys.ensure_tenant("globex"))
    assert run(store, keys.ensure_tenant("globex")) == first
    assert run(store, keys.find_tenant("globex")) == first
    assert run(store, keys.find_tenant("nobody")) == []
    assert store.count("tenants") == 2


def test_the_list_of_keys_names_their_tenants_and_shows_no_secret(store: Store) -> None:
    key = keys.new_key()
    run(store, keys.store(store.tenant, "laptop", key))
    (row,) = run(store, keys.listing())
    assert (row.tenant, row.name, row.prefix, row.revoked_at) == (
        "acme",
        "laptop",
        key.prefix,
        None,
    )
    assert key.secret not in map(str, row)
