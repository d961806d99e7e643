from datetime import timedelta
from hashlib import sha256
from uuid import UUID

import pytest
from sqlalchemy.exc import IntegrityError

from decisions import files
from decisions.database import transaction
from decisions.ids import new_uuid
from tests.decisions.store import Store


def upload(store: Store, *chunks: bytes, lifetime: timedelta | None = None) -> UUID:
    id_, content = new_uuid(), b"".join(chunks)
    with transaction(store.engine) as connection:
        connection.execute(files.start(id_, store.tenant, "items.jsonl", "batch", lifetime))
        for ordinal, chunk in enumerate(chunks):
            connection.execute(files.append(id_, ordinal, chunk))
        connection.execute(files.finish(id_, len(content), sha256(content).digest()))
    return id_


def found(store: Store, id_: UUID, tenant: int | None = None) -> bool:
    with transaction(store.engine) as connection:
        query = files.get(store.tenant if tenant is None else tenant, id_)
        return connection.execute(query).first() is not None


def test_a_file_comes_back_chunk_by_chunk(store: Store) -> None:
    id_ = upload(store, b"\x00\xff\n", b"two")
    with transaction(store.engine) as connection:
        row = connection.execute(files.get(store.tenant, id_)).one()
        chunks = [connection.execute(files.chunk(id_, n)).scalar() for n in range(3)]
    assert chunks == [b"\x00\xff\n", b"two", None]
    assert (row.bytes, row.sha256) == (6, sha256(b"\x00\xff\ntwo").digest())
    assert (row.filename, row.purpose, row.expires_at) == ("items.jsonl", "batch", None)


def test_a_file_is_not_there_for_another_tenant_or_after_its_time(store: Store) -> None:
    id_ = upload(store, b"x", lifetime=timedelta(hours=1))
    assert found(store, id_)
    assert not found(store, id_, tenant=store.tenant + 1)
    store.run("UPDATE files SET expires_at = now() - interval '1 s'")
    assert not found(store, id_)
    with transaction(store.engine) as connection:
        assert connection.execute(files.page(store.tenant, None, 10)).all() == []


def test_files_are_listed_newest_first_page_by_page(store: Store) -> None:
    newest_first = sorted((upload(store, b"x") for _ in range(5)), reverse=True)
    listed: list[UUID] = []
    with transaction(store.engine) as connection:
        while page := connection.execute(
            files.page(store.tenant, listed[-1] if listed else None, 2)
        ).all():
            listed += [row.id for row in page]
    assert listed == newest_first


def test_a_removed_file_takes_its_chunks_along_and_leaves_its_batches(store: Store) -> None:
    id_ = upload(store, b"x", b"y")
    batch_id = store.batch("a", input_file_id=id_)
    with transaction(store.engine) as connection:
        connection.execute(files.remove(store.tenant + 1, id_))
    assert found(store, id_)
    with transaction(store.engine) as connection:
        connection.execute(files.remove(store.tenant, id_))
    assert not found(store, id_)
    assert store.count("file_chunks") == 0
    assert store.row(batch_id)["input_file_id"] is None


def test_a_batch_of_a_file_that_is_not_there_is_refused(store: Store) -> None:
    with pytest.raises(IntegrityError):
        store.batch("a", input_file_id=new_uuid())
