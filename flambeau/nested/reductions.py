"""Sums and other folds of nested tensors, and operations along rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .._wrapper.wrapper_tensor import Overrides, along_rows, identity, reductions
from ..core.base.dtypes import by_name
from ..core.base.tensor import TensorBase
from ..operations.declare.registry import published
from ..operations.declare.results import category
from ..operations.rows.norms import norm2
from .jagged import NestedTensor, functional, jagged, methods, overrides
from .padding import packed, padded, rows, unpadded
from .pointwise import pointwise

_stack = published("")["stack"]
_vector_norm = published("linalg.")["vector_norm"]
of_sequences = Overrides()  # along each sequence, where the elements need not be padded


def _dims(name: str, x: NestedTensor, dim: Any) -> list[int] | None:
    if dim is None or (isinstance(dim, Sequence) and not dim):
        return None
    result = [x._dim(name, d) for d in (dim if isinstance(dim, Sequence) else (dim,))]
    if len(set(result)) < len(result):
        raise RuntimeError(f"{name}(): dim {list(dim)} appears multiple times in the list of dims")
    return result


def reduce(func: Any, input: NestedTensor, dim: Any = None, keepdim: bool = False, **kwargs: Any) -> Any:
    """A fold of all elements, along sequences, along dense dimensions, or along both and the batch.

    >>> import flambeau
    >>> from flambeau.nested.reductions import reduce
    >>> x = flambeau.nested.nested_tensor([[1., 5.], [2.]], layout=flambeau.jagged)
    >>> reduce(flambeau.amax, x, 1), reduce(flambeau.amax, x)
    (tensor([5., 2.]), tensor(5.))
    """
    name = func.__name__
    if isinstance(dim, TensorBase):  # `max` and `min` of two tensors
        return pointwise(func, input, dim)
    if not isinstance(input, NestedTensor):
        raise NestedTensor._refusal(name)
    dims = _dims(name, input, dim)
    if dims is None:
        result = func(packed(input)._elements, **kwargs)
        return result.reshape((1,) * input.ndim) if keepdim else result
    r = input._ragged_idx
    if 0 in dims and r not in dims:
        raise RuntimeError(
            f"{name}(): reducing along the batch dimension but not the ragged dimension is not supported for nested tensors"
        )
    if r not in dims:
        inner = [d - 1 for d in dims]
        result = func(
            input._elements, inner if isinstance(dim, Sequence) else inner[0], **_keepdim(keepdim), **kwargs
        )
        less = 0 if keepdim else sum(d < r for d in dims)
        return _like_rows(result, input, r - less)
    if 0 in dims:
        inner = [d - 1 for d in dims if d]
        elements = packed(input)._elements
        result = func(elements, inner if len(inner) > 1 else inner[0], **_keepdim(keepdim), **kwargs)
        return _each(result, lambda x: x.unsqueeze(0)) if keepdim else result
    return _along_sequences(func, input, dim, dims, keepdim, kwargs)


@overrides(methods.var, methods.std)
def _variance(
    func: Any,
    input: NestedTensor,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: bool = False,
    **kwargs: Any,
) -> Any:
    """`var` and `std`, whose third argument by position says whether one is taken from the count."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None:
        kwargs["correction"] = int(bool(unbiased))
    return reduce(func, input, dim, keepdim, **kwargs)


@overrides(methods.norm, _vector_norm)
def _norm(func: Any, input: NestedTensor, ord: Any = None, dim: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Of all elements, or of dense dimensions."""
    order = kwargs.pop("p", ord)
    order_args = () if order is None else (order,)
    dims = _dims(func.__name__, input, dim)
    if dims is None:
        return func(packed(input)._elements.reshape(-1), *order_args, **kwargs)
    r = input._ragged_idx
    if r in dims or 0 in dims:
        raise RuntimeError(
            f"{func.__name__}(): not available along the batch or the ragged dimension; use to_padded_tensor(0.0)"
        )
    keepdim = args[0] if args else kwargs.pop("keepdim", False)
    inner = [d - 1 for d in dims]
    result = func(input._elements, order if order_args else 2, inner, keepdim, **kwargs)
    return _like_rows(result, input, r - (0 if keepdim else sum(d < r for d in dims)))


@overrides(norm2)
def _norm_inside(func: Any, tensors: tuple, dim: Any = None, keepdim: bool = False, *rest: Any) -> Any:
    """The norm as other functions of the library call it."""
    return _norm(_vector_norm, tensors[0], 2, dim, keepdim)


def _keepdim(keepdim: bool) -> dict[str, bool]:
    """The argument `keepdim`, which not all have."""
    return {"keepdim": True} if keepdim else {}


def _each(result: Any, function: Callable[[TensorBase], Any]) -> Any:
    """Of a result, or of each of several."""
    if isinstance(result, TensorBase):
        return function(result)
    parts = [_each(x, function) for x in result]
    return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)


def _like_rows(result: Any, input: NestedTensor, ragged_dim: int) -> Any:
    return _each(result, lambda x: jagged(x, input.ragged, ragged_dim))


def _along_sequences(
    func: Any, input: NestedTensor, dim: Any, dims: list[int], keepdim: bool, kwargs: dict
) -> Any:
    """Dense results, one for each sequence."""
    name, r = func.__name__, input._ragged_idx
    if name in of_sequences:
        return of_sequences[name](func, input, dims, keepdim, **kwargs)
    if dims == [r] and input.ragged.longest * _width(input) >= _WORTH_A_CALL:
        return _one_by_one(func, input, dim, keepdim, kwargs)
    padded_input = padded(input, identity(func, input.dtype), least=1)
    return func(padded_input, dims if isinstance(dim, Sequence) else r, **_keepdim(keepdim), **kwargs)


_WORTH_A_CALL = (
    2048  # elements of a padded sequence, from which on a call for each costs less than the padding
)


def _width(input: NestedTensor) -> int:
    """Elements at each place of a sequence."""
    return math.prod(
        (*input._elements.shape[: input._ragged_idx - 1], *input._elements.shape[input._ragged_idx :])
    )


def _one_by_one(func: Any, input: NestedTensor, dim: Any, keepdim: bool, kwargs: dict) -> Any:
    """A fold of each sequence alone; of an empty one that of what changes nothing."""
    at = input._ragged_idx - 1
    shape = list(input._elements.shape)
    shape[at] = 1
    result = []
    for part in input.unbind():
        if not part.shape[at]:
            part = part.new_full(shape, identity(func, part.dtype))
        result.append(func(part, [at] if isinstance(dim, Sequence) else at, **_keepdim(keepdim), **kwargs))
    if isinstance(result[0], TensorBase):
        return _stack(result)
    return type(result[0])(*map(_stack, zip(*result)))


@of_sequences(methods.sum)
def _sum(func: Any, input: NestedTensor, dims: list[int], keepdim: bool, dtype: Any = None) -> TensorBase:
    return _sums(input, dims, keepdim, False, dtype)


@of_sequences(methods.mean)
def _mean(func: Any, input: NestedTensor, dims: list[int], keepdim: bool, dtype: Any = None) -> TensorBase:
    return _sums(input, dims, keepdim, True, dtype)


def _sums(input: NestedTensor, dims: list[int], keepdim: bool, mean: bool, dtype: Any) -> TensorBase:
    """Sums, or means, of sequences: rows are added where their sequence is."""
    r = input._ragged_idx
    if dtype is None and category(input.dtype) < 2:
        if mean:
            raise RuntimeError(
                "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: "
                f"{input.dtype}"
            )
        dtype = by_name["int64"]
    result = rows(input)
    result = result if dtype is None else result.to(dtype)
    half = result.dtype if result.dtype.name in ("float16", "bfloat16") else None
    result = result if half is None else result.float()
    sums = result.new_zeros((input.ragged.batch, *result.shape[1:])).index_add(
        0, input.ragged.segments(), result
    )
    if mean:
        counts = input.ragged.counts().to(sums.dtype)
        sums = sums / counts.reshape(-1, *[1] * (sums.ndim - 1))
    sums = sums.unsqueeze(1) if r == 1 else sums.unsqueeze(1).movedim(1, r)
    others = [d for d in dims if d != r]
    if others:
        sums = sums.mean(others, True) if mean else sums.sum(others, True)
    sums = sums if half is None else sums.to(half)
    return sums if keepdim else sums.squeeze(tuple(dims))


@of_sequences(methods.var, methods.std)
def _deviation(
    func: Any, input: NestedTensor, dims: list[int], keepdim: bool, correction: Any = 1
) -> TensorBase:
    """Variances of sequences, from deviations of their means, or the roots of these."""
    values = packed(input)
    off = values - _sums(values, dims, True, True, None)
    squares = _sums(off * off, dims, True, False, None)  # type: ignore[arg-type]
    count = input.ragged.counts() * math.prod(input.shape[d] for d in dims if d != input._ragged_idx)
    count = (count - correction).clamp(min=0).to(squares.dtype).reshape(-1, *[1] * (squares.ndim - 1))
    result = squares / count
    result = result.sqrt() if func.__name__ == "std" else result
    return result if keepdim else result.squeeze(tuple(dims))


def along(func: Any, input: NestedTensor, dim: Any = None, *args: Any, **kwargs: Any) -> Any:
    """An operation along rows of a dense dimension, or along each sequence.

    >>> import flambeau
    >>> from flambeau.nested.reductions import along
    >>> x = flambeau.nested.nested_tensor([[0., 0.], [2.]], layout=flambeau.jagged)
    >>> along(flambeau.softmax, x, 1).values()
    tensor([0.5000, 0.5000, 1.0000])
    """
    name = func.__name__
    if dim is None:
        raise RuntimeError(f"{name}(): a dim must be given for nested tensors")
    at = input._dim(name, dim)
    if at == 0:
        raise RuntimeError(
            f"{name}(): not supported when reducing across the batch dimension for NestedTensor"
        )
    if at != input._ragged_idx:
        return _like_rows(func(input._elements, at - 1, *args, **kwargs), input, input._ragged_idx)
    if name in of_sequences and input.dtype.is_floating_point:
        return of_sequences[name](func, input, *args, **kwargs)
    output = func(padded(input, identity(func, input.dtype), least=1), at, *args, **kwargs)
    return _each(output, lambda x: unpadded(x, input.ragged, at))


@of_sequences(methods.softmax, methods.log_softmax, functional.softmin)
def _softmax(func: Any, input: NestedTensor, *args: Any, **kwargs: Any) -> NestedTensor:
    """Along sequences: exp(x - m) / Σ, the largest m of each a constant, for its derivatives cancel."""
    dtype = next((a for a in (*args, *kwargs.values()) if hasattr(a, "is_floating_point")), None)
    r, kind = input.ragged, dtype or input.dtype
    result = rows(input).to(kind)
    result = result.float() if kind.name in ("float16", "bfloat16") else result
    result = -result if func.__name__ == "softmin" else result
    r = r.packed()
    top = padded(jagged(result.detach(), r, 1), -math.inf, least=1).amax(1)
    shifted = result - top.index_select(0, r.segments())
    weights = shifted.exp()
    sums = _sums(jagged(weights, r, 1), [1], False, False, None)
    if func.__name__ == "log_softmax":
        result = shifted - sums.log().index_select(0, r.segments())
    else:
        result = weights / sums.index_select(0, r.segments())
    result = result if result.dtype is kind else result.to(kind)
    at = input._ragged_idx
    return jagged(result if at == 1 else result.movedim(0, at - 1), r, at)


overrides.group(reductions(), reduce)
overrides.group(along_rows(), along)
