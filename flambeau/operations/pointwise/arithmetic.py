"""Arithmetic, rounding, comparisons, logic: pointwise operations of one or two lines."""

from __future__ import annotations

import math

from ...codegen import expr as ex
from ...codegen import functions as fn
from ...codegen.differentiate import flat
from ...codegen.differentiate import sign as sign_of
from ...core.base.tensor import TensorBase
from ...core.call.operation import rename
from ...core.call.pointwise import InPlaceOp, PointwiseOp
from ...core.make.elements import check_filling
from ..declare.examples import of_call, of_numbers
from ..declare.flops import elements
from ..declare.pointwise import ALL, BOOL, COMPLEX, EVERY, FLOATING, INTEGRAL, NUMBERS, NUMERIC, pointwise
from ..declare.registry import library, register
from ..declare.results import write_over

SPECIAL = ("special.", "Tensor.")


@pointwise(
    rounded=True,
    reference="numpy.add",
    dtypes=EVERY,
    flops=elements,
    numbers=("input", "other"),
    scalar_second=True,
    linear="together",
)
def add(input, other, *, alpha=1):
    """input + alpha · other, element by element.

    >>> import flambeau
    >>> flambeau.add(flambeau.tensor([1, 2]), 10, alpha=2)
    tensor([21, 22])
    """
    if input.dtype == "bool":
        return input | (other if ex.is_const(alpha, 1) else other & fn.cast(alpha, "bool"))
    return input + (other if ex.is_const(alpha, 1) else other * alpha)


_NO_BOOLS = [
    (
        BOOL,
        RuntimeError,
        "Subtraction and negation, the `-` operator, of a bool tensor is not supported. If you are trying to invert a mask, "
        "use the `~` or `logical_not()` operator instead",
    )
]


@pointwise(
    rounded=True,
    reference="numpy.subtract",
    dtypes=NUMBERS,
    also=("subtract", "Tensor.subtract"),
    refused=_NO_BOOLS,
    numbers=("input", "other"),
    scalar_second=True,
    linear="together",
)
def sub(input, other, *, alpha=1):
    """input - alpha · other, element by element.

    >>> import flambeau
    >>> flambeau.sub(flambeau.tensor([5, 7]), 2, alpha=2)
    tensor([1, 3])
    """
    return input - other * alpha


@pointwise(
    rounded=True,
    places=("rsub",),
    in_place=False,
    dtypes=NUMBERS,
    refused=_NO_BOOLS,
    numbers=("other",),
    linear="together",
)
def rsub(input, other, *, alpha=1):
    """other - alpha · input.

    >>> import flambeau
    >>> flambeau.rsub(flambeau.tensor([1, 2]), 10)
    tensor([9, 8])
    """
    return other - input * alpha


@pointwise(
    reference="numpy.multiply",
    dtypes=EVERY,
    also=("multiply", "Tensor.multiply"),
    numbers=("input", "other"),
    widens=True,
    flops=elements,
    linear=("input", "other"),
)
def mul(input, other):
    """input · other, element by element.

    >>> import flambeau
    >>> flambeau.mul(flambeau.tensor([1., 2.]), 3)
    tensor([3., 6.])
    """
    return input & other if input.dtype == "bool" else input * other


@pointwise(
    int_to_float=True,
    reference="numpy.true_divide",
    places=("true_divide", "Tensor.true_divide"),
    dtypes=EVERY,
    aten="div",
    numbers=("input", "other"),
    linear=("input",),
)
def true_divide(input, other):
    """input / other: the quotient in floating point, element by element.

    >>> import flambeau
    >>> flambeau.true_divide(flambeau.tensor([3, 8]), 2)
    tensor([1.5000, 4.0000])
    """
    return input / other


@pointwise(rounded=True, dtypes=NUMERIC, places=("_floor_quotient",), in_place=False)
def floor_quotient(input, other):
    """Quotient rounded down, ⌊input / other⌋; the caller has ruled out integer zeros."""
    if not fn.is_float(input.dtype):
        quotient = input / other
        if not fn.is_signed(input.dtype):
            return quotient
        inexact = quotient * other != input
        below = inexact & ((input < 0) ^ (other < 0))
        return fn.where(below, quotient - 1, quotient)
    # As CPython's float_divmod: exact where the quotient is an integer.
    modulus = fn.fmod(input, other)
    quotient = (input - modulus) / other
    adjusted = fn.where((modulus != 0) & ((modulus < 0) ^ (other < 0)), quotient - 1.0, quotient)
    nearest = fn.floor(adjusted)
    nearest = fn.where(adjusted - nearest > 0.5, nearest + 1.0, nearest)
    rounded = fn.where(adjusted == 0, fn.copysign(fn.like(input, 0.0), input / other), nearest)
    return fn.where(other == 0, input / other, rounded)


@floor_quotient.derivative
def _(grad):
    return flat(grad), flat(grad)


@pointwise(dtypes=NUMERIC, places=("_trunc_quotient",), in_place=False, aten="div")
def trunc_quotient(input, other):
    """Quotient rounded towards zero."""
    return fn.trunc(input / other) if fn.is_float(input.dtype) else input / other


rename(trunc_quotient, "div")


@trunc_quotient.derivative
def _(grad):
    return flat(grad), flat(grad)


@pointwise(rounded=True, dtypes=NUMERIC, places=("_remainder",), in_place=False)
def remainder_of(input, other):
    """input - other · ⌊input / other⌋: of other's sign."""
    if fn.is_float(input.dtype):
        return fn.remainder(input, other)
    rest = fn.rem(input, other)
    if not fn.is_signed(input.dtype):
        return rest
    return fn.where((rest != 0) & ((rest < 0) ^ (other < 0)), rest + other, rest)


@remainder_of.derivative
def _(grad, input, other):
    return grad, -(grad * fn.floor(input / other))


@pointwise(rounded=True, dtypes=NUMERIC, places=("_fmod",), in_place=False)
def fmod_of(input, other):
    """input - other · trunc(input / other): of input's sign."""
    return fn.fmod(input, other) if fn.is_float(input.dtype) else fn.rem(input, other)


@fmod_of.derivative
def _(grad, input, other):
    return grad, -(grad * fn.trunc(input / other))


@pointwise(
    reference="numpy.negative",
    dtypes=NUMBERS,
    also=("negative", "Tensor.negative"),
    refused=_NO_BOOLS,
    additive=True,
)
def neg(input):
    """-input, element by element.

    >>> import flambeau
    >>> flambeau.neg(flambeau.tensor([1, -2]))
    tensor([-1,  2])
    """
    return -input


@pointwise(name="abs", reference="numpy.abs", also=("absolute", "Tensor.absolute"), dtypes=EVERY, widens=True)
def absolute(input):
    """|input|: the absolute value, element by element, a real number; its derivative at 0 is 0.

    >>> import flambeau
    >>> flambeau.abs(flambeau.tensor([-1.5, 2.0]))
    tensor([1.5000, 2.0000])
    >>> flambeau.abs(flambeau.tensor(3 + 4j))
    tensor(5.)
    """
    return input if input.dtype == "bool" else fn.absolute(input)


@pointwise(reference="numpy.sign")
def sign(input):
    """-1, 0 or 1 by the sign of each element.

    >>> import flambeau
    >>> flambeau.sign(flambeau.tensor([-2.0, 0.0, 5.0]))
    tensor([-1.,  0.,  1.])
    """
    if input.dtype == "bool":
        return input
    result = sign_of(input)
    return fn.where(fn.isnan(input), fn.like(input, 0.0), result) if fn.is_float(input.dtype) else result


@sign.derivative
def _(grad):
    return flat(grad)


@pointwise(name="sgn", dtypes=EVERY)
def sgn(input):
    """input / |input|, or 0 at 0: the sign of each element; of a complex number, the one of length 1 in its direction.

    >>> import flambeau
    >>> flambeau.sgn(flambeau.tensor([3 + 4j, 0j]))
    tensor([0.6000+0.8000j, 0.0000+0.0000j])
    """
    return sign_of(input) if fn.is_complex(input.dtype) else sign.declaration.body(input)


@sgn.derivative
def _(grad, input):
    if not fn.is_complex(input.dtype):
        return flat(grad)
    length, g = fn.absolute(input), fn.conj(grad)
    safe = fn.where(length == 0, fn.like(length, 1.0), length)
    turn = input / fn.cast(safe, input.dtype)
    across = (g - turn * fn.real(fn.conj(g) * turn)) / fn.cast(safe, input.dtype)
    return fn.conj(fn.where(length == 0, fn.like(g, 0.0), across))


@pointwise(reference="numpy.signbit", in_place=False, differentiable=False)
def signbit(input):
    """Whether the sign bit is set, input < 0: true for -0.0 too.

    >>> import flambeau
    >>> flambeau.signbit(flambeau.tensor([-1.0, -0.0, 0.0]))
    tensor([ True,  True, False])
    """
    if input.dtype == "bool":
        return fn.const(False, "bool") & input
    if not fn.is_float(input.dtype):
        return input < 0 if fn.is_signed(input.dtype) else input != input
    return fn.copysign(fn.like(input, 1.0), input) < 0


@pointwise(
    int_to_float=True,
    reference="numpy.reciprocal",
    domain=(0.5, 3.0),
    dtypes=EVERY,
    autocast=("fallthrough", "float32"),
)
def reciprocal(input):
    """1 / input.

    >>> import flambeau
    >>> flambeau.reciprocal(flambeau.tensor([2, 4]))
    tensor([0.5000, 0.2500])
    """
    return 1.0 / input


@reciprocal.derivative
def _(grad, out):
    return -(grad * (out * out))


@pointwise(
    reference="numpy.square",
    dtypes=EVERY,
    autocast=("fallthrough", "float32"),
    label="PowBackward0",
    constants={"exponent": 2},
)
def square(input):
    """input², element by element; int64 for bool.

    >>> import flambeau
    >>> flambeau.square(flambeau.tensor([-3, 2]))
    tensor([9, 4])
    """
    if input.dtype == "bool":
        return fn.cast(input, "int64")
    return input * input


@pointwise(places=("_pow",), in_place=False, dtypes=EVERY, domain=(0.2, 3.0))
def power(input, exponent):
    """input ** exponent, element by element."""
    if input.dtype == "bool":
        return input | ~exponent
    if fn.is_float(input.dtype) or fn.is_complex(input.dtype):
        return fn.pow(input, exponent)
    result, factor, one = fn.like(input, 1), input, fn.like(exponent, 1)
    for bit in range(ex.BITS[input.dtype] - fn.is_signed(input.dtype)):  # square and multiply
        chosen = ((exponent >> fn.like(exponent, bit)) & one) == one
        result = fn.where(chosen, result * factor, result)
        factor = factor * factor
    negative = fn.where(input == 1, one, fn.like(input, 0))
    if fn.is_signed(input.dtype):
        even = (exponent & one) == fn.like(exponent, 0)
        negative = fn.where(input == -1, fn.where(even, one, fn.like(input, -1)), negative)
        return fn.where(exponent < 0, negative, result)
    return result


@pointwise(
    places=("_cube",),
    in_place=False,
    dtypes=FLOATING | COMPLEX,
    label="PowBackward0",
    constants={"exponent": 3},
)
def cube(input):
    """input³, element by element: rounded once where it is computed in a wider type."""
    return input * input * input


@pointwise(int_to_float=True, reference="numpy.sqrt", domain=(0.1, 4.0), dtypes=EVERY)
def sqrt(input):
    """√input: the square root; NaN below 0.

    >>> import flambeau
    >>> flambeau.sqrt(flambeau.tensor([4.0, 2.0, -1.0]))
    tensor([2.0000, 1.4142,    nan])
    """
    return fn.sqrt(input)


@pointwise(int_to_float=True, domain=(0.1, 4.0), dtypes=EVERY, autocast=("fallthrough", "float32"))
def rsqrt(input):
    """1 / √input.

    >>> import flambeau
    >>> flambeau.rsqrt(flambeau.tensor([4.0, 16.0]))
    tensor([0.5000, 0.2500])
    """
    return fn.rsqrt(input)


# Powers that are cheaper than `power`.  Their derivatives read the input, as that of any power: sqrt, rsqrt and reciprocal
# read the result, which a program may then not overwrite.
def _power(name: str, exponent: float, value, slope) -> PointwiseOp:
    op = pointwise(
        name=name,
        places=(f"_{name}",),
        in_place=False,
        dtypes=FLOATING | COMPLEX,
        domain=(0.2, 3.0),
        constants={"exponent": exponent},
    )(value)

    @op.derivative
    def _(grad, input):
        return grad * slope(input)

    rename(op, "pow")
    return op


def _root(input):
    """input ** 0.5"""
    return fn.sqrt(input)


def _inverse(input):
    """input ** -1"""
    return 1.0 / input


def _inverse_root(input):
    """input ** -0.5"""
    return fn.rsqrt(input)


root = _power("root", 0.5, _root, lambda x: 0.5 / fn.sqrt(x))
inverse = _power("inverse", -1, _inverse, lambda x: -1.0 / (x * x))
inverse_root = _power("inverse_root", -0.5, _inverse_root, lambda x: -0.5 * fn.rsqrt(x) / x)


# --- rounding: derivatives are zero ------------------------------
def _rounding(name: str, what: str, example: str, function, reference: str, *also: str):
    def body(input):
        if not fn.is_float(input.dtype):
            return input
        return function(input)

    body.__name__ = name
    body.__doc__ = f"{what}, as a floating-point number; its derivative is 0." + of_numbers(name, example)
    op = pointwise(reference=reference, also=also, dtypes=NUMERIC)(body)

    @op.derivative
    def _(grad):
        return flat(grad)

    return op


floor = _rounding(
    "floor", "⌊input⌋: the largest integer not above", "1.5, -1.5 ->  1., -2.", fn.floor, "numpy.floor"
)
ceil = _rounding(
    "ceil", "⌈input⌉: the smallest integer not below", "1.5, -1.5 ->  2., -1.", fn.ceil, "numpy.ceil"
)
trunc = _rounding(
    "trunc",
    "sign(input) · ⌊|input|⌋: the integer before the point",
    "1.5, -1.5 ->  1., -1.",
    fn.trunc,
    "numpy.trunc",
    "fix",
    "Tensor.fix",
)


@pointwise(places=("_round",), in_place=False, dtypes=NUMERIC)
def rounded(input):
    """Nearest integer, ties to even."""
    return fn.rint(input) if fn.is_float(input.dtype) else input


@rounded.derivative
def _(grad):
    return flat(grad)


@pointwise(places=("_round_behind",), in_place=False, dtypes=FLOATING)
def rounded_behind(input, *, scale=1.0):
    """The nearest multiple of 1 / scale, ties to even."""
    return fn.rint(input * scale) / scale


@pointwise(places=("_round_before",), in_place=False, dtypes=FLOATING)
def rounded_before(input, *, scale=1.0):
    """The nearest multiple of scale, ties to even."""
    return fn.rint(input / scale) * scale


@rounded_behind.derivative
def _(grad):
    return flat(grad)


@rounded_before.derivative
def _(grad):
    return flat(grad)


for _op in (rounded_behind, rounded_before):
    rename(_op, "round")


def rounding(decimals: int) -> tuple[PointwiseOp, dict[str, float]]:
    """The operation that rounds to that many digits behind the point, and its parameters."""
    if decimals == 0:
        return rounded, {}
    scale = 10.0 ** abs(decimals) if abs(decimals) < 309 else math.inf
    return rounded_behind if decimals > 0 else rounded_before, {"scale": scale}


@library(
    "composite",
    "round",
    "Tensor.round",
    "special.round",
    reference="numpy.round",
    elementwise=True,
    dtypes=NUMERIC,
)
def round(input, *, decimals=0, out=None) -> TensorBase:  # noqa: A001
    """Nearest multiple of 10^-decimals, ties to even; its derivative is 0.

    Shape:
        input: any; the result has the same

    Raises:
        TypeError: `decimals` is no int

    >>> import flambeau
    >>> flambeau.round(flambeau.tensor([0.5, 1.5, 2.7]))
    tensor([0., 2., 3.])
    >>> flambeau.round(flambeau.tensor(3.14159), decimals=2)
    tensor(3.1400)
    """
    op, params = rounding(decimals)
    return op(input, out=out, **params)


@pointwise(dtypes=FLOATING)
def frac(input):
    """input - trunc(input): the part after the point, with input's sign.

    >>> import flambeau
    >>> flambeau.frac(flambeau.tensor([1.5, -2.25]))
    tensor([ 0.5000, -0.2500])
    """
    return input - fn.trunc(input)


@frac.derivative
def _(grad):
    return grad


# --- extremes ------------------------------
@pointwise(reference="numpy.maximum", in_place=False)
def maximum(input, other):
    """max(input, other), NaN where either is; at a tie the gradient is halved.

    >>> import flambeau
    >>> flambeau.maximum(flambeau.tensor([1, 5]), flambeau.tensor([3, 2]))
    tensor([3, 5])
    """
    return input | other if input.dtype == "bool" else fn.maximum(input, other)


@pointwise(reference="numpy.minimum", in_place=False)
def minimum(input, other):
    """min(input, other), NaN where either is; at a tie the gradient is halved.

    >>> import flambeau
    >>> flambeau.minimum(flambeau.tensor([1, 5]), flambeau.tensor([3, 2]))
    tensor([1, 2])
    """
    return input & other if input.dtype == "bool" else fn.minimum(input, other)


def _number_of(pick, input, other):
    if not fn.is_float(input.dtype):
        return pick(input, other)
    return fn.where(fn.isnan(input), other, fn.where(fn.isnan(other), input, pick(input, other)))


@pointwise(reference="numpy.fmax", in_place=False)
def fmax(input, other):
    """max(input, other); a NaN loses to a number.

    >>> import flambeau
    >>> flambeau.fmax(flambeau.tensor([1.0, float("nan")]), flambeau.tensor([2.0, 3.0]))
    tensor([2., 3.])
    """
    if input.dtype == "bool":
        return input | other
    return _number_of(fn.maximum, input, other)


@fmax.derivative
def _(grad, input, other):
    first = (input >= other) | fn.isnan(other)
    return fn.where(first, grad, fn.like(grad, 0.0)), fn.where(first, fn.like(grad, 0.0), grad)


@pointwise(reference="numpy.fmin", in_place=False)
def fmin(input, other):
    """min(input, other); a NaN loses to a number.

    >>> import flambeau
    >>> flambeau.fmin(flambeau.tensor([1.0, float("nan")]), flambeau.tensor([2.0, 3.0]))
    tensor([1., 3.])
    """
    if input.dtype == "bool":
        return input & other
    return _number_of(fn.minimum, input, other)


@fmin.derivative
def _(grad, input, other):
    first = (input <= other) | fn.isnan(other)
    return fn.where(first, grad, fn.like(grad, 0.0)), fn.where(first, fn.like(grad, 0.0), grad)


@pointwise(numbers=("min",))
def clamp_min(input, min):
    """max(input, min): input, raised to min where it is less.

    >>> import flambeau
    >>> flambeau.clamp_min(flambeau.tensor([-1, 4]), 0)
    tensor([0, 4])
    """
    return input | min if input.dtype == "bool" else fn.maximum(input, min)


@clamp_min.derivative
def _(grad, input, min):
    zero, inside = fn.like(grad, 0.0), input >= min
    return fn.where(inside, grad, zero), fn.where(inside, zero, grad)


@pointwise(numbers=("max",))
def clamp_max(input, max):
    """min(input, max): input, lowered to max where it is more.

    >>> import flambeau
    >>> flambeau.clamp_max(flambeau.tensor([-1, 4]), 2)
    tensor([-1,  2])
    """
    return input & max if input.dtype == "bool" else fn.minimum(input, max)


@clamp_max.derivative
def _(grad, input, max):
    zero, inside = fn.like(grad, 0.0), input <= max
    return fn.where(inside, grad, zero), fn.where(inside, zero, grad)


@pointwise(places=("_clamp",), dtypes=NUMERIC)
def clamp_both(input, min, max):
    """input, kept between min and max; max wins where they cross."""
    return fn.minimum(fn.maximum(input, min), max)


@clamp_both.derivative
def _(grad, input, min, max):
    zero = fn.like(grad, 0.0)
    return (
        fn.where((input >= min) & (input <= max), grad, zero),
        fn.where((min < max) & (input < min), grad, zero),
        fn.where((input > max) | (max < min), grad, zero),
    )


# --- comparisons and tests: bool results ------------------------------
def _comparison(name: str, sign: str, shown: str, reference: str, *also: str):
    def body(input, other):
        return ex.compare(name, input, other)

    body.__name__ = name
    body.__doc__ = f"Whether input {sign} other, element by element (bool)." + of_call(
        f"{name}(flambeau.tensor([1, 2, 3]), 2)", shown
    )
    unordered = name in ("eq", "ne")
    return pointwise(
        rounded=True,
        reference=reference,
        differentiable=False,
        also=also,
        dtypes=EVERY if unordered else ALL,
        numbers=("other",),
        widens=unordered,
    )(body)


eq = _comparison("eq", "=", "tensor([False,  True, False])", "numpy.equal")
ne = _comparison(
    "ne", "≠", "tensor([ True, False,  True])", "numpy.not_equal", "not_equal", "Tensor.not_equal"
)
lt = _comparison("lt", "<", "tensor([ True, False, False])", "numpy.less", "less", "Tensor.less")
le = _comparison(
    "le", "≤", "tensor([ True,  True, False])", "numpy.less_equal", "less_equal", "Tensor.less_equal"
)
gt = _comparison("gt", ">", "tensor([False, False,  True])", "numpy.greater", "greater", "Tensor.greater")
ge = _comparison(
    "ge", "≥", "tensor([False,  True,  True])", "numpy.greater_equal", "greater_equal", "Tensor.greater_equal"
)


@pointwise(reference="numpy.isnan", in_place=False, differentiable=False, dtypes=EVERY, widens=True)
def isnan(input):
    """input ≠ input: whether each element is not a number.

    >>> import flambeau
    >>> flambeau.isnan(flambeau.tensor([1.0, float("nan")]))
    tensor([False,  True])
    """
    return ex.compare("ne", input, input)


@pointwise(reference="numpy.isinf", in_place=False, differentiable=False, dtypes=EVERY, widens=True)
def isinf(input):
    """|input| = inf: whether each element is infinite.

    >>> import flambeau
    >>> flambeau.isinf(flambeau.tensor([1.0, float("-inf")]))
    tensor([False,  True])
    """
    if fn.is_complex(input.dtype):
        return isinf.declaration.body(fn.real(input)) | isinf.declaration.body(fn.imag(input))
    if not fn.is_float(input.dtype):
        return ex.compare("ne", input, input)
    return fn.absolute(input) == float("inf")


@pointwise(reference="numpy.isfinite", in_place=False, differentiable=False, dtypes=EVERY, widens=True)
def isfinite(input):
    """|input| < inf: whether each element is a finite number.

    >>> import flambeau
    >>> flambeau.isfinite(flambeau.tensor([1.0, float("inf"), float("nan")]))
    tensor([ True, False, False])
    """
    if fn.is_complex(input.dtype):
        return isfinite.declaration.body(fn.real(input)) & isfinite.declaration.body(fn.imag(input))
    if not fn.is_float(input.dtype):
        return ex.compare("eq", input, input)
    return fn.absolute(input) < float("inf")


@pointwise(reference="numpy.isposinf", in_place=False, differentiable=False)
def isposinf(input):
    """input = inf: whether each element is +inf.

    >>> import flambeau
    >>> flambeau.isposinf(flambeau.tensor([float("inf"), float("-inf")]))
    tensor([ True, False])
    """
    return input == float("inf") if fn.is_float(input.dtype) else ex.compare("ne", input, input)


@pointwise(reference="numpy.isneginf", in_place=False, differentiable=False)
def isneginf(input):
    """input = -inf: whether each element is -inf.

    >>> import flambeau
    >>> flambeau.isneginf(flambeau.tensor([float("inf"), float("-inf")]))
    tensor([False,  True])
    """
    return input == float("-inf") if fn.is_float(input.dtype) else ex.compare("ne", input, input)


@pointwise(in_place=False, places=("_isclose",), differentiable=False, dtypes=FLOATING | COMPLEX)
def close_to(input, other, *, rtol=1e-5, atol=1e-8, equal_nan=0):
    """|input - other| <= atol + rtol · |other|, or equal."""
    near = fn.absolute(input - other) <= atol + fn.absolute(rtol * other)
    finite = (fn.absolute(input) < float("inf")) & (fn.absolute(other) < float("inf"))
    both = (equal_nan != 0) & fn.isnan(input) & fn.isnan(other)
    return (input == other) | (near & finite) | both


def _logical(name: str, sign: str, shown: str, function, reference: str):
    def body(input, other):
        return function(fn.cast(input, "bool"), fn.cast(other, "bool"))

    body.__name__ = name
    body.__doc__ = f"input {sign} other, of the elements taken as truth values: input ≠ 0 (bool)." + of_call(
        f"{name}(flambeau.tensor([0, 0, 1, 1]), flambeau.tensor([0, 1, 0, 1]))", shown
    )
    return pointwise(rounded=True, reference=reference, differentiable=False, dtypes=EVERY)(body)


logical_and = _logical(
    "logical_and", "∧", "tensor([False, False, False,  True])", lambda a, b: a & b, "numpy.logical_and"
)
logical_or = _logical(
    "logical_or", "∨", "tensor([False,  True,  True,  True])", lambda a, b: a | b, "numpy.logical_or"
)
logical_xor = _logical(
    "logical_xor", "⊕", "tensor([False,  True,  True, False])", lambda a, b: a ^ b, "numpy.logical_xor"
)


@pointwise(reference="numpy.logical_not", differentiable=False, dtypes=EVERY)
def logical_not(input):
    """input = 0: whether each element is zero (bool).

    >>> import flambeau
    >>> flambeau.logical_not(flambeau.tensor([0, 3]))
    tensor([ True, False])
    """
    return ~fn.cast(input, "bool")


def _bits(name: str, sign: str, shown: str, function, reference: str, dtypes=INTEGRAL | BOOL):
    def body(input, other):
        return function(input, other)

    body.__name__ = name
    body.__doc__ = f"input {sign} other, of each bit of integers, or of bools." + of_call(
        f"{name}(flambeau.tensor([12, 5]), 6)", shown
    )
    return pointwise(reference=reference, differentiable=False, dtypes=dtypes, numbers=("input", "other"))(
        body
    )


bitwise_and = _bits("bitwise_and", "∧", "tensor([4, 4])", lambda a, b: a & b, "numpy.bitwise_and")
bitwise_or = _bits("bitwise_or", "∨", "tensor([14,  7])", lambda a, b: a | b, "numpy.bitwise_or")
bitwise_xor = _bits("bitwise_xor", "⊕", "tensor([10,  3])", lambda a, b: a ^ b, "numpy.bitwise_xor")


def _shifted(input, other, shift, far):
    """A shift by the width or more, or by a negative count, leaves what `far` says."""
    width = ex.BITS[input.dtype]
    outside = other >= fn.like(other, width)
    if fn.is_signed(input.dtype):
        outside = outside | (other < 0)
    return fn.where(outside, far, shift(input, fn.where(outside, fn.like(other, 0), other)))


@pointwise(differentiable=False, dtypes=INTEGRAL, numbers=("input", "other"))
def bitwise_left_shift(input, other):
    """input · 2^other, wrapping.

    >>> import flambeau
    >>> flambeau.bitwise_left_shift(flambeau.tensor([1, 3]), 2)
    tensor([ 4, 12])
    """
    return _shifted(input, other, lambda a, b: a << b, fn.like(input, 0))


@pointwise(differentiable=False, dtypes=INTEGRAL, numbers=("input", "other"))
def bitwise_right_shift(input, other):
    """⌊input / 2^other⌋.

    >>> import flambeau
    >>> flambeau.bitwise_right_shift(flambeau.tensor([8, -5]), 1)
    tensor([ 4, -3])
    """
    far = (
        fn.where(input < 0, fn.like(input, -1), fn.like(input, 0))
        if fn.is_signed(input.dtype)
        else fn.like(input, 0)
    )
    return _shifted(input, other, lambda a, b: a >> b, far)


@pointwise(
    reference="numpy.invert",
    differentiable=False,
    dtypes=INTEGRAL | BOOL,
    refused=[
        (FLOATING | COMPLEX, TypeError, "~ (operator.invert) is only implemented on integer and bool tensors")
    ],
)
def bitwise_not(input):
    """-input - 1 for integers, the complement of each element's bits; of bools, the opposite.

    >>> import flambeau
    >>> flambeau.bitwise_not(flambeau.tensor([0, 5]))
    tensor([-1, -6])
    """
    return ~input


# --- choice ------------------------------
@pointwise(places=("_where",), in_place=False, raw=("condition",), dtypes=EVERY, widens=True)
def where_of(condition, input, other):
    """input where the condition holds, else other."""
    return fn.where(fn.cast(condition, "bool"), input, other)


@pointwise(places=("_masked_fill",), raw=("mask", "value"), keeps=(0,), dtypes=EVERY)
def masked_value(input, mask, value):
    """input, with value where the mask holds."""
    return fn.where(mask, fn.cast(value, input.dtype), input)


@masked_value.derivative
def _(grad, mask):
    zero = fn.like(grad, 0.0)
    return fn.where(mask, zero, grad), None, fn.where(mask, grad, zero)


@pointwise(places=("_is_counted",), in_place=False, dtypes=FLOATING | COMPLEX)
def is_counted(input):
    """1 where the element is not zero, else 0: what the 0-norm adds up."""
    size = fn.absolute(input)
    return fn.where(size != 0, fn.like(size, 1.0), fn.like(size, 0.0))


@is_counted.derivative
def _(grad):
    return flat(grad)


@pointwise(places=("_identity",), in_place=False, dtypes=EVERY, label="CloneBackward0", linear="together")
def identity(input):
    """A copy: `clone`, `to`, `copy_`, `contiguous`."""
    return input


# --- several operands ------------------------------
@pointwise(dtypes=NUMBERS, scalar_second=True, autocast=("fallthrough", "promote"))
def addcmul(input, tensor1, tensor2, *, value=1):
    """input + value · tensor1 · tensor2.

    >>> import flambeau
    >>> flambeau.addcmul(flambeau.tensor([1.0, 2.0]), flambeau.tensor([3.0, 4.0]), flambeau.tensor([5.0, 6.0]), value=0.5)
    tensor([ 8.5000, 14.0000])
    """
    return input + value * (tensor1 * tensor2)


@pointwise(dtypes=FLOATING | COMPLEX, scalar_second=True, autocast=("fallthrough", "promote"))
def addcdiv(input, tensor1, tensor2, *, value=1):
    """input + value · tensor1 / tensor2.

    >>> import flambeau
    >>> flambeau.addcdiv(flambeau.tensor([1.0, 2.0]), flambeau.tensor([6.0, 8.0]), flambeau.tensor([3.0, 2.0]))
    tensor([3., 6.])
    """
    return input + value * (tensor1 / tensor2)


@pointwise(dtypes=FLOATING | COMPLEX, numbers=("weight",), alike=("input", "end"))
def lerp(input, end, weight):
    """input + weight · (end - input), computed from the nearer end.

    >>> import flambeau
    >>> flambeau.lerp(flambeau.tensor([0.0, 10.0]), flambeau.tensor([4.0, 20.0]), 0.25)
    tensor([ 1.0000, 12.5000])
    """
    return fn.where(
        fn.absolute(weight) < 0.5, input + weight * (end - input), end - (end - input) * (1.0 - weight)
    )


@lerp.derivative
def _(grad, input, end, weight):
    return grad * (1.0 - weight), grad * weight, grad * (end - input)


@pointwise(reference="numpy.copysign", int_to_float=True, numbers=("other",))
def copysign(input, other):
    """|input| with other's sign.

    >>> import flambeau
    >>> flambeau.copysign(flambeau.tensor([1.0, -2.0]), flambeau.tensor([-0.0, 3.0]))
    tensor([-1.,  2.])
    """
    return fn.copysign(input, other)


@copysign.derivative
def _(grad, input, out):
    ratio = fn.where(input == 0, fn.like(grad, 0.0), sign_of(input) * sign_of(out))
    return grad * ratio, flat(grad)


@pointwise(reference="numpy.heaviside", domain=(-2.0, 2.0), alike=("input", "values"))
def heaviside(input, values):
    """0 where input < 0 and for NaN, 1 where input > 0, `values` where input = 0.

    >>> import flambeau
    >>> flambeau.heaviside(flambeau.tensor([-1.0, 0.0, 2.0]), flambeau.tensor(0.5))
    tensor([0.0000, 0.5000, 1.0000])
    """
    return fn.where(input == 0, values, fn.where(input > 0, fn.like(input, 1), fn.like(input, 0)))


@heaviside.derivative
def _(grad):
    return None, None


@library("composite", elementwise=True, additive=True, dtypes=NUMBERS)
def positive(input) -> TensorBase:
    """+input: the tensor itself; RuntimeError for bool.

    Shape:
        input: any; the result is the input

    >>> import flambeau
    >>> flambeau.positive(flambeau.tensor([-1, 2]))
    tensor([-1,  2])
    """
    if input.dtype.name == "bool":
        raise RuntimeError("positive(): The `+` operator, on a bool tensor is not supported.")
    return input


def _no_integer_zero(name: str, input, other) -> None:
    """Integers have no quotient by zero: RuntimeError, before any kernel runs."""
    from ...core.call.operands import result_type
    from ..declare.host import holds

    if result_type(input, other).name in INTEGRAL:
        zero = not holds(other != 0) if isinstance(other, TensorBase) else other == 0
        if zero:
            raise RuntimeError(f"{name}(): ZeroDivisionError: an element of argument 'other' is 0")


def _checked(name: str, shown: str, op, reference: str | None):
    def function(input, other, *, out=None) -> TensorBase:
        _no_integer_zero(name, input, other)
        return op(input, other) if out is None else op(input, other, out=out)

    def in_place(input, other):
        _no_integer_zero(name, input, other)
        return write_over(op, input, other)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{vars(op)['__doc__']}\n\nOf integers: RuntimeError where a divisor is 0." + of_call(
        f"{name}(flambeau.tensor([7, -7]), 3)", shown
    )
    in_place.__doc__ = f"`{name}` in place."
    register(
        name,
        "composite",
        function,
        in_place=in_place,
        reference=reference,
        domain=(0.5, 3.0),
        forwards=True,
        computed_by=op,
        elementwise=True,
    )
    return function, in_place


floor_divide, floor_divide_ = _checked(
    "floor_divide", "tensor([ 2, -3])", floor_quotient, "numpy.floor_divide"
)
remainder, remainder_ = _checked("remainder", "tensor([1, 2])", remainder_of, "numpy.remainder")
fmod, fmod_ = _checked("fmod", "tensor([ 1, -1])", fmod_of, "numpy.fmod")


def div(input, other, *, rounding_mode=None, out=None) -> TensorBase:
    """input / other: in floating point, or rounded by `rounding_mode` "trunc" or "floor".

    RuntimeError for another mode, and for integer zeros where the quotient is rounded.

    Shape:
        input, other: any shapes that broadcast; the result has the shape they broadcast to

    >>> import flambeau
    >>> flambeau.div(flambeau.tensor([7, -7]), 2)
    tensor([ 3.5000, -3.5000])
    >>> flambeau.div(flambeau.tensor([7, -7]), 2, rounding_mode="floor")
    tensor([ 3, -4])
    """
    op = true_divide if rounding_mode is None else _rounded_quotient(rounding_mode, input, other)
    return op(input, other) if out is None else op(input, other, out=out)


def div_(input, other, *, rounding_mode=None):
    """`div` in place."""
    if rounding_mode is None:
        return DIVIDE_IN_PLACE(input, other)
    return write_over(_rounded_quotient(rounding_mode, input, other), input, other)


def _rounded_quotient(rounding_mode: str, input, other) -> PointwiseOp:
    """The quotient that `rounding_mode` names; RuntimeError where there is none, and for integer zeros."""
    if rounding_mode not in ("trunc", "floor"):
        raise RuntimeError(
            f"div(): expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'"
        )
    _no_integer_zero("div", input, other)
    return trunc_quotient if rounding_mode == "trunc" else floor_quotient


SHORT_POWERS = {0.5: root, -0.5: inverse_root, -1: inverse, 3: cube}  # of floating-point and complex numbers


def pow(input, exponent, *, out=None) -> TensorBase:  # noqa: A001
    """input^exponent, element by element; RuntimeError for a negative integer exponent of integers.

    Shape:
        input, exponent: any shapes that broadcast; the result has the shape they broadcast to

    >>> import flambeau
    >>> flambeau.pow(flambeau.tensor([2, 3]), 2)
    tensor([4, 9])
    >>> flambeau.pow(2.0, flambeau.tensor([0.5, 3.0]))
    tensor([1.4142, 8.0000])
    """
    op, *operands = _power_of(input, exponent)
    return op(*operands) if out is None else op(*operands, out=out)


def pow_(input, exponent):
    """`pow` in place."""
    return write_over(*_power_of(input, exponent))


def _power_of(input, exponent) -> tuple:
    """The cheapest operation that computes input^exponent, and its operands."""
    if type(exponent) in (int, float) and isinstance(input, TensorBase):
        if exponent == 2:
            return square, input
        if input.is_floating_point() or input.is_complex():
            if exponent == 1:
                return mul, input, 1.0
            if exponent in SHORT_POWERS:
                return SHORT_POWERS[exponent], input
        elif type(exponent) is int and exponent < 0:
            raise RuntimeError("pow(): Integers to negative integer powers are not allowed.")
    return power, input, exponent


def clamp(input, min=None, max=None, *, out=None) -> TensorBase:
    """min(max(input, min), max): input, kept between min and max (numbers or tensors; either may be None, not both).

    Shape:
        input, min, max: shapes that broadcast; the result has the shape they broadcast to

    Raises:
        RuntimeError: both `min` and `max` are None

    >>> import flambeau
    >>> flambeau.clamp(flambeau.tensor([-2, 1, 9]), min=0, max=5)
    tensor([0, 1, 5])
    """
    op, *operands = _clamp_of(input, min, max)
    return op(*operands) if out is None else op(*operands, out=out)


def clamp_(input, min=None, max=None):
    """`clamp` in place."""
    return write_over(*_clamp_of(input, min, max))


def _clamp_of(input, min, max) -> tuple:
    """The operation with these bounds, and its operands."""
    if min is None:
        if max is None:
            raise RuntimeError("clamp(): At least one of 'min' or 'max' must not be None")
        return clamp_max, input, max
    return (clamp_min, input, min) if max is None else (clamp_both, input, min, max)


def where(condition, input=None, other=None, *, out=None):
    """input where the condition (bool) holds, else other; with the condition alone, its true indices as a
    tuple: result[i] = input[i] if condition[i] else other[i].

    Shape:
        condition, input, other: shapes that broadcast; result: the shape they broadcast to, or a tuple of
            (number of true elements,)

    Raises:
        RuntimeError: the condition is not bool

    >>> import flambeau
    >>> flambeau.where(flambeau.tensor([True, False]), 1.0, flambeau.tensor([5., 6.]))
    tensor([1., 6.])
    """
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    if condition.dtype.name not in ("bool", "uint8"):
        raise RuntimeError(
            f"where(): expected condition to be a boolean tensor, but got a tensor with dtype {condition.dtype}"
        )
    return where_of(condition, input, other) if out is None else where_of(condition, input, other, out=out)


def _where_method(input, condition, other) -> TensorBase:
    """condition · input + (1 - condition) · other: input where the condition holds, else other.

    Shape:
        input, condition, other: any shapes that broadcast; the result has the shape they broadcast to

    Raises:
        RuntimeError: the condition is no bool tensor

    >>> import flambeau
    >>> flambeau.tensor([1, 2, 3]).where(flambeau.tensor([True, False, True]), flambeau.tensor(0))
    tensor([1, 0, 3])
    """
    return where(condition, input, other)


def masked_fill(input, mask, value) -> TensorBase:
    """value · mask + input · (1 - mask): input, with `value` (a number or a 0-dim tensor) where the mask (bool) holds.

    Shape:
        input, mask: shapes that broadcast; the result has the shape they broadcast to

    Raises:
        RuntimeError: the mask is no bool tensor

    >>> import flambeau
    >>> flambeau.masked_fill(flambeau.tensor([1.0, 2.0]), flambeau.tensor([False, True]), float("-inf"))
    tensor([1., -inf])
    """
    check_filling(input, mask, value, "masked_fill")
    return masked_value(input, mask, value)


def masked_fill_(input, mask, value):
    """`masked_fill` in place."""
    check_filling(input, mask, value, "masked_fill")
    return MASKED_IN_PLACE(input, mask, value)


def isclose(
    input: TensorBase, other: TensorBase, rtol=1e-05, atol=1e-08, equal_nan: bool = False
) -> TensorBase:
    """Whether |input - other| <= atol + rtol · |other|, element by element (bool).

    Shape:
        input, other: any shapes that broadcast; the result has the shape they broadcast to

    Raises:
        RuntimeError: the dtypes differ
        RuntimeError: `rtol` or `atol` is negative

    >>> import flambeau
    >>> flambeau.isclose(flambeau.tensor([1.0, 2.0]), flambeau.tensor([1.000001, 2.1]))
    tensor([ True, False])
    """
    if input.dtype != other.dtype:
        raise RuntimeError(f"isclose(): {input.dtype} did not match {other.dtype}")
    if rtol < 0 or atol < 0:
        raise RuntimeError(f"isclose(): rtol and atol must be at least 0, got {rtol} and {atol}")
    if input.dtype.name in INTEGRAL | BOOL:
        if rtol == 0 and atol == 0:
            return input == other
        input, other = input.double(), other.double()
    return close_to(input, other, rtol=rtol, atol=atol, equal_nan=float(equal_nan))


def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan: bool = False) -> bool:
    """Whether |input - other| <= atol + rtol · |other| for all elements, a bool of Python; see `isclose`.

    Shape:
        input, other: any shapes that broadcast

    Raises:
        RuntimeError: the dtypes differ

    >>> import flambeau
    >>> flambeau.allclose(flambeau.tensor([1.0, 2.0]), flambeau.tensor([1.0, 2.000001]))
    True
    """
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


def equal(input: TensorBase, other: TensorBase) -> bool:
    """Whether input = other: both tensors have the same shape and elements; a bool of Python.

    Raises:
        TypeError: an argument is no Tensor

    >>> import flambeau
    >>> flambeau.equal(flambeau.tensor([1, 2]), flambeau.tensor([1, 2]))
    True
    >>> flambeau.equal(flambeau.tensor([1, 2]), flambeau.tensor([1]))
    False
    """
    from ..declare.host import needs_data

    if tuple(input.shape) != tuple(other.shape):
        return False
    needs_data("equal", "whether tensors of one shape are equal", input, other)
    return bool((input == other).all())


DIVIDE_IN_PLACE = InPlaceOp(true_divide, "div_")  # `true_divide_` has an entry of its own
MASKED_IN_PLACE = InPlaceOp(masked_value, "masked_fill_")
register(
    "div",
    "composite",
    div,
    places=("div", "Tensor.div", "divide", "Tensor.divide"),
    in_place=div_,
    aten="div",
    reference="numpy.true_divide",
    domain=(0.5, 3.0),
    forwards=True,
    elementwise=True,
)
register(
    "pow",
    "composite",
    pow,
    in_place=pow_,
    reference="numpy.power",
    domain=(0.2, 3.0),
    forwards=True,
    overloads=(
        "(input: Tensor | complex, exponent: Tensor | complex, *, out: Tensor | None = None) -> Tensor",
    ),
    autocast=("fallthrough", "float32"),
    elementwise=True,
)
register(
    "clamp",
    "composite",
    clamp,
    places=("clamp", "Tensor.clamp", "clip", "Tensor.clip"),
    in_place=clamp_,
    forwards=True,
    elementwise=True,
    dtypes=ALL,
)
register(
    "where",
    "composite",
    where,
    places=("where",),
    forwards=True,
    overloads=(
        "(condition: Tensor) -> tuple[Tensor, ...]",
        "(condition: Tensor, input: Tensor | complex, other: Tensor | complex, *, out: Tensor | None = None) -> Tensor",
    ),
    elementwise=True,
)
register(
    "where_method", "composite", _where_method, places=("Tensor.where",), forwards=True, elementwise=True
)
register("masked_fill", "composite", masked_fill, in_place=masked_fill_, forwards=True, elementwise=True)
register("isclose", "composite", isclose, differentiable=False, forwards=True, elementwise=True)
register("allclose", "composite", allclose, differentiable=False, forwards=True, batching="itemless")
register("equal", "composite", equal, differentiable=False, forwards=True, batching="itemless")


@library("composite", "Tensor.__rdiv__", forwards=True, autocast=("fallthrough", "float32"), elementwise=True)
def __rdiv__(self, other):
    """other / self."""
    return true_divide(other, self)
