"""Composites over pointwise operations, forms of them that write in place, and functions in Python mapped over elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._typeinfo import finfo
from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ...core.make.bridge import from_numpy
from ..declare.half_types import in_float32
from ..declare.registry import library, register
from ..declare.results import accepts_out
from .arithmetic import clamp, overwrite, round
from .elementary import log_odds, numbers_only
from .special import mvlgamma


@library("composite", "nan_to_num", "Tensor.nan_to_num", reference="numpy.nan_to_num")
@accepts_out
def nan_to_num(input, nan=0.0, posinf=None, neginf=None) -> TensorBase:
    """NaN and infinities replaced by numbers: the dtype's largest and lowest for the infinities by default."""
    if not input.is_floating_point() and not input.is_complex():
        return input.clone()
    if not numbers_only.declaration.takes(input.dtype.name):
        raise NotImplementedError(f"nan_to_num(): \"nan_to_num\" not implemented for '{input.dtype.name}'")
    limits = finfo(input.dtype)
    return numbers_only(
        input,
        nan=0.0 if nan is None else nan,
        posinf=limits.max if posinf is None else posinf,
        neginf=limits.min if neginf is None else neginf,
    )


@library(
    "composite", "logit", "Tensor.logit", "special.logit", domain=(0.1, 0.9), reference="scipy.special.logit"
)
@accepts_out
@in_float32()
def logit(input, eps=None) -> TensorBase:
    """log(x / (1 - x)); with `eps`, x is first kept within [eps, 1 - eps]."""
    return log_odds(input if eps is None else clamp(input, eps, 1 - eps))


@library("composite", "float_power", "Tensor.float_power")
@accepts_out
def float_power(input, exponent) -> TensorBase:
    """input ** exponent in float64, or in complex128 where either is complex."""
    some_complex = any(
        x.is_complex() if isinstance(x, TensorBase) else isinstance(x, complex) for x in (input, exponent)
    )
    double = by_name["complex128" if some_complex else "float64"]
    first = input.to(double) if isinstance(input, TensorBase) else input
    number = complex if some_complex else float
    second = exponent.to(double) if isinstance(exponent, TensorBase) else number(exponent)
    return first**second


def _written(function: Callable) -> None:
    """`x.name_(…)`: the result of the function written over the tensor."""

    def in_place(self: TensorBase, *args: Any, **named: Any) -> TensorBase:
        return overwrite(self, function, *args, **named)

    name = f"{function.__name__}_"
    in_place.__name__ = in_place.__qualname__ = name
    in_place.__doc__ = f"`{function.__name__}` in place."
    register(name, "composite", in_place, places=(name, f"Tensor.{name}"))


for _function in (
    round,
    nan_to_num,
    logit,
    float_power,
    mvlgamma,
):
    _written(_function)


def _mapped(who: str, self: TensorBase, others: tuple, function: Callable) -> TensorBase:
    import numpy as np

    values = [t.expand(self.shape).reshape(-1).tolist() for t in (self, *others)]
    found = np.array([function(*v) for v in zip(*values)], dtype=object).reshape(tuple(self.shape))
    return self.copy_(from_numpy(found.astype(self.detach().numpy().dtype)))


@library("composite", "Tensor.map_")
def map_(self: TensorBase, tensor: TensorBase, callable: Callable) -> TensorBase:
    """Each element replaced by `callable` of it and of the other tensor's (a Python call for each: slow)."""
    return _mapped("map_", self, (tensor,), callable)


@library("composite", "Tensor.map2_")
def map2_(self: TensorBase, x: TensorBase, y: TensorBase, callable: Callable) -> TensorBase:
    """Each element replaced by `callable` of it and of two other tensors' (a Python call for each: slow)."""
    return _mapped("map2_", self, (x, y), callable)
