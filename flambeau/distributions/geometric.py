"""The geometric distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..autograd.grad_mode import no_grad
from ..core.base.dtypes import Size
from ..core.base.typeinfo import finfo
from ..core.make.create import zeros_like
from . import constraints
from ._draws import exponential_noise
from ._fused import fn, fused, made_of, xlog1py
from ._probs import ByProbsOrLogits
from .bernoulli import bernoulli_log_prob
from .distribution import holds_everywhere

__all__ = ["Geometric"]


@fused
def _failures(noise, probs):
    return fn.floor(noise / -fn.log1p(-probs))


@fused
def _geometric_log_prob(value, probs):
    return xlog1py(value, -probs) + fn.log(probs)


class Geometric(ByProbsOrLogits):
    """The number of failures before the first success of trials with probability `probs`, or log odds `logits`: the batch.

    Probability (1 - p)^k p for k = 0, 1, … (Johnson, Kemp, Kotz, Univariate Discrete Distributions, chapter 5); `geometric_` of a
    tensor counts trials, which are one more.  ValueError where not just one of `probs` and `logits` is given, or a probability is 0.

    >>> import flambeau
    >>> from flambeau.distributions import Geometric
    >>> trials = Geometric(flambeau.tensor([0.25, 1.0]))
    >>> trials.mean, trials.log_prob(flambeau.tensor(0.0)).exp()
    (tensor([3., 0.]), tensor([0.2500, 1.0000]))
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # type: ignore[assignment]
    support = constraints.nonnegative_integer  # type: ignore[assignment]

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._set_one_of(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)
        if (
            self._validate_args
            and probs is not None
            and not holds_everywhere(constraints.positive, self.probs)
        ):
            raise ValueError(
                f"Expected parameter probs ({type(self.probs).__name__} of shape {tuple(self.probs.shape)}) of distribution"
                f" {self!r} to be positive but found invalid values:\n{self.probs.detach()[self.probs <= 0]}"
            )

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded_one_of(Geometric, batch_shape, _instance)

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        with no_grad():
            least = finfo(self.probs.dtype).tiny
            noise = exponential_noise(self._extended_shape(sample_shape), self.probs, least)
            return made_of(_failures, noise, self.probs)

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _geometric_log_prob(value, self.probs)

    def entropy(self) -> Tensor:
        return -bernoulli_log_prob(self.probs, self.logits) / self.probs
