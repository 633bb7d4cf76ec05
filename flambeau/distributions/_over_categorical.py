"""What distributions of vectors share that hold a categorical one."""

from __future__ import annotations

from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import Size
from .categorical import Categorical
from .distribution import Distribution


class OverCategorical(Distribution):
    """A distribution of vectors of length K, given by `probs` or `logits` (*batch, K) of a categorical distribution."""

    _categorical: Categorical

    def _set_categorical(self, probs: Any, logits: Any, validate_args: bool | None) -> None:
        self._categorical = Categorical(probs, logits, validate_args=False)
        shape = self._categorical.param_shape
        Distribution.__init__(self, shape[:-1], shape[-1:], validate_args=validate_args)

    def _check_parameters(self) -> None:
        self._categorical._check_parameters()  # which knows the one that was given

    def _expanded_categorical(self, cls: type, batch_shape: Any, _instance: Any) -> Any:
        new = self._get_checked_instance(cls, _instance)
        batch_shape = Size(batch_shape)
        new._categorical = self._categorical.expand(batch_shape)
        return self._settled(new, batch_shape)

    def _new(self, *args: Any, **kwargs: Any) -> Any:
        return self._categorical._new(*args, **kwargs)

    @property
    def _param(self) -> Any:
        return self._categorical._param

    @property
    def probs(self) -> Tensor:
        """The probability of each category."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """The logarithm of the probability of each category."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter: batch, and the number of categories."""
        return self._categorical.param_shape
