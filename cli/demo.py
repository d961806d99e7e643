"""`weighbridge demo`: the main job from nothing to results, with everything stopped at the end."""

import json
import logging
import os
import re
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from time import monotonic
from typing import Annotated, Any

import typer

from cli.client import Client
from cli.inputs import load_questions
from cli.output import JsonOption, notes, out, print_json, reporting
from cli.paths import Home, find_home
from cli.processes import ProcessError
from cli.progress import wait_for_batch
from cli.stack import Stack, start_stack
from cli.supervisor import Supervisor, ending_on_signals
from cli.tables import demo_report

_ROWS = 12


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the results go.")] = Path(
        "weighbridge-results.jsonl"
    ),
    as_json: JsonOption = False,
) -> None:
    """Decide about the bundled support tickets, show the answers, and stop everything.

    Starts a real Postgres, a real Valkey, the API and a worker with the default model; nothing else
    has to be installed. The first run converts the model, which takes about half a minute more.
    """
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    home = Home(path=find_home(os.environ).path / "demo")
    say: Callable[[str], None] = (lambda _: None) if as_json else _say
    with reporting(as_json), ending_on_signals(), Supervisor() as supervisor:
        try:
            stack = start_stack(supervisor, home, os.environ, port=0, say=say)
            report = _run(stack, supervisor, output, as_json)
        except KeyboardInterrupt:
            say("Stopping everything")
            raise typer.Exit(130) from None
    if as_json:
        print_json(report)


def _run(stack: Stack, supervisor: Supervisor, output: Path, as_json: bool) -> dict[str, Any]:
    sample = Path(str(resources.files("cli"))) / "sample"
    asked = load_questions(sample / "triage.yaml")
    with Client(stack.address) as client:
        before = _counters(client)
        started = monotonic()
        batch = client.post(
            "/v1/batches",
            {"input_file_id": client.upload(sample / "tickets.jsonl", "tickets.jsonl"), **asked},
        )
        batch = wait_for_batch(
            client, batch["id"], quiet=as_json, tick=lambda: _tend(supervisor, stack)
        )
        seconds = monotonic() - started
        results = _save_results(client, batch["id"], output)
        spent = {name: value - before[name] for name, value in _counters(client).items()}
    report = _report(batch, results, spent, seconds)
    if not as_json:
        _print(report, results, list(_dict(asked["questions"])), sample, output)
    return report


def _tend(supervisor: Supervisor, stack: Stack) -> None:
    """Restart what died; but a worker that cannot read at all would be waited for for ever."""
    if stack.worker.exit_code == 2:
        raise ProcessError("The worker cannot read.", log=stack.worker.log_tail())
    supervisor.tend()


def _counters(client: Client) -> dict[str, int]:
    text = client.text("/metrics")
    found = re.findall(r"^weighbridge_(prefills|reads)_total(?:\{[^}]*\})? (\S+)$", text, re.M)
    return {"prefills": 0, "reads": 0} | {name: int(float(value)) for name, value in found}


def _save_results(client: Client, batch_id: str, output: Path) -> list[dict[str, Any]]:
    lines = list(client.lines(f"/v1/batches/{batch_id}/results"))
    output.write_bytes(b"".join(line + b"\n" for line in lines))
    return [json.loads(line) for line in lines]


def _report(
    batch: dict[str, Any], results: Sequence[dict[str, Any]], spent: dict[str, int], seconds: float
) -> dict[str, Any]:
    decisions = sum(len(r["answers"] or {}) for r in results)
    return {
        "batch": batch["id"],
        "items": batch["request_counts"]["total"],
        "decisions": decisions,
        "errors": batch["request_counts"]["failed"],
        "states": _distinct_states(),
        **spent,
        "seconds": round(seconds, 2),
        "decisions_per_second": round(decisions / seconds, 2),
    }


def _distinct_states() -> int:
    tickets = (resources.files("cli") / "sample" / "tickets.jsonl").read_text(encoding="utf-8")
    states = (json.loads(line)["state"] for line in tickets.split("\n") if line)
    return len({json.dumps(state) for state in states})


def _print(
    report: dict[str, Any],
    results: Sequence[dict[str, Any]],
    questions: Sequence[str],
    sample: Path,
    output: Path,
) -> None:
    out.print()
    out.print(demo_report(results, questions, _ROWS))
    out.print(
        f"\n{report['decisions']} decisions on {report['items']} tickets in "
        f"{report['seconds']:.0f} s ({report['decisions_per_second']}/s): {report['states']} distinct "
        f"states, {report['prefills']} prefills, {report['reads']} reads, {report['errors']} errors."
    )
    out.print(_agreement(results, sample))
    out.print(f"\nAll results: [bold]{output}[/]")
    out.print("Your own:    weighbridge up, then")
    out.print("             weighbridge submit tickets.jsonl --questions triage.yaml --wait")


def _agreement(results: Sequence[dict[str, Any]], sample: Path) -> str:
    """How often this run agreed with the truth that the sample carries; nothing is promised by it."""
    lines = (sample / "truth.jsonl").read_text(encoding="utf-8").split("\n")
    truth = {row["custom_id"]: row for row in map(json.loads, filter(None, lines))}
    pairs = [(r["answers"], truth[r["custom_id"]]) for r in results if r["answers"]]
    team = sum(a["team"]["choice"] == t["team"] for a, t in pairs)
    urgent = sum((a["urgent"]["noul"] >= 0.5) == t["urgent"] for a, t in pairs)
    tone = sum(abs(a["tone"]["score"] - t["tone"]) <= 1 for a, t in pairs)
    shares = [f"{100 * n / max(1, len(pairs)):.0f}%" for n in (team, urgent, tone)]
    return (
        f"Right on this sample: team {shares[0]}, urgent {shares[1]}, tone within one level {shares[2]}. "
        "For better answers set WEIGHBRIDGE_MODEL to a larger model."
    )


def _dict(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("the sample's questions must map ids to questions")
    return value


def _say(step: str) -> None:
    notes.print(f"[dim]{step} …[/]")
