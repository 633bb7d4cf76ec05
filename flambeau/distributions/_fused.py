"""Functions of elements as one kernel each: what `log_prob`, `cdf` and their kin compute.

A body says what one element is, of traced values; dtype rules, broadcasting, gradients of any order and kernels for all devices
follow, as for public operations (`operations/declare/pointwise.py`).  They are private: users reach them by distributions.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from ..codegen import functions as fn
from ..codegen.differentiate import sign
from ..core import tape
from ..operations.declare.pointwise import ALL, FLOATING, Pointwise

__all__ = [
    "fn",
    "fused",
    "log1p_square",
    "made_of",
    "question",
    "sign",
    "softplus",
    "vanishing",
    "xlog1py",
    "xlogy",
]


def fused(body: Callable[..., Any]) -> Any:
    """An operation of tensors and numbers that are promoted to one floating-point dtype; keyword-only parameters are numbers."""
    return _operation(body, int_to_float=True, dtypes=FLOATING)


def question(body: Callable[..., Any]) -> Any:
    """An operation of tensors and numbers of any real dtype that answers yes or no for each element."""
    return _operation(body, differentiable=False, dtypes=ALL)


def _operation(body: Callable[..., Any], differentiable: bool = True, **rules: Any) -> Any:
    operands: list[str] = []
    params: list[str] = []
    defaults: list[float] = []
    for p in inspect.signature(body).parameters.values():
        (params if p.kind is p.KEYWORD_ONLY else operands).append(p.name)
        if p.default is not p.empty:
            defaults.append(float(p.default))
    declared = Pointwise(body.__name__, body, operands, params, **rules)
    op = declared.make_op(defaults, differentiable)
    op.derivative, op.__doc__ = declared.derivative, body.__doc__
    return op


def made_of(op: Any, noise: Any, *parameters: Any) -> Any:
    """The samples that `op` makes of noise and parameters: in the noise's memory, where the tape does not want them."""
    dtype = noise.dtype
    if tape.tracked(*parameters) or any(p.dtype is not dtype for p in parameters):
        return op(noise, *parameters)
    return op(noise, *parameters, out=noise)


def xlogy(x: Any, y: Any) -> Any:
    """x log y of traced values, 0 where x is 0 and y is 0 or infinite; its derivatives are numbers there, too."""
    return x * fn.log(fn.where((x == 0) & ((y == 0) | (y == math.inf)), 1.0, y))


def xlog1py(x: Any, y: Any) -> Any:
    """x log(1 + y) of traced values, 0 where x is 0 and y -1; its derivatives are numbers there, too."""
    return x * fn.log1p(fn.where((x == 0) & (y == -1), 0.0, y))


def log1p_square(z: Any) -> Any:
    """log(1 + z²) of traced values, also where z² is too large for the dtype: there 2 log |z| + log(1 + 1 / z²)."""
    large = fn.absolute(z) > 1.0
    safe = fn.where(large, z, 1.0)
    small = fn.where(large, 1.0 / safe, z)
    return 2.0 * fn.log(fn.absolute(safe)) + fn.log1p(small * small)


def vanishing(value: Any, result: Any) -> Any:
    """The logarithm of a density that vanishes at infinity, where its terms are infinities of both signs."""
    return fn.where(value == math.inf, -math.inf, result)


def softplus(x: Any) -> Any:
    """log(1 + exp(x)) of traced values, without overflow."""
    return fn.maximum(x, 0.0) + fn.log1p(fn.exp(-fn.absolute(x)))
