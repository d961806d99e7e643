"""Clients of a chaos run: they submit, retry as a careful client does, and keep their own books.

The books are what the run is judged by: every 202, with the custom_ids that went with it.
"""

import random
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any
from uuid import uuid4

from cli.client import Address, ApiError, Client
from cli.following import TERMINAL, finished

_PAUSE_SECONDS = 0.5

QUESTIONS = {
    "urgent": {"type": "noul", "instructions": "Is this urgent?"},
    "team": {"type": "choice", "criteria": {"billing": "payments", "delivery": None}},
}


@dataclass
class Books:
    """What one client was told."""

    #: Batch id of each 202 -> the custom_ids that it acknowledged.
    accepted: dict[str, list[str]] = field(default_factory=dict)
    #: Newest counts of each batch that was looked at.
    seen: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: Answers that contradict an earlier one: a count that fell, a final state that changed.
    contradictions: list[str] = field(default_factory=list)
    #: Requests that failed on the way and were sent again.
    retries: int = 0


class SubmittingClient(Thread):
    """Submits `items` in batches, spread over `seconds`; sends a batch until it is accepted."""

    def __init__(
        self,
        address: Address,
        *,
        items: int,
        seconds: float,
        webhook: str,
        seed: int,
        stopping: Event,
    ) -> None:
        super().__init__(name=f"client-{seed}", daemon=True)
        self.books = Books()
        self._address = address
        self._items = items
        self._seconds = seconds
        self._webhook = webhook
        self._draw = random.Random(seed)  # noqa: S311 - not a secret
        self._stopping = stopping

    def run(self) -> None:
        with Client(self._address) as client:
            left = self._items
            while left > 0 and not self._stopping.is_set():
                size = min(left, self._draw.randint(1, 120))
                self._submit(client, size)
                self._look(client)
                left -= size
                self._stopping.wait(self._seconds * size / self._items)

    def _submit(self, client: Client, size: int) -> None:
        key = uuid4().hex
        requests = [
            {"custom_id": f"{key}-{n}", "state": f"ticket {self._draw.randrange(500)}"}
            for n in range(size)
        ]
        body = {
            "requests": requests,
            "questions": QUESTIONS,
            "webhook": {"url": self._webhook},
        }
        while not self._stopping.is_set():
            try:
                batch = client.post("/v1/batches", body, {"Idempotency-Key": key})
            except ApiError:
                self.books.retries += 1
                self._stopping.wait(_PAUSE_SECONDS)
            else:
                self.books.accepted[batch["id"]] = [str(r["custom_id"]) for r in requests]
                return

    def _look(self, client: Client) -> None:
        """At one batch of before: what it says may only move forward."""
        batch_id = self._draw.choice(list(self.books.accepted) or [""])
        try:
            batch = client.get(f"/v1/batches/{batch_id}") if batch_id else None
        except ApiError:
            return
        if batch is None:
            return
        before = self.books.seen.get(batch_id)
        if before is not None and _went_back(before, batch):
            self.books.contradictions.append(f"{batch_id}: {before} -> {batch}")
        self.books.seen[batch_id] = batch


def _went_back(before: dict[str, Any], now: dict[str, Any]) -> bool:
    ended = before["status"] in TERMINAL
    return finished(now) < finished(before) or (ended and now["status"] != before["status"])
