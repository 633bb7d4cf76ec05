"""The Gumbel distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import Size
from ..core.base.typeinfo import finfo
from ..core.make.create import empty, full_like, ones_like
from . import constraints
from ._draws import in_turn
from ._fused import fn, fused, made_of
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant, settled_property

__all__ = ["Gumbel"]


@fused
def _gumbel_of_exponential(noise, loc, scale):
    return loc - scale * fn.log(noise)


@fused
def _gumbel_log_prob(value, loc, scale):
    y = (loc - value) / scale
    return fn.where(y == math.inf, -math.inf, y - fn.exp(y) - fn.log(scale))


@fused
def _gumbel_cdf(value, loc, scale):
    return fn.exp(-fn.exp((loc - value) / scale))


@fused
def _gumbel_icdf(value, loc, scale):
    return loc - scale * fn.log(-fn.log(value))


class Gumbel(TransformedDistribution):
    """The Gumbel (extreme value) distribution with mode `loc` and `scale`, which broadcast: the batch.

    Density exp(-z - exp(-z)) / scale with z = (x - loc) / scale, over the real line (Johnson, Kotz, Balakrishnan, Continuous
    Univariate Distributions, chapter 22).

    Raises:
        ValueError: a parameter lies outside of its constraint, where arguments are validated

    >>> import flambeau
    >>> from flambeau.distributions import Gumbel
    >>> extreme = Gumbel(flambeau.tensor([0.0, 1.0]), 2.0)
    >>> extreme.mean, extreme.cdf(flambeau.tensor(1.0))
    (tensor([1.1544, 2.1544]), tensor([0.5452, 0.3679]))
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # type: ignore[assignment]
    support = constraints.real
    has_rsample = True  # type: ignore[assignment]

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        Distribution.__init__(self, self.loc.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded(Gumbel, batch_shape, _instance, "loc", "scale")

    @settled_property
    def base_dist(self) -> Any:
        limits = finfo(self.loc.dtype)
        return Uniform(
            full_like(self.loc, limits.tiny), full_like(self.loc, 1 - limits.eps), validate_args=False
        )

    @settled_property
    def transforms(self) -> Any:
        return [
            ExpTransform().inv,
            AffineTransform(0, -ones_like(self.scale)),
            ExpTransform().inv,
            AffineTransform(self.loc, -self.scale),
        ]

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.square()

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        if in_turn(self.loc):
            info = finfo(self.loc.dtype)
            noise = empty(shape, dtype=self.loc.dtype).uniform_(info.tiny, 1 - info.eps).log_().neg_()
        else:
            noise = empty(shape, dtype=self.loc.dtype, device=self.loc.device).exponential_()
        return made_of(_gumbel_of_exponential, noise, self.loc, self.scale)

    sample = Distribution.sample

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _gumbel_log_prob(value, self.loc, self.scale)

    def cdf(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _gumbel_cdf(value, self.loc, self.scale)

    def icdf(self, value: Any) -> Tensor:
        return _gumbel_icdf(value, self.loc, self.scale)

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)
