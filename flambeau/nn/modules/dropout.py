"""Dropout and its variants; they act in training mode only."""

from __future__ import annotations

from ..._tensor import Tensor
from .. import functional as F
from .module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _DropoutNd(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Zero each element with probability `p` and scale the others by 1/(1 - p) (Hinton et al., 2012).

    Raises:
        ValueError: `p` is outside of [0, 1].

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.Dropout(0.5).eval()(flambeau.ones(3))
    tensor([1., 1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Zero whole channels of an input (N, C, L) or (C, L), each with probability `p` (Tompson et al.,
    2015).

    Shape:
        input: (N, C, L) or (C, L); the result has the same

    Raises:
        ValueError: `p` lies outside [0, 1]

    >>> import flambeau
    >>> x = flambeau.nn.Dropout1d(0.5)(flambeau.ones(1, 4, 100))
    >>> bool((x == x[..., :1]).all())
    True
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Zero whole channels of an input (N, C, H, W), each with probability `p` (Tompson et al., 2015).

    Shape:
        input: (N, C, H, W); the result has the same

    Raises:
        ValueError: `p` lies outside [0, 1]

    >>> import flambeau
    >>> x = flambeau.nn.Dropout2d(0.5)(flambeau.ones(1, 4, 8, 8))
    >>> bool((x == x[..., :1, :1]).all())
    True
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Zero whole channels of an input (N, C, D, H, W) or (C, D, H, W), each with probability `p`.

    Shape:
        input: (N, C, D, H, W) or (C, D, H, W); the result has the same

    Raises:
        ValueError: `p` lies outside [0, 1]

    >>> import flambeau
    >>> x = flambeau.nn.Dropout3d(0.5)(flambeau.ones(1, 4, 2, 2, 2))
    >>> bool((x == x[..., :1, :1, :1]).all())
    True
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps zero mean and unit variance, to go with SELU (Klambauer et al., 2017).

    Shape:
        input: any; the result has the same

    Raises:
        ValueError: `p` lies outside [0, 1]

    >>> import flambeau
    >>> flambeau.nn.AlphaDropout(0.5).eval()(flambeau.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(_DropoutNd):
    """AlphaDropout of whole channels of an input (N, C, ...).

    Shape:
        input: (N, C, *); the result has the same

    Raises:
        ValueError: `p` lies outside [0, 1]

    >>> import flambeau
    >>> flambeau.nn.FeatureAlphaDropout(0.5).eval()(flambeau.tensor([[1.0, 2.0]]))
    tensor([[1., 2.]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training, self.inplace)
