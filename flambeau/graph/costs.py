"""What it costs to compute a value again, in bytes that might be kept in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..core.call.pointwise import PointwiseOp
from ..core.loops.rows import RowOp
from ..operations.declare import flops
from .mincut import ALWAYS
from .program import draws
from .trace import mapped

Chosen = TypeVar("Chosen")

RATES = (
    256,
    128,
    64,
    32,
)  # operations of products that a byte saved is worth: the last, or the first for which
SHARE = 32  # products that are computed again are no more than one part in so many of all
ALONE = 1 << 16  # what a step of its own costs beside its elements, in bytes saved: smaller values are saved


def work(
    operation: Any,
    arguments: Any,
    elements: int,
    kind: type,
    shape_of: Callable[[Any], tuple[int, ...]],
    rate: int = RATES[-1],
) -> int:
    """The cost of a call that reads or makes at most so many elements; tensors among its arguments are of a class, each of a shape.

    What goes over elements (norms, which programs have as such operations, and what moves elements) takes a byte for each that it reads
    or makes: an element is computed in less time than four bytes go to memory and come back in.  A product takes one for `rate` of its
    operations.  What is no part of a generated kernel takes 64 KiB beside, so that small values are saved.
    """
    entry = getattr(operation, "entry", None)
    if draws(operation):
        return ALWAYS
    several = getattr(
        getattr(operation, "function", None), "__self__", None
    )  # a row function of several tensors
    if isinstance(operation, (PointwiseOp, RowOp)) or isinstance(several, RowOp):
        return elements
    if entry is None:
        return ALWAYS
    if entry.kind in ("copy", "conversion", "join", "view") or entry.details.get("decomposes"):
        return elements + ALONE
    if entry.details.get("product") is not None:
        counted = flops_of(operation, arguments, kind, shape_of)
        return ALWAYS if counted is None else counted // rate + ALONE
    return ALWAYS


def flops_of(
    operation: Any, arguments: Any, kind: type, shape_of: Callable[[Any], tuple[int, ...]]
) -> int | None:
    """The operations of a product, None where they are not known; of any other call 0."""
    entry = getattr(operation, "entry", None)
    if entry is None or entry.details.get("product") is None:
        return 0
    counted = flops.counted(operation, *mapped(arguments, kind, shape_of))
    return None if counted is None else counted.flops


def within_budget(total: int, cut: Callable[[int], Chosen], flops_in: Callable[[Chosen], int]) -> Chosen:
    """What is computed again: `cut` says what pays at a rate, `flops_in` how many operations of products that takes, of `total`.

    The highest rate that keeps to the budget is taken: so the products of attention are computed again, which are short beside what
    they make, and those of layers are not.
    """
    for rate in RATES[:-1]:
        chosen = cut(rate)
        if flops_in(chosen) <= total // SHARE:
            return chosen
    return cut(RATES[-1])
