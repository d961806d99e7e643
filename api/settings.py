"""The API's settings: the only place where this process reads its environment."""

from enum import StrEnum

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

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
    #: Submissions that are written at a time; more wait their turn. Defaults to 4.
    concurrent_submissions: int = Field(default=4, ge=1)
    #: Database connections for everything but submissions. Defaults to 8.
    database_connections: int = Field(default=8, ge=1)
    #: Seconds between two sweeps of leases and closed batches. Defaults to 1.
    sweep_seconds: float = Field(default=1.0, gt=0)
    #: Python's name of the least severe messages that are logged. Defaults to INFO.
    log_level: str = "INFO"
