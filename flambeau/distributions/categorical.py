"""The categorical distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import Size, by_name
from ..core.base.typeinfo import finfo
from ..core.make.create import arange, full
from ..operations.moving.shaping import broadcast_shapes
from ..operations.rows.softmax import log_softmax
from . import constraints
from ._draws import categories
from ._fused import fn, fused
from ._probs import only_one
from .distribution import Distribution
from .utils import lazy_property, logits_to_probs, probs_to_logits

__all__ = ["Categorical"]

_INT64 = by_name["int64"]


@fused
def _surprise(probs, logits, *, least):
    """p log p, where the logarithm of 0 is the least number."""
    return probs * fn.where(logits < least, least, logits)


class Categorical(Distribution):
    """The categorical distribution over 0 … K-1 by weights `probs` (*batch, K), or their logarithms `logits`.

    Both are normalised along the last dimension.  Probability of k: probs[k].  Values are int64; mean and variance are NaN.
    ValueError where not just one of `probs` and `logits` is given, or it has no dimension.

    >>> import flambeau
    >>> from flambeau.distributions import Categorical
    >>> choice = Categorical(flambeau.tensor([1.0, 1.0, 2.0]))
    >>> choice.probs, choice.log_prob(flambeau.tensor(2)).exp()
    (tensor([0.2500, 0.2500, 0.5000]), tensor(0.5000))
    >>> choice.sample((2, 3)).shape
    flambeau.Size([2, 3])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}  # type: ignore[assignment]
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        only_one(probs, logits)
        name, given = ("probs", probs) if probs is not None else ("logits", logits)
        if given.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if probs is not None:
            self.probs = self._param = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = self._param = log_softmax(logits, -1)
        *batch, self._num_events = self._param.shape
        super().__init__(Size(batch), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Categorical, _instance)
        batch_shape = Size(batch_shape)
        given = self.__dict__
        for name in ("probs", "logits"):
            if name in given:
                setattr(new, name, given[name].expand(batch_shape + (self._num_events,)))
                if given[name] is self._param:
                    new._param = getattr(new, name)
        new._num_events = self._num_events
        return self._settled(new, batch_shape)

    def _new(self, *args: Any, **kwargs: Any) -> Any:
        return self._param.new(*args, **kwargs)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Tensor:
        """The logarithm of the probability of each category."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """The probability of each category."""
        return logits_to_probs(self.logits)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter: batch, and the number of categories."""
        return self._param.shape

    def _unknown(self) -> Any:
        return full(self._extended_shape(), math.nan, dtype=self.probs.dtype, device=self.probs.device)

    @property
    def mean(self) -> Tensor:
        return self._unknown()

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        return self._unknown()

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        sample_shape = Size(sample_shape)
        drawn = categories(self.probs, sample_shape.numel())
        return drawn.view(self._extended_shape(sample_shape))

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = self.logits, value.to(_INT64)
        shape = broadcast_shapes(value.shape, logits.shape[:-1])
        value = value.expand(shape).unsqueeze(-1)
        return logits.expand((*shape, self._num_events)).gather(-1, value).squeeze(-1)

    def entropy(self) -> Tensor:
        return -_surprise(self.probs, self.logits, least=finfo(self.logits.dtype).min).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = arange(self._num_events, dtype=_INT64, device=self._param.device)
        values = values.view((-1, *[1] * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values
