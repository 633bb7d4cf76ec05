"""The binomial distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..autograd.grad_mode import no_grad
from ..core.base.dtypes import Size
from ..core.make.create import arange
from ..operations.random.sampled import binomial
from . import constraints
from ._fused import fn, fused, softplus
from ._probs import ByProbsOrLogits, only_one
from .utils import broadcast_all

__all__ = ["Binomial"]


@fused
def _binomial_normalizer(total_count, logits):
    return total_count * softplus(logits) - fn.lgamma(total_count + 1.0)


@fused
def _binomial_log_prob(value, total_count, logits, normalizer):
    return value * logits - fn.lgamma(value + 1.0) - fn.lgamma(total_count - value + 1.0) - normalizer


class CountedTrials(ByProbsOrLogits):
    """Distributions of counts: `total_count` beside `probs` or `logits`."""

    total_count: Any

    def _set_count_and_one_of(self, total_count: Any, probs: Any, logits: Any) -> None:
        only_one(probs, logits)
        if probs is not None:
            self.total_count, self.probs = broadcast_all(total_count, probs)
            self._param = self.probs
        else:
            self.total_count, self.logits = broadcast_all(total_count, logits)
            self._param = self.logits
        self.total_count = self.total_count.type_as(self._param)

    def _expanded_count_and_one_of(self, cls: type, batch_shape: Sequence[int], _instance: Any) -> Any:
        new = self._expanded_one_of(cls, batch_shape, _instance)
        new.total_count = self.total_count.expand(new._batch_shape)
        return new


class Binomial(CountedTrials):
    """How many of `total_count` trials succeed, each with probability `probs`, or log odds `logits`; they broadcast: the batch.

    Probability C(n, k) p^k (1 - p)^(n - k) (Johnson, Kemp, Kotz, Univariate Discrete Distributions, chapter 3).  ValueError
    where not just one of `probs` and `logits` is given; NotImplementedError where `entropy` and `enumerate_support` meet
    different counts.

    >>> import flambeau
    >>> from flambeau.distributions import Binomial
    >>> binomial = Binomial(4, flambeau.tensor([0.0, 0.5, 1.0]))
    >>> binomial.log_prob(flambeau.tensor([0.0, 2.0, 4.0])).exp()
    tensor([1.0000, 0.3750, 1.0000])
    >>> binomial.sample((2,)).shape
    flambeau.Size([2, 3])
    """

    arg_constraints = {  # type: ignore[assignment]
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self,
        total_count: Any = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self._set_count_and_one_of(total_count, probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded_count_and_one_of(Binomial, batch_shape, _instance)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n, logits = self.total_count, self.logits
        return _binomial_log_prob(value, n, logits, _binomial_normalizer(n, logits))

    def entropy(self) -> Tensor:
        self._one_count("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        count = self._one_count("enumerate_support")
        values = arange(1 + count, dtype=self._param.dtype, device=self._param.device)
        values = values.view((-1, *[1] * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values

    def _one_count(self, who: str) -> int:
        count = int(self.total_count.max())
        if self.total_count.min() != count:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{who}`.")
        return count
