"""A real API on a real socket, and a stand-in for workers."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from math import log
from socket import socket
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import httpx2
import redis
import uvicorn
from sqlalchemy import Engine, text

from api.app import create_app
from api.settings import Settings
from decisions import contents, fleet, keys, queue
from decisions.answers import answer
from decisions.database import transaction
from decisions.ids import BATCH, uuid_of
from decisions.prompts import version
from decisions.questions import from_canonical
from decisions.types import Claim, Lane, Question

QUESTIONS: dict[str, Any] = {
    "team": {
        "type": "choice",
        "instructions": "Which team?",
        "criteria": {"shipping": "deliveries", "billing": None},
    },
    "urgent": {"type": "noul", "instructions": "Is it urgent?"},
    "tone": {"type": "score", "criteria": ["calm", "cross", "furious"]},
}


class Server(uvicorn.Server):
    """Says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = Event()

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


@contextmanager
def served(settings: Settings) -> Iterator[str]:
    """The base URL of an API that runs in a thread."""
    config = uvicorn.Config(create_app(settings), port=0, log_config=None, lifespan="on")
    server = Server(config)
    thread = Thread(target=server.run)
    thread.start()
    try:
        assert server.listening.wait(20)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


def make_key(database: Engine, tenant: str) -> str:
    key = keys.new_key()
    with transaction(database) as connection:
        tenant_id = connection.execute(keys.ensure_tenant(tenant)).scalar_one()
        connection.execute(keys.store(tenant_id, "test", key))
    return key.secret


def client_of(url: str, secret: str | None = None) -> httpx2.Client:
    headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
    return httpx2.Client(base_url=url, headers=headers, timeout=60)


@dataclass(frozen=True, kw_only=True)
class Api:
    """A running API, as one of its tenants sees it."""

    url: str
    client: httpx2.Client

    def submit(self, requests: Sequence[Any], **fields: Any) -> dict[str, Any]:
        body = {"requests": requests, "questions": QUESTIONS, **fields}
        response = self.client.post("/v1/batches", json=body)
        assert response.status_code == 202, response.text
        batch: dict[str, Any] = response.json()
        return batch

    def upload(self, content: bytes, **fields: str) -> dict[str, Any]:
        response = self.client.post(
            "/v1/files",
            files={"file": ("items.jsonl", content)},
            data={"purpose": "batch", **fields},
        )
        assert response.status_code == 200, response.text
        file: dict[str, Any] = response.json()
        return file

    def submit_file(self, content: bytes, **fields: Any) -> dict[str, Any]:
        file_id = self.upload(content)["id"]
        body = {"input_file_id": file_id, "questions": QUESTIONS, **fields}
        response = self.client.post("/v1/batches", json=body)
        assert response.status_code == 202, response.text
        batch: dict[str, Any] = response.json()
        return batch

    def batch(self, id_: str) -> dict[str, Any]:
        batch: dict[str, Any] = self.client.get(f"/v1/batches/{id_}").raise_for_status().json()
        return batch

    def results(self, id_: str, **query: int) -> list[dict[str, Any]]:
        response = self.client.get(f"/v1/batches/{id_}/results", params=query).raise_for_status()
        return [httpx2.Response(200, content=line).json() for line in lines_of(response.content)]


def lines_of(content: bytes) -> list[bytes]:
    *lines, rest = content.split(b"\n")
    assert rest == b"", "the last line has no end"
    return lines


class StandInWorker:
    """Claims and completes as a worker does, but invents its reads instead of running a model.

    Every label has the same probability, and together they hold the label mass 0.9.
    """

    def __init__(self, database: Engine) -> None:
        self._database = database
        self.id = uuid4()
        with transaction(database) as connection:
            self._model = connection.execute(fleet.record_model_version(MODEL)).scalar_one()
            connection.execute(
                fleet.register_worker(self.id, "stand-in", self._model, 2048, list(Lane))
            )

    def work(self, lane: Lane = Lane.BULK, limit: int = 100) -> int:
        """Claim up to `limit` items and answer them; how many there were."""
        claims = self.claim(lane, limit)
        self.complete(claims)
        return len(claims)

    def work_until_empty(self, lane: Lane = Lane.BULK) -> None:
        while self.work(lane):
            pass

    @contextmanager
    def listening(self, redis_url: str, lane: Lane = Lane.INTERACTIVE) -> Iterator[None]:
        """Answer what is in a lane whenever its bell rings, in a thread."""
        stopping = Event()

        def run() -> None:
            with closing(redis.Redis.from_url(redis_url)) as client:
                while not stopping.is_set():
                    if client.brpop([f"weighbridge:bell-{lane}"], timeout=0.2):
                        self.work_until_empty(lane)

        thread = Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            stopping.set()
            thread.join(20)

    def claim(self, lane: Lane = Lane.BULK, limit: int = 100) -> list[Claim]:
        """Items for any model, or else those for this one."""
        for model in ("", MODEL["model"]):
            statement = queue.claim(self.id, lane, limit, 60, model)
            with transaction(self._database) as connection:
                claims = [Claim(**row) for row in connection.execute(statement).mappings()]
            if claims:
                return claims
        return []

    def complete(self, claims: Sequence[Claim]) -> None:
        sets = self._question_sets(claims)
        asked = [
            (claim, q) for claim in claims for q in sets[claim.tenant_id, claim.question_set_hash]
        ]
        results = [
            {"id": c.id, "fence": c.fence, "status": "done", "input_tokens": 10, "output_tokens": 1}
            for c in claims
        ]
        with transaction(self._database) as connection:
            connection.execute(queue.complete(results, [self._decision(*pair) for pair in asked]))
            counts = {"prefills": len(claims), "reads": len(asked), "items_done": len(claims)}
            connection.execute(fleet.count(self.id, counts))

    def fail(self, claims: Sequence[Claim], code: str, message: str) -> None:
        error = {"code": code, "message": message, "param": "state", "line": None}
        results = [
            {
                "id": c.id,
                "fence": c.fence,
                "status": "failed",
                "error": error,
                "input_tokens": 0,
                "output_tokens": 0,
            }
            for c in claims
        ]
        with transaction(self._database) as connection:
            connection.execute(queue.complete(results, []))

    def expire(self, batch_id: str) -> None:
        """Let a batch's window end, and sweep."""
        with transaction(self._database) as connection:
            connection.execute(
                text("UPDATE batches SET expires_at = now() - interval '1 s' WHERE id = :id"),
                {"id": uuid_of(BATCH, batch_id)},
            )
            connection.execute(queue.sweep_closed())

    def purge_states(self) -> None:
        with transaction(self._database) as connection:
            connection.execute(text("UPDATE states SET content = NULL, purged_at = now()"))

    def _question_sets(
        self, claims: Sequence[Claim]
    ) -> Mapping[tuple[int, bytes], tuple[Question, ...]]:
        wanted = {(claim.tenant_id, claim.question_set_hash) for claim in claims}
        with transaction(self._database) as connection:
            rows = connection.execute(contents.load_question_sets(list(wanted))).all()
        return {(r.tenant_id, r.hash): from_canonical(r.content).questions for r in rows}

    def _decision(self, claim: Claim, question: Question) -> dict[str, Any]:
        n = len(question.options)
        found = answer(question, [log(0.9 / n)] * n)
        return {
            "item_id": claim.id,
            "question_id": question.id,
            "type": question.type.value,
            "answer": question.options[found.top].name,
            "answer_index": found.top,
            "value": found.value,
            "probabilities": found.probabilities,
            "log_probs": found.log_probs,
            "label_ids": list(range(n)),
            "label_mass": found.label_mass,
            "argmax_token": 0,
            "argmax_is_label": True,
            "margin": found.margin,
            "entropy": found.entropy,
            "confidence": found.confidence,
            "confidence_formula": found.confidence_formula.value,
            "prompt_version": version(question),
            "prompt_hash": "00" * 32,
            "prompt_tokens": 10,
            "model_version_id": self._model,
            "worker_id": str(self.id),
            "queue_seconds": claim.queue_seconds,
            "read_seconds": 0.01,
            "prefilled_tokens": 5,
            "cached_tokens": 0,
        }


MODEL = {
    "model": "stand-in",
    "revision": "1",
    "dtype": "float32",
    "kv_format": "fp32",
    "attention": "none",
    "engine_version": "0",
    "device": "cpu",
}
