"""What it costs to compute a value again, in bytes that might be kept in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.call.pointwise import PointwiseOp
from ..core.loops.rows import RowOp
from ..operations.declare import flops
from .mincut import ALWAYS
from .program import draws
from .trace import mapped

ALONE = 1 << 16  # what a step of its own costs beside its elements, in bytes saved: smaller values are saved


def work(
    operation: Any, arguments: Any, elements: int, kind: type, shape_of: Callable[[Any], tuple[int, ...]]
) -> int:
    """The cost of a call that reads or makes at most so many elements; tensors among its arguments are of a class, each of a shape.

    What goes over elements (norms, which programs have as such operations, and what moves elements) takes a byte for each that it reads
    or makes: an element is computed in less time than four bytes go to memory and come back in.  A product takes one for 32 of its
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
        counted = flops.counted(operation, *mapped(arguments, kind, shape_of))
        return ALWAYS if counted is None else counted.flops // 32 + ALONE
    return ALWAYS
