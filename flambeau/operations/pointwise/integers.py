"""Number theory and the parts of a floating-point number."""

from __future__ import annotations

from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ..declare.dtype_groups import COMPLEX, FLOATING
from ..declare.host import Result, computed
from ..declare.registry import leaf, library
from ..declare.results import accepts_out, named_result, write_over
from ..on_device import elementwise
from .arithmetic import mul
from .cpu_fallback import cpu_fallback, like
from .elementary import scaled_by_power

frexp_result = named_result("frexp", "mantissa", "exponent")


@cpu_fallback(
    on_device=lambda: elementwise.gcd,
    floating=False,
    in_place=True,
    differentiable=False,
    reference="numpy.gcd",
)
def gcd(input, other):
    """max {d : input = d · i, other = d · j}: the greatest common divisor of integers.

    >>> import flambeau
    >>> flambeau.gcd(flambeau.tensor([12, 7]), flambeau.tensor([18, 3]))
    tensor([6, 1])
    """
    import numpy as np

    return np.gcd(input, other)


@cpu_fallback(
    on_device=lambda: elementwise.lcm,
    floating=False,
    in_place=True,
    differentiable=False,
    reference="numpy.lcm",
)
def lcm(input, other):
    """|input · other| / gcd(input, other): the least common multiple of integers, element by element.

    >>> import flambeau
    >>> flambeau.lcm(flambeau.tensor([4, 7]), flambeau.tensor([6, 3]))
    tensor([12, 21])
    """
    import numpy as np

    return np.abs(np.lcm(input, other))


@cpu_fallback(on_device=lambda: elementwise.nextafter, in_place=True, reference="numpy.nextafter")
def nextafter(input, other, *, dtype):
    """min {y > input} where other > input, max {y < input} where it is less.
    It is the floating-point number next to `input` in the direction of `other`, of the dtype of both.

    >>> import flambeau
    >>> flambeau.nextafter(flambeau.tensor(1.0), flambeau.tensor(2.0)).item()
    1.0000001192092896
    """
    import numpy as np

    if dtype == "float16":
        return np.nextafter(input.astype(np.float16), other.astype(np.float16))
    if dtype != "bfloat16":
        return np.nextafter(input, other)
    away = (other > input) == (input > 0)  # bfloat16 is the upper half of float32
    result = (input.view(np.int32) + np.where(away, 1 << 16, -(1 << 16)).astype(np.int32)).view(np.float32)
    result = np.where(input == 0, np.copysign(np.float32(2.0**-133), other), result)
    return np.where(input == other, other, np.where(np.isnan(input) | np.isnan(other), np.nan, result))


@nextafter.derivative
def _(grad, input, other):
    return like(grad.masked_fill(input == other, 0.0), input), like(grad.new_zeros(grad.shape), other)


@library("composite", reference="numpy.ldexp", elementwise=True)
def ldexp(input: TensorBase, other: TensorBase, *, out: TensorBase | None = None) -> TensorBase:
    """input · 2^other, in the common dtype; integers become the default dtype.

    Shape:
        input, other: any shapes that broadcast; the result has the shape they broadcast to

    Raises:
        RuntimeError: the shapes do not broadcast

    >>> import flambeau
    >>> flambeau.ldexp(flambeau.tensor([1.0, 3.0]), flambeau.tensor([3, -1]))
    tensor([8.0000, 1.5000])
    """
    if input.is_complex() or other.is_complex():
        return mul(input, 2.0**other, out=out)
    return scaled_by_power(input, other, out=out)


@library(
    "composite",
    "Tensor.ldexp_",
    "ldexp_",
    name="ldexp_in_place",
    writes=True,
    elementwise=True,
    dtypes=FLOATING | COMPLEX,
)
def ldexp_(self: TensorBase, other: TensorBase) -> TensorBase:
    """`ldexp` in place: self · 2^other.

    Shape:
        self: any; other: a shape that broadcasts to it

    Raises:
        TypeError: `other` is no Tensor

    >>> import flambeau
    >>> flambeau.tensor([1.0, 3.0]).ldexp_(flambeau.tensor([3, -1]))
    tensor([8.0000, 1.5000])
    """
    if self.is_complex() or other.is_complex():
        return self.mul_(2.0**other)
    return write_over(scaled_by_power, self, other)


def _frexp(x):
    import numpy as np

    return np.frexp(x)


@leaf(
    "fallback",
    "frexp",
    "Tensor.frexp",
    results=("mantissa", "exponent"),
    reference="numpy.frexp",
    dtypes=FLOATING,
    gives=frexp_result,
)
@accepts_out
def frexp(input: TensorBase) -> tuple[TensorBase, TensorBase]:
    """Mantissa, of magnitude in [0.5, 1), and exponent (int32) with input = mantissa · 2^exponent.

    Shape:
        input: any; the results have the same

    >>> import flambeau
    >>> flambeau.frexp(flambeau.tensor([8.0])).mantissa
    tensor([0.5000])
    """
    if not input.is_floating_point():
        raise RuntimeError(f"frexp() only supports floating-point dtypes, got {input.dtype}")
    if not (input.is_cpu or input.is_meta):
        return frexp_result(*elementwise.frexp(input.shape, input))
    rule = [Result(input.shape, input.dtype), Result(input.shape, by_name["int32"])]
    return frexp_result(*computed(rule, _frexp, input))


@frexp.derivative
def _(grad, exponent):
    return grad * 2.0**-exponent
