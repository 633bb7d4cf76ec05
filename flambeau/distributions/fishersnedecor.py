"""The distribution of Fisher and Snedecor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import Size
from ..core.base.typeinfo import finfo
from ..operations.random.sampled import standard_gamma
from . import constraints
from ._fused import fn, fused, vanishing, xlogy
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["FisherSnedecor"]


@fused
def _quotient(first, second, df1, df2, *, least):
    """(first / df1) / (second / df2), neither it nor the divisor 0."""
    return fn.maximum(first / df1 / fn.maximum(second / df2, least), least)


@fused
def _fisher_normalizer(df1, df2):
    a, b = 0.5 * df1, 0.5 * df2
    return fn.lgamma(a) + fn.lgamma(b) - fn.lgamma(a + b) - a * fn.log(df1 / df2)


@fused
def _fisher_log_prob(value, df1, df2, normalizer):
    a, b = 0.5 * df1, 0.5 * df2
    return vanishing(value, xlogy(a - 1.0, value) - (a + b) * fn.log1p(df1 / df2 * value) - normalizer)


@fused
def _fisher_mean(df2):
    return fn.where(df2 <= 2.0, math.nan, df2 / (df2 - 2.0))


@fused
def _fisher_mode(df1, df2):
    return fn.where(df1 <= 2.0, math.nan, (df1 - 2.0) / df1 * df2 / (df2 + 2.0))


@fused
def _fisher_variance(df1, df2):
    mean = df2 / (df2 - 2.0)
    return fn.where(df2 <= 4.0, math.nan, 2.0 * mean * mean * (df1 + df2 - 2.0) / (df1 * (df2 - 4.0)))


class FisherSnedecor(Distribution):
    """The F-distribution: quotients of two chi-squared numbers over their degrees of freedom, `df1` and `df2`, which broadcast.

    Density (df1/df2)^(df1/2) x^(df1/2 - 1) (1 + x df1/df2)^(-(df1 + df2)/2) / B(df1/2, df2/2) over x > 0 (Johnson, Kotz,
    Balakrishnan, Continuous Univariate Distributions, chapter 27).  The mean is NaN up to df2 = 2, the variance up to df2 = 4,
    the mode up to df1 = 2.

    Raises:
        ValueError: a parameter lies outside of its constraint, where arguments are validated

    >>> import flambeau
    >>> from flambeau.distributions import FisherSnedecor
    >>> FisherSnedecor(2.0, flambeau.tensor([2.0, 4.0])).mean
    tensor([nan, 2.])
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}  # type: ignore[assignment]
    support = constraints.positive  # type: ignore[assignment]
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded(FisherSnedecor, batch_shape, _instance, "df1", "df2")

    @property
    def mean(self) -> Tensor:
        return _fisher_mean(self.df2)

    @property
    def mode(self) -> Tensor:
        return _fisher_mode(self.df1, self.df2)

    @property
    def variance(self) -> Tensor:
        return _fisher_variance(self.df1, self.df2)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        first = standard_gamma((self.df1 * 0.5).expand(shape))
        second = standard_gamma((self.df2 * 0.5).expand(shape))
        return _quotient(first, second, self.df1, self.df2, finfo(first.dtype).tiny)

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _fisher_log_prob(value, self.df1, self.df2, _fisher_normalizer(self.df1, self.df2))
