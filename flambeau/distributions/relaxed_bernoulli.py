"""Relaxations of the Bernoulli distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import Size
from ..core.base.typeinfo import finfo
from ..core.make.create import empty
from . import constraints
from ._fused import fn, fused, made_of, softplus
from ._probs import ByProbsOrLogits
from .transformed_distribution import TransformedDistribution
from .transforms import SigmoidTransform
from .utils import _as_tensor

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


@fused
def _relaxed_logit(noise, logits, temperature):
    """Of noise uniform in (0, 1)."""
    return (fn.log(noise) - fn.log1p(-noise) + logits) / temperature


@fused
def _relaxed_log_prob(value, logits, temperature):
    difference = logits - value * temperature
    return fn.log(temperature) + difference - 2.0 * softplus(difference)


class LogitRelaxedBernoulli(ByProbsOrLogits):
    """The log odds of `RelaxedBernoulli`: logistic noise around `logits`, or the log odds of `probs`, divided by `temperature`.

    Density t · exp(d) / (1 + exp(d))² with d = logits - t x, t the temperature, over the real line (Maddison et al., 2017, The
    Concrete distribution).  The batch is the shape of the parameter.

    Raises:
        ValueError: not one of `probs` and `logits` is given, or a parameter is outside of its bounds

    >>> import flambeau
    >>> from flambeau.distributions.relaxed_bernoulli import LogitRelaxedBernoulli
    >>> relaxed = LogitRelaxedBernoulli(flambeau.tensor(2.0), logits=flambeau.tensor([0.0, 1.0]))
    >>> relaxed.log_prob(flambeau.tensor(0.0)).exp()
    tensor([0.5000, 0.3932])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # type: ignore[assignment]
    support = constraints.real  # type: ignore[assignment]
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._set_one_of(probs, logits)
        self.temperature = temperature
        super().__init__(self._param.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._expanded_one_of(LogitRelaxedBernoulli, batch_shape, _instance)
        new.temperature = self.temperature
        return new

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        dtype = self._param.dtype
        eps = finfo(dtype).eps
        temperature = _as_tensor(self.temperature, self._param)
        noise = empty(self._extended_shape(sample_shape), dtype=dtype, device=self._param.device)
        return made_of(_relaxed_logit, noise.uniform_(eps, 1 - eps), self.logits, temperature)

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _relaxed_log_prob(value, self.logits, self.temperature)


class RelaxedBernoulli(TransformedDistribution):
    """A relaxed Bernoulli distribution over (0, 1): the sigmoid of `LogitRelaxedBernoulli`, with differentiable samples.

    The lower the temperature, the nearer its samples are to 0 and 1 (Maddison et al., 2017, The Concrete distribution; Jang et
    al., 2017, Categorical reparameterization with Gumbel-softmax).  The batch is the shape of `probs` or `logits`.

    Raises:
        ValueError: not just one of `probs` and `logits` is given, or it lies outside of its constraint

    >>> import flambeau
    >>> from flambeau.distributions import RelaxedBernoulli
    >>> relaxed = RelaxedBernoulli(flambeau.tensor(0.5), probs=flambeau.tensor([0.1, 0.9]))
    >>> relaxed.rsample((3,)).shape
    flambeau.Size([3, 2])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # type: ignore[assignment]
    support = constraints.unit_interval
    has_rsample = True  # type: ignore[assignment]

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits, validate_args)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return super().expand(batch_shape, _instance=self._get_checked_instance(RelaxedBernoulli, _instance))

    @property
    def temperature(self) -> Any:
        """How far from 0 and 1 samples are."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        return self.base_dist.probs
