"""What distributions share that are given by probabilities or by logits, one of the two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from .distribution import Distribution
from .utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits


def only_one(probs: Any, logits: Any) -> None:
    """ValueError unless just one of both is given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


class ByProbsOrLogits(Distribution):
    """`probs` or `logits` as given, the other computed when first requested; `_param` is the one that was given."""

    _param: Any

    def _set_one_of(self, probs: Any, logits: Any) -> None:
        only_one(probs, logits)
        if probs is not None:
            (self.probs,) = broadcast_all(probs)
            self._param = self.probs
        else:
            (self.logits,) = broadcast_all(logits)
            self._param = self.logits

    def _expanded_one_of(self, cls: type, batch_shape: Sequence[int], _instance: Any) -> Any:
        new = self._expanded(cls, batch_shape, _instance, "probs", "logits")
        given = self.__dict__
        new._param = new.logits if "logits" in given and self._param is given["logits"] else new.probs
        return new

    def _new(self, *args: Any, **kwargs: Any) -> Any:
        return self._param.new(*args, **kwargs)

    @lazy_property
    def logits(self) -> Tensor:
        """log(p / (1 - p)) of the probability of success."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """The probability of success."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._param.shape
