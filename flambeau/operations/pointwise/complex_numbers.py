"""Complex numbers: making them, taking them apart, conjugates."""

from __future__ import annotations

from ...codegen import functions as fn
from ...codegen.differentiate import flat
from ...core.base.tensor import TensorBase
from ..declare.pointwise import EVERY, FLOATING, pointwise
from ..declare.registry import library

_MAKERS = frozenset(("float32", "float64"))
_REFUSED = [(EVERY - FLOATING, RuntimeError, "expected both inputs to be floating-point tensors")]


@pointwise(
    places=("complex",),
    in_place=False,
    dtypes=_MAKERS,
    refused=_REFUSED,
    alike=("real", "imag"),
    pairs=True,
    name="complex",
)
def complex_of(real, imag):
    """The complex numbers real + i·imag; of float16, complex32.

    >>> import flambeau
    >>> flambeau.complex(flambeau.tensor([1.0]), flambeau.tensor([2.0]))
    tensor([1.+2.j])
    """
    return fn.pair(real, imag)


@pointwise(
    places=("polar",),
    in_place=False,
    dtypes=_MAKERS,
    refused=_REFUSED,
    alike=("abs", "angle"),
    autocast=("float32", "fallthrough"),
)
def polar(abs, angle):
    """The complex numbers of that length and angle: abs · (cos angle + i·sin angle).

    >>> import flambeau
    >>> flambeau.polar(flambeau.tensor([2.0]), flambeau.tensor([0.0]))
    tensor([2.+0.j])
    """
    return fn.pair(abs * fn.cos(angle), abs * fn.sin(angle))


@pointwise(int_to_float=True, in_place=False, reference="numpy.angle", dtypes=EVERY)
def angle(input):
    """arg(input): the angle of each complex number in radians, in (-π, π]; of real ones, 0 or π, and NaN for NaN.

    >>> import flambeau
    >>> flambeau.angle(flambeau.tensor([1j, -1 + 0j]))
    tensor([1.5708, 3.1416])
    """
    if fn.is_complex(input.dtype):
        return fn.atan2(fn.imag(input), fn.real(input))
    zero = fn.like(input, 0.0)
    return fn.where(input < 0, fn.like(input, 3.141592653589793), fn.where(fn.isnan(input), input, zero))


@angle.derivative
def _(grad, input):
    if not fn.is_complex(input.dtype):
        return flat(grad)
    x, y = fn.real(input), fn.imag(input)
    square = x * x + y * y
    safe = fn.where(square == 0, fn.like(square, 1.0), square)
    return fn.conj(fn.pair(grad * (-y / safe), grad * (x / safe)))


@pointwise(dtypes=EVERY, reference="numpy.conjugate", additive=True)
def conj_physical(input):
    """re - i · im: the complex conjugate, element by element; of real numbers, themselves.

    >>> import flambeau
    >>> flambeau.conj_physical(flambeau.tensor([1 + 2j]))
    tensor([1.-2.j])
    """
    return fn.conj(input)


@library("composite", elementwise=True, additive=True)
def conj(input: TensorBase) -> TensorBase:
    """re - i · im: the complex conjugate, in memory of its own; a real tensor itself.

    Shape:
        input: any; the result has the same

    >>> import flambeau
    >>> flambeau.conj(flambeau.tensor([1 + 2j]))
    tensor([1.-2.j])
    """
    return conj_physical(input) if input.is_complex() else input


@library("composite", elementwise=True, additive=True)
def resolve_conj(input: TensorBase) -> TensorBase:
    """The tensor itself, for resolve_conj(x) = x: conjugates are never put off.

    Shape:
        input: any; the result is the input

    Raises:
        TypeError: the argument is no Tensor

    >>> import flambeau
    >>> flambeau.resolve_conj(flambeau.tensor([1 + 2j]).conj())
    tensor([1.-2.j])
    """
    return input


@library("composite", elementwise=True, additive=True)
def resolve_neg(input: TensorBase) -> TensorBase:
    """The tensor itself, for resolve_neg(x) = x: negatives are never put off.

    Shape:
        input: any; the result is the input

    Raises:
        TypeError: the argument is no Tensor

    >>> import flambeau
    >>> flambeau.resolve_neg(flambeau.tensor([1.0]))
    tensor([1.])
    """
    return input


@pointwise(dtypes=EVERY, reference="numpy.isreal", in_place=False, differentiable=False)
def isreal(input):
    """im(input) = 0: whether the imaginary part is 0, element by element; True for real numbers.

    >>> import flambeau
    >>> flambeau.isreal(flambeau.tensor([1 + 0j, 2j]))
    tensor([ True, False])
    """
    return fn.imag(input) == 0 if fn.is_complex(input.dtype) else fn.like(input, 0) == 0
