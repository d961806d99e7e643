"""A client that writes a request's body while it reads the response, as a stream needs it."""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import urlencode

from tests.api.served import Api


class Duplex:
    def __init__(self, connection: HTTPConnection, response: HTTPResponse) -> None:
        self.connection = connection
        self.response = response
        self.batches: list[dict[str, Any]] = []

    def send(self, *items: Mapping[str, Any]) -> None:
        self.send_bytes(b"".join(json.dumps(item).encode() + b"\n" for item in items))

    def send_bytes(self, content: bytes) -> None:
        self.connection.send(f"{len(content):x}\r\n".encode() + content + b"\r\n")

    def end(self) -> None:
        self.connection.send(b"0\r\n\r\n")

    def line(self) -> dict[str, Any]:
        """The next that is no notice of a batch; those are kept apart."""
        while True:
            line: dict[str, Any] = json.loads(self.response.readline())
            if line["object"] != "stream.accepted":
                return line
            self.batches.append(line)

    def lines(self) -> Iterator[dict[str, Any]]:
        """Until the end line."""
        while (line := self.line())["object"] != "stream.end":
            yield line
        self.last = line


@contextmanager
def streaming(api: Api, **query: str) -> Iterator[Duplex]:
    host = api.url.removeprefix("http://")
    with closing(HTTPConnection(host, timeout=60)) as connection:
        connection.putrequest("POST", f"/v1/stream?{urlencode(query)}")
        connection.putheader("Authorization", api.client.headers["Authorization"])
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        response = connection.getresponse()
        assert response.status == 200, response.read()
        yield Duplex(connection, response)
