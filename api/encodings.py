"""Compressed request bodies. TypeSafe's SDK sends zstd from a kilobyte on, and does not ask before.

What comes out is bounded like a body that came plain, so a small one cannot fill the memory.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO

import brotli  # type: ignore[import-untyped]
import zstandard

from api.errors import BodyTooLarge, MalformedBody, UnsupportedMediaType

#: Bytes that are decompressed at a time.
STEP = 1 << 18


def decompressed(raw: bytes, encoding: str, max_bytes: int) -> bytes:
    """Raises UnsupportedMediaType, MalformedBody or BodyTooLarge."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return raw
    if name not in _READERS:
        known = ", ".join(_READERS)
        raise UnsupportedMediaType(f"send one of: {known}", param="Content-Encoding")
    try:
        return _bounded(_READERS[name](raw), max_bytes)
    except (zlib.error, zstandard.ZstdError, brotli.error, EOFError) as e:
        raise MalformedBody(f"the body is not valid {name}: {e}") from None


def _bounded(parts: Iterator[bytes], max_bytes: int) -> bytes:
    whole = bytearray()
    for part in parts:
        whole += part
        if len(whole) > max_bytes:
            raise BodyTooLarge(f"the body is larger than {max_bytes} bytes")
    return bytes(whole)


def _gzip(raw: bytes) -> Iterator[bytes]:
    reader = zlib.decompressobj(wbits=31)
    while raw and not reader.eof:
        yield reader.decompress(raw, STEP)
        raw = reader.unconsumed_tail
    if not reader.eof:
        raise EOFError("it ends too early")


def _zstd(raw: bytes) -> Iterator[bytes]:
    with zstandard.ZstdDecompressor().stream_reader(
        BytesIO(raw), read_across_frames=True
    ) as reader:
        while part := reader.read(STEP):
            yield part


def _brotli(raw: bytes) -> Iterator[bytes]:
    reader = brotli.Decompressor()
    while not reader.is_finished():
        part = reader.process(raw, output_buffer_limit=STEP)
        if not part and reader.can_accept_more_data():
            raise EOFError("it ends too early")
        yield part
        raw = b""


_READERS: Mapping[str, Callable[[bytes], Iterator[bytes]]] = {
    "zstd": _zstd,
    "gzip": _gzip,
    "br": _brotli,
}
