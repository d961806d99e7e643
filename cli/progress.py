"""Watching a batch: a bar with rate and time left, until the batch is final."""

import time
from collections.abc import Callable
from typing import Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from cli.client import Client
from cli.output import notes

TERMINAL = {"completed", "failed", "expired", "cancelled"}

_POLL_SECONDS = 0.5


class RateColumn(ProgressColumn):
    """Items per second of late."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.1f}/s", style="progress.data.speed")


def wait_for_batch(
    client: Client,
    batch_id: str,
    *,
    quiet: bool = False,
    tick: Callable[[], object] = lambda: None,
) -> dict[str, Any]:
    """The batch once it is final. `tick` is called between polls, and may raise to end the wait."""
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        RateColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=notes,
        disable=quiet,
        speed_estimate_period=60,
    ) as progress:
        task = progress.add_task("Waiting for a worker", total=None)
        while True:
            batch: dict[str, Any] = client.get(f"/v1/batches/{batch_id}")
            counts = batch["request_counts"]
            final = finished(batch)
            progress.update(
                task,
                total=counts["total"],
                completed=final,
                description="Deciding" if final else "Waiting for a worker",
            )
            if batch["status"] in TERMINAL:
                return batch
            tick()
            time.sleep(_POLL_SECONDS)


def finished(batch: dict[str, Any]) -> int:
    """Items that are final, whatever became of them."""
    fates = ("done", "failed", "dead", "cancelled", "expired")
    return sum(int(batch["counts"].get(fate, 0)) for fate in fates)
