"""Bags of rows of a table: their sums, means and maxima.

On the host one kernel reads the rows (`codegen/tiles/bags.py`), and another spreads the gradient; elsewhere, and for what is
requested rarely, bags are made of the operations on rows.
"""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any, NamedTuple

from ....codegen.tiles import bags as tiles
from ....codegen.tiles import kernels
from ....core.base.callbacks import callbacks
from ....core.base.dtypes import by_name
from ....core.base.tensor import TensorBase
from ....core.lib.layers import bags as core
from ....core.make.create import arange, ones_like
from ....core.make.literal import tensor
from ....core.tape.contexts import unrecorded
from ...declare import checks, machine
from ...declare.half_types import FLOAT32, HALF_TYPES
from ...declare.registry import leaf, library
from ...on_device import ordering
from .embedding import embedding, shorten

TILED = ("float32", "float64", "float16", "bfloat16")
INDEX_TYPES = ("int32", "int64")
NANOSECONDS_A_BYTE = 0.05  # of a table's rows


# --- on the host ------------------------------
@functools.cache
def _kernel(kind: Any, dtype: str, *more: Any) -> int:
    """Where the kernel stands that is made for the registers of this processor."""
    lanes = kernels.registers().bytes // by_name[tiles.computed(dtype)].itemsize
    if kind is tiles.Drop:
        return machine.address(kind(dtype))
    number, *rest = more
    return machine.address(kind(dtype, number, lanes, *rest))


def _refuse(flat: TensorBase, rows: int) -> None:
    wrong = flat[(flat < 0) | (flat >= rows)][0].item()
    raise RuntimeError(
        f"embedding_bag(): expected every number to be in the table, whose rows are 0 to {rows - 1}, but found {wrong}"
    )


class _Read(NamedTuple):
    """What kernels are given of the numbers."""

    flat: TensorBase
    starts: TensorBase  # of bags, and where the last one ends


def _read(input: TensorBase, offsets: TensorBase | None, include_last_offset: bool) -> _Read:
    flat = (input if input.ndim == 1 else input.reshape(-1)).contiguous()
    if offsets is None:
        return _Read(flat, core.even_starts(*input.shape))
    return _Read(flat, core.starts(offsets.contiguous(), flat.numel(), include_last_offset))


def _folded(read: _Read, weight: TensorBase, scale: TensorBase | None, mode: str, padding: int) -> tuple:
    """What is in each bag, and for maxima the rows where they stand."""
    flat, starts = read
    bags, (rows, columns) = starts.numel() - 1, weight.shape
    table = weight if weight.stride(1) == 1 else weight.contiguous()
    own = None if scale is None else _summed_in(scale, weight).reshape(-1).contiguous()
    result = weight.new_empty((bags, columns))
    places = flat.new_empty((bags, columns), dtype=by_name["int64"]) if mode == "max" else None
    kernel = _kernel(tiles.Fold, weight.dtype.name, flat.dtype.name, mode, own is not None)
    numbers = (columns, rows, table.stride(0), padding)
    each = NANOSECONDS_A_BYTE * weight.dtype.itemsize * columns * flat.numel() / max(bags, 1)
    if core.run(kernel, (result, table, flat, starts, own, places), numbers, bags, each):
        _refuse(flat, rows)
    return result, places


@leaf("library", inputs=("weight",), label="EmbeddingBagBackward0")
def embedding_bag_rows(
    weight: TensorBase,
    input: TensorBase,
    offsets: TensorBase | None,
    rows: int,
    mode: str,
    include_last_offset: bool,
    padding: int,
    sparse: bool,
    by_frequency: bool,
) -> TensorBase:
    """Sums or means of the rows of `weight` (V, D) in each bag: (B, D); `rows` is V, `padding` the row in no bag, or -1."""
    return _folded(_read(input, offsets, include_last_offset), weight, None, mode, padding)[0]


@embedding_bag_rows.derivative
def _to_table(
    grad, input, offsets, rows, mode, include_last_offset, padding, sparse, by_frequency
) -> TensorBase:
    bags = input, offsets, rows, mode, include_last_offset, padding
    return _table_gradient(grad, None, *bags, sparse, by_frequency)


def _table_gradient(
    grad, scale, input, offsets, rows, mode, include_last_offset, padding, sparse, by_frequency
) -> TensorBase:
    """That of each bag, times the factors, at its rows; a sparse tensor lists those in bags."""
    numbers = input, offsets, rows
    counts = None
    if by_frequency:
        ones = grad.narrow(1, 0, 1) * 0.0 + 1.0
        counts = embedding_bag_backward(ones, None, *numbers, "sum", include_last_offset, padding).clamp(
            min=1
        )
    if not sparse:
        result = embedding_bag_backward(grad, scale, *numbers, mode, include_last_offset, padding)
        return result if counts is None else result / counts
    inside = _inside(input, offsets, include_last_offset, padding)
    each = grad / inside.sizes().to(grad.dtype) if mode == "mean" else grad
    each = each.index_select(0, inside.bag)
    each = each if scale is None else each * scale.reshape(-1)[inside.at].unsqueeze(1)
    each = each if counts is None else each / counts.index_select(0, inside.rows)
    sizes = (rows, grad.shape[1])
    return callbacks["sparse_coo"](inside.rows.long().unsqueeze(0), each.to(grad.dtype), sizes)


@leaf("library", inputs=("weight", "scale"), label="EmbeddingBagBackward0")
def embedding_bag_weighted(
    weight: TensorBase,
    scale: TensorBase,
    input: TensorBase,
    offsets: TensorBase | None,
    include_last_offset: bool,
    padding: int,
    sparse: bool,
    by_frequency: bool,
) -> TensorBase:
    """Sums of the rows of `weight` (V, D) times `scale` in each bag: (B, D)."""
    return _folded(_read(input, offsets, include_last_offset), weight, scale, "sum", padding)[0]


@embedding_bag_weighted.derivative
def _to_table_and_scale(
    grad, weight, scale, input, offsets, include_last_offset, padding, sparse, by_frequency, needs
) -> tuple:
    to_table = to_scale = None
    if needs[0]:
        bags = input, offsets, weight.shape[0], "sum", include_last_offset, padding
        to_table = _table_gradient(grad, scale, *bags, sparse, by_frequency)
    if needs[1]:
        to_scale = embedding_bag_dots(grad, weight, input, offsets, include_last_offset, padding)
        to_scale = to_scale.to(scale.dtype)
    return to_table, to_scale


@leaf("library", inputs=("grad_output", "scale"), label="EmbeddingBagBackwardBackward0")
def embedding_bag_backward(
    grad_output: TensorBase,
    scale: TensorBase | None,
    input: TensorBase,
    offsets: TensorBase | None,
    rows: int,
    mode: str,
    include_last_offset: bool,
    padding: int,
) -> TensorBase:
    """The gradient of a table with so many rows: that of each bag, times the factors, at its rows."""
    flat, starts = _read(input, offsets, include_last_offset)
    given, factors = _summed_in(grad_output, grad_output).contiguous(), None
    if scale is not None:
        factors = _summed_in(scale, grad_output).reshape(-1).contiguous()
    columns = given.shape[1]
    result = given.new_zeros((rows, columns))
    kernel = _kernel(tiles.Spread, given.dtype.name, flat.dtype.name, mode, scale is not None)
    lanes = kernels.registers().bytes // given.dtype.itemsize
    numbers = (columns, rows, columns, padding, starts.numel() - 1)
    each = NANOSECONDS_A_BYTE * 2 * kernels.registers().bytes * flat.numel()
    core.run(kernel, (result, given, flat, starts, factors), numbers, -(-columns // lanes), each)
    return result.to(grad_output.dtype)


@embedding_bag_backward.derivative
def _to_bags(
    grad, grad_output, scale, input, offsets, rows, mode, include_last_offset, padding, needs
) -> tuple:
    bags = include_last_offset, padding
    if scale is None:
        return (embedding_bag_rows(grad, input, offsets, rows, mode, *bags, False, False),)
    to_bags = to_scale = None
    if needs[0]:
        to_bags = embedding_bag_weighted(grad, scale, input, offsets, *bags, False, False)
    if needs[1]:
        to_scale = embedding_bag_dots(grad_output, grad, input, offsets, *bags).to(scale.dtype)
    return to_bags, to_scale


@leaf("library", inputs=("grad_output", "weight"), label="EmbeddingBagBackwardBackward0")
def embedding_bag_dots(
    grad_output: TensorBase,
    weight: TensorBase,
    input: TensorBase,
    offsets: TensorBase | None,
    include_last_offset: bool,
    padding: int,
) -> TensorBase:
    """The products of each number's row of `weight` with the gradient of its bag, in the shape of the numbers: the gradient of
    factors, at least in float32.
    """
    flat, starts = _read(input, offsets, include_last_offset)
    given = _summed_in(grad_output, grad_output).contiguous()
    table = weight if weight.stride(1) == 1 else weight.contiguous()
    result, bags = given.new_zeros(flat.shape), starts.numel() - 1
    kernel = _kernel(tiles.Dots, weight.dtype.name, flat.dtype.name)
    rows, columns = weight.shape
    each = NANOSECONDS_A_BYTE * 2 * weight.dtype.itemsize * columns * flat.numel() / max(bags, 1)
    numbers = (columns, rows, table.stride(0), padding)
    core.run(kernel, (result, table, flat, starts, given), numbers, bags, each)
    return result.reshape(input.shape)


@embedding_bag_dots.derivative
def _to_bags_and_table(
    grad, grad_output, weight, input, offsets, include_last_offset, padding, needs
) -> tuple:
    bags = include_last_offset, padding
    to_bags = to_table = None
    if needs[0]:
        to_bags = embedding_bag_weighted(weight, grad, input, offsets, *bags, False, False)
    if needs[1]:
        to_table = embedding_bag_backward(grad_output, grad, input, offsets, weight.shape[0], "sum", *bags)
    return to_bags, to_table


@leaf("library", inputs=("weight",), results=("result", "places"), label="EmbeddingBagBackward0")
def embedding_bag_largest(
    weight: TensorBase,
    input: TensorBase,
    offsets: TensorBase | None,
    rows: int,
    include_last_offset: bool,
    padding: int,
) -> tuple[TensorBase, TensorBase]:
    """The largest of each column of `weight` (V, D) in each bag, (B, D), and the rows where they stand, -1 for empty bags."""
    return _folded(_read(input, offsets, include_last_offset), weight, None, "max", padding)


@embedding_bag_largest.derivative
def _to_largest(grad, places, rows) -> TensorBase:
    return embedding_bag_largest_backward(grad, places, rows)


@leaf("library", inputs=("grad_output",), label="EmbeddingBagBackwardBackward0")
def embedding_bag_largest_backward(grad_output: TensorBase, places: TensorBase, rows: int) -> TensorBase:
    """The gradient of a table with so many rows, where each element of a bag is one of a row."""
    given = _summed_in(grad_output, grad_output).contiguous()
    bags, columns = places.shape
    result, kernel = given.new_zeros((rows, columns)), _kernel(tiles.Drop, given.dtype.name)
    core.run(kernel, (result, given, places), (columns, bags), columns, 2.0 * bags)
    return result.to(grad_output.dtype)


@embedding_bag_largest_backward.derivative
def _from_places(grad, places) -> TensorBase:
    return grad.gather(0, places.clamp(min=0)).masked_fill(places < 0, 0.0)


def _summed_in(x: TensorBase, like: TensorBase) -> TensorBase:
    return x.to(FLOAT32) if like.dtype in HALF_TYPES else x.to(like.dtype)


class _Inside(NamedTuple):
    """The numbers that are in bags."""

    at: TensorBase | slice  # where they stand
    rows: TensorBase
    bag: TensorBase  # which bag each is in
    number: int  # of bags

    def sizes(self) -> TensorBase:
        """How many are in each bag, at least 1: (B, 1)."""
        counts = self.bag.new_zeros([self.number]).index_add(0, self.bag, ones_like(self.bag))
        return counts.clamp(min=1).unsqueeze(1)


def _inside(
    input: TensorBase, offsets: TensorBase | None, include_last_offset: bool, padding: int
) -> _Inside:
    bag, number = _bags(input, offsets, include_last_offset)
    flat = input.reshape(-1)
    at: TensorBase | slice = slice(bag.numel())  # numbers after the last offset are in no bag
    if padding >= 0:
        at = (flat[at] != padding).nonzero().reshape(-1)
        bag = bag.index_select(0, at)
    return _Inside(at, flat[at], bag, number)


# --- anywhere ------------------------------
def _check_bags(input: TensorBase, offsets: TensorBase | None) -> None:
    """ValueError where numbers and offsets do not go together."""
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError(
                "embedding_bag(): if input is 2D, then offsets has to be None, as input is treated as a mini-batch "
                "of fixed length sequences."
            )
    elif input.ndim != 1:
        raise ValueError(
            f"embedding_bag(): input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}"
        )
    elif offsets is None or offsets.ndim != 1:
        raise ValueError("embedding_bag(): offsets has to be a 1D Tensor, as input is 1D")


def _on_host(input: TensorBase, weight: TensorBase, offsets: TensorBase | None) -> bool:
    """Whether bags are read by one kernel."""
    return (
        weight.dtype.name in TILED
        and input.dtype.name in INDEX_TYPES
        and weight.device.type == "cpu"
        and input.device.type == "cpu"
        and (offsets is None or (offsets.dtype.name in INDEX_TYPES and offsets.device.type == "cpu"))
    )


def _bags(input: TensorBase, offsets: TensorBase | None, include_last_offset: bool) -> tuple[TensorBase, int]:
    """The bag that each number belongs to, and how many bags there are."""
    _check_bags(input, offsets)
    if offsets is None:
        n, length = input.shape
        return arange(n, device=input.device).unsqueeze(1).expand(n, length).reshape(-1), n
    if offsets.is_meta:  # which number lies in which bag stands in the data
        return input.new_empty(input.shape), offsets.shape[0] - include_last_offset
    if not offsets.is_cpu and offsets.numel():
        number, length = offsets.shape[0] - include_last_offset, input.shape[0]
        if bool((offsets[0] != 0) | (offsets.max() > length)):
            raise RuntimeError(
                f"embedding_bag(): offsets[0] has to be 0 and none may exceed the input's length {length}, got {offsets.tolist()}"
            )
        places = arange(int(offsets[-1]) if include_last_offset else length, device=offsets.device)
        return ordering.search(offsets.narrow(0, 0, number).long(), places, True) - 1, number
    starts = offsets.tolist()
    if starts and (starts[0] != 0 or max(starts) > input.shape[0]):
        raise RuntimeError(
            f"embedding_bag(): offsets[0] has to be 0 and none may exceed the input's length {input.shape[0]}, got {starts}"
        )
    ends = [*starts[1:], *([] if include_last_offset else [input.shape[0]])]
    counts = tensor(
        [end - start for start, end in zip(starts, ends)], dtype=by_name["int64"], device=input.device
    )
    return arange(len(ends), device=input.device).repeat_interleave(counts), len(ends)


def _largest(rows: TensorBase, bag: TensorBase, counts: TensorBase) -> tuple[TensorBase, TensorBase]:
    """The largest of each column in each bag, 0 for empty bags, and which number of the bag it is: from a table with rows
    for all numbers of the longest bag.
    """
    bags, columns = counts.shape[0], rows.shape[1]
    if counts.is_meta:  # how long the longest bag is stands in the data
        return rows.new_zeros([bags, columns]).index_add(0, bag, rows), bag.new_empty([bags, columns])
    longest = int(counts.max().item()) if counts.numel() else 0
    if longest == 0:
        return rows.new_zeros([bags, columns]).index_add(0, bag, rows), bag.new_zeros([bags, columns])
    order = bag.argsort(stable=True)
    first = counts.cumsum(0) - counts
    place = arange(bag.shape[0], device=bag.device) - first.index_select(0, bag.index_select(0, order))
    spot = bag.index_select(0, order) * longest + place
    table = rows.new_full([bags * longest, columns], -math.inf)
    table = table.index_copy(0, spot, rows.index_select(0, order)).reshape(bags, longest, columns)
    values, at = table.max(1)
    return values.masked_fill((counts == 0).unsqueeze(1), 0.0), at


class _Bags(NamedTuple):
    """Rows of a table in bags."""

    indices: TensorBase  # (n,): the rows, without those that are in no bag
    scale: TensorBase | None  # (n,)
    bag: TensorBase  # (n,): which bag each of them is in
    number: int  # of bags

    def sizes(self) -> TensorBase:
        return self.bag.new_zeros([self.number]).index_add(0, self.bag, ones_like(self.bag))


def _row(weight: TensorBase, padding_idx: int) -> int:
    if not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise ValueError("embedding_bag(): padding_idx must be within the number of embeddings")
    return padding_idx % weight.shape[0]


def _in_bags(input, weight, offsets, scale, include_last_offset: bool, padding_idx: int | None) -> _Bags:
    bag, bags = _bags(input, offsets, include_last_offset)
    flat = input.reshape(-1)
    scale = None if scale is None else scale.reshape(-1)
    if flat.shape[0] != bag.shape[0]:  # numbers after the last offset are in no bag
        flat = flat.narrow(0, 0, bag.shape[0])
        scale = None if scale is None else scale.narrow(0, 0, bag.shape[0])
    if padding_idx is not None:
        row = _row(weight, padding_idx)
        if not flat.is_meta:
            used = (flat != row).nonzero().reshape(-1)
            flat, bag = flat.index_select(0, used), bag.index_select(0, used)
            scale = None if scale is None else scale.index_select(0, used)
    return _Bags(flat, scale, bag, bags)


def bag_places(
    input: TensorBase,
    weight: TensorBase,
    offsets: TensorBase,
    mode: str,
    include_last_offset: bool,
    padding_idx: int | None,
) -> tuple[TensorBase, TensorBase, TensorBase]:
    """For the arguments of `embedding_bag`: the bag of each number, (n,), the bags' sizes, (B,), and for maxima the rows in
    which they stand, (B, D), 0 for empty bags; else no elements.
    """
    with unrecorded():
        bags = _in_bags(input, weight, offsets, None, include_last_offset, padding_idx)
        sizes = bags.sizes()
        if mode != "max":
            return bags.bag, sizes, input.new_empty(0)
        at = _largest(weight.index_select(0, bags.indices), bags.bag, sizes)[1]
        if not bags.indices.numel() or at.is_meta:
            return bags.bag, sizes, at
        at = (at + (sizes.cumsum(0) - sizes).unsqueeze(1)).clamp(max=bags.indices.numel() - 1)
        inner = bags.indices.index_select(0, bags.bag.argsort(stable=True))
        result = inner.index_select(0, at.reshape(-1)).reshape(at.shape)
        return bags.bag, sizes, result.masked_fill((sizes == 0).unsqueeze(1), 0)


@library("composite", "nn.functional.embedding_bag", batching="looped")
def embedding_bag(
    input: TensorBase,
    weight: TensorBase,
    offsets: TensorBase | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: Any = "mean",
    sparse: bool = False,
    per_sample_weights: TensorBase | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> TensorBase:
    """Σ weight[input] over each bag, or the mean or maximum: bags of rows of `weight` (V, D), (B, D).

    `input` is (B, N), or (N,) with the bags starting at `offsets` (B,).  `per_sample_weights` scales the rows of sums;
    `padding_idx` is in no bag; empty bags give 0.  ValueError for an unknown mode or arguments that do not fit.

    >>> import flambeau
    >>> table = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> flambeau.nn.functional.embedding_bag(flambeau.tensor([[0, 1], [1, 1]]), table, mode="sum")
    tensor([[4., 6.],
            [6., 8.]])
    """
    if weight.dtype.name == "int64" and input.is_floating_point():
        warnings.warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, ...)` is deprecated, and "
            "should now be `embedding_bag(input, weight, ...)`.",
            stacklevel=2,
        )
        input, weight = weight, input
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"embedding_bag(): mode has to be one of sum, mean or max, got {mode!r}")
    if sparse and mode == "max":
        raise ValueError("embedding_bag(): max mode does not support sparse weights")
    if per_sample_weights is not None:
        if mode != "sum":
            raise NotImplementedError(
                f"embedding_bag(): per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got {mode!r})."
            )
        if tuple(per_sample_weights.shape) != tuple(input.shape):
            raise ValueError(
                f"embedding_bag(): If per_sample_weights ({tuple(per_sample_weights.shape)}) is not None, then it must have the "
                f"same shape as the input ({tuple(input.shape)})"
            )
        if per_sample_weights.dtype != weight.dtype:
            raise RuntimeError(
                f"embedding_bag(): expected per_sample_weights of the dtype of weight, {weight.dtype}, got {per_sample_weights.dtype}"
            )
    checks.rank("embedding_bag", "weight", weight, 2, error=ValueError)
    _check_bags(input, offsets)
    if max_norm is not None:  # of all numbers, those in no bag too
        shorten(weight, input, max_norm, norm_type)
    if not (scale_grad_by_freq and mode == "max") and _on_host(input, weight, offsets):
        row = -1 if padding_idx is None else _row(weight, padding_idx)
        bags = include_last_offset, row
        if mode == "max":
            return embedding_bag_largest(weight, input, offsets, weight.shape[0], *bags)[0]
        if per_sample_weights is None:
            given = weight.shape[0], mode, *bags, sparse, scale_grad_by_freq
            return embedding_bag_rows(weight, input, offsets, *given)
        return embedding_bag_weighted(
            weight, per_sample_weights, input, offsets, *bags, sparse, scale_grad_by_freq
        )
    inside = _in_bags(input, weight, offsets, per_sample_weights, include_last_offset, padding_idx)
    rows = embedding(inside.indices, weight, None, None, norm_type, scale_grad_by_freq, sparse)
    if mode == "max":
        return _largest(rows, inside.bag, inside.sizes())[0]
    rows = rows.to(by_name["float32"]) if rows.dtype in HALF_TYPES else rows  # where sums are accumulated
    rows = rows if inside.scale is None else rows * inside.scale.unsqueeze(1)
    total = rows.new_zeros([inside.number, rows.shape[1]]).index_add(0, inside.bag, rows)
    if mode == "sum":
        return total.to(weight.dtype)
    return (total / inside.sizes().clamp(min=1).unsqueeze(1).to(rows.dtype)).to(weight.dtype)
