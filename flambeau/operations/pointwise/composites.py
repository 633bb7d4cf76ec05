"""Composites over pointwise operations, forms of them that write in place, and functions in Python mapped over elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.base.dtypes import by_name, dtype
from ...core.base.tensor import TensorBase
from ...core.base.typeinfo import finfo
from ...core.call.pointwise import PointwiseOp
from ...core.make.bridge import from_numpy
from ..declare.dtype_groups import ALL, EVERY, FLOATING, NUMERIC
from ..declare.examples import of_call
from ..declare.registry import library, register
from ..declare.results import into, overwrite, write_over
from .arithmetic import identity, pow, pow_, round, rounding
from .elementary import log_odds, log_odds_within, numbers_only
from .special import mvlgamma


@library("composite", "nan_to_num", "Tensor.nan_to_num", reference="numpy.nan_to_num", elementwise=True)
def nan_to_num(input, nan=0.0, posinf=None, neginf=None, *, out=None) -> TensorBase:
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
        return input.clone() if out is None else into(out, input, "nan_to_num")
    return numbers_only(input, out=out, **_numbers(input, nan, posinf, neginf))


def _numbers(
    input: TensorBase, nan: float | None, posinf: float | None, neginf: float | None
) -> dict[str, float]:
    """What stands for each in a tensor of that dtype; NotImplementedError for one that is not computed in."""
    if not numbers_only.declaration.takes(input.dtype.name):
        raise NotImplementedError(f"nan_to_num(): \"nan_to_num\" not implemented for '{input.dtype.name}'")
    limits = finfo(input.dtype)
    return {
        "nan": 0.0 if nan is None else nan,
        "posinf": limits.max if posinf is None else posinf,
        "neginf": limits.min if neginf is None else neginf,
    }


@library(
    "composite",
    "logit",
    "Tensor.logit",
    "special.logit",
    domain=(0.1, 0.9),
    reference="scipy.special.logit",
    elementwise=True,
    dtypes=ALL,
)
def logit(input, eps=None, *, out=None) -> TensorBase:
    """log(x / (1 - x)); with `eps`, x is first kept within [eps, 1 - eps].

    Shape:
        input: any; the result has the same

    Raises:
        TypeError: the input is no Tensor

    >>> import flambeau
    >>> flambeau.logit(flambeau.tensor([0.5, 0.75]))
    tensor([0.0000, 1.0986])
    """
    op, params = _logit_of(eps)
    return op(input, out=out, **params)


def _logit_of(eps: float | None) -> tuple[PointwiseOp, dict[str, float]]:
    """The operation that computes it, and its parameters."""
    return (log_odds, {}) if eps is None else (log_odds_within, {"low": eps, "high": 1 - eps})


@library("composite", "float_power", "Tensor.float_power", elementwise=True)
def float_power(input, exponent, *, out=None) -> TensorBase:
    """input^exponent in float64, or in complex128 where either is complex.

    Shape:
        input, exponent: any shapes that broadcast; the result has the shape they broadcast to

    Raises:
        RuntimeError: the shapes do not broadcast

    >>> import flambeau
    >>> flambeau.float_power(flambeau.tensor([2, 4]), 0.5)
    tensor([1.4142, 2.0000], dtype=flambeau.float64)
    """
    double = _double(input, exponent)
    if out is not None:
        _check_double("float_power", "output", out, double)
    first = input.to(double) if isinstance(input, TensorBase) else input
    return pow(first, _in_double(exponent, double), out=out)


def _double(*operands: Any) -> dtype:
    """complex128 where an operand is complex, else float64."""
    some_complex = any(
        x.is_complex() if isinstance(x, TensorBase) else isinstance(x, complex) for x in operands
    )
    return by_name["complex128" if some_complex else "float64"]


def _in_double(x: Any, double: dtype) -> Any:
    if isinstance(x, TensorBase):
        return x.to(double)
    return complex(x) if double.is_complex else float(x)


def _check_double(who: str, what: str, written: TensorBase, double: dtype) -> None:
    if written.dtype != double:
        raise RuntimeError(
            f"{who}(): the {what} given to {who} has dtype {written.dtype} but the operation's result requires dtype {double}"
        )


def _round_(self: TensorBase, *, decimals: int = 0) -> TensorBase:
    op, params = rounding(decimals)
    return write_over(op, self, **params)


def _nan_to_num_(self: TensorBase, nan=0.0, posinf=None, neginf=None) -> TensorBase:
    if not self.is_floating_point() and not self.is_complex():
        return write_over(identity, self)
    return write_over(numbers_only, self, **_numbers(self, nan, posinf, neginf))


def _logit_(self: TensorBase, eps: float | None = None) -> TensorBase:
    op, params = _logit_of(eps)
    return write_over(op, self, **params)


def _float_power_(self: TensorBase, exponent: Any) -> TensorBase:
    double = _double(self, exponent)
    _check_double("float_power_", "base", self, double)
    return pow_(self, _in_double(exponent, double))


def _mvlgamma_(self: TensorBase, p: int) -> TensorBase:
    return overwrite(self, mvlgamma, p)


def _written(
    in_place: Callable, function: Callable, dtypes: frozenset[str], given: str, more: str, shown: str
) -> None:
    """Enter the form of a function that writes over its tensor."""
    name = f"{function.__name__}_"
    in_place.__name__ = in_place.__qualname__ = name
    formula = " ".join((function.__doc__ or "").partition("\n\n")[0].rstrip(".").split())
    in_place.__doc__ = (
        f"`{function.__name__}` in place: {formula}.\n\nShape:\n    self: any, which stays\n\nRaises:\n"
        "    RuntimeError: the result has another shape" + of_call(f"tensor({given}).{name}({more})", shown)
    )
    register(name, "composite", in_place, places=(name, f"Tensor.{name}"), elementwise=True, dtypes=dtypes)


for _in_place, _function, _dtypes, _given, _more, _shown in (
    (_round_, round, NUMERIC, "[1.5, 2.6]", "", "tensor([2., 3.])"),
    (_nan_to_num_, nan_to_num, EVERY, '[float("nan"), 1.0]', "", "tensor([0., 1.])"),
    (_logit_, logit, FLOATING, "[0.5, 0.75]", "", "tensor([0.0000, 1.0986])"),
    (
        _float_power_,
        float_power,
        frozenset(("float64", "complex128")),
        "[2.0, 3.0], dtype=flambeau.float64",
        "2",
        "tensor([4., 9.], dtype=flambeau.float64)",
    ),
    (_mvlgamma_, mvlgamma, FLOATING, "[2.0, 3.0]", "2", "tensor([0.4516, 1.5502])"),
):
    _written(_in_place, _function, _dtypes, _given, _more, _shown)


_BY_PYTHON = "a function in Python makes each element"


def _mapped(who: str, self: TensorBase, others: tuple, function: Callable) -> TensorBase:
    import numpy as np

    values = [t.expand(self.shape).reshape(-1).tolist() for t in (self, *others)]
    result = np.array([function(*v) for v in zip(*values)], dtype=object).reshape(tuple(self.shape))
    return self.copy_(from_numpy(result.astype(self.detach().numpy().dtype)))


@library("composite", "Tensor.map_", composite=False, by_host=_BY_PYTHON)
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


@library("composite", "Tensor.map2_", composite=False, by_host=_BY_PYTHON)
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
