"""The supervisor with real children that die, refuse to die, and leave children of their own."""

import io
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from cli.processes import Command, Process, ProcessError
from cli.supervisor import Supervisor, ending_on_signals, wait_until_healthy

SECONDS = 20

STUBBORN = """
import signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
print(child.pid, flush=True)
signal.pause()
"""

UP = """
import sys
from pathlib import Path
from cli.processes import Command, Process
from cli.supervisor import Supervisor, ending_on_signals
argv = [sys.executable, "-c", "import signal; print('ready', flush=True); signal.pause()"]
with ending_on_signals(), Supervisor() as supervisor:
    child = Process(Command(name="child", argv=argv, env={}, log=Path(sys.argv[1])))
    supervisor.start(child)
    print(child.pid, flush=True)
    supervisor.run()
"""


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def python(
    code: str, log: Path, *, name: str = "child", stop_seconds: float = SECONDS, argument: str = ""
) -> Process:
    argv = [sys.executable, "-c", code, argument]
    return Process(Command(name=name, argv=argv, env={}, log=log, stop_seconds=stop_seconds))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "child.log"


@pytest.fixture
def up(log: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that supervises one child, whose pid it prints."""
    with subprocess.Popen(
        [sys.executable, "-c", UP, str(log)], stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def child_of(up: "subprocess.Popen[str]", log: Path) -> psutil.Process:
    """Once it runs the program itself: before, the leash would notice a lost parent."""
    assert up.stdout is not None
    child = psutil.Process(int(up.stdout.readline()))
    wait_for_line(log)
    return child


def until_ended(process: Process) -> None:
    assert process.pid is not None
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


def test_a_dead_member_starts_again_after_pauses_that_double(log: Path) -> None:
    clock = Clock()
    with Supervisor(clock=clock) as supervisor:
        member = python("", log)
        supervisor.start(member)
        for pause in (0.5, 1.0, 2.0):
            until_ended(member)
            first = member.pid
            supervisor.tend()
            clock.now += pause - 0.01
            supervisor.tend()
            assert member.pid == first
            clock.now += 0.02
            supervisor.tend()
            assert member.pid != first


def test_a_calm_while_makes_the_pause_short_again(log: Path) -> None:
    clock = Clock()
    with Supervisor(clock=clock) as supervisor:
        member = python("", log)
        supervisor.start(member)
        for calm in (0.0, 61.0):
            until_ended(member)
            clock.now += calm
            supervisor.tend()
            first = member.pid
            clock.now += 0.51
            supervisor.tend()
            assert member.pid != first


def test_members_stop_in_reverse_order(tmp_path: Path) -> None:
    code = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(open(sys.argv[1], "a").write(sys.argv[2])))
print("ready", flush=True)
signal.pause()
"""
    stops = tmp_path / "stops"
    with Supervisor() as supervisor:
        for name in ("a", "b", "c"):
            log = tmp_path / name
            argv = [sys.executable, "-c", code, str(stops), name]
            supervisor.start(Process(Command(name=name, argv=argv, env={}, log=log)))
            wait_for_line(log)
    assert stops.read_text() == "cba"


def wait_for_line(log: Path) -> str:
    """`tail --follow` waits, so that the test need not sleep."""
    with subprocess.Popen(
        ["tail", "-n", "+1", "-f", log], stdout=subprocess.PIPE, text=True
    ) as tail:
        assert tail.stdout is not None
        line = tail.stdout.readline()
        tail.kill()
    return line


def test_a_member_that_ignores_sigterm_is_killed_with_its_children(log: Path) -> None:
    with Supervisor() as supervisor:
        member = python(STUBBORN, log, stop_seconds=0.2)
        supervisor.start(member)
        grandchild = psutil.Process(int(wait_for_line(log)))
    assert member.exit_code == -signal.SIGKILL
    assert psutil.wait_procs([grandchild], timeout=SECONDS)[1] == []


def test_a_member_that_fails_to_start_stops_the_others(log: Path) -> None:
    first = python("import signal; signal.pause()", log)

    def enter() -> None:
        with Supervisor() as supervisor:
            supervisor.start(first)
            supervisor.start(Broken(Command(name="b", argv=["/b"], env={}, log=log)))

    with pytest.raises(ProcessError, match="never"):
        enter()
    assert not first.alive


class Broken(Process):
    def start(self) -> None:
        raise ProcessError("never")


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGHUP, 128 + signal.SIGHUP)],
)
def test_a_signal_ends_the_supervisor_and_its_child(
    up: "subprocess.Popen[str]", log: Path, number: signal.Signals, code: int
) -> None:
    child = child_of(up, log)
    up.send_signal(number)
    assert up.wait(SECONDS) == code
    assert not child.is_running()


def test_ctrl_c_ends_the_supervisor_and_its_child(log: Path) -> None:
    # Started as a shell starts `command &`: with SIGINT ignored.
    with subprocess.Popen(
        ["sh", "-c", f'trap "" INT; exec "{sys.executable}" -c "$0" "$1"', UP, log],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as up:
        child = child_of(up, log)
        up.send_signal(signal.SIGINT)
        assert up.wait(SECONDS) == -signal.SIGINT
        assert not child.is_running()


def test_kill_9_of_the_supervisor_ends_its_child(up: "subprocess.Popen[str]", log: Path) -> None:
    child = child_of(up, log)
    up.kill()
    assert psutil.wait_procs([child], timeout=SECONDS)[1] == []


def test_echo_shows_whole_lines_with_the_members_name(log: Path) -> None:
    log.write_text("of yesterday\n")
    echo = io.StringIO()
    with Supervisor(echo=echo) as supervisor:
        member = python("print('one'); print('two', end='')", log, name="api")
        supervisor.start(member)
        until_ended(member)
        supervisor.tend()
        assert echo.getvalue() == "api      | one\n"


def test_the_log_tail_is_of_this_start_only(log: Path) -> None:
    log.write_text("of yesterday\n")
    process = python("print('a\\nb\\nc')", log)
    process.start()
    assert process.wait(SECONDS) == 0
    assert process.log_tail(2) == "b\nc"
    assert "yesterday" not in process.log_tail()


def test_a_long_log_is_put_aside(log: Path) -> None:
    log.write_bytes(b"x" * (10 * 1024 * 1024 + 1))
    process = python("print('new')", log)
    process.start()
    process.wait(SECONDS)
    assert log.read_text() == "new\n"
    assert log.with_name("child.log.1").stat().st_size > 10 * 1024 * 1024


def test_a_process_that_ends_before_it_is_healthy_is_named_with_its_log(log: Path) -> None:
    process = python("raise SystemExit('no port')", log, name="api")
    process.start()
    with pytest.raises(ProcessError, match=r"(?s)api ended with code 1 while starting.*no port"):
        wait_until_healthy(process, f"http://127.0.0.1:{closed_port()}/readyz", seconds=SECONDS)
    process.stop()


def test_a_process_that_stays_unready_is_named_with_its_last_answer(log: Path) -> None:
    server = f"""
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(503); self.end_headers(); self.wfile.write(b"database: refused")
server = HTTPServer(("127.0.0.1", {(port := closed_port())}), Handler)
print("ready", flush=True)
server.serve_forever()
"""
    process = python(server, log, name="api")
    process.start()
    wait_for_line(log)
    with pytest.raises(ProcessError, match=r"(?s)not healthy.*HTTP 503.*database: refused"):
        wait_until_healthy(process, f"http://127.0.0.1:{port}/readyz", seconds=0.1)
    process.stop()


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_handlers_are_given_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with ending_on_signals():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
