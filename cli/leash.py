"""Become another program, as another user, and end when the parent ends.

Run as a script: `python -I -S leash.py PARENT SIGNAL UID GID PROGRAM ARGUMENT...`, where UID and GID
are `-` to stay as we are. The kernel sends SIGNAL to the program when the *thread* that started
it ends, even by kill -9 (Linux only; elsewhere the program outlives a killed parent). Imports
nothing of ours, so that it starts in milliseconds and as any user.

Does the work of `setpriv --reuid --regid --clear-groups --pdeathsig`, which small images lack,
and closes its gap: a parent that died before the kernel was asked is noticed.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> None:
    parent, death_signal, uid, gid, *program = argv
    if uid != "-":
        _become(int(uid), int(gid))
    _reset_signals()
    # After the change of user: the kernel forgets the death signal at that moment.
    _die_with_parent(int(death_signal))
    if os.getppid() != int(parent):
        sys.exit("the parent process is gone")
    os.execv(program[0], program)  # noqa: S606 - a shell would be one more process to lose


def _become(uid: int, gid: int) -> None:
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def _reset_signals() -> None:
    """Python and a shell's `&` ignore some signals, and exec would pass that on."""
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)


def _die_with_parent(death_signal: int) -> None:
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    main(sys.argv[1:])
