"""The gamma distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core import tape
from ..core.base.dtypes import Size
from ..core.base.typeinfo import finfo
from ..core.make.literal import as_tensor
from ..operations.pointwise.special import igamma
from ..operations.random.sampled import standard_gamma
from . import constraints
from ._fused import fn, fused, vanishing, xlogy
from .exp_family import ExponentialFamily
from .utils import broadcast_all

__all__ = ["Gamma"]


@fused
def _over_rate(drawn, rate, *, least):
    result = drawn / rate
    return fn.where(result < least, least, result)


@_over_rate.derivative
def _(grad, drawn, rate):
    """As in PyTorch, what is kept from being 0 moves as the quotient does."""
    return grad / rate, -grad * drawn / (rate * rate)


@fused
def _gamma_normalizer(concentration, rate):
    return fn.lgamma(concentration) - xlogy(concentration, rate)


@fused
def _gamma_log_prob(value, concentration, rate, normalizer):
    return vanishing(value, xlogy(concentration - 1.0, value) - rate * value - normalizer)


@fused
def _gamma_entropy(concentration, rate):
    a = concentration
    return a - fn.log(rate) + fn.lgamma(a) + (1.0 - a) * fn.digamma(a)


class Gamma(ExponentialFamily):
    """The gamma distribution with shape `concentration` and `rate`, which broadcast: the batch.

    Density rate^a x^(a-1) exp(-rate x) / Γ(a) over x >= 0, a the concentration (Johnson, Kotz, Balakrishnan, Continuous
    Univariate Distributions, chapter 17).  Samples are at least the smallest normal number of their dtype; their gradients
    are implicit ones (Figurnov, Mohamed, Mnih 2018).

    Raises:
        ValueError: a parameter lies outside of its constraint, where arguments are validated

    >>> import flambeau
    >>> from flambeau.distributions import Gamma
    >>> gamma = Gamma(flambeau.tensor([1.0, 2.0]), 3.0)
    >>> gamma.log_prob(flambeau.tensor(1.0))
    tensor([-1.9014, -0.8028])
    >>> gamma.sample((4,)).shape
    flambeau.Size([4, 2])
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}  # type: ignore[assignment]
    support = constraints.nonnegative  # type: ignore[assignment]
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded(Gamma, batch_shape, _instance, "concentration", "rate")

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        drawn = standard_gamma(self.concentration.expand(self._extended_shape(sample_shape)))
        least = finfo(drawn.dtype).tiny
        if tape.tracked(drawn, self.rate) or self.rate.dtype is not drawn.dtype:
            return _over_rate(drawn, self.rate, least)
        return _over_rate(drawn, self.rate, least, out=drawn)

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a, rate = self.concentration, self.rate
        value = as_tensor(value, dtype=rate.dtype, device=rate.device)
        return _gamma_log_prob(value, a, rate, _gamma_normalizer(a, rate))

    def entropy(self) -> Tensor:
        return _gamma_entropy(self.concentration, self.rate)

    def cdf(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return igamma(self.concentration, self.rate * value)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Any, y: Any) -> Any:  # type: ignore[override]
        return (x + 1).lgamma() + (x + 1) * (-y.reciprocal()).log()
