"""`weighbridge up`: everything on this machine, until Ctrl-C."""

import logging
import os
import sys
from typing import Annotated

import typer

from cli.output import JsonOption, notes, print_json, reporting
from cli.paths import find_home
from cli.stack import Stack, start_stack
from cli.supervisor import Supervisor, ending_on_signals


def up(
    port: Annotated[int, typer.Option(help="Port of the API; 0 takes a free one.")] = 8000,
    logs: Annotated[bool, typer.Option(help="Show the logs of all processes here.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Run Weighbridge here: Postgres, Valkey, API and worker, until Ctrl-C.

    Uses DATABASE_URL and REDIS_URL where they are set, and starts real servers of its own where they
    are not. Data lives in WEIGHBRIDGE_HOME. The model is WEIGHBRIDGE_MODEL: "default", a hub id, or a
    folder.
    """
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    home = find_home(os.environ)
    with (
        reporting(as_json),
        ending_on_signals(),
        Supervisor(echo=sys.stderr if logs else None) as supervisor,
    ):
        stack = start_stack(supervisor, home, os.environ, port=port, say=_say)
        if as_json:
            print_json({"url": stack.address.url, "home": str(home.path)})
        else:
            _greet(stack, str(home.path))
        try:
            supervisor.run()
        except KeyboardInterrupt:
            _say("Stopping")


def _say(step: str) -> None:
    notes.print(f"[dim]{step} …[/]")


def _greet(stack: Stack, home: str) -> None:
    notes.print(f"\n[bold]Weighbridge is up[/] at {stack.address.url}")
    notes.print(f"  API reference  {stack.address.url}/docs")
    notes.print(f"  Metrics        {stack.address.url}/metrics")
    notes.print(f"  API key        {home}/api-key (this machine's commands find it themselves)")
    notes.print("  Try            weighbridge submit tickets.jsonl --questions triage.yaml --wait")
    notes.print("  Stop           Ctrl-C\n")
