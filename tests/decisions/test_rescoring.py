"""Schedules against a real database: what is due, what a run reads, what its report says. Clocks are arguments."""

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from math import exp, log
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from decisions import queue, schedule_store, webhook_deliveries, webhook_endpoints
from decisions.answers import answer
from decisions.cron import check_cron
from decisions.database import transaction
from decisions.ids import BATCH, RUN, new_uuid, public
from decisions.questions import from_canonical
from decisions.rescoring import tick
from decisions.types import Lane, RunStatus
from decisions.webhook_input import new_secret
from decisions.webhooks import payload
from tests.decisions.store import Row, Store, result

NOW = datetime(2026, 3, 27, 12, tzinfo=UTC)
#: Long after everything that a test stores now.
LATER = datetime(2100, 1, 1, 12, tzinfo=UTC)
EVE = LATER - timedelta(days=1)


class Night:
    """Schedules of a store, and a worker whose beliefs a test decides."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.worker = store.worker()

    def schedule(
        self, cron: str = "0 2 * * *", zone: str = "UTC", now: datetime = EVE, **plan: Any
    ) -> UUID:
        id_ = new_uuid()
        plan = {"source": {}, "change": {}, "thresholds": {}} | plan
        values = {"name": "nightly", "cron": cron, "timezone": zone, **plan}
        with transaction(self.store.engine) as connection:
            due = check_cron(cron, zone, now)
            connection.execute(
                schedule_store.create(self.store.tenant, id_, values | {"next_due_at": due})
            )
        return id_

    def tick(self, now: datetime) -> None:
        tick(self.store.engine, now)

    def runs(self) -> list[Row]:
        return self.store.rows("SELECT * FROM schedule_runs ORDER BY due_at, id")

    def run(self) -> Row:
        (run,) = self.runs()
        return run

    def read(
        self, believe: Callable[[Any, Any], Sequence[float]], lane: Lane = Lane.NIGHTLY
    ) -> None:
        """Complete a lane's items; `believe` gives log-probabilities for a state and a question."""
        while claims := self.worker.claim(lane=lane):
            rows = [
                self._row(claim, question, believe(self._state(claim), question))
                for claim in claims
                for question in self._questions(claim)
            ]
            self.worker._completed([result(claim) for claim in claims], rows)

    def _row(self, claim: Any, question: Any, log_probs: Sequence[float]) -> dict[str, Any]:
        found = answer(question, log_probs)
        return next(iter(self.worker._decisions(claim))) | {
            "question_id": question.id,
            "type": question.type.value,
            "answer": question.options[found.top].name,
            "answer_index": found.top,
            "value": found.value,
            "probabilities": found.probabilities,
            "log_probs": found.log_probs,
            "label_ids": list(range(len(log_probs))),
            "label_mass": found.label_mass,
            "margin": found.margin,
            "entropy": found.entropy,
            "confidence": found.confidence,
        }

    def _state(self, claim: Any) -> str:
        (row,) = self.store.rows("SELECT content FROM states WHERE hash = :h", h=claim.state_hash)
        return str(row["content"])

    def _questions(self, claim: Any) -> Sequence[Any]:
        (row,) = self.store.rows(
            "SELECT content FROM question_sets WHERE hash = :h", h=claim.question_set_hash
        )
        return from_canonical(row["content"]).questions

    def decided(self, *states: str, believe: Callable[..., Sequence[float]] | None = None) -> UUID:
        """A batch of before, read and done."""
        batch = self.store.batch(*states)
        self.read(believe or first, Lane.BULK)
        return batch

    def truth(self, answers: Mapping[str, str], question: str = "team") -> None:
        """By state."""
        for state, right in answers.items():
            self.store.run(
                "INSERT INTO truths (tenant_id, decision_id, answer, source, said_at)"
                " SELECT d.tenant_id, d.id, :right, 'dana', now() FROM decisions d"
                " JOIN states s ON s.hash = d.state_hash"
                " WHERE s.content = to_json(CAST(:state AS text))::text"
                " AND d.question_id = :question",
                right=right,
                state=state,
                question=question,
            )


def belief(options: int, top: int, mass: float = 0.9, share: float = 0.8) -> list[float]:
    rest = (1 - share) / (options - 1)
    return [log(mass * (share if n == top else rest)) for n in range(options)]


def first(state: str, question: Any) -> list[float]:
    return belief(len(question.options), 0)


@pytest.fixture
def night(store: Store) -> Night:
    return Night(store)


# What is due


def test_a_due_time_has_one_run_and_the_next_is_waited_for(night: Night) -> None:
    night.schedule(now=NOW)
    night.tick(NOW)
    assert night.runs() == []
    for minute in range(3):
        night.tick(datetime(2026, 3, 28, 2, minute, tzinfo=UTC))
    assert night.run()["due_at"] == datetime(2026, 3, 28, 2, tzinfo=UTC)
    night.tick(datetime(2026, 3, 29, 2, tzinfo=UTC))
    assert len(night.runs()) == 2


def test_many_schedulers_make_one_run_of_each_due_time(night: Night) -> None:
    for _ in range(5):
        night.schedule("* * * * *")
    night.decided("a")
    times = [EVE + timedelta(minutes=n) for n in range(1, 9) for _ in range(4)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(night.tick, times))
    night.tick(times[-1])
    runs = night.runs()
    assert len({(run["schedule_id"], run["due_at"]) for run in runs}) == len(runs)
    # A late scheduler stands for the minutes before it: none is missing, none is counted twice.
    assert sum(1 + run["missed"] for run in runs) == 5 * 8
    assert night.store.count("batches") == 1 + len(runs)


def test_a_due_time_that_has_its_run_gets_no_second_one(night: Night) -> None:
    id_ = night.schedule(now=NOW)
    due = datetime(2026, 3, 28, 2, tzinfo=UTC)
    night.tick(due)
    night.store.run("UPDATE schedules SET next_due_at = :due WHERE id = :id", due=due, id=id_)
    night.tick(due)
    assert len(night.runs()) == 1


def test_of_missed_due_times_the_newest_has_a_run_and_counts_the_others(night: Night) -> None:
    night.schedule(now=NOW)
    night.tick(datetime(2026, 4, 2, 9, tzinfo=UTC))
    assert (night.run()["due_at"], night.run()["missed"]) == (
        datetime(2026, 4, 2, 2, tzinfo=UTC),
        5,
    )
    night.tick(datetime(2026, 4, 3, 2, tzinfo=UTC))
    assert [run["missed"] for run in night.runs()] == [5, 0]


@pytest.mark.parametrize(
    ("cron", "eve", "expected"),
    [
        ("30 2 * * *", datetime(2026, 3, 28, 12, tzinfo=UTC), ["29 01:00", "30 00:30"]),
        ("30 2 * * *", datetime(2026, 10, 24, 12, tzinfo=UTC), ["25 00:30", "26 01:30"]),
        (
            "*/30 2 * * *",
            datetime(2026, 10, 24, 12, tzinfo=UTC),
            ["25 00:00", "25 00:30", "25 01:00", "25 01:30", "26 01:00", "26 01:30"],
        ),
        ("*/30 2 * * *", datetime(2026, 3, 28, 12, tzinfo=UTC), ["30 00:00", "30 00:30"]),
    ],
)
def test_berlin_s_skipped_and_doubled_hours_run_as_the_rule_says(
    night: Night, cron: str, eve: datetime, expected: list[str]
) -> None:
    night.schedule(cron, "Europe/Berlin", eve)
    for minute in range(0, 38 * 60, 10):
        night.tick(eve + timedelta(minutes=minute))
    assert [f"{run['due_at'].astimezone(UTC):%d %H:%M}" for run in night.runs()] == expected
    assert {run["missed"] for run in night.runs()} == {0}


def test_a_schedule_that_is_paused_or_deleted_is_never_due(night: Night) -> None:
    paused, deleted = night.schedule(now=NOW), night.schedule(now=NOW)
    night.store.run(
        "UPDATE schedules SET paused_at = now(), next_due_at = NULL WHERE id = :id", id=paused
    )
    with transaction(night.store.engine) as connection:
        connection.execute(schedule_store.delete(deleted))
    night.tick(LATER)
    assert night.runs() == []


# What a run reads


def test_a_run_is_a_nightly_batch_with_an_item_per_decision_and_no_new_state(night: Night) -> None:
    night.decided("a", "b")
    states = night.store.rows("SELECT * FROM states ORDER BY hash")
    night.schedule()
    night.tick(LATER)
    run = night.run()
    batch = night.store.row(run["batch_id"])
    assert (batch["lane"], batch["status"], batch["total"]) == ("nightly", "in_progress", 4)
    assert batch["metadata"]["run"].startswith("run_")
    decisions = night.store.rows("SELECT * FROM decisions ORDER BY id")
    items = night.store.items(run["batch_id"])
    assert [item["custom_id"] for item in items] == [f"dec_{d['id']}" for d in decisions]
    assert [item["state_hash"] for item in items] == [d["state_hash"] for d in decisions]
    assert night.store.rows("SELECT * FROM states ORDER BY hash") == states
    assert (run["matched"], run["purged"], run["status"]) == (4, 0, "running")


def test_an_item_asks_its_decision_s_question_and_no_other(night: Night) -> None:
    night.decided("a")
    night.schedule()
    night.tick(LATER)
    night.read(first)
    rows = night.store.rows(
        "SELECT d.question_id, b.question_id AS before FROM decisions d JOIN items i"
        " ON i.id = d.item_id JOIN decisions b ON i.custom_id = 'dec_' || b.id"
    )
    assert [(row["question_id"], row["before"]) for row in rows] == [
        ("team", "team"),
        ("urgent", "urgent"),
    ]


def test_what_runs_have_decided_is_no_source(night: Night) -> None:
    night.decided("a")
    night.schedule("0 * * * *")
    night.tick(LATER)
    night.read(first)
    night.tick(LATER + timedelta(hours=1))
    assert [run["matched"] for run in night.runs()] == [2, 2]


def test_states_that_were_purged_are_skipped_and_counted(night: Night) -> None:
    night.decided("a", "b", "c")
    night.store.run("UPDATE states SET content = NULL, purged_at = now() WHERE content = '\"b\"'")
    night.schedule()
    night.tick(LATER)
    assert (night.run()["matched"], night.run()["purged"]) == (6, 2)
    assert len(night.store.items(night.run()["batch_id"])) == 4


SOURCES: list[tuple[dict[str, Any], int]] = [
    ({}, 6),
    ({"questions": ["team"]}, 3),
    ({"questions": ["colour"]}, 0),
    ({"model": "none"}, 6),
    ({"model": "other"}, 0),
    ({"label_mass": {"max": 0.5}}, 2),
    ({"label_mass": {"min": 0.5}}, 4),
    ({"confidence": {"min": 0.7, "max": 0.75}}, 4),
    ({"route": "review"}, 1),
    ({"last": "24h"}, 4),
    ({"since": "2100-01-01T00:00:00Z"}, 4),
    ({"until": "2099-12-31T00:00:00Z"}, 2),
    ({"sample": {"size": 2}}, 2),
    ({"sample": {"size": 100}}, 6),
    ({"questions": ["team"], "label_mass": {"max": 0.5}, "sample": {"size": 5}}, 1),
]


@pytest.mark.parametrize(("source", "expected"), SOURCES)
def test_a_source_takes_what_it_describes(
    night: Night, source: dict[str, Any], expected: int
) -> None:
    night.decided(
        "a",
        "b",
        "c",
        believe=lambda state, q: belief(len(q.options), 0, 0.3 if state == '"c"' else 0.9),
    )
    # `a` was decided days before the due time, the others within the last day.
    night.store.run(
        "UPDATE decisions d SET created_at = CAST(:due AS timestamptz)"
        " - CASE s.content WHEN '\"a\"' THEN interval '3 d' ELSE interval '2 h' END"
        " FROM states s WHERE s.hash = d.state_hash",
        due=LATER,
    )
    night.store.run(
        "UPDATE decisions SET route = 'review' WHERE id = (SELECT min(id) FROM decisions)"
    )
    night.schedule("0 12 * * *", source=source, now=LATER - timedelta(hours=1))
    night.tick(LATER)
    run = night.run()
    made = night.store.items(run["batch_id"]) if run["batch_id"] else []
    assert len(made) == expected


def test_a_sample_is_the_same_for_the_same_seed_and_another_for_another(night: Night) -> None:
    night.decided(*(f"s{n}" for n in range(40)))
    for seed in (1, 1, 2):
        night.schedule(source={"sample": {"size": 20, "seed": seed}})
    night.tick(LATER)
    one, same, other = (
        [i["custom_id"] for i in night.store.items(run["batch_id"])]
        for run in sorted(night.runs(), key=lambda run: run["source"]["sample"]["seed"])
    )
    assert one == same
    assert len(set(one)) == 20
    assert set(one) != set(other)


def test_a_run_without_a_match_ends_at_once_and_says_so(night: Night) -> None:
    night.schedule()
    night.tick(LATER)
    run = night.run()
    assert (run["status"], run["verdict"], run["batch_id"]) == ("empty", "hold", None)
    assert run["report"]["reasons"] == ["no stored decision matches the source"]
    (event,) = night.store.rows("SELECT * FROM events WHERE type = 'schedule.report'")
    assert event["data"]["status"] == "empty"


# What is changed


def options_asked(night: Night) -> list[list[str]]:
    night.tick(LATER)
    asked = night.store.rows(
        "SELECT DISTINCT ON (q.hash) q.content FROM items i"
        " JOIN question_sets q ON q.hash = i.question_set_hash WHERE i.lane = 'nightly'"
    )
    return sorted(
        [option.name for option in question.options]
        for row in asked
        for question in from_canonical(row["content"]).questions
    )


def test_the_order_of_a_choice_s_options_is_reversed_and_of_nothing_else(night: Night) -> None:
    night.decided("a")
    night.schedule(change={"options": "reversed"})
    assert options_asked(night) == [["else", "billing", "shipping"], ["yes", "no"]]


def test_a_shuffle_is_the_same_for_the_same_seed(night: Night) -> None:
    night.decided("a")
    night.schedule(change={"options": "shuffled", "seed": 3})
    night.schedule(change={"options": "shuffled", "seed": 3})
    first_, second = options_asked(night)
    assert sorted(first_) == ["billing", "else", "shipping"]
    assert second == ["yes", "no"]


def test_a_question_takes_the_place_of_the_one_with_its_id(night: Night) -> None:
    night.decided("a")
    team = {"type": "choice", "criteria": {"post": None, "billing": "payments"}}
    night.schedule(change={"questions": {"team": team}, "instructions": "Be brief."})
    assert options_asked(night) == [["post", "billing"], ["yes", "no"]]
    sets = night.store.rows("SELECT content FROM question_sets WHERE content::text LIKE '%brief%'")
    assert len(sets) == 2


def test_a_question_of_another_type_is_not_asked_and_counted(night: Night) -> None:
    night.decided("a", "b")
    night.schedule(change={"questions": {"team": {"type": "noul"}}})
    night.tick(LATER)
    assert night.run()["incomparable"] == 2
    assert len(night.store.items(night.run()["batch_id"])) == 2


@pytest.mark.parametrize("change", [{"model": "candidate"}, {"kv_format": "nvfp4"}])
def test_a_run_that_no_worker_of_the_lane_can_read_fails_by_name(
    night: Night, change: dict[str, str]
) -> None:
    night.decided("a")
    night.schedule(change=change)
    night.tick(LATER)
    run = night.run()
    assert (run["status"], run["verdict"]) == ("failed", "hold")
    (name, value) = next(iter(change.items()))
    assert run["error"]["param"] == f"change.{name}"
    assert f"{value!r}" in run["error"]["message"]
    (event,) = night.store.rows("SELECT * FROM events WHERE type = 'schedule.report'")
    assert event["data"]["reasons"] == [f"the run failed: {run['error']['message']}"]
    night.tick(LATER + timedelta(minutes=1))
    assert len(night.runs()) == 1


def test_a_run_for_a_model_waits_while_no_worker_of_the_lane_lives(night: Night) -> None:
    night.decided("a")
    night.store.run("UPDATE workers SET stopped_at = now()")
    night.schedule(change={"model": "candidate"})
    night.tick(LATER)
    assert night.run()["status"] == "running"
    assert night.store.row(night.run()["batch_id"])["model"] == "candidate"


# What the report says


def test_nothing_changed_means_full_agreement_and_no_drift(night: Night) -> None:
    night.decided("a", "b")
    night.schedule(thresholds={"agreement": 1, "psi": 0.0, "label_mass_drop": 0})
    night.tick(LATER)
    night.read(first)
    night.tick(LATER)
    run = night.run()
    report = run["report"]
    assert (run["status"], run["verdict"], report["reasons"]) == ("compared", "promote", [])
    assert (report["compared"], report["flips"], report["agreement"]) == (4, 0, 1)
    assert {drift["psi"] for q in report["questions"] for drift in q["drift"]} == {0}
    assert {drift["shift"] for q in report["questions"] for drift in q["drift"]} == {0}


def candidate(state: str, question: Any) -> list[float]:
    """Sends `b` elsewhere, and puts less on labels."""
    return belief(len(question.options), 1 if state == '"b"' else 0, mass=0.6)


def test_flips_drift_and_truth_are_told_per_question(night: Night) -> None:
    night.decided("a", "b", "c", "d")
    night.truth({"a": "shipping", "b": "billing", "c": "else"})
    night.schedule(
        thresholds={"agreement": 0.9, "psi": 0.2, "label_mass_drop": 0.1, "accuracy_drop": 0}
    )
    night.tick(LATER)
    night.read(candidate)
    night.tick(LATER)
    report = night.run()["report"]
    team, urgent = report["questions"]
    assert (team["question"], team["compared"], team["flips"], team["agreement"]) == (
        "team",
        4,
        1,
        0.75,
    )
    assert team["changes"] == [{"before": "shipping", "after": "billing", "count": 1}]
    assert team["truth"] == {
        "count": 3,
        "right_before": 1,
        "right_after": 2,
        "fixed": 1,
        "broken": 0,
        "accuracy_before": pytest.approx(1 / 3),
        "accuracy_after": pytest.approx(2 / 3),
    }
    assert urgent["truth"]["count"] == 0
    mass = next(drift for drift in team["drift"] if drift["of"] == "label_mass")
    assert mass["shift"] == pytest.approx(-0.3)
    assert mass["psi"] > 1
    billing = next(drift for drift in team["drift"] if drift.get("option") == "billing")
    assert billing["mean_after"] - billing["mean_before"] == pytest.approx(0.7 / 4)
    assert night.run()["verdict"] == "hold"
    assert "question 'team': agreement 0.7500 is below 0.9" in report["reasons"]
    assert "question 'team': mean label mass fell by 0.3000, more than 0.1" in report["reasons"]
    assert "question 'urgent': 0 decisions have truth, 1 more are needed" in report["reasons"]


def test_probabilities_are_compared_by_option_and_not_by_position(night: Night) -> None:
    night.decided("a", "b")
    night.schedule(change={"options": "reversed"}, thresholds={"agreement": 1, "psi": 0.01})
    night.tick(LATER)

    def same_belief(state: str, question: Any) -> list[float]:
        names = [option.name for option in question.options]
        return belief(len(names), names.index("shipping") if "shipping" in names else 0)

    night.read(same_belief)
    night.tick(LATER)
    assert night.run()["verdict"] == "promote", night.run()["report"]["reasons"]


def test_psi_agrees_with_a_plain_count_over_deciles(night: Night) -> None:
    masses = {f"s{n}": 0.3 + 0.006 * n for n in range(100)}

    def before(state: str, question: Any) -> list[float]:
        return belief(len(question.options), 0, masses[state.strip('"')])

    def after(state: str, question: Any) -> list[float]:
        return belief(len(question.options), 0, masses[state.strip('"')] * 0.907)

    night.decided(*masses, believe=before)
    night.schedule(source={"questions": ["urgent"]})
    night.tick(LATER)
    night.read(after)
    night.tick(LATER)
    (question,) = night.run()["report"]["questions"]
    drift = question["drift"][0]
    values = sorted(sum(map(exp, belief(2, 0, mass))) for mass in masses.values())
    edges = [values[n * 10 - 1] for n in range(1, 10)]
    assert drift["edges"] == pytest.approx(edges)
    counts = [
        [
            sum(low <= v < high for v in side)
            for low, high in zip([0, *edges], [*edges, 2], strict=True)
        ]
        for side in (values, [0.907 * v for v in values])
    ]
    assert [drift["before"], drift["after"]] == counts
    shares = [[(n + 0.5) / 105 for n in side] for side in counts]
    expected = sum((a - b) * log(a / b) for b, a in zip(*shares, strict=True))
    assert drift["psi"] == pytest.approx(expected)


def test_a_lettered_yes_is_the_same_answer_as_true(night: Night) -> None:
    batch = night.decided("a")
    night.store.run(
        "UPDATE decisions SET answer = 'true' WHERE batch_id = :b AND question_id = 'urgent'",
        b=batch,
    )
    night.schedule(source={"questions": ["urgent"]})
    night.tick(LATER)
    night.read(first)
    night.tick(LATER)
    assert night.run()["report"]["flips"] == 0


def test_items_without_an_answer_are_told_and_held(night: Night) -> None:
    night.decided("a", "b")
    night.schedule(thresholds={"agreement": 0.5})
    night.tick(LATER)
    claims = night.worker.claim(lane=Lane.NIGHTLY, limit=1)
    night.worker.fail(claims)
    night.read(first)
    night.tick(LATER)
    report = night.run()["report"]
    assert report["unanswered"] == {"read_failed": 1}
    assert report["reasons"] == ["0.7500 of the items have an answer, below 1.0 (1 read_failed)"]


def test_a_run_whose_batch_was_cancelled_is_held_with_what_there_is(night: Night) -> None:
    night.decided("a", "b")
    night.schedule(thresholds={"agreement": 0.5})
    night.tick(LATER)
    night.store.cancel(night.run()["batch_id"])
    night.tick(LATER)
    report = night.run()["report"]
    assert (report["compared"], report["unanswered"]) == (0, {"cancelled": 4})
    assert night.run()["verdict"] == "hold"


def test_a_schedule_without_thresholds_promotes_nothing(night: Night) -> None:
    night.decided("a")
    night.schedule()
    night.tick(LATER)
    night.read(first)
    night.tick(LATER)
    assert night.run()["report"]["reasons"] == ["the schedule names no threshold"]


def test_what_was_read_in_another_kv_format_is_held(night: Night) -> None:
    night.decided("a")
    night.store.run("UPDATE workers SET stopped_at = now()")
    night.schedule(change={"kv_format": "nvfp4"}, thresholds={"agreement": 0.5})
    night.tick(LATER)
    night.read(first)
    night.tick(LATER)
    assert night.run()["report"]["reasons"] == [
        "2 decisions were read with kv_format fp32, not nvfp4"
    ]


def test_a_run_for_a_model_is_left_to_workers_that_serve_it(night: Night) -> None:
    night.decided("a")
    night.store.run("UPDATE workers SET stopped_at = now()")
    night.schedule(change={"model": "candidate"})
    night.tick(LATER)
    assert night.worker.claim(lane=Lane.NIGHTLY) == []
    with transaction(night.store.engine) as connection:
        statement = queue.claim(night.worker.id, Lane.NIGHTLY, 100, 60, "candidate")
        assert len(connection.execute(statement).all()) == 2


def test_a_report_is_one_event_however_many_schedulers_look(night: Night) -> None:
    night.decided("a", "b")
    night.schedule(thresholds={"agreement": 1})
    night.tick(LATER)
    night.read(first)
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(night.tick, [LATER] * 12))
    (event,) = night.store.rows("SELECT * FROM events WHERE type = 'schedule.report'")
    run = night.run()
    assert event["batch_id"] == run["batch_id"]
    assert event["data"] | {"id": 0, "schedule_id": 0, "batch_id": 0} == {
        "id": 0,
        "schedule_id": 0,
        "batch_id": 0,
        "name": "nightly",
        "due_at": run["due_at"].astimezone(UTC).isoformat(),
        "status": "compared",
        "verdict": "promote",
        "reasons": [],
        "compared": 4,
        "flips": 0,
        "agreement": 1.0,
    }


def test_a_webhook_that_asks_for_reports_is_told_the_verdict(night: Night) -> None:
    with transaction(night.store.engine) as connection:
        for event in ("schedule.report", "batch.completed"):
            connection.execute(
                webhook_endpoints.create(
                    night.store.tenant, f"https://example.com/{event}", [event], new_secret()
                )
            )
    night.decided("a")
    night.schedule(thresholds={"agreement": 1})
    night.tick(LATER)
    night.read(first)
    night.tick(LATER)
    with transaction(night.store.engine) as connection:
        connection.execute(webhook_deliveries.dispatch())
        rows = connection.execute(webhook_deliveries.claim(100, 100, 60)).all()
    told = [webhook_deliveries.delivery_of(row) for row in rows]
    (report,) = [one for one in told if one.url.endswith("schedule.report")]
    body = json.loads(payload(report.event))
    run = night.run()
    assert (body["type"], body["data"]["verdict"]) == ("schedule.report", "promote")
    assert body["data"]["id"] == public(RUN, run["id"])
    assert body["data"]["batch_id"] == public(BATCH, run["batch_id"])


def test_a_scheduler_that_dies_in_a_step_leaves_nothing_of_it(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    night.decided("a")
    night.schedule()

    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("decisions.batches.count_items", die)
        with pytest.raises(KeyboardInterrupt):
            night.tick(LATER)
    assert (night.run()["status"], night.store.count("batches")) == ("due", 1)
    night.tick(LATER)
    assert (night.run()["status"], night.store.count("batches")) == ("running", 2)


def test_a_schedule_that_cannot_be_read_here_holds_up_no_other(night: Night) -> None:
    broken = night.schedule()
    night.store.run("UPDATE schedules SET timezone = 'Moon/Base' WHERE id = :id", id=broken)
    night.schedule()
    night.tick(LATER)
    assert len(night.runs()) == 1


def test_a_plan_of_another_version_fails_its_run_and_no_other(night: Night) -> None:
    night.decided("a")
    strange = night.schedule()
    night.store.run("UPDATE schedules SET source = '{\"last\": 24}' WHERE id = :id", id=strange)
    night.schedule()
    night.tick(LATER)
    assert sorted(run["status"] for run in night.runs()) == ["failed", "running"]


def test_a_run_that_the_database_refuses_ends_with_its_reason(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    night.decided("a")
    night.schedule()
    with monkeypatch.context() as patch:
        patch.setattr("decisions.sources.make_items", lambda *_: text("SELECT 1 / 0"))
        night.tick(LATER)
    run = night.run()
    assert (run["status"], run["error"]["message"]) == ("failed", "division by zero")
    assert night.store.count("batches") == 1


def test_a_run_that_is_held_up_holds_up_no_other(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    night.decided("a")
    first_one, second = night.schedule(), night.schedule()
    take, away = schedule_store.take_run, list[UUID]()

    def flaky(run_id: UUID, status: RunStatus) -> Any:
        if not away:
            away.append(run_id)
            raise OperationalError("SELECT", {}, Exception("the database is away"))
        return take(run_id, status)

    with monkeypatch.context() as patch:
        patch.setattr("decisions.schedule_store.take_run", flaky)
        with pytest.raises(OperationalError):
            night.tick(LATER)
    assert sorted(run["status"] for run in night.runs()) == ["due", "running"]
    night.tick(LATER)
    assert {run["status"] for run in night.runs()} == {"running"}
    assert {run["schedule_id"] for run in night.runs()} == {first_one, second}
