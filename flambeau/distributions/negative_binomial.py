"""The negative binomial distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..autograd.grad_mode import no_grad
from ..core.base.dtypes import Size
from ..core.base.typeinfo import finfo
from ..operations.random.sampled import negative_binomial, poisson, standard_gamma
from . import constraints
from ._draws import in_turn
from ._fused import fn, fused, softplus
from .binomial import CountedTrials

__all__ = ["NegativeBinomial"]


@fused
def _negative_binomial_log_prob(value, total_count, logits):
    """No failures and no successes are certain: lgamma, infinite at 0, is then taken at 1."""
    nothing = total_count + value == 0.0
    count = fn.where(nothing, 1.0, total_count)
    ways = fn.lgamma(count + value) - fn.lgamma(1.0 + value) - fn.lgamma(count)
    return ways - total_count * softplus(logits) - value * softplus(-logits)


class NegativeBinomial(CountedTrials):
    """How many trials succeed before `total_count` have failed, each with probability `probs`, or log odds `logits`.

    Probability Γ(n + k) / (k! Γ(n)) p^k (1 - p)^n of k = 0, 1, …, also for n that are no whole numbers (Johnson, Kemp, Kotz,
    Univariate Discrete Distributions, chapter 5).  ValueError where not just one of `probs` and `logits` is given.

    >>> import flambeau
    >>> from flambeau.distributions import NegativeBinomial
    >>> NegativeBinomial(3, flambeau.tensor([0.25, 0.5])).mean
    tensor([1.0000, 3.0000])
    """

    arg_constraints = {  # type: ignore[assignment]
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer  # type: ignore[assignment]

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._set_count_and_one_of(total_count, probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded_count_and_one_of(NegativeBinomial, batch_shape, _instance)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        """Poisson numbers whose rates are gamma numbers."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            if in_turn(self.logits):
                rates = standard_gamma(self.total_count.expand(shape)) / (-self.logits).exp()
                return poisson(rates.clamp(min=finfo(rates.dtype).tiny))
            return negative_binomial(self.total_count.expand(shape), self.logits.exp().expand(shape))

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _negative_binomial_log_prob(value, self.total_count, self.logits)
