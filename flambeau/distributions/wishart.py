"""The Wishart distribution."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import Size
from ..core.base.typeinfo import finfo
from ..core.make.create import arange, tensor
from ..operations.linalg.determinants import slogdet
from ..operations.moving.shaping import broadcast_shapes
from ..operations.pointwise.elementary import digamma
from ..operations.pointwise.special import mvlgamma
from . import constraints
from .chi2 import Chi2
from .exp_family import ExponentialFamily
from .multivariate_normal import ByMatrix, half_log_det, only_matrix
from .utils import _standard_normal

__all__ = ["Wishart"]

_LOG_2 = math.log(2)


def _mvdigamma(x: Any, p: int) -> Any:
    """The derivative of `mvlgamma`."""
    if not x.gt((p - 1) / 2).all():
        raise AssertionError("Wrong domain for multivariate digamma function.")
    return digamma(x.unsqueeze(-1) - arange(p, dtype=x.dtype, device=x.device) / 2).sum(-1)


class Wishart(ByMatrix, ExponentialFamily):
    """The Wishart distribution of p × p matrices with `df` degrees of freedom and a covariance, a precision or its factor.

    Density det(x)^((df - p - 1)/2) exp(-½ tr(Σ⁻¹ x)) / (2^(df p/2) det(Σ)^(df/2) Γ_p(df/2)) over positive-definite x
    (Anderson, An Introduction to Multivariate Statistical Analysis, 7.2), sampled by Bartlett's decomposition.  `df` is of
    shape batch, the matrix of batch + (p, p); batches broadcast.  AssertionError where not just one matrix is given,
    ValueError for too few dimensions and unless df > p - 1; below p samples are often singular in floating point, which is
    a warning.

    >>> import flambeau
    >>> from flambeau.distributions import Wishart
    >>> wishart = Wishart(4.0, covariance_matrix=flambeau.eye(2))
    >>> wishart.mean, wishart.log_prob(flambeau.eye(2))
    (tensor([[4., 0.],
            [0., 4.]]), tensor(-4.2242))
    >>> wishart.sample((3,)).shape
    flambeau.Size([3, 2, 2])
    """

    support = constraints.positive_definite  # type: ignore[assignment]
    has_rsample = True
    _mean_carrier_measure = 0

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    def __init__(
        self,
        df: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = only_matrix(
            AssertionError,
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )
        if isinstance(df, (int, float)):
            batch_shape = Size(matrix.shape[:-2])
            self.df = tensor(df, dtype=matrix.dtype, device=matrix.device)
        else:
            batch_shape = broadcast_shapes(matrix.shape[:-2], df.shape)
            self.df = df.expand(batch_shape)
        event_shape = matrix.shape[-2:]
        p = event_shape[-1]
        if self.df.le(p - 1).any():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {p - 1}.")
        if self.df.lt(p).any():
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        setattr(self, name, matrix.expand(batch_shape + (-1, -1)))
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._set_factor(name, matrix)
        self._dist_chi2 = self._of_diagonal()

    @property
    def _matrix_shape(self) -> Any:  # type: ignore[override]
        return self._batch_shape + self._event_shape

    def _of_diagonal(self) -> Chi2:
        """The squares of the diagonal in Bartlett's decomposition: df, df - 1, … degrees of freedom."""
        factor = self._unbroadcasted_scale_tril
        less = arange(self._event_shape[-1], dtype=factor.dtype, device=factor.device)
        df = (self.df.unsqueeze(-1) - less).expand(self._batch_shape + (-1,))
        return Chi2(df, validate_args=False)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(Wishart, _instance)
        batch_shape = Size(batch_shape)
        shape = batch_shape + self._event_shape
        new.df = self.df.expand(batch_shape)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril.expand(shape)
        self._expand_matrices(new, shape)
        self._settled(new, batch_shape)
        new._dist_chi2 = new._of_diagonal()
        return new

    @property
    def mean(self) -> Tensor:
        return self.df.expand(self._batch_shape)[..., None, None] * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df.expand(self._batch_shape) - self._event_shape[-1] - 1
        return factor.masked_fill(factor <= 0, math.nan)[..., None, None] * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        covariance = self.covariance_matrix
        diagonal = covariance.diagonal(dim1=-2, dim2=-1)
        products = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df.expand(self._batch_shape)[..., None, None] * (covariance.square() + products)

    def _bartlett_sampling(self, sample_shape: Any = ()) -> Any:
        """L A Aᵀ Lᵀ: A lower-triangular with chi numbers on its diagonal and normal ones below."""
        diagonal = self._dist_chi2.rsample(sample_shape).sqrt()
        diagonal = diagonal.clamp(min=finfo(diagonal.dtype).eps)
        noise = _standard_normal(
            (*diagonal.shape, diagonal.shape[-1]), dtype=diagonal.dtype, device=diagonal.device
        )
        factor = self._unbroadcasted_scale_tril @ (noise.tril_(-1) + diagonal.diag_embed())
        return factor @ factor.mT

    def rsample(self, sample_shape: Sequence[int] = Size(), max_try_correction: int | None = None) -> Tensor:
        """Samples; those that are singular in floating point are drawn again, up to `max_try_correction` (10) times.

        A warning tells of them.  Some may be left, and have the log probability -inf.
        """
        sample_shape = Size(sample_shape)
        sample = self._bartlett_sampling(sample_shape)
        singular = self._singular(sample)
        if not singular.any():
            return sample
        warnings.warn("Singular sample detected.", stacklevel=2)
        for _ in range(10 if max_try_correction is None else max_try_correction):
            again = self._bartlett_sampling((int(singular.sum()),))
            sample = sample.masked_scatter(self._spread(singular, sample), again)
            singular = self._singular(sample)
            if not singular.any():
                break
        return sample

    def _singular(self, sample: Any) -> Any:
        """For each batch of matrices that was drawn, whether one of them is."""
        wrong = ~self.support.check(sample.detach())
        return wrong.flatten(wrong.dim() - len(self._batch_shape)).any(-1) if self._batch_shape else wrong

    def _spread(self, singular: Any, sample: Any) -> Any:
        return singular.view((*singular.shape, *[1] * (sample.dim() - singular.dim()))).expand(sample.shape)

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        nu, p, factor = self.df, self._event_shape[-1], self._unbroadcasted_scale_tril
        trace = (self.precision_matrix * value).sum((-2, -1))  # of Σ⁻¹ x; both are symmetric
        return (
            -nu * (p * _LOG_2 / 2 + half_log_det(factor))
            - mvlgamma(nu / 2, p)
            + (nu - p - 1) / 2 * slogdet(value).logabsdet
            - trace / 2
        )

    def entropy(self) -> Tensor:
        nu, p = self.df, self._event_shape[-1]
        return (
            (p + 1) * (p * _LOG_2 / 2 + half_log_det(self._unbroadcasted_scale_tril))
            + mvlgamma(nu / 2, p)
            - (nu - p - 1) / 2 * _mvdigamma(nu / 2, p)
            + nu * p / 2
        )

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Any, y: Any) -> Any:  # type: ignore[override]
        p = self._event_shape[-1]
        half = y + (p + 1) / 2
        return half * (-slogdet(-2 * x).logabsdet + _LOG_2 * p) + mvlgamma(half, p)
