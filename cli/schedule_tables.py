"""Schedules, their runs and reports as tables for people."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from cli.output import out

_STYLES = {
    "active": "green",
    "promote": "green",
    "paused": "yellow",
    "hold": "yellow",
    "failed": "red",
}


def print_schedules(schedules: Sequence[Mapping[str, Any]]) -> None:
    table = Table("schedule", "name", "status", "cron", "time zone", "next due", box=None)
    for one in schedules:
        table.add_row(
            one["id"],
            Text(one["name"]),
            _word(one["status"]),
            one["cron"],
            one["timezone"],
            _time(one["next_due_at"]),
        )
    out.print(table if schedules else "No schedules yet.")


def print_schedule(one: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> None:
    table = Table(box=None, show_header=False)
    table.add_row("schedule", one["id"])
    table.add_row("name", Text(one["name"]))
    table.add_row("status", _word(one["status"]))
    table.add_row("cron", f"{one['cron']} ({one['timezone']})")
    table.add_row("next due", _time(one["next_due_at"]))
    for field in ("source", "change", "thresholds"):
        table.add_row(field, Text(json.dumps(one[field], ensure_ascii=False)))
    out.print(table)
    for run in runs:
        print_run(run)


def print_run(run: Mapping[str, Any]) -> None:
    words = Text.assemble(
        f"{run['id']} due {_time(run['due_at'])} ", run["status"], " ", _word(run["verdict"] or "")
    )
    if run["error"]:
        words.append(f" {run['error']['message']}")
    out.print(words)


def print_report(report: Mapping[str, Any]) -> None:
    out.print(Text.assemble(f"{report['id']} ", _word(report["verdict"], "bold ")))
    for reason in report["reasons"]:
        out.print(Text(f"  {reason}"))
    if "questions" not in report:
        return
    out.print(
        f"{report['compared']} compared, {report['flips']} flips, {report['purged']} purged, "
        f"{sum(report['unanswered'].values())} without an answer"
    )
    table = Table(
        "question",
        "compared",
        "flips",
        "agreement",
        "truth",
        "right before",
        "right after",
        "mass before",
        "mass after",
        "PSI of mass",
        "highest PSI",
        box=None,
        pad_edge=False,
    )
    for question in report["questions"]:
        table.add_row(*_row(question))
    out.print(table)


def _row(question: Mapping[str, Any]) -> list[Text]:
    mass = next(drift for drift in question["drift"] if drift["of"] == "label_mass")
    known = [d for d in question["drift"] if d["psi"] is not None]
    highest = max(known, key=lambda d: float(d["psi"]))
    name = highest.get("option") or highest["of"]
    truth = question["truth"]
    return [
        Text(cell)
        for cell in (
            question["question"],
            str(question["compared"]),
            str(question["flips"]),
            f"{question['agreement']:.3f}",
            str(truth["count"]),
            str(truth["right_before"]),
            str(truth["right_after"]),
            f"{mass['mean_before']:.3f}",
            f"{mass['mean_after']:.3f}",
            f"{mass['psi']:.3f}",
            f"{highest['psi']:.3f} ({name})",
        )
    ]


def print_flips(flips: Sequence[Mapping[str, Any]]) -> None:
    table = Table("custom_id", "question", "before", "after", "truth", box=None, pad_edge=False)
    for flip in flips:
        sides = [f"{flip[s]['answer']} {flip[s]['probability']:.2f}" for s in ("before", "after")]
        cells = (flip["custom_id"], flip["question"], *sides, flip["truth"] or "")
        table.add_row(*map(Text, cells))
    out.print(table if flips else "No answer changed.")


def _word(word: str, prefix: str = "") -> Text:
    return Text(word, style=prefix + _STYLES.get(word, ""))


def _time(text: str | None) -> str:
    if text is None:
        return ""
    return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M %Z")
