"""`weighbridge truth`: say what the right answers are, from a file, over HTTP."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from cli.client import Client, find_address
from cli.output import JsonOption, KeyOption, UrlOption, notes, print_json, reporting

#: Line errors that are printed.
_SHOWN = 20


def truth(
    source: Annotated[
        str, typer.Argument(help="CSV or JSON Lines; - reads stdin.", metavar="FILE")
    ],
    batch: Annotated[
        str | None, typer.Option("--batch", help="The batch whose custom_ids the file names.")
    ] = None,
    question: Annotated[
        str | None, typer.Option("--question", help="The question of lines that name none.")
    ] = None,
    who: Annotated[
        str, typer.Option("--source", help="Who says so, for lines that do not tell.")
    ] = "cli",
    csv: Annotated[
        bool, typer.Option("--csv", help="Read CSV, whatever the file is called.")
    ] = False,
    url: UrlOption = None,
    api_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what the right answers are. The newest word is in force, and all are kept.

    A line, or a row under a header, has an answer, and names its decision by decision_id, or by custom_id
    and question; it may have a source and a time. A bad line fails alone, and makes the exit code 1.

    weighbridge truth corrections.csv --batch batch_0192… --source dana
    """
    with reporting(as_json), Client(find_address(url, api_key, os.environ)) as client:
        content = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        as_csv = csv or source.endswith(".csv")
        params = {"batch_id": batch, "question": question, "source": who}
        said = {name: value for name, value in params.items() if value is not None}
        media_type = "text/csv" if as_csv else "application/jsonl"
        imported = client.send("/v1/truth", content, media_type, **said)
    if as_json:
        print_json(imported)
    else:
        notes.print("{stored} stored, {repeated} repeated, {failed} failed".format_map(imported))
        for error in imported["errors"]["data"][:_SHOWN]:
            notes.print(f"line {error['line']}: {error['message']}", markup=False)
    if imported["failed"]:
        raise typer.Exit(1)
