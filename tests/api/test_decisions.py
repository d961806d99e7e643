from decisions.types import Lane
from tests.api.served import Api, StandInWorker


def decision_of(api: Api, worker: StandInWorker, state: object, question: str) -> dict[str, object]:
    batch = api.submit(
        [{"custom_id": "ticket-1", "state": state, "instructions": "Be fair."}], lane="nightly"
    )
    worker.work_until_empty(Lane.NIGHTLY)
    (row,) = api.results(batch["id"])
    response = api.client.get(f"/v1/decisions/{row['decisions'][question]}")
    assert response.status_code == 200, response.text
    decision: dict[str, object] = response.json()
    assert decision["batch_id"] == batch["id"]
    assert decision["answer"] == row["answers"][question]
    return decision


def test_a_decision_says_what_was_asked_and_what_the_model_was_shown(
    api: Api, worker: StandInWorker
) -> None:
    decision = decision_of(api, worker, {"subject": "Où?", "n": [1, None]}, "team")
    assert decision["object"] == "decision"
    assert decision["custom_id"] == "ticket-1"
    assert decision["lane"] == "nightly"
    assert decision["state"] == {"subject": "Où?", "n": [1, None]}
    assert decision["question"] == {
        "id": "team",
        "type": "choice",
        "instructions": "Which team?",
    }
    assert decision["prompt"] == {
        "version": "systemone-1",
        "hash": "00" * 32,
        "tokens": 10,
        "system": "Be fair.",
        "user": '{"subject": "Où?", "n": [1, null]}\n\n'
        "Question: Which team?\nA: shipping - deliveries\nB: billing\n"
        "Answer with the letter of one option only.",
    }


def test_a_decision_says_what_was_read_and_by_whom(api: Api, worker: StandInWorker) -> None:
    decision = decision_of(api, worker, "text", "urgent")
    options = decision["options"]
    assert isinstance(options, list)
    assert [(o["name"], o["label"], o["probability"]) for o in options] == [
        ("yes", "yes", 0.5),
        ("no", "no", 0.5),
    ]
    model, work, timing = decision["model"], decision["work"], decision["timing"]
    assert isinstance(model, dict)
    assert isinstance(work, dict)
    assert isinstance(timing, dict)
    assert (model["name"], model["dtype"]) == ("stand-in", "float32")
    assert (work["worker"], work["attempt"]) == (worker.id.hex, 1)
    assert timing["queue_seconds"] >= 0
    assert decision["confidence_formula"] == "label_mass"


def test_a_decision_outlives_its_purged_state(api: Api, worker: StandInWorker) -> None:
    id_ = decision_of(api, worker, "secret", "team")["id"]
    worker.purge_states()
    decision = api.client.get(f"/v1/decisions/{id_}").json()
    assert decision["state"] is None
    assert decision["prompt"]["user"] is None
    assert len(decision["state_hash"]) == 64
    assert decision["answer"]["choice"] == "shipping"
