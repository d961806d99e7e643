"""A worker's settings: the only place of this process that reads the environment."""

import os
from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from decisions.answers import Confidence
from decisions.lanes import BY_URGENCY
from decisions.types import Lane


def default_cache() -> Path:
    """The user's cache folder by the XDG convention."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weighbridge"


class SweeperSettings(BaseSettings):
    """Each variable is called WEIGHBRIDGE_ and the field's name, unless it has a name of its own."""

    model_config = SettingsConfigDict(env_prefix="WEIGHBRIDGE_", frozen=True, extra="ignore")

    #: Where decisions are stored. Required.
    database_url: str = Field(validation_alias="DATABASE_URL")
    #: Where bells ring. Required.
    redis_url: str = Field(validation_alias="REDIS_URL")


class WorkerSettings(SweeperSettings):
    """What a process that reads needs besides."""

    #: "default", a hub id, or a local folder. Defaults to "default".
    model: str = "default"
    #: Folder of a LoRA adapter; empty takes the model's own, if its manifest names one. Defaults to empty.
    adapter: str = ""
    #: "auto", "float32" or "bfloat16". Defaults to "auto".
    dtype: str = "auto"
    #: "auto", "cpu" or "cuda". Defaults to "auto".
    device: str = "auto"
    #: How a state's keys and values are stored. Defaults to "native", the dtype of the model.
    kv_format: str = "native"
    #: Tokens of one forward pass. Defaults to 2048.
    max_tokens_per_pass: int = Field(default=2048, ge=1)
    #: Bytes of states kept between reads. Defaults to 512 MiB.
    prefix_store_bytes: int = Field(default=512 * 2**20, ge=0)
    #: Threads of one forward pass; 0 leaves the choice to torch. Defaults to 0.
    threads: int = Field(default=0, ge=0)
    #: Where converted models are kept. Defaults to the user's cache folder.
    cache: Path = Field(default_factory=default_cache)
    #: Which formula `confidence` follows: label_mass, peak or entropy. Defaults to label_mass.
    confidence: Confidence = Confidence.LABEL_MASS
    #: Lanes that this worker serves, as a JSON list. Defaults to all.
    lanes: tuple[Lane, ...] = BY_URGENCY
    #: "solo" reads in the worker's own process, "prefork" in a child that may die alone, "auto" is
    #: prefork on CUDA and solo elsewhere. Defaults to "auto".
    pool: Literal["auto", "solo", "prefork"] = "auto"
    #: A worker that is silent for longer loses its items to others. Defaults to 6 seconds.
    lease_seconds: float = Field(default=6, gt=1)
    #: Seconds that one claim should take to read; claims grow and shrink towards it. Defaults to 1.
    claim_seconds: float = Field(default=1, gt=0)
    #: Items of one claim at most. Defaults to 512.
    claim_limit: int = Field(default=512, ge=1)
    #: Seconds after which a drain lets other messages in. Defaults to 5.
    drain_seconds: float = Field(default=5, gt=0)


class SenderSettings(SweeperSettings):
    """What the process that sends webhooks needs."""

    #: Call http and private addresses too, which no server that strangers reach should. Defaults to false.
    webhook_allow_private: bool = False
    #: Seconds that an endpoint has for its whole answer. Defaults to 15.
    webhook_timeout_seconds: float = Field(default=15, gt=0)
    #: Calls at a time. Defaults to 64.
    webhook_threads: int = Field(default=64, ge=1)
    #: Calls of one endpoint at a time, about. Defaults to 8.
    webhook_threads_per_endpoint: int = Field(default=8, ge=1)
    #: Seconds after which another sender may repeat a call whose sender went silent. Defaults to 60.
    webhook_lease_seconds: float = Field(default=60, gt=0)
