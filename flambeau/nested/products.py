"""Products of nested tensors, layers over their dense dimensions, and tables that they index."""

from __future__ import annotations

from typing import Any

from ..core.base.tensor import TensorBase
from .jagged import NestedTensor, functional, methods, overrides
from .padding import packed, padded, rows, unpadded
from .pointwise import same_cut, shapes_of, wrapped


def _need_dense_last(name: str, x: NestedTensor, dims: int = 1) -> None:
    """RuntimeError where one of the last dimensions is the ragged one, or the batch's."""
    if x._ragged_idx > x.ndim - 1 - dims:
        raise RuntimeError(
            f"{name}(): not supported over the ragged dimension, {x._ragged_idx} of shape {tuple(x.shape)}"
        )


def _only_input(func: Any, input: Any, *others: Any) -> NestedTensor:
    if not isinstance(input, NestedTensor) or any(isinstance(x, NestedTensor) for x in others):
        raise NestedTensor._refusal(func.__name__)
    return input


@overrides(functional.linear)
def _layer_linear(func: Any, input: Any, weight: Any, bias: Any = None) -> NestedTensor:
    _need_dense_last("linear", _only_input(func, input, weight, bias))
    return wrapped(func(input._elements, weight, bias), input)


@overrides(functional.layer_norm, functional.rms_norm)
def _layer_norm(func: Any, input: Any, normalized_shape: Any, *args: Any, **kwargs: Any) -> NestedTensor:
    """`layer_norm` and `rms_norm` over dense dimensions behind the ragged one."""
    dims = 1 if isinstance(normalized_shape, int) else len(normalized_shape)
    _need_dense_last(func.__name__, _only_input(func, input), dims)
    return wrapped(func(input._elements, normalized_shape, *args, **kwargs), input)


@overrides(functional.embedding)
def _embedding(func: Any, input: Any, weight: Any, *args: Any, **kwargs: Any) -> NestedTensor:
    return wrapped(func(_only_input(func, input, weight)._elements, weight, *args, **kwargs), input)


@overrides(functional.embedding_bag)
def _embedding_bag(func: Any, input: Any, weight: Any, offsets: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Each sequence is a bag: dense, (B, D)."""
    x = _only_input(func, input, weight)
    if x.ndim != 2 or offsets is not None:
        raise RuntimeError(
            f"embedding_bag(): expected nested indices (B, *) without offsets, got shape {tuple(x.shape)} and offsets {offsets}"
        )
    x = packed(x)
    weights = kwargs.get("per_sample_weights")
    if isinstance(weights, NestedTensor):
        kwargs["per_sample_weights"] = packed(weights)._elements
    return func(x._elements, weight, x.ragged.offsets[:-1], *args, **kwargs)


@overrides(functional.one_hot)
def _one_hot(func: Any, input: NestedTensor, num_classes: int = -1) -> NestedTensor:
    return wrapped(func(input._elements, num_classes), input)


@overrides(functional.glu)
def _glu(func: Any, input: NestedTensor, dim: int = -1) -> NestedTensor:
    from .shapes import inner

    return wrapped(func(input._elements, inner("glu", input, dim)), input)


@overrides(functional.normalize)
def _normalize(
    func: Any, input: NestedTensor, p: float = 2.0, dim: int = 1, *args: Any, **kwargs: Any
) -> Any:
    from .shapes import inner

    return wrapped(func(input._elements, p, inner("normalize", input, dim), *args, **kwargs), input)


@overrides(methods.matmul)
def _matmul(func: Any, input: Any, other: Any) -> Any:
    """With a dense matrix, with one for each batch, with the same sequences (dense dimensions, or over the sequence)."""
    a, b = isinstance(input, NestedTensor), isinstance(other, NestedTensor)
    if a and b:
        return _both_nested(input, other)
    x, dense = (input, other) if a else (other, input)
    n, r = x.ndim, x._ragged_idx
    if a and r < n - 1 and dense.ndim in (1, 2) and n > dense.ndim:
        result = input._elements @ dense
        return wrapped(result, input)
    if b and dense.ndim == 2 and n > 2 and r >= 2 and r != n - 2:
        return wrapped(dense @ other._elements, other)
    if n == dense.ndim >= 3 and dense.shape[0] == x.ragged.batch:
        if a and r == n - 2 or b and r == n - 1:  # the rows, or the columns, of each batch's matrix
            dense_x = padded(x, 0, least=1)
            return unpadded(dense_x @ dense if a else dense @ dense_x, x.ragged, r)
    raise _refused(input, other)


def _refused(input: Any, other: Any) -> RuntimeError:
    return RuntimeError(f"matmul(): not supported between inputs of shapes {shapes_of(input, other)}")


def _both_nested(a: NestedTensor, b: NestedTensor) -> Any:
    n = a.ndim
    if a.ragged.root is not b.ragged.root or b.ndim != n:
        raise _refused(a, b)
    if same_cut(a, b) and a._ragged_idx < n - 2:  # the sequences are a batch of matrices
        return wrapped(a._elements @ b._elements, a)
    if a._ragged_idx == n - 1 and b._ragged_idx == n - 2:  # summed over each sequence
        if n == 3:
            left, right = rows(a), rows(b)
            if left.shape[0] == right.shape[0] and a.ragged.batch == 1:
                return (left.transpose(0, 1) @ right).unsqueeze(0)
        return padded(a, 0, least=1) @ padded(b, 0, least=1)
    raise _refused(a, b)


@overrides(methods.bmm)
def _bmm(func: Any, input: Any, mat2: Any) -> Any:
    for label, x in (("input", input), ("mat2", mat2)):
        if x.ndim != 3:
            raise ValueError(f"bmm(): {label} must be 3D")
    return _matmul(func, input, mat2)


@overrides(functional.prelu)
def _prelu(func: Any, input: Any, weight: TensorBase) -> NestedTensor:
    """With one weight, or one for each channel, dimension 1, where that is dense."""
    x = _only_input(func, input, weight)
    if weight.numel() == 1:
        return wrapped(func(x._elements, weight.reshape(1)), x)
    if x._ragged_idx == 1:
        raise RuntimeError("prelu(): not supported for NestedTensor where the channels, dim 1, are ragged")
    return wrapped(func(x._elements.unsqueeze(0), weight).squeeze(0), x)
