"""Faults that a chaos run causes, and how each is healed. From the main thread: it starts processes."""

import contextlib
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import psutil
import psycopg
import redis

from cli.embedded import EmbeddedPostgres, EmbeddedValkey
from cli.processes import Process, ProcessError

#: Longer than a lease, so that a stopped worker wakes up to find its items taken.
_STOPPED_SECONDS = 8.0


class Member(Protocol):
    """A process of ours, or an embedded server."""

    @property
    def alive(self) -> bool: ...
    def start(self) -> object: ...


class Faults:
    """Causes random faults, and counts them by kind."""

    def __init__(
        self,
        *,
        postgres: EmbeddedPostgres,
        valkey: EmbeddedValkey,
        api: Process,
        workers: Sequence[Process],
        webhooks: Process,
        seed: int,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._postgres = postgres
        self._valkey = valkey
        self._api = api
        self._workers = workers
        self._webhooks = webhooks
        self._draw = random.Random(seed)  # noqa: S311 - not a secret
        self._stopped: dict[Process, float] = {}
        self._kinds: Mapping[str, Callable[[], bool]] = {
            "kill worker": lambda: _kill(self._any_worker().pid),
            "kill worker's child": self._kill_child,
            "stop worker": self._stop_worker,
            "kill api": lambda: _kill(self._api.pid),
            "kill webhook sender": lambda: _kill(self._webhooks.pid),
            "kill valkey": lambda: _kill(_pid(self._valkey)),
            "kill postgres": lambda: _kill(_pid(self._postgres)),
            "empty redis": self._empty_redis,
            "cut connections": self._cut_connections,
        }

    @property
    def kills(self) -> int:
        return sum(n for kind, n in self.counts.items() if kind.startswith("kill"))

    def cause_one(self) -> None:
        """Kills are half again as likely as the others."""
        kinds = list(self._kinds)
        weights = [3 if kind.startswith("kill") else 2 for kind in kinds]
        [kind] = self._draw.choices(kinds, weights)
        if self._kinds[kind]():
            self.counts[kind] += 1

    def heal(self, *, all_of_it: bool = False) -> None:
        """Start what is dead, and let go on what was stopped long enough."""
        for worker, until in list(self._stopped.items()):
            if all_of_it or time.monotonic() > until:
                del self._stopped[worker]
                worker.send(signal.SIGCONT)
        # Servers first: the others want them.
        members: list[Member] = [
            self._postgres,
            self._valkey,
            self._api,
            *self._workers,
            self._webhooks,
        ]
        for member in members:
            if not member.alive:
                with contextlib.suppress(ProcessError):
                    member.start()

    def _any_worker(self) -> Process:
        return self._draw.choice(self._workers)

    def _kill_child(self) -> bool:
        """Of a worker that reads in a child (prefork), the child alone."""
        for worker in self._workers:
            if worker.alive and worker.pid is not None:
                with contextlib.suppress(psutil.Error):
                    for child in psutil.Process(worker.pid).children():
                        # The resource tracker of multiprocessing is a child too, and no reader.
                        if "spawn_main" in " ".join(child.cmdline()):
                            return _kill(child.pid)
        return False

    def _stop_worker(self) -> bool:
        worker = self._any_worker()
        if not worker.alive or worker in self._stopped:
            return False
        worker.send(signal.SIGSTOP)
        self._stopped[worker] = time.monotonic() + _STOPPED_SECONDS
        return True

    def _empty_redis(self) -> bool:
        with (
            contextlib.suppress(redis.RedisError, AssertionError),
            redis.Redis.from_url(self._valkey.url, socket_timeout=2) as client,
        ):
            return bool(client.flushall())
        return False

    def _cut_connections(self) -> bool:
        with contextlib.suppress(psycopg.Error, AssertionError):
            url = self._postgres.url.replace("+psycopg", "")
            with psycopg.connect(url, connect_timeout=2, autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
                )
                return True
        return False


def _pid(server: EmbeddedPostgres | EmbeddedValkey) -> int | None:
    return server.process.pid if server.process else None


def _kill(pid: int | None) -> bool:
    """Whether there was anything to kill."""
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid) if pid else None
        if process and process.status() != psutil.STATUS_ZOMBIE:
            process.send_signal(signal.SIGKILL)
            return True
    return False
