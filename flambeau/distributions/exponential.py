"""The exponential distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import Size
from ..core.make.create import empty, zeros_like
from . import constraints
from ._fused import fn, fused, made_of
from .exp_family import ExponentialFamily
from .utils import broadcast_all

__all__ = ["Exponential"]


@fused
def _over(noise, rate):
    return noise / rate


@fused
def _exponential_log_prob(value, rate):
    return fn.log(rate) - rate * value


@fused
def _exponential_cdf(value, rate):
    return -fn.expm1(-(rate * value))


@fused
def _exponential_icdf(value, rate):
    return -fn.log1p(-value) / rate


class Exponential(ExponentialFamily):
    """The exponential distribution with `rate`, 1 / mean, of shape batch.

    Density rate · exp(-rate x) for x >= 0 (Johnson, Kotz, Balakrishnan, Continuous Univariate Distributions, chapter 19).

    Raises:
        ValueError: a parameter lies outside of its constraint, where arguments are validated

    >>> import flambeau
    >>> from flambeau.distributions import Exponential
    >>> exponential = Exponential(flambeau.tensor([1.0, 2.0]))
    >>> exponential.mean, exponential.log_prob(flambeau.tensor(1.0))
    (tensor([1.0000, 0.5000]), tensor([-1.0000, -1.3069]))
    """

    arg_constraints = {"rate": constraints.positive}  # type: ignore[assignment]
    support = constraints.nonnegative  # type: ignore[assignment]
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded(Exponential, batch_shape, _instance, "rate")

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        noise = empty(self._extended_shape(sample_shape), dtype=self.rate.dtype, device=self.rate.device)
        return made_of(_over, noise.exponential_(), self.rate)

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _exponential_log_prob(value, self.rate)

    def cdf(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _exponential_cdf(value, self.rate)

    def icdf(self, value: Any) -> Tensor:
        return _exponential_icdf(value, self.rate)

    def entropy(self) -> Tensor:
        return 1.0 - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (-self.rate,)

    def _log_normalizer(self, x: Any) -> Any:  # type: ignore[override]
        return -(-x).log()
