"""`python -m workers`: one worker, which is one engine, until SIGTERM."""

import os
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.threads import set_thread_environment

if TYPE_CHECKING:
    from pydantic import ValidationError

    from decisions.types import Lane
    from workers.app import Process


def main() -> int:
    # Before anything imports torch.
    set_thread_environment(os.environ, int(os.environ.get("WEIGHBRIDGE_THREADS") or 0) or None)
    from pydantic import ValidationError

    from workers.logs import log_to_stderr

    log_to_stderr()
    try:
        from workers.app import process
    except ValidationError as wrong:
        print(_settings_error(wrong), file=sys.stderr)  # noqa: T201
        return 2
    from celery.exceptions import SecurityWarning

    from engine.errors import EngineError
    from workers.prompts import UnreadableLabels, UnusableTemplate

    try:
        pool = _prepare(process)
    except (EngineError, UnreadableLabels, UnusableTemplate) as wrong:
        print(f"weighbridge worker: {wrong}", file=sys.stderr)  # noqa: T201
        return 2
    # Celery warns root of pickle, which is not accepted here.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    process.app.worker_main(_arguments(pool, process.settings.lanes))
    return 0


def _prepare(process: "Process") -> str:
    """Find out whether this process can read before Celery starts, so that a failure is an exit."""
    from workers.runtime import load_prompter

    pool = _pool(process.settings.pool, process.settings.device)
    if pool == "solo":
        process.open()
    else:
        load_prompter(process.settings)
    return pool


def _pool(chosen: str, device: str) -> str:
    if chosen != "auto":
        return chosen
    from torch.cuda import is_available

    return "prefork" if device != "cpu" and is_available() else "solo"


def _arguments(pool: str, lanes: Sequence["Lane"]) -> list[str]:
    from decisions.lanes import bell_queue

    return [
        "--quiet",
        "worker",
        f"--pool={pool}",
        "--concurrency=1",
        f"--queues={','.join(bell_queue(lane) for lane in lanes)}",
        f"--hostname=weighbridge-{os.getpid()}@%h",
        "--without-gossip",
        "--without-mingle",
        "--without-heartbeat",
        "--loglevel=WARNING",
    ]


def _settings_error(wrong: "ValidationError") -> str:
    lines = [f"  {'.'.join(map(str, e['loc']))}: {e['msg']}" for e in wrong.errors()]
    return "\n".join(["weighbridge worker: these settings are missing or wrong:", *lines])


if __name__ == "__main__":
    sys.exit(main())
