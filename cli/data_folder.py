"""The folder of one embedded server: its owner, its lock, its password and port, and leftovers.

Layout: lock (who uses it), pid (the server), password (mode 0600), port, data/. Knows
neither Postgres nor Valkey.
"""

import fcntl
import os
import secrets
import shutil
import signal
import socket
import time
from pathlib import Path

from cli.paths import Account, closed_folder
from cli.processes import ProcessError

#: Seconds a server left behind by a killed parent gets to end before it is killed.
LEFTOVER_SECONDS = 10.0


class FolderInUseError(ProcessError):
    """Another process uses this data folder."""

    def __init__(self, folder: Path, pid: str) -> None:
        self.folder = folder
        self.pid = pid
        super().__init__(
            f"{folder} is in use by process {pid}. "
            "Stop that process, or set WEIGHBRIDGE_HOME to another folder."
        )


class DataFolder:
    """Holds the lock from `open` to `close`; the kernel frees it when we die."""

    def __init__(self, path: Path, account: Account | None) -> None:
        self.path = path.absolute()
        self.account = account
        self._lock: int | None = None

    @property
    def data(self) -> Path:
        return self.path / "data"

    def open(self) -> None:
        """Makes the folder, locks it, and ends a server that a killed parent left in it.

        Does nothing when it is open. Raises FolderInUseError, and ProcessError where the server's user cannot reach the folder.
        """
        if self._lock is not None:
            return
        self.path.mkdir(parents=True, exist_ok=True)
        if closed := closed_folder(self.path.parent, self.account):
            raise ProcessError(
                f"The user nobody, as whom root's servers run, may not enter {closed}. "
                "Set WEIGHBRIDGE_HOME to a folder that everybody may enter."
            )
        # Stays ours: a server's user that could plant links here would steer what root writes.
        self.path.chmod(0o711 if self.account else 0o700)
        self._take_lock()
        self._end_leftover()

    def close(self) -> None:
        if self._lock is not None:
            (self.path / "pid").unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None

    def give(self, path: Path, mode: int) -> None:
        """Sets the mode and hands the path to the server's user."""
        path.chmod(mode)
        if self.account:
            os.chown(path, self.account.uid, self.account.gid)

    def write(self, name: str, text: str) -> Path:
        """A file that only the server's user (and root) can read, from its first byte on."""
        path = self.path / name
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            self.give(path, 0o600)
            file.write(text)
        return path

    def make(self, name: str) -> Path:
        """An empty folder for the server; what an interrupted start left in it is removed."""
        path = self.path / name
        if path.exists():
            shutil.rmtree(path)
        path.mkdir()
        self.give(path, 0o700)
        return path

    def password(self) -> str:
        path = self.path / "password"
        if not path.exists():
            self.write("password", secrets.token_urlsafe(24))
        return path.read_text()

    def port(self) -> int:
        """The port of last time while it is free, else a new one, which is kept."""
        path = self.path / "port"
        if path.exists() and (kept := path.read_text()).isdigit() and _is_free(int(kept)):
            return int(kept)
        port = _free_port()
        self.write("port", str(port))
        return port

    def remember(self, pid: int) -> None:
        self.write("pid", str(pid))

    def is_our_server(self, pid: int) -> bool:
        """Whether that process was started on this folder: pids are used again."""
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False
        return os.fsencode(self.path) + b"/" in command

    def _take_lock(self) -> None:
        lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(lock, 32).decode() or "unknown"
            os.close(lock)
            raise FolderInUseError(self.path, holder) from None
        os.truncate(lock, 0)
        os.write(lock, str(os.getpid()).encode())
        self._lock = lock

    def _end_leftover(self) -> None:
        """We hold the lock, so a server that still runs here has lost its parent."""
        path = self.path / "pid"
        if not path.exists() or not (text := path.read_text()).isdigit():
            return
        pid, deadline = int(text), time.monotonic() + LEFTOVER_SECONDS
        while self.is_our_server(pid):
            late = time.monotonic() > deadline
            try:
                # To Postgres SIGINT means: end now, in order. Valkey takes it as SIGTERM.
                os.kill(pid, signal.SIGKILL if late else signal.SIGINT)
            except ProcessLookupError:
                return
            time.sleep(0.1)
        path.unlink()


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As the servers do: a port in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
