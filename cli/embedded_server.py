"""What the embedded Postgres and Valkey have in common: starting until a client is answered.

Loopback only, a password each, no unix socket. Data lives in the home's folder and survives
restarts and kill -9. A server ends with us, whatever ends us. As root it runs as nobody. Start
from the main thread (cli/processes.py).
"""

import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Self

from cli.data_folder import DataFolder
from cli.paths import Home, server_account
from cli.processes import Command, Process, ProcessError

HOST = "127.0.0.1"
#: Seconds from the start of a server to its first answer; covers recovery after a crash.
START_SECONDS = 60.0
#: What a server of the previous moment leaves for a short while: its port, its shared memory.
PASSING_TROUBLES = ("Address already in use", "pre-existing shared memory block")
#: The servers' whole environment: nothing of the user's, as PGDATA, steers them.
SERVER_ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"}


class EmbeddedServer(ABC):
    """Start, url, stop; a second start after the server died keeps port and url."""

    name: str

    def __init__(self, home: Home, folder: Path) -> None:
        self.home = home
        self.account = server_account()
        self.folder = DataFolder(folder, self.account)
        self.process: Process | None = None
        self._port: int | None = None

    @property
    def log(self) -> Path:
        return self.home.logs / f"{self.name}.log"

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.alive

    @property
    def exit_code(self) -> int | None:
        return self.process.exit_code if self.process else None

    def start(self) -> str:
        """Returns the url once the server answers. Raises ProcessError with the end of its log."""
        assert not self.alive
        self.home.make()
        self.folder.open()
        try:
            self._prepare()
            self._port = self._launch_patiently()
        except BaseException:
            self.stop()
            raise
        return self._url(self._port)

    def stop(self) -> None:
        if self.process:
            self.process.stop()
        self.folder.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        assert self._port is not None, "not started"
        return self._url(self._port)

    @abstractmethod
    def _prepare(self) -> None:
        """Makes the data folder fit to start on."""

    @abstractmethod
    def _command(self, port: int) -> Command: ...

    @abstractmethod
    def _url(self, port: int) -> str: ...

    @abstractmethod
    def _answers(self, port: int) -> bool:
        """Whether a client can work with the server now."""

    def _launch_patiently(self) -> int:
        deadline = time.monotonic() + START_SECONDS
        while True:
            port = self._port or self.folder.port()
            try:
                self._launch(port, deadline)
            except ProcessError as error:
                passing = any(trouble in error.log for trouble in PASSING_TROUBLES)
                if not passing or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            else:
                return port

    def _launch(self, port: int, deadline: float) -> None:
        self.process = Process(self._command(port))
        self.process.start()
        assert self.process.pid is not None
        self.folder.remember(self.process.pid)
        while not self._answers(port):
            if not self.process.alive:
                raise self._failure(f"ended with code {self.process.exit_code} while starting")
            if time.monotonic() > deadline:
                raise self._failure(f"did not answer within {START_SECONDS:.0f} s")
            time.sleep(0.02)

    def _failure(self, what: str) -> ProcessError:
        assert self.process is not None
        tail = self.process.log_tail()
        return ProcessError(f"The embedded {self.name} {what}; its log is {self.log}.", log=tail)
