"""`weighbridge keys`: API keys, in the database itself, since the first key cannot come over the API."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.table import Table
from sqlalchemy import Connection

from cli.output import JsonOption, notes, out, print_json, reporting
from decisions import keys
from decisions.database import sync_engine, transaction

app = typer.Typer(help="Make, list and revoke API keys.", no_args_is_help=True)

DatabaseOption = Annotated[
    str | None, typer.Option("--database-url", help="The database.", envvar="DATABASE_URL")
]


@contextmanager
def _database(url: str | None, as_json: bool) -> Iterator[Connection]:
    with reporting(as_json):
        if not url:
            raise ValueError("DATABASE_URL is not set; `weighbridge up` makes its own key")
        engine = sync_engine(url)
        with transaction(engine) as connection:
            yield connection
        engine.dispose()


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="What the key is for.")],
    tenant: Annotated[str, typer.Option(help="Whose it is; made if new.")] = keys.DEFAULT_TENANT,
    database_url: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a key and print it, this once: only its hash is stored."""
    key = keys.new_key()
    with _database(database_url, as_json) as connection:
        tenant_id = connection.execute(keys.ensure_tenant(tenant)).scalar_one()
        key_id = connection.execute(keys.store(tenant_id, name, key)).scalar_one()
    if as_json:
        print_json({"id": key_id, "tenant": tenant, "name": name, "key": key.secret})
        return
    notes.print(f"Key {key_id} of tenant {tenant}. Keep it now, it is not shown again:")
    out.print(key.secret)


@app.command("list")
def list_(database_url: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """List keys by their first characters."""
    with _database(database_url, as_json) as connection:
        rows = connection.execute(keys.listing()).mappings().all()
    if as_json:
        print_json([{name: _plain(value) for name, value in row.items()} for row in rows])
        return
    table = Table("id", "tenant", "name", "key", "created", "last used", "revoked", box=None)
    for row in rows:
        cells = [row[n] for n in ("id", "tenant", "name", "prefix")]
        times = [row[n] for n in ("created_at", "last_used_at", "revoked_at")]
        table.add_row(*map(str, cells), *(f"{t:%Y-%m-%d %H:%M}" if t else "" for t in times))
    out.print(table)


@app.command()
def revoke(
    key_id: Annotated[int, typer.Argument(help="As `keys list` shows it.", metavar="ID")],
    database_url: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """End a key at once."""
    with _database(database_url, as_json) as connection:
        if connection.execute(keys.revoke(key_id)).first() is None:
            raise ValueError(f"there is no key {key_id} in force")
    if as_json:
        print_json({"revoked": key_id})
    else:
        notes.print(f"Key {key_id} is revoked.")


def _plain(value: object) -> object:
    return value if isinstance(value, int | str | None) else str(value)
