"""The categorical distribution of one-hot vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import Size
from ..core.make.create import eye
from ..operations.neural.embedding.embedding import one_hot
from . import constraints
from ._draws import one_hot_categories
from ._over_categorical import OverCategorical

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(OverCategorical):
    """The categorical distribution of one-hot vectors of length K, by weights `probs` (*batch, K) or log weights `logits`.

    Both are normalised along the last dimension.  Probability of the vector with 1 at k: probs[k].  Samples are of the dtype of
    the parameter, and of shape `sample_shape` + batch + (K,).

    Raises:
        ValueError: not just one of `probs` and `logits` is given, or it lies outside of its constraint

    >>> import flambeau
    >>> from flambeau.distributions import OneHotCategorical
    >>> choice = OneHotCategorical(flambeau.tensor([0.0, 1.0, 0.0]))
    >>> choice.sample()
    tensor([0., 1., 0.])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}  # type: ignore[assignment]
    support = constraints.one_hot  # type: ignore[assignment]
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._set_categorical(probs, logits, validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded_categorical(OneHotCategorical, batch_shape, _instance)

    @property
    def mean(self) -> Tensor:
        return self._categorical.probs

    @property
    def mode(self) -> Tensor:
        probs = self._categorical.probs
        return one_hot(probs.argmax(-1), probs.shape[-1]).to(probs)

    @property
    def variance(self) -> Tensor:
        return self._categorical.probs * (1 - self._categorical.probs)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        sample_shape = Size(sample_shape)
        probs = self._categorical.probs
        drawn = one_hot_categories(probs, sample_shape.numel())
        return drawn.view(self._extended_shape(sample_shape)).to(probs.dtype)

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self.event_shape[0]
        values = eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.view((n, *[1] * len(self.batch_shape), n))
        return values.expand((n, *self.batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """`OneHotCategorical` whose samples hand their gradient straight on to the probabilities (Bengio et al., 2013).

    Raises:
        ValueError: not just one of `probs` and `logits` is given, or it lies outside of its constraint

    >>> import flambeau
    >>> from flambeau.distributions import OneHotCategoricalStraightThrough
    >>> probs = flambeau.tensor([0.25, 0.75], requires_grad=True)
    >>> choice = OneHotCategoricalStraightThrough(probs)
    >>> choice.rsample()[0].backward()
    >>> probs.grad
    tensor([ 0.7500, -0.2500])
    """

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        probs = self._categorical.probs
        return self.sample(sample_shape) + (probs - probs.detach())
