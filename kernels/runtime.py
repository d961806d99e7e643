"""How kernels are launched: tiles, and whether Triton's interpreter runs them.

One frozen configuration per kernel: no search at run time, so that neither start-up nor results change
from run to run.
"""

import os

#: Tokens of a page; a tile of a state's keys is one page.
PAGE = 64
#: Keys of one partial sum over a state, in whole pages: fixed, so that a state sums alike everywhere.
SPLIT = 512
#: Warps of state_attention: with 4 it spills registers on sm_80 and sm_120.
STATE_WARPS = 8
#: Warps of every other kernel.
WARPS = 4


def interpreted() -> bool:
    """Whether the kernels run in the interpreter, which the environment decides at import."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def tiles(count: int, size: int) -> int:
    """Tiles of `size` that cover `count`."""
    return -(-count // size)
