"""`weighbridge watch` follows the events of a batch, and asks while it cannot."""

from collections.abc import Iterator
from typing import Any

import pytest

from cli.client import Address, ApiError, Client
from cli.event_stream import Event, events_of
from cli.following import Counts, follow
from tests.api.served import Api, StandInWorker

ITEMS = [{"custom_id": f"{i}", "state": f"text {i}"} for i in range(4)]


def address(api: Api) -> Address:
    return Address(url=api.url, api_key=api.client.headers["Authorization"].split()[1])


class WithoutAsking(Client):
    def get(self, path: str, **params: str | int) -> Any:
        raise AssertionError


class Breaking(Client):
    """Its streams break after each event; it remembers with which ids it came back."""

    came: list[str | None]

    def events(self, path: str, last: str | None, **query: Any) -> Iterator[Event]:
        self.came.append(last)
        yield next(super().events(path, last, **query))
        raise ApiError("broken")


class WithoutStream(Client):
    def events(self, path: str, last: str | None, **query: Any) -> Iterator[Event]:
        raise ApiError("not there", status=404)


def test_a_batch_is_followed_to_its_end_without_asking(api: Api, worker: StandInWorker) -> None:
    batch = api.submit(ITEMS)
    with WithoutAsking(address(api)) as client:
        counts = filter(None, follow(client, batch["id"]))
        assert next(counts) == Counts(total=4, final=0)
        worker.work(limit=3)
        assert next(counts) == Counts(total=4, final=3)
        worker.work()
        assert list(counts) == [Counts(total=4, final=4)]


def test_a_broken_stream_goes_on_where_it_broke(api: Api, worker: StandInWorker) -> None:
    batch = api.submit(ITEMS)
    worker.work(limit=1)
    worker.work(limit=2)
    with Breaking(address(api)) as client:
        client.came = []
        counts = follow(client, batch["id"])
        told = [next(counts) for _ in range(3)]
        worker.work()
        told += list(counts)
    finals = [one.final for one in told if one]
    assert finals == sorted(finals)
    assert finals[-1] == 4
    assert len(set(client.came)) == len(client.came)


def test_without_a_stream_one_asks(api: Api, worker: StandInWorker) -> None:
    batch = api.submit(ITEMS)
    with WithoutStream(address(api)) as client:
        counts = follow(client, batch["id"])
        assert next(counts) == Counts(total=4, final=0)
        worker.work_until_empty()
        assert list(counts) == [Counts(total=4, final=4)]


def test_a_batch_that_is_not_there_is_said_at_once(api: Api) -> None:
    with Client(address(api)) as client, pytest.raises(ApiError, match="There is no"):
        list(follow(client, "batch_00"))


def test_an_api_that_never_answered_is_said_at_once() -> None:
    with (
        Client(Address(url="http://127.0.0.1:9", api_key=None)) as client,
        pytest.raises(ApiError, match="does not answer"),
    ):
        list(follow(client, "batch_00"))


def test_events_are_read_as_they_are_written() -> None:
    lines = [b": heartbeat", b"id: 7", b"", b"event: a", b'data: {"b": ": c"}', b"", b"event: cut"]
    assert list(events_of(lines)) == [
        Event(type=None, data=None, id="7"),
        Event(type="a", data={"b": ": c"}, id=None),
    ]
