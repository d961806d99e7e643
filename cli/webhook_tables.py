"""Endpoints and deliveries as tables for people."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from cli.output import out

_STYLES = {"enabled": "green", "delivered": "green", "failed": "red", "disabled": "red"}


def print_webhooks(webhooks: Sequence[Mapping[str, Any]]) -> None:
    table = Table("webhook", "status", "events", "url", box=None)
    for webhook in webhooks:
        table.add_row(
            webhook["id"], _status(webhook), " ".join(webhook["events"]), Text(webhook["url"])
        )
    out.print(table if webhooks else "No webhooks yet.")


def print_deliveries(deliveries: Sequence[Mapping[str, Any]]) -> None:
    table = Table("delivery", "event", "type", "status", "tries", "last", "next", "url", box=None)
    for delivery in deliveries:
        table.add_row(
            delivery["id"],
            delivery["event_id"],
            delivery["type"],
            _status(delivery),
            str(len(delivery["attempts"])),
            _last(delivery),
            _time(delivery["due_at"]),
            Text(delivery["url"]),
        )
    out.print(table if deliveries else "No deliveries.")


def _status(thing: Mapping[str, Any]) -> Text:
    words = thing["status"]
    if thing.get("disabled_reason"):
        words = f"{words} ({thing['disabled_reason']})"
    return Text(words, style=_STYLES.get(thing["status"], "yellow"))


def _last(delivery: Mapping[str, Any]) -> Text:
    if not delivery["attempts"]:
        return Text("")
    attempt = delivery["attempts"][-1]
    return Text(str(attempt["status_code"] or attempt["error"] or "no outcome yet"))


def _time(unix: int | None) -> str:
    return "" if unix is None else f"{datetime.fromtimestamp(unix, UTC):%Y-%m-%d %H:%M:%S}"
