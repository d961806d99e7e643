import pytest

from decisions.errors import NotFound
from decisions.ids import BATCH, DECISION, new_uuid, number_of, public, uuid_of


def test_keys_are_version_7_in_order_of_time() -> None:
    ids = [new_uuid() for _ in range(200)]
    assert {(id_.version, id_.variant) for id_ in ids} == {(7, "specified in RFC 4122")}
    assert len(set(ids)) == 200
    milliseconds = [id_.int >> 80 for id_ in ids]
    assert milliseconds == sorted(milliseconds)


def test_public_names_lead_back_to_their_keys() -> None:
    id_ = new_uuid()
    assert uuid_of(BATCH, public(BATCH, id_)) == id_
    assert number_of(DECISION, public(DECISION, 12)) == 12


@pytest.mark.parametrize(
    "name", ["", "batch_", "batch_x", "file-" + "0" * 32, "0" * 32, "batch_\0"]
)
def test_a_name_that_cannot_be_ours_is_not_found(name: str) -> None:
    with pytest.raises(NotFound):
        uuid_of(BATCH, name)


@pytest.mark.parametrize(
    "name", ["", "dec_", "12", "dec_-1", "dec_1.5", "dec_٣", "dec_" + "9" * 19]
)
def test_a_number_that_cannot_be_ours_is_not_found(name: str) -> None:
    with pytest.raises(NotFound):
        number_of(DECISION, name)
