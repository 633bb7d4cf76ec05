"""The Bernoulli distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import Size
from ..core.make.create import arange
from ..core.make.literal import as_tensor
from ..operations.random.random import bernoulli
from . import constraints
from ._fused import fn, fused, softplus
from ._probs import ByProbsOrLogits
from .exp_family import ExponentialFamily

__all__ = ["Bernoulli"]


@fused
def bernoulli_log_prob(value, logits):
    """log p and log(1 - p), or what lies between them: -softplus(logits) + value · logits."""
    return value * logits - softplus(logits)


@fused
def _bernoulli_mode(probs):
    return fn.where(probs == 0.5, math.nan, fn.where(probs > 0.5, fn.like(probs, 1.0), fn.like(probs, 0.0)))


class Bernoulli(ByProbsOrLogits, ExponentialFamily):
    """The Bernoulli distribution: 1 with probability `probs`, else 0; or with log odds `logits`, of shape batch.

    Probability p^x (1 - p)^(1 - x) (Johnson, Kemp, Kotz, Univariate Discrete Distributions, chapter 3).  ValueError where not just
    one of `probs` and `logits` is given.

    >>> import flambeau
    >>> from flambeau.distributions import Bernoulli
    >>> coin = Bernoulli(flambeau.tensor([0.0, 0.25, 1.0]))
    >>> coin.variance
    tensor([0.0000, 0.1875, 0.0000])
    >>> coin.sample((2,)).shape
    flambeau.Size([2, 3])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # type: ignore[assignment]
    support = constraints.boolean  # type: ignore[assignment]
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._set_one_of(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded_one_of(Bernoulli, batch_shape, _instance)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return _bernoulli_mode(self.probs.detach())

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        return bernoulli(self.probs.detach().expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value = as_tensor(value)
        result = bernoulli_log_prob(value, self.logits)
        return result.to(value.dtype) if value.is_floating_point() else result

    def entropy(self) -> Tensor:
        return -bernoulli_log_prob(self.probs, self.logits)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = arange(2, dtype=self._param.dtype, device=self._param.device)
        values = values.view((-1, *[1] * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.probs.logit(),)

    def _log_normalizer(self, x: Any) -> Any:  # type: ignore[override]
        return x.exp().log1p()
