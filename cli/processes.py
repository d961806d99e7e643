"""One child process: started on a leash, its output in a file, stopped within a bounded time.

A child dies with us, also when we are killed with -9 (cli/leash.py). It leads its own process
group, so Ctrl-C in the terminal reaches only us, and whatever it leaves behind is killed by group.
Knows nothing of what the programs do.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from cli.paths import Account

LEASH = Path(__file__).with_name("leash.py")
#: A log longer than this is put aside as NAME.log.1 when the process starts.
LOG_LIMIT = 10 * 1024 * 1024


class ProcessError(Exception):
    """A process of Weighbridge failed."""

    def __init__(self, message: str = "", *, log: str = "") -> None:
        self.message = message or self.__doc__ or ""
        self.log = log
        super().__init__(f"{self.message}\n{indented(log)}" if log else self.message)


@dataclass(frozen=True, kw_only=True)
class Command:
    """What to run, and how it ends."""

    #: Short name for logs and messages.
    name: str
    #: Program (absolute path) and arguments.
    argv: Sequence[str | Path]
    #: The whole environment; nothing is inherited.
    env: Mapping[str, str]
    #: Output and errors are appended here.
    log: Path
    #: User to run as; None stays as we are.
    account: Account | None = None
    #: Asks the program to end in order.
    stop_signal: signal.Signals = signal.SIGTERM
    #: Sent by the kernel when we die without a word.
    death_signal: signal.Signals = signal.SIGKILL
    #: Seconds from the stop signal to SIGKILL.
    stop_seconds: float = 10.0


class Process:
    """Runs one Command; may be started again after it ended."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self._popen: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def name(self) -> str:
        return self.command.name

    @property
    def log(self) -> Path:
        return self.command.log

    @property
    def pid(self) -> int | None:
        return self._popen.pid if self._popen else None

    @property
    def alive(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    @property
    def exit_code(self) -> int | None:
        return self._popen.poll() if self._popen else None

    def start(self) -> None:
        """Must be called from the main thread: the kernel ends a child with the thread that made it."""
        assert threading.current_thread() is threading.main_thread()
        assert not self.alive
        with open_log(self.command.log) as log:
            self._log_start = log.seek(0, os.SEEK_END)
            self._popen = subprocess.Popen(  # noqa: S603 - the commands are ours
                self._argv(),
                env=dict(self.command.env),
                cwd="/" if self.command.account else None,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def stop(self) -> None:
        """Asks, waits, then kills the whole group. An interrupt while waiting kills at once."""
        if self._popen is None:
            return
        try:
            self.send(self.command.stop_signal)
            self._popen.wait(self.command.stop_seconds)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self._kill_group()
            self._popen.wait()

    def wait(self, seconds: float) -> int | None:
        """The exit code; None, with the process stopped, when it takes longer."""
        assert self._popen is not None
        try:
            return self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            self.stop()

    def send(self, number: signal.Signals) -> None:
        if self._popen is not None:
            self._popen.send_signal(number)

    def log_tail(self, lines: int = 20) -> str:
        """The last lines that this start of the program wrote."""
        with self.command.log.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_start, end - 64 * 1024))
            text = log.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def _argv(self) -> list[str]:
        account = self.command.account
        user = [str(account.uid), str(account.gid)] if account else ["-", "-"]
        leash = [sys.executable, "-I", "-S", str(LEASH), str(os.getpid())]
        leash += [str(int(self.command.death_signal)), *user]
        return leash + [str(part) for part in self.command.argv]

    def _kill_group(self) -> None:
        assert self._popen is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, signal.SIGKILL)


def open_log(path: Path) -> BinaryIO:
    """For appending; a long log is put aside first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > LOG_LIMIT:
        path.replace(path.with_name(path.name + ".1"))
    return path.open("ab")


def indented(text: str) -> str:
    return "\n".join(f"  | {line}" for line in text.splitlines())
