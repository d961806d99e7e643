"""Public names of stored things: a prefix that says the kind, and the key.

Batches, files, schedules and runs have time-ordered UUIDs (RFC 9562, version 7), so that their keys are
also their order of creation. Decisions are counted, and so are truths, webhooks, their events and
deliveries.
"""

import secrets
import time
from uuid import UUID

from decisions.errors import NotFound

BATCH = "batch_"
FILE = "file-"
DECISION = "dec_"
EVENT = "evt_"
WEBHOOK = "wh_"
DELIVERY = "whd_"
SCHEDULE = "sched_"
RUN = "run_"
TRUTH = "truth_"


def new_uuid() -> UUID:
    """A version 7 UUID: 48 bits of Unix milliseconds, then 74 random bits."""
    value = int(time.time() * 1000) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    return UUID(int=value & ~(0x3 << 62) | 0x2 << 62)


def public(prefix: str, key: UUID | int) -> str:
    return f"{prefix}{key.hex if isinstance(key, UUID) else key}"


def uuid_of(prefix: str, name: str) -> UUID:
    """The key behind a public name. Raises NotFound when the name cannot be one of ours."""
    try:
        if name.startswith(prefix):
            return UUID(hex=name.removeprefix(prefix))
    except ValueError:
        pass
    raise NotFound(f"There is no {name!r}.")


def number_of(prefix: str, name: str) -> int:
    """Like `uuid_of`, for things that are counted."""
    digits = name.removeprefix(prefix)
    if name.startswith(prefix) and digits.isascii() and digits.isdigit() and len(digits) < 19:
        return int(digits)
    raise NotFound(f"There is no {name!r}.")
