"""Which ways of computing `scaled_dot_product_attention` there are, and which of them may be taken.

MATH makes all scores, and is made of ordinary operations.  FLASH_ATTENTION goes through them in tiles (`tiled.py`), or
in blocks of queries where those cannot serve (`blocked.py`).  The others
are names that programs written for PyTorch use: there is nothing behind them here.  What is on is the whole process's, as there.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from ....core.base import display


class SDPBackend(Enum):
    """A way of computing `scaled_dot_product_attention`; `nn.attention.sdpa_kernel` chooses among them.

    MATH: all scores at once.  FLASH_ATTENTION: in blocks of queries, so that memory grows with the lengths and not with their
    product, for four-dimensional floating-point tensors; with dropout on the CPU alone.  EFFICIENT_ATTENTION, CUDNN_ATTENTION and
    OVERRIDEABLE are not here: they serve no call.

    >>> import flambeau
    >>> from flambeau.nn.attention import SDPBackend, sdpa_kernel
    >>> q = flambeau.ones(1, 2, 3, 4)
    >>> with sdpa_kernel([SDPBackend.MATH]):
    ...     flambeau.nn.functional.scaled_dot_product_attention(q, q, q).shape
    flambeau.Size([1, 2, 3, 4])
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __int__(self) -> int:
        return self.value


SDPBackend.__module__ = display.public("nn.attention")

LISTED = (
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
    SDPBackend.OVERRIDEABLE,
)
ORDER = (
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.OVERRIDEABLE,
)


FEW_SCORES = (
    1 << 16
)  # below, two products and a softmax are quicker than tiles; an eighth of it where there is a mask or dropout


class State:
    """What may be taken, and in which order; `chosen` where a program has said so: else the faster one is taken."""

    def __init__(self) -> None:
        self.enabled = frozenset(LISTED)
        self.order: tuple[SDPBackend, ...] = ORDER

    @property
    def chosen(self) -> bool:
        return self.enabled != frozenset(LISTED) or self.order != ORDER

    def listed(self, with_priority: bool = False) -> list[SDPBackend]:
        """Those that are on; in order of priority, if requested."""
        return [b for b in (self.order if with_priority else LISTED) if b in self.enabled]

    def choose(self, backends: Iterable[SDPBackend], set_priority: bool = False) -> None:
        """Switch these on and the others off; their order is the priority, if requested."""
        backends = list(backends)
        self.enabled = frozenset(b for b in backends if b in LISTED)
        if set_priority:
            first = [b for b in backends if b in LISTED]
            self.order = (*first, *(b for b in self.order if b not in first))


state = State()
