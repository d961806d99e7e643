"""What a client sends to make a batch, and what it becomes: a submission and its items."""

import re
from datetime import timedelta
from hashlib import sha256
from typing import Annotated, Any, Literal, Self

import msgspec
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from api.bodies import validated
from decisions.errors import InvalidWebhook
from decisions.openai import parse_questions
from decisions.questions import Rules, parse_question_set
from decisions.strict_json import refuse_nul
from decisions.types import Json, Lane, Submission
from decisions.webhook_input import MAX_URL, check_secret, check_url, new_secret

#: Items in one request; a file has no such limit.
MAX_REQUESTS = 100_000

LONGEST_WINDOW = timedelta(days=30)
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def window_length(window: str) -> timedelta:
    """`90m`, `24h` or `7d` as time. Raises ValueError for anything else and for more than 30 days."""
    parts = re.fullmatch(r"([1-9][0-9]{0,4})([mhd])", window)
    if not parts:
        raise ValueError("must be a number of minutes, hours or days, such as 90m, 24h or 7d")
    length = timedelta(**{_UNITS[parts[2]]: int(parts[1])})
    if length > LONGEST_WINDOW:
        raise ValueError("must not be longer than 30d")
    return length


def _window(window: str) -> str:
    window_length(window)
    return window


class Webhook(BaseModel):
    """Who is told when the batch has ended."""

    model_config = ConfigDict(extra="forbid", strict=True)

    #: https, unless this server may call private addresses.
    url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s/]+", max_length=MAX_URL)]
    #: Signs the calls: `whsec_` and base64. One is made when there is none. Never shown again.
    secret: str | None = None

    def check(self, *, allow_private: bool) -> None:
        """Raises InvalidWebhook for what would never be called."""
        try:
            check_url(self.url, allow_private=allow_private)
            if self.secret is not None:
                check_secret(self.secret)
        except InvalidWebhook as wrong:
            raise InvalidWebhook(wrong.message, param=f"webhook.{wrong.param}") from None

    def stored(self) -> dict[str, Json]:
        return {"url": self.url, "secret": self.secret or new_secret()}


Key = Annotated[str, StringConstraints(max_length=64)]
Value = Annotated[str, StringConstraints(max_length=512)]


class NewBatch(BaseModel):
    """A batch to be: exactly one of `requests` and `input_file_id`."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [
                {
                    "requests": [
                        {"custom_id": "1", "state": "My parcel has not come."},
                        {"custom_id": "2", "state": {"subject": "Refund", "text": "Where is it?"}},
                    ],
                    "questions": {
                        "team": {
                            "type": "choice",
                            "instructions": "Which team should handle this ticket?",
                            "criteria": {"billing": "payments and refunds", "shipping": None},
                        },
                        "urgent": {"type": "noul", "instructions": "Is this urgent?"},
                    },
                }
            ]
        },
    )

    #: Items, each `{"custom_id", "state", "questions"?, "instructions"?}`. Checked one by one: what is
    #: wrong with one becomes its result, and the others go on.
    #: More of them than memory is good for are a file.
    requests: Annotated[list[Any], Field(min_length=1, max_length=MAX_REQUESTS)] | None = None
    #: A file of such items, one a line; or of OpenAI's `{"custom_id", "method", "url", "body"}`.
    input_file_id: str | None = None
    #: For items that bring none of their own.
    questions: Any = None
    instructions: Any = None
    endpoint: Literal["/v1/systemone", "/v1/decisions"] = "/v1/systemone"
    lane: Annotated[Lane, Field(strict=False)] = Lane.BULK
    #: Within the lane, lower goes first.
    priority: Annotated[int, Field(ge=-32768, le=32767)] = 0
    model: Annotated[str, StringConstraints(max_length=256)] | None = None
    metadata: Annotated[dict[Key, Value], Field(max_length=16)] | None = None
    #: After it, items that nobody has read expire.
    completion_window: Annotated[str, AfterValidator(_window)] = "24h"
    webhook: Webhook | None = None
    #: Accepted for OpenAI's clients; output files last as long as their batch.
    output_expires_after: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.requests is None) == (self.input_file_id is None):
            raise ValueError("give either requests or input_file_id")
        return self

    @property
    def needs_secret(self) -> bool:
        """Whether a secret is made for its webhook, so that its owner must be told."""
        return self.webhook is not None and self.webhook.secret is None

    @classmethod
    def read(cls, body: Json) -> Self:
        """Raises InvalidRequest, or InvalidItem for U+0000 outside of `requests`."""
        if isinstance(body, dict):
            refuse_nul({name: value for name, value in body.items() if name != "requests"})
        return validated(cls, body)

    def shared(self, rules: Rules) -> dict[str, Json]:
        """What items without questions get. Raises InvalidQuestion when it is not well formed."""
        if self.questions is not None and self.endpoint == "/v1/systemone":
            parse_question_set(self.questions, self.instructions, rules)
        if self.questions is not None and self.endpoint == "/v1/decisions":
            parse_questions(self.questions, rules)
        given = {"questions": self.questions, "instructions": self.instructions}
        return {name: value for name, value in given.items() if value is not None}

    def submission(self, tenant_id: int, key: str | None) -> Submission:
        body = self.model_dump(mode="json", exclude_unset=True)
        return Submission(
            tenant_id=tenant_id,
            lane=self.lane,
            priority=self.priority,
            endpoint=self.endpoint,
            model=self.model,
            completion_window=self.completion_window,
            expires_in=window_length(self.completion_window),
            metadata=self.metadata,
            webhook=self.webhook.stored() if self.webhook else None,
            idempotency_key=key,
            request_hash=sha256(msgspec.json.encode(body)).digest() if key else b"",
        )
