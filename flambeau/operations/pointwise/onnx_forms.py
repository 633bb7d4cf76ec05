"""ONNX forms of pointwise operations that have an operator of their own there, or read bits of floats here."""

from __future__ import annotations

import math
from typing import Any

from ..declare.onnx import onnx_form
from .arithmetic import isinf, reciprocal, signbit
from .integers import frexp


def _alike(g: Any, *given: Any) -> list[Any]:
    """Operands in the dtype of the result; numbers become constants."""
    dtype = g.results[0].dtype
    return [g.cast(x, dtype) if hasattr(x, "name") else g.number(x, dtype) for x in given]


@onnx_form(signbit)
def _(g: Any, input: Any) -> Any:
    if not input.floating:
        return g.Less(g.wider(input), 0) if input.dtype.startswith("int") else NotImplemented
    return g.Less(g.where(g.Equal(input, 0), g.Reciprocal(input), input), 0)


@onnx_form(reciprocal)
def _(g: Any, input: Any) -> Any:
    return g.Reciprocal(input) if input.dtype in ("float32", "float64") else NotImplemented


@onnx_form(isinf)
def _(g: Any, input: Any) -> Any:
    return g.IsInf(input) if input.dtype in ("float32", "float64") else NotImplemented


@onnx_form(frexp)
def _(g: Any, input: Any, **_: Any) -> Any:
    if input.dtype != "float32":
        return NotImplemented
    size = g.Abs(input)
    plain = g.And(g.Greater(size, 0), g.Less(size, math.inf))
    safe = g.Where(plain, size, g.number(1, "float32"))
    power = g.Add(g.Floor(g.Div(g.Log(safe), math.log(2))), 1)
    share = g.Div(safe, g.Pow(g.number(2, "float32"), power))
    high, low = g.GreaterOrEqual(share, 1), g.Less(share, 0.5)
    power = g.Sub(g.Add(power, g.cast(high, "float32")), g.cast(low, "float32"))
    share = g.Where(high, g.Mul(share, 0.5), g.Where(low, g.Mul(share, 2), share))
    share = g.Where(plain, g.Mul(g.Sign(input), share), input)
    return share, g.cast(g.Where(plain, power, g.number(0, "float32")), "int32")
