"""Every page is free or taken, once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.pages import PAGE_TOKENS, PagePool, pages_of


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=40))
def test_pages_are_given_out_once_until_they_come_back(moves: list[tuple[bool, int]]) -> None:
    pool, taken = PagePool(12), list[list[int]]()
    for take, count in moves:
        if take and count <= pool.free:
            taken.append(pool.take(count))
        elif taken:
            pool.give(taken.pop(count % len(taken)))
        pool.check_integrity(page for pages in taken for page in pages)


def test_a_lost_or_doubled_page_is_found() -> None:
    pool = PagePool(3)
    pages = pool.take(2)
    for wrong in (pages[:1], [*pages, pages[0]]):
        with pytest.raises(AssertionError):
            pool.check_integrity(wrong)


def test_tokens_take_whole_pages() -> None:
    assert [pages_of(n) for n in (0, 1, PAGE_TOKENS, PAGE_TOKENS + 1)] == [0, 1, 1, 2]
