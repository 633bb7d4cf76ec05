"""Functions of each element: today's operations, and those whose behaviour differs.

Operands of two are brought to one dtype first: PyTorch lets 0-dimensional ones give way to others, the standard does not.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ._dtypes import REAL_OF, common, flat

# Those that no function here defines are today's operations of the same names.
__all__ = """abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_invert bitwise_left_shift bitwise_or
bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide equal exp expm1 floor floor_divide greater greater_equal hypot
imag isfinite isinf isnan less less_equal log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor maximum minimum
multiply negative nextafter not_equal positive pow real reciprocal remainder round sign signbit sin sinh sqrt square subtract tan tanh
trunc""".split()


def _function(name: str, operation: Callable) -> Callable:
    """The operation on one array, or on two of one dtype: it needs as many arguments."""
    needed = [p for p in inspect.signature(operation).parameters.values() if p.default is p.empty]

    def of_one(x: Any, /) -> Any:
        return operation(x)

    def of_two(x1: Any, x2: Any, /) -> Any:
        first, second = common(name, x1, x2)
        return operation(first, second)

    function = of_one if len(needed) == 1 else of_two
    function.__name__ = function.__qualname__ = name
    description = (operation.__doc__ or "").strip().partition("\n\n")[0]
    function.__doc__ = f"`{name}` of the array API standard.\n\n{description}"
    return function


bitwise_invert = _function("bitwise_invert", flat.bitwise_not)
equal = _function("equal", flat.eq)


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


globals().update({name: _function(name, getattr(flat, name)) for name in __all__ if name not in globals()})
