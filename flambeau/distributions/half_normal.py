"""The half-normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import Size
from ..core.make.create import empty, zeros_like
from . import constraints
from ._fused import fn, fused, made_of
from .distribution import Distribution
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform

__all__ = ["HalfNormal"]


_TRANSFORM = AbsTransform()


@fused
def _folded(noise, scale):
    return fn.absolute(noise * scale)


@fused
def _half_normal_log_prob(value, scale):
    z = value / scale
    result = 0.5 * math.log(2 / math.pi) - fn.log(scale) - 0.5 * (z * z)
    return fn.where(value >= 0, result, -math.inf)


@fused
def _half_normal_cdf(value, scale):
    return fn.erf(value / (scale * math.sqrt(2)))


@fused
def _half_normal_icdf(value, scale):
    return scale * (fn.erfinv(value) * math.sqrt(2))


class HalfNormal(TransformedDistribution):
    """The distribution of |x| for normal x with mean 0 and standard deviation `scale`, of shape batch.

    Density √2 exp(-x² / (2 scale²)) / (scale √π) for x >= 0 (Johnson, Kotz, Balakrishnan, Continuous Univariate Distributions,
    chapter 13).

    Raises:
        ValueError: a parameter lies outside of its constraint, where arguments are validated

    >>> import flambeau
    >>> from flambeau.distributions import HalfNormal
    >>> half = HalfNormal(flambeau.tensor([1.0, 2.0]))
    >>> half.mean, half.cdf(flambeau.tensor(1.0))
    (tensor([0.7979, 1.5958]), tensor([0.6827, 0.3829]))
    """

    arg_constraints = {"scale": constraints.positive}  # type: ignore[assignment]
    support = constraints.nonnegative
    has_rsample = True  # type: ignore[assignment]

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        self._over(Normal(0, scale, validate_args=False), _TRANSFORM, validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded_over(HalfNormal, batch_shape, _instance)

    @property
    def scale(self) -> Any:
        """The normal distribution's scale."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (1 - 2 / math.pi)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        noise = empty(self._extended_shape(sample_shape), dtype=self.scale.dtype, device=self.scale.device)
        return made_of(_folded, noise.normal_(), self.scale)

    sample = Distribution.sample

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _half_normal_log_prob(value, self.scale)

    def cdf(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _half_normal_cdf(value, self.scale)

    def icdf(self, value: Any) -> Tensor:
        return _half_normal_icdf(value, self.scale)

    def entropy(self) -> Tensor:
        return self.scale.log() + 0.5 * (1 + math.log(math.pi / 2))
