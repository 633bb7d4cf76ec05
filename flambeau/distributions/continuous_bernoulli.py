"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import Size
from ..operations.random.random import rand
from . import constraints
from ._fused import fn, fused, softplus
from ._probs import ByProbsOrLogits
from .exp_family import ExponentialFamily
from .utils import clamp_probs, lazy_property, logits_to_probs

__all__ = ["ContinuousBernoulli"]


def _cut(probs: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """Whether the closed forms hold, which lose their digits around 1/2, and probabilities at which they do."""
    apart = (probs <= low) | (probs > high)
    return apart, fn.where(apart, probs, low)


def _odds(probs: Any) -> Any:
    """log(1 - p) - log p."""
    return fn.log1p(-probs) - fn.log(probs)


def _log_norm(probs: Any, low: Any, high: Any) -> Any:
    apart, p = _cut(probs, low, high)
    below = p <= 0.5
    width = fn.where(
        below, fn.log1p(-2.0 * fn.where(below, p, 0.0)), fn.log(2.0 * fn.where(below, 1.0, p) - 1.0)
    )
    x = (probs - 0.5) * (probs - 0.5)
    near = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
    return fn.where(apart, fn.log(fn.absolute(_odds(p))) - width, near)


def _mean(probs: Any, low: Any, high: Any) -> Any:
    apart, p = _cut(probs, low, high)
    x = probs - 0.5
    near = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * (x * x)) * x
    return fn.where(apart, p / (2.0 * p - 1.0) + 1.0 / _odds(p), near)


def _bend(x: Any, probs: Any) -> tuple[Any, Any]:
    """The next two terms of the quantile's series in the log odds, which are 0 at 1/2."""
    logit, spread = -_odds(probs), x * (1.0 - x)
    return 0.5 * logit * spread, logit * logit * spread * (1.0 - 2.0 * x) * (1.0 / 6.0)


@fused
def _cb_log_norm(probs, *, low, high):
    return _log_norm(probs, low, high)


@fused
def _cb_mean(probs, *, low, high):
    return _mean(probs, low, high)


@fused
def _cb_variance(probs, *, low, high):
    apart, p = _cut(probs, low, high)
    x = (probs - 0.5) * (probs - 0.5)
    width, odds = 1.0 - 2.0 * p, _odds(p)
    near = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x
    return fn.where(apart, p * (p - 1.0) / (width * width) + 1.0 / (odds * odds), near)


@fused
def _cb_log_prob(value, logits, log_norm):
    return value * logits - softplus(logits) + log_norm


@fused
def _cb_cdf(value, probs, *, low, high):
    apart, p = _cut(probs, low, high)
    inside = (value > 0) & (value < 1)
    x = fn.where(inside, value, 0.5)
    result = (fn.exp(x * fn.log(p) + (1.0 - x) * fn.log1p(-p)) + p - 1.0) / (2.0 * p - 1.0)
    slope, curve = _bend(x, probs)
    ends = fn.where(value <= 0, fn.like(value, 0.0), fn.where(value >= 1, fn.like(value, 1.0), value))
    return fn.where(inside, fn.where(apart, result, x - slope + 0.5 * curve), ends)


@fused
def _cb_icdf(value, probs, *, low, high):
    apart, p = _cut(probs, low, high)
    slope, curve = _bend(value, probs)
    result = (fn.log1p(-p) - fn.log1p(-p + value * (2.0 * p - 1.0))) / _odds(p)
    return fn.where(apart, result, value + slope + curve)


@fused
def _cb_entropy(probs, *, low, high):
    return _mean(probs, low, high) * _odds(probs) - _log_norm(probs, low, high) - fn.log1p(-probs)


@fused
def _cb_log_normalizer(logits, *, low, high):
    apart = (logits <= low) | (logits > high)
    x = fn.where(apart, logits, low)
    square = logits * logits
    near = 0.5 * logits + square * (1.0 / 24.0) - square * square * (1.0 / 2880.0)
    return fn.where(apart, fn.log(fn.absolute(fn.expm1(x))) - fn.log(fn.absolute(x)), near)


class ContinuousBernoulli(ByProbsOrLogits, ExponentialFamily):
    """The continuous Bernoulli distribution over [0, 1] with parameter `probs` or its log odds `logits`, of shape batch.

    Density C(p) p^x (1 - p)^(1 - x) with C(p) = 2 artanh(1 - 2p) / (1 - 2p), 2 at p = 1/2 (Loaiza-Ganem and Cunningham, 2019, The
    continuous Bernoulli).  Between `lims` Taylor series stand for the closed forms.  `probs` is clamped into (0, 1), and is not
    the mean.  ValueError where not just one of `probs` and `logits` is given.

    >>> import flambeau
    >>> from flambeau.distributions import ContinuousBernoulli
    >>> pixel = ContinuousBernoulli(flambeau.tensor([0.25, 0.5]))
    >>> pixel.mean, pixel.log_prob(flambeau.tensor(0.0)).exp()
    (tensor([0.4102, 0.5000]), tensor([1.6479, 1.0000]))
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # type: ignore[assignment]
    support = constraints.unit_interval  # type: ignore[assignment]
    _mean_carrier_measure = 0
    has_rsample = True

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._set_one_of(probs, logits)
        self._lims = lims
        super().__init__(self._param.shape, validate_args=validate_args)  # checks what was given
        if probs is not None:
            self.probs = self._param = clamp_probs(self.probs)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._expanded_one_of(ContinuousBernoulli, batch_shape, _instance)
        new._lims = self._lims
        return new

    @lazy_property
    def probs(self) -> Tensor:
        """The parameter λ, in (0, 1)."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _cont_bern_log_norm(self) -> Any:
        """log C(p)."""
        return _cb_log_norm(self.probs, *self._lims)

    @property
    def mean(self) -> Tensor:
        return _cb_mean(self.probs, *self._lims)

    @property
    def variance(self) -> Tensor:
        return _cb_variance(self.probs, *self._lims)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        noise = rand(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device)
        return self.icdf(noise)

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _cb_log_prob(
            value, self.logits, self._cont_bern_log_norm()
        )  # which few parameters make for many values

    def cdf(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _cb_cdf(value, self.probs, *self._lims)

    def icdf(self, value: Any) -> Tensor:
        return _cb_icdf(value, self.probs, *self._lims)

    def entropy(self) -> Tensor:
        return _cb_entropy(self.probs, *self._lims)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Any) -> Any:  # type: ignore[override]
        low, high = self._lims
        return _cb_log_normalizer(x, low - 0.5, high - 0.5)
