"""Claim, read, complete against a real Postgres, with tiny real weights."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from sqlalchemy import text

from decisions import batches, queue
from decisions.database import transaction
from decisions.types import Claim, Lane
from engine.config import EngineConfig
from engine.engine import Engine
from engine.types import Group, GroupScores
from workers import contents
from workers.prompts import Prompter

URGENT: Any = {"urgent": {"type": "noul", "instructions": "Is this urgent?"}}
TWO: Any = URGENT | {"team": {"type": "choice", "criteria": {"billing": "payments", "other": None}}}

Bench = Any


def items(count: int, states: int) -> list[dict[str, Any]]:
    made = [{"custom_id": f"i{n}", "state": f"ticket {n % states}"} for n in range(count)]
    random.Random(5).shuffle(made)  # noqa: S311 - test data
    return made


def fates(bench: Bench) -> dict[str, int]:
    return dict(map(tuple, bench.rows("SELECT status, count(*) FROM items GROUP BY 1")))


def test_every_item_gets_one_decision_per_question(bench: Bench) -> None:
    bench.submit(items(20, 7), TWO)
    assert bench.drain.run(60) is False
    assert fates(bench) == {"done": 20}
    counted = bench.rows("SELECT question_id, count(*) FROM decisions GROUP BY 1 ORDER BY 1")
    assert list(map(tuple, counted)) == [("team", 20), ("urgent", 20)]
    assert bench.rows("SELECT status, done FROM batches") == [("completed", 20)]


def test_shuffled_items_prefill_each_state_once(bench: Bench) -> None:
    distinct = [URGENT | {"n": {"type": "noul", "instructions": f"Variant {n}?"}} for n in range(8)]
    many = [
        {"custom_id": f"{s}-{n}", "state": f"ticket {s}", "questions": asked}
        for s in range(25)
        for n, asked in enumerate(distinct)
    ]
    random.Random(2).shuffle(many)  # noqa: S311 - test data
    bench.submit(many, None)
    bench.drain.run(60)
    counted = bench.rows("SELECT prefills, reads, items_done, stale_results FROM workers")
    # 25 states; 8 sets of two questions each, none of them asked twice of a state.
    assert counted == [(25, 400, 200, 0)]


def test_the_same_question_about_the_same_state_is_read_once_in_a_claim(bench: Bench) -> None:
    bench.submit([{"custom_id": f"copy-{n}", "state": "the same"} for n in range(4)], TWO)
    bench.drain.once()
    assert bench.rows("SELECT prefills, reads FROM workers") == [(1, 2)]
    assert bench.rows("SELECT count(*), count(DISTINCT log_probs) FROM decisions") == [(8, 2)]


def test_a_decision_says_what_it_was_made_with(bench: Bench, prompter: Prompter) -> None:
    bench.submit([{"custom_id": "a", "state": {"subject": "late"}}], URGENT)
    bench.drain.run(60)
    [row] = bench.rows("SELECT * FROM decisions")
    [question] = contents_questions(bench)
    whole = prompter.whole_prompt({"subject": "late"}, None, question)
    assert row.prompt_tokens == len(whole)
    assert row.prefilled_tokens > 0
    assert row.cached_tokens == 0
    assert row.label_ids == list(prompter.label_ids(question))
    assert row.worker_id == bench.worker
    assert (row.attempt, row.type, row.confidence_formula) == (1, "noul", "label_mass")
    assert 0 <= row.label_mass <= 1
    assert row.argmax_is_label == (row.argmax_token in row.label_ids)


def contents_questions(bench: Bench) -> Sequence[Any]:
    with transaction(bench.database) as connection:
        [item] = connection.execute(text("SELECT * FROM items")).all()
        claim = Claim(
            id=item.id,
            fence=0,
            attempt=1,
            tenant_id=item.tenant_id,
            state_hash=item.state_hash,
            question_set_hash=item.question_set_hash,
            queue_seconds=0,
        )
        loaded = contents.load(connection, [claim])
    return loaded.question_sets[item.tenant_id, item.question_set_hash].questions


def test_probabilities_are_those_of_the_whole_prompt_read_alone(
    bench: Bench, prompter: Prompter, plain_model: Any
) -> None:
    bench.submit(items(12, 12), TWO)
    bench.drain.run(60)
    stored = bench.rows(
        "SELECT s.content::json #>> '{}' AS state, d.* FROM decisions d JOIN states s ON s.hash = d.state_hash"
    )
    assert len(stored) == 24
    by_id = {q.id: q for q in parsed(TWO)}
    for row in stored:
        whole = prompter.whole_prompt(row.state, None, by_id[row.question_id])
        with torch.inference_mode():
            logits = plain_model(torch.tensor([whole]), use_cache=False).logits[0, -1].double()
        expected = logits.log_softmax(-1)[row.label_ids].softmax(-1)
        assert torch.allclose(
            torch.tensor(row.probabilities, dtype=torch.float64), expected, atol=1e-4
        )


def parsed(questions: Any) -> Sequence[Any]:
    from decisions.questions import parse_question_set

    return parse_question_set(questions).questions


def test_a_state_longer_than_the_context_fails_alone(bench: Bench) -> None:
    bench.submit(
        [
            {"custom_id": "long", "state": "word " * 600},
            {"custom_id": "short", "state": "fine"},
            {"custom_id": "asked-too-much", "state": "fine", "questions": long_question()},
        ],
        URGENT,
    )
    bench.drain.run(60)
    rows = bench.rows("SELECT custom_id, status, error->>'code' FROM items ORDER BY line")
    too_long = "context_length_exceeded"
    assert rows == [
        ("long", "failed", too_long),
        ("short", "done", None),
        ("asked-too-much", "failed", too_long),
    ]


def long_question() -> Any:
    return {"q": {"type": "noul", "instructions": "word " * 600}}


def test_a_purged_state_fails_by_name(bench: Bench) -> None:
    bench.submit(items(2, 2), URGENT)
    bench.rows(
        "UPDATE states SET content = NULL, purged_at = now() WHERE content LIKE '%ticket 1%' RETURNING 1"
    )
    bench.drain.run(60)
    assert bench.rows("SELECT status, error->>'code' FROM items ORDER BY custom_id") == [
        ("done", None),
        ("failed", "state_purged"),
    ]


def test_scores_that_are_not_finite_are_a_stored_error(
    make_bench: Callable[..., Bench], engine: Engine
) -> None:
    model: Any = engine._model._model
    with torch.no_grad():
        model.lm_head.weight.fill_(float("nan"))
    bench = make_bench(engine)
    bench.submit(items(2, 2), URGENT)
    bench.drain.run(60)
    assert fates(bench) == {"failed": 2}
    assert bench.rows("SELECT DISTINCT error->>'code' FROM items") == [("non_finite_scores",)]
    assert bench.rows("SELECT count(*) FROM decisions") == [(0,)]


class EngineThatCannotReadOneState(Engine):
    """Stands in for an engine that runs out of memory on one group."""

    forbidden: tuple[int, ...] = ()

    def read(self, groups: Sequence[Group]) -> list[GroupScores]:
        if any(group.prefix_ids == self.forbidden for group in groups):
            raise MemoryError("no memory for this group")
        return super().read(groups)


def test_a_group_that_cannot_be_read_takes_no_neighbour_down(
    make_bench: Callable[..., Bench], engine: Engine, prompter: Prompter, tmp_path: Path
) -> None:
    model: Any = engine._model._model
    failing = EngineThatCannotReadOneState(
        model, EngineConfig(cache_dir=tmp_path), name="tiny", revision="r1"
    )
    failing.forbidden = prompter.group("ticket 3", None, parsed(URGENT)).prefix_ids
    bench = make_bench(failing)
    bench.submit(items(8, 8), URGENT)
    bench.drain.run(60)
    assert fates(bench) == {"done": 7, "failed": 1}
    [error] = bench.rows("SELECT error->>'message' FROM items WHERE status = 'failed'")
    assert error == ("MemoryError: no memory for this group",)


def test_the_most_urgent_lane_goes_first(make_bench: Callable[..., Bench], engine: Engine) -> None:
    bench = make_bench(engine, claim_limit=4)
    bench.submit(items(12, 12), URGENT, lane=Lane.NIGHTLY)
    bench.submit(items(12, 12), URGENT, lane=Lane.BULK)
    bench.submit(items(2, 2), URGENT, lane=Lane.INTERACTIVE)
    order = []
    for _ in range(3):
        bench.drain.once()
        order.append(bench.rows("SELECT DISTINCT lane FROM items WHERE status = 'done' ORDER BY 1"))
    assert order[0] == [("interactive",)]
    assert order[1] == [("bulk",), ("interactive",)]


def test_a_result_whose_lease_was_lost_is_thrown_away_and_counted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.submit(items(3, 3), URGENT)
    decide = bench.decider.decide

    def lose_the_lease(claims: Any, loaded: Any) -> Any:
        outcome = decide(claims, loaded)
        bench.rows("UPDATE items SET lease_until = now() - interval '1 s' RETURNING 1")
        bench.execute(queue.sweep_leases())
        monkeypatch.setattr(bench.decider, "decide", decide)
        return outcome

    monkeypatch.setattr(bench.decider, "decide", lose_the_lease)
    assert bench.drain.once()
    assert fates(bench) == {"queued": 3}
    assert bench.rows("SELECT count(*) FROM decisions") == [(0,)]
    assert bench.rows("SELECT stale_results FROM workers") == [(3,)]
    bench.drain.run(60)
    assert fates(bench) == {"done": 3}
    assert bench.rows("SELECT count(*), max(attempt) FROM decisions") == [(3, 2)]


def test_a_drain_that_is_told_to_stop_claims_nothing_more(bench: Bench) -> None:
    bench.submit(items(3, 3), URGENT)
    bench.drain.stopping.set()
    assert bench.drain.run(60) is True
    assert fates(bench) == {"queued": 3}


def test_a_cancelled_batch_keeps_what_is_done(
    make_bench: Callable[..., Bench], engine: Engine
) -> None:
    bench = make_bench(engine, claim_limit=4)
    batch = bench.submit(items(12, 12), URGENT)
    bench.drain.once()
    bench.execute(batches.start_cancel(bench.tenant, batch))
    bench.execute(batches.cancel_queued(batch))
    assert bench.drain.run(60) is False
    assert fates(bench) == {"done": 4, "cancelled": 8}
    assert bench.rows("SELECT status, done, cancelled FROM batches") == [("cancelled", 4, 8)]
    assert bench.rows("SELECT type FROM events") == [("batch.cancelled",)]


def test_a_database_that_restarts_does_not_cost_a_read(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.submit(items(3, 3), URGENT)
    decide = bench.decider.decide

    def cut_connections(claims: Any, loaded: Any) -> Any:
        outcome = decide(claims, loaded)
        bench.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return outcome

    monkeypatch.setattr(bench.decider, "decide", cut_connections)
    assert bench.drain.run(60) is False
    assert fates(bench) == {"done": 3}
    assert bench.rows("SELECT max(attempt) FROM decisions") == [(1,)]
    assert bench.rows("SELECT prefills, reads FROM workers") == [(3, 3)]


def test_a_decision_that_the_database_refuses_fails_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.submit(items(3, 3), URGENT)
    decide = bench.decider.decide

    def spoil_one(claims: Any, loaded: Any) -> Any:
        outcome = decide(claims, loaded)
        outcome.decisions[1]["label_mass"] = 1.5
        return outcome

    monkeypatch.setattr(bench.decider, "decide", spoil_one)
    bench.drain.run(60)
    assert fates(bench) == {"done": 2, "failed": 1}
    [(code, message)] = bench.rows(
        "SELECT error->>'code', error->>'message' FROM items WHERE status = 'failed'"
    )
    assert code == "not_storable"
    assert "ck_decisions_label_mass" in message


def test_suspects_and_others_take_turns(bench: Bench) -> None:
    bench.submit(items(40, 40), URGENT)
    bench.rows("UPDATE items SET suspect = true WHERE line <= 10 RETURNING 1")
    sizes = []
    for _ in range(4):
        before = fates(bench).get("done", 0)
        bench.drain.once()
        sizes.append(fates(bench)["done"] - before)
    assert sizes[0] == sizes[2] == 1
    assert min(sizes[1], sizes[3]) > 1


def test_items_for_another_model_are_left_to_its_workers(bench: Bench) -> None:
    bench.submit(items(3, 3), URGENT, reader="another")
    bench.submit(items(3, 3), URGENT, reader="tiny")
    bench.submit(items(3, 3), URGENT)
    assert bench.drain.run(60) is False
    assert bench.rows("SELECT model, status, count(*) FROM items GROUP BY 1, 2 ORDER BY 1") == [
        ("", "done", 3),
        ("another", "queued", 3),
        ("tiny", "done", 3),
    ]
