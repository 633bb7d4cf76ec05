"""Calls that are one product of matrices, as declarations say (`product`), prepared."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

from ..core.base.tensor import TensorBase
from ..core.lib.products.product_plan import ProductPlan
from ..core.make.create import empty_strided
from .program import Call, Value


class Product(NamedTuple):
    """A prepared product, and the values that it touches: the result, left, right, and operands of what is made of the sums."""

    plan: ProductPlan
    values: tuple[Value, ...]


class Operands(NamedTuple):
    """alpha * left @ right + beta * addend."""

    left: Value
    right: Value
    addend: Value | None
    alpha: float
    beta: float


def product_of(call: Call) -> Product | None:
    """The product that a call computes, prepared for its operands' geometry; None for another call, or one without such a plan.

    >>> import flambeau as torch
    >>> from flambeau.graph.products import product_of
    >>> from flambeau.graph.program import Program
    >>> from flambeau.graph.trace import record
    >>> graph, _ = record(torch.nn.functional.linear, torch.ones(2, 3), torch.ones(4, 3))
    >>> product_of(Program(graph).calls[0]).values
    (%2: float32[2, 4], %0: float32[2, 3], %1: float32[3, 4])
    """
    result = operands_of(call)
    if result is None or call.results[0].device is not None:
        return None
    left, right, addend, alpha, beta = result
    operands = (left, right) if addend is None else (left, right, addend)
    try:
        plan = ProductPlan(*map(example, operands), numbers=(alpha,) if addend is None else (alpha, beta))
    except (NotImplementedError, ValueError):
        return None
    return Product(plan, (call.results[0], *operands))


def operands_of(call: Call) -> Operands | None:
    """What a call multiplies, as its declaration says; None for no product, one that writes, one whose result is not dense, or one of
    several devices.
    """
    entry: Any = getattr(call.operation, "entry", None)
    said = None if entry is None else entry.details.get("product")
    (result,) = call.results if len(call.results) == 1 else (None,)
    if (
        said is None
        or call.written
        or result is None
        or any(v.device is not result.device for v in call.values())
        or not result.contiguous
        or not result.dtype.is_floating_point
    ):
        return None
    bound = inspect.signature(call.operation).bind(*call.args, **call.kwargs)
    bound.apply_defaults()
    found = said(*bound.args, **{n: x for n, x in bound.kwargs.items() if n != "out"})
    if found is None or any(v.dtype != result.dtype for v in found[:3] if v is not None):
        return None
    left, right, addend, alpha, beta = found
    return Operands(left, right, addend, float(alpha), float(beta))


def example(value: Value) -> TensorBase:
    """A tensor of a value's geometry."""
    where = "cpu" if value.device is None else value.device.place
    return empty_strided(value.shape, value.place.stride, dtype=value.dtype, device=where)
