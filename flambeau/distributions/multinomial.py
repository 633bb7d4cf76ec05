"""The multinomial distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..autograd.grad_mode import no_grad
from ..core.base.dtypes import Size
from ..core.make.create import arange, ones_like, zeros
from . import constraints
from ._draws import FEW, counts, in_turn
from ._fused import fn, fused, xlogy
from ._over_categorical import OverCategorical

__all__ = ["Multinomial"]


@fused
def _weight(value, logits):
    """value · logits - log value!, where log 0 of what did not happen counts nothing."""
    never = (value == 0) & (logits == -math.inf)
    return value * fn.where(never, 0.0, logits) - fn.lgamma(value + 1.0)


@fused
def _log_factorial_weight(counts, probs, total):
    """Probability of the counts in a binomial distribution, times the logarithm of their factorial."""
    log_factorial = fn.lgamma(counts + 1.0)
    ways = fn.lgamma(total + 1.0) - log_factorial - fn.lgamma(total - counts + 1.0)
    return fn.exp(ways + xlogy(counts, probs) + xlogy(total - counts, 1.0 - probs)) * log_factorial


class Multinomial(OverCategorical):
    """How often each of K categories was drawn in `total_count` draws, by weights `probs` (*batch, K) or log weights `logits`.

    Both are normalised along the last dimension.  Probability n! Π p_k^x_k / x_k! (Johnson, Kotz, Balakrishnan, Discrete
    Multivariate Distributions, chapter 35).  `log_prob` reads n from its argument.  NotImplementedError for counts that are no int.

    >>> import flambeau
    >>> from flambeau.distributions import Multinomial
    >>> draws = Multinomial(10, flambeau.tensor([1.0, 1.0, 2.0]))
    >>> draws.mean, draws.sample((5,)).sum(-1)
    (tensor([2.5000, 2.5000, 5.0000]), tensor([10., 10., 10., 10., 10.]))
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}  # type: ignore[assignment]
    total_count: int

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._set_categorical(probs, logits, validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._expanded_categorical(Multinomial, batch_shape, _instance)
        new.total_count = self.total_count
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        sample_shape = Size(sample_shape)
        shape = self._extended_shape(sample_shape)
        with no_grad():
            if in_turn(self.probs):  # all first trials, then all second ones
                drawn = self._categorical.sample((self.total_count, *sample_shape)).movedim(0, -1)
                empty = zeros(shape, dtype=drawn.dtype, device=drawn.device)
                return empty.scatter_add_(-1, drawn, ones_like(drawn)).to(self.probs)
            if shape[-1] <= FEW:
                return (
                    counts(self.probs, sample_shape.numel(), self.total_count)
                    .view(shape)
                    .to(self.probs.dtype)
                )
            drawn = self._categorical.sample((*sample_shape, self.total_count))
            drawn = drawn.movedim(len(sample_shape), -1)
            empty = zeros(shape, dtype=drawn.dtype, device=drawn.device)
            return empty.scatter_add_(-1, drawn, ones_like(drawn)).to(self.probs)

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return (value.sum(-1) + 1).lgamma() + _weight(value, self.logits).sum(-1)

    def entropy(self) -> Tensor:
        n, probs = self.total_count, self.probs
        counts = arange(n + 1, dtype=probs.dtype, device=probs.device).view((-1, *[1] * probs.dim()))
        expected = _log_factorial_weight(counts, probs, float(n)).sum((0, -1))
        return n * self._categorical.entropy() - math.lgamma(n + 1) + expected
