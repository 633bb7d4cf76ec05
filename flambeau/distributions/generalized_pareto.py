"""The generalised Pareto distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import Size
from ..core.make.create import empty
from . import constraints
from ._draws import in_turn
from ._fused import fn, fused, made_of, vanishing
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["GeneralizedPareto"]


def _is_exponential(concentration: Any) -> Any:
    """Whether the concentration is so near to 0 that the first two terms of its series stand for the closed forms."""
    return fn.absolute(concentration) <= 1e-8


def _apart_from_zero(concentration: Any) -> Any:
    return fn.where(_is_exponential(concentration), 1.0, concentration)


@fused
def _gpd_log_survival(value, loc, scale, concentration):
    z = (value - loc) / scale
    safe = _apart_from_zero(concentration)
    near = vanishing(z, 0.5 * concentration * (z * z) - z)
    return fn.where(_is_exponential(concentration), near, -fn.log1p(safe * z) / safe)


@fused
def _gpd_log_prob(value, loc, scale, concentration):
    z = (value - loc) / scale
    safe = _apart_from_zero(concentration)
    y = 1.0 / safe + 1.0
    other = fn.where(y == 0, y, y * fn.log1p(fn.where(y == 0, 0.0, safe * z)))
    near = z + concentration * (z - 0.5 * (z * z))
    return vanishing(value, -fn.log(scale) - fn.where(_is_exponential(concentration), near, other))


@fused
def _gpd_from_exponential(noise, loc, scale, concentration):
    """The quantile at 1 - exp(-noise)."""
    safe = _apart_from_zero(concentration)
    curved = scale / safe * fn.expm1(safe * noise)
    near = scale * (noise + 0.5 * concentration * (noise * noise))
    return loc + fn.where(_is_exponential(concentration), near, curved)


@fused
def _gpd_mean(loc, scale, concentration):
    valid = concentration < 1
    return fn.where(valid, loc + scale / (1.0 - fn.where(valid, concentration, 0.5)), fn.like(loc, math.nan))


@fused
def _gpd_variance(scale, concentration):
    valid = concentration < 0.5
    safe = fn.where(valid, concentration, 0.25)
    result = scale * scale / ((1.0 - safe) * (1.0 - safe) * (1.0 - 2.0 * safe))
    return fn.where(valid, result, fn.like(scale, math.nan))


@fused
def _gpd_end(loc, scale, concentration):
    below = concentration < 0
    return fn.where(below, loc - scale / fn.where(below, concentration, -1.0), fn.like(loc, math.inf))


class GeneralizedPareto(Distribution):
    """The generalised Pareto distribution with `loc`, `scale` and `concentration` c, which broadcast: the batch.

    Density (1 + c z)^(-1/c - 1) / scale, z = (x - loc) / scale, for z >= 0 and, where c < 0, z <= -1/c; exp(-z) / scale where c
    is 0 (Coles, 2001, An Introduction to Statistical Modeling of Extreme Values, chapter 4).  The mean is NaN from c = 1, the
    variance from c = 1/2.

    Raises:
        ValueError: a parameter lies outside of its constraint, where arguments are validated

    >>> import flambeau
    >>> from flambeau.distributions import GeneralizedPareto
    >>> tail = GeneralizedPareto(0.0, 1.0, flambeau.tensor([-1.0, 0.0, 0.5]))
    >>> tail.cdf(flambeau.tensor(0.5))
    tensor([0.5000, 0.3935, 0.3600])
    """

    arg_constraints = {  # type: ignore[assignment]
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded(GeneralizedPareto, batch_shape, _instance, "loc", "scale", "concentration")

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.interval(self.loc, _gpd_end(*self._all))

    @property
    def _all(self) -> tuple[Any, Any, Any]:
        return self.loc, self.scale, self.concentration

    @property
    def mean(self) -> Tensor:
        return _gpd_mean(*self._all)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return _gpd_variance(self.scale, self.concentration)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        noise = empty(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        # PyTorch draws the quantiles' places, where its numbers are wanted.
        noise = -(-noise.uniform_()).log1p() if in_turn(self.loc) else noise.exponential_()
        return made_of(_gpd_from_exponential, noise, *self._all)

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _gpd_log_prob(value, *self._all)

    def log_survival_function(self, value: Any) -> Any:
        """The logarithm of the probability of values above `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return _gpd_log_survival(value, *self._all)

    def log_cdf(self, value: Any) -> Any:
        """The logarithm of the probability of values up to `value`."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Any) -> Tensor:
        return -self.log_survival_function(value).expm1()

    def icdf(self, value: Any) -> Tensor:
        return _gpd_from_exponential(-(-value).log1p(), *self._all)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1
