"""The normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import Size
from ..core.make.create import empty
from . import constraints
from ._fused import fn, fused, made_of
from .exp_family import ExponentialFamily
from .utils import broadcast_all

__all__ = ["Normal"]

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


@fused
def _scaled(noise, loc, scale):
    return loc + noise * scale


@fused
def _normal_log_prob(value, loc, scale):
    z = (value - loc) / scale
    return -0.5 * (z * z) - fn.log(scale) - _HALF_LOG_2PI


@fused
def _normal_cdf(value, loc, scale):
    """0.5 erfc(-z / √2), which keeps its digits in the lower tail."""
    return 0.5 * fn.erfc((loc - value) / (scale * math.sqrt(2)))


@fused
def _normal_icdf(value, loc, scale):
    return loc + scale * (fn.erfinv(2 * value - 1) * math.sqrt(2))


class Normal(ExponentialFamily):
    """The normal (Gaussian) distribution with mean `loc` and standard deviation `scale`, which broadcast: the batch.

    Density exp(-(x - loc)² / (2 scale²)) / (scale √(2π)) over the real line (Johnson, Kotz, Balakrishnan, Continuous
    Univariate Distributions, chapter 13).

    Raises:
        ValueError: a parameter lies outside of its constraint, where arguments are validated

    >>> import flambeau
    >>> from flambeau.distributions import Normal
    >>> normal = Normal(flambeau.tensor([0.0, 1.0]), 2.0)
    >>> normal.log_prob(flambeau.tensor(1.0))
    tensor([-1.7371, -1.6121])
    >>> normal.sample((3,)).shape
    flambeau.Size([3, 2])
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # type: ignore[assignment]
    support = constraints.real  # type: ignore[assignment]
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded(Normal, batch_shape, _instance, "loc", "scale")

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.square()

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        noise = empty(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return made_of(_scaled, noise.normal_(), self.loc, self.scale)

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _normal_log_prob(value, self.loc, self.scale)

    def cdf(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _normal_cdf(value, self.loc, self.scale)

    def icdf(self, value: Any) -> Tensor:
        return _normal_icdf(value, self.loc, self.scale)

    def entropy(self) -> Tensor:
        return self.scale.log() + (0.5 + _HALF_LOG_2PI)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        variance = self.variance
        return self.loc / variance, -0.5 * variance.reciprocal()

    def _log_normalizer(self, x: Any, y: Any) -> Any:  # type: ignore[override]
        return -0.25 * x.square() / y + 0.5 * (-math.pi / y).log()
