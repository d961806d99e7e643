"""`weighbridge schedules`: stored decisions, read again whenever it is due, and compared."""

from datetime import date
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from cli.output import JsonOption, KeyOption, UrlOption, notes, print_json
from cli.schedule_runs import ScheduleArgument, connected, report, run
from cli.schedule_tables import print_schedule, print_schedules

app = typer.Typer(
    help="Read stored decisions again when it is due, and compare.", no_args_is_help=True
)

app.command()(run)
app.command()(report)


@app.command()
def create(
    plan: Annotated[
        Path | None,
        typer.Argument(help="YAML or JSON with any of its fields.", metavar="FILE"),
    ] = None,
    name: Annotated[str | None, typer.Option(help="What it is called.")] = None,
    cron: Annotated[
        str | None, typer.Option(help="Minute, hour, day of month, month, day of week.")
    ] = None,
    timezone: Annotated[
        str | None, typer.Option(help="Of the cron expression, such as Europe/Berlin.")
    ] = None,
    paused: Annotated[bool, typer.Option("--paused", help="Not due until it is resumed.")] = False,
    url: UrlOption = None,
    api_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a schedule from a file, from options, or both; options win.

    weighbridge schedules create rescore.yaml --cron "30 2 * * *" --timezone Europe/Berlin
    """
    with connected(url, api_key, as_json) as client:
        given = {"name": name, "cron": cron, "timezone": timezone, "paused": paused or None}
        options = {field: value for field, value in given.items() if value is not None}
        _show(client.post("/v1/schedules", (_load(plan) if plan else {}) | options), as_json)


def _load(path: Path) -> dict[str, Any]:
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not valid YAML or JSON: {error}") from None
    if not isinstance(loaded, dict):
        raise ValueError(f"{path}: must have the fields of a schedule")
    plain: dict[str, Any] = _plain(loaded)
    return plain


def _plain(value: Any) -> Any:
    """YAML reads times as such, JSON has none."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value.isoformat() if isinstance(value, date) else value


@app.command("list")
def list_(
    limit: Annotated[int, typer.Option(help="How many of the newest.", min=1, max=100)] = 20,
    url: UrlOption = None,
    api_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """List schedules, and when they are due."""
    with connected(url, api_key, as_json) as client:
        page = client.get("/v1/schedules", limit=limit)
    if as_json:
        print_json(page)
    else:
        print_schedules(page["data"])


@app.command()
def show(
    schedule: ScheduleArgument,
    url: UrlOption = None,
    api_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a schedule and its newest runs."""
    with connected(url, api_key, as_json) as client:
        found = client.get(f"/v1/schedules/{schedule}")
        runs = client.get(f"/v1/schedules/{schedule}/runs")["data"]
    if as_json:
        print_json({**found, "runs": runs})
    else:
        print_schedule(found, runs)


@app.command()
def pause(
    schedule: ScheduleArgument,
    url: UrlOption = None,
    api_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let it not be due until it is resumed. A run under way goes on."""
    with connected(url, api_key, as_json) as client:
        _show(client.patch(f"/v1/schedules/{schedule}", {"paused": True}), as_json)


@app.command()
def resume(
    schedule: ScheduleArgument,
    url: UrlOption = None,
    api_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let it be due again, from now on."""
    with connected(url, api_key, as_json) as client:
        _show(client.patch(f"/v1/schedules/{schedule}", {"paused": False}), as_json)


@app.command()
def delete(
    schedule: ScheduleArgument,
    url: UrlOption = None,
    api_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """End a schedule. Batches of its runs stay."""
    with connected(url, api_key, as_json) as client:
        deleted = client.delete(f"/v1/schedules/{schedule}")
    if as_json:
        print_json(deleted)
    else:
        notes.print(f"{deleted['id']} is deleted.")


def _show(schedule: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(schedule)
    else:
        print_schedule(schedule, [])
