"""Nested tensors of layout `strided`: tensors of any sizes, of equally many dimensions, in one buffer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from .._wrapper.wrapper_tensor import (
    ALIKE,
    CONVERSIONS,
    Overrides,
    WrapperTensor,
    along_rows,
    elementwise,
    reductions,
)
from ..core.base.dtypes import by_name
from ..core.base.formats import strided as strided_layout
from ..core.base.tensor import TensorBase
from ..core.make.create import empty
from ..core.make.literal import as_tensor
from ..operations.declare.registry import REGISTRY, published
from ..operations.rows.norms import norm2
from .jagged import functional, methods

_cat, _vector_norm = published("")["cat"], published("linalg.")["vector_norm"]
overrides = Overrides()
_blank: dict[tuple, TensorBase] = {}


class StridedNestedTensor(WrapperTensor):
    """Tensors whose sizes may all differ, one after another in a flat buffer, `values()`.

    Made by the functions of `flambeau.nested` with the default layout.  Operations on elements run over the buffer, those in
    `_overrides` beside them on one part after the other: where one size alone differs, layout `jagged` is faster.

    >>> import flambeau
    >>> x = flambeau.nested.nested_tensor([flambeau.ones(1, 2), flambeau.ones(2, 1)])
    >>> (x * 2).values(), x.size(0), x.numel()
    (tensor([2., 2., 2., 2.]), 2, 4)
    >>> flambeau.fft.fft(x)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    NotImplementedError: fft(): not available for nested tensors of layout flambeau.strided; ...
    """

    _overrides = overrides
    _is = "a nested tensor of layout strided"
    is_nested = True
    _sizes: tuple[tuple[int, ...], ...]

    @classmethod
    def _refusal(cls, name: str) -> NotImplementedError:
        return NotImplementedError(
            f"{name}(): not available for nested tensors of layout {strided_layout}; apply it to the parts that unbind() gives, or to "
            "to_padded_tensor(padding)"
        )

    def _with(self, elements: Any) -> StridedNestedTensor:
        return over(elements, self._sizes, self.ndim)

    def values(self) -> TensorBase:
        """All elements, part after part: flat."""
        return self._elements

    def _nested_tensor_size(self) -> TensorBase:
        """The sizes of the parts: (B, dimensions of a part), int64."""
        return _table(self._sizes, self.ndim - 1)

    def _geometry(self) -> tuple[TensorBase, TensorBase, TensorBase]:
        """The sizes of the parts, their strides, (B, dimensions of a part), and where they begin in the buffer, (B,): int64."""
        n = self.ndim - 1
        strides = [[math.prod(s[d + 1 :]) for d in range(n)] for s in self._sizes]
        begins = [0, *accumulate(map(math.prod, self._sizes))][: len(self._sizes)]
        return self._nested_tensor_size(), _table(strides, n), _table(begins)

    # --- geometry ---
    @property
    def shape(self) -> Any:  # type: ignore[override]
        """RuntimeError: several sizes may differ; see `size(dim)`."""
        raise RuntimeError(
            "a nested tensor of layout strided has no shape, for its parts may differ in every size; ask size(dim), unbind() or "
            "_nested_tensor_size()"
        )

    def size(self, dim: Any = None) -> Any:
        """The size of a dimension in which all parts agree; RuntimeError where they do not."""
        if dim is None:
            return self.shape
        at = self._dim("size", dim)
        if at == 0:
            return len(self._sizes)
        result = {s[at - 1] for s in self._sizes}
        if len(result) != 1:
            raise RuntimeError(f"Given dimension {dim} is irregular and does not have a size.")
        return result.pop()

    def _dim(self, name: str, dim: int) -> int:
        n = self.ndim
        if not -n <= dim < n:
            raise IndexError(
                f"{name}(): Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})"
            )
        return dim % n

    def numel(self) -> int:
        """How many elements all parts have."""
        return self._elements.numel()

    nelement = numel

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """Bytes of all elements."""
        return self._elements.nbytes

    def stride(self, dim: Any = None) -> Any:
        """RuntimeError: parts have strides of their own."""
        raise RuntimeError(
            "a nested tensor of layout strided has no strides; ask the parts that unbind() gives"
        )

    def __len__(self) -> int:
        return len(self._sizes)

    def __iter__(self) -> Any:
        return iter(self.unbind())

    # --- other forms ---
    def to_padded_tensor(self, padding: float, output_size: Any = None) -> TensorBase:
        """A dense tensor of the largest size in every dimension, or of `output_size`, with `padding` where a part has nothing."""
        n = self.ndim - 1
        least = (len(self._sizes), *(max((s[d] for s in self._sizes), default=0) for d in range(n)))
        sizes = least if output_size is None else tuple(output_size)
        if len(sizes) != len(least) or sizes[0] != least[0] or any(w < m for w, m in zip(sizes, least)):
            raise RuntimeError(
                "to_padded_tensor(): Value in output_size is less than NestedTensor padded size. Truncation is not supported. "
                f"The parts need {list(least)}, got {list(sizes)}"
            )
        output = self._elements.new_full(sizes, padding)
        for k, part in enumerate(parts(self)):
            output[(k, *(slice(0, m) for m in part.shape))] = part
        return output

    def to_dense(self, *args: Any, **kwargs: Any) -> Any:
        """NotImplementedError: see `to_padded_tensor`."""
        raise self._refusal("to_dense")

    def to_sparse(self, *args: Any, **kwargs: Any) -> Any:
        """NotImplementedError: see `to_padded_tensor`."""
        raise self._refusal("to_sparse")

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        inside = ",\n".join(
            "  " + repr(x).replace("\n", "\n  ") for x in parts(self._with(self._elements.detach()))
        )
        tape = ""
        if self.grad_fn is not None:
            tape = f", grad_fn=<{self.grad_fn.name()}>"
        elif self.requires_grad:
            tape = ", requires_grad=True"
        return f"nested_tensor([\n{inside}\n]{tape})"

    def __reduce_ex__(self, protocol: Any) -> tuple:
        return rebuilt, (self._elements, self._sizes, self.ndim)


def _table(numbers: Sequence, width: int | None = None) -> TensorBase:
    made = as_tensor(numbers, dtype=by_name["int64"], device="cpu")
    return made if width is None else made.reshape(len(numbers), width)


def over(values: TensorBase, sizes: tuple[tuple[int, ...], ...], dims: int) -> StridedNestedTensor:
    """A nested tensor over a flat buffer that holds parts of these sizes; `dims` is one more than a part's dimensions.

    >>> import flambeau
    >>> from flambeau.nested.strided import over
    >>> over(flambeau.ones(3), ((1,), (2,)), 2).size(0)
    2
    """
    key = dims, values.dtype
    blank = _blank.get(key)
    if blank is None:
        blank = _blank[key] = empty((0,) * dims, dtype=values.dtype, device="meta")
    made = StridedNestedTensor._make_subclass(StridedNestedTensor, blank)
    made._elements, made._sizes = values, sizes
    return made


def rebuilt(values: TensorBase, sizes: Any, dims: int) -> StridedNestedTensor:
    """A nested tensor from its parts, which are checked.

    >>> import flambeau
    >>> from flambeau.nested.strided import rebuilt
    >>> rebuilt(flambeau.ones(3), ((1,), (3,)), 2)
    Traceback (most recent call last):
    ValueError: parts of sizes ((1,), (3,)) do not fit a buffer of shape (3,)
    """
    sizes = tuple(tuple(int(n) for n in s) for s in sizes)
    wrong = any(len(s) != dims - 1 or min(s, default=0) < 0 for s in sizes)
    if wrong or values.ndim != 1 or sum(map(math.prod, sizes)) != values.shape[0]:
        raise ValueError(f"parts of sizes {sizes} do not fit a buffer of shape {tuple(values.shape)}")
    return over(values, sizes, dims)


def parts(x: StridedNestedTensor) -> list[TensorBase]:
    """The tensors that it is made of, as views of the buffer.

    >>> import flambeau
    >>> from flambeau.nested.strided import parts
    >>> parts(flambeau.nested.nested_tensor([[1.], [2., 3.]]))
    [tensor([1.]), tensor([2., 3.])]
    """
    pieces = x._elements.split([math.prod(s) for s in x._sizes]) if x._sizes else ()
    return [piece.view(s) for piece, s in zip(pieces, x._sizes)]


def joined(tensors: Sequence[TensorBase], like: TensorBase | None = None) -> StridedNestedTensor:
    """A nested tensor of these parts, copied, with their history.

    >>> import flambeau
    >>> from flambeau.nested.strided import joined
    >>> joined([flambeau.ones(1, 2), flambeau.zeros(1, 1)]).values()
    tensor([1., 1., 0.])
    """
    if not tensors:
        return over(
            like.reshape(-1)[:0] if like is not None else published("")["zeros"](0),
            (),
            1 if like is None else like.ndim,
        )
    buffer = _cat([x.reshape(-1) for x in tensors])
    return over(buffer, tuple(tuple(x.shape) for x in tensors), tensors[0].ndim + 1)


# --- operations ------------------------------
def _first(args: Any) -> StridedNestedTensor:
    return next(x for x in args if isinstance(x, StridedNestedTensor))


def _for_part(x: Any, k: int, like: StridedNestedTensor) -> Any:
    """What goes with part `k`: of a nested tensor its part, of a batch its element, else itself."""
    if isinstance(x, list):
        return x[k]
    if isinstance(x, TensorBase) and x.ndim == like.ndim:
        return x[k] if x.shape[0] == len(like) else x.squeeze(0)
    return x


def _with_weights(x: Any, k: int, like: StridedNestedTensor) -> Any:
    """The same where dense operands are weights and no batches."""
    return x[k] if isinstance(x, list) else x


@overrides(functional.linear, functional.layer_norm, functional.rms_norm, functional.embedding)
def _layer(func: Any, *args: Any, **kwargs: Any) -> Any:
    return _each(func, *args, for_part=_with_weights, **kwargs)


@overrides(methods.matmul, methods.bmm, REGISTRY["mT"].function)
@overrides(functional.one_hot, functional.scaled_dot_product_attention)
def _each(func: Any, *args: Any, for_part: Callable = _for_part, **kwargs: Any) -> Any:
    """The operation on one part after the other."""
    like = _first((*args, *kwargs.values()))
    for x in (*args, *kwargs.values()):
        if isinstance(x, StridedNestedTensor) and len(x) != len(like):
            raise RuntimeError(
                f"{func.__name__}(): expected nested tensors of equally many parts, got {len(like)} and {len(x)}"
            )
    taken = [parts(x) if isinstance(x, StridedNestedTensor) else x for x in args]
    named = {n: parts(x) if isinstance(x, StridedNestedTensor) else x for n, x in kwargs.items()}
    result = [
        func(*(for_part(x, k, like) for x in taken), **{n: for_part(x, k, like) for n, x in named.items()})
        for k in range(len(like))
    ]
    return _gathered(result, like)


def _gathered(result: list, like: StridedNestedTensor) -> Any:
    """Results of parts as nested tensors."""
    if result and isinstance(result[0], (tuple, list)):
        columns = [joined(list(column)) for column in zip(*result)]
        return type(result[0])(*columns) if hasattr(result[0], "_fields") else tuple(columns)
    return joined(result) if result else like


def _pointwise(func: Any, *args: Any, **kwargs: Any) -> Any:
    """Over the buffers where sizes agree and the others are numbers; else on parts."""
    like = _first((*args, *kwargs.values()))
    tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, TensorBase)]
    name = func.__name__
    for x in tensors:
        if isinstance(x, StridedNestedTensor) and x._sizes != like._sizes:
            raise RuntimeError(
                f"{name} does not support broadcasting when given a NestedTensor of other sizes: got {like._sizes} and {x._sizes}"
            )
    if func.writes and not isinstance(args[0], StridedNestedTensor):
        raise RuntimeError(
            f"{name}(): the result is nested and cannot be written to a dense tensor of shape {tuple(args[0].shape)}"
        )
    if all(isinstance(x, StridedNestedTensor) or x.ndim == 0 for x in tensors):
        result = func(*map(_buffer, args), **{n: _buffer(x) for n, x in kwargs.items()})
        if func.writes:
            return args[0]
        return kwargs["out"] if "out" in kwargs else _wrapped(result, like)
    if "out" in kwargs:
        raise NotImplementedError(f"{name}(): out= is not available for nested and dense tensors together")
    result = _each(func, *args, **kwargs)
    return args[0] if func.writes else result


def _buffer(x: Any) -> Any:
    return x._elements if isinstance(x, StridedNestedTensor) else x


def _wrapped(result: Any, like: StridedNestedTensor) -> Any:
    if isinstance(result, TensorBase):
        return like if result is like._elements else like._with(result)
    parts_of = [like._with(x) for x in result]
    return type(result)(*parts_of) if hasattr(result, "_fields") else tuple(parts_of)


@overrides(methods.detach, methods.clone, methods.is_pinned, methods.record_stream)
def _of_values(func: Any, input: StridedNestedTensor, *args: Any, **kwargs: Any) -> Any:
    if not isinstance(input, StridedNestedTensor):
        raise StridedNestedTensor._refusal(func.__name__)
    result = func(input._elements, *map(_buffer, args), **kwargs)
    return input if result is input._elements else input._with(result)


def _inner(name: str, x: StridedNestedTensor, dim: int) -> int:
    at = x._dim(name, dim)
    if at == 0:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on dim=0")
    return at - 1


@overrides(methods.squeeze, methods.narrow, methods.unflatten)
def _along(func: Any, input: StridedNestedTensor, dim: Any, *args: Any, **kwargs: Any) -> Any:
    """With a dimension of the parts."""
    name = func.__name__
    if isinstance(dim, (tuple, list)):
        return _each(func, input, type(dim)(_inner(name, input, d) for d in dim), *args, **kwargs)
    return _each(func, input, _inner(name, input, dim), *args, **kwargs)


@overrides(methods.chunk, methods.split, methods.split_with_sizes)
def _cut(func: Any, input: StridedNestedTensor, how: Any, dim: int = 0) -> Any:
    """Of the batch, or of a dimension of the parts, of which each gives as many pieces."""
    at = input._dim(func.__name__, dim)
    if at:
        return _each(func, input, how, at - 1)
    places = func(published("")["arange"](len(input), device="cpu"), how)
    return tuple(input[int(p[0]) : int(p[0]) + len(p)] if len(p) else input[:0] for p in places)


@overrides(methods.var, methods.std)
def _reduce(
    func: Any, input: StridedNestedTensor, dim: Any = None, keepdim: bool = False, **kwargs: Any
) -> Any:
    """Of all elements, or along dimensions of the parts."""
    if isinstance(dim, TensorBase):
        return _pointwise(func, input, dim)
    if dim is None:
        result = func(input._elements, **kwargs)
        return result.reshape((1,) * input.ndim) if keepdim else result
    return _along(func, input, dim, **({"keepdim": True} if keepdim else {}), **kwargs)


@overrides(methods.norm, _vector_norm)
def _norm(func: Any, input: StridedNestedTensor, ord: Any = 2, dim: Any = None, **kwargs: Any) -> TensorBase:
    """Of all elements."""
    if dim is not None:
        raise RuntimeError(
            f"{func.__name__}(): not available along dimensions of the parts; take that of each"
        )
    return func(input._elements, kwargs.pop("p", ord), **kwargs)


@overrides(methods.transpose, methods.swapaxes, methods.swapdims)
def _transpose(func: Any, input: StridedNestedTensor, dim0: int, dim1: int) -> Any:
    name = func.__name__
    return _each(func, input, _inner(name, input, dim0), _inner(name, input, dim1))


@overrides(methods.unsqueeze)
def _unsqueeze(func: Any, input: StridedNestedTensor, dim: int) -> Any:
    n = input.ndim + 1
    if not -n <= dim < n or dim % n == 0:
        raise RuntimeError(f"unsqueeze(): expected a dim in [1, {n - 1}], got {dim}")
    return _each(func, input, dim % n - 1)


@overrides(methods.select)
def _select(func: Any, input: StridedNestedTensor, dim: int, index: int) -> Any:
    if input._dim("select", dim) == 0:
        return input[index]
    return _along(func, input, dim, index)


@overrides(methods.__getitem__)
def _getitem(func: Any, input: StridedNestedTensor, key: Any) -> Any:
    keys = key if isinstance(key, tuple) else (key,)
    first, rest = keys[0], keys[1:]
    if isinstance(first, int):
        n = len(input)
        if not -n <= first < n:
            raise IndexError(f"__getitem__(): index {first} is out of bounds for dimension 0 with size {n}")
        result = parts(input)[first]
        return result[rest] if rest else result
    if isinstance(first, slice) and not any(k is Ellipsis for k in rest):
        chosen = parts(input)[first]
        return joined([x[rest] if rest else x for x in chosen], None if chosen else input._elements)
    raise NotImplementedError(
        "__getitem__(): a nested tensor of layout flambeau.strided is indexed by ints and slices; index the parts that unbind() gives"
    )


@overrides(methods.reshape, methods.view)
def _reshape(func: Any, input: StridedNestedTensor, *sizes: Any) -> Any:
    """Other sizes of every part: -1 is what each has there, or, once, what is left."""
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = tuple(sizes[0])
    if not sizes or sizes[0] not in (-1, len(input)):
        raise RuntimeError(
            f"{func.__name__}(): the batch of {len(input)} must stay the first dimension, got {list(sizes)}"
        )
    result = []
    for x in parts(input):
        wanted = list(sizes[1:])
        unchanged = [d for d, n in enumerate(wanted) if n == -1 and d < x.ndim]
        if wanted.count(-1) > 1 or (len(wanted) >= x.ndim and unchanged):
            for d in unchanged:
                wanted[d] = x.shape[d]
        result.append(x.reshape(wanted))
    return _gathered(result, input)


@overrides(methods.copy_)
def _copy(func: Any, input: Any, src: Any, non_blocking: bool = False) -> Any:
    same = isinstance(input, StridedNestedTensor) and isinstance(src, StridedNestedTensor)
    if not same or input._sizes != src._sizes:
        raise RuntimeError("copy_ only supports tensors that are the same size for Nested implementations")
    input._elements.copy_(src._elements)
    return input


@overrides(methods.equal, methods.allclose)
def _same(func: Any, input: Any, other: Any, *args: Any, **kwargs: Any) -> bool:
    both = isinstance(input, StridedNestedTensor) and isinstance(other, StridedNestedTensor)
    if not both:
        raise RuntimeError(f"{func.__name__}(): expected two nested tensors, got one that is dense")
    return input._sizes == other._sizes and func(input._elements, other._elements, *args, **kwargs)


@overrides(methods.detach_)
def _detach_in_place(func: Any, input: StridedNestedTensor) -> StridedNestedTensor:
    input._elements.detach_()
    return input


@overrides(norm2)
def _norm_inside(func: Any, tensors: tuple, *rest: Any) -> TensorBase:
    """The norm as other functions of the library call it."""
    return _vector_norm(tensors[0]._elements)


@overrides(methods.unbind)
def _unbind(func: Any, input: StridedNestedTensor, dim: int = 0) -> Any:
    return tuple(parts(input)) if dim in (0, -input.ndim) else _along(func, input, dim)


@overrides(methods.contiguous)
def _contiguous(func: Any, input: StridedNestedTensor, **kwargs: Any) -> StridedNestedTensor:
    return input


@overrides(methods.is_contiguous)
def _is_contiguous(func: Any, input: StridedNestedTensor, **kwargs: Any) -> bool:
    return True


@overrides(methods.tolist)
def _to_list(func: Any, input: StridedNestedTensor) -> list:
    return [x.tolist() for x in parts(input)]


overrides.group(elementwise(), _pointwise)
overrides.group(ALIKE | CONVERSIONS, _of_values)
overrides.group(reductions(), _reduce)
overrides.group(along_rows(), _along)
