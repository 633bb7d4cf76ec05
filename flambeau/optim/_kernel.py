"""A function of traced values as one pass over tensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..core.call.pointwise import PointwiseOp
from ..operations.declare.pointwise import FLOATING, Pointwise


def kernel(body: Callable[..., Any]) -> PointwiseOp:
    """A function of expressions as one pass over tensors: operands by position, numbers by keyword, and `out=`."""
    parameters = inspect.signature(body).parameters.values()
    operands = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    numbers = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    return Pointwise(body.__name__.strip("_"), body, operands, numbers, dtypes=FLOATING).make_op(
        differentiable=False
    )
