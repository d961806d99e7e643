"""The whole of it: real servers, a real API process, real worker processes."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from cli.client import Client
from cli.paths import Home
from cli.processes import Command, Process
from cli.stack import Stack, start_stack
from cli.supervisor import Supervisor
from decisions.database import sync_engine, transaction
from engine.tiny import save_tiny_model
from workers.settings import default_cache

SECONDS = 240.0


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights that read in no time, with the default model's tokenizer and template."""
    folder = tmp_path_factory.mktemp("tiny-model")
    save_tiny_model(folder, cache_dir=default_cache())
    return folder


class Running:
    """A stack that a test may look into and do harm to."""

    def __init__(
        self, stack: Stack, supervisor: Supervisor, home: Home, env: dict[str, str]
    ) -> None:
        self.stack = stack
        self.supervisor = supervisor
        self.client = Client(stack.address)
        self._home = home
        self._env = env
        self.database = sync_engine(stack.database_url)

    def add_worker(self, argv: Sequence[str] | None = None, **settings: str) -> Process:
        worker = Process(
            Command(
                name="worker-2",
                argv=argv or self.stack.worker.command.argv,
                env={**self.stack.worker.command.env, **settings},
                log=self._home.logs / "worker-2.log",
            )
        )
        self.supervisor.start(worker)
        return worker

    def rows(self, sql: str, **parameters: Any) -> list[Any]:
        with transaction(self.database) as connection:
            return list(connection.execute(text(sql), parameters))

    def wait(
        self, what: str, until: Callable[[], Any], seconds: float = SECONDS, *, tend: bool = True
    ) -> Any:
        """Poll until `until` returns something true, restarting members that died meanwhile."""
        deadline = time.monotonic() + seconds
        while not (found := until()):
            assert time.monotonic() < deadline, (
                f"{what} did not happen in {seconds:.0f} s\n{self.logs()}"
            )
            if tend:
                self.supervisor.tend()
            time.sleep(0.05)
        return found

    def finished(self, batch_id: str) -> dict[str, Any]:
        def final() -> dict[str, Any] | None:
            batch: dict[str, Any] = self.client.get(f"/v1/batches/{batch_id}")
            return batch if batch["status"] not in ("in_progress", "cancelling") else None

        found: dict[str, Any] = self.wait(f"the end of {batch_id}", final)
        return found

    def logs(self) -> str:
        tails = (f.read_text(errors="replace")[-2000:] for f in self._home.logs.glob("*.log"))
        return "\n---\n".join(tails)

    def close(self) -> None:
        self.client._http.close()
        self.database.dispose()


@pytest.fixture
def start(database_url: str, redis_url: str, home: Home) -> Iterator[Callable[..., Running]]:
    """Starts API and worker on the session's servers; `model` is a folder or "default"."""
    running: list[Running] = []
    with Supervisor() as supervisor:

        def make(model: Path | str, **settings: str) -> Running:
            env = {
                "PATH": os.environ["PATH"],
                "HOME": os.environ.get("HOME", "/"),
                "OMP_WAIT_POLICY": "PASSIVE",
                "DATABASE_URL": database_url,
                "REDIS_URL": redis_url,
                "WEIGHBRIDGE_MODEL": str(model),
                "WEIGHBRIDGE_CACHE": str(default_cache()),
                **settings,
            }
            stack = start_stack(supervisor, home, env, port=0, say=lambda _: None)
            running.append(Running(stack, supervisor, home, env))
            return running[-1]

        yield make
        for one in running:
            one.close()
