"""`weighbridge schedules run` and `report`: a run at once, and what a run found."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from cli.client import Client, find_address
from cli.output import JsonOption, KeyOption, UrlOption, print_json, reporting
from cli.schedule_tables import print_flips, print_report, print_run

ScheduleArgument = Annotated[
    str, typer.Argument(help="Its id, such as sched_0192…", metavar="SCHEDULE")
]

_ENDED = {"compared", "empty", "failed"}
_POLL_SECONDS = 0.5


@contextmanager
def connected(url: str | None, api_key: str | None, as_json: bool) -> Iterator[Client]:
    with reporting(as_json), Client(find_address(url, api_key, os.environ)) as client:
        yield client


def run(
    schedule: ScheduleArgument,
    wait: Annotated[bool, typer.Option("--wait", help="Wait, then show the report.")] = False,
    url: UrlOption = None,
    api_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run it now. With --wait the exit code is 1 unless the verdict is promote."""
    with connected(url, api_key, as_json) as client:
        asked = client.post(f"/v1/schedules/{schedule}/runs")
        if not wait:
            _print_run(asked, as_json)
            return
        path = f"/v1/schedules/{schedule}/runs/{asked['id']}"
        while asked["status"] not in _ENDED:
            time.sleep(_POLL_SECONDS)
            asked = client.get(path)
        _print_report(client.get(f"{path}/report"), as_json)
    if asked["verdict"] != "promote":
        raise typer.Exit(1)


def report(
    schedule: ScheduleArgument,
    run_id: Annotated[
        str | None,
        typer.Argument(help="Its id; without one, the newest that has a report.", metavar="RUN"),
    ] = None,
    flips: Annotated[
        int, typer.Option(help="How many changed answers to show besides.", min=0, max=1000)
    ] = 0,
    url: UrlOption = None,
    api_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a run found: agreement, drift, truth, and the verdict."""
    with connected(url, api_key, as_json) as client:
        path = f"/v1/schedules/{schedule}/runs"
        chosen = run_id or _newest(client.get(path, limit=100)["data"])
        found = client.get(f"{path}/{chosen}/report")
        changed = client.get(f"{path}/{chosen}/flips", limit=flips)["data"] if flips else []
    if as_json:
        print_json({**found, **({"flipped": changed} if flips else {})})
        return
    print_report(found)
    if flips:
        print_flips(changed)


def _newest(runs: list[dict[str, Any]]) -> str:
    for one in runs:
        if one["status"] in _ENDED:
            return str(one["id"])
    raise ValueError("no run has a report yet")


def _print_run(one: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(one)
    else:
        print_run(one)


def _print_report(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        print_report(found)
