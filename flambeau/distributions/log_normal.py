"""The log-normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import Size
from ..core.make.create import empty
from . import constraints
from ._fused import fn, fused, made_of
from .distribution import Distribution
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform

__all__ = ["LogNormal"]

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


_TRANSFORM = ExpTransform()


@fused
def _exp_scaled(noise, loc, scale):
    return fn.exp(loc + noise * scale)


@fused
def _log_normal_log_prob(value, loc, scale):
    y = fn.log(value)
    z = (y - loc) / scale
    return -0.5 * (z * z) - fn.log(scale) - y - _HALF_LOG_2PI


@fused
def _log_normal_cdf(value, loc, scale):
    return 0.5 * fn.erfc((loc - fn.log(value)) / (scale * math.sqrt(2)))


@fused
def _log_normal_icdf(value, loc, scale):
    return fn.exp(loc + scale * (fn.erfinv(2 * value - 1) * math.sqrt(2)))


@fused
def _log_normal_variance(loc, scale):
    square = scale * scale
    return fn.expm1(square) * fn.exp(2.0 * loc + square)


class LogNormal(TransformedDistribution):
    """The distribution of exp(x) for normal x with mean `loc` and standard deviation `scale`, which broadcast: the batch.

    Density exp(-(log x - loc)² / (2 scale²)) / (x scale √(2π)) for x > 0 (Johnson, Kotz, Balakrishnan, Continuous Univariate
    Distributions, chapter 14).

    Raises:
        ValueError: a parameter lies outside of its constraint, where arguments are validated

    >>> import flambeau
    >>> from flambeau.distributions import LogNormal
    >>> skewed = LogNormal(flambeau.tensor([0.0, 1.0]), 1.0)
    >>> skewed.mean, skewed.mode
    (tensor([1.6487, 4.4817]), tensor([0.3679, 1.0000]))
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # type: ignore[assignment]
    support = constraints.positive
    has_rsample = True  # type: ignore[assignment]

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self._over(Normal(loc, scale, validate_args=False), _TRANSFORM, validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded_over(LogNormal, batch_shape, _instance)

    @property
    def loc(self) -> Any:
        """The mean of the logarithm, which is the base's."""
        return self.base_dist.loc

    @property
    def scale(self) -> Any:
        """The standard deviation of the logarithm, which is the base's."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        return _log_normal_variance(self.loc, self.scale)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        noise = empty(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return made_of(_exp_scaled, noise.normal_(), self.loc, self.scale)

    sample = Distribution.sample

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _log_normal_log_prob(value, self.loc, self.scale)

    def cdf(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_within(value, constraints.nonnegative)
        return _log_normal_cdf(value, self.loc, self.scale)

    def icdf(self, value: Any) -> Tensor:
        return _log_normal_icdf(value, self.loc, self.scale)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.loc + (0.5 + _HALF_LOG_2PI)
