"""The multivariate normal distribution whose covariance is of low rank beside a diagonal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import Size
from ..core.make.create import eye
from ..operations.linalg.lapack import cholesky, solve_triangular
from ..operations.moving.shaping import broadcast_tensors
from . import constraints
from .distribution import Distribution
from .multivariate_normal import LOG_2PI, batch_mahalanobis, batch_mv, half_log_det
from .utils import _standard_normal, lazy_property

__all__ = ["LowRankMultivariateNormal"]


def with_unit(matrices: Any) -> Any:
    """I + the matrices."""
    return matrices + eye(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)


def lowrank_log_det(capacitance: Any, diagonal: Any) -> Any:
    """log det(W Wᵀ + D) by the matrix determinant lemma, from the factor of C = I + Wᵀ D⁻¹ W."""
    return 2 * half_log_det(capacitance) + diagonal.log().sum(-1)


def lowrank_mahalanobis(factor: Any, diagonal: Any, x: Any, capacitance: Any) -> Any:
    """xᵀ (W Wᵀ + D)⁻¹ x by Woodbury's identity."""
    projected = batch_mv(factor.mT / diagonal.unsqueeze(-2), x)
    return (x.square() / diagonal).sum(-1) - batch_mahalanobis(capacitance, projected)


class LowRankMultivariateNormal(Distribution):
    """The normal distribution of vectors with mean `loc` and covariance W Wᵀ + D: `cov_factor` W, `cov_diag` the diagonal of D.

    The density is `MultivariateNormal`'s; determinants and inverses are those of the r × r matrix I + Wᵀ D⁻¹ W (matrix
    determinant lemma, Woodbury's identity).  `loc` and `cov_diag` are of shape batch + (n,), `cov_factor` of batch + (n, r);
    batches broadcast.  ValueError where shapes do not fit.

    >>> import flambeau
    >>> from flambeau.distributions import LowRankMultivariateNormal
    >>> normal = LowRankMultivariateNormal(flambeau.zeros(2), flambeau.tensor([[1.0], [0.0]]), flambeau.ones(2))
    >>> normal.covariance_matrix
    tensor([[2., 0.],
            [0., 1.]])
    """

    arg_constraints = {  # type: ignore[assignment]
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector  # type: ignore[assignment]
    has_rsample = True

    def __init__(self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch dimensions"
            )
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m")
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        try:
            loc_, self.cov_factor, diag_ = broadcast_tensors(
                loc.unsqueeze(-1), cov_factor, cov_diag.unsqueeze(-1)
            )
        except RuntimeError as e:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from e
        self.loc, self.cov_diag = loc_[..., 0], diag_[..., 0]
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        super().__init__(self.loc.shape[:-1], event_shape, validate_args=validate_args)
        self._capacitance_tril = cholesky(with_unit(cov_factor.mT / cov_diag.unsqueeze(-2) @ cov_factor))

    @property
    def _matrix_shape(self) -> Any:
        return self._batch_shape + self._event_shape + self._event_shape

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(LowRankMultivariateNormal, _instance)
        batch_shape = Size(batch_shape)
        shape = batch_shape + self._event_shape
        new.loc = self.loc.expand(shape)
        new.cov_diag = self.cov_diag.expand(shape)
        new.cov_factor = self.cov_factor.expand(shape + self.cov_factor.shape[-1:])
        new._unbroadcasted_cov_factor = self._unbroadcasted_cov_factor
        new._unbroadcasted_cov_diag = self._unbroadcasted_cov_diag
        new._capacitance_tril = self._capacitance_tril
        return self._settled(new, batch_shape)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:  # type: ignore[override]
        result = self._unbroadcasted_cov_factor.square().sum(-1) + self._unbroadcasted_cov_diag
        return result.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance: √D times that of I + D^-½ W Wᵀ D^-½, whose eigenvalues are at least 1."""
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        return (root * cholesky(with_unit(scaled @ scaled.mT))).expand(self._matrix_shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """W Wᵀ + D."""
        factor = self._unbroadcasted_cov_factor
        return (factor @ factor.mT + self._unbroadcasted_cov_diag.diag_embed()).expand(self._matrix_shape)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of W Wᵀ + D by Woodbury's identity."""
        diagonal = self._unbroadcasted_cov_diag
        a = solve_triangular(
            self._capacitance_tril, self._unbroadcasted_cov_factor.mT / diagonal.unsqueeze(-2), upper=False
        )
        return (diagonal.reciprocal().diag_embed() - a.mT @ a).expand(self._matrix_shape)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        options = {"dtype": self.loc.dtype, "device": self.loc.device}
        along = _standard_normal(shape[:-1] + self.cov_factor.shape[-1:], **options)
        beside = _standard_normal(shape, **options)
        root = self._unbroadcasted_cov_diag.sqrt()
        return self.loc + batch_mv(self._unbroadcasted_cov_factor, along) + root * beside

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        distance = lowrank_mahalanobis(
            self._unbroadcasted_cov_factor,
            self._unbroadcasted_cov_diag,
            value - self.loc,
            self._capacitance_tril,
        )
        log_det = lowrank_log_det(self._capacitance_tril, self._unbroadcasted_cov_diag)
        return -0.5 * (self._event_shape[0] * LOG_2PI + log_det + distance)

    def entropy(self) -> Tensor:
        log_det = lowrank_log_det(self._capacitance_tril, self._unbroadcasted_cov_diag)
        return (0.5 * (self._event_shape[0] * (1.0 + LOG_2PI) + log_det)).expand(self._batch_shape)
