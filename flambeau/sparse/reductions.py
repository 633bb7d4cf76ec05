"""Sums over dimensions, norms, and whether anything is there."""

from __future__ import annotations

from typing import Any

from ..core.base.tensor import TensorBase
from .conversion import coalesce, to_compressed, to_coordinates
from .patterns import Coordinates
from .tensors import SparseTensor, need_tensor, overrides, sparse, values_of
from .unary import once


def _dims(name: str, x: TensorBase, dim: Any) -> tuple[int, ...]:
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    result = []
    for d in dims:
        if not -x.ndim <= d < max(x.ndim, 1):
            raise IndexError(
                f"{name}(): Dimension out of range (expected to be in range of [{-x.ndim}, {x.ndim - 1}], but got {d})"
            )
        result.append(d % max(x.ndim, 1))
    if len(set(result)) != len(result):
        raise RuntimeError(f"{name}(): dim {result[0]} appears multiple times in the list of dims")
    return tuple(sorted(result))


@overrides("sum")
def _sum(input: SparseTensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> TensorBase:
    """Over all dimensions a number; over some a sparse tensor of the others, a dense one where no sparse one is left."""
    if dim is None or dim == () or dim == []:
        return values_of(input).sum(dtype=dtype)
    dims = _dims("sum", input, dim)
    if type(input._pattern) is not Coordinates:
        if not keepdim:
            raise RuntimeError(
                f"sum(): reduction operations on tensors of layout {input.layout} with keepdim=False are not available; "
                "give keepdim=True, or use to_sparse()"
            )
        block = input._pattern.block
        if block:
            raise RuntimeError(f"sum(): not over dimensions of {input.layout}; use to_sparse() first")
        return to_compressed(_sum(to_coordinates(input), dims, True, dtype=dtype), input.layout, None)
    pattern, values = input._pattern, values_of(input)
    n = pattern.sparse_dim
    within = [d - n + 1 for d in dims if d >= n]
    if within:
        values = values.sum(within, keepdim, dtype=dtype)
    elif dtype is not None:
        values = values.to(dtype)
    elif not (values.is_floating_point() or values.is_complex()):
        values = values.long()
    size = [1 if d in dims else length for d, length in enumerate(pattern.size) if keepdim or d not in dims]
    left = [d for d in range(n) if d not in dims]
    if len(left) == n:
        return sparse(Coordinates(pattern.at, size, pattern.coalesced), values)
    if keepdim:
        at = pattern.at.clone()
        for d in set(range(n)) - set(left):
            at[d] = 0
        return coalesce(sparse(Coordinates(at, size, False), values))
    if not left:
        return values.sum(0)
    at = pattern.at[left] if len(left) > 1 else pattern.at[left[0] : left[0] + 1]
    return coalesce(sparse(Coordinates(at, size, False), values))


def sum(input: SparseTensor, dim: Any = None, dtype: Any = None) -> TensorBase:
    """The sum of all elements, or over the dimensions `dim` (an int or several).

    A sum over some dimensions is a sparse tensor in coordinates of the others, or a dense one where only dimensions of values
    are left.  Its gradient lists what `input` lists.  TypeError for a tensor that is not sparse, IndexError for a dimension
    that there is not.

    >>> import flambeau
    >>> x = flambeau.sparse_coo_tensor([[0, 1, 1], [0, 0, 1]], [1.0, 2.0, 3.0])
    >>> flambeau.sparse.sum(x), flambeau.sparse.sum(x, 1).to_dense()
    (tensor(6.), tensor([1., 5.]))
    """
    if not isinstance(input, SparseTensor):
        raise TypeError(f"sparse.sum(): a sparse tensor expected, got the layout {input.layout}")
    if dim is not None and type(input._pattern) is not Coordinates:
        input = to_coordinates(input)
    return _sum(input, dim, dtype=dtype)


@overrides("any")
def _any(input: SparseTensor, *args: Any, **kwargs: Any) -> TensorBase:
    if args or kwargs:
        raise NotImplementedError(
            f"any(): not over dimensions for tensors of layout {input.layout}; make them dense with to_dense()"
        )
    return values_of(once(input)).any()


@overrides("norm", "linalg_vector_norm")
def _norm(
    input: SparseTensor,
    p: Any = "fro",
    dim: Any = None,
    keepdim: bool = False,
    dtype: Any = None,
    ord: Any = None,
) -> TensorBase:
    if dim is not None or keepdim:
        raise RuntimeError(
            f"norm(): only of all elements for tensors of layout {input.layout}, got dim={dim}, keepdim={keepdim}"
        )
    order = p if ord is None else ord
    return values_of(once(input)).reshape(-1).norm(2 if order in ("fro", None) else order, dtype=dtype)


def native_norm(input: SparseTensor, p: Any = 2) -> TensorBase:
    """The p-norm of all elements of a sparse tensor.

    >>> import flambeau
    >>> flambeau.native_norm(flambeau.sparse_coo_tensor([[0, 2]], [3.0, 4.0]))
    tensor(5.)
    """
    need_tensor("native_norm", "input", 1, input)
    if not isinstance(input, SparseTensor):
        raise NotImplementedError(f"native_norm(): expected a sparse input, got the layout {input.layout}")
    return _norm(input, p)


@overrides("is_nonzero", "item")
def _item(input: SparseTensor) -> Any:
    if input.numel() != 1:
        raise RuntimeError(f"a Tensor with {input.numel()} elements cannot be converted to Scalar")
    return input.to_dense().item()
