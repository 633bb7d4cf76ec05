"""The inverse gamma distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import Size
from . import constraints
from ._fused import fn, fused
from .gamma import Gamma, _gamma_normalizer
from .transformed_distribution import TransformedDistribution
from .transforms import PowerTransform

__all__ = ["InverseGamma"]


@fused
def _inverse_gamma_log_prob(value, concentration, rate, normalizer):
    return -(concentration + 1.0) * fn.log(value) - rate / value - normalizer


@fused
def _inverse_gamma_mean(concentration, rate):
    return fn.where(concentration > 1.0, rate / (concentration - 1.0), math.inf)


@fused
def _inverse_gamma_variance(concentration, rate):
    mean = rate / (concentration - 1.0)
    return fn.where(concentration > 2.0, mean * mean / (concentration - 2.0), math.inf)


@fused
def _inverse_gamma_entropy(concentration, rate):
    a = concentration
    return a + fn.log(rate) + fn.lgamma(a) - (1.0 + a) * fn.digamma(a)


class InverseGamma(TransformedDistribution):
    """The distribution of 1 / x for x of Gamma(concentration, rate), parameters that broadcast: the batch.

    Density rate^a x^(-a-1) exp(-rate / x) / Γ(a) over x > 0, a the concentration (Johnson, Kotz, Balakrishnan, Continuous
    Univariate Distributions, chapter 17).  The mean is infinite up to a = 1, the variance up to a = 2.

    Raises:
        ValueError: a parameter lies outside of its constraint, where arguments are validated

    >>> import flambeau
    >>> from flambeau.distributions import InverseGamma
    >>> InverseGamma(flambeau.tensor([1.0, 3.0]), 2.0).mean
    tensor([inf, 1.])
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}  # type: ignore[assignment]
    support = constraints.positive  # type: ignore[assignment]
    has_rsample = True  # type: ignore[assignment]
    base_dist: Gamma

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-base.rate.new_ones(())), validate_args=False)
        self._validate_args = base._validate_args  # the base has checked the parameters

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(InverseGamma, _instance))

    @property
    def concentration(self) -> Any:
        """The gamma distribution's shape."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Any:
        """The gamma distribution's rate, which is this one's scale."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        return _inverse_gamma_mean(self.concentration, self.rate)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        return _inverse_gamma_variance(self.concentration, self.rate)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        return self.base_dist.rsample(sample_shape).reciprocal()

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        return self.base_dist.sample(sample_shape).reciprocal_()

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a, rate = self.concentration, self.rate
        return _inverse_gamma_log_prob(value, a, rate, _gamma_normalizer(a, rate))

    def entropy(self) -> Tensor:
        return _inverse_gamma_entropy(self.concentration, self.rate)
