"""Ranges of symbols, as PyTorch prints them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple


class ValueRanges(NamedTuple):
    """The smallest and the largest number that a symbol may stand for.

    >>> from flambeau.export._ranges import ValueRanges
    >>> ValueRanges(2, 64), ValueRanges(0, float("inf"))
    (VR[2, 64], VR[0, int_oo])
    """

    lower: int | float
    upper: int | float

    def __repr__(self) -> str:
        ends = [
            ("-" if n < 0 else "") + "int_oo" if math.isinf(n) else str(n) for n in (self.lower, self.upper)
        ]
        return f"VR[{ends[0]}, {ends[1]}]"

    def __contains__(self, number: Any) -> bool:
        return bool(self.lower <= number <= self.upper)
