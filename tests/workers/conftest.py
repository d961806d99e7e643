"""A registered worker in this process: real Postgres, the default model's tokenizer, tiny real weights."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
import torch
from sqlalchemy import Engine as Database
from sqlalchemy import text
from transformers import LlamaConfig, LlamaForCausalLM

from decisions import fleet, keys
from decisions.answers import Confidence
from decisions.bodies import system_one_body
from decisions.database import sync_engine, transaction
from decisions.items import check_item
from decisions.submit import submit
from decisions.types import Json, Lane, Submission
from engine.config import EngineConfig
from engine.engine import Engine
from engine.models import find_model
from engine.tokenizer import load_tokenizer
from workers.decide import Decider
from workers.drain import Drain, EngineCounters
from workers.prompts import Prompter
from workers.settings import WorkerSettings, default_cache

torch.set_num_threads(1)

CONTEXT = 512


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return load_tokenizer(find_model("default", cache_dir=default_cache()))


@pytest.fixture(scope="session")
def prompter(tokenizer: Any) -> Prompter:
    return Prompter(tokenizer, "SmolLM2")


def build_tiny(vocabulary: int) -> Any:
    torch.manual_seed(11)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=CONTEXT,
        initializer_range=0.2,
    )
    model: Any = LlamaForCausalLM(config)
    return model.eval()


@pytest.fixture
def engine(tokenizer: Any, tmp_path: Path) -> Engine:
    model: Any = build_tiny(len(tokenizer))
    return Engine(model, EngineConfig(cache_dir=tmp_path), name="tiny", revision="r1")


@pytest.fixture
def plain_model(tokenizer: Any) -> Any:
    """The same weights as the engine's, as transformers reads them."""
    model = build_tiny(len(tokenizer))
    model.set_attn_implementation("eager")
    return model


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A worker whose parts a test may reach."""

    database: Database
    tenant: int
    worker: UUID
    decider: Decider
    drain: Drain
    settings: WorkerSettings

    def submit(self, items: Sequence[Mapping[str, Json]], questions: Json, **what: Any) -> UUID:
        parse = system_one_body({"questions": questions})
        checked = (
            check_item(dict(item), n, parse, "/v1/systemone", search_nul=True)
            for n, item in enumerate(items, 1)
        )
        return submit(self.database, Submission(tenant_id=self.tenant, **what), checked).batch_id

    def rows(self, sql: str, **parameters: Any) -> list[Any]:
        with transaction(self.database) as connection:
            return list(connection.execute(text(sql), parameters))

    def execute(self, statement: Any) -> Any:
        with transaction(self.database) as connection:
            result = connection.execute(statement)
            return result.all() if result.returns_rows else None


@pytest.fixture
def make_bench(database_url: str, prompter: Prompter) -> Iterator[Callable[..., Bench]]:
    database = sync_engine(database_url)

    def make(engine: Engine, **settings: Any) -> Bench:
        worker = uuid4()
        with transaction(database) as connection:
            tenant = connection.execute(keys.ensure_tenant("t")).scalar_one()
            names = ("model", "revision", "dtype", "kv_format", "attention", "engine_version")
            version = connection.execute(
                fleet.record_model_version(dict.fromkeys((*names, "device"), "x"))
            ).scalar_one()
            connection.execute(fleet.register_worker(worker, "w", version, CONTEXT, list(Lane)))
        decider = Decider(
            engine,
            prompter,
            worker_id=worker,
            model_version_id=version,
            confidence=Confidence.LABEL_MASS,
        )
        chosen = WorkerSettings.model_validate(
            {"DATABASE_URL": database_url, "REDIS_URL": "redis://unused", **settings}
        )
        counters = EngineCounters(lambda: engine.stats)
        drain = Drain(database, decider, worker, "tiny", chosen, counters)
        return Bench(
            database=database,
            tenant=tenant,
            worker=worker,
            decider=decider,
            drain=drain,
            settings=chosen,
        )

    yield make
    database.dispose()


@pytest.fixture
def bench(make_bench: Callable[..., Bench], engine: Engine) -> Bench:
    return make_bench(engine)
