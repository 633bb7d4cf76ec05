"""The Kumaraswamy distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import Size
from ..core.make.create import ones_like, zeros_like
from . import constraints
from ._draws import exponential_noise
from ._fused import fn, fused, made_of, xlog1py, xlogy
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant, settled_property

__all__ = ["Kumaraswamy"]


@fused
def _kumaraswamy_of_exponential(noise, a, b):
    """The quantile at 1 - exp(-noise)."""
    return fn.pow(-fn.expm1(-noise / b), 1.0 / a)


@fused
def _kumaraswamy_log_prob(value, a, b):
    return fn.log(a) + fn.log(b) + xlogy(a - 1.0, value) + xlog1py(b - 1.0, -fn.pow(value, a))


@fused
def _kumaraswamy_cdf(value, a, b):
    return 1.0 - fn.pow(1.0 - fn.pow(value, a), b)


def _moment(a: Any, b: Any, n: float) -> Any:
    """E[x^n] = b B(1 + n/a, b)."""
    first = 1.0 + n / a
    return b * fn.exp(fn.lgamma(first) + fn.lgamma(b) - fn.lgamma(first + b))


@fused
def _kumaraswamy_mean(a, b):
    return _moment(a, b, 1.0)


@fused
def _kumaraswamy_variance(a, b):
    mean = _moment(a, b, 1.0)
    return _moment(a, b, 2.0) - mean * mean


@fused
def _kumaraswamy_mode(a, b):
    inside = (a >= 1) & (b >= 1)
    p, q = fn.where(inside, a, 2.0), fn.where(inside, b, 2.0)
    return fn.where(inside, fn.pow((p - 1.0) / (p * q - 1.0), 1.0 / p), math.nan)


@fused
def _kumaraswamy_entropy(a, b):
    harmonic = fn.digamma(b + 1.0) + euler_constant
    return (1.0 - 1.0 / b) + (1.0 - 1.0 / a) * harmonic - fn.log(a) - fn.log(b)


class Kumaraswamy(TransformedDistribution):
    """The Kumaraswamy distribution over [0, 1] with `concentration1` a and `concentration0` b, which broadcast: the batch.

    Density a b x^(a-1) (1 - x^a)^(b-1) (Jones, 2009, Kumaraswamy's distribution).  The mode is NaN where a or b is below 1.

    Raises:
        ValueError: a parameter lies outside of its constraint, where arguments are validated

    >>> import flambeau
    >>> from flambeau.distributions import Kumaraswamy
    >>> share = Kumaraswamy(flambeau.tensor([1.0, 2.0]), 2.0)
    >>> share.mean, share.cdf(flambeau.tensor(0.5))
    (tensor([0.3333, 0.5333]), tensor([0.7500, 0.4375]))
    """

    arg_constraints = {  # type: ignore[assignment]
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True  # type: ignore[assignment]

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        Distribution.__init__(self, self.concentration1.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded(Kumaraswamy, batch_shape, _instance, "concentration1", "concentration0")

    @settled_property
    def base_dist(self) -> Any:
        like = self.concentration0
        return Uniform(zeros_like(like), ones_like(like), validate_args=False)

    @settled_property
    def transforms(self) -> Any:
        return [
            PowerTransform(self.concentration0.reciprocal()),
            AffineTransform(1.0, -1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]

    @property
    def mean(self) -> Tensor:
        return _kumaraswamy_mean(self.concentration1, self.concentration0)

    @property
    def mode(self) -> Tensor:
        return _kumaraswamy_mode(self.concentration1, self.concentration0)

    @property
    def variance(self) -> Tensor:
        return _kumaraswamy_variance(self.concentration1, self.concentration0)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        like = self.concentration1
        noise = exponential_noise(self._extended_shape(sample_shape), like)
        return made_of(_kumaraswamy_of_exponential, noise, self.concentration1, self.concentration0)

    sample = Distribution.sample

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _kumaraswamy_log_prob(value, self.concentration1, self.concentration0)

    def cdf(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _kumaraswamy_cdf(value, self.concentration1, self.concentration0)

    def icdf(self, value: Any) -> Tensor:
        return _kumaraswamy_of_exponential(-(-value).log1p(), self.concentration1, self.concentration0)

    def entropy(self) -> Tensor:
        return _kumaraswamy_entropy(self.concentration1, self.concentration0)
