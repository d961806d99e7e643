"""When a schedule is due: a cron expression of five fields in an IANA time zone, as Debian's cron reads it.

Through daylight-saving changes, by cronsim, which follows Debian's cron:

    fixed hour and minute   once a day: a time that is skipped is due as soon as clocks have jumped, a time
                            that comes twice is due the first time
    `*` at the beginning    of hour or minute: by elapsed time, so not in an hour that is skipped, and in
                            both of an hour that comes twice

Knows no clock: whoever asks says when.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain, takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from decisions.errors import InvalidSchedule

MAX_EXPRESSION = 256


def check_cron(expression: str, zone: str, now: datetime) -> datetime:
    """The first due time after `now`. Raises InvalidSchedule, which names the field."""
    if len(expression.split()) != 5 or len(expression) > MAX_EXPRESSION:
        raise InvalidSchedule(
            "must have five fields: minute, hour, day of month, month, day of week", param="cron"
        )
    _zone(zone)
    try:
        return next(_due_times(expression, zone, now))
    except CronSimError as wrong:
        raise InvalidSchedule(f"not a cron expression: {wrong}", param="cron") from None
    except StopIteration:
        raise InvalidSchedule("is never due", param="cron") from None


def next_due(expression: str, zone: str, after: datetime) -> datetime:
    """Of an expression that was checked."""
    return next(_due_times(expression, zone, after))


def passed(expression: str, zone: str, first: datetime, now: datetime) -> list[datetime]:
    """The due time `first` and those after it, up to `now`, oldest first."""
    times = chain([first], _due_times(expression, zone, first))
    return list(takewhile(lambda due: due <= now, times))


def _due_times(expression: str, zone: str, after: datetime) -> Iterator[datetime]:
    """Later than `after`, each later than the one before, in UTC."""
    for local in CronSim(expression, after.astimezone(_zone(zone))):
        due = local.astimezone(UTC)
        # In an hour that comes twice cronsim begins with the first, which may have passed.
        if due > after:
            yield due
            after = due


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidSchedule(
            f"{name!r} is no IANA time zone, such as Europe/Berlin", param="timezone"
        ) from None
