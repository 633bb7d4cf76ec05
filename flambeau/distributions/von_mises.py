"""The von Mises distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core.base.dtypes import Size
from ..operations.pointwise.special import i0e, i1e
from ..operations.random.sampled import von_mises
from . import constraints
from ._fused import fn, fused
from .distribution import Distribution
from .utils import broadcast_all, lazy_property

__all__ = ["VonMises"]


@fused
def _von_mises_log_prob(value, loc, concentration, bessel):
    """Of I₀ only exp(-κ) I₀(κ) is formed, and cos - 1 without cancellation: both are exact for narrow distributions."""
    half = fn.sin(0.5 * (value - loc))
    return -2.0 * concentration * half * half - math.log(2.0 * math.pi) - fn.log(bessel)


class VonMises(Distribution):
    """The von Mises distribution of angles in radians around `loc`, with `concentration` κ, which broadcast: the batch.

    Density exp(κ cos(x - loc)) / (2π I₀(κ)) (Mardia, Jupp, Directional Statistics, 3.5.4), I₀ the modified Bessel function.
    Samples lie in [-π, π).  Mean and variance are circular: the variance is 1 - I₁(κ) / I₀(κ).

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
    def mean(self) -> Any:
        """The circular mean."""
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @lazy_property
    def variance(self) -> Any:  # type: ignore[override]
        """The circular variance."""
        return 1 - i1e(self.concentration) / i0e(self.concentration)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Any:
        shape = self._extended_shape(sample_shape)
        return von_mises(self.loc.expand(shape), self.concentration.expand(shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        k = self.concentration
        return _von_mises_log_prob(value, self.loc, k, i0e(k))
