"""Schedules over HTTP: what is accepted, what is refused by name, and what a run is seen to do."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine

from decisions.rescoring import tick
from decisions.types import Lane
from tests.api.served import Api, StandInWorker

NIGHTLY: dict[str, Any] = {"name": "nightly", "cron": "30 2 * * *", "timezone": "Europe/Berlin"}


def create(api: Api, **fields: Any) -> dict[str, Any]:
    response = api.client.post("/v1/schedules", json=NIGHTLY | fields)
    assert response.status_code == 201, response.text
    assert response.headers["Location"] == f"/v1/schedules/{response.json()['id']}"
    schedule: dict[str, Any] = response.json()
    return schedule


@pytest.fixture
def decided(api: Api, worker: StandInWorker) -> str:
    """A batch of three tickets that has its answers."""
    batch = api.submit([{"custom_id": n, "state": f"about {n}"} for n in "abc"])
    worker.work_until_empty()
    return str(batch["id"])


def run_now(api: Api, database: Engine, schedule: str) -> dict[str, Any]:
    """Ask for a run, and let a scheduler see it."""
    response = api.client.post(f"/v1/schedules/{schedule}/runs")
    assert response.status_code == 202, response.text
    tick(database, datetime.now(UTC))
    return run(api, schedule, response.json()["id"])


def run(api: Api, schedule: str, run_id: str) -> dict[str, Any]:
    found: dict[str, Any] = api.client.get(f"/v1/schedules/{schedule}/runs/{run_id}").json()
    return found


def test_a_schedule_is_made_listed_read_and_deleted(api: Api) -> None:
    made = create(
        api,
        source={"last": "24h", "questions": ["team"], "sample": {"size": 10}},
        change={"options": "reversed"},
        thresholds={"agreement": 0.9},
    )
    assert made["source"] == {
        "last": "24h",
        "questions": ["team"],
        "sample": {"size": 10, "seed": 0},
    }
    assert made["status"] == "active"
    due = datetime.fromisoformat(made["next_due_at"])
    assert timedelta(0) < due - datetime.now(UTC) <= timedelta(hours=25)
    assert api.client.get(f"/v1/schedules/{made['id']}").json() == made
    assert api.client.get("/v1/schedules").json()["data"] == [made]
    assert api.client.delete(f"/v1/schedules/{made['id']}").json()["deleted"] is True
    assert api.client.get(f"/v1/schedules/{made['id']}").status_code == 404
    assert api.client.get("/v1/schedules").json()["data"] == []


def test_lists_are_paged_newest_first(api: Api) -> None:
    ids = [create(api)["id"] for _ in range(5)]
    seen: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = api.client.get("/v1/schedules", params={"limit": "2", **after}).json()
        seen += [s["id"] for s in page["data"]]
        if not page["has_more"]:
            break
        after = {"after": page["last_id"]}
    assert seen == ids[::-1]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"cron": "30 2 * *"}, "cron"),
        ({"cron": "99 2 * * *"}, "cron"),
        ({"timezone": "Berlin"}, "timezone"),
        ({"name": ""}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"source": {"last": "a day"}}, "source.last"),
        ({"source": {"last": "24h", "since": "2026-01-01T00:00:00Z"}}, "source"),
        ({"source": {"since": "2026-01-01T00:00:00"}}, "source.since"),
        ({"source": {"label_mass": {"max": 2}}}, "source.label_mass.max"),
        ({"source": {"colour": "red"}}, "source.colour"),
        ({"source": {"sample": {"size": 0}}}, "source.sample.size"),
        ({"change": {"temperature": 0}}, "change.temperature"),
        ({"change": {"options": "alphabetical"}}, "change.options"),
        ({"change": {"model": "default"}}, "change.model"),
        ({"change": {"questions": {"team": {"type": "poem"}}}}, "questions.team.type"),
        ({"thresholds": {"accuracy": 1}}, "thresholds.accuracy"),
        ({"thresholds": {"agreement": 1.1}}, "thresholds.agreement"),
    ],
)
def test_what_there_is_not_is_refused_by_name(api: Api, fields: dict[str, Any], param: str) -> None:
    response = api.client.post("/v1/schedules", json=NIGHTLY | fields)
    assert (response.status_code, response.json()["error"]["param"]) == (422, param)
    assert api.client.get("/v1/schedules").json()["data"] == []


def test_options_of_a_changed_question_keep_their_order(api: Api) -> None:
    team = {"type": "choice", "criteria": {"z": None, "a": "first", "m": None}}
    made = create(api, change={"questions": {"team": team}})
    stored = api.client.get(f"/v1/schedules/{made['id']}").json()["change"]["questions"]["team"]
    assert stored == team
    assert list(stored["criteria"]) == ["z", "a", "m"]


def test_a_schedule_is_paused_resumed_and_changed(api: Api) -> None:
    made = create(api)
    path = f"/v1/schedules/{made['id']}"
    paused = api.client.patch(path, json={"paused": True}).json()
    assert (paused["status"], paused["next_due_at"]) == ("paused", None)
    moved = api.client.patch(path, json={"cron": "0 4 * * *", "timezone": "UTC"}).json()
    assert (moved["status"], moved["next_due_at"]) == ("paused", None)
    resumed = api.client.patch(path, json={"paused": False}).json()
    assert datetime.fromisoformat(resumed["next_due_at"]).astimezone(UTC).hour == 4
    renamed = api.client.patch(path, json={"name": "other"}).json()
    assert renamed == resumed | {"name": "other"}
    for wrong in ({"cron": "x"}, {"timezone": "x"}, {"colour": "red"}):
        assert api.client.patch(path, json=wrong).status_code == 422


def test_a_schedule_may_be_made_paused(api: Api) -> None:
    assert create(api, paused=True)["next_due_at"] is None


def test_what_passed_during_a_pause_is_not_missed(api: Api, database: Engine) -> None:
    made = create(api, cron="* * * * *")
    path = f"/v1/schedules/{made['id']}"
    api.client.patch(path, json={"paused": True})
    tick(database, datetime.now(UTC) + timedelta(days=3))
    api.client.patch(path, json={"paused": False})
    tick(database, datetime.now(UTC))
    assert api.client.get(f"{path}/runs").json()["data"] == []


def test_a_run_is_asked_for_followed_and_reported(
    api: Api, database: Engine, worker: StandInWorker, decided: str
) -> None:
    schedule = create(api, source={"questions": ["team"]}, thresholds={"agreement": 1})["id"]
    asked = run_now(api, database, schedule)
    assert (asked["status"], asked["by_hand"], asked["matched"]) == ("running", True, 3)
    report_url = asked["report_url"]
    early = api.client.get(report_url)
    assert (early.status_code, "running" in early.json()["detail"]) == (404, True)
    batch = api.batch(asked["batch_id"])
    assert (batch["lane"], batch["metadata"]["schedule"]) == ("nightly", schedule)
    worker.work_until_empty(Lane.NIGHTLY)
    tick(database, datetime.now(UTC))
    assert run(api, schedule, asked["id"])["verdict"] == "promote"
    report = api.client.get(report_url).json()
    assert (report["object"], report["verdict"], report["compared"]) == (
        "schedule.report",
        "promote",
        3,
    )
    assert report["models"]["after"][0]["model"] == "stand-in"
    assert report["schedule_id"] == schedule
    assert api.client.get(report["flips_url"]).json()["data"] == []
    listed = api.client.get(f"/v1/schedules/{schedule}/runs").json()["data"]
    assert listed == [run(api, schedule, asked["id"])]


def test_flips_are_paged_with_both_answers_and_the_truth(
    api: Api, database: Engine, worker: StandInWorker, decided: str
) -> None:
    # Every label is as likely for the stand-in, so the first option is its answer.
    first = api.results(decided)[0]["decisions"]["team"]
    truth = {"decision_id": first, "answer": "billing"}
    api.client.post("/v1/truth", json=truth).raise_for_status()
    schedule = create(api, change={"options": "reversed"})["id"]
    asked = run_now(api, database, schedule)
    worker.work_until_empty(Lane.NIGHTLY)
    tick(database, datetime.now(UTC))
    path = f"/v1/schedules/{schedule}/runs/{asked['id']}/flips"
    one = api.client.get(path, params={"limit": 2}).json()
    two = api.client.get(path, params={"limit": 2, "after": one["last"]}).json()
    assert (one["has_more"], two["has_more"]) == (True, False)
    flips = one["data"] + two["data"]
    assert [
        (f["custom_id"], f["before"]["answer"], f["after"]["answer"], f["truth"]) for f in flips
    ] == [
        ("a", "shipping", "billing", "billing"),
        ("b", "shipping", "billing", None),
        ("c", "shipping", "billing", None),
    ]
    assert flips[0]["batch_id"] == decided
    assert flips[0]["before"]["decision_id"] == first
    assert flips[0]["after"]["probability"] == pytest.approx(0.5)
    assert api.client.get(path, params={"question": "urgent"}).json()["data"] == []


def test_a_run_that_fails_tells_why(api: Api, database: Engine, decided: str) -> None:
    schedule = create(api, change={"model": "candidate"})["id"]
    failed = run_now(api, database, schedule)
    assert (failed["status"], failed["verdict"]) == ("failed", "hold")
    assert failed["error"]["message"] == (
        "no worker of the nightly lane reads with model 'candidate', only with stand-in"
    )
    assert api.client.get(failed["report_url"]).json()["verdict"] == "hold"


def test_another_tenant_sees_nothing_and_rescores_nothing_of_ours(
    api: Api, other: Api, database: Engine, decided: str
) -> None:
    mine = create(api)["id"]
    path = f"/v1/schedules/{mine}"
    run_id = run_now(api, database, mine)["id"]
    assert other.client.get("/v1/schedules").json()["data"] == []
    calls = [
        other.client.get(path),
        other.client.patch(path, json={"paused": True}),
        other.client.delete(path),
        other.client.post(f"{path}/runs"),
        other.client.get(f"{path}/runs"),
        other.client.get(f"{path}/runs/{run_id}"),
        other.client.get(f"{path}/runs/{run_id}/report"),
        other.client.get(f"{path}/runs/{run_id}/flips"),
    ]
    assert {response.status_code for response in calls} == {404}
    theirs = create(other)["id"]
    empty = run_now(other, database, theirs)
    assert (empty["status"], empty["matched"]) == ("empty", 0)
    # A run of ours is none of theirs, whatever path names it.
    assert other.client.get(f"/v1/schedules/{theirs}/runs/{run_id}").status_code == 404


def test_questions_of_the_openai_route_are_rescored_too(
    api: Api, database: Engine, worker: StandInWorker
) -> None:
    questions = [
        {"type": "predicate", "instructions": "It is urgent.", "name": "urgent"},
        {
            "type": "choice",
            "instructions": "Which?",
            "choices": [{"value": "a"}, {"value": "b"}],
            "name": "team",
        },
    ]
    body = {"model": "stand-in", "input": "hello", "questions": questions}
    batch = {"endpoint": "/v1/decisions", "requests": [{"custom_id": "x", "body": body}]}
    api.client.post("/v1/batches", json=batch).raise_for_status()
    worker.work_until_empty()
    schedule = create(api, thresholds={"agreement": 1})["id"]
    asked = run_now(api, database, schedule)
    worker.work_until_empty(Lane.NIGHTLY)
    tick(database, datetime.now(UTC))
    report = api.client.get(asked["report_url"]).json()
    assert (report["verdict"], report["reasons"]) == ("promote", [])
    assert len(api.results(asked["batch_id"])) == 2


def test_the_example_of_the_document_is_accepted(api: Api) -> None:
    document = api.client.get("/openapi.json").json()
    example = document["components"]["schemas"]["NewSchedule"]["examples"][0]
    response = api.client.post("/v1/schedules", json=example)
    assert response.status_code == 201, response.text
