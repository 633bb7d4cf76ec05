"""Student's t-distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core import tape
from ..core.base.dtypes import Size
from ..core.base.typeinfo import finfo
from ..operations.random.sampled import standard_gamma
from . import constraints
from ._fused import fn, fused, log1p_square
from .distribution import Distribution
from .utils import _standard_normal, broadcast_all

__all__ = ["StudentT"]


@fused
def _student(normal, gamma, df, loc, scale, *, least):
    """loc + scale · z / √(χ² / df), χ² twice a gamma number."""
    return loc + scale * normal * fn.sqrt(0.5 * df / fn.maximum(gamma, least))


@fused
def _student_normalizer(df, scale):
    half = 0.5 * df
    return fn.log(scale) + 0.5 * fn.log(df * math.pi) + fn.lgamma(half) - fn.lgamma(half + 0.5)


@fused
def _student_log_prob(value, df, loc, scale, normalizer):
    y = (value - loc) / scale
    return -0.5 * (df + 1.0) * log1p_square(y / fn.sqrt(df)) - normalizer


@fused
def _student_mean(df, loc):
    return fn.where(df <= 1.0, math.nan, loc)


@fused
def _student_variance(df, scale):
    result = scale * scale * df / (df - 2.0)
    return fn.where(df > 2.0, result, fn.where(df > 1.0, fn.like(df, math.inf), fn.like(df, math.nan)))


@fused
def _student_entropy(df, scale):
    half = 0.5 * df
    slopes = fn.digamma(half + 0.5) - fn.digamma(half)
    return (
        fn.log(scale) + (half + 0.5) * slopes + 0.5 * fn.log(df)
        + fn.lgamma(half) + math.lgamma(0.5) - fn.lgamma(half + 0.5)
    )  # fmt: skip


class StudentT(Distribution):
    """Student's t-distribution with `df` degrees of freedom, moved by `loc` and stretched by `scale`, which broadcast: the batch.

    Density Γ((df + 1)/2) / (Γ(df/2) √(π df) scale) · (1 + y²/df)^(-(df + 1)/2), y = (x - loc) / scale (Johnson, Kotz,
    Balakrishnan, Continuous Univariate Distributions, chapter 28).  The mean is NaN up to df = 1, where the variance is, too;
    it is infinite up to df = 2.

    Raises:
        ValueError: a parameter lies outside of its constraint, where arguments are validated

    >>> import flambeau
    >>> from flambeau.distributions import StudentT
    >>> StudentT(flambeau.tensor([1.0, 3.0])).log_prob(flambeau.tensor(0.0))
    tensor([-1.1447, -1.0009])
    """

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}  # type: ignore[assignment]
    support = constraints.real  # type: ignore[assignment]
    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded(StudentT, batch_shape, _instance, "df", "loc", "scale")

    @property
    def mean(self) -> Tensor:
        return _student_mean(self.df, self.loc)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return _student_variance(self.df, self.scale)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        df, loc, scale = self.df, self.loc, self.scale
        noise = _standard_normal(shape, dtype=df.dtype, device=df.device)
        gamma = standard_gamma((0.5 * df).expand(shape))
        least = finfo(noise.dtype).tiny
        if tape.tracked(df, loc, scale) or not df.dtype == loc.dtype == scale.dtype:
            return _student(noise, gamma, df, loc, scale, least)
        return _student(noise, gamma, df, loc, scale, least, out=noise)

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        df, scale = self.df, self.scale
        return _student_log_prob(value, df, self.loc, scale, _student_normalizer(df, scale))

    def entropy(self) -> Tensor:
        return _student_entropy(self.df, self.scale)
