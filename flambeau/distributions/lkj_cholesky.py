"""The distribution of Lewandowski, Kurowicka and Joe over Cholesky factors of correlation matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import Size
from ..core.base.typeinfo import finfo
from ..core.make.create import arange
from ..operations.pointwise.special import mvlgamma
from . import constraints
from .beta import Beta
from .distribution import Distribution
from .utils import _standard_normal, broadcast_all

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Cholesky factors L of `dim` × `dim` correlation matrices R = L Lᵀ with density proportional to det(R)^(concentration - 1).

    Of L itself that is Π Lᵢᵢ^(2 concentration - 2 + dim - i), i from 2 (Stan Functions Reference, "Cholesky LKJ correlation
    distribution"); `concentration` 1 is uniform over R.  Sampled by the onion method (Lewandowski, Kurowicka, Joe, "Generating
    random correlation matrices based on vines and extended onion method", 2009, section 3.2).  ValueError for a dim below 2.

    >>> import flambeau
    >>> from flambeau.distributions import LKJCholesky
    >>> factor = LKJCholesky(3, 0.5).sample()
    >>> flambeau.allclose((factor @ factor.mT).diagonal(), flambeau.ones(3))
    True
    """

    arg_constraints = {"concentration": constraints.positive}  # type: ignore[assignment]
    support = constraints.corr_cholesky  # type: ignore[assignment]

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, Size((dim, dim)), validate_args)
        self._beta = self._of_rows()

    def _of_rows(self) -> Beta:
        """The squared norm of each row before the diagonal: of k numbers, beta (k / 2, concentration + (dim - 1 - k) / 2).

        The first row has none; a beta number is drawn for it, too, and not used.  (PyTorch draws from beta (k - 1/2, …), which
        the density does not fit.)
        """
        eta = self.concentration
        half = 0.5 * arange(self.dim, dtype=eta.dtype, device=eta.device).clamp(min=1)
        return Beta(half, (eta + 0.5 * (self.dim - 1)).unsqueeze(-1) - half, validate_args=False)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(LKJCholesky, _instance)
        batch_shape = Size(batch_shape)
        new.dim = self.dim
        new.concentration = self.concentration.expand(batch_shape)
        new._beta = self._beta.expand((*batch_shape, self.dim))
        return self._settled(new, batch_shape)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        y = self._beta.sample(sample_shape).unsqueeze(-1)
        noise = _standard_normal(self._extended_shape(sample_shape), dtype=y.dtype, device=y.device).tril_(-1)
        w = y.sqrt() * (noise / noise.norm(dim=-1, keepdim=True))
        w[..., 0, :] = 0.0  # the first row's norm is 0
        diagonal = (1 - w.square().sum(-1)).clamp(min=finfo(w.dtype).tiny).sqrt()
        return w + diagonal.diag_embed()

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        eta, less = self.concentration, self.dim - 1
        powers = 2 * (eta - 1).unsqueeze(-1) + self.dim - arange(2, self.dim + 1, device=eta.device)
        result = (powers * value.diagonal(dim1=-1, dim2=-2)[..., 1:].log()).sum(-1)
        alpha = eta + 0.5 * less
        # page 1999 of the paper; the power of π there and that of `mvlgamma` differ by less/2
        normalizer = 0.5 * less * math.log(math.pi) + mvlgamma(alpha - 0.5, less) - alpha.lgamma() * less
        return result - normalizer
