"""The Poisson distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..autograd.grad_mode import no_grad
from ..core.base.dtypes import Size
from ..operations.random.sampled import poisson
from . import constraints
from ._fused import fn, fused, xlogy
from .exp_family import ExponentialFamily
from .utils import broadcast_all

__all__ = ["Poisson"]


@fused
def _poisson_log_prob(value, rate):
    return xlogy(value, rate) - rate - fn.lgamma(value + 1.0)


class Poisson(ExponentialFamily):
    """The Poisson distribution with `rate`, of shape batch.

    Probability rate^k exp(-rate) / k! of k = 0, 1, … (Johnson, Kemp, Kotz, Univariate Discrete Distributions, chapter 4).

    Raises:
        ValueError: a parameter lies outside of its constraint, where arguments are validated

    >>> import flambeau
    >>> from flambeau.distributions import Poisson
    >>> Poisson(flambeau.tensor([0.0, 4.0])).log_prob(flambeau.tensor(0.0))
    tensor([ 0., -4.])
    """

    arg_constraints = {"rate": constraints.nonnegative}  # type: ignore[assignment]
    support = constraints.nonnegative_integer  # type: ignore[assignment]

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded(Poisson, batch_shape, _instance, "rate")

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        with no_grad():
            return poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _poisson_log_prob(value, self.rate)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.rate.log(),)

    def _log_normalizer(self, x: Any) -> Any:  # type: ignore[override]
        return x.exp()
