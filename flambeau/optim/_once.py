"""Tensors in a rule of an optimiser whose sums with products are rounded once, as the rule's kernel rounds them.

A recording has a step as operations.  The rule then sees its tensors through `Once`, for which c + a * b and c - a * b are one
operation (`_fused._rounded_once` says which product it is, where both sides are products).  Halves are computed in float32, and rounded
where they are written.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ..codegen import expr as ex
from ..core.base.dtypes import by_name
from ..core.base.tensor import TensorBase
from ._kernel import kernel

_HALVES = (by_name["float16"], by_name["bfloat16"])


def multiply_add(a: Any, b: Any, c: Any) -> Any:
    return ex.fma(a, b, c)


_multiply_add = kernel(multiply_add)


class Once:
    """A tensor, or the product of two operands that has not been computed yet."""

    __slots__ = ("factors", "tensor")
    __array_ufunc__ = None

    def __init__(self, tensor: Any, factors: tuple[Any, Any] | None = None) -> None:
        self.tensor, self.factors = tensor, factors

    def __add__(self, other: Any) -> Once:
        return _add(self, other)

    def __radd__(self, other: Any) -> Once:
        return _add(other, self)

    def __sub__(self, other: Any) -> Once:
        return _sub(self, other)

    def __rsub__(self, other: Any) -> Once:
        return _sub(other, self)

    def __mul__(self, other: Any) -> Once:
        return Once(None, (value_of(self), value_of(other)))

    def __rmul__(self, other: Any) -> Once:
        return Once(None, (value_of(other), value_of(self)))

    def __truediv__(self, other: Any) -> Once:
        return Once(value_of(self) / value_of(other))

    def __rtruediv__(self, other: Any) -> Once:
        return Once(value_of(other) / value_of(self))

    def __neg__(self) -> Once:
        return Once(-value_of(self))

    def __abs__(self) -> Once:
        return Once(abs(value_of(self)))

    def __pow__(self, other: Any) -> Once:
        if isinstance(other, int) and 0 < other <= 4:  # as traced values have it
            return self if other == 1 else self * self ** (other - 1)
        return Once(value_of(self) ** value_of(other))

    def __rpow__(self, other: Any) -> Once:
        return Once(value_of(other) ** value_of(self))

    def __eq__(self, other: Any) -> Any:
        return _compared(operator.eq, self, other)

    def __ne__(self, other: Any) -> Any:
        return _compared(operator.ne, self, other)

    def __lt__(self, other: Any) -> Once:
        return _compared(operator.lt, self, other)

    def __le__(self, other: Any) -> Once:
        return _compared(operator.le, self, other)

    def __gt__(self, other: Any) -> Once:
        return _compared(operator.gt, self, other)

    def __ge__(self, other: Any) -> Once:
        return _compared(operator.ge, self, other)

    __hash__ = None  # type: ignore[assignment]


def once(tensor: TensorBase) -> Once:
    """A tensor as a rule sees it."""
    return Once(tensor.float() if tensor.dtype in _HALVES else tensor)


def value_of(x: Any) -> Any:
    """The tensor; anything else as it is."""
    if not isinstance(x, Once):
        return x
    if x.tensor is None:
        assert x.factors is not None
        x.tensor = x.factors[0] * x.factors[1]
    return x.tensor


def _compared(how: Callable[[Any, Any], Any], a: Any, b: Any) -> Once:
    return Once(how(value_of(a), value_of(b)))


def _is_product(x: Any) -> bool:
    return isinstance(x, Once) and x.factors is not None


def _add(a: Any, b: Any) -> Once:
    product, other = (b, a) if _is_product(b) else (a, b)
    if not _is_product(product):
        return Once(value_of(a) + value_of(b))
    return Once(_multiply_add(*product.factors, value_of(other)))


def _sub(a: Any, b: Any) -> Once:
    if not _is_product(b):
        return Once(value_of(a) - value_of(b))
    left, right = b.factors
    return Once(_multiply_add(-left, right, value_of(a)))
