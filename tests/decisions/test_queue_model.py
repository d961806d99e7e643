"""A long random walk over everything that can happen to batches, with the promises checked at every step."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

import pytest

from decisions.queue import MAX_ATTEMPTS
from decisions.types import Claim
from tests.decisions.store import QUESTIONS, TERMINAL, Row, Store, Worker, bad_item, item

STEPS = 120
#: Whoever reads it dies of it.
POISON = item(1, "poison").body
FINAL = ("done", "failed", "dead", "cancelled", "expired")


@dataclass
class Walk:
    """The store, its workers and what they hold, also what they only believe they hold."""

    store: Store
    rng: random.Random
    workers: list[Worker]
    held: list[tuple[Worker, list[Claim]]] = field(default_factory=list)
    batches: list[UUID] = field(default_factory=list)
    #: Item id -> its last known status.
    known: dict[int, str] = field(default_factory=dict)
    closed: dict[UUID, str] = field(default_factory=dict)

    def step(self) -> None:
        actions: list[tuple[Callable[[], None], int]] = [
            (self.submit, 3),
            (self.claim, 6),
            (self.claim_suspect, 6),
            (self.complete, 5),
            (self.complete_again, 1),
            (self.fail, 1),
            (self.give_back, 1),
            (self.die, 4),
            (self.haunt, 1),
            (self.sweep, 4),
            (self.cancel, 1),
            (self.end_window, 1),
        ]
        action = self.rng.choices([a for a, _ in actions], [weight for _, weight in actions])[0]
        action()

    def submit(self) -> None:
        items = [
            bad_item(line)
            if self.rng.random() < 0.1
            else item(
                line, self.rng.choice(["a", "b", "c", "poison"]), f"id {self.rng.randrange(20)}"
            )
            for line in range(1, self.rng.randint(2, 7))
        ]
        priority = self.rng.choice([-1, 0, 1])
        self.batches.append(self.store.submit(items, priority=priority).batch_id)

    def claim(self) -> None:
        worker = self.rng.choice(self.workers)
        self._hold(worker, worker.claim(limit=self.rng.randint(1, 6)))

    def claim_suspect(self) -> None:
        worker = self.rng.choice(self.workers)
        self._hold(worker, worker.claim_suspect())

    def _hold(self, worker: Worker, claims: list[Claim]) -> None:
        if claims:
            self.held.append((worker, claims))

    def _any_held(self, *, drop: bool) -> tuple[Worker, list[Claim]] | None:
        if not self.held:
            return None
        i = self.rng.randrange(len(self.held))
        return self.held.pop(i) if drop else self.held[i]

    def complete(self) -> None:
        """Perhaps of a lease that was lost long ago."""
        if not (held := self._any_held(drop=True)):
            return
        worker, claims = held
        if POISON and any(claim.state_hash == POISON.state_hash for claim in claims):
            self.store.end_leases(claims)
        else:
            worker.complete(claims)

    def complete_again(self) -> None:
        if held := self._any_held(drop=False):
            held[0].complete(held[1])

    def fail(self) -> None:
        if held := self._any_held(drop=True):
            held[0].fail(held[1])

    def give_back(self) -> None:
        if held := self._any_held(drop=False):
            held[0].give_back(held[1])

    def die(self) -> None:
        """A lease ends; the worker may still be alive and send its results later."""
        if held := self._any_held(drop=self.rng.random() < 0.5):
            self.store.end_leases(held[1])

    def haunt(self) -> None:
        """One suspect takes every worker that reads it along."""
        for worker in self.workers * 2:
            claims = worker.claim_suspect()
            self.store.end_leases(claims)
            self.store.sweep()

    def sweep(self) -> None:
        self.store.sweep()

    def cancel(self) -> None:
        if self.batches:
            self.store.cancel(self.rng.choice(self.batches))

    def end_window(self) -> None:
        if self.batches:
            self.store.end_window(self.rng.choice(self.batches))

    def check(self) -> None:
        items = self.store.items()
        self._check_items(items)
        events = self.store.rows("SELECT batch_id, type FROM events")
        for batch in self.store.rows("SELECT * FROM batches"):
            mine = [row for row in items if row["batch_id"] == batch["id"]]
            told = [row["type"] for row in events if row["batch_id"] == batch["id"]]
            self._check_batch(batch, mine, told)
        self._check_decisions({row["id"] for row in items if row["status"] == "done"})

    def _check_items(self, items: list[Row]) -> None:
        for row in items:
            before = self.known.get(row["id"], "queued")
            assert before in ("queued", "leased") or row["status"] == before
            assert 0 <= row["attempt"] <= MAX_ATTEMPTS
            self.known[row["id"]] = row["status"]

    def _check_batch(self, batch: Row, items: list[Row], events: list[str]) -> None:
        real = Counter(row["status"] for row in items)
        assert batch["total"] == len(items)
        assert {s: batch[s] for s in FINAL} == {s: real[s] for s in FINAL}
        final = sum(batch[s] for s in FINAL)
        terminal = batch["status"] in TERMINAL
        assert final <= batch["total"]
        assert (final == batch["total"]) == terminal
        assert events == ([f"batch.{batch['status']}"] if terminal else [])
        assert self.closed.get(batch["id"], batch["status"]) == batch["status"]
        if terminal:
            self.closed[batch["id"]] = batch["status"]

    def _check_decisions(self, done: set[int]) -> None:
        rows = self.store.rows("SELECT item_id, question_id FROM decisions")
        pairs = Counter((row["item_id"], row["question_id"]) for row in rows)
        assert pairs == Counter((id_, question) for id_ in done for question in QUESTIONS)

    def finish(self) -> None:
        """Once nobody dies any more, everything ends."""
        self.held.clear()
        self.store.end_leases()
        self.store.sweep()
        worker = self.workers[0]
        while claims := worker.claim() or worker.claim_suspect():
            worker.complete(claims)
        self.store.sweep()
        assert {row["status"] for row in self.store.rows("SELECT status FROM batches")} <= set(
            TERMINAL
        )


@pytest.mark.parametrize("seed", range(4))
def test_whatever_happens_every_item_ends_once_and_every_batch_says_so_once(
    store: Store, seed: int
) -> None:
    rng = random.Random(seed)  # noqa: S311
    walk = Walk(store, rng, [store.worker() for _ in range(3)])
    for _ in range(STEPS):
        walk.step()
        walk.check()
    walk.finish()
    walk.check()
    assert all(row["status"] in FINAL for row in store.items())
