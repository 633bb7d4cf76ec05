"""What the two weight norms and the two spectral norms share: weights as length and direction, and as matrices."""

from __future__ import annotations

from typing import Any

from ..._tensor import Tensor
from ...autograd.grad_mode import no_grad
from ...operations.rows.norms import vector_norm
from .. import functional as F
from ..modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d


def norm_except(v: Tensor, dim: int) -> Tensor:
    """The 2-norms of `v` over all dimensions but `dim`, which keep size 1; for `dim` -1, the norm of all of it, a scalar."""
    if dim == -1:
        return vector_norm(v)
    if not -v.dim() <= dim < v.dim():
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-v.dim()}, {v.dim() - 1}], but got {dim})"
        )
    others = [d for d in range(v.dim()) if d != dim % v.dim()]
    return vector_norm(v, 2, others, True) if others else v.abs()


def directed(v: Tensor, g: Tensor, dim: int) -> Tensor:
    """The tensor of the direction of `v` and the length `g`: g · v / |v|."""
    return v * (g / norm_except(v, dim))


def output_dim(module: Any, dim: int | None) -> int:
    """The dimension of a weight that counts the outputs, where `dim` is None."""
    if dim is not None:
        return dim
    return 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """A matrix whose rows are the parts of `weight` along `dim`."""
    others = [d for d in range(weight.dim()) if d != dim % weight.dim()]
    return weight.permute(dim, *others).flatten(1)


def random_direction(weight: Tensor, size: int, eps: float) -> Tensor:
    with no_grad():
        return F.normalize(weight.new_empty(size).normal_(0, 1), dim=0, eps=eps)
