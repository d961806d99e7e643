"""Drains lanes: claim, read, complete, until nothing is queued. The flow is `Drain.once`."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Event
from time import monotonic
from uuid import UUID

from sqlalchemy import Engine as Database
from sqlalchemy import TextClause
from sqlalchemy.exc import DataError, IntegrityError

from decisions import fleet, queue
from decisions.database import statement, transaction
from decisions.types import Claim, Lane
from engine.types import EngineStats
from workers import contents
from workers.decide import Decider, Outcome
from workers.lease import held
from workers.patience import patiently
from workers.settings import WorkerSettings

logger = logging.getLogger(__name__)

#: Small, so that a worker whose speed is not known yet can end its first claim soon.
_FIRST_CLAIM = 4

#: How long results wait for a database that restarts; after that they are read again.
_STORE_SECONDS = 60.0


class EngineCounters:
    """What the engine counted since it was last asked, under the names of the workers' table."""

    def __init__(self, read: Callable[[], EngineStats]) -> None:
        self._read = read
        self._last = self._now = read()

    def so_far(self) -> Mapping[str, int]:
        """Since the last `counted`; asking twice counts nothing twice."""
        now, last = self._read(), self._last
        self._now = now
        return {
            "prefills": now.prefills - last.prefills,
            "prefilled_tokens": now.prefilled_tokens - last.prefilled_tokens,
            "cached_tokens": now.tokens_saved - last.tokens_saved,
            "reads": now.reads - last.reads,
            "suffix_tokens": now.suffix_tokens - last.suffix_tokens,
        }

    def counted(self) -> None:
        """What `so_far` said last is stored."""
        self._last = self._now


class Drain:
    """One worker's loop. `stats` reads the engine's counters."""

    def __init__(
        self,
        database: Database,
        decider: Decider,
        worker: UUID,
        model: str,
        settings: WorkerSettings,
        engine_stats: EngineCounters,
    ) -> None:
        self._database = database
        self._decider = decider
        self._worker = worker
        self._model = model
        self._settings = settings
        self._counters = engine_stats
        self._limit = min(_FIRST_CLAIM, settings.claim_limit)
        self._turn = 0
        #: Set it, and the drain ends after the claim in flight.
        self.stopping = Event()

    def run(self, seconds: float) -> bool:
        """Drain for at most about `seconds`; whether items may be left."""
        until = monotonic() + seconds
        while not self.stopping.is_set():
            if not self.once():
                return False
            if monotonic() > until:
                return True
        return True

    def once(self) -> bool:
        """Claim, read, complete. False when there was nothing to claim."""
        started = monotonic()
        claims = self._claim()
        if not claims:
            return False
        with held(self._database, self._worker, _ids(claims), self._settings.lease_seconds):
            with transaction(self._database) as connection:
                loaded = contents.load(connection, claims)
            outcome = self._decider.decide(claims, loaded)
            self._complete(outcome, started)
        self._resize(len(claims), monotonic() - started)
        return True

    def _claim(self) -> list[Claim]:
        """From the most urgent lane. Suspects (alone) and the head of the lane take turns, and so do
        items for this worker's model and items for any."""
        self._turn += 1
        for lane in self._waiting_lanes():
            for claim in self._claims(lane):
                if claims := self._execute_claim(claim):
                    return claims
        return []

    def _waiting_lanes(self) -> Sequence[Lane]:
        """Most urgent first. One trip, where finding every lane empty would take a dozen."""
        with statement(self._database) as connection:
            waiting = set(connection.scalars(queue.waiting_lanes()))
        return [lane for lane in self._settings.lanes if lane in waiting]

    def _claims(self, lane: Lane) -> Iterator[TextClause]:
        lease = self._settings.lease_seconds
        models = ("", self._model) if self._turn & 2 else (self._model, "")
        suspects = [queue.claim_suspect(self._worker, lane, lease, model) for model in models]
        others = [queue.claim(self._worker, lane, self._limit, lease, model) for model in models]
        yield from (*suspects, *others) if self._turn & 1 else (*others, *suspects)

    def _execute_claim(self, claim: TextClause) -> list[Claim]:
        with statement(self._database) as connection:
            return [Claim(**row) for row in connection.execute(claim).mappings()]

    def _complete(self, outcome: Outcome, started: float) -> None:
        """Store all at once; if the database refuses something, one by one, so that it fails alone."""
        try:
            self._store(outcome, started)
        except (DataError, IntegrityError) as refused:
            if len(outcome.results) == 1:
                self._store(outcome.refused(refused), started)
                return
            for one in outcome.each():
                self._complete(one, started)

    def _store(self, outcome: Outcome, started: float) -> None:
        stale = patiently(
            lambda: self._store_once(outcome, started),
            seconds=_STORE_SECONDS,
            stopping=self.stopping,
        )
        if stale:
            logger.warning(
                "%d results came after their lease and were thrown away",
                stale,
                extra={"action": "stale_results"},
            )

    def _store_once(self, outcome: Outcome, started: float) -> int:
        """Results and the counters that count them, in one transaction; how many were stale."""
        with transaction(self._database) as connection:
            statement = queue.complete(outcome.results, outcome.decisions)
            finished = {id_ for (id_,) in connection.execute(statement)}
            failed = sum(r["status"] == "failed" for r in outcome.results if r["id"] in finished)
            stale = len(outcome.results) - len(finished)
            counts = {
                "claims": 1,
                "items_done": len(finished) - failed,
                "items_failed": failed,
                "stale_results": stale,
                "busy_seconds": monotonic() - started,
                "engine_seconds": outcome.engine_seconds,
                **self._counters.so_far(),
            }
            connection.execute(fleet.count(self._worker, counts))
        self._counters.counted()
        return stale

    def _resize(self, items: int, seconds: float) -> None:
        """Steer the claim's size towards `claim_seconds`, at most doubling or halving.

        A claim that was not full says nothing about how much more would have fitted.
        """
        target = self._settings.claim_seconds
        if items < self._limit and seconds < target:
            return
        wanted = items * target / max(seconds, 1e-3)
        bounded = min(max(wanted, self._limit / 2), self._limit * 2)
        self._limit = max(1, min(round(bounded), self._settings.claim_limit))


def _ids(claims: Sequence[Claim]) -> list[int]:
    return [claim.id for claim in claims]
