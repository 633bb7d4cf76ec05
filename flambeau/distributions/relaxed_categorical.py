"""Relaxations of the categorical distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import Size
from ..core.base.typeinfo import finfo
from ..operations.rows.softmax import log_softmax
from . import constraints
from ._draws import exponential_noise
from ._fused import fn, fused
from ._over_categorical import OverCategorical
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform
from .utils import _as_tensor

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


@fused
def _score(noise, logits, temperature):
    """Of exponential noise, whose logarithm is a Gumbel number's negative."""
    return (logits - fn.log(noise)) / temperature


class ExpRelaxedCategorical(OverCategorical):
    """The logarithms of `RelaxedOneHotCategorical`: log-softmax of (`logits` + Gumbel noise) / `temperature`.

    Density (K-1)! t^(K-1) Π_k softmax_k(logits - t x), t the temperature, on the surface Σ exp x = 1 (Maddison et al., 2017, The
    Concrete distribution).  `probs` or `logits` are of shape (*batch, K).

    Raises:
        ValueError: not one of `probs` and `logits` is given, or a parameter is outside of its bounds

    >>> import flambeau
    >>> from flambeau.distributions.relaxed_categorical import ExpRelaxedCategorical
    >>> relaxed = ExpRelaxedCategorical(flambeau.tensor(0.5), probs=flambeau.tensor([0.2, 0.8]))
    >>> bool((relaxed.rsample((3,)).exp().sum(-1) - 1 < 1e-5).all())
    True
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}  # type: ignore[assignment]
    support = constraints.real_vector  # type: ignore[assignment]
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        self._set_categorical(probs, logits, validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._expanded_categorical(ExpRelaxedCategorical, batch_shape, _instance)
        new.temperature = self.temperature
        return new

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        logits = self.logits
        temperature = _as_tensor(self.temperature, logits)
        eps = finfo(logits.dtype).eps
        noise = exponential_noise(self._extended_shape(sample_shape), logits, eps, 1 - eps)
        return log_softmax(_score(noise, logits, temperature), -1)

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        others = self._categorical._num_events - 1
        temperature = _as_tensor(self.temperature, self.logits)
        score = log_softmax(self.logits - value * temperature, -1).sum(-1)
        return score + temperature.log() * others + math.lgamma(others + 1)


class RelaxedOneHotCategorical(TransformedDistribution):
    """A relaxed categorical distribution on the simplex: softmax of (`logits` + Gumbel noise) / `temperature`.

    The lower the temperature, the nearer its samples, which are differentiable, are to one-hot vectors (Maddison et al., 2017, The
    Concrete distribution; Jang et al., 2017, Categorical reparameterization with Gumbel-softmax).  `probs` or `logits` are of shape
    (*batch, K).

    Raises:
        ValueError: not just one of `probs` and `logits` is given, or it lies outside of its constraint

    >>> import flambeau
    >>> from flambeau.distributions import RelaxedOneHotCategorical
    >>> relaxed = RelaxedOneHotCategorical(flambeau.tensor(0.5), probs=flambeau.tensor([0.2, 0.3, 0.5]))
    >>> relaxed.rsample((2,)).shape
    flambeau.Size([2, 3])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}  # type: ignore[assignment]
    support = constraints.simplex
    has_rsample = True  # type: ignore[assignment]

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return super().expand(
            batch_shape, _instance=self._get_checked_instance(RelaxedOneHotCategorical, _instance)
        )

    @property
    def temperature(self) -> Any:
        """How far from one-hot vectors samples are."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        return self.base_dist.probs
