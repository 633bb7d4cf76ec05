"""The half-Cauchy distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import Size
from ..core.make.create import full, zeros_like
from ..core.make.literal import as_tensor
from ..operations.random.random import rand
from . import constraints
from ._draws import cauchy_noise, in_turn
from ._fused import fn, fused, log1p_square, made_of
from .cauchy import Cauchy
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform

__all__ = ["HalfCauchy"]


_TRANSFORM = AbsTransform()


@fused
def _half_cauchy_log_prob(value, scale):
    z = value / scale
    result = math.log(2 / math.pi) - fn.log(scale) - log1p_square(z)
    return fn.where(value >= 0, result, -math.inf)


@fused
def _half_cauchy_cdf(value, scale):
    return fn.atan(value / scale) * (2 / math.pi)


@fused
def _half_cauchy_icdf(value, scale):
    return fn.tan(value * (0.5 * math.pi)) * scale


class HalfCauchy(TransformedDistribution):
    """The distribution of |x| for Cauchy x with median 0 and half width `scale`, of shape batch.

    Density 2 / (π scale (1 + (x / scale)²)) for x >= 0; mean and variance are infinite (Gelman, 2006, Prior distributions for
    variance parameters in hierarchical models).

    Raises:
        ValueError: a parameter lies outside of its constraint, where arguments are validated

    >>> import flambeau
    >>> from flambeau.distributions import HalfCauchy
    >>> half = HalfCauchy(flambeau.tensor([1.0, 2.0]))
    >>> half.cdf(flambeau.tensor(1.0)), half.icdf(flambeau.tensor(0.25))
    (tensor([0.5000, 0.2952]), tensor([0.4142, 0.8284]))
    """

    arg_constraints = {"scale": constraints.positive}  # type: ignore[assignment]
    support = constraints.nonnegative
    has_rsample = True  # type: ignore[assignment]

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        self._over(Cauchy(0, scale, validate_args=False), _TRANSFORM, validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded_over(HalfCauchy, batch_shape, _instance)

    @property
    def scale(self) -> Any:
        """The Cauchy distribution's scale."""
        return self.base_dist.scale

    def _infinite(self) -> Any:
        return full(self._extended_shape(), math.inf, dtype=self.scale.dtype, device=self.scale.device)

    @property
    def mean(self) -> Tensor:
        return self._infinite()

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        return self._infinite()

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        if in_turn(self.scale):
            return (cauchy_noise(self._extended_shape(sample_shape), self.scale) * self.scale).abs()
        noise = rand(self._extended_shape(sample_shape), dtype=self.scale.dtype, device=self.scale.device)
        return made_of(_half_cauchy_icdf, noise, self.scale)

    sample = Distribution.sample

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value = as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
        return _half_cauchy_log_prob(value, self.scale)

    def cdf(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _half_cauchy_cdf(value, self.scale)

    def icdf(self, value: Any) -> Tensor:
        return _half_cauchy_icdf(value, self.scale)

    def entropy(self) -> Tensor:
        return math.log(2 * math.pi) + self.scale.log()
