"""Functions of each element: one table of today's operations, and those whose behaviour differs.

Operands of two are brought to one dtype first: PyTorch lets 0-dimensional ones give way to others, the standard does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._dtypes import REAL_OF, common, flat

_OF_ONE = {name: getattr(flat, name) for name in (
    *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "exp", "expm1", "floor", "imag"),
    *("isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2", "logical_not", "negative", "positive", "real"),
    *("reciprocal", "signbit", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc"),
)}  # fmt: skip
_OF_ONE["bitwise_invert"] = flat.bitwise_not
_OF_ONE["conj"] = flat.conj
_OF_TWO = {name: getattr(flat, name) for name in (
    *("add", "atan2", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor"),
    *("copysign", "divide", "greater", "greater_equal", "hypot", "less", "less_equal", "logaddexp"),
    *("logical_and", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "nextafter", "not_equal", "pow"),
    "subtract",
)}  # fmt: skip
_OF_TWO["equal"] = flat.eq

__all__ = ["clip", "floor_divide", "remainder", "round", "sign", *_OF_ONE, *_OF_TWO]


def _of_one(name: str, operation: Callable) -> Callable:
    def function(x: Any, /) -> Any:
        return operation(x)

    return _named(function, name, operation)


def _of_two(name: str, operation: Callable) -> Callable:
    def function(x1: Any, x2: Any, /) -> Any:
        first, second = common(name, x1, x2)
        return operation(first, second)

    return _named(function, name, operation)


def _named(function: Callable, name: str, operation: Callable) -> Callable:
    function.__name__ = function.__qualname__ = name
    told = (operation.__doc__ or "").strip().partition("\n\n")[0]
    function.__doc__ = f"`{name}` of the array API standard.\n\n{told}"
    return function


globals().update({name: _of_one(name, operation) for name, operation in _OF_ONE.items()})
globals().update({name: _of_two(name, operation) for name, operation in _OF_TWO.items()})


def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """Each element of `x`, but at least `min` and at most `max`, numbers or arrays of shapes that broadcast; of `x`'s dtype.

    NaN where `x` or a bound is NaN.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.clip(xp.asarray([1, 5, 9]), 2, 7)
    tensor([2, 5, 7])
    """
    result = x
    for bound, chosen in ((min, flat.maximum), (max, flat.minimum)):
        if bound is not None:
            result = chosen(*common("clip", result, bound)).to(x.dtype)
    return result.clone() if result is x else result


def floor_divide(x1: Any, x2: Any, /) -> Any:
    """Quotients, rounded down; with an infinite operand, the quotient itself, where Python has NaN or -1.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.floor_divide(xp.asarray([7, -7]), 2), xp.floor_divide(xp.asarray([xp.inf, -1.0]), xp.asarray([2.0, xp.inf]))
    (tensor([ 3, -4]), tensor([inf, -0.]))
    """
    first, second = common("floor_divide", x1, x2)
    down = flat.floor_divide(first, second)
    if not down.is_floating_point():
        return down
    return flat.where(flat.isinf(first) | flat.isinf(second), flat.divide(first, second), down)


def remainder(x1: Any, x2: Any, /) -> Any:
    """What is left of `x1` after its division by `x2`, with the sign of `x2`; zeros have it, too.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.remainder(xp.asarray([5, -5]), 3), xp.remainder(xp.asarray([4.0]), -2.0)
    (tensor([2, 1]), tensor([-0.]))
    """
    first, second = common("remainder", x1, x2)
    left = flat.remainder(first, second)
    return flat.where(left == 0, flat.copysign(left, second), left) if left.is_floating_point() else left


def round(x: Any, /) -> Any:
    """Each element to the nearest integer, halves to the even one; real and imaginary parts alike.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.round(xp.asarray([0.5, 1.5, 2.5]))
    tensor([0., 2., 2.])
    """
    if x.dtype in REAL_OF:
        return flat.complex(flat.round(x.real), flat.round(x.imag))
    return flat.round(x)


def sign(x: Any, /) -> Any:
    """-1, 0 or 1 with the sign of each element, NaN of NaN; of a complex number, the number of magnitude 1 with its angle, or 0.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.sign(xp.asarray([-2.0, 0.0, xp.nan]))
    tensor([-1.,  0., nan])
    """
    if x.dtype in REAL_OF:
        return flat.where(x == 0, flat.zeros_like(x), flat.sgn(x))  # 0 + 0j, whatever the signs of the zeros
    if x.is_floating_point():
        return flat.where(flat.isnan(x), x, flat.sign(x))
    return flat.sign(x)
