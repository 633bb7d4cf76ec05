"""Elementary and special functions, element by element."""

from __future__ import annotations

import math

from ...codegen import functions as fn
from ...codegen.complex import FORMULAS
from ...core.call.operation import rename
from ..declare.examples import of_numbers
from ..declare.pointwise import ALL, COMPLEX, EVERY, FLOATING, pointwise

_EVERYWHERE, _POSITIVE, _UNIT = (-3.0, 3.0), (0.1, 4.0), (-0.9, 0.9)


def _function(
    name: str, what: str, example: str, domain=_EVERYWHERE, reference: str | None = None, also=(), **facts
):
    """A math function of the compiler as an operation: value and derivative come from there."""
    function = getattr(fn, name)

    def body(input):
        return function(input)

    body.__name__ = name
    body.__doc__ = (
        f"{what}, element by element; integers become the default dtype.{of_numbers(name, example)}"
    )
    return pointwise(
        int_to_float=True,
        domain=domain,
        reference=reference or f"numpy.{name}",
        also=also,
        dtypes=EVERY if name in FORMULAS else ALL,
        **facts,
    )(body)


exp = _function("exp", "e^input", "0.0, 1.0 -> 1.0000, 2.7183", autocast=("fallthrough", "float32"))
exp2 = _function("exp2", "2^input", "0.0, 3.0 -> 1., 8.", also=("special.exp2",))
expm1 = _function(
    "expm1",
    "exp(input) - 1, exact for small inputs",
    "0.0, 1.0 -> 0.0000, 1.7183",
    also=("special.expm1",),
    autocast=("fallthrough", "float32"),
)
log = _function(
    "log",
    "Natural logarithm, log(input)",
    "1.0, 10.0 -> 0.0000, 2.3026",
    _POSITIVE,
    autocast=("fallthrough", "float32"),
)
log2 = _function(
    "log2",
    "log₂(input), the logarithm to base 2",
    "1.0, 8.0 -> 0., 3.",
    _POSITIVE,
    autocast=("fallthrough", "float32"),
)
log10 = _function(
    "log10",
    "log₁₀(input), the logarithm to base 10",
    "1.0, 100.0 -> 0., 2.",
    _POSITIVE,
    autocast=("fallthrough", "float32"),
)
log1p = _function(
    "log1p",
    "log(1 + input), exact for small inputs",
    "0.0, 1.0 -> 0.0000, 0.6931",
    (-0.5, 3.0),
    also=("special.log1p",),
    autocast=("fallthrough", "float32"),
    label="Log1PBackward0",
)
sin = _function("sin", "Sine of radians, sin(input)", "0.0, 1.0 -> 0.0000, 0.8415")
cos = _function("cos", "Cosine of radians, cos(input)", "0.0, 1.0 -> 1.0000, 0.5403")
tan = _function(
    "tan",
    "sin(input) / cos(input), the tangent of radians",
    "0.0, 1.0 -> 0.0000, 1.5574",
    (-1.2, 1.2),
    autocast=("fallthrough", "float32"),
)
asin = _function(
    "asin",
    "arcsin(input), the arc sine in radians",
    "0.0, 1.0, 2.0 -> 0.0000, 1.5708,    nan",
    _UNIT,
    "numpy.arcsin",
    ("arcsin", "Tensor.arcsin"),
    autocast=("fallthrough", "float32"),
)
acos = _function(
    "acos",
    "arccos(input), the arc cosine in radians",
    "1.0, -1.0, 2.0 -> 0.0000, 3.1416,    nan",
    _UNIT,
    "numpy.arccos",
    ("arccos", "Tensor.arccos"),
    autocast=("fallthrough", "float32"),
)
atan = _function(
    "atan",
    "arctan(input), the arc tangent in radians",
    "0.0, 1.0 -> 0.0000, 0.7854",
    _EVERYWHERE,
    "numpy.arctan",
    ("arctan", "Tensor.arctan"),
)
sinh = _function(
    "sinh",
    "(e^input - e^-input) / 2, the hyperbolic sine",
    "0.0, 1.0 -> 0.0000, 1.1752",
    autocast=("fallthrough", "float32"),
)
cosh = _function(
    "cosh",
    "(e^input + e^-input) / 2, the hyperbolic cosine",
    "0.0, 1.0 -> 1.0000, 1.5431",
    autocast=("fallthrough", "float32"),
)
tanh = _function(
    "tanh",
    "sinh(input) / cosh(input), the hyperbolic tangent",
    "0.0, 1.0 -> 0.0000, 0.7616",
    gain=5.0 / 3.0,
)
asinh = _function(
    "asinh",
    "log(input + √(input² + 1)), the inverse hyperbolic sine",
    "0.0, 1.0 -> 0.0000, 0.8814",
    _EVERYWHERE,
    "numpy.arcsinh",
    ("arcsinh", "Tensor.arcsinh"),
)
acosh = _function(
    "acosh",
    "log(input + √(input² - 1)), the inverse hyperbolic cosine",
    "1.0, 2.0 -> 0.0000, 1.3170",
    (1.1, 4.0),
    "numpy.arccosh",
    ("arccosh", "Tensor.arccosh"),
)
atanh = _function(
    "atanh",
    "log((1 + input) / (1 - input)) / 2, the inverse hyperbolic tangent",
    "0.0, 0.5 -> 0.0000, 0.5493",
    _UNIT,
    "numpy.arctanh",
    ("arctanh", "Tensor.arctanh"),
)
sigmoid = _function(
    "sigmoid",
    "Logistic function, 1 / (1 + exp(-input))",
    "0.0, 2.0 -> 0.5000, 0.8808",
    _EVERYWHERE,
    "scipy.special.expit",
    ("special.expit", "nn.functional.sigmoid"),
    gain=1.0,
)
erf = _function(
    "erf",
    "Error function, 2/√π ∫₀ˣ exp(-t²) dt",
    "0.0, 1.0 -> 0.0000, 0.8427",
    _EVERYWHERE,
    "scipy.special.erf",
    ("special.erf",),
)
erfc = _function(
    "erfc",
    "1 - erf(input), exact for large inputs",
    "0.0, 1.0 -> 1.0000, 0.1573",
    _EVERYWHERE,
    "scipy.special.erfc",
    ("special.erfc",),
)
erfinv = _function(
    "erfinv",
    "y with erf(y) = input, the inverse of erf",
    "0.0, 0.5 -> 0.0000, 0.4769",
    _UNIT,
    "scipy.special.erfinv",
    ("special.erfinv",),
    autocast=("fallthrough", "float32"),
)


@erfinv.derivative
def _(grad, input):  # the input is what is saved, so that a program may scale the result in place
    result = fn.erfinv(input)
    return grad * (fn.exp(result * result) * (math.sqrt(math.pi) / 2.0))


lgamma = _function(
    "lgamma",
    "Logarithm of |Γ(input)|",
    "1.0, 5.0 -> 0.0000, 3.1781",
    (0.3, 4.0),
    "scipy.special.gammaln",
    ("special.gammaln",),
)


@pointwise(
    int_to_float=True,
    domain=(0.3, 4.0),
    reference="scipy.special.digamma",
    also=("special.digamma", "special.psi"),
)
def digamma(input):
    """Γ′(input) / Γ(input): the logarithmic derivative of Γ, element by element.

    >>> import flambeau
    >>> flambeau.digamma(flambeau.tensor([1.0, 2.0]))
    tensor([-0.5772,  0.4228])
    """
    return fn.digamma(input)


@pointwise(
    rounded=True,
    int_to_float=True,
    reference="numpy.arctan2",
    also=("arctan2", "Tensor.arctan2"),
    autocast=("fallthrough", "promote"),
)
def atan2(input, other):
    """arctan(input / other) with the quadrant: angle of the point (other, input), in (-π, π].

    >>> import flambeau
    >>> flambeau.atan2(flambeau.tensor([1.0, 0.0]), flambeau.tensor([1.0, -1.0]))
    tensor([0.7854, 3.1416])
    """
    return fn.atan2(input, other)


@pointwise(rounded=True, dtypes=FLOATING, reference="numpy.hypot")
def hypot(input, other):
    """√(input² + other²) without overflow.

    >>> import flambeau
    >>> flambeau.hypot(flambeau.tensor([3.0]), flambeau.tensor([4.0]))
    tensor([5.])
    """
    return fn.hypot(input, other)


@pointwise(
    rounded=True,
    int_to_float=True,
    reference="scipy.special.xlogy",
    domain=_POSITIVE,
    also=("special.xlogy",),
    numbers=("input", "other"),
)
def xlogy(input, other):
    """input · log(other), 0 where input is 0 and other is a number.

    >>> import flambeau
    >>> flambeau.xlogy(flambeau.tensor([0.0, 2.0]), flambeau.tensor([0.0, 3.0]))
    tensor([0.0000, 2.1972])
    """
    zero = fn.like(input, 0.0)
    return fn.where(fn.isnan(other), other, fn.where(input == 0, zero, input * fn.log(other)))


@xlogy.derivative
def _(grad, input, other):
    zero = fn.like(grad, 0.0)
    to_input = fn.where((input == 0) & (other <= 0), zero, grad * fn.log(other))
    return to_input, grad * (input / other)


@pointwise(
    rounded=True,
    int_to_float=True,
    places=("special.xlog1py",),
    reference="scipy.special.xlog1py",
    domain=_POSITIVE,
    in_place=False,
    numbers=("input", "other"),
    label="SpecialXlog1PyBackward0",
)
def xlog1py(input, other):
    """input · log(1 + other), 0 where input is 0 and other is a number.

    >>> import flambeau
    >>> flambeau.special.xlog1py(flambeau.tensor([0.0, 2.0]), flambeau.tensor([-1.0, 1.0]))
    tensor([0.0000, 1.3863])
    """
    zero = fn.like(input, 0.0)
    return fn.where(fn.isnan(other), other, fn.where(input == 0, zero, input * fn.log1p(other)))


@xlog1py.derivative
def _(grad, input, other):
    zero = fn.like(grad, 0.0)
    to_input = fn.where((input == 0) & (other <= -1.0), zero, grad * fn.log1p(other))
    return to_input, grad * (input / (other + 1.0))


@pointwise(rounded=True, dtypes=FLOATING | COMPLEX, reference="numpy.logaddexp", in_place=False)
def logaddexp(input, other):
    """log(exp(input) + exp(other)) without overflow.

    >>> import flambeau
    >>> flambeau.logaddexp(flambeau.tensor([1000.0]), flambeau.tensor([1000.0]))
    tensor([1000.6932])
    """
    if fn.is_complex(input.dtype):
        swap = (fn.real(other) > fn.real(input)) | fn.isnan(fn.real(other))  # NaN counts as the larger
        larger, smaller = fn.where(swap, other, input), fn.where(swap, input, other)
        endless = fn.absolute(fn.real(larger)) == math.inf
        return fn.where(endless, larger, larger + fn.log1p(fn.exp(smaller - larger)))
    larger = fn.maximum(input, other)
    difference = fn.absolute(input - other)
    return fn.where(input == other, input + math.log(2.0), larger + fn.log1p(fn.exp(-difference)))


def _difference(a, b):
    """a - b; 0 where both are the same infinity."""
    return fn.where((a == b) & (fn.absolute(fn.real(a)) == math.inf), fn.like(a, 0.0), a - b)


@logaddexp.derivative
def _(grad, input, other):
    first = fn.sigmoid(_difference(input, other))
    return grad * first, grad * (1.0 - first)


@pointwise(rounded=True, dtypes=FLOATING, reference="numpy.logaddexp2", in_place=False)
def logaddexp2(input, other):
    """log₂(2^input + 2^other) without overflow.

    >>> import flambeau
    >>> flambeau.logaddexp2(flambeau.tensor([3.0]), flambeau.tensor([3.0]))
    tensor([4.])
    """
    larger = fn.maximum(input, other)
    difference = fn.absolute(input - other)
    spread = fn.log1p(fn.exp2(-difference)) * (1.0 / math.log(2.0))
    return fn.where(input == other, input + 1.0, larger + spread)


@logaddexp2.derivative
def _(grad, input, other):
    first = fn.sigmoid(_difference(input, other) * math.log(2.0))
    return grad * first, grad * (1.0 - first)


@pointwise(int_to_float=True, reference="numpy.sinc", also=("special.sinc",), dtypes=EVERY)
def sinc(input):
    """sin(πx) / (πx), 1 at 0.

    >>> import flambeau
    >>> flambeau.sinc(flambeau.tensor([0.0, 0.5]))
    tensor([1.0000, 0.6366])
    """
    x = input * math.pi
    return fn.where(input == 0, fn.like(input, 1.0), fn.sin(x) / x)


# Of the derivative of sin(x) / x, which is odd: 2k (-1)^k / (2k + 1)! at x^(2k - 1).
_SINC_SLOPES = [2 * k * (-1.0) ** k / math.factorial(2 * k + 1) for k in range(1, 10)]


@sinc.derivative
def _(grad, input):
    """The quotient's two terms are nearly equal near 0; there it is the Taylor series."""
    x = input * math.pi
    slope = (fn.cos(x) * x - fn.sin(x)) / (x * input)
    square = x * x
    series = fn.like(x, _SINC_SLOPES[-1])
    for coefficient in reversed(_SINC_SLOPES[:-1]):
        series = series * square + coefficient
    near = fn.absolute(x) < 1.0
    return fn.where(near, grad * (series * x * math.pi), grad * slope)


@pointwise(int_to_float=True, reference="numpy.deg2rad", label="Deg2RadBackward0", additive=True)
def deg2rad(input):
    """input · π / 180: degrees to radians.

    >>> import flambeau
    >>> flambeau.deg2rad(flambeau.tensor([180.0, 90.0]))
    tensor([3.1416, 1.5708])
    """
    return input * (math.pi / 180.0)


@pointwise(int_to_float=True, reference="numpy.rad2deg", label="Rad2DegBackward0", additive=True)
def rad2deg(input):
    """input · 180 / π: radians to degrees.

    >>> import flambeau
    >>> flambeau.rad2deg(flambeau.tensor([0.5, 1.0]))
    tensor([28.6479, 57.2958])
    """
    return input * (180.0 / math.pi)


@pointwise(places=("_nan_to_num",), in_place=False, dtypes=FLOATING | COMPLEX)
def numbers_only(input, *, nan=0.0, posinf=0.0, neginf=0.0):
    """NaN and infinities replaced, in both parts of a complex number."""

    def number(x):
        result = fn.where(x == math.inf, posinf, fn.where(x == -math.inf, neginf, x))
        return fn.where(fn.isnan(x), nan, result)

    if fn.is_complex(input.dtype):
        return fn.pair(number(fn.real(input)), number(fn.imag(input)))
    return number(input)


@numbers_only.derivative
def _(grad, input):
    def kept(g, x):
        return fn.where(fn.absolute(x) < math.inf, g, fn.like(g, 0.0))

    if fn.is_complex(input.dtype):
        return fn.pair(kept(fn.real(grad), fn.real(input)), kept(fn.imag(grad), fn.imag(input)))
    return kept(grad, input)


@pointwise(int_to_float=True, places=("_scaled_by_power",), in_place=False, label="LdexpBackward0")
def scaled_by_power(input, other):
    """input · 2^other, in three steps, so that no power of two overflows where the result does not."""
    third = fn.trunc(other * (1.0 / 3.0))
    step = fn.exp2(third)
    return input * step * step * fn.exp2(other - third - third)


rename(scaled_by_power, "ldexp")


@scaled_by_power.derivative
def _(grad, input, other):
    third = fn.trunc(other * (1.0 / 3.0))
    step = fn.exp2(third)
    slope = grad * step * step * fn.exp2(other - third - third)
    return slope, slope * input * math.log(2.0)


@pointwise(
    places=("_logit",), int_to_float=True, in_place=False, reference="scipy.special.logit", domain=(0.1, 0.9)
)
def log_odds(input):
    """log(x / (1 - x))."""
    return fn.log(input / (1.0 - input))


@log_odds.derivative
def _(grad, input):
    """NaN where the value is."""
    inside = (input >= 0.0) & (input <= 1.0)
    return fn.where(inside, grad / (input * (1.0 - input)), fn.like(grad, math.nan))


@pointwise(places=("_logit_within",), int_to_float=True, in_place=False)
def log_odds_within(input, *, low, high):
    """log(x / (1 - x)) of x, the input kept within [low, high]."""
    x = fn.minimum(fn.maximum(input, fn.like(input, low)), fn.like(input, high))
    return fn.log(x / (1.0 - x))


@log_odds_within.derivative
def _(grad, input, low, high):
    return fn.where((input >= low) & (input <= high), grad / (input * (1.0 - input)), fn.like(grad, 0.0))


@pointwise(
    int_to_float=True,
    places=("special.entr",),
    reference="scipy.special.entr",
    domain=_POSITIVE,
    in_place=False,
    label="SpecialEntrBackward0",
)
def entr(input):
    """-x · log(x), 0 at 0, -inf below.

    >>> import flambeau
    >>> flambeau.special.entr(flambeau.tensor([0.5, 0.0, -1.0]))
    tensor([0.3466, 0.0000,   -inf])
    """
    inside = -(input * fn.log(input))
    return fn.where(
        input > 0,
        inside,
        fn.where(input == 0, fn.like(input, 0.0), fn.where(input < 0, fn.like(input, -math.inf), input)),
    )


@entr.derivative
def _(grad, input):
    return grad * fn.where(
        input > 0,
        -fn.log(input) - 1.0,
        fn.where(input == 0, fn.like(grad, math.inf), fn.like(grad, math.nan)),
    )


@pointwise(int_to_float=True, places=("_trigamma",), domain=(0.3, 4.0), in_place=False)
def trigamma(input):
    """Derivative of digamma."""
    return fn.trigamma(input)
