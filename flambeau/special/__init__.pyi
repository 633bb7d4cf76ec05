# Written by `python tools/interface.py` from the registry.
from builtins import bool as _bool
from builtins import complex as _complex
from builtins import float as _float
from builtins import int as _int
from builtins import tuple as _tuple
from collections.abc import Sequence as _Sequence
from flambeau import dtype as _dtype
from flambeau import Tensor as Tensor

def airy_ai(x: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Airy function Ai(x) = 1/π ∫₀^∞ cos(t³/3 + x t) dt."""
def bessel_j0(x: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """1/π ∫₀^π cos(x · sin t) dt, the Bessel function of the first kind of order 0, element by element; integers become the default dtype."""
def bessel_j1(x: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """1/π ∫₀^π cos(t - x · sin t) dt, the Bessel function of the first kind of order 1, element by element; integers become the default dtype."""
def bessel_y0(x: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Y₀(x), the Bessel function of the second kind of order 0, element by element; integers become the default dtype."""
def bessel_y1(x: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Y₁(x), the Bessel function of the second kind of order 1, element by element; integers become the default dtype."""
def chebyshev_polynomial_t(input: Tensor, n: Tensor | _int, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Chebyshev polynomial of the first kind of degree n at input; 0 where n is negative."""
def chebyshev_polynomial_u(input: Tensor, n: Tensor | _int, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Chebyshev polynomial of the second kind of degree n at input; 0 where n is negative."""
def chebyshev_polynomial_v(input: Tensor, n: Tensor | _int, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Chebyshev polynomial of the third kind of degree n at input; 0 where n is negative."""
def chebyshev_polynomial_w(input: Tensor, n: Tensor | _int, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Chebyshev polynomial of the fourth kind of degree n at input; 0 where n is negative."""
def digamma(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Γ′(input) / Γ(input): the logarithmic derivative of Γ, element by element."""
def entr(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """-x · log(x), 0 at 0, -inf below."""
def erf(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Error function, 2/√π ∫₀ˣ exp(-t²) dt, element by element; integers become the default dtype."""
def erfc(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """1 - erf(input), exact for large inputs, element by element; integers become the default dtype."""
def erfcx(x: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Scaled complementary error function, exp(x²) · erfc(x), element by element; integers become the default dtype."""
def erfinv(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """y with erf(y) = input, the inverse of erf, element by element; integers become the default dtype."""
def exp2(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """2^input, element by element; integers become the default dtype."""
def expit(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Logistic function, 1 / (1 + exp(-input)), element by element; integers become the default dtype."""
def expm1(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """exp(input) - 1, exact for small inputs, element by element; integers become the default dtype."""
def gammainc(input: Tensor, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Regularised lower incomplete gamma function, 1/Γ(a) ∫₀ˣ t^(a-1) e^(-t) dt with a = input, x = other."""
def gammaincc(input: Tensor, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Regularised upper incomplete gamma function, 1 - igamma(input, other)."""
def gammaln(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Logarithm of |Γ(input)|, element by element; integers become the default dtype."""
def hermite_polynomial_h(input: Tensor, n: Tensor | _int, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Physicists' Hermite polynomial of degree n at input; 0 where n is negative."""
def hermite_polynomial_he(input: Tensor, n: Tensor | _int, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Probabilists' Hermite polynomial of degree n at input; 0 where n is negative."""
def i0(x: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """1/π ∫₀^π exp(x · cos t) dt, the modified Bessel function of the first kind of order 0, element by element; integers become the default dtype."""
def i0e(x: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """exp(-|x|) · i0(x), element by element; integers become the default dtype."""
def i1(x: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """1/π ∫₀^π exp(x · cos t) cos t dt, the modified Bessel function of the first kind of order 1, element by element; integers become the default dtype."""
def i1e(x: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """exp(-|x|) · i1(x), element by element; integers become the default dtype."""
def laguerre_polynomial_l(input: Tensor, n: Tensor | _int, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Laguerre polynomial of degree n at input; 0 where n is negative."""
def legendre_polynomial_p(input: Tensor, n: Tensor | _int, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Legendre polynomial of degree n at input; 0 where n is negative."""
def log1p(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """log(1 + input), exact for small inputs, element by element; integers become the default dtype."""
def log_ndtr(x: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """log(ndtr(x)), exact for very negative inputs, element by element; integers become the default dtype."""
def log_softmax(input: Tensor, dim: _int | _Sequence[_int] | None, dtype: None | _dtype = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input - log Σ exp(input), relative to the largest element."""
def logit(input: Tensor, eps: _float | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """log(x / (1 - x)); with `eps`, x is first kept within [eps, 1 - eps]."""
def logsumexp(input: Tensor, dim: _int | _Sequence[_int] | None, keepdim: _bool = False, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """log Σ exp(input) over `dim`, without overflow."""
def modified_bessel_i0(x: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """I₀(x), the modified Bessel function of the first kind of order 0, element by element; integers become the default dtype."""
def modified_bessel_i1(x: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """I₁(x), the modified Bessel function of the first kind of order 1, element by element; integers become the default dtype."""
def modified_bessel_k0(x: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """K₀(x), the modified Bessel function of the second kind of order 0, element by element; integers become the default dtype."""
def modified_bessel_k1(x: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """K₁(x), the modified Bessel function of the second kind of order 1, element by element; integers become the default dtype."""
def multigammaln(input: Tensor, p: _int, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of the multivariate gamma function of dimension p: p(p-1)/4 · log π + Σ lgamma(input - j/2), j < p."""
def ndtr(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Area under the density of the standard normal distribution up to input: erfc(-input / √2) / 2."""
def ndtri(x: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """y with ndtr(y) = x, the inverse of `ndtr`, element by element; integers become the default dtype."""
def polygamma(n: _int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """ψ⁽ⁿ⁾(x) = dⁿ⁺¹/dxⁿ⁺¹ log Γ(x): the n-th derivative of `digamma`."""
def psi(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Γ′(input) / Γ(input): the logarithmic derivative of Γ, element by element."""
def round(input: Tensor, *, decimals: _float = 0, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Nearest multiple of 10^-decimals, ties to even; its derivative is 0."""
def scaled_modified_bessel_k0(x: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """exp(x) · K₀(x), the scaled modified Bessel function of the second kind, element by element; integers become the default dtype."""
def scaled_modified_bessel_k1(x: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """exp(x) · K₁(x), the scaled modified Bessel function of the second kind, element by element; integers become the default dtype."""
def shifted_chebyshev_polynomial_t(input: Tensor, n: Tensor | _int, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Chebyshev polynomial of the first kind, shifted to [0, 1], of degree n at input; 0 where n is negative."""
def shifted_chebyshev_polynomial_u(input: Tensor, n: Tensor | _int, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Chebyshev polynomial of the second kind, shifted to [0, 1], of degree n at input; 0 where n is negative."""
def shifted_chebyshev_polynomial_v(input: Tensor, n: Tensor | _int, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Chebyshev polynomial of the third kind, shifted to [0, 1], of degree n at input; 0 where n is negative."""
def shifted_chebyshev_polynomial_w(input: Tensor, n: Tensor | _int, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Chebyshev polynomial of the fourth kind, shifted to [0, 1], of degree n at input; 0 where n is negative."""
def sinc(input: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """sin(πx) / (πx), 1 at 0."""
def softmax(input: Tensor, dim: _int | _Sequence[_int] | None, dtype: None | _dtype = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """exp(input) / Σ exp(input) along `dim`, relative to the largest element, so that nothing overflows."""
def spherical_bessel_j0(x: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Spherical Bessel function of the first kind, order 0: sin(x) / x, 1 at 0."""
def xlog1py(input: Tensor | _complex, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input · log(1 + other), 0 where input is 0 and other is a number."""
def xlogy(input: Tensor | _complex, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """input · log(other), 0 where input is 0 and other is a number."""
def zeta(input: Tensor, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """Hurwitz zeta function, Σ 1 / (k + other)^input over k = 0, 1, …; no derivative with respect to `input`."""
