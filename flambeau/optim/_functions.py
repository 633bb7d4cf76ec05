"""Functions for the rules of optimisers: of traced values, of tensors and of numbers alike."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

from ..codegen import expr as ex
from ..codegen.expr import Expr
from ..core.base.dtypes import get_default_dtype
from ..core.base.tensor import TensorBase
from ..operations.declare.registry import published
from ._once import Once, value_of

_operations = published("")


def _for_all(
    name: str, traced: Callable[..., Expr], plain: Callable[..., Any], bounded: str | None = None
) -> Callable[..., Any]:
    """`bounded`: the operation on a tensor and a number, where `name` takes tensors alone."""
    operation = _operations[name]
    with_number = None if bounded is None else _operations[bounded]

    def function(*given: Any) -> Any:
        if any(isinstance(x, Expr) for x in given):
            return traced(*given)
        if Once in [type(x) for x in given]:
            return Once(function(*[value_of(x) for x in given]))
        tensors = [isinstance(x, TensorBase) for x in given]
        if with_number is not None and tensors == [True, False]:
            return with_number(*given)
        return (operation if any(tensors) else plain)(*given)

    function.__name__ = name
    function.__doc__ = f"`{name}` of traced values, of tensors, or of numbers."
    return function


def _choice(condition: Expr, a: Any, b: Any) -> Expr:
    return ex.where(condition, ex.like(condition.args[0], a), b)  # of two plain numbers, too


def _power(base: Any, exponent: Any) -> Expr:
    return ex.call("pow", base, exponent)


sqrt = _for_all("sqrt", ex.sqrt, math.sqrt)
absolute = _for_all("abs", ex.absolute, abs)
maximum = _for_all("maximum", ex.maximum, max, "clamp_min")
minimum = _for_all("minimum", ex.minimum, min, "clamp_max")
power = _for_all("pow", _power, pow)
_where = _for_all("where", _choice, lambda condition, a, b: a if condition else b)


def where(condition: Any, a: Any, b: Any) -> Any:
    """`a` where the condition holds, else `b`; one of both where it is a bool."""
    if isinstance(condition, bool):
        return a if condition else b
    return _where(condition, a, b)


def kept(x: Any) -> Any:
    """A number as the state keeps it: rounded to float32, unless float64 is the default dtype."""
    if isinstance(x, Expr):
        return ex.call("kept", x)
    if get_default_dtype().name == "float64":
        return x
    if isinstance(x, TensorBase):
        return x.float().double() if x.dtype.name == "float64" else x  # a number of a recording
    return ctypes.c_float(x).value


def detached(x: Any) -> Any:
    """`x` as a constant."""
    return x.detach() if isinstance(x, TensorBase) else x
