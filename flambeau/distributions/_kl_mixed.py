"""Divergences between distributions of the beta, gamma and Poisson families and others."""

from __future__ import annotations

import math
from typing import Any

from ._fused import fn, xlogy
from ._kl_pairs import infinite, pair
from ._kl_registry import register_kl
from ._kl_univariate import _cross_normal, _cross_uniform_of_unit
from .bernoulli import Bernoulli
from .beta import Beta
from .continuous_bernoulli import ContinuousBernoulli
from .exponential import Exponential
from .gamma import Gamma
from .gumbel import Gumbel
from .laplace import Laplace
from .normal import Normal
from .pareto import Pareto
from .poisson import Poisson
from .uniform import Uniform
from .utils import euler_constant

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


@register_kl(Bernoulli, Poisson)
def _kl_bernoulli_poisson(p, q):
    return q.rate - p.probs * q.rate.log() - p.entropy()


@register_kl(Beta, ContinuousBernoulli)
def _kl_beta_continuous_bernoulli(p, q):
    return -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._cont_bern_log_norm()


@register_kl(Beta, Exponential)
def _kl_beta_exponential(p, q):
    return q.rate * p.mean - q.rate.log() - p.entropy()


@register_kl(Beta, Normal)
def _kl_beta_normal(p, q):
    return _cross_normal(p.mean, p.variance, q.loc, q.scale) - p.entropy()


@register_kl(Beta, Uniform)
def _kl_beta_uniform(p, q):
    return _cross_uniform_of_unit(p.entropy(), q.low, q.high)


@pair(Exponential, Gamma)
def _(p_rate, q_concentration, q_rate):
    ratio = q_rate / p_rate
    return (
        ratio
        - q_concentration * fn.log(ratio)
        + fn.lgamma(q_concentration)
        + q_concentration * euler_constant
        - (1 + euler_constant)
    )


def _minus_gamma_entropy(concentration: Any, rate: Any) -> Any:
    slope = (concentration - 1.0) * fn.digamma(concentration)
    return slope - concentration + fn.log(rate) - fn.lgamma(concentration)


@pair(Gamma, Exponential)
def _(p_concentration, p_rate, q_rate):
    cross = q_rate * p_concentration / p_rate - fn.log(q_rate)
    return _minus_gamma_entropy(p_concentration, p_rate) + cross


@pair(Gamma, Gumbel)
def _(p_concentration, p_rate, q_loc, q_scale):
    product, place = p_rate * q_scale, q_loc / q_scale
    expected = fn.exp(place - p_concentration * fn.log1p(1.0 / product))
    cross = fn.log(q_scale) + p_concentration / product - place + expected
    return _minus_gamma_entropy(p_concentration, p_rate) + cross


@pair(Gamma, Normal)
def _(p_concentration, p_rate, q_loc, q_scale):
    apart = p_concentration / p_rate - q_loc
    squares = p_concentration / (p_rate * p_rate) + apart * apart
    cross = squares / (2.0 * q_scale * q_scale) + fn.log(q_scale) + _HALF_LOG_2PI
    return _minus_gamma_entropy(p_concentration, p_rate) + cross


@pair(Pareto, Gamma)
def _(p_scale, p_alpha, q_concentration, q_rate):
    finite = p_alpha > 1
    a = fn.where(finite, p_alpha, 2.0)
    log_mean = fn.log(p_scale) + 1.0 / a
    entropy = 1.0 + log_mean - fn.log(a)
    normaliser = fn.lgamma(q_concentration) - q_concentration * fn.log(q_rate)
    cross = normaliser + (1.0 - q_concentration) * log_mean + q_rate * a * p_scale / (a - 1.0)
    return fn.where(finite, cross - entropy, math.inf)


def _log_mean(low: Any, high: Any) -> Any:
    """The mean of log x over [low, high], where low is not below 0."""
    width = high - low
    return (xlogy(high, high) - xlogy(low, low) - width) / width


@pair(Uniform, Beta)
def _(p_low, p_high, q_concentration1, q_concentration0):
    a, b = q_concentration1, q_concentration0
    outside = (p_low < 0) | (p_high > 1)
    low, high = fn.where(outside, 0.0, p_low), fn.where(outside, 1.0, p_high)
    normaliser = fn.lgamma(a) + fn.lgamma(b) - fn.lgamma(a + b)
    logs = (a - 1.0) * _log_mean(low, high) + (b - 1.0) * _log_mean(1.0 - high, 1.0 - low)
    return fn.where(outside, math.inf, normaliser - logs - fn.log(high - low))


@pair(Uniform, Gamma)
def _(p_low, p_high, q_concentration, q_rate):
    outside = p_low < 0
    low, high = fn.where(outside, 0.0, p_low), fn.where(outside, 1.0, p_high)
    normaliser = fn.lgamma(q_concentration) - q_concentration * fn.log(q_rate)
    cross = normaliser + (1.0 - q_concentration) * _log_mean(low, high) + q_rate * (high + low) * 0.5
    return fn.where(outside, math.inf, cross - fn.log(high - low))


infinite(Beta, Pareto)
infinite(Exponential, Beta)
infinite(Gamma, ContinuousBernoulli, Pareto, Uniform)
infinite(Gumbel, Beta, Gamma)
infinite(Laplace, Beta, Gamma)
infinite(Normal, Beta, Gamma)
infinite(Pareto, Beta)
infinite(Poisson, Bernoulli)
