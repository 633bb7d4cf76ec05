"""Softmax of what is listed: places that are not have the probability zero."""

from __future__ import annotations

from typing import Any

from ..core.base.tensor import TensorBase
from ..core.tape.contexts import unrecorded
from ..operations.declare.registry import published
from .conversion import coalesce
from .patterns import Coordinates
from .tensors import SparseTensor, overrides, sparse, values_of

_where = published("")["where"]


def _groups(pattern: Coordinates, dim: int) -> tuple[TensorBase, int]:
    """Which of the lines along a sparse dimension each place is in, and how many there are."""
    left = [d for d in range(pattern.sparse_dim) if d != dim]
    if not left:
        return pattern.at.new_zeros([pattern.at.shape[1]]), 1
    at = published("")["stack"]([pattern.at[d] for d in left])
    lines = Coordinates(at, tuple(pattern.size[d] for d in left), False)
    return lines.group(), lines.sorted()[0].at.shape[1]


def _parts(name: str, input: Any, dim: int, dtype: Any) -> tuple:
    if not isinstance(input, SparseTensor) or type(input._pattern) is not Coordinates:
        raise RuntimeError(
            f"{name}(): a sparse tensor in coordinates expected, got the layout {input.layout}"
        )
    if not -input.ndim <= dim < max(input.ndim, 1):
        raise IndexError(
            f"{name}(): Dimension out of range (expected to be in range of [{-input.ndim}, {input.ndim - 1}], but got {dim})"
        )
    x = coalesce(input)
    values = values_of(x)
    if dtype is not None:
        values = values.to(dtype)
    if not values.is_floating_point():
        raise RuntimeError(f"{name}(): a floating-point dtype expected, got {values.dtype}; give dtype")
    return x._pattern, values, dim % max(input.ndim, 1)


def _lines(pattern: Coordinates, values: TensorBase, dim: int) -> tuple:
    """Values less the largest of their line, each one's line, and the sum of exponentials of each line."""
    group, count = _groups(pattern, dim)
    with unrecorded():
        low = values.new_full([count, *values.shape[1:]], -float("inf"))
        top = low.index_reduce(0, group, values.detach(), "amax")
        top = _where(top.isinf(), top.new_zeros([]), top)
    shifted = values - top.index_select(0, group)
    total = values.new_zeros([count, *values.shape[1:]]).index_add(0, group, shifted.exp())
    return shifted, group, total


def softmax(input: SparseTensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """exp(xᵢ) / Σⱼ exp(xⱼ) along `dim`, over the places that a tensor in coordinates lists: the others are as -inf.

    The result, coalesced, lists what the input lists; `dtype` is that of the values in which it is computed.  RuntimeError
    for other layouts and dtypes that are not floating-point, IndexError for a dimension that there is not.

    >>> import flambeau
    >>> x = flambeau.tensor([[1.0, 0.0, 1.0], [0.0, 2.0, 0.0]]).to_sparse()
    >>> flambeau.sparse.softmax(x, 1).to_dense()
    tensor([[0.5000, 0.0000, 0.5000],
            [0.0000, 1.0000, 0.0000]])
    """
    pattern, values, dim = _parts("softmax", input, dim, dtype)
    if dim >= pattern.sparse_dim:
        return sparse(pattern, values.softmax(dim - pattern.sparse_dim + 1))
    shifted, group, total = _lines(pattern, values, dim)
    return sparse(pattern, shifted.exp() / total.index_select(0, group))


def log_softmax(input: SparseTensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """The logarithm of `softmax`, at the places that the tensor lists.

    Shape:
        input: any in coordinates; the result has the same

    Raises:
        RuntimeError: the tensor is not in coordinates
        IndexError: `dim` is out of range

    >>> import flambeau
    >>> x = flambeau.tensor([[1.0, 0.0, 1.0], [0.0, 2.0, 0.0]]).to_sparse()
    >>> flambeau.sparse.log_softmax(x, 1).values()
    tensor([-0.6931, -0.6931,  0.0000])
    """
    pattern, values, dim = _parts("log_softmax", input, dim, dtype)
    if dim >= pattern.sparse_dim:
        return sparse(pattern, values.log_softmax(dim - pattern.sparse_dim + 1))
    shifted, group, total = _lines(pattern, values, dim)
    return sparse(pattern, shifted - total.log().index_select(0, group))


@overrides("softmax")
def _softmax(input: SparseTensor, dim: int, dtype: Any = None, **options: Any) -> SparseTensor:
    return softmax(input, dim, dtype=dtype)


@overrides("log_softmax")
def _log_softmax(input: SparseTensor, dim: int, dtype: Any = None, **options: Any) -> SparseTensor:
    return log_softmax(input, dim, dtype=dtype)
