"""The Laplace distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import Size
from ..core.base.typeinfo import finfo
from ..core.make.create import empty
from . import constraints
from ._fused import fn, fused, made_of, sign
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["Laplace"]


@fused
def _from_signed(noise, loc, scale):
    """Of noise uniform in (-1, 1)."""
    return loc - scale * (sign(noise) * fn.log1p(-fn.absolute(noise)))


@fused
def _laplace_log_prob(value, loc, scale):
    return -fn.log(2.0 * scale) - fn.absolute(value - loc) / scale


@fused
def _laplace_cdf(value, loc, scale):
    outside = 0.5 * fn.exp(-fn.absolute(value - loc) / scale)
    return fn.where(value < loc, outside, 1.0 - outside)


@fused
def _laplace_icdf(value, loc, scale):
    term = value - 0.5
    return loc - scale * (sign(term) * fn.log1p(-2.0 * fn.absolute(term)))


class Laplace(Distribution):
    """The Laplace distribution with mean `loc` and `scale`, which broadcast: the batch.

    Density exp(-|x - loc| / scale) / (2 scale) over the real line (Johnson, Kotz, Balakrishnan, Continuous Univariate
    Distributions, chapter 24).

    Raises:
        ValueError: a parameter lies outside of its constraint, where arguments are validated

    >>> import flambeau
    >>> from flambeau.distributions import Laplace
    >>> laplace = Laplace(0.0, flambeau.tensor([1.0, 2.0]))
    >>> laplace.variance, laplace.log_prob(flambeau.tensor(1.0))
    (tensor([2., 8.]), tensor([-1.6931, -1.8863]))
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # type: ignore[assignment]
    support = constraints.real  # type: ignore[assignment]
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded(Laplace, batch_shape, _instance, "loc", "scale")

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.square()

    @property
    def stddev(self) -> Tensor:
        return 2**0.5 * self.scale

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        dtype = self.loc.dtype
        noise = empty(self._extended_shape(sample_shape), dtype=dtype, device=self.loc.device)
        return made_of(_from_signed, noise.uniform_(finfo(dtype).eps - 1, 1), self.loc, self.scale)

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _laplace_log_prob(value, self.loc, self.scale)

    def cdf(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _laplace_cdf(value, self.loc, self.scale)

    def icdf(self, value: Any) -> Tensor:
        return _laplace_icdf(value, self.loc, self.scale)

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()
