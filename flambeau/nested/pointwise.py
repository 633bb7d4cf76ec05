"""Operations on each element of nested tensors, with others of the same sequences and with dense ones."""

from __future__ import annotations

from typing import Any

from .._wrapper.wrapper_tensor import ALIKE, CONVERSIONS, elementwise, losses
from ..core.base.tensor import TensorBase
from .jagged import NestedTensor, functional, jagged, methods, overrides
from .padding import packed


def shapes_of(*operands: Any) -> str:
    """The shapes of arguments, for messages.

    >>> import flambeau
    >>> from flambeau.nested.pointwise import shapes_of
    >>> shapes_of(flambeau.ones(2), 3.0)
    '(2,) and a number'
    """
    return " and ".join(str(tuple(x.shape)) if isinstance(x, TensorBase) else "a number" for x in operands)


def same_cut(a: NestedTensor, b: NestedTensor) -> bool:
    """Whether two tensors have the same sequences at the same places, in the same dimension.

    >>> import flambeau
    >>> from flambeau.nested.pointwise import same_cut
    >>> x = flambeau.nested.nested_tensor([[1.], [2., 3.]], layout=flambeau.jagged)
    >>> same_cut(x, x + 1)
    True
    """
    r = a._ragged_idx
    return (
        (a.ragged is b.ragged or a.ragged.root is b.ragged.root)
        and r == b._ragged_idx
        and a._elements.shape[r - 1] == b._elements.shape[r - 1]
    )


def beside(x: NestedTensor, other: TensorBase, name: str) -> TensorBase:
    """A dense tensor as one that broadcasts with the values: what a batch has goes to each of its sequence's places.

    >>> import flambeau
    >>> from flambeau.nested.pointwise import beside
    >>> x = flambeau.nested.nested_tensor([[1.], [2., 3.]], layout=flambeau.jagged)
    >>> beside(x, flambeau.tensor([[10.], [20.]]), "add")
    tensor([10., 20., 20.])
    """
    n, r = x._elements.ndim + 1, x._ragged_idx
    if other.ndim == 0:
        return other
    while other.ndim > n and other.shape[0] == 1:
        other = other.squeeze(0)
    if other.ndim > n:
        raise RuntimeError(
            f"cannot call binary pointwise function {name} with inputs of shapes {shapes_of(x, other)}: the dense one has more "
            "dimensions"
        )
    if other.ndim < n - r:
        return other
    full = other.reshape((1,) * (n - other.ndim) + tuple(other.shape))
    batch = x.ragged.batch
    if full.shape[r] != 1 or full.shape[0] not in (1, batch):
        raise RuntimeError(
            f"cannot call binary pointwise function {name} with inputs of shapes {shapes_of(x, other)}: a dense tensor must be of "
            "size 1 along the ragged dimension; cut it to the same sequences (nested_tensor_from_jagged) otherwise"
        )
    if full.shape[0] == 1:
        return full.squeeze(0)
    if x.ragged.gaps(x._elements.shape[r - 1]):
        raise RuntimeError(f"{name}(): the nested tensor has gaps; call contiguous() first")
    return full.transpose(0, r).squeeze(0).index_select(r - 1, x.ragged.segments())


def pointwise(func: Any, *args: Any, **kwargs: Any) -> Any:
    """The operation on values.

    >>> import flambeau
    >>> from flambeau.nested.pointwise import pointwise
    >>> x = flambeau.nested.nested_tensor([[1.], [2., 3.]], layout=flambeau.jagged)
    >>> pointwise(flambeau.neg, x).values()
    tensor([-1., -2., -3.])
    """
    name = func.__name__
    nested = [x for x in (*args, *kwargs.values()) if isinstance(x, NestedTensor)]
    like = nested[0]
    in_place = func.writes
    if len(nested) < sum(isinstance(x, TensorBase) for x in (*args, *kwargs.values())) or len(nested) > 1:
        for x in nested[1:]:
            if not same_cut(like, x) or x.ndim != like.ndim:
                raise RuntimeError(
                    f"cannot call binary pointwise function {name} with inputs of shapes {shapes_of(like, x)}: sequences are the "
                    "same where tensors were made with the same offsets"
                )
        if in_place and not isinstance(args[0], NestedTensor):
            raise RuntimeError(
                f"{name}(): the result is nested, of shape {tuple(like.shape)}, and cannot be written to a dense tensor of shape "
                f"{tuple(args[0].shape)}"
            )
        if (
            like.ragged.gaps(like._elements.shape[like._ragged_idx - 1])
            and not in_place
            and "out" not in kwargs
        ):
            like, result = packed(like), {id(x): packed(x) for x in nested}
            args = tuple(result.get(id(x), x) for x in args)
            kwargs = {k: result.get(id(x), x) for k, x in kwargs.items()}
    taken = [_operand(x, like, name) for x in args]
    named = {k: _operand(x, like, name) for k, x in kwargs.items()}
    result = func(*taken, **named)
    if in_place:
        return args[0]
    if "out" in kwargs:
        return kwargs["out"]
    return like if result is like._elements else wrapped(result, like)


def _operand(x: Any, like: NestedTensor, name: str) -> Any:
    if isinstance(x, NestedTensor):
        return x._elements
    return beside(like, x, name) if isinstance(x, TensorBase) else x


def wrapped(result: Any, like: NestedTensor) -> Any:
    """Results over the values of `like` in its structure.

    >>> import flambeau
    >>> from flambeau.nested.pointwise import wrapped
    >>> x = flambeau.nested.nested_tensor([[1.], [2., 3.]], layout=flambeau.jagged)
    >>> wrapped(flambeau.zeros(3, 4), x).shape[2]
    4
    """
    if isinstance(result, TensorBase):
        return jagged(result, like.ragged, like._ragged_idx)
    if isinstance(result, tuple):
        parts = [wrapped(x, like) for x in result]
        return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)
    return result


@overrides(methods.detach, methods.is_pinned, methods.record_stream, functional.feature_alpha_dropout)
def _of_values(func: Any, input: NestedTensor, *args: Any, **kwargs: Any) -> Any:
    """The operation on values alone, its result in the same structure: itself where nothing changed."""
    if not isinstance(input, NestedTensor):
        raise NestedTensor._refusal(func.__name__)
    args = tuple(x._elements if isinstance(x, NestedTensor) else x for x in args)
    result = func(input._elements, *args, **kwargs)
    return input if result is input._elements else wrapped(result, input)


@overrides(methods.copy_)
def _copy(func: Any, input: Any, src: Any, non_blocking: bool = False) -> Any:
    """Write the same sequences' elements; RuntimeError for others."""
    if not isinstance(input, NestedTensor) or not isinstance(src, NestedTensor):
        raise RuntimeError(
            "copy_(): expected two nested tensors of the same sequences, got one that is dense; copy into values()"
        )
    if not same_cut(input, src):
        raise RuntimeError(
            f"copy_() only supports Nested Tensors that have same size and the exact same offset tensor, got {shapes_of(input, src)}"
        )
    input._elements.copy_(src._elements)
    return input


@overrides(methods.clone)
def _clone(func: Any, input: NestedTensor, **kwargs: Any) -> NestedTensor:
    return wrapped(func(input._elements, **kwargs), input)


@overrides(methods.contiguous)
def _contiguous(func: Any, input: NestedTensor, **kwargs: Any) -> NestedTensor:
    contiguous = packed(input)
    result = contiguous._elements.contiguous(**kwargs)
    return contiguous if result is contiguous._elements else wrapped(result, contiguous)


@overrides(methods.is_contiguous)
def _is_contiguous(func: Any, input: NestedTensor, **kwargs: Any) -> bool:
    return input.ragged.lengths is None and input._elements.is_contiguous(**kwargs)


@overrides(methods.detach_)
def _detach_in_place(func: Any, input: NestedTensor) -> NestedTensor:
    input._elements.detach_()
    return input


@overrides(methods.equal, methods.allclose)
def _same(func: Any, input: Any, other: Any, *args: Any, **kwargs: Any) -> bool:
    """`equal`, `allclose`: of the same lengths, and so are the elements."""
    if not (isinstance(input, NestedTensor) and isinstance(other, NestedTensor)):
        raise RuntimeError(f"{func.__name__}(): expected two nested tensors, got one that is dense")
    return (
        input._ragged_idx == other._ragged_idx
        and input.ragged.sizes == other.ragged.sizes
        and func(packed(input)._elements, packed(other)._elements, *args, **kwargs)
    )


def _loss(func: Any, input: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
    """Over all elements of the sequences; of each with reduction='none'."""
    if not (isinstance(input, NestedTensor) and isinstance(target, NestedTensor) and same_cut(input, target)):
        raise RuntimeError(
            f"{func.__name__}(): expected input and target nested in the same sequences, got {shapes_of(input, target)}"
        )
    input, target = packed(input), packed(target)
    result = func(input._elements, target._elements, *args, **kwargs)
    return result if result.ndim == 0 else wrapped(result, input)


@overrides(methods.tolist)
def _to_list(func: Any, input: NestedTensor) -> list:
    return [x.tolist() for x in input.unbind()]


@overrides(methods.is_same_size)
def _is_same_size(func: Any, input: Any, other: Any) -> bool:
    return tuple(input.shape) == tuple(other.shape)


overrides.group(elementwise(), pointwise)
overrides.group(ALIKE | CONVERSIONS, _of_values)
overrides.group(losses(), _loss)
