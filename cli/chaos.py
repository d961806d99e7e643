"""`weighbridge chaos`: kill everything that can be killed while clients submit, then check the promise."""

import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Annotated, Any

import typer
from rich.table import Table
from sqlalchemy import Engine

from cli.chaos_clients import Books, SubmittingClient
from cli.chaos_faults import Faults
from cli.chaos_receiver import Receiver, listening
from cli.embedded import EmbeddedPostgres, EmbeddedValkey
from cli.output import JsonOption, notes, out, print_json, reporting
from cli.paths import Home
from cli.processes import Command, Process, ProcessError
from cli.stack import Stack, start_stack
from cli.supervisor import Supervisor, ending_on_signals
from decisions import invariants
from decisions.database import sync_engine, transaction
from decisions.ids import BATCH, uuid_of

_CLIENTS = 4
_DRAIN_SECONDS = 600.0

#: A delivery that failed twice waits for five minutes, by the specification's schedule.
_WEBHOOK_SECONDS = 400.0


def chaos(
    items: Annotated[int, typer.Option(help="Items to submit in all.", min=1)] = 1000,
    seconds: Annotated[float, typer.Option(help="How long faults go on.", min=1)] = 60,
    seed: Annotated[int, typer.Option(help="Of faults and clients; 0 takes a new one.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Kill workers, API, Valkey and Postgres while clients submit, then check that nothing was lost.

    Runs a private stack in a temporary folder, with a tiny model of random weights: it is about the
    queue, not about answers. Every 202 that a client got must be an item that is final, with one
    decision per question, and every batch that ended must have told its webhook. Exits with 1 when anything is lost or doubled.
    """
    chosen = seed or random.SystemRandom().randrange(1, 1 << 31)
    with reporting(as_json), ending_on_signals(), _private_home() as home:
        report = _run(home, items, seconds, chosen, _silent if as_json else _say)
    if as_json:
        print_json(report)
    else:
        _print(report)
    if not report["ok"]:
        raise typer.Exit(1)


def _run(
    home: Home, items: int, seconds: float, seed: int, say: Callable[[str], None]
) -> dict[str, Any]:
    receiver = Receiver(seed)
    with Supervisor() as supervisor, listening(receiver) as webhook:
        stack, second = _start(supervisor, home, say)
        faults = _faults(supervisor, stack, second, seed)
        stopping = Event()
        clients = [
            SubmittingClient(
                stack.address,
                items=items // _CLIENTS + (n < items % _CLIENTS),
                seconds=seconds * 0.8,
                webhook=webhook,
                seed=seed + n,
                stopping=stopping,
            )
            for n in range(_CLIENTS)
        ]
        for client in clients:
            client.start()
        say(f"Causing faults for {seconds:.0f} s (seed {seed})")
        _cause_faults(faults, seconds, seed)
        say("Healing everything, and waiting for the end")
        drained = _drain(faults, clients, stack)
        books = [c.books for c in clients]
        _wait_for_webhooks(faults, receiver, books)
        report = _judge(stack, books, faults, receiver)
        return report | {"seconds_to_drain": round(drained, 1), "seed": seed}


def _start(supervisor: Supervisor, home: Home, say: Callable[[str], None]) -> tuple[Stack, Process]:
    say("Making a tiny model")
    model = _tiny_model(home)
    env = {k: v for k, v in os.environ.items() if k not in ("DATABASE_URL", "REDIS_URL")}
    env |= {"WEIGHBRIDGE_MODEL": str(model), "WEIGHBRIDGE_CLAIM_SECONDS": "0.3"}
    env |= {"WEIGHBRIDGE_WEBHOOK_ALLOW_PRIVATE": "true"}  # the receiver is on this machine
    stack = start_stack(supervisor, home, env, port=0, say=say)
    say("Starting a second worker, which reads in a child")
    first = stack.worker.command
    second = Process(
        Command(
            name="worker-2",
            argv=first.argv,
            env={**first.env, "WEIGHBRIDGE_POOL": "prefork"},
            log=home.logs / "worker-2.log",
        )
    )
    supervisor.start(second)
    return stack, second


def _tiny_model(home: Home) -> Path:
    home.make()
    folder = home.path / "tiny-model"
    program = (
        "import sys; from pathlib import Path; from engine.tiny import save_tiny_model; "
        "from workers.settings import default_cache; "
        "save_tiny_model(Path(sys.argv[1]), cache_dir=default_cache())"
    )
    maker = Process(
        Command(
            name="tiny-model",
            argv=[sys.executable, "-c", program, str(folder)],
            env=dict(os.environ),
            log=home.logs / "tiny-model.log",
        )
    )
    maker.start()
    if maker.wait(300.0) != 0:
        raise ProcessError("The tiny model could not be made.", log=maker.log_tail())
    return folder


def _faults(supervisor: Supervisor, stack: Stack, second: Process, seed: int) -> Faults:
    servers = {type(member): member for member in supervisor.members}
    postgres, valkey = servers[EmbeddedPostgres], servers[EmbeddedValkey]
    assert isinstance(postgres, EmbeddedPostgres)
    assert isinstance(valkey, EmbeddedValkey)
    return Faults(
        postgres=postgres,
        valkey=valkey,
        api=stack.api,
        workers=(stack.worker, second),
        webhooks=stack.webhooks,
        seed=seed,
    )


def _cause_faults(faults: Faults, seconds: float, seed: int) -> None:
    """More than one a second, and a little time for what is dead to stay dead."""
    draw, until = random.Random(seed), time.monotonic() + seconds  # noqa: S311 - not a secret
    while time.monotonic() < until:
        faults.cause_one()
        time.sleep(draw.uniform(0.05, 0.6))
        faults.heal()
        time.sleep(draw.uniform(0.0, 0.3))


def _drain(faults: Faults, clients: list[SubmittingClient], stack: Stack) -> float:
    """Seconds from the end of the faults until every batch is final."""
    started = time.monotonic()
    database = sync_engine(stack.database_url)
    try:
        while any(client.is_alive() for client in clients) or _open(database):
            faults.heal(all_of_it=True)
            if time.monotonic() - started > _DRAIN_SECONDS:
                break
            time.sleep(0.2)
    finally:
        database.dispose()
    return time.monotonic() - started


def _wait_for_webhooks(faults: Faults, receiver: Receiver, books: list[Books]) -> None:
    """Until every accepted batch was told, or longer than the delays that a fault can cause."""
    accepted = {batch_id for b in books for batch_id in b.accepted}
    until = time.monotonic() + _WEBHOOK_SECONDS
    while not accepted <= receiver.told.keys() and time.monotonic() < until:
        faults.heal(all_of_it=True)
        time.sleep(0.2)


def _open(database: Engine) -> int:
    with transaction(database) as connection:
        return connection.execute(invariants.open_batches()).scalar_one()


def _judge(stack: Stack, books: list[Books], faults: Faults, receiver: Receiver) -> dict[str, Any]:
    database = sync_engine(stack.database_url)
    with transaction(database) as connection:
        broken = {
            name: int(connection.execute(statement).scalar_one())
            for name, statement in invariants.violations().items()
        }
        lost = 0
        for batch_id, custom_ids in (pair for b in books for pair in b.accepted.items()):
            rows = connection.execute(invariants.fates(uuid_of(BATCH, batch_id)))
            done = {custom_id for custom_id, status in rows if status in ("done", "dead", "failed")}
            lost += len(set(custom_ids) - done)
        reread = int(connection.execute(invariants.reread()).scalar_one())
    database.dispose()
    doubled = broken["questions with two decisions"]
    broken["answers to clients that contradict earlier ones"] = sum(
        len(b.contradictions) for b in books
    )
    ids = [receiver.told.get(batch_id, set()) for b in books for batch_id in b.accepted]
    broken["batches whose webhook never came"] = sum(not told for told in ids)
    broken["batches whose webhook came under two ids"] = sum(len(told) > 1 for told in ids)
    return {
        "faults": dict(faults.counts),
        "kills": faults.kills,
        "batches": sum(len(b.accepted) for b in books),
        "items": sum(len(ids) for b in books for ids in b.accepted.values()),
        "retries": sum(b.retries for b in books),
        "lost": lost,
        "doubled": doubled,
        "re_read": reread,
        "broken": {name: n for name, n in broken.items() if n},
        "webhook_calls": receiver.calls,
        "ok": not lost and not any(broken.values()),
    }


@contextmanager
def _private_home() -> Iterator[Home]:
    folder = Path(tempfile.mkdtemp(prefix="weighbridge-chaos-"))
    folder.chmod(0o711)
    try:
        yield Home(path=folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _print(report: Mapping[str, Any]) -> None:
    table = Table(box=None, show_header=False)
    for kind, count in sorted(report["faults"].items()):
        table.add_row(kind, str(count))
    for name in ("items", "lost", "doubled", "re_read", "seconds_to_drain"):
        table.add_row(f"[bold]{name}[/]", str(report[name]))
    for promise, count in report["broken"].items():
        table.add_row(f"[red]{promise}[/]", str(count))
    out.print(table)
    out.print("The promise held." if report["ok"] else "[bold red]The promise is broken.[/]")


def _say(step: str) -> None:
    notes.print(f"[dim]{step} …[/]")


def _silent(_: str) -> None:
    """Programs read one JSON line."""
