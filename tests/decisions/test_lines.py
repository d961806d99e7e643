from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from decisions.lines import Line, split_lines

BOM = b"\xef\xbb\xbf"


def split(content: bytes, max_bytes: int = 1000) -> list[Line]:
    return list(split_lines([content], max_bytes))


def numbered(content: bytes) -> list[tuple[int, bytes | None]]:
    return [(line.number, line.content) for line in split(content)]


def test_lines_are_numbered_from_one() -> None:
    assert numbered(b"a\nb\nc\n") == [(1, b"a"), (2, b"b"), (3, b"c")]


def test_the_last_line_needs_no_end() -> None:
    assert numbered(b"a\nb") == [(1, b"a"), (2, b"b")]


@pytest.mark.parametrize("content", [b"", b"\n", BOM, b"\r\n\r\n", b" \t\n", BOM + b"\n\n"])
def test_a_file_without_content_has_no_lines(content: bytes) -> None:
    assert numbered(content) == []


def test_blank_lines_are_skipped_and_counted() -> None:
    assert numbered(b"\n\na\n \t \n\r\nb\n\n") == [(3, b"a"), (6, b"b")]


def test_windows_ends_and_a_byte_order_mark_are_dropped() -> None:
    assert numbered(BOM + b"a\r\n\r\nb\r\nc") == [(1, b"a"), (3, b"b"), (4, b"c")]


def test_a_byte_order_mark_is_one_only_at_the_very_start() -> None:
    assert numbered(BOM + BOM + b"a\n" + BOM + b"b") == [(1, BOM + b"a"), (2, BOM + b"b")]
    assert numbered(b"\n" + BOM + b"a") == [(2, BOM + b"a")]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\r", "\x0b", "\x0c", "\x1c"])
def test_only_a_newline_ends_a_line(separator: str) -> None:
    content = f'"a{separator}b"'.encode()
    assert numbered(content + b"\n1") == [(1, content), (2, b"1")]


def test_a_line_that_is_too_long_is_reported_and_its_neighbours_are_not() -> None:
    found = split(b"a\n" + b"x" * 11 + b"\nb\n" + b"y" * 10 + b"\n", max_bytes=10)
    assert found == [Line(1, b"a"), Line(2, None), Line(3, b"b"), Line(4, b"y" * 10)]


def test_a_line_of_ten_megabytes_in_small_chunks_is_not_kept() -> None:
    held = 0

    def chunks() -> Iterator[bytes]:
        yield b"a\n"
        for _ in range(10 * 256):
            yield bytes(4096)
        yield b"\nb"

    for line in split_lines(chunks(), max_bytes=1 << 20):
        held += len(line.content or b"")
        assert line.number != 2 or line.content is None
    assert held == 2


contents = st.lists(
    st.sampled_from([b"\n", b"\r", b"\r\n", BOM, b"\xef", b"a", b"{}", b" ", "\u2028".encode()])
    | st.binary(max_size=4),
    max_size=20,
).map(b"".join)


@given(contents, st.lists(st.integers(0, 60), max_size=8), st.integers(1, 12))
@example(BOM + b"a", [1], 12)
@example(b"a" * 13 + b"\n", [12], 12)
def test_lines_do_not_depend_on_where_chunks_end(
    content: bytes, cuts: list[int], max_bytes: int
) -> None:
    borders = [0, *sorted(cuts), len(content)]
    chunks = [content[a:b] for a, b in pairwise(borders)]
    assert b"".join(chunks) == content
    assert list(split_lines(chunks, max_bytes)) == split(content, max_bytes)


@given(contents)
def test_every_line_with_content_is_found_under_its_number(content: bytes) -> None:
    expected = {
        number: line.strip()
        for number, line in enumerate(content.removeprefix(BOM).split(b"\n"), start=1)
        if line.strip()
    }
    assert dict(numbered(content)) == expected
