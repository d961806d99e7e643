"""How commands talk: words and tables for people on stderr and stdout, one JSON line for programs."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console

from cli.client import ApiError
from cli.processes import ProcessError

#: Progress and notes; results go to stdout.
notes = Console(stderr=True, highlight=False)
out = Console(highlight=False)

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON line for programs.")]
UrlOption = Annotated[
    str | None, typer.Option("--url", help="Address of the API.", envvar="WEIGHBRIDGE_URL")
]
KeyOption = Annotated[
    str | None, typer.Option("--api-key", help="Its bearer key.", envvar="WEIGHBRIDGE_API_KEY")
]


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
    sys.stdout.flush()


@contextmanager
def reporting(as_json: bool) -> Iterator[None]:
    """What goes wrong inside is one line of words (or JSON) and exit code 1, never a traceback."""
    try:
        yield
    except (ApiError, ProcessError, OSError, ValueError) as error:
        if as_json:
            body = getattr(error, "body", None)
            print_json(
                {"error": str(error), "status": getattr(error, "status", None), "body": body}
            )
        else:
            notes.print("[bold red]error:[/]", end=" ")
            notes.print(str(error), markup=False)
        raise typer.Exit(1) from None
