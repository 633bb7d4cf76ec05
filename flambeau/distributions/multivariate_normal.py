"""The multivariate normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import Size
from ..core.make.create import eye
from ..operations.linalg.lapack import cholesky, solve_triangular
from ..operations.linalg.matrices import cholesky_inverse
from ..operations.moving.shaping import broadcast_shapes, flip
from . import constraints
from .distribution import Distribution
from .utils import _standard_normal, lazy_property

__all__ = ["MultivariateNormal"]

LOG_2PI = math.log(2 * math.pi)


def batch_mv(matrices: Any, vectors: Any) -> Any:
    """Products of matrices (*, n, m) with vectors (*, m), batches broadcast: (*, n)."""
    if matrices.dim() == 2:
        return vectors @ matrices.mT
    return (matrices @ vectors.unsqueeze(-1)).squeeze(-1)


def batch_mahalanobis(factors: Any, vectors: Any) -> Any:
    """xᵀ (L Lᵀ)⁻¹ x for lower-triangular factors L (*, n, n) and vectors (…, *, n), whose batch L's broadcasts to.

    Vectors that meet the same factor are solved for together, so that no factor is copied.
    """
    n, batch = vectors.shape[-1], vectors.shape[:-1]
    if 0 in batch:
        return vectors.square().sum(-1)
    own = factors.dim() - 2
    outer = len(batch) - own
    sizes: list[int] = list(batch[:outer])
    for mine, theirs in zip(factors.shape[:-2], batch[outer:]):
        sizes += [theirs // mine, mine]
    split = vectors.reshape((*sizes, n))
    # (outer, repeats, own, n)
    order = [*range(outer), *range(outer, outer + 2 * own, 2), *range(outer + 1, outer + 2 * own, 2)]
    turned = split.permute((*order, outer + 2 * own))
    flat = factors.reshape(-1, n, n)
    columns = turned.reshape(-1, flat.shape[0], n).permute(1, 2, 0)
    result = solve_triangular(flat, columns, upper=False).square().sum(-2).mT.reshape(turned.shape[:-1])
    back = [0] * len(order)
    for k, place in enumerate(order):
        back[place] = k
    return result.permute(back).reshape(batch)


def half_log_det(factor: Any) -> Any:
    """Half the logarithm of the determinant of L Lᵀ."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def factor_of_precision(precision: Any) -> Any:
    """The Cholesky factor of the inverse: the inverse of the factor of the matrix read from its end."""
    turned = flip(cholesky(flip(precision, (-2, -1))), (-2, -1)).mT
    unit = eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return solve_triangular(turned, unit, upper=False)


def only_matrix(error: type[Exception], **given: Any) -> tuple[str, Any]:
    """Name and value of the one that is given; `error` for none and for several, ValueError for fewer than two dimensions."""
    result = [(name, value) for name, value in given.items() if value is not None]
    if len(result) != 1:
        raise error("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
    name, value = result[0]
    if value.dim() < 2:
        raise ValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions")
    return name, value


class ByMatrix(Distribution):
    """`covariance_matrix`, `precision_matrix` or `scale_tril` as given, the others computed when first requested.

    `_unbroadcasted_scale_tril` is the factor that all is computed with.
    """

    _unbroadcasted_scale_tril: Any
    _matrix_shape: Any

    def _set_factor(self, name: str, matrix: Any) -> None:
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = factor_of_precision(matrix)

    def _expand_matrices(self, new: Any, shape: Any) -> None:
        for name in ("covariance_matrix", "scale_tril", "precision_matrix"):
            if name in self.__dict__:
                setattr(new, name, self.__dict__[name].expand(shape))

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower-triangular factor L of the covariance L Lᵀ."""
        return self._unbroadcasted_scale_tril.expand(self._matrix_shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """L Lᵀ."""
        factor = self._unbroadcasted_scale_tril
        return (factor @ factor.mT).expand(self._matrix_shape)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of L Lᵀ."""
        return cholesky_inverse(self._unbroadcasted_scale_tril).expand(self._matrix_shape)


class MultivariateNormal(ByMatrix):
    """The normal distribution of vectors with mean `loc` and one of a covariance, a precision (its inverse) or its factor.

    Density exp(-½ (x - μ)ᵀ Σ⁻¹ (x - μ)) / √((2π)ⁿ det Σ) (Kotz, Balakrishnan, Johnson, Continuous Multivariate Distributions,
    chapter 45), Σ = L Lᵀ with `scale_tril` L, which all is computed with.  `loc` is of shape batch + (n,), the matrix of batch
    + (n, n); batches broadcast.  ValueError where not just one matrix is given, and for too few dimensions.

    >>> import flambeau
    >>> from flambeau.distributions import MultivariateNormal
    >>> normal = MultivariateNormal(flambeau.zeros(2), flambeau.eye(2))
    >>> normal.log_prob(flambeau.zeros(3, 2))
    tensor([-1.8379, -1.8379, -1.8379])
    >>> normal.sample((4,)).shape
    flambeau.Size([4, 2])
    """

    arg_constraints = {  # type: ignore[assignment]
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector  # type: ignore[assignment]
    has_rsample = True

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = only_matrix(
            ValueError,
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )
        batch_shape = broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand(batch_shape + (-1, -1)))
        self.loc = loc.expand(batch_shape + (-1,))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._set_factor(name, matrix)

    @property
    def _matrix_shape(self) -> Any:  # type: ignore[override]
        return self._batch_shape + self._event_shape + self._event_shape

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(MultivariateNormal, _instance)
        batch_shape = Size(batch_shape)
        new.loc = self.loc.expand(batch_shape + self._event_shape)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        self._expand_matrices(new, batch_shape + self._event_shape + self._event_shape)
        return self._settled(new, batch_shape)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.square().sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        noise = _standard_normal(
            self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device
        )
        return self.loc + batch_mv(self._unbroadcasted_scale_tril, noise)

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        factor = self._unbroadcasted_scale_tril
        distance = batch_mahalanobis(factor, value - self.loc)
        return -0.5 * (self._event_shape[0] * LOG_2PI + distance) - half_log_det(factor)

    def entropy(self) -> Tensor:
        result = 0.5 * self._event_shape[0] * (1.0 + LOG_2PI) + half_log_det(self._unbroadcasted_scale_tril)
        return result.expand(self._batch_shape)


_precision_to_scale_tril = factor_of_precision  # PyTorch's name, which libraries import
