"""The von Mises distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import Size, by_name
from ..core.make.create import ones_like, zeros_like
from ..operations.pointwise.arithmetic import where
from ..operations.pointwise.special import i0e, i1e
from ..operations.random.random import rand
from ..operations.random.sampled import von_mises
from . import constraints
from ._draws import in_turn
from ._fused import fn, fused
from .distribution import Distribution
from .utils import broadcast_all, lazy_property

__all__ = ["VonMises"]

_FLOAT64 = by_name["float64"]


# exp(-x) I₀(x) in Chebyshev polynomials, to float32's last digits: of x / 2 - 2 up to 8, of 32 / x - 2 and over √x from there
# (Moshier, Cephes Mathematical Library, i0f.c).
_NEAR = (
    -1.30002500998624804212e-8, 6.04699502254191894932e-8, -2.67079385394061173391e-7, 1.11738753912010371815e-6,
    -4.41673835845875056359e-6, 1.64484480707288970893e-5, -5.75419501008210370398e-5, 1.88502885095841655729e-4,
    -5.76375574538582365885e-4, 1.63947561694133579842e-3, -4.32430999505057594430e-3, 1.05464603945949983183e-2,
    -2.37374148058994688156e-2, 4.93052842396707084878e-2, -9.49010970480476444210e-2, 1.71620901522208775349e-1,
    -3.04682672343198398683e-1, 6.76795274409476084995e-1,
)  # fmt: skip
_FAR = (
    3.39623202570838634515e-9, 2.26666899049817806459e-8, 2.04891858946906374183e-7, 2.89137052083475648297e-6,
    6.88975834691682398426e-5, 3.36911647825569408990e-3, 8.04490411014108831608e-1,
)  # fmt: skip


def _chebyshev(x: Any, coefficients: Sequence[float]) -> Any:
    """Their sum by Clenshaw's recurrence, for x in [-2, 2]; the last coefficient is twice the constant."""
    now, before, last = fn.like(x, coefficients[0]), fn.like(x, 0.0), fn.like(x, 0.0)
    for c in coefficients[1:]:
        now, before, last = x * now - before + c, now, before
    return 0.5 * (now - last)


@fused
def _scaled_bessel(concentration):
    """exp(-κ) I₀(κ) in float32."""
    near = concentration <= 8.0
    low, high = fn.where(near, concentration, 8.0), fn.where(near, 8.0, concentration)
    beyond = _chebyshev(32.0 / high - 2.0, _FAR) / fn.sqrt(high)
    return fn.where(near, _chebyshev(0.5 * low - 2.0, _NEAR), beyond)


@fused
def _von_mises_log_prob(value, loc, concentration, bessel):
    """Of I₀ only exp(-κ) I₀(κ) is formed, and cos - 1 without cancellation: both are exact for narrow distributions."""
    half = fn.sin(0.5 * (value - loc))
    return -2.0 * concentration * half * half - math.log(2.0 * math.pi) - fn.log(bessel)


def _in_rounds(loc: Any, concentration: Any) -> Any:
    """Best and Fisher's rejection as PyTorch goes about it: three uniform numbers for every element, until all are accepted."""
    root = 1 + (1 + 4 * concentration**2).sqrt()
    rho = (root - (2 * root).sqrt()) / (2 * concentration)
    r = where(concentration < 1e-5, 1 / concentration + concentration, (1 + rho**2) / (2 * rho))
    result, pending = zeros_like(loc), ones_like(loc).bool()
    while pending.any():
        turn, height, side = rand((3, *loc.shape), dtype=loc.dtype).unbind()
        z = (math.pi * turn).cos()
        f = (1 + r * z) / (r + z)
        c = concentration * (r - f)
        accepted = (c * (2 - c) - height > 0) | ((c / height).log() + 1 - c >= 0)
        result = where(accepted, (side - 0.5).sign() * f.acos(), result)
        pending = pending & ~accepted
    return (result + math.pi + loc) % (2 * math.pi) - math.pi


class VonMises(Distribution):
    """The von Mises distribution of angles in radians around `loc`, with `concentration` κ, which broadcast: the batch.

    Density exp(κ cos(x - loc)) / (2π I₀(κ)) (Mardia, Jupp, Directional Statistics, 3.5.4), I₀ the modified Bessel function.
    Samples lie in [-π, π).  Mean and variance are circular: the variance is 1 - I₁(κ) / I₀(κ).

    Raises:
        ValueError: a parameter lies outside of its constraint, where arguments are validated

    >>> import flambeau
    >>> from flambeau.distributions import VonMises
    >>> VonMises(flambeau.tensor(0.0), flambeau.tensor([1.0, 4.0])).log_prob(flambeau.tensor(0.0))
    tensor([-1.0738, -0.2628])
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}  # type: ignore[assignment]
    support = constraints.real  # type: ignore[assignment]
    has_rsample = False

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded(VonMises, batch_shape, _instance, "loc", "concentration")

    @property
    def mean(self) -> Tensor:
        """The circular mean."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:  # type: ignore[override]
        """The circular variance."""
        return 1 - i1e(self.concentration) / i0e(self.concentration)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        if in_turn(self.loc):
            return _in_rounds(self.loc.double().expand(shape), self.concentration.double().expand(shape)).to(
                self.loc.dtype
            )
        return von_mises(self.loc.expand(shape), self.concentration.expand(shape))

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        k = self.concentration
        bessel = i0e(k) if k.dtype is _FLOAT64 else _scaled_bessel(k)
        return _von_mises_log_prob(value, self.loc, k, bessel)
