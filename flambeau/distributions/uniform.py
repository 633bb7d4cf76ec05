"""The uniform distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import Size
from ..operations.random.random import rand
from . import constraints
from ._fused import fn, fused, made_of
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["Uniform"]


@fused
def _between(noise, low, high):
    return low + noise * (high - low)


@fused
def _uniform_log_prob(value, low, high):
    inside = (low <= value) & (value < high)
    return fn.where(inside, fn.like(low, 0.0), fn.like(low, -math.inf)) - fn.log(high - low)


@fused
def _uniform_cdf(value, low, high):
    share = (value - low) / (high - low)
    return fn.where(share < 0, fn.like(share, 0.0), fn.where(share > 1, fn.like(share, 1.0), share))


class Uniform(Distribution):
    """The uniform distribution over [`low`, `high`), which broadcast: the batch.

    Density 1 / (high - low) (Johnson, Kotz, Balakrishnan, Continuous Univariate Distributions, chapter 26).

    Raises:
        ValueError: a parameter lies outside of its constraint, where arguments are validated

    >>> import flambeau
    >>> from flambeau.distributions import Uniform
    >>> uniform = Uniform(0.0, flambeau.tensor([2.0, 4.0]))
    >>> uniform.mean, uniform.cdf(flambeau.tensor(1.0))
    (tensor([1., 2.]), tensor([0.5000, 0.2500]))
    """

    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded(Uniform, batch_shape, _instance, "low", "high")

    @property
    def arg_constraints(self) -> dict[str, Any]:
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        return math.nan * self.high

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low).square() / 12

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        noise = rand(self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device)
        return made_of(_between, noise, self.low, self.high)

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        result = _uniform_log_prob(value, self.low, self.high)
        return result if result.dtype is self.low.dtype else result.to(self.low.dtype)

    def cdf(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _uniform_cdf(value, self.low, self.high)

    def icdf(self, value: Any) -> Tensor:
        return _between(value, self.low, self.high)

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()
