"""The store holds what is in use, drops the least recently used, and keeps its books."""

import pytest
import torch

from engine.kv import Native
from engine.prefixes import PrefixStore, StoredPrefix


def prefix(*token_ids: int) -> StoredPrefix:
    """80 bytes per token."""
    rows = torch.zeros(1, len(token_ids), 10)
    return StoredPrefix(token_ids, [Native().pack(rows, rows)])


def test_the_least_recently_used_state_goes_first() -> None:
    store = PrefixStore(200)
    for stored in (prefix(1), prefix(2)):
        store.add(stored)
        store.release(stored)
    again = store.hold((1,))
    assert again is not None
    store.release(again)
    store.add(new := prefix(3))
    store.release(new)
    assert store.hold((2,)) is None
    assert (len(store), store.evictions, store.nbytes) == (2, 1, 160)
    store.check_integrity()


def test_a_held_state_stays_even_when_the_store_is_too_small() -> None:
    store = PrefixStore(100)
    store.add(first := prefix(1))
    store.add(second := prefix(2))
    assert len(store) == 2
    store.release(second)
    assert store.hold((2,)) is None
    store.release(first)
    store.check_integrity()
    assert store.nbytes == 80


def test_the_stored_form_does_not_follow_the_tensor_it_was_made_from() -> None:
    keys = torch.ones(1, 2, 3)
    layer = Native().pack(keys, keys)
    keys.zero_()
    assert layer.unpack()[0].sum() == 6


def test_books_that_do_not_balance_are_found() -> None:
    store = PrefixStore(1000)
    store.add(prefix(1))
    with pytest.raises(AssertionError):
        store.check_integrity()
