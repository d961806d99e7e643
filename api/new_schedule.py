"""What a client sends to make a schedule or to change it. Times are ISO 8601."""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from decisions.errors import InvalidSchedule
from decisions.schedules import length

_STRICT = ConfigDict(extra="forbid", strict=True)

Share = Annotated[float, Field(ge=0, le=1)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=256)]


def _length(text: str) -> str:
    try:
        length(text)
    except InvalidSchedule as wrong:
        raise ValueError(wrong.message) from None
    return text


class Range(BaseModel):
    """From `min` to `max`, both included."""

    model_config = _STRICT

    min: Share = 0.0
    max: Share = 1.0


class Sample(BaseModel):
    """So many decisions, the same for the same seed."""

    model_config = _STRICT

    size: Annotated[int, Field(ge=1, le=10_000_000)]
    seed: Annotated[int, Field(ge=0, le=2**31)] = 0


class Source(BaseModel):
    """Which stored decisions are read again; what is not said is not asked of them.

    Those that a schedule's runs have made are never among them.
    """

    model_config = _STRICT

    #: `90m`, `24h` or `7d` before the due time.
    last: Annotated[str, AfterValidator(_length)] | None = None
    #: Or a fixed range; `until` is not in it.
    since: Annotated[AwareDatetime, Field(strict=False)] | None = None
    until: Annotated[AwareDatetime, Field(strict=False)] | None = None
    questions: Annotated[list[Name], Field(min_length=1, max_length=400)] | None = None
    model: Name | None = None
    route: Name | None = None
    label_mass: Range | None = None
    confidence: Range | None = None
    sample: Sample | None = None

    @model_validator(mode="after")
    def _one_range(self) -> Self:
        if self.last is not None and (self.since or self.until):
            raise ValueError("give either last, or since and until")
        return self


class Change(BaseModel):
    """What is different when they are read again; nothing reads them again as they were."""

    model_config = _STRICT

    #: Of the workers that serve the nightly lane, by its own name.
    model: Name | None = None
    kv_format: Name | None = None
    #: Questions in the place of those with the same ids.
    questions: dict[str, Any] | None = None
    instructions: Annotated[str, StringConstraints(min_length=1)] | None = None
    #: The order of the options of choices.
    options: Literal["reversed", "shuffled"] | None = None
    #: Of the shuffle.
    seed: Annotated[int, Field(ge=0, le=2**31)] | None = None


class Thresholds(BaseModel):
    """What a result must reach to be promoted, for every question."""

    model_config = _STRICT

    #: Share of answers that stay, at least.
    agreement: Share | None = None
    #: Of label mass and of each option's probability, at most.
    psi: Annotated[float, Field(ge=0)] | None = None
    #: Of the mean, at most.
    label_mass_drop: Share | None = None
    #: Of the share that agrees with truth, at most.
    accuracy_drop: Share | None = None
    #: Decisions with truth, at least, before `accuracy_drop` says anything. Defaults to 1.
    truths: Annotated[int, Field(ge=1)] | None = None
    #: Share of the items that have an answer, at least. Defaults to 1.
    answered: Share | None = None


class ScheduleChange(BaseModel):
    """What is to be different in a schedule; each field is replaced whole."""

    model_config = _STRICT

    name: Name | None = None
    #: Minute, hour, day of month, month, day of week.
    cron: str | None = None
    #: IANA name, such as Europe/Berlin.
    timezone: str | None = None
    source: Source | None = None
    change: Change | None = None
    thresholds: Thresholds | None = None
    paused: bool | None = None


class NewSchedule(BaseModel):
    """A schedule to be."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [
                {
                    "name": "candidate",
                    "cron": "30 2 * * *",
                    "timezone": "Europe/Berlin",
                    "source": {"last": "24h", "sample": {"size": 5000, "seed": 1}},
                    "change": {"model": "candidate-model"},
                    "thresholds": {"agreement": 0.97, "psi": 0.1, "accuracy_drop": 0.0},
                }
            ]
        },
    )

    name: Name
    #: Minute, hour, day of month, month, day of week.
    cron: str
    #: IANA name, such as Europe/Berlin.
    timezone: str = "UTC"
    source: Source = Source()
    change: Change = Change()
    thresholds: Thresholds = Thresholds()
    paused: bool = False
