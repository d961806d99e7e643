"""The HTTP side of every command: one client, one error, and where it gets its address and key.

Address and key come from the command line, else WEIGHBRIDGE_URL and WEIGHBRIDGE_API_KEY, else the file
that a running `weighbridge up` leaves in its home.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx2

from cli.event_stream import Event, events_of
from cli.paths import Home, find_home

#: Of an upload and of a submit: a large file is stored before the answer comes.
SUBMIT_SECONDS = 600.0

_CONNECTION_FILE = "up.json"


class ApiError(Exception):
    """The API refused, or did not answer."""

    def __init__(self, message: str, *, status: int | None = None, body: Any = None) -> None:
        super().__init__(message)
        #: The HTTP status; None when there was no answer.
        self.status = status
        #: The problem that the API returned, if it was JSON.
        self.body = body


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where the API is, and the key to it."""

    url: str
    api_key: str | None


def find_address(url: str | None, api_key: str | None, env: Mapping[str, str]) -> Address:
    local = read_address(find_home(env))
    return Address(
        url=(url or env.get("WEIGHBRIDGE_URL") or (local and local.url) or "http://127.0.0.1:8000"),
        api_key=api_key or env.get("WEIGHBRIDGE_API_KEY") or (local.api_key if local else None),
    )


def read_address(home: Home) -> Address | None:
    """What a running `weighbridge up` wrote, None when none does."""
    try:
        stored = json.loads((home.path / _CONNECTION_FILE).read_text())
        return Address(url=stored["url"], api_key=stored["api_key"])
    except (OSError, ValueError, KeyError):
        return None


def write_address(home: Home, address: Address) -> Path:
    """Readable by its owner alone; returns where it is."""
    path = home.path / _CONNECTION_FILE
    path.touch(mode=0o600)
    path.write_text(json.dumps({"url": address.url, "api_key": address.api_key}))
    return path


class Client:
    """A context that holds the connection."""

    def __init__(self, address: Address) -> None:
        headers = {"User-Agent": "weighbridge-cli"}
        if address.api_key:
            headers["Authorization"] = f"Bearer {address.api_key}"
        self.address = address
        self._http = httpx2.Client(base_url=address.url, headers=headers, timeout=30.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, path: str, **params: str | int) -> Any:
        return self._json("GET", path, params=params)

    def text(self, path: str) -> str:
        return self._send("GET", path).text

    def post(self, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Any:
        return self._json("POST", path, json=body, headers=headers, timeout=SUBMIT_SECONDS)

    def patch(self, path: str, body: object) -> Any:
        return self._json("PATCH", path, json=body)

    def send(self, path: str, content: bytes, media_type: str, **params: str) -> Any:
        """A POST of what is not JSON."""
        headers = {"Content-Type": media_type}
        return self._json(
            "POST", path, content=content, headers=headers, params=params, timeout=SUBMIT_SECONDS
        )

    def delete(self, path: str) -> Any:
        return self._json("DELETE", path)

    def upload(self, path: Path, name: str) -> str:
        """Stream a file up; returns its id."""
        with path.open("rb") as content:
            stored = self._json(
                "POST",
                "/v1/files",
                data={"purpose": "batch"},
                files={"file": (name, content, "application/jsonl")},
                timeout=SUBMIT_SECONDS,
            )
        return str(stored["id"])

    def lines(self, path: str, **params: str | int) -> Iterator[bytes]:
        """The lines of a streamed answer, split at `\\n` alone, without it; no blank ones."""
        return filter(None, self._lines("GET", path, params=params, timeout=120.0))

    def exchange(self, path: str, content: bytes, **params: str) -> Iterator[bytes]:
        """Lines of an answer that begins before it is whole, to a body that is sent at once."""
        return filter(
            None, self._lines("POST", path, content=content, params=params, timeout=120.0)
        )

    def events(
        self, path: str, last: str | None, *, heartbeat: int, **params: str
    ) -> Iterator[Event]:
        """Server-sent events after the one with the id `last`, until the stream ends or breaks."""
        headers = {} if last is None else {"Last-Event-ID": last}
        asked = {**params, "heartbeat": heartbeat}
        timeout = 10.0 + heartbeat
        return events_of(self._lines("GET", path, params=asked, headers=headers, timeout=timeout))

    def _lines(self, method: str, path: str, **kwargs: Any) -> Iterator[bytes]:
        pending = b""
        try:
            with self._http.stream(method, path, **kwargs) as response:
                if response.is_error:
                    response.read()
                    raise _refusal(response)
                for chunk in response.iter_bytes():
                    *complete, pending = (pending + chunk).split(b"\n")
                    yield from complete
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from error
        if pending:
            yield pending

    def _json(self, method: str, path: str, **kwargs: Any) -> Any:
        return self._send(method, path, **kwargs).json()

    def _send(self, method: str, path: str, **kwargs: Any) -> httpx2.Response:
        try:
            response = self._http.request(method, path, **kwargs)
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from error
        if response.is_error:
            raise _refusal(response)
        return response

    def _unreachable(self, error: httpx2.HTTPError) -> ApiError:
        reason = str(error) or type(error).__name__
        return ApiError(
            f"{self.address.url} does not answer ({reason}). Is `weighbridge up` running? "
            "Another address goes into --url or WEIGHBRIDGE_URL."
        )


def _refusal(response: httpx2.Response) -> ApiError:
    try:
        body = response.json()
    except ValueError:
        body = None
    detail = body.get("detail") or body.get("title") if isinstance(body, dict) else response.text
    message = f"{detail or 'refused'} (HTTP {response.status_code})"
    if response.status_code == 401:
        message += ". Give a key with --api-key or WEIGHBRIDGE_API_KEY."
    return ApiError(message, status=response.status_code, body=body)
