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

__all__ = ["fn", "fused", "made_of", "question", "sign", "softplus", "with_row", "xlog1py", "xlogy"]


# A row with fewer elements leaves lanes of a kernel idle; it is repeated where so many elements meet it.
SHORT, MANY = 64, 1 << 14


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
    if tape.recording(*parameters) or any(p.dtype is not dtype for p in parameters):
        return op(noise, *parameters)
    shape = parameters[0].shape
    if (
        len(shape) == 1
        and shape[0] < SHORT
        and noise.numel() > MANY
        and all(p.shape == shape for p in parameters)
    ):
        times = math.gcd(noise.numel() // shape[0], 256)
        wide = noise.view(-1, times * shape[0])
        op(wide, *[p.repeat(times) for p in parameters], out=wide)
        return noise
    return op(noise, *parameters, out=noise)


def with_row(op: Any, rows: Any, row: Any, *numbers: Any) -> Any:
    """op(rows, row, *numbers), where a short row that many meet is repeated, so that a kernel's lanes are all busy."""
    k, size = row.shape[-1], rows.numel()
    one = row.dim() == 1 and all(n.numel() == 1 for n in numbers)
    if one and k < SHORT and size > MANY and rows.shape[-1] == k and rows.is_contiguous():
        times = math.gcd(size // k, 256)
        if times > 1 and not tape.recording(rows, row, *numbers):
            return op(rows.view(-1, times * k), row.repeat(times), *numbers).view(rows.shape)
    return op(rows, row, *numbers)


def xlogy(x: Any, y: Any) -> Any:
    """x log y of traced values, 0 where both are 0; its derivatives are numbers there, too."""
    return x * fn.log(fn.where((x == 0) & (y == 0), 1.0, y))


def xlog1py(x: Any, y: Any) -> Any:
    """x log(1 + y) of traced values, 0 where x is 0 and y -1; its derivatives are numbers there, too."""
    return x * fn.log1p(fn.where((x == 0) & (y == -1), 0.0, y))


def softplus(x: Any) -> Any:
    """log(1 + exp(x)) of traced values, without overflow."""
    return fn.maximum(x, 0.0) + fn.log1p(fn.exp(-fn.absolute(x)))
