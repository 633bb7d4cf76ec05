"""Groups of dtypes that declarations name: which dtypes an operation's tensors may have."""

from __future__ import annotations

from ...codegen import expr as ex

BOOL: frozenset[str] = frozenset(("bool",))
UNSIGNED: frozenset[str] = frozenset(ex.UNSIGNED)
INTEGRAL: frozenset[str] = frozenset(ex.SIGNED + ex.UNSIGNED)
FLOATING: frozenset[str] = frozenset(ex.FLOATS)
COMPLEX: frozenset[str] = frozenset(ex.PARTS)
NUMERIC: frozenset[str] = FLOATING | INTEGRAL
NUMBERS: frozenset[str] = NUMERIC | COMPLEX
ALL: frozenset[str] = NUMERIC | BOOL
EVERY: frozenset[str] = ALL | COMPLEX
HALF: frozenset[str] = frozenset(("float16", "bfloat16"))
WIDE: frozenset[str] = FLOATING - HALF
LATE: frozenset[str] = UNSIGNED - {"uint8"}  # which are not promoted
LONG: frozenset[str] = frozenset(("int64",))
NONE: frozenset[str] = frozenset()  # of what takes no tensors and makes none

# What kinds of operations take whose declarations say nothing else: what moves elements takes all.
OF_KINDS = {
    "fallback": ALL,
    "sort": ALL,
    "lapack": WIDE | COMPLEX,
    "random": FLOATING,
    "spectral": EVERY - HALF,
    "window": WIDE,
}


def of_kind(kind: str) -> frozenset[str]:
    """The dtypes that an operation of a kind takes unless it says otherwise."""
    return OF_KINDS.get(kind, EVERY)
