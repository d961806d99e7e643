"""Runs migrations on the URL in the config's attributes, or in DATABASE_URL when Alembic is called by hand."""

import os

from alembic import context
from sqlalchemy import create_engine, pool, text

from decisions.database import normal_url
from decisions.tables import metadata

#: Any number, the same in every process: two that migrate at once take turns.
ADVISORY_LOCK = 0x5745_4947


def run() -> None:
    url = context.config.attributes.get("url") or normal_url(os.environ["DATABASE_URL"])
    engine = create_engine(url, poolclass=pool.NullPool)
    with engine.connect() as connection:
        context.configure(
            connection=connection, target_metadata=metadata, compare_server_default=True
        )
        with context.begin_transaction():
            connection.execute(text("SET LOCAL lock_timeout = '10s'"))
            connection.execute(text(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK})"))
            context.run_migrations()
    engine.dispose()


run()
