"""Follows a batch by its event stream; while that is broken, by asking. Ends with the batch."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cli.client import ApiError, Client

TERMINAL = {"completed", "failed", "expired", "cancelled"}

#: Seconds between heartbeats, and between two questions while there is no stream.
HEARTBEAT = 1
POLL = 0.5

#: Seconds that an API which answered once may be away.
PATIENCE = 30.0


@dataclass(frozen=True, slots=True)
class Counts:
    """Of a batch's items."""

    total: int
    #: Whatever became of them.
    final: int


def follow(client: Client, batch_id: str) -> Iterator[Counts | None]:
    """Counts as they grow, and None now and then. Raises ApiError when there is no such batch."""
    most = Counts(total=0, final=-1)
    for counts in _told(client, batch_id):
        # What was asked meanwhile may be ahead of the events that a stream goes on with.
        if counts is not None and counts.final <= most.final:
            yield None
        else:
            most = counts or most
            yield counts


def _told(client: Client, batch_id: str) -> Iterator[Counts | None]:
    last: str | None = None
    heard = None
    while True:
        try:
            for event in client.events(
                f"/v1/batches/{batch_id}/events", last, heartbeat=HEARTBEAT, types="progress"
            ):
                last, heard = event.id or last, time.monotonic()
                yield event.data and _of_event(event.data)
                if event.type and event.type.startswith("batch."):
                    return
        except ApiError:
            pass  # whatever it was, asking tells
        try:
            batch = client.get(f"/v1/batches/{batch_id}")
        except ApiError as error:
            if not _passes(error) or heard is None or time.monotonic() - heard > PATIENCE:
                raise
            yield None
        else:
            heard = time.monotonic()
            yield Counts(total=batch["request_counts"]["total"], final=finished(batch))
            if batch["status"] in TERMINAL:
                return
        time.sleep(POLL)


def _passes(error: ApiError) -> bool:
    return error.status is None or error.status >= 500


def _of_event(data: dict[str, Any]) -> Counts:
    counts = data["counts"]
    return Counts(total=counts["total"], final=counts["total"] - counts["open"])


def finished(batch: dict[str, Any]) -> int:
    """Items that are final, whatever became of them."""
    fates = ("done", "failed", "dead", "cancelled", "expired")
    return sum(int(batch["counts"].get(fate, 0)) for fate in fates)
