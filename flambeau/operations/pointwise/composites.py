"""Composites over pointwise operations, forms of them that write in place, and functions in Python mapped over elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._typeinfo import finfo
from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ...core.make.bridge import from_numpy
from ..declare.examples import of_call
from ..declare.half_types import in_float32
from ..declare.registry import library, register
from ..declare.results import accepts_out
from .arithmetic import clamp, overwrite, round
from .elementary import log_odds, numbers_only
from .special import mvlgamma


@library("composite", "nan_to_num", "Tensor.nan_to_num", reference="numpy.nan_to_num", elementwise=True)
@accepts_out
def nan_to_num(input, nan=0.0, posinf=None, neginf=None) -> TensorBase:
    """input, or `nan`, `posinf`, `neginf` where it is NaN, +inf, -inf.
    The infinities become the dtype's largest and lowest by default.

    Shape:
        input: any; the result has the same

    Raises:
        NotImplementedError: the dtype is a storage format alone, as float8
        TypeError: `nan`, `posinf` or `neginf` is no number

    >>> import flambeau
    >>> flambeau.nan_to_num(flambeau.tensor([float("nan"), float("inf"), 1.0]), posinf=9.0)
    tensor([0., 9., 1.])
    """
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
    "composite",
    "logit",
    "Tensor.logit",
    "special.logit",
    domain=(0.1, 0.9),
    reference="scipy.special.logit",
    elementwise=True,
)
@accepts_out
@in_float32()
def logit(input, eps=None) -> TensorBase:
    """log(x / (1 - x)); with `eps`, x is first kept within [eps, 1 - eps].

    Shape:
        input: any; the result has the same

    Raises:
        TypeError: the input is no Tensor

    >>> import flambeau
    >>> flambeau.logit(flambeau.tensor([0.5, 0.75]))
    tensor([0.0000, 1.0986])
    """
    return log_odds(input if eps is None else clamp(input, eps, 1 - eps))


@library("composite", "float_power", "Tensor.float_power", elementwise=True)
@accepts_out
def float_power(input, exponent) -> TensorBase:
    """input^exponent in float64, or in complex128 where either is complex.

    Shape:
        input, exponent: any shapes that broadcast; the result has the shape they broadcast to

    Raises:
        RuntimeError: the shapes do not broadcast

    >>> import flambeau
    >>> flambeau.float_power(flambeau.tensor([2, 4]), 0.5)
    tensor([1.4142, 2.0000], dtype=flambeau.float64)
    """
    some_complex = any(
        x.is_complex() if isinstance(x, TensorBase) else isinstance(x, complex) for x in (input, exponent)
    )
    double = by_name["complex128" if some_complex else "float64"]
    first = input.to(double) if isinstance(input, TensorBase) else input
    number = complex if some_complex else float
    second = exponent.to(double) if isinstance(exponent, TensorBase) else number(exponent)
    return first**second


def _written(function: Callable, given: str, more: str, shown: str) -> None:
    """`x.name_(…)`: the result of the function written over the tensor."""

    def in_place(self: TensorBase, *args: Any, **named: Any) -> TensorBase:
        return overwrite(self, function, *args, **named)

    name = f"{function.__name__}_"
    in_place.__name__ = in_place.__qualname__ = name
    formula = " ".join((function.__doc__ or "").partition("\n\n")[0].rstrip(".").split())
    in_place.__doc__ = (
        f"`{function.__name__}` in place: {formula}.\n\nShape:\n    self: any, which stays\n\nRaises:\n"
        "    RuntimeError: the result has another shape" + of_call(f"tensor([{given}]).{name}({more})", shown)
    )
    register(name, "composite", in_place, places=(name, f"Tensor.{name}"), elementwise=True)


for _function, _given, _more, _shown in (
    (round, "1.5, 2.6", "", "tensor([2., 3.])"),
    (nan_to_num, 'float("nan"), 1.0', "", "tensor([0., 1.])"),
    (logit, "0.5, 0.75", "", "tensor([0.0000, 1.0986])"),
    (float_power, "2.0, 3.0", "2", "tensor([4., 9.])"),
    (mvlgamma, "2.0, 3.0", "2", "tensor([0.4516, 1.5502])"),
):
    _written(_function, _given, _more, _shown)


def _mapped(who: str, self: TensorBase, others: tuple, function: Callable) -> TensorBase:
    import numpy as np

    values = [t.expand(self.shape).reshape(-1).tolist() for t in (self, *others)]
    found = np.array([function(*v) for v in zip(*values)], dtype=object).reshape(tuple(self.shape))
    return self.copy_(from_numpy(found.astype(self.detach().numpy().dtype)))


@library("composite", "Tensor.map_", composite=False)
def map_(self: TensorBase, tensor: TensorBase, callable: Callable) -> TensorBase:
    """callable(self, tensor) for each element, in place (a Python call for each: slow).

    Shape:
        self: any; tensor: a shape that broadcasts to it

    Raises:
        TypeError: `tensor` is no Tensor

    >>> import flambeau
    >>> flambeau.tensor([1.0, 5.0]).map_(flambeau.tensor([3.0, 2.0]), max)
    tensor([3., 5.])
    """
    return _mapped("map_", self, (tensor,), callable)


@library("composite", "Tensor.map2_", composite=False)
def map2_(self: TensorBase, x: TensorBase, y: TensorBase, callable: Callable) -> TensorBase:
    """callable(self, x, y) for each element, in place (a Python call for each: slow).

    Shape:
        self: any; x, y: shapes that broadcast to it

    Raises:
        TypeError: `x` or `y` is no Tensor

    >>> import flambeau
    >>> x = flambeau.tensor([1.0, 5.0])
    >>> x.map2_(x, x, lambda a, b, c: a + b * c)
    tensor([ 2., 30.])
    """
    return _mapped("map2_", self, (x, y), callable)
