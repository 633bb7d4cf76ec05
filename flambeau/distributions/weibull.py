"""The Weibull distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import Size
from ..core.make.create import empty, ones_like
from . import constraints
from ._fused import fn, fused, made_of, vanishing, xlogy
from .distribution import Distribution
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .utils import broadcast_all, euler_constant, settled_property

__all__ = ["Weibull"]


@fused
def _weibull_of_exponential(noise, scale, concentration):
    return scale * fn.pow(noise, 1.0 / concentration)


@fused
def _weibull_log_prob(value, scale, concentration):
    z = value / scale
    result = fn.log(concentration / scale) + xlogy(concentration - 1.0, z) - fn.pow(z, concentration)
    return vanishing(value, result)


@fused
def _weibull_cdf(value, scale, concentration):
    return -fn.expm1(-fn.pow(value / scale, concentration))


@fused
def _weibull_mean(scale, concentration):
    return scale * fn.exp(fn.lgamma(1.0 + 1.0 / concentration))


@fused
def _weibull_mode(scale, concentration):
    return scale * fn.pow((concentration - 1.0) / concentration, 1.0 / concentration)


@fused
def _weibull_variance(scale, concentration):
    first = fn.lgamma(1.0 + 1.0 / concentration)
    return scale * scale * (fn.exp(fn.lgamma(1.0 + 2.0 / concentration)) - fn.exp(2.0 * first))


class Weibull(TransformedDistribution):
    """The Weibull distribution with `scale` λ and `concentration` (shape) k, which broadcast: the batch.

    Density k/λ (x/λ)^(k-1) exp(-(x/λ)^k) for x > 0 (Johnson, Kotz, Balakrishnan, Continuous Univariate Distributions, chapter 21).

    Raises:
        ValueError: a parameter lies outside of its constraint, where arguments are validated

    >>> import flambeau
    >>> from flambeau.distributions import Weibull
    >>> life = Weibull(2.0, flambeau.tensor([1.0, 2.0]))
    >>> life.mean, life.cdf(flambeau.tensor(2.0))
    (tensor([2.0000, 1.7725]), tensor([0.6321, 0.6321]))
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}  # type: ignore[assignment]
    support = constraints.positive
    has_rsample = True  # type: ignore[assignment]

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        Distribution.__init__(self, self.scale.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded(Weibull, batch_shape, _instance, "scale", "concentration")

    @settled_property
    def concentration_reciprocal(self) -> Any:
        """1 / concentration."""
        return self.concentration.reciprocal()

    @settled_property
    def base_dist(self) -> Any:
        return Exponential(ones_like(self.scale), validate_args=False)

    @settled_property
    def transforms(self) -> Any:
        return [PowerTransform(self.concentration_reciprocal), AffineTransform(0, self.scale)]

    @property
    def mean(self) -> Tensor:
        return _weibull_mean(self.scale, self.concentration)

    @property
    def mode(self) -> Tensor:
        return _weibull_mode(self.scale, self.concentration)

    @property
    def variance(self) -> Tensor:
        return _weibull_variance(self.scale, self.concentration)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        noise = empty(self._extended_shape(sample_shape), dtype=self.scale.dtype, device=self.scale.device)
        return made_of(_weibull_of_exponential, noise.exponential_(), self.scale, self.concentration)

    sample = Distribution.sample

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _weibull_log_prob(value, self.scale, self.concentration)

    def cdf(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_within(value, constraints.nonnegative)
        return _weibull_cdf(value, self.scale, self.concentration)

    def icdf(self, value: Any) -> Tensor:
        return _weibull_of_exponential(-(-value).log1p(), self.scale, self.concentration)

    def entropy(self) -> Tensor:
        inverse = self.concentration_reciprocal
        return euler_constant * (1 - inverse) + (self.scale * inverse).log() + 1
