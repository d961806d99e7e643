"""Batches and results as tables for people."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from cli.output import out

_STYLES = {
    "completed": "green",
    "in_progress": "cyan",
    "cancelling": "yellow",
    "cancelled": "yellow",
    "expired": "red",
    "failed": "red",
}


def print_batches(batches: Sequence[Mapping[str, Any]]) -> None:
    table = Table("batch", "status", "lane", "done", "total", "failed", "created", box=None)
    for batch in batches:
        counts = batch["request_counts"]
        table.add_row(
            batch["id"],
            Text(batch["status"], style=_STYLES.get(batch["status"], "")),
            batch["lane"],
            str(counts["completed"]),
            str(counts["total"]),
            str(counts["failed"]),
            _time(batch["created_at"]),
        )
    out.print(table if batches else "No batches yet.")


def print_batch(batch: Mapping[str, Any]) -> None:
    table = Table(box=None, show_header=False)
    table.add_row("batch", batch["id"])
    table.add_row("status", Text(batch["status"], style=_STYLES.get(batch["status"], "")))
    table.add_row("lane", batch["lane"])
    table.add_row("items", ", ".join(f"{n} {fate}" for fate, n in batch["counts"].items() if n))
    table.add_row("created", _time(batch["created_at"]))
    table.add_row("expires", _time(batch["expires_at"]))
    for error in (batch.get("errors") or {}).get("data", [])[:10]:
        table.add_row(f"line {error['line']}", Text(error["message"]))
    out.print(table)


def results_table(results: Iterable[Mapping[str, Any]], questions: Sequence[str]) -> Table:
    """A row per result: its answers, each with its label mass."""
    table = Table(box=None, pad_edge=False)
    table.add_column("custom_id")
    for question in questions:
        table.add_column(question)
        table.add_column("mass", justify="right", style="dim")
    for result in results:
        cells: list[str | Text] = [result["custom_id"]]
        for question in questions:
            answer = (result["answers"] or {}).get(question)
            mass = (result["diagnostics"] or {}).get(question, {}).get("label_mass")
            cells.append(Text(_answer(answer)) if answer else Text("-"))
            cells.append("" if mass is None else f"{mass:.2f}")
        table.add_row(*cells)
    return table


def label_mass_table(results: Sequence[Mapping[str, Any]], questions: Sequence[str]) -> Table:
    """Per question: how the answers are shared out, and how much of its belief the model put on labels."""
    table = Table("question", "answers", "mean mass", "lowest", box=None, pad_edge=False)
    for question in questions:
        done = [r for r in results if r["answers"] and question in r["answers"]]
        masses = [r["diagnostics"][question]["label_mass"] for r in done]
        if masses:
            shares = _shares([_winner(r["answers"][question]) for r in done])
            mean = sum(masses) / len(masses)
            table.add_row(question, Text(shares), f"{mean:.3f}", f"{min(masses):.3f}")
    return table


def demo_report(results: Sequence[Mapping[str, Any]], questions: Sequence[str], rows: int) -> Group:
    return Group(
        results_table(results[:rows], questions),
        Text(f"… and {len(results) - rows} more\n" if len(results) > rows else "", style="dim"),
        label_mass_table(results, questions),
    )


def _answer(answer: Mapping[str, Any]) -> str:
    top = max(answer["probabilities"].values())
    return f"{_winner(answer)} {top:.2f}"


def _winner(answer: Mapping[str, Any]) -> str:
    if answer["type"] == "choice":
        return str(answer["choice"])
    top = max(answer["probabilities"], key=answer["probabilities"].__getitem__)
    return str(answer["legend"][top]) if answer["type"] == "score" else str(top)


def _shares(winners: Sequence[str]) -> str:
    counts = sorted(((winners.count(w), w) for w in set(winners)), reverse=True)
    return ", ".join(f"{name} {100 * n / len(winners):.0f}%" for n, name in counts)


def _time(seconds: int | None) -> str:
    if seconds is None:
        return ""
    return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
