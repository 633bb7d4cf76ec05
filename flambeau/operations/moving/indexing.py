"""Reading and writing at places: the compiled functions of `core/places/indexing.pyx` and `scatter.pyx`, and their derivatives.

A gradient of what was read is added up at the places read; one of what was written is read there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...core.base.callbacks import callbacks
from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ...core.call.function import FunctionOp
from ...core.places import indexing
from ...core.places import scatter as compiled
from ..declare.dtype_groups import ALL
from ..declare.host import holds
from ..declare.registry import Leaf, leaf, published, register
from ..declare.shapes import broadcast

_NONZERO = (
    "(input: Tensor, *, as_tuple: Literal[False] = False, out: Tensor | None = None) -> Tensor",
    "(input: Tensor, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]",
)

nonzero = register(
    "nonzero", "indexing", indexing.nonzero, out=True, overloads=_NONZERO, batching="shapeless"
)
argwhere = register("argwhere", "indexing", indexing.argwhere, batching="looped")
for _name, _function, _aten, _sharding in (
    ("__getitem__", indexing.read_at, "index", "item"),
    ("__setitem__", indexing.write_at, "index_put_", "set item"),
):
    register(
        _name,
        "indexing",
        FunctionOp(_function, _name, owns=False),
        places=(f"Tensor.{_name}",),
        writes=_function is indexing.write_at,
        moves=_function is indexing.read_at,
        aten=_aten,
        sharding=_sharding,
    )
indexing.set_operations(published("Tensor.")["__getitem__"], published("Tensor.")["__setitem__"])


def _reading(function: Callable, **details: Any) -> Any:
    """An operation that reads from its input."""
    read = Leaf(("result",), ("input",))
    return register(function.__name__, "indexing", function, out=True, leaf=read, moves=True, **details)


def _writing(module: Any, name: str, *inputs: str, **details: Any) -> tuple[Any, Any]:
    """An operation that gives a copy of its input with something written to it, and the one that writes to the input itself."""
    written = Leaf(("result",), ("input", *inputs))
    in_place = written.operation(name + "_", getattr(module, name + "_"), False, False)
    op = register(name, "indexing", getattr(module, name), in_place=in_place, leaf=written, **details)
    return op, in_place


def _of_both(pair: tuple[Any, Any], label: str | None = None, **case: Any) -> Callable[[Callable], Callable]:
    """Declare the derivative of an operation and of its form in place."""

    def declare(formula: Callable) -> Callable:
        for op in pair:
            op.derivative(label=label, **case)(formula)
        return formula

    return declare


def _shaped(result: TensorBase, shape: Sequence[int]) -> TensorBase:
    """The gradient of a tensor of that shape that was broadcast, or given another shape with as many elements."""
    if tuple(result.shape) == tuple(shape):
        return result
    return result.reshape(shape) if result.numel() == math.prod(shape) else result.sum_to_size(shape)


# --- at an index of one dimension -------------------
index_select = _reading(
    indexing.index_select,
    picks=lambda input, dim, index, *, out=None: (input, dim, index),
    sharding="rows by index",
)
index_add, index_add_ = _added = _writing(
    indexing, "index_add", "source", out=True, sharding="added by index"
)
index_copy, index_copy_ = _copied = _writing(
    indexing, "index_copy", "source", out=True, autocast=("promote", "fallthrough")
)
index_fill, index_fill_ = _filled = _writing(indexing, "index_fill", "value")


@index_select.derivative
def _(grad: TensorBase, dim: int, index: TensorBase, shape_input: Sequence[int]) -> TensorBase:
    return grad.new_zeros(shape_input).index_add_(dim, index, grad)


@_of_both(_added)
def _(grad: TensorBase, dim: int, index: TensorBase, alpha: Any, shape_source: Any, needs: tuple) -> tuple:
    if not needs[1]:
        return grad, None
    result = grad.index_select(dim, index)
    return grad, _shaped(result if alpha == 1 else result * alpha, shape_source)


@_of_both(_copied)
def _(grad: TensorBase, dim: int, index: TensorBase, shape_source: Any, needs: tuple) -> tuple:
    own = grad.index_fill(dim, index, 0) if needs[0] else None
    return own, _shaped(grad.index_select(dim, index), shape_source) if needs[1] else None


@_of_both(_filled)
def _(grad: TensorBase, dim: int, index: TensorBase, dtype_value: Any, needs: tuple) -> tuple:
    own = grad.index_fill(dim, index, 0) if needs[0] else None
    if not needs[1]:
        return own, None
    left = grad.new_ones(grad.shape[dim : dim + 1 or None], dtype=by_name["bool"]).index_fill_(
        0, index, False
    )
    if grad.ndim:
        left = left.reshape([-1 if d == dim % grad.ndim else 1 for d in range(grad.ndim)])
    return own, grad.masked_fill(left, 0).sum().to(dtype_value)


# --- at places counted in row-major order -----------
take = _reading(indexing.take)
put, put_ = _put = _writing(indexing, "put", "source", batching="looped")


@take.derivative
def _(grad: TensorBase, index: TensorBase, shape_input: Sequence[int]) -> TensorBase:
    return grad.new_zeros(shape_input).put_(index, grad, True)


@_of_both(_put)
def _(grad: TensorBase, index: TensorBase, accumulate: bool, shape_source: Any, needs: tuple) -> tuple:
    own = grad if accumulate else grad.put(index, grad.new_zeros(index.shape))
    return own, grad.take(index).reshape(shape_source) if needs[1] else None


# --- at index tensors and masks ---------------------
index_put, index_put_ = _at_indices = _writing(
    indexing, "index_put", "values", autocast=("fallthrough", "promote"), sharding="whole"
)
masked_select = _reading(indexing.masked_select, batching="shapeless")
masked_scatter, masked_scatter_ = _under_mask = _writing(
    indexing, "masked_scatter", "source", batching="looped"
)


@_of_both(_at_indices)
def _(grad: TensorBase, indices: Any, accumulate: bool, shape_values: Any, needs: tuple) -> tuple:
    own = grad if accumulate else grad.index_put(indices, grad.new_zeros(())) if needs[0] else None
    if not needs[1]:
        return own, None
    return own, _shaped(grad[tuple(slice(None) if i is None else i for i in indices)], shape_values)


@masked_select.derivative
def _(grad: TensorBase, mask: TensorBase, shape_input: Sequence[int]) -> TensorBase:
    whole = broadcast((shape_input, mask.shape))
    return grad.new_zeros(whole).masked_scatter_(mask, grad).sum_to_size(shape_input)


@_of_both(_under_mask)
def _(grad: TensorBase, mask: TensorBase, shape_input: Any, shape_source: Any, needs: tuple) -> tuple:
    own = grad.masked_fill(mask, 0).sum_to_size(shape_input) if needs[0] else None
    if not needs[1]:
        return own, None
    n, mask = math.prod(shape_source), mask.expand(grad.shape).reshape(-1)
    places = (mask.cumsum(0) - 1).masked_fill(~mask, n)  # of what is not written behind all others
    whole = grad.new_zeros(n + 1).scatter_(0, places, grad.reshape(-1)).narrow(0, 0, n)
    return own, whole.reshape(shape_source)


# --- gather and scatter -----------------------------
gather = _reading(compiled.gather)
take_along_dim = _reading(compiled.take_along_dim)
scatter, scatter_ = _scattered = _writing(compiled, "scatter", "src", out=True)
scatter_add, scatter_add_ = _summed = _writing(
    compiled, "scatter_add", "src", out=True, autocast=("fallthrough", "promote")
)
for _op in _scattered:
    _op.loose = True  # its values may be tensors or numbers


@gather.derivative
def _(grad: TensorBase, dim: int, index: TensorBase, sparse_grad: bool, shape_input: Any) -> TensorBase:
    if sparse_grad and shape_input:
        return callbacks["sparse_coo_gathered"](grad, index, dim, shape_input)
    return grad.new_zeros(shape_input).scatter_add_(dim, index, grad)


@take_along_dim.derivative(label="GatherBackward0")
def _(grad: TensorBase, indices: TensorBase, dim: int | None, shape_input: Any) -> TensorBase:
    if dim is None:
        return grad.new_zeros(shape_input).put_(indices.reshape(-1), grad, True)
    n = shape_input[dim]
    sizes = list(grad.shape)
    sizes[dim] = n
    places = (indices % max(n, 1)).expand(grad.shape)
    return grad.new_zeros(sizes).scatter_add_(dim, places, grad).sum_to_size(shape_input)


def _at_source(grad: TensorBase, dim: int, index: TensorBase, shape: Any) -> TensorBase:
    """The gradient at the places written, in the source's shape, which may be larger than the index tensor's."""
    result = grad.gather(dim, index)
    if not shape:
        return result.reshape(())
    if tuple(shape) == tuple(result.shape):
        return result
    whole = part = result.new_zeros(shape)
    for k, n in enumerate(result.shape):
        part = part.narrow(k, 0, n)
    part.copy_(result)
    return whole


@_of_both(_scattered)
def _(grad: TensorBase, dim: int, index: TensorBase, shape_src: Any, needs: tuple) -> tuple:
    own = grad.scatter(dim, index, 0) if needs[0] else None
    return own, _at_source(grad, dim, index, shape_src) if needs[1] else None


@_of_both(_scattered, "ScatterAddBackward0", reduce="add")
@_of_both(_summed)
def _(grad: TensorBase, dim: int, index: TensorBase, shape_src: Any, needs: tuple) -> tuple:
    return grad, _at_source(grad, dim, index, shape_src) if needs[1] else None


# --- reductions into places -------------------------
scatter_reduce, scatter_reduce_ = _reduced = _writing(compiled, "scatter_reduce", "src", out=True)
index_reduce, index_reduce_ = _rows_reduced = _writing(
    compiled, "index_reduce", "source", out=True, dtypes=ALL
)
for _op in _reduced:
    _op.loose = True


@_of_both(_reduced, reduce="sum")
def _(
    grad: TensorBase, dim: int, index: TensorBase, include_self: bool, shape_src: Any, needs: tuple
) -> tuple:
    own = grad if include_self else grad.scatter(dim, index, 0)
    return own, _at_source(grad, dim, index, shape_src) if needs[1] else None


@_of_both(_reduced, reduce="mean")
def _(
    grad: TensorBase, dim: int, index: TensorBase, include_self: bool, shape_src: Any, needs: tuple
) -> tuple:
    counts = grad.new_ones(grad.shape) if include_self else grad.new_zeros(grad.shape)
    counts = counts.scatter_add_(dim, index, grad.new_ones(index.shape))
    shared = grad / counts.masked_fill_(counts == 0, 1)
    own = shared if include_self else shared.scatter(dim, index, 0)
    return own, _at_source(shared, dim, index, shape_src) if needs[1] else None


def _combined(
    grad: TensorBase, dim: int, index: TensorBase, src: Any, old: TensorBase, result: TensorBase, way: tuple
) -> tuple:
    """Gradients of products and extremes: a product's is the product of the others, extremes share theirs among equals."""
    reduce, include_self = way
    shape = src.shape
    for k in range(index.ndim if src.ndim else 0):
        src = src.narrow(k, 0, index.shape[k])
    if reduce in ("prod", "multiply"):
        own, theirs = _product_gradients(grad, dim, index, src, old, result, include_self)
    else:
        mine = (old == result).to(grad.dtype)
        chosen = (src == result.gather(dim, index)).to(grad.dtype)
        number = mine if include_self else mine * 0  # not of the gradient, which may be that of many slices
        number = number.scatter_add(dim, index, chosen)
        shared = grad / number.masked_fill(number == 0, 1)
        own, theirs = mine * shared, chosen * shared.gather(dim, index)
    if not include_self:
        own = own.scatter(dim, index, 0)
    if tuple(shape) != tuple(theirs.shape):
        whole = part = theirs.new_zeros(shape)
        for k, n in enumerate(theirs.shape if shape else ()):
            part = part.narrow(k, 0, n)
        part.copy_(theirs.reshape(part.shape))
        theirs = whole
    return own, theirs


def _product_gradients(
    grad: TensorBase,
    dim: int,
    index: TensorBase,
    src: TensorBase,
    old: TensorBase,
    whole: TensorBase,
    include_self: bool,
) -> tuple:
    """The product of the others: the whole divided by the element, or that of all but the zero where it is the only one."""
    none, zero, mine = (old == 0).to(grad.dtype) * 0, (src == 0).to(grad.dtype), (old == 0).to(grad.dtype)
    zeros = (mine if include_self else none).scatter_add(dim, index, zero)
    start = old + mine if include_self else none + 1
    product = start.scatter_reduce(dim, index, src + zero, "prod")
    if include_self:
        of_old = (whole * (1 - mine) + product * mine) / start
        of_old = of_old.masked_fill((mine == 1) & (zeros > 1), 0)
    else:
        of_old = none + 1
    of_src = (whole.gather(dim, index) * (1 - zero) + product.gather(dim, index) * zero) / (src + zero)
    of_src = of_src.masked_fill((zero == 1) & (zeros.gather(dim, index) > 1), 0)
    if not holds(zeros <= 1):
        of_old, of_src = once_differentiable(of_old), once_differentiable(of_src)
    return grad * of_old, grad.gather(dim, index) * of_src


@leaf("copy")
def once_differentiable(input: TensorBase) -> TensorBase:
    """A copy that has no derivative."""
    return input.clone()


@once_differentiable.derivative
def _(grad: TensorBase) -> None:
    raise RuntimeError(
        "scatter_reduce(): Double backward is unsupported for src when >1 zeros in src are scattered to the same position in self"
    )


def _values(input: TensorBase, index: TensorBase, src: Any, value: Any) -> TensorBase:
    """What is written, as a tensor."""
    given = value if src is None else src
    return given if isinstance(given, TensorBase) else input.new_full((), given).expand(index.shape)


def _factors(
    grad: TensorBase, old: TensorBase, dim: int, index: TensorBase, src: Any, value: Any, result: TensorBase
) -> tuple:
    own, theirs = _combined(
        grad, dim, index, _values(old, index, src, value), old, result, ("multiply", True)
    )
    return own, theirs if isinstance(src, TensorBase) else None


@scatter.derivative(reduce="multiply", label="ScatterReduceBackward0")
def _(grad, input, dim, index, src, value, result) -> tuple:
    return _factors(grad, input, dim, index, src, value, result)


@scatter_.derivative(reduce="multiply", label="ScatterReduceBackward0")
def _(grad, before, dim, index, src, value, result) -> tuple:
    return _factors(grad, before, dim, index, src, value, result)


@scatter_reduce.derivative
def _(grad, input, dim, index, src, reduce, include_self, result) -> tuple:
    return _combined(grad, dim, index, src, input, result, (reduce, include_self))


@scatter_reduce_.derivative
def _(grad, before, dim, index, src, reduce, include_self, result) -> tuple:
    return _combined(grad, dim, index, src, before, result, (reduce, include_self))


def _rows(dim: int, index: TensorBase, shape: Sequence[int]) -> TensorBase:
    """The index of rows as one of elements, for a source of that shape."""
    if not shape:
        return index.reshape(())
    return index.reshape([-1 if d == dim % len(shape) else 1 for d in range(len(shape))]).expand(shape)


@_of_both(_rows_reduced, reduce="mean")
def _(
    grad: TensorBase, dim: int, index: TensorBase, include_self: bool, shape_source: Any, needs: tuple
) -> tuple:
    ones = grad.new_ones(index.numel())
    counts = grad.new_full((grad.shape[dim] if grad.ndim else 1,), int(bool(include_self)))
    counts = counts.index_add_(0, index, ones)
    counts = counts.masked_fill_(counts == 0, 1)
    shared = grad / counts.reshape([-1 if d == dim % grad.ndim else 1 for d in range(grad.ndim)])
    own = shared if include_self else shared.index_fill(dim, index, 0)
    return own, shared.index_select(dim, index) if needs[1] else None


@index_reduce.derivative
def _(grad, input, dim, index, source, reduce, include_self, result) -> tuple:
    places = _rows(dim, index, source.shape)
    return _combined(grad, dim, places, source, input, result, (reduce, include_self))


@index_reduce_.derivative
def _(grad, before, dim, index, source, reduce, include_self, result) -> tuple:
    places = _rows(dim, index, source.shape)
    return _combined(grad, dim, places, source, before, result, (reduce, include_self))
