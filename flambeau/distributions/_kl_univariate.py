"""Divergences of univariate distributions that need no gamma function, of categorical ones, and of what is made of others.

Where no source is named, the formula is E_p[log p - log q] written out; Gil, Alajaji, Linder (2013, Rényi divergence measures
for commonly used univariate continuous distributions) have most of those within a family.
"""

from __future__ import annotations

import math
from typing import Any

from ..autograd.grad_mode import enable_grad
from ._fused import fn, fused, softplus, xlogy
from ._kl_pairs import infinite, pair
from ._kl_registry import kl_divergence, register_kl
from .bernoulli import Bernoulli
from .categorical import Categorical
from .cauchy import Cauchy
from .continuous_bernoulli import ContinuousBernoulli
from .exp_family import ExponentialFamily, on_tape_of
from .exponential import Exponential
from .geometric import Geometric
from .gumbel import Gumbel
from .half_normal import HalfNormal
from .independent import Independent
from .laplace import Laplace
from .normal import Normal
from .one_hot_categorical import OneHotCategorical
from .pareto import Pareto
from .transformed_distribution import TransformedDistribution
from .uniform import Uniform
from .utils import _sum_rightmost, euler_constant

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


# --- within a family ---------------------------------------------------------------------------------------------------
@pair(Bernoulli, Bernoulli)
def _(p_probs, p_logits, q_probs, q_logits):
    one = _share(p_probs, softplus(-q_logits) - softplus(-p_logits), q_probs == 0)
    zero = _share(1.0 - p_probs, softplus(q_logits) - softplus(p_logits), q_probs == 1)
    return one + zero


def _share(probability: Any, difference: Any, never: Any) -> Any:
    """The part of a value with that probability under p, where log p - log q is the difference, unless q never has it."""
    return fn.where(probability == 0, 0.0, fn.where(never, math.inf, probability * difference))


@fused
def _categorical_shares(p_probs, p_logits, q_probs, q_logits):
    return _share(p_probs, p_logits - q_logits, q_probs == 0)


@register_kl(Categorical, Categorical)
def _kl_categorical_categorical(p, q):
    return _categorical_shares(p.probs, p.logits, q.probs, q.logits).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _kl_onehotcategorical_onehotcategorical(p, q):
    return _kl_categorical_categorical(p._categorical, q._categorical)


@pair(Cauchy, Cauchy)
def _(p_loc, p_scale, q_loc, q_scale):
    """Chyzak and Nielsen (2019), A closed-form formula for the Kullback-Leibler divergence between Cauchy distributions."""
    both, apart = p_scale + q_scale, p_loc - q_loc
    return fn.log((both * both + apart * apart) / (4.0 * p_scale * q_scale))


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _kl_continuous_bernoulli_continuous_bernoulli(p, q):
    of_p = p._cont_bern_log_norm() + (-p.probs).log1p()
    of_q = q._cont_bern_log_norm() + (-q.probs).log1p()
    return p.mean * (p.logits - q.logits) + of_p - of_q


@pair(Exponential, Exponential)
def _(p_rate, q_rate):
    ratio = q_rate / p_rate
    return ratio - 1.0 - fn.log(ratio)


@register_kl(Geometric, Geometric)
def _kl_geometric_geometric(p, q):
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@pair(Gumbel, Gumbel)
def _(p_loc, p_scale, q_loc, q_scale):
    ratio, apart = p_scale / q_scale, (p_loc - q_loc) / q_scale
    expected = fn.exp(fn.lgamma(1.0 + ratio) - apart)
    return apart - fn.log(ratio) + ratio * euler_constant + expected - (1 + euler_constant)


@pair(HalfNormal, HalfNormal)
def _(p_scale, q_scale):
    ratio = p_scale / q_scale
    return 0.5 * (ratio * ratio - 1.0) - fn.log(ratio)


@pair(Laplace, Laplace)
def _(p_loc, p_scale, q_loc, q_scale):
    ratio, apart = p_scale / q_scale, fn.absolute(p_loc - q_loc)
    return apart / q_scale + ratio * fn.exp(-apart / p_scale) - fn.log(ratio) - 1.0


@pair(Normal, Normal)
def _(p_loc, p_scale, q_loc, q_scale):
    ratio, apart = p_scale / q_scale, (p_loc - q_loc) / q_scale
    return 0.5 * (ratio * ratio + apart * apart - 1.0) - fn.log(ratio)


@pair(Pareto, Pareto)
def _(p_scale, p_alpha, q_scale, q_alpha):
    ratio = q_alpha / p_alpha
    result = q_alpha * fn.log(p_scale / q_scale) - fn.log(ratio) + ratio - 1.0
    return fn.where(p_scale < q_scale, math.inf, result)


@pair(Uniform, Uniform)
def _(p_low, p_high, q_low, q_high):
    outside = (q_low > p_low) | (q_high < p_high)
    return fn.where(outside, math.inf, fn.log((q_high - q_low) / (p_high - p_low)))


# --- of other families -------------------------------------------------------------------------------------------------
@register_kl(ContinuousBernoulli, Exponential)
def _kl_continuous_bernoulli_exponential(p, q):
    return -p.entropy() - q.rate.log() + q.rate * p.mean


@fused
def _cross_normal(mean, variance, loc, scale):
    """-E[log q] for q normal."""
    apart = mean - loc
    return (variance + apart * apart) / (2.0 * scale * scale) + fn.log(scale) + _HALF_LOG_2PI


@register_kl(ContinuousBernoulli, Normal)
def _kl_continuous_bernoulli_normal(p, q):
    return _cross_normal(p.mean, p.variance, q.loc, q.scale) - p.entropy()


@fused
def _cross_uniform_of_unit(entropy, low, high):
    return fn.where((low > 0) | (high < 1), math.inf, fn.log(high - low) - entropy)


@register_kl(ContinuousBernoulli, Uniform)
def _kl_continuous_bernoulli_uniform(p, q):
    return _cross_uniform_of_unit(p.entropy(), q.low, q.high)


@pair(Exponential, Gumbel)
def _(p_rate, q_loc, q_scale):
    product, place = p_rate * q_scale, q_loc / q_scale
    return fn.log(product) - 1.0 - place + fn.exp(place) * product / (product + 1.0) + 1.0 / product


@pair(Exponential, Normal)
def _(p_rate, q_loc, q_scale):
    apart = 1.0 / p_rate - q_loc
    variance = 1.0 / (p_rate * p_rate)
    return (
        (variance + apart * apart) / (2.0 * q_scale * q_scale)
        + fn.log(p_rate * q_scale)
        + (_HALF_LOG_2PI - 1)
    )


@pair(Gumbel, Normal)
def _(p_loc, p_scale, q_loc, q_scale):
    ratio = p_scale / q_scale
    apart = (p_loc + p_scale * euler_constant - q_loc) / q_scale
    spread = ratio * ratio * (math.pi**2 / 12)
    return spread + 0.5 * (apart * apart) - fn.log(ratio) + (_HALF_LOG_2PI - euler_constant - 1)


@pair(Laplace, Normal)
def _(p_loc, p_scale, q_loc, q_scale):
    ratio, apart = p_scale / q_scale, (p_loc - q_loc) / q_scale
    return ratio * ratio + 0.5 * (apart * apart) - fn.log(ratio) + (0.5 * math.log(math.pi / 2) - 1)


@pair(Normal, Gumbel)
def _(p_loc, p_scale, q_loc, q_scale):
    ratio, apart = p_scale / q_scale, (p_loc - q_loc) / q_scale
    return apart - fn.log(ratio) + fn.exp(0.5 * (ratio * ratio) - apart) - (0.5 + _HALF_LOG_2PI)


@pair(Normal, Laplace)
def _(p_loc, p_scale, q_loc, q_scale):
    apart, z = p_loc - q_loc, (p_loc - q_loc) / p_scale
    folded = math.sqrt(2 / math.pi) * p_scale * fn.exp(-0.5 * (z * z)) + apart * fn.erf(math.sqrt(0.5) * z)
    return folded / q_scale - fn.log(p_scale / q_scale) - 0.5 * (1 + math.log(0.5 * math.pi))


@pair(Pareto, Exponential)
def _(p_scale, p_alpha, q_rate):
    product = p_scale * q_rate
    finite = p_alpha > 1
    mean = p_alpha * product / (fn.where(finite, p_alpha, 2.0) - 1.0)
    result = fn.log(p_alpha / product) - 1.0 / p_alpha + mean - 1.0
    return fn.where(finite, result, math.inf)


@pair(Pareto, Normal)
def _(p_scale, p_alpha, q_loc, q_scale):
    finite = p_alpha > 2
    a = fn.where(finite, p_alpha, 3.0)
    share = p_scale / (a - 1.0)
    apart = a * share - q_loc
    squares = a * (share * share) / (a - 2.0) + apart * apart
    result = (
        fn.log(q_scale * a / p_scale) - 1.0 / a + squares / (2.0 * q_scale * q_scale) + (_HALF_LOG_2PI - 1)
    )
    return fn.where(finite, result, math.inf)


@fused
def _outside_unit(low, high, result):
    return fn.where((low < 0) | (high > 1), math.inf, result)


@register_kl(Uniform, ContinuousBernoulli)
def _kl_uniform_continuous_bernoulli(p, q):
    result = -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._cont_bern_log_norm()
    return _outside_unit(p.low, p.high, result)


@pair(Uniform, Exponential)
def _(p_low, p_high, q_rate):
    result = q_rate * (p_high + p_low) * 0.5 - fn.log((p_high - p_low) * q_rate)
    return fn.where(p_low < 0, math.inf, result)


@pair(Uniform, Gumbel)
def _(p_low, p_high, q_loc, q_scale):
    width = q_scale / (p_high - p_low)
    high, low = (p_high - q_loc) / q_scale, (p_low - q_loc) / q_scale
    return fn.log(width) + 0.5 * (high + low) - width * (fn.exp(-high) - fn.exp(-low))


@pair(Uniform, Normal)
def _(p_low, p_high, q_loc, q_scale):
    width, apart = p_high - p_low, 0.5 * (p_high + p_low) - q_loc
    squares = width * width * (1 / 12) + apart * apart
    return fn.log(q_scale / width) + squares / (2.0 * q_scale * q_scale) + _HALF_LOG_2PI


@pair(Uniform, Pareto)
def _(p_low, p_high, q_scale, q_alpha):
    width = p_high - p_low
    log_mean = (xlogy(p_high, p_high) - xlogy(p_low, p_low) - width) / width
    result = log_mean * (q_alpha + 1.0) - fn.log(q_alpha * width) - q_alpha * fn.log(q_scale)
    return fn.where(p_low < q_scale, math.inf, result)


infinite(ContinuousBernoulli, Pareto)
infinite(Exponential, ContinuousBernoulli, Pareto, Uniform)
infinite(Gumbel, ContinuousBernoulli, Exponential, Pareto, Uniform)
infinite(Laplace, ContinuousBernoulli, Exponential, Pareto, Uniform)
infinite(Normal, ContinuousBernoulli, Exponential, Pareto, Uniform)
infinite(Pareto, ContinuousBernoulli, Uniform)


# --- made of others ----------------------------------------------------------------------------------------------------
@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily_expfamily(p, q):
    """The Bregman divergence of the log normaliser (Nielsen and Nock, 2010)."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman"
            f" divergences, but got {type(p).__name__} and {type(q).__name__}"
        )
    with enable_grad():
        thetas, value, slopes = p._normalizer_and_slopes()
        others = q._natural_params
        result = q._log_normalizer(*others) - value
        for theta, other, slope in zip(thetas, others, slopes):
            term = (other - theta) * slope
            result = result - _sum_rightmost(term, term.dim() - result.dim())
    return on_tape_of(result, (*p._natural_params, *others))


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed_transformed(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError(
            "kl_divergence(): of transformed distributions, needs equal transforms and event shapes, but got"
            f" {p!r} and {q!r}"
        )
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _kl_independent_independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "kl_divergence(): of Independent distributions, needs as many reinterpreted dimensions, but got"
            f" {p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims}"
        )
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
