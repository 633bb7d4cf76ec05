"""The Cauchy distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import Size
from ..core.make.create import full
from ..operations.random.random import rand
from . import constraints
from ._draws import cauchy_noise, in_turn
from ._fused import fn, fused, log1p_square, made_of
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["Cauchy"]


@fused
def _cauchy_log_prob(value, loc, scale):
    z = (value - loc) / scale
    return -math.log(math.pi) - fn.log(scale) - log1p_square(z)


@fused
def _cauchy_cdf(value, loc, scale):
    return fn.atan((value - loc) / scale) * (1 / math.pi) + 0.5


@fused
def _cauchy_icdf(value, loc, scale):
    return fn.tan(math.pi * (value - 0.5)) * scale + loc


class Cauchy(Distribution):
    """The Cauchy (Lorentz) distribution with median `loc` and half width `scale`, which broadcast: the batch.

    Density 1 / (π scale (1 + ((x - loc) / scale)²)) over the real line; it has no mean (NaN), and its variance is given as
    infinite (Johnson, Kotz, Balakrishnan, Continuous Univariate Distributions, chapter 16).

    Raises:
        ValueError: a parameter lies outside of its constraint, where arguments are validated

    >>> import flambeau
    >>> from flambeau.distributions import Cauchy
    >>> cauchy = Cauchy(flambeau.tensor([0.0, 1.0]), 1.0)
    >>> cauchy.cdf(flambeau.tensor(1.0))
    tensor([0.7500, 0.5000])
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # type: ignore[assignment]
    support = constraints.real  # type: ignore[assignment]
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded(Cauchy, batch_shape, _instance, "loc", "scale")

    def _filled(self, value: float) -> Any:
        return full(self._extended_shape(), value, dtype=self.loc.dtype, device=self.loc.device)

    @property
    def mean(self) -> Tensor:
        return self._filled(math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self._filled(math.inf)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        if in_turn(self.loc):
            return self.loc + cauchy_noise(self._extended_shape(sample_shape), self.loc) * self.scale
        noise = rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return made_of(_cauchy_icdf, noise, self.loc, self.scale)

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _cauchy_log_prob(value, self.loc, self.scale)

    def cdf(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _cauchy_cdf(value, self.loc, self.scale)

    def icdf(self, value: Any) -> Tensor:
        return _cauchy_icdf(value, self.loc, self.scale)

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()
