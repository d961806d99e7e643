"""JSON Lines as they really arrive: bytes in chunks, to numbered lines.

Lines end at `\\n` and nowhere else (U+2028 and U+0085 are text), one byte order mark at the start and
a `\\r` before the end are dropped, blank lines are skipped but counted, and a line that is too long is
reported rather than kept in memory.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Line:
    """One line that is not blank."""

    #: Counted from 1, blank lines included.
    number: int
    #: Without its end; None when it was longer than the limit.
    content: bytes | None


class LineSplitter:
    """Lines from chunks as they come. Memory stays within `max_bytes` and one chunk."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._number = 1
        self._pending = bytearray()
        self._too_long = False

    def feed(self, chunk: bytes) -> Iterator[Line]:
        """The lines that end in this chunk. To be taken before the next one is fed."""
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            self._add(part)
            yield from self._end_line()
        self._add(rest)

    def end(self) -> Iterator[Line]:
        """The last line, if it has no end."""
        yield from self._end_line()

    def _add(self, part: bytes) -> None:
        self._too_long = self._too_long or len(self._pending) + len(part) > self._max_bytes
        if self._too_long:
            self._pending.clear()
        else:
            self._pending += part

    def _end_line(self) -> Iterator[Line]:
        number, content, too_long = self._number, self._pending, self._too_long
        self._number, self._pending, self._too_long = number + 1, bytearray(), False
        yield from _line(number, content, too_long)


def split_lines(chunks: Iterable[bytes], max_bytes: int) -> Iterator[Line]:
    splitter = LineSplitter(max_bytes)
    for chunk in chunks:
        yield from splitter.feed(chunk)
    yield from splitter.end()


def _line(number: int, content: bytearray, too_long: bool) -> Iterator[Line]:
    if too_long:
        yield Line(number, None)
        return
    if number == 1:
        content = content.removeprefix(_BOM)
    if stripped := bytes(content).strip():
        yield Line(number, stripped)
