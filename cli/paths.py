"""Where an embedded Weighbridge keeps its files, and as whom its servers run.

Layout of a home: postgres/, valkey/ (data, password, port of each server), runtime/ (a copy of the
server programs, only where the installed ones cannot be read), logs/ (one file per process).
Knows nothing of processes or of settings other than WEIGHBRIDGE_HOME and XDG_DATA_HOME.
"""

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT_HOME = Path("/var/lib/weighbridge")


@dataclass(frozen=True, kw_only=True)
class Account:
    """The user a server runs as."""

    #: Numeric user id.
    uid: int
    #: Numeric group id; other groups are dropped.
    gid: int


@dataclass(frozen=True, kw_only=True)
class Home:
    """One folder that holds everything of one embedded Weighbridge."""

    #: Absolute path; need not exist yet.
    path: Path

    def make(self) -> None:
        """Makes the folder, open to root's servers whatever the umask; one that exists stays as it is."""
        if not self.path.exists():
            self.path.mkdir(parents=True)
            self.path.chmod(0o711)

    @property
    def postgres(self) -> Path:
        return self.path / "postgres"

    @property
    def valkey(self) -> Path:
        return self.path / "valkey"

    @property
    def logs(self) -> Path:
        return self.path / "logs"


def find_home(env: Mapping[str, str]) -> Home:
    """WEIGHBRIDGE_HOME, else /var/lib/weighbridge for root, else the XDG data folder."""
    if chosen := env.get("WEIGHBRIDGE_HOME"):
        return Home(path=Path(chosen).expanduser().absolute())
    if os.geteuid() == 0:
        return Home(path=ROOT_HOME)
    data = Path(env.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return Home(path=data.absolute() / "weighbridge")


def server_account() -> Account | None:
    """Postgres refuses to run as root, so root's servers run as nobody; others run as themselves."""
    if os.geteuid() != 0:
        return None
    nobody = pwd.getpwnam("nobody")
    return Account(uid=nobody.pw_uid, gid=nobody.pw_gid)


def closed_folder(path: Path, account: Account | None) -> Path | None:
    """The first folder on the way to `path` that `account` may not enter, if there is one."""
    if account is None:
        return None
    for folder in [*reversed(path.parents), path]:
        if folder.is_dir() and not _may_enter(folder, account):
            return folder
    return None


def _may_enter(folder: Path, account: Account) -> bool:
    status = folder.stat()
    if status.st_uid == account.uid:
        return bool(status.st_mode & 0o100)
    if status.st_gid == account.gid:
        return bool(status.st_mode & 0o010)
    return bool(status.st_mode & 0o001)
