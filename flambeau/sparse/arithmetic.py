"""Sums, differences, products and quotients element by element."""

from __future__ import annotations

from typing import Any

from .._compat.queries import can_cast
from ..core import tape
from ..core.base.dtypes import promote_types
from ..core.base.tensor import TensorBase
from ..operations.declare.registry import published
from .conversion import coalesce, to_compressed, to_coordinates
from .patterns import Coordinates
from .tensors import SparseTensor, overrides, sparse, values_at, values_of
from .unary import once

_cat = published("")["cat"]


def is_number(x: Any) -> bool:
    """Whether that is a number, or a dense tensor of one.

    >>> import flambeau
    >>> from flambeau.sparse.arithmetic import is_number
    >>> is_number(2.0), is_number(flambeau.ones(1))
    (True, False)
    """
    return not isinstance(x, SparseTensor) and (not isinstance(x, TensorBase) or x.ndim == 0)


def mixed(name: str, a: TensorBase, b: TensorBase) -> RuntimeError:
    """The error of an operation between layouts that it is not for.

    >>> import flambeau
    >>> from flambeau.sparse.arithmetic import mixed
    >>> print(mixed("add", flambeau.eye(2).to_sparse(), flambeau.eye(2).to_sparse_csr()))
    add(): the layouts flambeau.sparse_coo and flambeau.sparse_csr do not go together; convert one of them with to_sparse(layout=...)
    """
    return RuntimeError(
        f"{name}(): the layouts {a.layout} and {b.layout} do not go together; convert one of them with to_sparse(layout=...)"
    )


def same_size(name: str, a: TensorBase, b: TensorBase) -> None:
    """RuntimeError unless the tensors have one shape.

    >>> import flambeau
    >>> from flambeau.sparse.arithmetic import same_size
    >>> same_size("add", flambeau.ones(2), flambeau.ones(2))
    """
    if a.shape != b.shape:
        raise RuntimeError(
            f"{name}(): expected tensors of the same size where one is sparse, got {tuple(a.shape)} and {tuple(b.shape)}"
        )


def _dense_with(name: str, x: Any, other: Any) -> NotImplementedError:
    kinds = [
        "sparse" if isinstance(y, SparseTensor) else "dense" if isinstance(y, TensorBase) else "a number"
        for y in (x, other)
    ]
    return NotImplementedError(
        f"{name}(): not available for {kinds[0]} and {kinds[1]}; make them dense with to_dense()"
    )


# --- sums ------------------------------
@overrides("add")
def _add(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """Of two sparse tensors a sparse one with the places of both, of a sparse and a dense one a dense one."""
    if not isinstance(input, TensorBase) or not isinstance(other, TensorBase):
        raise _dense_with("add", input, other)
    if not (isinstance(input, SparseTensor) and isinstance(other, SparseTensor)):
        if is_number(input) or is_number(other):
            raise _dense_with("add", input, other)
        same_size("add", input, other)
        if isinstance(input, SparseTensor):
            return _onto(other if alpha == 1 else other * alpha, input, 1)
        return _onto(input, other, alpha)  # type: ignore[arg-type]  # the sparse one
    same_size("add", input, other)
    if input.layout is not other.layout:
        raise mixed("add", input, other)
    a, b = values_of(input), values_of(other) if alpha == 1 else values_of(other) * alpha
    if input._pattern.same(other._pattern):
        return sparse(input._pattern, a + b)
    if type(input._pattern) is not Coordinates:
        if input._pattern.block != other._pattern.block:
            raise RuntimeError(
                f"add(): blocks of {input._pattern.block} and {other._pattern.block} do not go together"
            )
        total = _add(to_coordinates(input), to_coordinates(other), alpha=alpha)
        return to_compressed(total, input.layout, input._pattern.block or None)
    if input.sparse_dim() != other.sparse_dim():
        raise RuntimeError(
            f"add(): expected sparse tensors of the same sparse_dim, got {input.sparse_dim()} and {other.sparse_dim()}"
        )
    pattern = Coordinates(_cat([input._pattern.at, other._pattern.at], 1), input.shape, False)
    both = sparse(pattern, _cat([a, b]))
    return coalesce(both) if input._pattern.coalesced and other._pattern.coalesced else both


def _onto(dense: TensorBase, x: SparseTensor, alpha: Any) -> TensorBase:
    """dense + alpha * x, as a new tensor."""
    kind = promote_types(dense.dtype, x.dtype)
    if tape.tracked(dense) or tape.tracked(x):
        dense_x = x.to_dense()
        return dense + (dense_x if alpha == 1 else dense_x * alpha)
    return _add_into(dense.to(kind, copy=True), x, alpha)


def _add_into(dense: TensorBase, x: SparseTensor, alpha: Any) -> TensorBase:
    if type(x._pattern) is not Coordinates:
        x = to_coordinates(x)
    values = values_of(x)
    values = (values if alpha == 1 else values * alpha).to(dense.dtype)
    if x.sparse_dim():
        return dense.index_put_(tuple(x._pattern.at), values, accumulate=True)
    return dense.add_(values.sum(0))


@overrides("add_")
def _add_(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """In place; where a dense tensor is added to a sparse one, another, dense one: a sparse one cannot hold it."""
    if not isinstance(other, TensorBase):
        raise _dense_with("add_", input, other)
    same_size("add_", input, other)
    if isinstance(input, SparseTensor):
        result = _add(input, other, alpha=alpha)
        if not isinstance(result, SparseTensor):
            return result
        return input._become(_in_dtype_of(result, input), "add_")
    return _add_into(input, other, alpha)  # type: ignore[arg-type]


@overrides("sub")
def _sub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    return _add(input, other, alpha=-alpha)


@overrides("sub_")
def _sub_(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    return _add_(input, other, alpha=-alpha)


# --- products ------------------------------
@overrides("mul")
def _mul(input: Any, other: Any) -> Any:
    """Of two sparse tensors the places that both list; of a sparse and a dense one, or a number, those of the sparse one."""
    if not isinstance(input, SparseTensor):
        input, other = other, input
    if is_number(other):
        return sparse(input._pattern, values_of(input) * other)
    if not isinstance(other, SparseTensor):
        return sparse(
            input._pattern, values_of(input) * values_at(_broadcast("mul", other, input), input._pattern)
        )
    same_size("mul", input, other)
    if input.layout is not other.layout:
        raise mixed("mul", input, other)
    if type(input._pattern) is not Coordinates:
        if input._pattern.same(other._pattern):
            return sparse(input._pattern, values_of(input) * values_of(other))
        both = _mul(to_coordinates(input), to_coordinates(other))
        return to_compressed(both, input.layout, input._pattern.block or None)
    if input.sparse_dim() != other.sparse_dim():
        raise RuntimeError(
            f"mul(): expected sparse tensors of the same sparse_dim, got {input.sparse_dim()} and {other.sparse_dim()}"
        )
    a, b = coalesce(input), coalesce(other)
    kind = promote_types(a.dtype, b.dtype)
    if a._pattern.same(b._pattern):
        return sparse(a._pattern, values_of(a) * values_of(b))
    if not a._nnz() or not b._nnz():
        none = values_of(a)[:0].to(kind)
        return sparse(Coordinates(a._pattern.at[:, :0], a.shape, True), none)
    keys, others = a._pattern.keys(), b._pattern.keys()
    place = published("")["searchsorted"](others, keys).clamp(max=others.shape[0] - 1)
    matching = (others.index_select(0, place) == keys).nonzero().reshape(-1)
    pattern = Coordinates(a._pattern.at.index_select(1, matching), a.shape, True)
    matched = place.index_select(0, matching)
    return sparse(pattern, values_of(a).index_select(0, matching) * values_of(b).index_select(0, matched))


def _broadcast(name: str, dense: TensorBase, x: SparseTensor) -> TensorBase:
    """A dense tensor broadcast to a sparse one's shape."""
    ahead = (1,) * (x.ndim - dense.ndim) + tuple(dense.shape)
    if len(ahead) != x.ndim or any(a not in (1, b) for a, b in zip(ahead, x.shape)):
        raise RuntimeError(
            f"{name}(): a dense tensor of the shape {list(dense.shape)} does not broadcast to the sparse one's {list(x.shape)}"
        )
    return dense.expand(x.shape)


@overrides("mul_")
def _mul_(input: Any, other: Any) -> Any:
    if not isinstance(input, SparseTensor):
        raise _dense_with("mul_", input, other)
    return input._become(_in_dtype_of(_mul(input, other), input), "mul_")


def _in_dtype_of(result: Any, into: SparseTensor) -> Any:
    """A result in the dtype of what it is written to, where that may be."""
    if result.dtype != into.dtype and can_cast(result.dtype, into.dtype):
        return result.to(into.dtype)
    return result


# --- quotients ------------------------------
@overrides("div")
def _div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    if not isinstance(input, SparseTensor):
        raise _dense_with("div", input, other)
    if not is_number(other):
        raise RuntimeError(
            "div(): Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
            f"{list(other.shape)} for divisor, layout {other.layout})"
        )
    x = input if rounding_mode is None else once(input)
    return sparse(x._pattern, values_of(x).div(other, rounding_mode=rounding_mode))


@overrides("div_")
def _div_(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    if not isinstance(input, SparseTensor):
        raise _dense_with("div_", input, other)
    return input._become(_in_dtype_of(_div(input, other, rounding_mode=rounding_mode), input), "div_")


@overrides("floor_divide")
def _floor_divide(input: Any, other: Any) -> Any:
    return _div(input, other, rounding_mode="floor")


@overrides("floor_divide_")
def _floor_divide_(input: Any, other: Any) -> Any:
    return _div_(input, other, rounding_mode="floor")
