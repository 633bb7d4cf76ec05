"""Divergences of normal distributions of vectors, whose covariances are full or of low rank."""

from __future__ import annotations

from typing import Any

from ..operations.linalg.lapack import solve_triangular
from ..operations.moving.shaping import broadcast_shapes
from ._kl_registry import register_kl
from .lowrank_multivariate_normal import LowRankMultivariateNormal, lowrank_log_det, lowrank_mahalanobis
from .multivariate_normal import MultivariateNormal, batch_mahalanobis, half_log_det


def _same_event(p: Any, q: Any) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between {type(p).__name__} and {type(q).__name__} with different event shapes "
            f"{tuple(p.event_shape)} and {tuple(q.event_shape)} cannot be computed"
        )


def _log_det(p: Any) -> Any:
    if isinstance(p, LowRankMultivariateNormal):
        return lowrank_log_det(p._capacitance_tril, p._unbroadcasted_cov_diag)
    return 2 * half_log_det(p._unbroadcasted_scale_tril)


def _distance(p: Any, q: Any) -> Any:
    """Of p's mean, in q's covariance."""
    apart = q.loc - p.loc
    if isinstance(q, LowRankMultivariateNormal):
        return lowrank_mahalanobis(
            q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag, apart, q._capacitance_tril
        )
    return batch_mahalanobis(q._unbroadcasted_scale_tril, apart)


def _roots(p: Any) -> tuple[Any, ...]:
    """Matrices X and a vector d for which p's covariance is Σ X Xᵀ + diag(d)."""
    if isinstance(p, LowRankMultivariateNormal):
        return p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag
    return (p._unbroadcasted_scale_tril,)


def _solved(factor: Any, x: Any) -> Any:
    """factor⁻¹ x, batches broadcast."""
    batch = broadcast_shapes(factor.shape[:-2], x.shape[:-2])
    return solve_triangular(factor.expand(batch + (-1, -1)), x.expand(batch + (-1, -1)), upper=False)


def _squares(x: Any) -> Any:
    return x.square().sum((-2, -1))


def _trace(p: Any, q: Any) -> Any:
    """tr(Σ_q⁻¹ Σ_p)."""
    root, *diagonal = _roots(p)
    if isinstance(q, LowRankMultivariateNormal):
        inverse = q._unbroadcasted_cov_diag
        a = _solved(q._capacitance_tril, q._unbroadcasted_cov_factor.mT / inverse.unsqueeze(-2))
        result = _squares(root / inverse.sqrt().unsqueeze(-1)) - _squares(a @ root)
        if diagonal:
            result = result + (diagonal[0] / inverse).sum(-1) - _squares(a * diagonal[0].sqrt().unsqueeze(-2))
        return result
    result = _squares(_solved(q._unbroadcasted_scale_tril, root))
    if diagonal:
        result = result + _squares(_solved(q._unbroadcasted_scale_tril, diagonal[0].sqrt().diag_embed()))
    return result


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _kl_multivariate(p: Any, q: Any) -> Any:
    """½ (log det Σ_q - log det Σ_p + tr(Σ_q⁻¹ Σ_p) + (μ_q - μ_p)ᵀ Σ_q⁻¹ (μ_q - μ_p) - n)."""
    _same_event(p, q)
    return 0.5 * (_log_det(q) - _log_det(p) + _trace(p, q) + _distance(p, q) - p.event_shape[0])
