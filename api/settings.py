"""The API's settings: the only place where this process reads its environment."""

from enum import StrEnum
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from decisions.answers import Confidence
from decisions.questions import Rules, Structured

MIB = 1 << 20


class Auth(StrEnum):
    """Who may call."""

    #: Every call under /v1 needs a bearer key.
    REQUIRED = "required"
    #: Everyone, as the tenant `default`; for machines that nobody else reaches.
    OFF = "off"


class Settings(BaseSettings):
    """Each is read from WEIGHBRIDGE_ and its name in capitals, unless its line says otherwise."""

    model_config = SettingsConfigDict(
        env_prefix="WEIGHBRIDGE_", validate_by_name=True, frozen=True, extra="ignore"
    )

    #: Where Postgres is; read from DATABASE_URL. Has no default.
    database_url: str = Field(validation_alias="DATABASE_URL")
    #: Where Redis or Valkey is; read from REDIS_URL. Has no default.
    redis_url: str = Field(validation_alias="REDIS_URL")
    #: The address to listen on; 0.0.0.0 is every one. Defaults to 127.0.0.1.
    host: str = "127.0.0.1"
    #: The port to listen on; 0 takes a free one. Defaults to 8000.
    port: int = Field(default=8000, ge=0, le=65535)
    #: `required` or `off`, see Auth. Defaults to required.
    auth: Auth = Auth.REQUIRED
    #: Web origins whose pages may call the API, as a JSON list; `*` is all. Defaults to none.
    cors_origins: tuple[str, ...] = ()
    #: Bytes of a JSON body, larger ones are a 413. Defaults to 32 MiB.
    max_body_bytes: int = Field(default=32 * MIB, ge=1)
    #: Bytes of an uploaded file, larger ones are a 413. Defaults to 512 MiB.
    max_file_bytes: int = Field(default=512 * MIB, ge=1)
    #: Bytes of one line of a file; a longer one fails, its neighbours go on. Defaults to 4 MiB.
    max_line_bytes: int = Field(default=4 * MIB, ge=1)
    #: Items that are not final, of all tenants; at the limit a submit is a 429. Defaults to 5 million.
    max_open_items: int = Field(default=5_000_000, ge=1)
    #: The same for one tenant. Defaults to 1 million.
    max_open_items_per_tenant: int = Field(default=1_000_000, ge=1)
    #: Items of one POST /v1/stream that are in flight; the rest waits. Defaults to 1024.
    stream_items: int = Field(default=1024, ge=1)
    #: Submissions that are written at a time; more wait their turn. Defaults to 4.
    concurrent_submissions: int = Field(default=4, ge=1)
    #: Database connections for everything but submissions. Defaults to 8.
    database_connections: int = Field(default=8, ge=1)
    #: Names that mean the served model, as a JSON list. Defaults to those of TypeSafe's SDK and `default`.
    model_aliases: tuple[str, ...] = ("jev-latest", "jev-preview", "default")
    #: Questions of one item at most. Defaults to 400.
    max_questions: int = Field(default=400, ge=1)
    #: Options of one choice at most; the model may know fewer labels. Defaults to 255.
    max_options: int = Field(default=255, ge=2, le=255)
    #: Levels of one score at most. Defaults to 10.
    max_levels: int = Field(default=10, ge=2, le=10)
    #: How a structured text is written into a prompt: `repr` as vLLM, `json` as TypeSafe. Defaults to repr.
    structured_text: Structured = Structured.REPR
    #: Which formula the confidence of a reply follows: label_mass, peak or entropy. Defaults to label_mass.
    confidence: Confidence = Confidence.LABEL_MASS
    #: The status of an invalid call of `/v1/systemone`: 400 as vLLM, 422 as TypeSafe. Defaults to 400.
    invalid_status: Literal[400, 422] = 400
    #: Seconds that a synchronous call waits for its answer before it is a 504. Defaults to 60.
    wait_seconds: float = Field(default=60, ge=0)
    #: Seconds that `Prefer: wait` may ask for at most. Defaults to 600.
    max_wait_seconds: float = Field(default=600, ge=0)
    #: Accept webhooks to http and to private addresses too; the sender must be told the same. Defaults to false.
    webhook_allow_private: bool = False
    #: Seconds between two sweeps of leases and closed batches. Defaults to 1.
    sweep_seconds: float = Field(default=1.0, gt=0)
    #: Python's name of the least severe messages that are logged. Defaults to INFO.
    log_level: str = "INFO"

    @property
    def rules(self) -> Rules:
        return Rules(
            questions=self.max_questions,
            options=self.max_options,
            levels=self.max_levels,
            structured=self.structured_text,
        )
