"""Distances between pairs of vectors."""

from __future__ import annotations

from ..._tensor import Tensor
from .. import functional as F
from .module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class PairwiseDistance(Module):
    """The p-norm of `x1 - x2 + eps` along the last dimension: (N, D) or (D) to (N) or ().

    Raises:
        RuntimeError: the shapes do not broadcast

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.PairwiseDistance(p=1, eps=0)(flambeau.zeros(1, 3), flambeau.ones(1, 3))
    tensor([3.])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """The cosine of the angle between `x1` and `x2` along `dim`; a product of norms below `eps` counts as
    `eps`.

    Raises:
        RuntimeError: the shapes do not broadcast

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.CosineSimilarity()(flambeau.tensor([[1.0, 0.0]]), flambeau.tensor([[3.0, 0.0]]))
    tensor([1.])
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
