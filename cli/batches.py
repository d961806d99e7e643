"""`submit`, `status`, `watch`, `results`, `cancel`: the life of a batch, over HTTP."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.client import Client, find_address
from cli.inputs import json_lines, load_questions, parse_mapping
from cli.output import JsonOption, KeyOption, UrlOption, notes, print_json, reporting
from cli.progress import wait_for_batch
from cli.tables import print_batch, print_batches

BatchArgument = Annotated[str, typer.Argument(help="Its id, such as batch_0192…")]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write results to this file, not to stdout.")
]


@contextmanager
def _client(url: str | None, api_key: str | None, as_json: bool) -> Iterator[Client]:
    with reporting(as_json), Client(find_address(url, api_key, os.environ)) as client:
        yield client


def submit(
    source: Annotated[
        str, typer.Argument(help="JSON Lines or CSV; - reads stdin.", metavar="FILE")
    ],
    questions: Annotated[
        Path | None,
        typer.Option("--questions", "-q", help="YAML or JSON with the questions for every state."),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            help="CSV: custom_id=NAME or state=NAME; without state, the row is the state."
        ),
    ] = None,
    csv: Annotated[
        bool, typer.Option("--csv", help="Read CSV, whatever the file is called.")
    ] = False,
    lane: Annotated[str, typer.Option(help="interactive, bulk or nightly.")] = "bulk",
    window: Annotated[
        str, typer.Option(help="What is not read in this time expires: 90m, 24h, 7d.")
    ] = "24h",
    model: Annotated[str | None, typer.Option(help="The model to read with.")] = None,
    key: Annotated[
        str | None, typer.Option("--idempotency-key", help="Submitting again under it is harmless.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait, then write the results.")] = False,
    output: OutputOption = None,
    url: UrlOption = None,
    api_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Submit a file of states as one batch.

    A line is {"custom_id": "t-1", "state": "text or any JSON"}, with its own "questions" if it does not
    share those of --questions. A bad line fails alone: the results name it, the others go on.

    weighbridge submit tickets.jsonl --questions triage.yaml --wait -o answers.jsonl

    weighbridge submit tickets.csv --column custom_id=id --column state=body -q triage.yaml
    """
    with _client(url, api_key, as_json) as client:
        request: dict[str, Any] = {"lane": lane, "completion_window": window}
        if questions is not None:
            request |= load_questions(questions)
        if model is not None:
            request["model"] = model
        as_csv = csv or source.endswith(".csv")
        with json_lines(source, parse_mapping(column or []), as_csv) as path:
            request["input_file_id"] = client.upload(path, Path(source).name)
        headers = {"Idempotency-Key": key} if key else None
        batch = client.post("/v1/batches", request, headers)
        if not wait:
            _show(batch, as_json)
            return
        if not as_json:
            notes.print(f"Submitted [bold]{batch['id']}[/]; Ctrl-C stops waiting, not the batch.")
        batch = wait_for_batch(client, batch["id"], quiet=as_json)
        if output is not None or not as_json:
            _write_results(client, batch["id"], output)
        _finish(batch, as_json)


def status(
    batch: Annotated[str | None, typer.Argument(help="Its id; without one, the newest.")] = None,
    limit: Annotated[int, typer.Option(help="How many of the newest.", min=1, max=100)] = 20,
    url: UrlOption = None,
    api_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one batch, or list the newest."""
    with _client(url, api_key, as_json) as client:
        if batch is not None:
            _show(client.get(f"/v1/batches/{batch}"), as_json)
            return
        page = client.get("/v1/batches", limit=limit)
        if as_json:
            print_json(page)
        else:
            print_batches(page["data"])


def watch(
    batch: BatchArgument,
    url: UrlOption = None,
    api_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Follow a batch until it is final. Exits with 1 when it did not complete."""
    with _client(url, api_key, as_json) as client:
        _finish(wait_for_batch(client, batch, quiet=as_json), as_json)


def results(
    batch: BatchArgument,
    output: OutputOption = None,
    url: UrlOption = None,
    api_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the results so far as JSON Lines, in line order. Works while the batch runs."""
    with _client(url, api_key, as_json) as client:
        count = _write_results(client, batch, output)
        if output is not None and as_json:
            print_json({"results": count, "output": str(output)})


def cancel(
    batch: BatchArgument,
    url: UrlOption = None,
    api_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stop a batch. What is decided stays, and its results can be read."""
    with _client(url, api_key, as_json) as client:
        _show(client.post(f"/v1/batches/{batch}/cancel"), as_json)


def _show(batch: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(batch)
    else:
        print_batch(batch)


def _finish(batch: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(batch)
    else:
        notes.print(summary(batch))
    if batch["status"] != "completed":
        raise typer.Exit(1)


def summary(batch: dict[str, Any]) -> str:
    fates = (f"{n} {fate}" for fate, n in batch["counts"].items() if n and fate != "total")
    return f"{batch['id']} {batch['status']}: {', '.join(fates)}"


def _write_results(client: Client, batch_id: str, output: Path | None) -> int:
    """Returns the number of lines. A file is complete or absent."""
    lines = client.lines(f"/v1/batches/{batch_id}/results")
    if output is None:
        return sum(sys.stdout.buffer.write(line + b"\n") > 0 for line in lines)
    unfinished = output.with_name(output.name + ".part")
    with unfinished.open("wb") as file:
        count = sum(file.write(line + b"\n") > 0 for line in lines)
    unfinished.replace(output)
    notes.print(f"{count} results in {output}")
    return count
