"""Rearranging and repeating elements, triangles and diagonals, grids, covariances."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ...codegen import functions as fn
from ...core.base.dtypes import Size, by_name
from ...core.base.formats import contiguous_format
from ...core.base.memory import require
from ...core.base.tensor import TensorBase
from ...core.places.join import flipped as mirrored
from ..declare import checks
from ..declare.dtype_groups import INTEGRAL, LATE, NONE, NUMBERS
from ..declare.examples import of_call
from ..declare.half_types import in_float32
from ..declare.host import holds, needs_data, without_data
from ..declare.pointwise import EVERY, pointwise
from ..declare.registry import Leaf, leaf, library, register
from ..declare.results import accepts_out, copied, into
from ..declare.shapes import broadcast
from ..declare.shapes import wrapped as _wrapped
from ..on_device import ordering
from ..pointwise.complex_numbers import complex_of, conj
from .creation import arange, from_numpy, zeros
from .joining import cat, stack

INT32, INT64 = by_name["int32"], by_name["int64"]


def _spread(given: tuple, named: Any = None) -> tuple[int, ...]:
    """Ints given one by one, as one sequence, or by name."""
    if named is not None:
        return _tuple(named)
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        return tuple(given[0])
    return tuple(given)


def _tuple(given: Any) -> tuple:
    return tuple(given) if isinstance(given, (tuple, list)) else (given,)


# --- mirror images, shifts, turns ------------------------------------------------------------------------------------------
@library("shape", batching="along", composite=True, moves=True)
def flip(input: TensorBase, *dims_: Any, dims: Any = None) -> TensorBase:
    """A copy with the elements in reverse order along `dims`.

    IndexError for a dimension that does not exist, RuntimeError for one named twice.

    >>> import flambeau
    >>> flambeau.tensor([[1, 2], [3, 4]]).flip(1)
    tensor([[2, 1],
            [4, 3]])
    """
    axes = tuple(_wrapped(d, input, "flip") for d in _spread(dims_, dims))
    for k, d in enumerate(axes):
        if d in axes[:k]:
            raise RuntimeError(f"flip(): dim {d} appears multiple times in the list of dims")
    return flipped(input, axes if input.ndim else ())


flipped = register(
    "_flip",
    "shape",
    mirrored,
    places=(),
    leaf=Leaf(("result",), ("input",)),
    label="FlipBackward0",
    sharding="along",
)


@flipped.derivative
def _(grad: TensorBase, dims: tuple[int, ...]) -> TensorBase:
    return flip(grad, dims)


@library("shape", reference="numpy.fliplr", composite=True, moves=True)
def fliplr(input: TensorBase) -> TensorBase:
    """The columns (dimension 1) in reverse order.

    Shape:
        input: (m, n, *); the result has the same

    Raises:
        RuntimeError: there are fewer than two dimensions

    >>> import flambeau
    >>> flambeau.fliplr(flambeau.tensor([[1, 2], [3, 4]]))
    tensor([[2, 1],
            [4, 3]])
    """
    if input.ndim < 2:
        raise RuntimeError(f"fliplr(): Input must be >= 2-d, got {input.ndim}-d")
    return flip(input, 1)


@library("shape", reference="numpy.flipud", composite=True, moves=True)
def flipud(input: TensorBase) -> TensorBase:
    """The rows (dimension 0) in reverse order.

    Shape:
        input: (m, *); the result has the same

    Raises:
        RuntimeError: there is no dimension

    >>> import flambeau
    >>> flambeau.flipud(flambeau.tensor([[1, 2], [3, 4]]))
    tensor([[3, 4],
            [1, 2]])
    """
    if input.ndim < 1:
        raise RuntimeError("flipud(): Input must be >= 1-d, got 0-d")
    return flip(input, 0)


@leaf("shape", "roll", "Tensor.roll", moves=True, sharding="along")
def roll(input: TensorBase, shifts: Any, dims: Any = None) -> TensorBase:
    """The elements moved on by `shifts` along `dims`, the last ones to the front; without dims, along all as if one.

    RuntimeError where there are not as many shifts as dims.

    Shape:
        input: any; the result has the same

    >>> import flambeau
    >>> flambeau.tensor([1, 2, 3, 4]).roll(1)
    tensor([4, 1, 2, 3])
    """
    steps = _tuple(shifts)
    if dims is None or dims == ():
        if len(steps) != 1:
            raise RuntimeError(f"roll(): shifts and dimensions must align. shifts: {len(steps)}, dims:0")
        return roll(input.reshape(-1), steps, 0).reshape(input.shape)
    axes = _tuple(dims)
    if input.ndim == 0:
        raise IndexError(f"roll(): dimension specified as {axes[0]} but the tensor has no dimensions")
    if len(steps) != len(axes):
        raise RuntimeError(
            f"roll(): shifts and dimensions must align. shifts: {len(steps)}, dims:{len(axes)}"
        )
    out = input
    for step, dim in zip(steps, axes):
        axis = _wrapped(dim, out, "roll")
        n = out.shape[axis]
        start = -step % n if n else 0
        if start:
            out = cat([out.narrow(axis, start, n - start), out.narrow(axis, 0, start)], axis)
    return out.clone() if out is input else out


@roll.derivative
def _(grad: TensorBase, shifts: Any, dims: Any) -> TensorBase:
    return roll(grad, tuple(-step for step in _tuple(shifts)), dims)


@leaf("shape", "rot90", "Tensor.rot90", reference="numpy.rot90", batching="along", moves=True)
def rot90(input: TensorBase, k: int = 1, dims: Sequence[int] = (0, 1)) -> TensorBase:
    """The plane of two dimensions turned by k quarters, from the first of `dims` towards the second.

    Shape:
        input: (m, n, *); result: the two sizes exchanged where k is odd

    Raises:
        RuntimeError: there are fewer than two dimensions
        RuntimeError: `dims` are not two different dimensions

    >>> import flambeau
    >>> flambeau.rot90(flambeau.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    if len(dims) != 2:
        raise RuntimeError(f"rot90(): expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"rot90(): expected total dims >= 2, but got total dims = {input.ndim}")
    a, b = (_wrapped(d, input, "rot90") for d in dims)
    if a == b:
        raise RuntimeError(
            f"rot90(): expected rotation dims to be different, but got dim0 = {a} and dim1 = {b}"
        )
    turned = k % 4
    if turned == 1:
        return flip(input, b).transpose(a, b)
    if turned == 2:
        return flip(input, a, b)
    return flip(input, a).transpose(a, b) if turned == 3 else input.clone()


@rot90.derivative
def _(grad: TensorBase, k: int, dims: Sequence[int]) -> TensorBase:
    return rot90(grad, -k, dims)


# --- repeating ---------------------------------------------------------------------------------------------------------------
@library("shape", "Tensor.repeat", composite=True, moves=True)
def repeat(input: TensorBase, *repeats_: Any, repeats: Any = None) -> TensorBase:
    """The tensor laid side by side `repeats` times along each dimension; more repeats than dimensions add some in front.

    RuntimeError for fewer repeats than dimensions, and for negative ones.

    >>> import flambeau
    >>> flambeau.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    if not repeats_ and repeats is None:
        raise TypeError('repeat() missing 1 required positional arguments: "repeats"')
    times = _spread(repeats_, repeats)
    if len(times) < input.ndim:
        raise RuntimeError(
            "repeat(): Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor: got "
            f"{list(times)} for {list(input.shape)}"
        )
    if any(t < 0 for t in times):
        raise RuntimeError(
            f"repeat(): Trying to create tensor with negative dimension: repeats {list(times)}"
        )
    return repeated(input, times)


@leaf("shape", name="_repeat", label="RepeatBackward0", sharding="repeat")
def repeated(input: TensorBase, times: tuple[int, ...]) -> TensorBase:
    """The tensor laid side by side so many times along each dimension."""
    sizes = [1] * (len(times) - input.ndim) + list(input.shape)
    apart = [n for s in sizes for n in (1, s)]
    wide = [n for t, s in zip(times, sizes) for n in (t, s)]
    return copied(input.reshape(apart).expand(wide), [t * s for t, s in zip(times, sizes)])


@repeated.derivative
def _(grad: TensorBase, times: tuple[int, ...], shape_input: Any) -> TensorBase:
    sizes = [1] * (len(times) - len(shape_input)) + list(shape_input)
    wide = grad.reshape([n for t, s in zip(times, sizes) for n in (t, s)])
    return (wide.sum(tuple(range(0, wide.ndim, 2))) if times else wide).reshape(shape_input)


@library("shape", composite=True, moves=True)
def tile(input: TensorBase, *dims_: Any, dims: Any = None) -> TensorBase:
    """`repeat`, with repeats of 1 in front where `dims` are fewer than the dimensions.

    Shape:
        input: (n₁, …); result: (n₁ · dims₁, …)

    Raises:
        RuntimeError: a repeat is negative

    >>> import flambeau
    >>> flambeau.tile(flambeau.tensor([1, 2]), (2, 2))
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    times = _spread(dims_, dims)
    return repeat(input, (1,) * (input.ndim - len(times)) + times)


@library("shape", composite=True, moves=True)
def repeat_interleave(
    input: TensorBase, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> TensorBase:
    """Every element (or slice along `dim`) `repeats` times over: a number, or a tensor with a number for each.

    `repeat_interleave(repeats)` gives the index of each.  Without `dim` the tensor is flattened.

    >>> import flambeau
    >>> flambeau.repeat_interleave(flambeau.tensor([1, 2]), flambeau.tensor([1, 2]))
    tensor([1, 2, 2])
    """
    if repeats is None:
        input, repeats, dim = arange(input.numel(), device=input.device), input, 0
    x = input.reshape(-1) if dim is None else input
    axis = _wrapped(0 if dim is None else dim, x, "repeat_interleave")
    if x.ndim == 0:
        x = x.reshape(1)
    n = x.shape[axis]
    if without_data(repeats) and output_size is None:
        needs_data("repeat_interleave", "without output_size, how many elements there are", repeats)
    if isinstance(repeats, TensorBase) and repeats.numel() == 1 and not repeats.is_meta:
        repeats = int(repeats)
    if not isinstance(repeats, TensorBase):
        if repeats < 0:
            raise RuntimeError(f"repeat_interleave(): Repeats must be non-negative, got {repeats}")
        sizes = list(x.shape)
        wide = x.unsqueeze(axis + 1).expand([*sizes[: axis + 1], repeats, *sizes[axis + 1 :]])
        sizes[axis] *= repeats
        return copied(wide, sizes)
    checks.dtypes("repeat_interleave", ("int32", "int64"), repeats=repeats)
    checks.rank("repeat_interleave", "repeats", repeats, 1)
    if repeats.shape[0] not in (n, 1):
        raise RuntimeError(
            f"repeat_interleave(): repeats must have the same size as input along dim, but got repeats.size(0) = {repeats.shape[0]} "
            f"and input.size({axis}) = {n}"
        )
    if repeats.is_meta:
        return x.index_select(axis, repeats.new_empty(output_size, dtype=INT64))  # type: ignore[arg-type]
    return x.index_select(axis, repeated_places(repeats.expand(n)))


def _repeated_places(repeats: TensorBase) -> TensorBase:
    """Each place so many times over."""
    if not repeats.is_cpu:
        if bool((repeats < 0).any()):
            raise RuntimeError("repeat_interleave(): repeats can not be negative")
        behind = repeats.cumsum(0)
        total = int(behind[-1]) if behind.numel() else 0
        return ordering.search(behind, arange(total, device=repeats.device), True)

    import numpy as np

    times = repeats.numpy()
    if (times < 0).any():
        raise RuntimeError("repeat_interleave(): repeats can not be negative")
    ends = list(itertools.accumulate(times.tolist()))
    places = zeros(ends[-1] if ends else 0, dtype=INT64, device="cpu")
    steps = (
        places.numpy()
    )  # 1 where the next element begins; of elements that are left out, the number of them
    np.add.at(steps, [e for e in ends if e < len(steps)], 1)
    np.cumsum(steps, out=steps)
    return places


repeated_places = register(
    "_repeat_interleave", "shape", _repeated_places, places=(), differentiable=False, batching="looped"
)


# --- triangles and diagonals ---------------------------------------------------------------------------------------------------
@pointwise(places=("_lower_part",), raw=("row", "column"), in_place=False, dtypes=EVERY)
def lower_part(input, row, column):
    """The elements whose column is not beyond the row, zeros elsewhere."""
    return fn.where(column <= row, input, fn.like(input, 0))


@lower_part.derivative
def _(grad, row, column):
    return fn.where(column <= row, grad, fn.like(grad, 0.0)), None, None


@pointwise(places=("_upper_part",), raw=("row", "column"), in_place=False, dtypes=EVERY)
def upper_part(input, row, column):
    """The elements whose column is not before the row, zeros elsewhere."""
    return fn.where(column >= row, input, fn.like(input, 0))


@upper_part.derivative
def _(grad, row, column):
    return fn.where(column >= row, grad, fn.like(grad, 0.0)), None, None


def _places(who: str, input: TensorBase, diagonal: int) -> tuple[TensorBase, TensorBase]:
    """Numbers of the rows, moved by the diagonal, and of the columns, which broadcast to matrices."""
    if input.ndim < 2:
        raise RuntimeError(f"{who}: input tensor must have at least 2 dimensions, got {input.ndim}")
    rows, columns = input.shape[-2:]
    if not -rows <= diagonal <= columns:  # all is on one side
        diagonal = -rows if diagonal < 0 else columns
    dtype = INT32 if rows + columns < 1 << 31 else INT64
    first = arange(diagonal, rows + diagonal, dtype=dtype, device=input.device).unsqueeze(1)
    return first, arange(columns, dtype=dtype, device=input.device)


def _triangle(name: str, op, shown: str, doc: str):
    def function(input: TensorBase, diagonal: int = 0, *, out: TensorBase | None = None) -> TensorBase:
        places = _places(name, input, diagonal)
        return op(input, *places) if out is None else op(input, *places, out=out)

    def in_place(self: TensorBase, diagonal: int = 0) -> TensorBase:
        return op.in_place(self, *_places(name + "_", self, diagonal))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    in_place.__name__ = in_place.__qualname__ = name + "_"
    in_place.__doc__ = (
        f"`{name}` in place.\n\nShape:\n    self: (*, m, n)\n\nRaises:\n    RuntimeError: there are fewer than two dimensions"
        + of_call(f"tensor([[1, 2], [3, 4]]).{name}_()", shown)
    )
    both = [
        leaf("shape", f"Tensor.{name}_", batching="leading", sharding="matrices")(in_place),
        leaf(
            "shape",
            name,
            f"Tensor.{name}",
            reference=f"numpy.{name}",
            batching="leading",
            sharding="matrices",
        )(function),
    ]
    for made in both:
        made.derivative(_below if name == "tril" else _above)
    return both[1]


def _below(grad: TensorBase, diagonal: int) -> TensorBase:
    return grad.tril(diagonal)


def _above(grad: TensorBase, diagonal: int) -> TensorBase:
    return grad.triu(diagonal)


tril = _triangle(
    "tril",
    lower_part,
    "tensor([[1, 0],\n        [3, 4]])",
    """The lower triangles of matrices: elements up to the given diagonal (0 the main one, above it positive), zeros beyond.

    Shape:
        input: (*, m, n); the result has the same

    Raises:
        RuntimeError: there are fewer than two dimensions

    >>> import flambeau
    >>> flambeau.ones(2, 2).tril()
    tensor([[1., 0.],
            [1., 1.]])
    """,
)
triu = _triangle(
    "triu",
    upper_part,
    "tensor([[1, 2],\n        [0, 4]])",
    """The upper triangles of matrices: elements from the given diagonal on (0 the main one, above it positive), zeros before.

    Shape:
        input: (*, m, n); the result has the same

    Raises:
        RuntimeError: there are fewer than two dimensions

    >>> import flambeau
    >>> flambeau.ones(2, 2).triu(1)
    tensor([[0., 1.],
            [0., 0.]])
    """,
)


@leaf("shape", "diag_embed", "Tensor.diag_embed")
def diag_embed(input: TensorBase, offset: int = 0, dim1: int = -2, dim2: int = -1) -> TensorBase:
    """Matrices, over dimensions dim1 and dim2, with the last dimension of `input` as their diagonal and zeros elsewhere.

    Shape:
        input: (*, n); result: (*, n + |offset|, n + |offset|)

    Raises:
        RuntimeError: both dimensions are the same

    >>> import flambeau
    >>> flambeau.diag_embed(flambeau.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    rank = input.ndim + 1
    if input.ndim == 0:
        raise IndexError("diag_embed(): expected input to have at least 1 dimension, got 0")
    for d in (dim1, dim2):
        if not -rank <= d < rank:
            raise IndexError(
                f"diag_embed(): Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {d})"
            )
    a, b = dim1 % rank, dim2 % rank
    if a == b:
        raise RuntimeError(f"diag_embed(): diagonal dimensions cannot be identical {dim1}, {dim2}")
    side = input.shape[-1] + abs(offset)
    sizes = list(input.shape[:-1])
    for d in sorted((a, b)):
        sizes.insert(d, side)
    out = input.new_zeros(sizes)
    out.diagonal(offset, a, b).copy_(input)
    return out


@diag_embed.derivative
def _(grad: TensorBase, offset: int, dim1: int, dim2: int) -> TensorBase:
    return grad.diagonal(offset, dim1, dim2)


@library("shape", reference="numpy.diag", composite=True)
def diag(input: TensorBase, diagonal: int = 0, *, out: TensorBase | None = None) -> TensorBase:
    """Of a vector, the matrix with it as a diagonal; of a matrix, a copy of its diagonal.  RuntimeError for other ranks.

    Shape:
        input: (n,) or (m, n); result: (n + |diagonal|, n + |diagonal|) or (length of the diagonal,)

    >>> import flambeau
    >>> flambeau.diag(flambeau.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    if input.ndim not in (1, 2):
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    result = diag_embed(input, diagonal) if input.ndim == 1 else input.diagonal(diagonal).clone()
    return into(out, result, "diag")


@library("shape", reference="numpy.diagflat", composite=True)
def diagflat(input: TensorBase, offset: int = 0) -> TensorBase:
    """The matrix with all elements, flattened, as a diagonal.

    Shape:
        input: n elements; result: (n + |offset|, n + |offset|)

    Raises:
        TypeError: the input is no Tensor

    >>> import flambeau
    >>> flambeau.diagflat(flambeau.tensor([1, 2]), offset=1)
    tensor([[0, 1, 0],
            [0, 0, 2],
            [0, 0, 0]])
    """
    return diag_embed(input.reshape(-1), offset)


@library("shape", reference="numpy.trace", autocast=("float32", "fallthrough"), composite=True)
def trace(input: TensorBase) -> TensorBase:
    """Σ inputᵢᵢ: the sum of a matrix's diagonal.  RuntimeError unless there are two dimensions.

    Shape:
        input: (m, n); result: ()

    Raises:
        RuntimeError: there are not two dimensions

    >>> import flambeau
    >>> flambeau.trace(flambeau.tensor([[1, 2], [3, 4]]))
    tensor(5)
    """
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    return input.diagonal().sum()


def _written(who: str, input: TensorBase, src: TensorBase, view) -> TensorBase:
    """A copy of `input` whose view is `src`."""
    out = input.clone()
    part = view(out)
    if tuple(part.shape) != tuple(src.shape):
        raise RuntimeError(
            f"{who}(): expected src to have a size equal to the slice of self. src size = {list(src.shape)}, "
            f"slice size = {list(part.shape)}"
        )
    part.copy_(src)
    return out


@leaf("shape", "diagonal_scatter", "Tensor.diagonal_scatter")
def diagonal_scatter(
    input: TensorBase, src: TensorBase, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> TensorBase:
    """A copy of `input` with `src` as its diagonal.

    Shape:
        input: any; src: the shape of `input.diagonal(offset, dim1, dim2)`; result: as input

    Raises:
        RuntimeError: `src` has another shape

    >>> import flambeau
    >>> flambeau.diagonal_scatter(flambeau.zeros(2, 2), flambeau.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    return _written("diagonal_scatter", input, src, lambda t: t.diagonal(offset, dim1, dim2))


@diagonal_scatter.derivative
def _(grad: TensorBase, offset: int, dim1: int, dim2: int, needs: tuple) -> tuple:
    part = grad.diagonal(offset, dim1, dim2)
    own = diagonal_scatter(grad, part.new_zeros(part.shape), offset, dim1, dim2) if needs[0] else None
    return own, part


@leaf("shape", "select_scatter", "Tensor.select_scatter")
def select_scatter(input: TensorBase, src: TensorBase, dim: int, index: int) -> TensorBase:
    """A copy of `input` with `src` at one index of `dim`.

    Shape:
        input: (*, n, *); src: the same without `dim`; result: as input

    Raises:
        IndexError: the index is out of range
        RuntimeError: `src` has another shape

    >>> import flambeau
    >>> flambeau.select_scatter(flambeau.zeros(2, 2), flambeau.tensor([1.0, 2.0]), 0, 1)
    tensor([[0., 0.],
            [1., 2.]])
    """
    return _written("select_scatter", input, src, lambda t: t.select(dim, index))


@select_scatter.derivative
def _(grad: TensorBase, dim: int, index: int, needs: tuple) -> tuple:
    part = grad.select(dim, index)
    return select_scatter(grad, part.new_zeros(part.shape), dim, index) if needs[0] else None, part


@leaf("shape", "slice_scatter", "Tensor.slice_scatter")
@accepts_out
def slice_scatter(
    input: TensorBase,
    src: TensorBase,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> TensorBase:
    """A copy of `input` with `src` in place of the slice start:end:step of `dim`.

    Shape:
        input: any; src: the shape of the slice; result: as input

    Raises:
        RuntimeError: `src` has another shape

    >>> import flambeau
    >>> flambeau.slice_scatter(flambeau.zeros(4), flambeau.ones(2), 0, 1, 3)
    tensor([0., 1., 1., 0.])
    """
    axis = _wrapped(dim, input, "slice_scatter")
    if step <= 0:
        raise RuntimeError(f"slice_scatter(): step must be positive, got {step}")
    cut = (*(slice(None),) * axis, slice(start, end, step))
    return _written("slice_scatter", input, src, lambda t: t[cut])


@slice_scatter.derivative
def _(grad: TensorBase, dim: int, start: int | None, end: int | None, step: int, needs: tuple) -> tuple:
    part = grad[(*(slice(None),) * (dim % grad.ndim), slice(start, end, step))]
    own = slice_scatter(grad, part.new_zeros(part.shape), dim, start, end, step) if needs[0] else None
    return own, part


@leaf("shape", "as_strided_scatter", "Tensor.as_strided_scatter")
def as_strided_scatter(
    input: TensorBase,
    src: TensorBase,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> TensorBase:
    """A row-major copy of `input` with `src` at the places of `as_strided(size, stride, storage_offset)`.

    RuntimeError where these lie outside.

    Shape:
        input: any; src: `size`; result: as input

    >>> import flambeau
    >>> flambeau.as_strided_scatter(flambeau.zeros(4), flambeau.ones(2), (2,), (2,))
    tensor([1., 0., 1., 0.])
    """
    offset = 0 if storage_offset is None else storage_offset
    return _written(
        "as_strided_scatter", input.contiguous(), src, lambda t: t.as_strided(size, stride, offset)
    )


@as_strided_scatter.derivative
def _(
    grad: TensorBase, size: Sequence[int], stride: Sequence[int], storage_offset: int | None, needs: tuple
) -> tuple:
    part = grad.clone(memory_format=contiguous_format).as_strided(size, stride, storage_offset or 0)
    own = None
    if needs[0]:
        own = as_strided_scatter(grad, part.new_zeros(part.shape), size, stride, storage_offset)
    return own, part


@library("shape", "unravel_index", differentiable=False, dtypes=INTEGRAL)
def unravel_index(indices: TensorBase, shape: Any) -> tuple[TensorBase, ...]:
    """Coordinates, one tensor for each dimension, of places counted in row-major order.

    TypeError unless the indices are integers, ValueError for a negative index or size, and for one beyond the shape.

    >>> import flambeau
    >>> flambeau.unravel_index(flambeau.tensor([4, 1]), (2, 3))
    (tensor([1, 0]), tensor([1, 1]))
    """
    sizes = _tuple(shape.tolist() if isinstance(shape, TensorBase) else shape)
    if not isinstance(indices, TensorBase) or indices.is_floating_point() or indices.is_complex():
        raise TypeError(
            f"unravel_index(): expected 'indices' to be an integer tensor, got {getattr(indices, 'dtype', indices)}"
        )
    if indices.dtype.name == "bool":
        raise TypeError("unravel_index(): expected 'indices' to be an integer tensor, got bool")
    if any(not isinstance(n, int) for n in sizes):
        raise TypeError(f"unravel_index(): expected 'shape' to be a sequence of ints, got {shape}")
    if 0 in sizes and indices.numel():
        raise RuntimeError(f"unravel_index(): a 'shape' with no elements has no places, got {sizes}")
    if any(n < 0 for n in sizes):
        raise ValueError(f"unravel_index(): 'shape' cannot have negative values, got {sizes}")
    indices = indices.to(by_name["int64"])
    step, result = 1, []
    for n in reversed(sizes):
        result.append((indices // step) % max(n, 1))
        step *= n
    if not holds((indices >= 0) & (indices < step)):
        raise ValueError(f"unravel_index(): indices must be non-negative and less than {step}")
    return tuple(reversed(result))


# --- grids and products ----------------------------------------------------------------------------------------------------------
@library("shape", "broadcast_shapes", differentiable=False, dtypes=NONE)
def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that tensors of these shapes broadcast to; RuntimeError where they do not.

    >>> import flambeau
    >>> flambeau.broadcast_shapes((3, 1), (4,))
    flambeau.Size([3, 4])
    """
    given = [_tuple(s) for s in shapes]
    return Size(broadcast(given))


@library("shape", "broadcast_tensors", composite=True)
def broadcast_tensors(*tensors: TensorBase) -> tuple[TensorBase, ...]:
    """Views of the tensors, all of the shape that they broadcast to.

    Shape:
        tensors: any shapes that broadcast; results: the shape they broadcast to

    Raises:
        RuntimeError: the shapes do not broadcast

    >>> import flambeau
    >>> flambeau.broadcast_tensors(flambeau.tensor([[1], [2]]), flambeau.tensor([3, 4]))
    (tensor([[1, 1],
            [2, 2]]), tensor([[3, 4],
            [3, 4]]))
    """
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    shape = broadcast_shapes(*[tuple(t.shape) for t in given])
    return tuple(t.expand(shape) for t in given)


@library("shape", "meshgrid", composite=True)
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[TensorBase, ...]:
    """Coordinates of a grid: result k varies along dimension k with the elements of tensor k (1-dim or 0-dim).

    `indexing` "xy" exchanges the first two dimensions, "ij" (as without it) does not.

    >>> import flambeau
    >>> flambeau.meshgrid(flambeau.tensor([1, 2]), flambeau.tensor([3, 4]), indexing="ij")[0]
    tensor([[1, 1],
            [2, 2]])
    """
    given = list(tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors)
    if not given:
        raise RuntimeError("meshgrid(): expects a non-empty TensorList")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f'meshgrid(): indexing must be one of "xy" or "ij", but received: {indexing}')
    for t in given:
        if t.ndim > 1:
            raise RuntimeError(
                f"meshgrid(): Expected 0D or 1D tensor in the tensor list but got: {list(t.shape)}"
            )
        if t.dtype != given[0].dtype:
            raise RuntimeError("meshgrid(): expects all tensors to have the same dtype")
    swap = indexing == "xy" and len(given) > 1
    if swap:
        given[0], given[1] = given[1], given[0]
    shape = [t.numel() for t in given]
    grids = [
        t.reshape([t.numel() if d == k else 1 for d in range(len(given))]).expand(shape)
        for k, t in enumerate(given)
    ]
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


@library("shape", "cartesian_prod", autocast="composite", composite=True)
def cartesian_prod(*tensors: TensorBase) -> TensorBase:
    """All tuples of one element of each 1-dim tensor, as rows in lexical order.

    Shape:
        tensors: (n₁,), …, (nₖ,); result: (n₁ · … · nₖ, k), or (n₁,) for one tensor

    Raises:
        RuntimeError: a tensor has not one dimension

    >>> import flambeau
    >>> flambeau.cartesian_prod(flambeau.tensor([1, 2]), flambeau.tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]])
    """
    for t in tensors:
        if t.ndim != 1:
            raise RuntimeError(f"cartesian_prod(): Expect a 1D vector, but got shape {list(t.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return stack(meshgrid(*tensors, indexing="ij"), -1).reshape(-1, len(tensors))


@library("shape", "combinations", "Tensor.combinations", autocast="composite", composite=True)
def combinations(input: TensorBase, r: int = 2, with_replacement: bool = False) -> TensorBase:
    """All choices of r elements of a 1-dim tensor, as rows in the order of `itertools.combinations`.

    Shape:
        input: (n,); result: (number of choices, r)

    Raises:
        RuntimeError: there is not one dimension

    >>> import flambeau
    >>> flambeau.combinations(flambeau.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    if input.ndim != 1:
        raise RuntimeError(f"combinations(): Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"combinations(): Expect a non-negative number, but got {r}")
    if r == 0:
        return input.new_empty(0)
    n = input.shape[0]
    if n < (1 if with_replacement else r):
        return input.index_select(0, arange(0, device=input.device)).reshape(0, r)
    _require_combinations(n + r - 1 if with_replacement else n, r)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = list(itertools.chain.from_iterable(choose(range(input.shape[0]), r)))
    chosen = _index_tensor(places).to(input.device)
    return input.index_select(0, chosen).reshape(-1, r)


def _require_combinations(n: int, r: int) -> None:
    """OutOfMemoryError where the places of all choices of r among n take more memory than there is."""
    count = 1
    for k in range(min(r, n - r)):
        count = count * (n - k) // (k + 1)
        if count >> 62:
            break
    require(count * r * INT64.itemsize)


def _index_tensor(values: list[int]) -> TensorBase:
    import numpy as np

    return from_numpy(np.array(values, dtype="int64"))


@library("shape", reference="numpy.kron", composite=True)
def kron(input: TensorBase, other: TensorBase, *, out: TensorBase | None = None) -> TensorBase:
    """Kronecker product: every element of `input` times the whole of `other`.

    Shape:
        input: (m₁, …); other: (n₁, …); result: (m₁ · n₁, …)

    Raises:
        TypeError: an argument is no Tensor

    >>> import flambeau
    >>> flambeau.kron(flambeau.tensor([1, 10]), flambeau.tensor([1, 2]))
    tensor([ 1,  2, 10, 20])
    """
    rank = max(input.ndim, other.ndim)
    a = [1] * (rank - input.ndim) + list(input.shape)
    b = [1] * (rank - other.ndim) + list(other.shape)
    first = input.reshape([n for s in a for n in (s, 1)])
    second = other.reshape([n for s in b for n in (1, s)])
    result = (first * second).reshape([m * n for m, n in zip(a, b)])
    return into(out, result, "kron")


@library("shape", autocast=("fallthrough", "promote"), composite=True, dtypes=NUMBERS)
def cross(
    input: TensorBase, other: TensorBase, dim: int | None = None, *, out: TensorBase | None = None
) -> TensorBase:
    """(a₂b₃ - a₃b₂, a₃b₁ - a₁b₃, a₁b₂ - a₂b₁) for a = input and b = other along `dim`.
    That has three elements; by default it is the first dimension that has.

    Shape:
        input, other: (*, 3, *), which broadcast; the result has the shape they broadcast to

    Raises:
        RuntimeError: no dimension has three elements

    >>> import flambeau
    >>> flambeau.cross(flambeau.tensor([1, 0, 0]), flambeau.tensor([0, 1, 0]), dim=0)
    tensor([0, 0, 1])
    """
    checks.same_dtype("cross", input=input, other=other)
    if input.ndim != other.ndim:
        raise RuntimeError(
            f"cross(): inputs must have the same number of dimensions, got input of shape {list(input.shape)} and other of shape "
            f"{list(other.shape)}"
        )
    shape = broadcast_shapes(tuple(input.shape), tuple(other.shape))
    a, b = input.expand(shape), other.expand(shape)
    if dim is None:
        axis = next((d for d, n in enumerate(shape) if n == 3), None)
        if axis is None:
            raise RuntimeError(f"cross(): no dimension of size 3 in input: {list(shape)}")
    else:
        axis = _wrapped(dim, a, "cross")
        if input.shape[axis] != 3 or other.shape[axis] != 3:
            raise RuntimeError(
                f"cross(): inputs dimension {dim} must have length 3. Got {input.shape[axis]} and {other.shape[axis]}"
            )
    return into(out, linalg_cross(a, b, axis), "cross")


@leaf("shape", name="_linalg_cross", label="LinalgCrossBackward0")
def linalg_cross(a: TensorBase, b: TensorBase, axis: int) -> TensorBase:
    """The vector products of tensors of one shape."""
    x, y = a.unbind(axis), b.unbind(axis)
    return stack([x[k - 2] * y[k - 1] - x[k - 1] * y[k - 2] for k in range(3)], axis)


@linalg_cross.derivative
def _cross_gradient(grad: TensorBase, a: TensorBase, b: TensorBase, axis: int) -> tuple:
    return linalg_cross(conj(b), grad, axis), linalg_cross(grad, conj(a), axis)


@library("shape", "vander", reference="numpy.vander", composite=True, dtypes=EVERY - LATE)
def vander(x: TensorBase, N: int | None = None, increasing: bool = False) -> TensorBase:
    """xᵢ^(N - 1 - j): powers of a vector as columns, the highest first unless `increasing`.
    There are N columns, by default as many as elements.

    Shape:
        x: (n,); result: (n, N)

    Raises:
        RuntimeError: there is not one dimension

    >>> import flambeau
    >>> flambeau.vander(flambeau.tensor([1, 2, 3]))
    tensor([[1, 1, 1],
            [4, 2, 1],
            [9, 3, 1]])
    """
    checks.rank("vander", "x", x, 1)
    n = x.shape[-1] if N is None else N
    if n < 0:
        raise RuntimeError(f"vander(): N must be non-negative, got {n}")
    powers = arange(n, device=x.device) if increasing else arange(n - 1, -1, -1, device=x.device)
    return x.unsqueeze(-1) ** powers


_DOUBLE = ("float64", "complex128")


# --- statistics of variables -------------------------------------------------------------------------------------------------------
@library("composite", "cov", "Tensor.cov", reference="numpy.cov", autocast="composite", dtypes=NUMBERS)
@in_float32()
def cov(
    input: TensorBase,
    *,
    correction: int = 1,
    fweights: TensorBase | None = None,
    aweights: TensorBase | None = None,
) -> TensorBase:
    """Σ (x - mean) (y - mean)ᵀ / (n - correction) of variables (rows) over observations (columns).

    Shape:
        input: (variables, n) or (n,); fweights, aweights: (n,); result: (variables, variables) or ()

    Raises:
        RuntimeError: there are more than two dimensions

    >>> import flambeau
    >>> flambeau.tensor([[0., 2.], [2., 0.]]).cov()
    tensor([[ 2., -2.],
            [-2.,  2.]])
    """
    if input.ndim > 2:
        raise RuntimeError(f"cov(): expected input to have two or fewer dimensions but got {input.ndim}")
    checks.not_bool("cov", input=input)
    checks.dtypes("cov", checks.INTEGERS, RuntimeError, fweights=fweights)
    checks.dtypes("cov", checks.FLOATS, RuntimeError, aweights=aweights)
    x = input.reshape(1, -1) if input.ndim < 2 else input
    x = x if x.is_floating_point() else x * 1.0
    weights = None
    for name, w in (("fweights", fweights), ("aweights", aweights)):
        if w is not None:
            if tuple(w.shape) != (x.shape[1],):
                raise RuntimeError(
                    f"cov(): expected {name} to have one element for each of {x.shape[1]} observations, got {list(w.shape)}"
                )
            if not holds(w >= 0):
                raise RuntimeError(f"cov(): {name} cannot be negative, got {w.min().item()}")
            w = w.to(by_name["float64"]) if w.dtype.name == "float32" and x.dtype.name in _DOUBLE else w
            weights = w if weights is None else weights * w
    if weights is None:
        free: Any = x.shape[1] - correction
        centred = x - x.mean(1, True)
        scaled = centred
    else:
        total = weights.sum()
        centred = x - (x * weights).sum(1, True) / total
        if aweights is None or correction == 0:
            free = total - correction
        else:
            free = total - correction * (weights * aweights).sum() / total
        free, scaled = free.clamp(min=0), centred * weights
    result = scaled @ centred.mH / (max(free, 0) if weights is None else free)
    return result.squeeze()


@library(
    "composite",
    "corrcoef",
    "Tensor.corrcoef",
    reference="numpy.corrcoef",
    autocast="composite",
    dtypes=NUMBERS,
)
@in_float32()
def corrcoef(input: TensorBase) -> TensorBase:
    """C[i, j] / √(C[i, i] · C[j, j]) for C = `cov(input)`, within [-1, 1].
    These are correlation coefficients of variables (rows) over observations (columns).

    Shape:
        input: (n, observations) or (observations,); result: (n, n) or ()

    Raises:
        RuntimeError: there are more than two dimensions

    >>> import flambeau
    >>> flambeau.corrcoef(flambeau.tensor([[1.0, 2.0, 3.0], [6.0, 4.0, 2.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    c = cov(input)
    if c.ndim == 0:
        return c / c
    variance = c.diagonal()
    deviation = (variance.real if c.is_complex() else variance).sqrt()
    result = c / deviation.unsqueeze(1) / deviation.unsqueeze(0)
    if c.is_complex():
        return complex_of(result.real.clamp(-1.0, 1.0), result.imag.clamp(-1.0, 1.0))
    return result.clamp(-1.0, 1.0)
