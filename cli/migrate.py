"""`weighbridge migrate`: bring a database's schema up to date."""

from typing import Annotated

import typer

from cli.output import JsonOption, notes, print_json, reporting
from decisions import database


def migrate(
    database_url: Annotated[
        str | None, typer.Option(help="The database.", envvar="DATABASE_URL")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Bring the schema of DATABASE_URL up to date. Safe to run twice, and by two at once.

    `weighbridge up` does this for its own database.
    """
    with reporting(as_json):
        if not database_url:
            raise ValueError("DATABASE_URL is not set, so there is no database to migrate")
        database.migrate(database_url)
    if as_json:
        print_json({"migrated": True})
    else:
        notes.print("The schema is up to date.")
