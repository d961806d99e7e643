import pytest

from api.prefer import Preference

CASES = [
    ("", Preference()),
    ("respond-async", Preference(respond_async=True)),
    ("wait=10", Preference(wait=10)),
    ("Respond-Async, WAIT = 5", Preference(respond_async=True, wait=5)),
    ("respond-async; wait=5", Preference(respond_async=True, wait=5)),
    ("handling=lenient, wait=3, wait=9", Preference(wait=3)),
    ("wait=soon", Preference()),
    ("wait=-1", Preference()),
    ("wait=99999999", Preference()),
]


@pytest.mark.parametrize(("header", "meant"), CASES)
def test_what_a_client_prefers_is_read_and_the_rest_ignored(header: str, meant: Preference) -> None:
    assert Preference.parse(header) == meant
