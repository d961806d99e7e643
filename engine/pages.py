"""Which pages are free. Pure: page numbers only, no tensors.

A page holds the keys and values of up to PAGE_TOKENS tokens of one layer.
"""

from collections.abc import Iterable, Sequence

PAGE_TOKENS = 64


def pages_of(tokens: int) -> int:
    """Pages that `tokens` take."""
    return -(-tokens // PAGE_TOKENS)


class PagePool:
    """Pages 0 .. count - 1, each free or taken."""

    def __init__(self, count: int) -> None:
        #: All pages.
        self.count = count
        # The end is given out first: pages used a moment ago are still in the cache.
        self._free = list(range(count - 1, -1, -1))

    @property
    def free(self) -> int:
        """Pages that can be taken."""
        return len(self._free)

    def take(self, count: int) -> list[int]:
        """`count` pages for the caller, who must give them back. There must be that many."""
        assert count <= self.free
        return [self._free.pop() for _ in range(count)]

    def give(self, pages: Sequence[int]) -> None:
        """Take pages back."""
        self._free.extend(reversed(pages))

    def check_integrity(self, taken: Iterable[int]) -> None:
        """Raise AssertionError unless free and `taken` pages are all pages, each once."""
        assert sorted([*self._free, *taken]) == list(range(self.count))
