"""The schema: what the migrations build is what the tables say, and the constraints refuse what breaks a promise."""

import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import inspect
from sqlalchemy.exc import IntegrityError

from decisions.database import is_current, migrate, normal_url, sync_engine, transaction
from decisions.tables import metadata
from tests.decisions.store import Store, bad_item, item

ROOT = Path(__file__).parents[2]


def alembic(url: str) -> Config:
    config = Config()
    config.set_main_option("script_location", str(ROOT / "migrations"))
    config.attributes["url"] = normal_url(url)
    return config


def tables_of(url: str) -> set[str]:
    engine = sync_engine(url)
    try:
        return set(inspect(engine).get_table_names()) - {"alembic_version"}
    finally:
        engine.dispose()


def test_the_migrations_build_exactly_the_tables(database_url: str) -> None:
    command.check(alembic(database_url))


def test_the_migrations_go_up_down_and_up_again(empty_database_url: str) -> None:
    migrate(empty_database_url)
    assert tables_of(empty_database_url) == {table.name for table in metadata.sorted_tables}
    command.downgrade(alembic(empty_database_url), "base")
    assert tables_of(empty_database_url) == set()
    migrate(empty_database_url)
    command.check(alembic(empty_database_url))


def test_migrating_a_migrated_database_changes_nothing(database_url: str) -> None:
    before = tables_of(database_url)
    migrate(database_url)
    assert tables_of(database_url) == before


def test_processes_that_migrate_at_once_take_turns(empty_database_url: str) -> None:
    code = "import sys; from decisions.database import migrate; migrate(sys.argv[1])"
    processes = [
        subprocess.Popen([sys.executable, "-c", code, empty_database_url], cwd=ROOT)
        for _ in range(2)
    ]
    assert [process.wait(60) for process in processes] == [0, 0]
    command.check(alembic(empty_database_url))


def test_a_schema_is_current_only_at_the_newest_migration(empty_database_url: str) -> None:
    engine = sync_engine(empty_database_url)
    try:
        with transaction(engine) as connection:
            assert not is_current(connection)
        migrate(empty_database_url, "0001")
        with transaction(engine) as connection:
            assert not is_current(connection)
        migrate(empty_database_url)
        with transaction(engine) as connection:
            assert is_current(connection)
    finally:
        engine.dispose()


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_every_usual_spelling_of_a_database_url_names_the_driver_we_ship(scheme: str) -> None:
    url = normal_url(f"{scheme}://u:p%40ss@host:5433/name")
    assert url.drivername == "postgresql+psycopg"
    assert (url.password, url.port, url.database) == ("p@ss", 5433, "name")


def refused(store: Store, statement: str, **values: Any) -> str:
    """The name of the constraint that refuses it."""
    with pytest.raises(IntegrityError) as error:
        store.run(statement, **values)
    name: str = getattr(error.value.orig, "diag").constraint_name  # noqa: B009
    return name


ITEMS = {
    "SET status = 'lost', finished_at = now()": "ck_items_status",
    "SET lane = 'fast'": "ck_items_lane",
    "SET status = 'leased'": "ck_items_lease",
    "SET lease_until = now(), lease_owner = gen_random_uuid()": "ck_items_lease",
    "SET status = 'leased', lease_until = now()": "ck_items_lease",
    "SET status = 'done'": "ck_items_final_when_finished",
    "SET finished_at = now()": "ck_items_final_when_finished",
    "SET status = 'failed', finished_at = now()": "ck_items_error",
    "SET error = '{}'": "ck_items_error",
    "SET custom_id = NULL": "ck_items_readable",
    "SET state_hash = NULL": "ck_items_readable",
    "SET state_hash = 'x'": "fk_items_tenant_id_state_hash",
    "SET line = 2": "uq_items_batch_id_line",
}


@pytest.mark.parametrize(("change", "constraint"), ITEMS.items())
def test_items_keep_to_their_states(store: Store, change: str, constraint: str) -> None:
    store.batch("a", "b")
    assert refused(store, f"UPDATE items {change} WHERE line = 1") == constraint


BATCHES = {
    "SET status = 'validating'": "ck_batches_status",
    "SET lane = 'fast'": "ck_batches_lane",
    "SET done = -1": "ck_batches_counts",
    "SET done = 2, failed = 1": "ck_batches_counts",
    "SET done = 2": "ck_batches_terminal_when_all_final",
    "SET status = 'completed', completed_at = now()": "ck_batches_terminal_when_all_final",
    "SET status = 'completed', done = 2": "ck_batches_terminal_time",
    "SET failed_at = now()": "ck_batches_terminal_time",
}


@pytest.mark.parametrize(("change", "constraint"), BATCHES.items())
def test_batches_keep_to_their_states(store: Store, change: str, constraint: str) -> None:
    store.batch("a", "b")
    assert refused(store, f"UPDATE batches {change}") == constraint


DECISIONS = {
    "SET label_mass = 'NaN'": "ck_decisions_label_mass",
    "SET label_mass = 1.0000001": "ck_decisions_label_mass",
    "SET label_mass = -0.1": "ck_decisions_label_mass",
    "SET confidence = 'NaN'": "ck_decisions_confidence",
    "SET confidence = 'Infinity'": "ck_decisions_confidence",
    "SET margin = 'NaN'": "ck_decisions_margin",
    "SET probabilities[1] = 'NaN'": "ck_decisions_probabilities",
    "SET probabilities[1] = 1.1": "ck_decisions_probabilities",
    "SET log_probs = '{0}'": "ck_decisions_lengths",
    "SET label_ids = '{1}'": "ck_decisions_lengths",
    "SET answer_index = -1": "ck_decisions_lengths",
    "SET answer_index = 9": "ck_decisions_lengths",
    "SET type = 'essay'": "ck_decisions_type",
    "SET confidence_formula = 'feeling'": "ck_decisions_confidence_formula",
    "SET question_id = 'q'": "uq_decisions_item_id_question_id",
}


@pytest.mark.parametrize(("change", "constraint"), DECISIONS.items())
def test_decisions_keep_their_numbers_within_bounds(
    store: Store, change: str, constraint: str
) -> None:
    store.batch("a")
    worker = store.worker()
    worker.complete(worker.claim())
    assert refused(store, f"UPDATE decisions {change}") == constraint


OTHERS = {
    "UPDATE states SET content = NULL": "ck_states_purged",
    "UPDATE states SET purged_at = now()": "ck_states_purged",
    "DELETE FROM states": "fk_items_tenant_id_state_hash",
    "DELETE FROM question_sets": "fk_items_tenant_id_question_set_hash",
    "INSERT INTO tenants (name) VALUES ('acme')": "uq_tenants_name",
    "INSERT INTO api_keys (tenant_id, name, prefix, hash) VALUES (1, 'k', 'wb_', 'short')": (
        "ck_api_keys_hash_is_sha256"
    ),
}


@pytest.mark.parametrize(("statement", "constraint"), OTHERS.items())
def test_what_other_rows_rely_on_is_kept(store: Store, statement: str, constraint: str) -> None:
    store.batch("a")
    assert refused(store, statement) == constraint


def test_a_batch_has_one_event_of_a_type(store: Store) -> None:
    batch_id = store.submit([bad_item(1)]).batch_id
    with pytest.raises(IntegrityError):
        store.run(
            "INSERT INTO events (tenant_id, batch_id, type) VALUES (:tenant, :id, 'batch.failed')",
            tenant=store.tenant,
            id=batch_id,
        )


def test_a_removed_batch_takes_along_all_but_the_texts(store: Store) -> None:
    store.submit([item(1), bad_item(2)], idempotency_key="k")
    worker = store.worker()
    worker.complete(worker.claim())
    store.run("DELETE FROM batches")
    for table in ("items", "decisions", "events", "idempotency_keys"):
        assert store.count(table) == 0
    assert store.count("states") == 1


def test_an_event_needs_its_batch(store: Store) -> None:
    statement = "INSERT INTO events (tenant_id, batch_id, type) VALUES (1, :id, 'batch.failed')"
    assert refused(store, statement, id=uuid4()) == "fk_events_batch_id"
