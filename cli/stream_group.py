"""One consumer of a group on a Redis stream: takes entries, keeps them, answers each exactly once.

An entry that was taken is pending until its answer is out. Whoever holds it says so now and then; one
who no longer does is dead, and others claim what he had.
"""

import time
from collections.abc import Mapping
from threading import Lock
from typing import Any

import redis

from cli.stream_entries import Entry, Streams

#: Milliseconds to wait for new entries.
BLOCK = 1000

# Out and acknowledged in one step, and only if it is still pending: a second answer to an entry, by
# who was thought dead and was not, changes nothing. XADD comes first: if it fails, nothing is lost.
_DELIVER = """
if #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[2], ARGV[2], 1) == 0 then return 0 end
local add = {'XADD', KEYS[2]}
if ARGV[3] ~= '0' then
  add[3], add[4], add[5] = 'MAXLEN', '~', ARGV[3]
end
add[#add + 1] = '*'
for i = 4, #ARGV do add[#add + 1] = ARGV[i] end
redis.call(unpack(add))
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
return 1
"""


class Consumer:
    """Held by one thread; `keep` and `release` may be called from another."""

    def __init__(self, server: "redis.Redis", streams: Streams, name: str, idle: float) -> None:
        self._redis: Any = server
        self._streams = streams
        self._name = name
        self._idle = int(idle * 1000)
        self._deliver = self._redis.register_script(_DELIVER)
        self._claim_from = "0-0"
        self._claim_at = 0.0
        self._lock = Lock()
        self._held: dict[str, Entry] = {}

    @property
    def held(self) -> list[Entry]:
        """Taken, and not answered yet."""
        with self._lock:
            return list(self._held.values())

    def take(self, count: int) -> list[Entry]:
        """Entries of the dead, else new ones; waits for these a moment."""
        try:
            taken = self._claim(count) or self._read(count)
        except redis.ResponseError as error:
            if "NOGROUP" not in str(error):
                raise
            self._make_group()
            return []
        with self._lock:
            self._held.update((entry.id, entry) for entry in taken)
        return taken

    def answer(self, entry: Entry, fields: Mapping[str, str]) -> bool:
        """Whether it was answered now, and not before by somebody else."""
        streams = self._streams
        flat = [part for pair in fields.items() for part in pair]
        done = self._deliver(
            keys=[streams.entries, streams.answers],
            args=[streams.group, entry.id, streams.maxlen, *flat],
        )
        with self._lock:
            self._held.pop(entry.id, None)
        return bool(done)

    def keep(self) -> None:
        """Tell that what is held is being worked on."""
        self._tell_idle(0)

    def leave(self) -> None:
        """Let others have at once what is held; a consumer that holds nothing is forgotten."""
        self._tell_idle(self._idle)
        streams = self._streams
        pending = self._redis.xpending_range(
            streams.entries, streams.group, "-", "+", 1, consumername=self._name
        )
        if not pending:
            self._redis.xgroup_delconsumer(streams.entries, streams.group, self._name)

    def _tell_idle(self, milliseconds: int) -> None:
        if ids := [entry.id for entry in self.held]:
            self._redis.xclaim(
                self._streams.entries,
                self._streams.group,
                self._name,
                0,
                ids,
                idle=milliseconds,
                justid=True,
            )

    def _claim(self, count: int) -> list[Entry]:
        if time.monotonic() < self._claim_at:
            return []
        self._claim_from, claimed, _ = self._redis.xautoclaim(
            self._streams.entries,
            self._streams.group,
            self._name,
            self._idle,
            start_id=self._claim_from,
            count=count,
        )
        if not claimed and self._claim_from in (b"0-0", "0-0"):
            self._claim_at = time.monotonic() + self._idle / 2000
        return _entries(claimed)

    def _read(self, count: int) -> list[Entry]:
        streams = self._streams
        read = self._redis.xreadgroup(
            streams.group, self._name, {streams.entries: ">"}, count=count, block=BLOCK
        )
        # A list of pairs, or by the newer protocol an object of lists.
        found = read.items() if isinstance(read, dict) else read or ()
        return [entry for _, raw in found for entry in _entries(_flat(raw))]

    def _make_group(self) -> None:
        streams = self._streams
        try:
            self._redis.xgroup_create(streams.entries, streams.group, streams.start, mkstream=True)
        except redis.ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise


def _flat(raw: Any) -> Any:
    return raw[0] if raw and isinstance(raw[0], list) else raw


def _entries(raw: Any) -> list[Entry]:
    return [Entry(id=id_.decode(), fields=fields) for id_, fields in raw if fields is not None]
