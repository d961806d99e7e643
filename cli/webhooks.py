"""`weighbridge webhooks`: who is told what happens, and what became of it."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from cli.client import Client, find_address
from cli.output import JsonOption, KeyOption, UrlOption, notes, out, print_json, reporting
from cli.webhook_tables import print_deliveries, print_webhooks

app = typer.Typer(
    help="Tell others what has happened, and see what they said.", no_args_is_help=True
)

WebhookArgument = Annotated[str, typer.Argument(help="Its id, such as wh_1.", metavar="WEBHOOK")]
DeliveryArgument = Annotated[str, typer.Argument(help="Its id, such as whd_1.", metavar="DELIVERY")]


@contextmanager
def _client(url: str | None, api_key: str | None, as_json: bool) -> Iterator[Client]:
    with reporting(as_json), Client(find_address(url, api_key, os.environ)) as client:
        yield client


@app.command("list")
def list_(url: UrlOption = None, api_key: KeyOption = None, as_json: JsonOption = False) -> None:
    """List endpoints."""
    with _client(url, api_key, as_json) as client:
        webhooks = client.get("/v1/webhooks")["data"]
    if as_json:
        print_json(webhooks)
        return
    print_webhooks(webhooks)


@app.command()
def create(
    address: Annotated[str, typer.Argument(help="Where events are sent.", metavar="ADDRESS")],
    event: Annotated[
        list[str] | None,
        typer.Option(
            help="A type of event, such as decision.completed. Defaults to batch.* alone."
        ),
    ] = None,
    url: UrlOption = None,
    api_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make an endpoint, and print the secret that signs its calls, this once."""
    with _client(url, api_key, as_json) as client:
        made = client.post("/v1/webhooks", {"url": address} | ({"events": event} if event else {}))
    _print_secret(made, as_json)


@app.command()
def rotate(
    webhook: WebhookArgument,
    overlap: Annotated[
        int, typer.Option(help="Seconds for which the old secret signs too; 0 ends it at once.")
    ] = 24 * 3600,
    url: UrlOption = None,
    api_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a new secret, and print it, this once."""
    with _client(url, api_key, as_json) as client:
        made = client.post(f"/v1/webhooks/{webhook}/rotate", {"overlap_seconds": overlap})
    _print_secret(made, as_json)


@app.command()
def delete(
    webhook: WebhookArgument,
    url: UrlOption = None,
    api_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete an endpoint, and the log of its deliveries."""
    with _client(url, api_key, as_json) as client:
        deleted = client.delete(f"/v1/webhooks/{webhook}")
    _print(deleted, f"{webhook} is deleted.", as_json)


@app.command()
def disable(
    webhook: WebhookArgument,
    url: UrlOption = None,
    api_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send an endpoint nothing until it is enabled again."""
    with _client(url, api_key, as_json) as client:
        changed = client.post(f"/v1/webhooks/{webhook}/disable")
    _print(changed, f"{webhook} is disabled.", as_json)


@app.command()
def enable(
    webhook: WebhookArgument,
    url: UrlOption = None,
    api_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send to an endpoint again that was disabled, by whatever."""
    with _client(url, api_key, as_json) as client:
        changed = client.post(f"/v1/webhooks/{webhook}/enable")
    _print(changed, f"{webhook} is enabled.", as_json)


@app.command("test")
def send_test(
    webhook: WebhookArgument,
    url: UrlOption = None,
    api_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send an endpoint a test event."""
    with _client(url, api_key, as_json) as client:
        delivery = client.post(f"/v1/webhooks/{webhook}/test")
    _print(
        delivery, f"{delivery['id']} is on its way; see `weighbridge webhooks deliveries`.", as_json
    )


@app.command()
def deliveries(
    webhook: Annotated[str | None, typer.Option(help="To this endpoint.")] = None,
    batch: Annotated[str | None, typer.Option(help="Of events of this batch.")] = None,
    status: Annotated[
        str | None, typer.Option(help="waiting, sending, delivered or failed.")
    ] = None,
    limit: Annotated[int, typer.Option(help="At most so many, the newest first.")] = 20,
    url: UrlOption = None,
    api_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what was sent, and what came of each attempt."""
    asked = {"webhook": webhook, "batch": batch, "status": status}
    with _client(url, api_key, as_json) as client:
        found = client.get(
            "/v1/webhooks/deliveries", limit=limit, **{k: v for k, v in asked.items() if v}
        )["data"]
    if as_json:
        print_json(found)
        return
    print_deliveries(found)


@app.command()
def resend(
    delivery: DeliveryArgument,
    url: UrlOption = None,
    api_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send a delivery again, under the same webhook-id."""
    with _client(url, api_key, as_json) as client:
        sent = client.post(f"/v1/webhooks/deliveries/{delivery}/resend")
    _print(sent, f"{delivery} is on its way again.", as_json)


def _print_secret(webhook: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(webhook)
        return
    notes.print(f"{webhook['id']} is signed with this secret. Keep it now, it is not shown again:")
    out.print(webhook["secret"])


def _print(value: Mapping[str, Any], words: str, as_json: bool) -> None:
    if as_json:
        print_json(value)
    else:
        notes.print(words)
