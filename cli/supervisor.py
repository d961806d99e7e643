"""Keeps several processes running together, and ends them together.

Members start one by one, a member that dies is started again with a growing pause, and all are
stopped in reverse order. Works from the main thread alone, without threads: whoever waits calls
`tend` now and then, or `run`. Knows nothing of what its members do.
"""

import contextlib
import logging
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self, TextIO, TypeVar

import httpx2

from cli.processes import Process, ProcessError, indented

logger = logging.getLogger(__name__)

#: Seconds before the first restart; doubles up to the longest, starts anew after a calm while.
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
CALM_SECONDS = 60.0
TEND_SECONDS = 0.2

Started = TypeVar("Started", covariant=True)
T = TypeVar("T")


class Member(Protocol[Started]):
    """A Process or an EmbeddedServer."""

    @property
    def name(self) -> str: ...
    @property
    def log(self) -> Path: ...
    @property
    def alive(self) -> bool: ...
    @property
    def exit_code(self) -> int | None: ...
    def start(self) -> Started: ...
    def stop(self) -> None: ...


@dataclass
class _Post:
    """A member and its record."""

    member: Member[object]
    #: When it was last started, and how long to wait before the next start.
    started: float
    pause: float = FIRST_PAUSE
    #: When to start it again; None while it runs.
    due: float | None = None
    #: How much of its log has been shown.
    shown: int = 0


class Supervisor:
    """A context: leaving it stops every member, also when one of the stops is interrupted."""

    def __init__(
        self, *, echo: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`echo` gets every line of every log from now on, with the member's name before it."""
        self._echo = echo
        self._clock = clock
        self._posts: list[_Post] = []
        self._stops = contextlib.ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, member: Member[T]) -> T:
        """Starts a member and keeps it running from now on; returns what its start returns."""
        shown = member.log.stat().st_size if member.log.exists() else 0
        self._stops.callback(member.stop)
        result = member.start()
        self._posts.append(_Post(member=member, started=self._clock(), shown=shown))
        return result

    @property
    def members(self) -> Sequence[Member[object]]:
        """In the order of their starts."""
        return [post.member for post in self._posts]

    def tend(self) -> None:
        """Shows new log lines and starts again who died. Never waits, but for a server's start."""
        for post in self._posts:
            self._show(post)
            if not post.member.alive:
                self._revive(post)

    def run(self) -> None:
        """Tends until an exception ends it: KeyboardInterrupt, or what `ending_on_signals` raises."""
        while True:
            self.tend()
            time.sleep(TEND_SECONDS)

    def stop(self) -> None:
        """In reverse order of the starts; each within its own stop_seconds."""
        self._stops.close()
        for post in self._posts:
            self._show(post)
        self._posts.clear()

    def _revive(self, post: _Post) -> None:
        now = self._clock()
        if post.due is None:
            calm = now - post.started > CALM_SECONDS
            post.pause = FIRST_PAUSE if calm else post.pause
            post.due = now + post.pause
            self._say_ended(post)
        elif now >= post.due:
            post.pause = min(post.pause * 2, LONGEST_PAUSE)
            post.started, post.due = now, None
            try:
                post.member.start()
            except ProcessError as error:
                logger.warning("%s", error, extra={"action": "restart_failed"})

    def _say_ended(self, post: _Post) -> None:
        member = post.member
        logger.warning(
            "%s ended with code %s; it starts again in %.1f s; its log is %s",
            *(member.name, member.exit_code, post.pause, member.log),
            extra={"action": "member_ended", "member": member.name},
        )

    def _show(self, post: _Post) -> None:
        if self._echo is None or not post.member.log.exists():
            return
        with post.member.log.open("rb") as log:
            if post.member.log.stat().st_size < post.shown:
                post.shown = 0
            log.seek(post.shown)
            text = log.read()
        complete = text[: text.rfind(b"\n") + 1]
        post.shown += len(complete)
        for line in complete.decode(errors="replace").splitlines():
            self._echo.write(f"{post.member.name:<8} | {line}\n")


def wait_until_healthy(process: Process, url: str, *, seconds: float) -> None:
    """Returns once `url` answers 200. Raises ProcessError with the process's log otherwise."""
    deadline = time.monotonic() + seconds
    # Not through a proxy that the environment names: the address is on this machine.
    with httpx2.Client(trust_env=False, timeout=5.0) as client:
        while True:
            answer = _ask(client, url)
            if answer == "200":
                return
            if not process.alive:
                trouble = f"{process.name} ended with code {process.exit_code} while starting"
                raise ProcessError(trouble, log=process.log_tail())
            if time.monotonic() > deadline:
                trouble = f"{process.name} was not healthy within {seconds:.0f} s ({answer})"
                raise ProcessError(trouble, log=process.log_tail())
            time.sleep(0.05)


def _ask(client: httpx2.Client, url: str) -> str:
    try:
        response = client.get(url)
    except httpx2.HTTPError as error:
        return f"{type(error).__name__}: {error}"
    if response.status_code == 200:
        return "200"
    return f"HTTP {response.status_code}\n{indented(response.text[:1000])}"


@contextlib.contextmanager
def ending_on_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end the process in order (SystemExit), as Ctrl-C does.

    SIGINT is set too: a shell's `&` starts programs with it ignored. A SIGHUP that is ignored
    (nohup) stays so.
    """
    handlers: dict[signal.Signals, signal.Handlers | Callable[..., object]] = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: _exit,
    }
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        handlers[signal.SIGHUP] = _exit
    previous = {number: signal.signal(number, handlers[number]) for number in handlers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _exit(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)
