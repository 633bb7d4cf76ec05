"""Number theory and the parts of a floating-point number."""

from __future__ import annotations

from ...core import tape
from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ...core.call.copies import to_dtype
from ...core.make.bridge import from_numpy
from ..declare.registry import library
from ..declare.results import accepts_out, into, named_result
from .arithmetic import overwrite
from .elementary import scaled_by_power
from .hosted import hosted

frexp_result = named_result("frexp", "mantissa", "exponent")


@hosted(floating=False, in_place=True, reference="numpy.gcd")
def gcd(input, other):
    """Greatest common divisor of integers, element by element."""
    import numpy as np

    return np.gcd(input, other)


@hosted(floating=False, in_place=True, reference="numpy.lcm")
def lcm(input, other):
    """Least common multiple of integers, element by element."""
    import numpy as np

    return np.abs(np.lcm(input, other))


@hosted(in_place=True, excluded=("float16", "bfloat16"), reference="numpy.nextafter")
def nextafter(input, other):
    """The floating-point number next to `input` in the direction of `other`."""
    import numpy as np

    return np.nextafter(input, other)


@nextafter.derivative
def _(grad, input, other):
    return grad.masked_fill(input == other, 0.0), grad * 0.0


@library("composite", reference="numpy.ldexp")
def ldexp(input: TensorBase, other: TensorBase, *, out: TensorBase | None = None) -> TensorBase:
    """input · 2^other, in the common dtype; integers become the default dtype."""
    return into(out, _scaled(input, other), "ldexp")


def _scaled(input: TensorBase, other: TensorBase) -> TensorBase:
    return input * 2.0**other if input.is_complex() or other.is_complex() else scaled_by_power(input, other)


@library("composite", "Tensor.ldexp_", name="ldexp_in_place")
def ldexp_(self: TensorBase, other: TensorBase) -> TensorBase:
    """`ldexp` in place."""
    return overwrite(self, _scaled, other)


@library("hosted", reference="numpy.frexp")
@accepts_out
def frexp(input: TensorBase) -> tuple[TensorBase, TensorBase]:
    """Mantissa, of magnitude in [0.5, 1), and exponent (int32) with input = mantissa · 2^exponent.

    >>> import flambeau
    >>> flambeau.frexp(flambeau.tensor([8.0])).mantissa
    tensor([0.5000])
    """
    import numpy as np

    if not input.is_floating_point():
        raise RuntimeError(f"frexp() only supports floating-point dtypes, got {input.dtype}")
    x = input.detach()
    x = to_dtype(x, by_name["float32"]) if x.dtype.name in ("float16", "bfloat16") else x
    parts = np.frexp(x.numpy())
    mantissa = to_dtype(from_numpy(np.array(parts[0])), input.dtype)
    exponent = from_numpy(np.array(parts[1], dtype="int32"))
    if tape.recording(input):
        tape.record("FrexpBackward0", lambda grad, e: (grad * 2.0**-e,), (input,), mantissa, (exponent,))
    return frexp_result(mantissa, exponent)
