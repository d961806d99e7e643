"""Watching a batch: a bar with rate and time left, until the batch is final."""

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
from cli.following import follow
from cli.output import notes


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
    """The batch once it is final. `tick` is called now and then, and may raise to end the wait."""
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
        for counts in follow(client, batch_id):
            if counts is not None:
                described = "Deciding" if counts.final else "Waiting for a worker"
                progress.update(
                    task, total=counts.total, completed=counts.final, description=described
                )
            tick()
    batch: dict[str, Any] = client.get(f"/v1/batches/{batch_id}")
    return batch
