"""Embedded servers against every way a parent ends: in order, by an exception, by kill -9."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import psutil
import psycopg
import pytest
import redis

from cli.data_folder import FolderInUseError
from cli.embedded import EmbeddedPostgres, EmbeddedValkey
from cli.paths import Home
from cli.processes import ProcessError

SECONDS = 20
#: These tests end processes, not the machine.
FAST = {"fsync": "off"}

PARENT = """
import sys
from pathlib import Path
from cli.embedded import EmbeddedPostgres, EmbeddedValkey
from cli.paths import Home
home = Home(path=Path(sys.argv[1]))
with EmbeddedPostgres(home) as postgres, EmbeddedValkey(home) as valkey:
    print(postgres.process.pid, valkey.process.pid, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def parent(home: Home) -> Iterator["subprocess.Popen[str]"]:
    """Another process that runs both servers on `home` until its input ends."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(home.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


def servers_of(parent: "subprocess.Popen[str]") -> list[psutil.Process]:
    assert parent.stdout is not None
    return [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]


def finish(parent: "subprocess.Popen[str]") -> None:
    parent.communicate(timeout=SECONDS)


def connect(server: EmbeddedPostgres) -> "psycopg.Connection[tuple[object, ...]]":
    return psycopg.connect(server.url.replace("+psycopg", ""), autocommit=True)


def client(server: EmbeddedValkey) -> redis.Redis:
    return redis.Redis.from_url(server.url)


def test_rows_and_url_survive_a_restart(home: Home) -> None:
    with EmbeddedPostgres(home, options=FAST) as server, connect(server) as connection:
        url = server.url
        connection.execute("CREATE TABLE kept AS SELECT 1 AS n")
    with EmbeddedPostgres(home, options=FAST) as server, connect(server) as connection:
        assert connection.execute("SELECT n FROM kept").fetchone() == (1,)
        assert server.url == url


def test_it_is_postgres_18_with_utf8_and_scram_on_loopback_only(postgres: EmbeddedPostgres) -> None:
    with connect(postgres) as connection:
        shown = [
            connection.execute(f"SHOW {name}").fetchone()
            for name in ("listen_addresses", "unix_socket_directories", "server_encoding")
        ]
        methods = connection.execute("SELECT DISTINCT auth_method FROM pg_hba_file_rules")
        assert methods.fetchall() == [("scram-sha-256",)]
        assert connection.info.server_version // 10000 == 18
    assert shown == [("127.0.0.1",), ("",), ("UTF8",)]


@pytest.mark.parametrize("server", [EmbeddedPostgres, EmbeddedValkey])
def test_only_the_servers_user_reads_the_password(
    home: Home, server: type[EmbeddedPostgres | EmbeddedValkey]
) -> None:
    with server(home) as running:
        for name in ("password", "port", "pid"):
            assert (running.folder.path / name).stat().st_mode & 0o077 == 0
        assert running.process is not None
        password = running.folder.password()
        assert password not in " ".join(psutil.Process(running.process.pid).cmdline())


def test_valkey_wants_the_password(valkey: EmbeddedValkey) -> None:
    without = redis.Redis.from_url(valkey.url.replace(valkey.folder.password(), "wrong"))
    with closing(without), pytest.raises(redis.AuthenticationError):
        without.ping()


def test_valkey_never_evicts_and_appends_to_disk(valkey: EmbeddedValkey) -> None:
    with closing(client(valkey)) as connection:
        assert connection.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert connection.config_get("appendonly") == {"appendonly": "yes"}


def test_valkey_keeps_what_it_acknowledged_when_it_is_killed(home: Home) -> None:
    with EmbeddedValkey(home) as server:
        with closing(client(server)) as connection:
            connection.rpush("bells", *range(500))
        assert server.process is not None
        url = server.url
        server.process.send(signal.SIGKILL)
        assert server.process.wait(SECONDS) == -signal.SIGKILL
        assert server.start() == url
        with closing(client(server)) as connection:
            assert connection.llen("bells") == 500


def test_kill_9_of_the_parent_leaves_no_orphan(parent: "subprocess.Popen[str]") -> None:
    servers = servers_of(parent)
    family = servers + [child for server in servers for child in server.children(recursive=True)]
    parent.kill()
    finish(parent)
    gone, alive = psutil.wait_procs(family, timeout=SECONDS)
    assert alive == []
    assert len(gone) > len(servers), "Postgres has processes of its own"


def test_kill_9_of_the_parent_is_followed_by_a_start_at_once(
    home: Home, parent: "subprocess.Popen[str]"
) -> None:
    servers = servers_of(parent)
    parent.kill()
    finish(parent)
    with EmbeddedPostgres(home, options=FAST) as server, connect(server) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert psutil.wait_procs(servers, timeout=SECONDS)[1] == []


def test_a_second_user_of_the_folder_is_told_who_has_it(
    home: Home, parent: "subprocess.Popen[str]"
) -> None:
    servers_of(parent)
    for server in (EmbeddedPostgres(home), EmbeddedValkey(home)):
        with pytest.raises(FolderInUseError, match=f"in use by process {parent.pid}"):
            server.start()
    finish(parent)


def test_a_killed_postmasters_pid_that_another_process_has_now_is_no_obstacle(home: Home) -> None:
    with EmbeddedPostgres(home, options=FAST) as server:
        pass
    # As after kill -9 and a reuse of the pid: our own pid is alive and belongs to no server.
    postmaster = server.folder.data / "postmaster.pid"
    postmaster.write_text(f"{os.getpid()}\n{server.folder.data}\n")
    (server.folder.path / "pid").write_text(str(os.getpid()))
    with EmbeddedPostgres(home, options=FAST) as again:
        assert again.alive


@pytest.mark.parametrize("server", [EmbeddedPostgres, EmbeddedValkey])
def test_a_taken_port_is_replaced(
    home: Home, server: type[EmbeddedPostgres | EmbeddedValkey], valkey: EmbeddedValkey
) -> None:
    with server(home) as running:
        taken = valkey.url.rpartition(":")[2].removesuffix("/0")
        running.stop()
        (running.folder.path / "port").write_text(taken)
    with server(home) as running:
        assert f":{taken}/" not in running.url


def test_a_failed_start_shows_what_the_server_said_and_leaves_the_folder_free(home: Home) -> None:
    broken = EmbeddedPostgres(home, options={"shared_buffers": "much"})
    with pytest.raises(ProcessError, match='invalid value for parameter "shared_buffers"'):
        broken.start()
    with EmbeddedPostgres(home, options=FAST) as server:
        assert server.alive


def test_an_interrupted_first_start_is_begun_anew(home: Home) -> None:
    unfinished = home.postgres / "data.new" / "base"
    unfinished.mkdir(parents=True)
    with EmbeddedPostgres(home, options=FAST) as server:
        assert server.alive
    assert not unfinished.exists()


def test_data_of_another_major_version_is_refused_by_name(home: Home) -> None:
    with EmbeddedPostgres(home, options=FAST) as server:
        pass
    (server.folder.data / "PG_VERSION").write_text("17\n")
    with pytest.raises(ProcessError, match="written by Postgres 17"):
        EmbeddedPostgres(home).start()


def test_a_strict_umask_does_not_lock_the_servers_out(home: Home) -> None:
    before = os.umask(0o077)
    try:
        with EmbeddedPostgres(Home(path=home.path / "new")) as server:
            assert server.alive
    finally:
        os.umask(before)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs its servers as another user")
def test_a_home_that_roots_servers_cannot_enter_is_named(home: Home) -> None:
    home.path.chmod(0o700)
    with pytest.raises(ProcessError, match=f"may not enter {home.path}"):
        EmbeddedPostgres(home).start()
