"""The store holds what is in use, drops the least recently used, and keeps its books."""

import pytest
import torch

from engine.kv import FORMATS
from engine.pages import PAGE_TOKENS
from engine.plan import Prefix
from engine.prefixes import PrefixStore, StoredPrefix

#: Bytes of one page of `stored`: keys and values, one head, ten numbers of four bytes.
PAGE_BYTES = PAGE_TOKENS * 2 * 10 * 4


def stored(*token_ids: int, parent: StoredPrefix | None = None) -> StoredPrefix:
    """A prefix with one layer of one page per PAGE_TOKENS tokens, filled with its first token."""
    above = parent.prefix.token_ids if parent else ()
    prefix = Prefix(token_ids=above + token_ids, shared_tokens=len(above), salt="")
    rows = torch.full((1, len(token_ids), 10), float(token_ids[0]))
    return StoredPrefix(prefix, [FORMATS["native"].pack(rows, -rows)], parent)


def keep(store: PrefixStore, prefix: StoredPrefix) -> StoredPrefix:
    store.add(prefix)
    store.release(prefix)
    return prefix


def test_the_least_recently_used_state_goes_first() -> None:
    store = PrefixStore(2 * PAGE_BYTES)
    first, second = keep(store, stored(1)), keep(store, stored(2))
    again = store.hold(first.prefix)
    assert again is first
    store.release(first)
    keep(store, stored(3))
    assert second.prefix not in store
    assert first.prefix in store
    assert (len(store), store.evictions, store.nbytes) == (2, 1, 2 * PAGE_BYTES)
    store.check_integrity()


def test_a_held_state_is_not_dropped_and_one_without_room_stays_loose() -> None:
    store = PrefixStore(PAGE_BYTES)
    store.add(first := stored(1))
    store.add(second := stored(2))
    assert second.layers[0].unpack(torch.float32)[1].eq(-2).all()
    store.release(second)
    assert second.prefix not in store
    store.release(first)
    assert first.prefix in store
    store.check_integrity()


def test_pages_give_back_what_was_stored() -> None:
    store = PrefixStore(9 * PAGE_BYTES)
    rows = torch.randn(1, 150, 10)
    prefix = Prefix(token_ids=tuple(range(150)), shared_tokens=0, salt="")
    new = StoredPrefix(prefix, [FORMATS["native"].pack(rows, -rows)], None)
    keep(store, stored(7))
    store.add(new)
    rows_before = rows.clone()
    rows.zero_()
    keys, values = new.layers[0].unpack(torch.float32)
    assert torch.equal(keys, rows_before)
    assert torch.equal(values, -rows_before)
    store.release(new)


def test_a_preamble_stays_as_long_as_a_state_that_follows_it() -> None:
    store = PrefixStore(3 * PAGE_BYTES)
    preamble = keep(store, stored(1))
    child = keep(store, stored(2, parent=preamble))
    assert [part.prefix for part in child.chain] == [preamble.prefix, child.prefix]
    keep(store, stored(3))
    keep(store, stored(4))
    assert child.prefix not in store
    assert preamble.prefix in store
    keep(store, stored(5))
    keep(store, stored(6))
    assert preamble.prefix not in store
    store.check_integrity()


def test_a_loose_state_lets_go_of_its_preamble_when_it_is_released() -> None:
    store = PrefixStore(PAGE_BYTES)
    preamble = keep(store, stored(1))
    store.add(child := stored(2, parent=preamble))
    assert child.prefix not in store
    assert preamble.holders == 1
    store.release(child)
    store.check_integrity()


def test_books_that_do_not_balance_are_found() -> None:
    store = PrefixStore(PAGE_BYTES)
    store.add(stored(1))
    with pytest.raises(AssertionError):
        store.check_integrity()
