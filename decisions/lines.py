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


def split_lines(chunks: Iterable[bytes], max_bytes: int) -> Iterator[Line]:
    """Memory stays within `max_bytes` and one chunk."""
    number, pending, too_long = 1, bytearray(), False
    for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            too_long = too_long or len(pending) + len(part) > max_bytes
            yield from _line(number, pending + part, too_long)
            number, pending, too_long = number + 1, bytearray(), False
        too_long = too_long or len(pending) + len(rest) > max_bytes
        if too_long:
            pending.clear()
        else:
            pending += rest
    yield from _line(number, pending, too_long)


def _line(number: int, content: bytearray, too_long: bool) -> Iterator[Line]:
    if too_long:
        yield Line(number, None)
        return
    if number == 1:
        content = content.removeprefix(_BOM)
    if stripped := bytes(content).strip():
        yield Line(number, stripped)
