from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decisions.cron import check_cron, next_due, passed
from decisions.errors import InvalidSchedule

BERLIN = "Europe/Berlin"
SPRING_EVE = datetime(2026, 3, 28, 12, tzinfo=UTC)
AUTUMN_EVE = datetime(2026, 10, 24, 12, tzinfo=UTC)


def due(cron: str, after: datetime, days: float, zone: str = BERLIN) -> list[str]:
    first = next_due(cron, zone, after)
    times = passed(cron, zone, first, after + timedelta(days=days))
    return [f"{time:%d %H:%M}" for time in times]


def test_a_time_is_read_in_the_schedule_s_zone() -> None:
    winter, summer = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 7, 1, tzinfo=UTC)
    assert next_due("0 2 * * *", BERLIN, winter) == winter.replace(hour=1)
    assert next_due("0 2 * * *", BERLIN, summer) == summer.replace(hour=0) + timedelta(days=1)
    assert next_due("0 2 * * *", "Asia/Kolkata", winter) == winter.replace(hour=20, minute=30)


def test_a_fixed_time_that_is_skipped_is_due_as_soon_as_clocks_have_jumped() -> None:
    # At 01:00 UTC it is 02:00 in Berlin, which at once is 03:00.
    assert due("30 2 * * *", SPRING_EVE, 2) == ["29 01:00", "30 00:30"]


def test_a_fixed_time_that_comes_twice_is_due_the_first_time_alone() -> None:
    assert due("30 2 * * *", AUTUMN_EVE, 2) == ["25 00:30", "26 01:30"]


@pytest.mark.parametrize("minute", range(0, 120, 7))
def test_no_due_time_is_in_the_past_of_who_asks_within_the_doubled_hour(minute: int) -> None:
    now = datetime(2026, 10, 25, 0, 0, tzinfo=UTC) + timedelta(minutes=minute)
    assert next_due("30 2 * * *", BERLIN, now) > now


def test_a_schedule_by_elapsed_time_is_due_in_both_of_the_doubled_hours() -> None:
    times = due("*/30 2 * * *", AUTUMN_EVE, 1)
    assert times == ["25 00:00", "25 00:30", "25 01:00", "25 01:30"]
    assert due("0 * * * *", AUTUMN_EVE, 0.6)[-3:] == ["25 00:00", "25 01:00", "25 02:00"]


def test_a_schedule_by_elapsed_time_is_not_due_in_the_skipped_hour() -> None:
    assert due("*/30 2 * * *", SPRING_EVE, 1) == []
    assert len(due("0 * * * *", SPRING_EVE, 1)) == 24


@given(
    cron=st.sampled_from(["30 2 * * *", "*/20 * * * *", "0,59 1-3 * * *", "5 2 * * sun"]),
    minutes=st.integers(0, 3 * 365 * 24 * 60),
    zone=st.sampled_from([BERLIN, "Australia/Lord_Howe", "America/New_York", "UTC"]),
)
def test_due_times_only_move_forward(cron: str, minutes: int, zone: str) -> None:
    start = datetime(2025, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    times = [start]
    for _ in range(5):
        times.append(next_due(cron, zone, times[-1]))
    assert all(a < b for a, b in pairwise(times))


@pytest.mark.parametrize("cron", ["30 2 * * *", "*/20 * * * *", "0,59 1-3 * * *"])
def test_asking_one_by_one_gives_what_asking_for_all_gives(cron: str) -> None:
    for eve in (SPRING_EVE, AUTUMN_EVE):
        first = next_due(cron, BERLIN, eve)
        one_by_one = [first]
        while (following := next_due(cron, BERLIN, one_by_one[-1])) <= eve + timedelta(days=2):
            one_by_one.append(following)
        assert passed(cron, BERLIN, first, eve + timedelta(days=2)) == one_by_one


@pytest.mark.parametrize(
    ("cron", "zone", "field"),
    [
        ("* * * *", BERLIN, "cron"),
        ("* * * * * *", BERLIN, "cron"),
        ("61 * * * *", BERLIN, "cron"),
        ("0 0 30 2 *", BERLIN, "cron"),
        ("nightly", BERLIN, "cron"),
        ("@daily", BERLIN, "cron"),
        ("0 2 * * *", "Berlin", "timezone"),
        ("0 2 * * *", "Europe", "timezone"),
        ("0 2 * * *", "../../etc/passwd", "timezone"),
        ("0 2 * * *", "", "timezone"),
    ],
)
def test_what_is_no_schedule_is_refused_by_field(cron: str, zone: str, field: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        check_cron(cron, zone, SPRING_EVE)
    assert refused.value.param == field
