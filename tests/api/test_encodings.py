"""Compressed bodies, as clients send them and as attackers do."""

import gzip
import json
from collections.abc import Callable

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard

from api.encodings import decompressed
from api.errors import BodyTooLarge, MalformedBody
from tests.api.served import QUESTIONS, Api

BODY = json.dumps(
    {"requests": [{"custom_id": "1", "state": "a" * 5000}], "questions": QUESTIONS}
).encode()

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": zstandard.ZstdCompressor().compress,
    "br": brotli.compress,
}


@pytest.mark.parametrize("encoding", COMPRESS)
def test_compressed_bodies_are_read(api: Api, encoding: str) -> None:
    response = api.client.post(
        "/v1/batches",
        content=COMPRESS[encoding](BODY),
        headers={"Content-Encoding": encoding, "Content-Type": "application/json"},
    )
    assert response.status_code == 202
    assert response.json()["counts"]["queued"] == 1


@pytest.mark.parametrize("encoding", COMPRESS)
def test_a_body_that_is_not_what_it_says_is_a_400(api: Api, encoding: str) -> None:
    whole = COMPRESS[encoding](BODY)
    for body in (BODY, whole[: len(whole) // 2]):
        response = api.client.post(
            "/v1/batches",
            content=body,
            headers={"Content-Encoding": encoding, "Content-Type": "application/json"},
        )
        assert response.status_code == 400, body


def test_an_unknown_encoding_is_a_415_that_names_the_known(api: Api) -> None:
    response = api.client.post(
        "/v1/batches", content=BODY, headers={"Content-Encoding": "compress"}
    )
    assert response.status_code == 415
    assert "zstd" in response.json()["detail"]


@pytest.mark.parametrize("encoding", COMPRESS)
def test_a_small_body_cannot_become_a_huge_one(encoding: str) -> None:
    bomb = COMPRESS[encoding](bytes(50_000_000))
    assert len(bomb) < 100_000
    with pytest.raises(BodyTooLarge):
        decompressed(bomb, encoding, 1_000_000)


@pytest.mark.parametrize("encoding", COMPRESS)
def test_what_comes_out_is_what_went_in(encoding: str) -> None:
    content = bytes(range(256)) * 10_000
    assert decompressed(COMPRESS[encoding](content), encoding, len(content)) == content
    with pytest.raises(MalformedBody):
        decompressed(b"no", encoding, 100)
