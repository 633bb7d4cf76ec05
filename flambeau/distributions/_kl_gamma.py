"""Divergences of gamma, beta, Dirichlet, Poisson and binomial distributions."""

from __future__ import annotations

import math
from typing import Any

from ._fused import fn, fused
from ._kl_registry import register_kl
from .beta import Beta
from .binomial import Binomial
from .dirichlet import Dirichlet
from .gamma import Gamma
from .poisson import Poisson


@fused
def _gamma_gamma(a, rate, b, other):
    return (
        b * fn.log(rate / other)
        + fn.lgamma(b)
        - fn.lgamma(a)
        + (a - b) * fn.digamma(a)
        + (other - rate) * (a / rate)
    )


@register_kl(Gamma, Gamma)
def _kl_gamma_gamma(p: Any, q: Any) -> Any:
    return _gamma_gamma(p.concentration, p.rate, q.concentration, q.rate)


@register_kl(Gamma, Beta)
def _kl_gamma_beta(p: Any, q: Any) -> Any:
    """Beyond 1 the second density is 0."""
    return (p.concentration + q.concentration1).new_full((p.concentration + q.concentration1).shape, math.inf)


@fused
def _beta_beta(a, b, c, d):
    left, right = a + b, c + d
    return (
        fn.lgamma(c) + fn.lgamma(d) + fn.lgamma(left) - fn.lgamma(a) - fn.lgamma(b) - fn.lgamma(right)
        + (a - c) * fn.digamma(a) + (b - d) * fn.digamma(b) + (right - left) * fn.digamma(left)
    )  # fmt: skip


@register_kl(Beta, Beta)
def _kl_beta_beta(p: Any, q: Any) -> Any:
    return _beta_beta(p.concentration1, p.concentration0, q.concentration1, q.concentration0)


@fused
def _beta_gamma(a, b, concentration, rate):
    """Without the first distribution's entropy."""
    logs = fn.digamma(a) - fn.digamma(a + b)
    return (
        fn.lgamma(concentration)
        - concentration * fn.log(rate)
        - (concentration - 1.0) * logs
        + rate * a / (a + b)
    )


@register_kl(Beta, Gamma)
def _kl_beta_gamma(p: Any, q: Any) -> Any:
    return _beta_gamma(p.concentration1, p.concentration0, q.concentration, q.rate) - p.entropy()


@fused
def _dirichlet_terms(a, b, total):
    return fn.lgamma(b) - fn.lgamma(a) + (a - b) * (fn.digamma(a) - fn.digamma(total))


@register_kl(Dirichlet, Dirichlet)
def _kl_dirichlet_dirichlet(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    total = a.sum(-1, True)
    terms = _dirichlet_terms(a, b, total).sum(-1)
    return terms + total.squeeze(-1).lgamma() - b.sum(-1).lgamma()


@fused
def _poisson_poisson(rate, other):
    """The first rate may be 0."""
    ratio = fn.where(rate == 0.0, 1.0, rate / other)
    return rate * fn.log(ratio) - (rate - other)


@register_kl(Poisson, Poisson)
def _kl_poisson_poisson(p: Any, q: Any) -> Any:
    return _poisson_poisson(p.rate, q.rate)


@register_kl(Poisson, Binomial)
def _kl_poisson_binomial(p: Any, q: Any) -> Any:
    """There is no largest Poisson number."""
    return (p.rate + q.total_count).new_full((p.rate + q.total_count).shape, math.inf)


@fused
def _binomial_binomial(count, probs, logits, other_count, other_probs, other_logits):
    result = count * (probs * (logits - other_logits) + fn.log1p(-probs) - fn.log1p(-other_probs))
    return fn.where(count > other_count, math.inf, result)


@register_kl(Binomial, Binomial)
def _kl_binomial_binomial(p: Any, q: Any) -> Any:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    return _binomial_binomial(p.total_count, p.probs, p.logits, q.total_count, q.probs, q.logits)
