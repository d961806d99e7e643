"""How far two distributions of one quantity are apart. Pure arithmetic.

    PSI = sum over bins of (a - b) * ln(a / b)

with b and a the shares of a bin before and after. Bins are cut at the deciles of the distribution before;
deciles that are equal are one. Each bin counts half an observation more than it has, before and after, so
that an empty one has a share. Below 0.1 is commonly read as no drift, above 0.25 as much.
"""

from collections.abc import Sequence
from math import log

#: Where the bins of a distribution are cut.
DECILES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

_EXTRA = 0.5


def psi(before: Sequence[int], after: Sequence[int]) -> float | None:
    """Of the counts per bin. None when one side has no observations."""
    if not sum(before) or not sum(after):
        return None
    pairs = zip(_shares(before), _shares(after), strict=True)
    return sum((a - b) * log(a / b) for b, a in pairs)


def _shares(counts: Sequence[int]) -> list[float]:
    total = sum(counts) + _EXTRA * len(counts)
    return [(count + _EXTRA) / total for count in counts]
