"""Server-sent events: everything that happens to batches, once, in order, from wherever one left off."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx2
import pytest
from sqlalchemy import Engine, text

from decisions.database import transaction
from tests.api.served import Api, StandInWorker

ITEMS = [{"custom_id": f"{i}", "state": f"text {i}"} for i in range(4)]


class Event(NamedTuple):
    """`type` is None for a heartbeat."""

    type: str | None
    data: Any
    id: str | None


def event_of(lines: Sequence[str]) -> Event:
    fields = dict(line.split(": ", 1) for line in lines if not line.startswith(":"))
    data = fields.get("data")
    return Event(fields.get("event"), data and json.loads(data), fields.get("id"))


def events_of(response: httpx2.Response) -> Iterator[Event]:
    lines: list[str] = []
    for line in response.iter_lines():
        if line:
            lines.append(line)
        else:
            yield event_of(lines)
            lines = []


@contextmanager
def following(
    api: Api, path: str, last: str | None = None, **query: Any
) -> Iterator[Iterator[Event]]:
    headers = {} if last is None else {"Last-Event-ID": last}
    with api.client.stream("GET", path, headers=headers, params=query) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield events_of(response)


def all_events(api: Api, batch_id: str, last: str | None = None, **query: Any) -> list[Event]:
    with following(api, f"/v1/batches/{batch_id}/events", last, **query) as events:
        return list(events)


def next_of(events: Iterator[Event], type_: str) -> Event:
    return next(event for event in events if event.type == type_)


def test_a_batch_is_told_as_it_happens_until_its_end(api: Api, worker: StandInWorker) -> None:
    batch = api.submit([*ITEMS, {"custom_id": "bad"}])
    with following(api, f"/v1/batches/{batch['id']}/events") as events:
        born = next(events)
        assert born.type == "progress"
        assert born.data["counts"] == {
            "total": 5,
            "open": 4,
            "done": 0,
            "failed": 1,
            "dead": 0,
            "cancelled": 0,
            "expired": 0,
        }
        worker.work(limit=2)
        told = [next(events) for _ in range(7)]
        assert [event.type for event in told] == ["decision"] * 6 + ["progress"]
        assert told[-1].data["counts"]["done"] == 2
        worker.fail(worker.claim(limit=1), "context_length_exceeded", "too long")
        failure, counts = next(events), next(events)
        assert failure.data["error"]["code"] == "context_length_exceeded"
        assert (failure.data["custom_id"], failure.data["status"]) == ("2", "failed")
        assert counts.data["counts"]["failed"] == 2
        worker.work()
        rest = list(events)
    assert [event.type for event in rest] == ["decision"] * 3 + ["batch.completed"]
    assert rest[-1].data["counts"]["open"] == 0
    assert rest[-1].data["status"] == "completed"


def test_a_decision_carries_its_answer_and_its_label_mass(api: Api, worker: StandInWorker) -> None:
    batch = api.submit(ITEMS[:1])
    worker.work_until_empty()
    team = all_events(api, batch["id"])[1].data
    (result,) = api.results(batch["id"])
    assert team == {
        "id": result["decisions"]["team"],
        "batch_id": batch["id"],
        "custom_id": "0",
        "line": 1,
        "question": "team",
        "answer": result["answers"]["team"],
        "label_mass": pytest.approx(0.9),
        "argmax_is_label": True,
        "model": "stand-in",
    }


def test_who_comes_back_with_any_id_gets_exactly_the_rest(api: Api, worker: StandInWorker) -> None:
    batch = api.submit(ITEMS)
    worker.work(limit=1)
    worker.work_until_empty()
    told = all_events(api, batch["id"])
    assert len(told) == 1 + (3 + 1) + (9 + 1)
    for number, event in enumerate(told[:-1], start=1):
        assert event.id is not None
        assert all_events(api, batch["id"], event.id) == told[number:]


def test_a_client_that_has_the_end_is_told_to_stop_coming_back(
    api: Api, worker: StandInWorker
) -> None:
    batch = api.submit(ITEMS)
    worker.work_until_empty()
    last = all_events(api, batch["id"])[-1].id or ""
    path = f"/v1/batches/{batch['id']}/events"
    assert api.client.get(path, headers={"Last-Event-ID": last}).status_code == 204


def test_a_batch_that_failed_at_the_door_has_an_end(api: Api) -> None:
    batch = api.submit([{"custom_id": "bad"}])
    assert [event.type for event in all_events(api, batch["id"])] == ["batch.failed"]


def test_a_batch_without_steps_has_an_end(
    api: Api, worker: StandInWorker, database: Engine
) -> None:
    # It was read by a worker of the version before, or before there were steps.
    batch = api.submit(ITEMS)
    worker.work_until_empty()
    with transaction(database) as connection:
        connection.execute(text("DELETE FROM steps"))
    (end,) = all_events(api, batch["id"])
    assert (end.type, end.data["counts"]["done"]) == ("batch.completed", 4)


@pytest.mark.parametrize(
    ("types", "told"),
    [
        ("progress", ["progress", "batch.cancelled"]),
        ("decision", ["decision"] * 3 + ["batch.cancelled"]),
        ("failure,progress", ["progress", "failure", "progress", "batch.cancelled"]),
    ],
)
def test_types_that_were_not_asked_for_are_left_out(
    api: Api, worker: StandInWorker, types: str, told: list[str]
) -> None:
    batch = api.submit(ITEMS)
    if types == "failure,progress":
        worker.fail(worker.claim(limit=1), "read_failed", "broken")
    if types == "decision":
        worker.work(limit=1)
    api.client.post(f"/v1/batches/{batch['id']}/cancel").raise_for_status()
    assert [event.type for event in all_events(api, batch["id"], types=types)] == told


def test_silence_is_filled_with_heartbeats(api: Api) -> None:
    batch = api.submit(ITEMS)
    with following(api, f"/v1/batches/{batch['id']}/events", heartbeat=0.1) as events:
        assert next(events).type == "progress"
        assert [next(events) for _ in range(2)] == [Event(None, None, None)] * 2


def test_a_tenant_is_told_of_all_its_batches_and_of_no_others(
    api: Api, other: Api, worker: StandInWorker
) -> None:
    api.submit(ITEMS)
    with following(api, "/v1/events") as events:
        start = next(events)
        assert start == Event(None, None, start.id)
        assert start.id is not None
        other.submit(ITEMS)
        mine = api.submit(ITEMS[:1])["id"]
        assert next(events).data["batch_id"] == mine
        worker.work_until_empty()
        told: list[Event] = []
        while [event.type for event in told].count("batch.completed") < 2:
            told.append(next(events))
    assert len([event for event in told if event.type == "decision"]) == 3 * 5
    with following(api, "/v1/events", start.id) as events:
        next(events)
        again = [next(events) for _ in range(len(told) + 1)]
    assert [event.data for event in again[1:]] == [event.data for event in told]
    for number, event in enumerate(again[:-1], start=1):
        with following(api, "/v1/events", event.id, types="decision,progress") as events:
            next(events)
            assert next(events).data == again[number].data


def test_a_tenants_silence_moves_the_place_to_come_back_to(api: Api, worker: StandInWorker) -> None:
    with following(api, "/v1/events", heartbeat=0.1) as events:
        first = next(events)
        batch = api.submit(ITEMS)
        assert next_of(events, "progress").data["batch_id"] == batch["id"]
        quiet = next(events)
    assert quiet.type is None
    assert quiet.id != first.id
    worker.work_until_empty()
    with following(api, "/v1/events", quiet.id) as events:
        next(events)
        assert next(events).type == "decision"


@pytest.mark.parametrize("path", ["/v1/batches/{}/events", "/v1/events"])
def test_an_id_that_is_none_is_refused(api: Api, path: str) -> None:
    path = path.format(api.submit(ITEMS)["id"])
    response = api.client.get(path, headers={"Last-Event-ID": "yesterday"})
    assert response.status_code == 422
    assert response.json()["error"]["param"] == "Last-Event-ID"


def test_another_tenants_batch_is_not_there(api: Api, other: Api) -> None:
    batch = api.submit(ITEMS)
    assert other.client.get(f"/v1/batches/{batch['id']}/events").status_code == 404


@pytest.mark.parametrize("types", ["", "all", "decision,", "progress;decision"])
def test_unknown_types_are_refused(api: Api, types: str) -> None:
    path = f"/v1/batches/{api.submit(ITEMS)['id']}/events"
    assert api.client.get(path, params={"types": types}).status_code == 422


def test_a_stream_outlives_its_connections_to_the_database(
    api: Api, worker: StandInWorker, database: Engine
) -> None:
    batch = api.submit(ITEMS)
    with following(api, f"/v1/batches/{batch['id']}/events") as events:
        next(events)
        with transaction(database) as connection:
            connection.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            )
        worker.work_until_empty()
        assert [event.type for event in events] == ["decision"] * 12 + ["batch.completed"]


def test_a_hundred_listeners_hold_no_connections_and_all_are_told(
    api: Api, worker: StandInWorker, database: Engine
) -> None:
    batch = api.submit(ITEMS)
    url = f"{api.url}/v1/batches/{batch['id']}/events"
    headers = dict(api.client.headers)
    count = text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")

    async def listen(client: httpx2.AsyncClient, born: asyncio.Semaphore) -> list[str]:
        types = []
        async with client.stream("GET", url, headers=headers, timeout=60) as response:
            async for line in response.aiter_lines():
                if line.startswith("event: "):
                    types.append(line.removeprefix("event: "))
                    born.release()
        return types

    async def all_told() -> list[list[str]]:
        born = asyncio.Semaphore(0)
        limits = httpx2.Limits(max_connections=None)
        async with httpx2.AsyncClient(limits=limits) as client:
            listeners = [asyncio.create_task(listen(client, born)) for _ in range(100)]
            for _ in listeners:
                await born.acquire()
            with transaction(database) as connection:
                assert connection.execute(count).scalar_one() < 30
            await asyncio.to_thread(worker.work_until_empty)
            return await asyncio.gather(*listeners)

    expected = ["progress", *["decision"] * 12, "batch.completed"]
    assert asyncio.run(all_told()) == [expected] * 100
