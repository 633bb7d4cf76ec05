"""The Pareto distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import Size
from ..core.make.create import empty
from . import constraints
from ._fused import fn, fused, made_of
from .distribution import Distribution
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .utils import broadcast_all, settled_property

__all__ = ["Pareto"]


@fused
def _pareto_of_exponential(noise, scale, alpha):
    return scale * fn.exp(noise / alpha)


@fused
def _pareto_log_prob(value, scale, alpha):
    return fn.log(alpha) - alpha * fn.log(value / scale) - fn.log(value)


@fused
def _pareto_cdf(value, scale, alpha):
    return -fn.expm1(-(alpha * fn.log(value / scale)))


@fused
def _pareto_mean(scale, alpha):
    a = fn.where(alpha < 1, 1.0, alpha)
    return a * scale / (a - 1.0)


@fused
def _pareto_variance(scale, alpha):
    a = fn.where(alpha < 2, 2.0, alpha)
    return scale * scale * a / ((a - 1.0) * (a - 1.0) * (a - 2.0))


class Pareto(TransformedDistribution):
    """The Pareto distribution (type 1) of values from `scale` on, with exponent `alpha`, which broadcast: the batch.

    Density alpha scale^alpha / x^(alpha + 1) for x >= scale; the mean is infinite up to alpha = 1, the variance up to 2 (Johnson,
    Kotz, Balakrishnan, Continuous Univariate Distributions, chapter 20).

    Raises:
        ValueError: a parameter lies outside of its constraint, where arguments are validated

    >>> import flambeau
    >>> from flambeau.distributions import Pareto
    >>> wealth = Pareto(1.0, flambeau.tensor([1.0, 3.0]))
    >>> wealth.mean, wealth.cdf(flambeau.tensor(2.0))
    (tensor([   inf, 1.5000]), tensor([0.5000, 0.8750]))
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}  # type: ignore[assignment]
    has_rsample = True  # type: ignore[assignment]

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        Distribution.__init__(self, self.scale.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded(Pareto, batch_shape, _instance, "scale", "alpha")

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    @settled_property
    def base_dist(self) -> Any:
        return Exponential(self.alpha, validate_args=False)

    @settled_property
    def transforms(self) -> Any:
        return [ExpTransform(), AffineTransform(0, self.scale)]

    @property
    def mean(self) -> Tensor:
        return _pareto_mean(self.scale, self.alpha)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return _pareto_variance(self.scale, self.alpha)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        noise = empty(self._extended_shape(sample_shape), dtype=self.scale.dtype, device=self.scale.device)
        return made_of(_pareto_of_exponential, noise.exponential_(), self.scale, self.alpha)

    sample = Distribution.sample

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _pareto_log_prob(value, self.scale, self.alpha)

    def cdf(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _pareto_cdf(value, self.scale, self.alpha)

    def icdf(self, value: Any) -> Tensor:
        return _pareto_of_exponential(-(-value).log1p(), self.scale, self.alpha)

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())
