"""Functions of elements as one kernel each: what `log_prob`, `cdf` and their kin compute.

A body says what one element is, of traced values; dtype rules, broadcasting, gradients of any order and kernels for all devices
follow, as for public operations (`operations/declare/pointwise.py`).  They are private: users reach them by distributions.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..codegen import functions as fn
from ..operations.declare.pointwise import ALL, FLOATING, Pointwise

__all__ = ["fn", "fused", "question"]


def fused(body: Callable[..., Any]) -> Any:
    """An operation of tensors and numbers that are promoted to one floating-point dtype; keyword-only parameters are numbers."""
    return _operation(body, int_to_float=True, dtypes=FLOATING)


def question(body: Callable[..., Any]) -> Any:
    """An operation of tensors and numbers of any real dtype that answers yes or no for each element."""
    return _operation(body, differentiable=False, dtypes=ALL)


def _operation(body: Callable[..., Any], differentiable: bool = True, **rules: Any) -> Any:
    operands, params, defaults = [], [], []
    for p in inspect.signature(body).parameters.values():
        (params if p.kind is p.KEYWORD_ONLY else operands).append(p.name)
        if p.default is not p.empty:
            defaults.append(float(p.default))
    declared = Pointwise(body.__name__, body, operands, params, **rules)
    op = declared.make_op(defaults, differentiable)
    op.derivative, op.__doc__ = declared.derivative, body.__doc__
    return op
