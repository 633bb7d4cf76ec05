"""Special functions that SciPy computes: Bessel functions, polynomials, incomplete gamma functions, tails of the
normal distribution.

Derivatives are those of the NIST Digital Library of Mathematical Functions (DLMF), whose equations are named.
SciPy is imported when one of them is first called.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ...codegen import functions as fn
from ...core.base.tensor import TensorBase
from ...core.call.leaf import LeafOp
from ...core.make.create import arange
from ..declare import checks
from ..declare.dtype_groups import ALL, FLOATING
from ..declare.examples import of_call, of_numbers
from ..declare.half_types import in_float32
from ..declare.pointwise import pointwise
from ..declare.registry import leaf, library
from ..declare.results import into, overwrite
from ..on_device import elementwise as there
from .cpu_fallback import cpu_fallback, elementwise, like, working
from .elementary import digamma, lgamma

_POSITIVE = (0.1, 4.0)


def _kernel(name: str) -> Callable:
    """What gives the kernel of that name on devices; its module is imported then."""

    def kernel() -> Callable:
        from ..on_device.special import KERNELS

        return KERNELS[name]

    return kernel


def _scipy(
    name: str, what: str, example: str, *also: str, function: str | None = None, **details: Any
) -> LeafOp:
    """The function of that name in scipy.special, public in `flambeau.special` (and at `also`)."""
    source = function or name

    def body(x):
        import scipy.special

        return getattr(scipy.special, source)(x)

    body.__name__ = name
    body.__doc__ = f"{what}, element by element; integers become the default dtype." + of_numbers(
        f"special.{name}", example
    )
    return cpu_fallback(
        f"special.{name}", *also, reference=f"scipy.special.{source}", on_device=_kernel(source), **details
    )(body)


# --- Bessel and Airy functions -----------------------------------------------------------------------------------------------
i0 = _scipy(
    "i0",
    "1/π ∫₀^π exp(x · cos t) dt, the modified Bessel function of the first kind of order 0",
    "0.0, 1.0 -> 1.0000, 1.2661",
    "i0",
    "Tensor.i0",
    in_place=True,
)
i0e = _scipy("i0e", "exp(-|x|) · i0(x)", "0.0, 1.0 -> 1.0000, 0.4658", label="SpecialI0EBackward0")
i1 = _scipy(
    "i1",
    "1/π ∫₀^π exp(x · cos t) cos t dt, the modified Bessel function of the first kind of order 1",
    "0.0, 1.0 -> 0.0000, 0.5652",
    label="SpecialI1Backward0",
)
i1e = _scipy("i1e", "exp(-|x|) · i1(x)", "0.0, 1.0 -> 0.0000, 0.2079", label="SpecialI1EBackward0")
bessel_j0 = _scipy(
    "bessel_j0",
    "1/π ∫₀^π cos(x · sin t) dt, the Bessel function of the first kind of order 0",
    "0.0, 1.0 -> 1.0000, 0.7652",
    function="j0",
)
bessel_j1 = _scipy(
    "bessel_j1",
    "1/π ∫₀^π cos(t - x · sin t) dt, the Bessel function of the first kind of order 1",
    "0.0, 1.0 -> 0.0000, 0.4401",
    function="j1",
)
bessel_y0 = _scipy(
    "bessel_y0",
    "Y₀(x), the Bessel function of the second kind of order 0",
    "1.0, 2.0 -> 0.0883, 0.5104",
    function="y0",
    domain=_POSITIVE,
)
bessel_y1 = _scipy(
    "bessel_y1",
    "Y₁(x), the Bessel function of the second kind of order 1",
    "1.0, 2.0 -> -0.7812, -0.1070",
    function="y1",
    domain=_POSITIVE,
)
modified_bessel_i0 = _scipy(
    "modified_bessel_i0",
    "I₀(x), the modified Bessel function of the first kind of order 0",
    "0.0, 1.0 -> 1.0000, 1.2661",
    function="i0",
)
modified_bessel_i1 = _scipy(
    "modified_bessel_i1",
    "I₁(x), the modified Bessel function of the first kind of order 1",
    "0.0, 1.0 -> 0.0000, 0.5652",
    function="i1",
)
modified_bessel_k0 = _scipy(
    "modified_bessel_k0",
    "K₀(x), the modified Bessel function of the second kind of order 0",
    "1.0, 2.0 -> 0.4210, 0.1139",
    function="k0",
    domain=_POSITIVE,
)
modified_bessel_k1 = _scipy(
    "modified_bessel_k1",
    "K₁(x), the modified Bessel function of the second kind of order 1",
    "1.0, 2.0 -> 0.6019, 0.1399",
    function="k1",
    domain=_POSITIVE,
)
scaled_modified_bessel_k0 = _scipy(
    "scaled_modified_bessel_k0",
    "exp(x) · K₀(x), the scaled modified Bessel function of the second kind",
    "1.0, 2.0 -> 1.1445, 0.8416",
    function="k0e",
    domain=_POSITIVE,
)
scaled_modified_bessel_k1 = _scipy(
    "scaled_modified_bessel_k1",
    "exp(x) · K₁(x), the scaled modified Bessel function of the second kind",
    "1.0, 2.0 -> 1.6362, 1.0335",
    function="k1e",
    domain=_POSITIVE,
)


def _over(numerator: TensorBase, x: TensorBase, at_zero: float) -> TensorBase:
    """numerator / x, and its limit where x is 0."""
    zero = x == 0
    return (numerator / x.masked_fill(zero, 1.0)).masked_fill(zero, at_zero)


# DLMF 10.6.2 and 10.6.3, 10.29.2 and 10.29.3.
@i0.derivative
@modified_bessel_i0.derivative
def _(grad, x):
    return grad * i1(x)


@i0e.derivative
def _(grad, x, result):
    return grad * (i1e(x) - x.sign() * result)


@i1.derivative
@modified_bessel_i1.derivative
def _(grad, x, result):
    return grad * (i0(x) - _over(result, x, 0.5))


@i1e.derivative
def _(grad, x, result):
    return grad * (i0e(x) - x.sign() * result - _over(result, x, 0.5))


@bessel_j0.derivative
def _(grad, x):
    return -grad * bessel_j1(x)


@bessel_j1.derivative
def _(grad, x, result):
    return grad * (bessel_j0(x) - _over(result, x, 0.5))


@bessel_y0.derivative
def _(grad, x):
    return -grad * bessel_y1(x)


@bessel_y1.derivative
def _(grad, x, result):
    return grad * (bessel_y0(x) - result / x)


@modified_bessel_k0.derivative
def _(grad, x):
    return -grad * modified_bessel_k1(x)


@modified_bessel_k1.derivative
def _(grad, x, result):
    return -grad * (modified_bessel_k0(x) + result / x)


@scaled_modified_bessel_k0.derivative
def _(grad, x, result):
    return grad * (result - scaled_modified_bessel_k1(x))


@scaled_modified_bessel_k1.derivative
def _(grad, x, result):
    return grad * (result - scaled_modified_bessel_k0(x) - result / x)


@cpu_fallback("special.spherical_bessel_j0", on_device=_kernel("spherical_bessel_j0"))
def spherical_bessel_j0(x):
    """Spherical Bessel function of the first kind, order 0: sin(x) / x, 1 at 0.

    >>> import flambeau
    >>> flambeau.special.spherical_bessel_j0(flambeau.tensor([0.0, 1.0]))
    tensor([1.0000, 0.8415])
    """
    import scipy.special

    return scipy.special.spherical_jn(0, x)


@spherical_bessel_j0.derivative
def _(grad, x, result):
    return grad * _over(x.cos() - result, x, 0.0)


@cpu_fallback("special.airy_ai", on_device=_kernel("airy_ai"), differentiable=False)
def airy_ai(x):
    """Airy function Ai(x) = 1/π ∫₀^∞ cos(t³/3 + x t) dt.

    >>> import flambeau
    >>> flambeau.special.airy_ai(flambeau.tensor([0.0, 1.0]))
    tensor([0.3550, 0.1353])
    """
    import numpy as np
    import scipy.special

    result = scipy.special.airy(x)[0]
    lost = np.isnan(result) & ~np.isnan(x)  # scipy gives up from about |x| = 1.05e6
    if lost.any():  # Ai vanishes there, or is the leading wave of DLMF 9.7.9
        far = np.where(lost & (x < 0), -np.asarray(x, "float64"), np.inf)
        phase = np.where(far < np.inf, far, 0.0) ** 1.5 * (2.0 / 3.0) + math.pi / 4.0
        with np.errstate(invalid="ignore"):
            wave = np.where(np.isfinite(phase), np.sin(phase), 0.0) / (math.sqrt(math.pi) * far**0.25)
        result = np.where(lost, wave, result).astype(np.asarray(result).dtype)
    return result


# --- normal distribution -------------------------------------------------------------------------------------------------------
@pointwise(int_to_float=True, places=("special.ndtr",), in_place=False, reference="scipy.special.ndtr")
def ndtr(input):
    """Area under the density of the standard normal distribution up to input: erfc(-input / √2) / 2.

    >>> import flambeau
    >>> flambeau.special.ndtr(flambeau.tensor([0.0, 1.96]))
    tensor([0.5000, 0.9750])
    """
    return fn.erfc(input * -math.sqrt(0.5)) * 0.5


@ndtr.derivative
def _(grad, input):
    return grad * (fn.exp(input * input * -0.5) * math.sqrt(0.5 / math.pi))


erfcx = _scipy(
    "erfcx",
    "Scaled complementary error function, exp(x²) · erfc(x)",
    "0.0, 1.0 -> 1.0000, 0.4276",
    label="SpecialErfcxBackward0",
)
ndtri = _scipy(
    "ndtri",
    "y with ndtr(y) = x, the inverse of `ndtr`",
    "0.5, 0.975 -> 0.0000, 1.9600",
    domain=(0.1, 0.9),
    label="SpecialNdtriBackward0",
)
log_ndtr = _scipy(
    "log_ndtr",
    "log(ndtr(x)), exact for very negative inputs",
    "0.0, -20.0 ->   -0.6931, -203.9172",
    label="SpecialLogNdtrBackward0",
)


@erfcx.derivative
def _(grad, x, result):
    return grad * (2.0 * x * result - 2.0 / math.sqrt(math.pi))


@ndtri.derivative
def _(grad, result):
    return grad * ((result * result) * 0.5).exp() * math.sqrt(2.0 * math.pi)


@log_ndtr.derivative
def _(grad, x):
    return grad * math.sqrt(2.0 / math.pi) / erfcx(x * -math.sqrt(0.5))


# --- gamma functions ---------------------------------------------------------------------------------------------------------
@cpu_fallback(
    "special.zeta",
    on_device=_kernel("zeta"),
    numbers=True,
    domain=(1.5, 4.0),
    reference="scipy.special.zeta",
    label="SpecialZetaBackward0",
)
def zeta(input, other):
    """Hurwitz zeta function, Σ 1 / (k + other)^input over k = 0, 1, …; no derivative with respect to `input`.

    >>> import flambeau
    >>> flambeau.special.zeta(flambeau.tensor(2.0), flambeau.tensor(1.0))
    tensor(1.6449)
    """
    import scipy.special

    return scipy.special.zeta(input, other)


@zeta.derivative
def _(grad, input, other, needs):  # DLMF 25.11.17
    if needs[0]:
        raise NotImplementedError("the derivative for 'zeta' with respect to 'input' is not implemented.")
    return None, like(grad * -input * zeta(input + 1, other), other)


@cpu_fallback(
    "igamma",
    "Tensor.igamma",
    "special.gammainc",
    on_device=_kernel("igamma"),
    in_place=True,
    domain=_POSITIVE,
    reference="scipy.special.gammainc",
)
def igamma(input, other):
    """Regularised lower incomplete gamma function, 1/Γ(a) ∫₀ˣ t^(a-1) e^(-t) dt with a = input, x = other.

    No derivative with respect to `input`.

    >>> import flambeau
    >>> flambeau.igamma(flambeau.tensor([1.0]), flambeau.tensor([1.0]))
    tensor([0.6321])
    """
    import scipy.special

    return scipy.special.gammainc(input, other)


@cpu_fallback(
    "igammac",
    "Tensor.igammac",
    "special.gammaincc",
    on_device=_kernel("igammac"),
    in_place=True,
    domain=_POSITIVE,
    reference="scipy.special.gammaincc",
)
def igammac(input, other):
    """Regularised upper incomplete gamma function, 1 - igamma(input, other).

    >>> import flambeau
    >>> flambeau.igammac(flambeau.tensor([1.0]), flambeau.tensor([1.0]))
    tensor([0.3679])
    """
    import scipy.special

    return scipy.special.gammaincc(input, other)


def _density(input, other):
    """x^(a-1) e^(-x) / Γ(a): DLMF 8.8.13."""
    return ((input - 1) * other.log() - other - lgamma(input)).exp()


@igamma.derivative
def _(grad, input, other, needs):
    if needs[0]:
        raise NotImplementedError("the derivative for 'igamma' with respect to 'input' is not implemented.")
    return None, like(grad * _density(input.to(grad.dtype), other.to(grad.dtype)), other)


@igammac.derivative
def _(grad, input, other, needs):
    if needs[0]:
        raise NotImplementedError("the derivative for 'igammac' with respect to 'input' is not implemented.")
    return None, like(-grad * _density(input.to(grad.dtype), other.to(grad.dtype)), other)


@leaf("fallback", "polygamma", "special.polygamma", inputs=("input",), batching="pointwise")
def polygamma(n: int, input: TensorBase, *, out: TensorBase | None = None) -> TensorBase:
    """ψ⁽ⁿ⁾(x) = dⁿ⁺¹/dxⁿ⁺¹ log Γ(x): the n-th derivative of `digamma`.

    Shape:
        input: any; the result has the same

    >>> import flambeau
    >>> flambeau.polygamma(1, flambeau.tensor([1.0]))
    tensor([1.6449])
    """
    if isinstance(n, TensorBase) and n.ndim == 0 and not n.is_floating_point() and not n.is_complex():
        n = int(n.item())
    if not isinstance(n, int) or isinstance(n, bool):
        raise TypeError(f"polygamma(): argument 'n' (position 1) must be int, not {type(n).__name__}")
    if n < 0:
        raise RuntimeError(f"polygamma(n, x) does not support negative n, got {n}")
    if n == 0:
        return digamma(input) if out is None else digamma(input, out=out)
    kind = working("polygamma", (input,), True)
    if not (input.is_cpu or input.is_meta):
        from ..on_device import special

        return into(out, there.applied(special.polygamma(n), kind, input), "polygamma")
    return into(out, elementwise(functools.partial(_polygamma, n), kind, input), "polygamma")


def _polygamma(n: int, x: Any) -> Any:
    import scipy.special

    return scipy.special.polygamma(n, x)


@polygamma.derivative
def _(grad, n, input):
    return grad * polygamma(n + 1, input)


@library(
    "fallback",
    "Tensor.polygamma",
    name="polygamma_method",
    composite=True,
    batching="pointwise",
)
def _polygamma_method(self: TensorBase, n: int) -> TensorBase:
    """ψ⁽ⁿ⁾(x) = dⁿ⁺¹/dxⁿ⁺¹ log Γ(x): the n-th derivative of `digamma`.

    Shape:
        self: any; the result has the same

    Raises:
        RuntimeError: `n` is negative

    >>> import flambeau
    >>> flambeau.tensor([1.0]).polygamma(1)
    tensor([1.6449])
    """
    return polygamma(n, self)


@library(
    "fallback",
    "Tensor.polygamma_",
    name="polygamma_in_place",
    composite=True,
    writes=True,
    batching="pointwise",
    dtypes=FLOATING,
)
def _polygamma_in_place(self: TensorBase, n: int) -> TensorBase:
    """`polygamma` in place: ψ⁽ⁿ⁾(x) = dⁿ⁺¹/dxⁿ⁺¹ log Γ(x).

    Shape:
        self: any

    Raises:
        RuntimeError: `n` is negative

    >>> import flambeau
    >>> flambeau.tensor([1.0]).polygamma_(1)
    tensor([1.6449])
    """
    return overwrite(self, _polygamma_method, n)


@library("composite", "mvlgamma", "Tensor.mvlgamma", "special.multigammaln", elementwise=True, dtypes=ALL)
@in_float32()
def mvlgamma(input: TensorBase, p: int, *, out: TensorBase | None = None) -> TensorBase:
    """Logarithm of the multivariate gamma function of dimension p: p(p-1)/4 · log π + Σ lgamma(input - j/2), j < p.

    RuntimeError unless p is at least 1.

    Shape:
        input: any; the result has the same

    Raises:
        RuntimeError: `p` is below 1

    >>> import flambeau
    >>> flambeau.mvlgamma(flambeau.tensor([2.0, 3.0]), p=2)
    tensor([0.4516, 1.5502])
    """
    if p < 1:
        raise RuntimeError(f"mvlgamma(): p has to be greater than or equal to 1, got {p}")
    checks.not_bool("mvlgamma", input=input)
    x = input if input.is_floating_point() else input * 1.0
    result = lgamma(x.unsqueeze(-1) - arange(p, dtype=x.dtype, device=x.device) / 2).sum(-1)
    result = result + p * (p - 1) / 4 * math.log(math.pi)
    return into(out, result, "mvlgamma")


# --- orthogonal polynomials ----------------------------------------------------------------------------------------------------
def _polynomial(name: str, what: str, second: str, function: Recurrence) -> LeafOp:
    """A polynomial of degree n (rounded towards zero; a negative one gives 0); `second` is the one of degree 2, and its value at 3."""

    def body(input, n):
        import numpy as np

        degree = np.trunc(n)
        return np.where(degree < 0, 0.0, function(np.maximum(degree, 0), input))

    body.__name__ = name
    shown, _, value = second.partition(" -> ")
    body.__doc__ = (
        f"{what} of degree n at input; 0 where n is negative.\n\nElement by element; that of degree 2 is {shown}."
        + of_call(f"special.{name}(flambeau.tensor([3.0]), 2)", f"tensor([{value}])")
    )

    @functools.cache
    def kernel() -> Callable:
        from ..on_device.special import recurrence

        return recurrence(function)

    declared = cpu_fallback(
        f"special.{name}", on_device=kernel, numbers=True, differentiable=False, recurrence=function
    )
    return declared(body)


class Recurrence(NamedTuple):
    """p₀ = 1, p₁ = first(x), p_{k+1} = step(x, k, p_k, p_{k-1}), of 2x - 1 in place of x where that is `shifted`."""

    first: Callable
    step: Callable
    shifted: bool = False

    def __call__(self, degree: Any, x: Any) -> Any:
        """Values at arrays: for all elements at once, up to the largest degree."""
        import numpy as np

        degree, x = np.broadcast_arrays(degree, np.asarray(x))
        x = 2 * x - 1 if self.shifted else x
        before, here = np.ones_like(x), self.first(x)
        result = np.where(degree == 0, before, here)
        for k in range(1, int(degree.max(initial=0))):
            before, here = here, self.step(x, k, here, before)
            result = np.where(degree == k + 1, here, result)
        return result


def _chebyshev(first: Callable, shifted: bool = False) -> Recurrence:
    return Recurrence(first, lambda x, k, here, before: 2 * x * here - before, shifted)


_FIRST = {  # with the polynomial of degree 2, its value at 3 and, shifted, at 3
    "t": ("first", lambda x: x, "2x² - 1", "17", "49"),
    "u": ("second", lambda x: 2 * x, "4x² - 1", "35", "99"),
    "v": ("third", lambda x: 2 * x - 1, "4x² - 2x - 1", "29", "89"),
    "w": ("fourth", lambda x: 2 * x + 1, "4x² + 2x - 1", "41", "109"),
}
for _letter, (
    _kind,
    _start,
    _second,
    _plain,
    _moved,
) in _FIRST.items():  # DLMF 18.9.1 with the values of 18.6
    _polynomial(
        f"chebyshev_polynomial_{_letter}",
        f"Chebyshev polynomial of the {_kind} kind",
        f"{_second} -> {_plain}.",
        _chebyshev(_start),
    )
    _polynomial(
        f"shifted_chebyshev_polynomial_{_letter}",
        f"Chebyshev polynomial of the {_kind} kind, shifted to [0, 1],",
        f"{_second}, of 2x - 1 for x -> {_moved}.",
        _chebyshev(_start, True),
    )
_polynomial(
    "hermite_polynomial_h",
    "Physicists' Hermite polynomial",
    "4x² - 2 -> 34.",
    Recurrence(lambda x: 2 * x, lambda x, k, here, before: 2 * x * here - 2 * k * before),
)
_polynomial(
    "hermite_polynomial_he",
    "Probabilists' Hermite polynomial",
    "x² - 1 -> 8.",
    Recurrence(lambda x: x, lambda x, k, here, before: x * here - k * before),
)
_polynomial(
    "laguerre_polynomial_l",
    "Laguerre polynomial",
    "(x² - 4x + 2) / 2 -> -0.5000",
    Recurrence(lambda x: 1 - x, lambda x, k, here, before: ((2 * k + 1 - x) * here - k * before) / (k + 1)),
)
_polynomial(
    "legendre_polynomial_p",
    "Legendre polynomial",
    "(3x² - 1) / 2 -> 13.",
    Recurrence(lambda x: x, lambda x, k, here, before: ((2 * k + 1) * x * here - k * before) / (k + 1)),
)
