"""A real Postgres 18 and a real Valkey 9, from wheels, for a machine that has neither.

On the first start initdb writes data.new, which is renamed when it is complete. What both share is
in cli/embedded_server.py. Knows nothing of tables or queues.
"""

import signal
from collections.abc import Mapping
from pathlib import Path

import psycopg
import redis
from psycopg import sql

from cli.embedded_server import HOST, SERVER_ENV, START_SECONDS, EmbeddedServer
from cli.paths import Home
from cli.processes import Command, Process, ProcessError
from cli.programs import postgres_programs, valkey_program

POSTGRES_MAJOR = "18"
#: Of the database and of its owner.
NAME = "weighbridge"


class EmbeddedPostgres(EmbeddedServer):
    """One database, `weighbridge`, owned by a superuser of the same name."""

    name = "postgres"

    def __init__(self, home: Home, *, options: Mapping[str, str] | None = None) -> None:
        """`options` are settings of postgresql.conf, as fsync=off for tests."""
        super().__init__(home, home.postgres)
        self.options = options or {}

    def _prepare(self) -> None:
        self.programs = postgres_programs(self.home, self.account)
        if not self.folder.data.exists():
            self._create()
        major = (self.folder.data / "PG_VERSION").read_text().strip()
        if major != POSTGRES_MAJOR:
            raise ProcessError(
                f"{self.folder.data} was written by Postgres {major}, and this is Postgres "
                f"{POSTGRES_MAJOR}. Dump it with the old version, or use another WEIGHBRIDGE_HOME."
            )
        self._forget_dead_postmaster()

    def _create(self) -> None:
        unfinished = self.folder.make("data.new")
        password = self.folder.path / "password"
        self.folder.password()
        initdb = Process(
            Command(
                name="initdb",
                argv=[self.programs / "initdb", *_initdb_options(unfinished, password)],
                env=SERVER_ENV,
                log=self.log,
                account=self.account,
            )
        )
        initdb.start()
        if initdb.wait(START_SECONDS) != 0:
            raise ProcessError("initdb could not make a database.", log=initdb.log_tail())
        unfinished.rename(self.folder.data)

    def _forget_dead_postmaster(self) -> None:
        """Postgres refuses to start while *any* process has the pid of its killed predecessor."""
        path = self.folder.data / "postmaster.pid"
        if path.exists():
            first, _, _ = path.read_text().partition("\n")
            if not first.isdigit() or not self.folder.is_our_server(int(first)):
                path.unlink()

    def _command(self, port: int) -> Command:
        settings = {
            "listen_addresses": HOST,
            "port": str(port),
            "unix_socket_directories": "",
            **self.options,
        }
        argv: list[str | Path] = [self.programs / "postgres", "-D", self.folder.data]
        for key, value in settings.items():
            argv += ["-c", f"{key}={value}"]
        return Command(
            name=self.name,
            argv=argv,
            env=SERVER_ENV,
            log=self.log,
            account=self.account,
            # Fast shutdown. SIGTERM would wait for the clients to leave.
            stop_signal=signal.SIGINT,
            death_signal=signal.SIGINT,
            stop_seconds=20.0,
        )

    def _url(self, port: int) -> str:
        return f"postgresql+psycopg://{NAME}:{self.folder.password()}@{HOST}:{port}/{NAME}"

    def _answers(self, port: int) -> bool:
        try:
            with psycopg.connect(
                host=HOST,
                port=port,
                user=NAME,
                password=self.folder.password(),
                dbname="postgres",
                autocommit=True,
                connect_timeout=5,
            ) as connection:
                _create_database(connection)
        except psycopg.OperationalError:
            return False
        return True


class EmbeddedValkey(EmbeddedServer):
    """Keeps what it acknowledged (append-only file) and never evicts: an evicted bell is lost."""

    name = "valkey"

    def __init__(self, home: Home) -> None:
        super().__init__(home, home.valkey)

    def _prepare(self) -> None:
        self.program = valkey_program(self.home, self.account)
        if not self.folder.data.exists():
            self.folder.make("data")

    def _command(self, port: int) -> Command:
        settings = {
            "bind": HOST,
            "port": str(port),
            "requirepass": self.folder.password(),
            "dir": f'"{self.folder.data}"',
            "appendonly": "yes",
            "save": '""',
            "maxmemory-policy": "noeviction",
            # A leftover is found by its command line.
            "set-proc-title": "no",
        }
        # In a file: everybody can read a command line.
        lines = "".join(f"{key} {value}\n" for key, value in settings.items())
        return Command(
            name=self.name,
            argv=[self.program, self.folder.write("valkey.conf", lines)],
            env=SERVER_ENV,
            log=self.log,
            account=self.account,
            death_signal=signal.SIGTERM,
        )

    def _url(self, port: int) -> str:
        return f"redis://:{self.folder.password()}@{HOST}:{port}/0"

    def _answers(self, port: int) -> bool:
        client = redis.Redis.from_url(self._url(port), socket_timeout=5)
        try:
            return bool(client.ping())
        except (redis.ConnectionError, redis.TimeoutError):
            return False
        finally:
            client.close()


def _initdb_options(folder: Path, password: Path) -> list[str]:
    return [
        f"--pgdata={folder}",
        f"--username={NAME}",
        f"--pwfile={password}",
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        "--locale=C",
        "--no-sync",
        "--no-instructions",
    ]


def _create_database(connection: psycopg.Connection) -> None:
    found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [NAME]).fetchone()
    if found is None:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(NAME)))
