"""Bags of rows of a table: their sums, means and maxima.

On the host one kernel reads the rows (`codegen/tiles/bags.py`), and another spreads the gradient; elsewhere, and for what is
asked for rarely, bags are made of the operations on rows.
"""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any, NamedTuple

from ...codegen.tiles import bags as tiles
from ...codegen.tiles import kernels
from ...core import tape
from ...core.base.dtypes import by_name
from ...core.base.provided import provided
from ...core.base.tensor import TensorBase
from ...core.lib import bags as core
from ...core.make.create import arange, ones_like
from ...core.make.literal import tensor
from ...core.tape.contexts import unrecorded
from ..declare import checks, machine
from ..declare.half_types import FLOAT32, HALF_TYPES
from ..declare.registry import library
from .embedding import embedding

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


@library("library", "_embedding_bag_rows")
def bag_rows(
    input: TensorBase,
    weight: TensorBase,
    offsets: TensorBase | None,
    scale: TensorBase | None,
    mode: str,
    include_last_offset: bool,
    padding: int,
    sparse: bool = False,
) -> TensorBase:
    """What is in each bag of rows of `weight` (V, D), by one kernel: (B, D); `padding` is the row in no bag, or -1.  With `sparse`
    the gradient of `weight` lists the rows that are in bags.
    """
    flat = (input if input.ndim == 1 else input.reshape(-1)).contiguous()
    if offsets is None:
        starts = core.even_starts(*input.shape)
    else:
        starts = core.starts(offsets.contiguous(), flat.numel(), include_last_offset)
    bags, (rows, columns) = starts.numel() - 1, weight.shape
    table = weight if weight.stride(1) == 1 else weight.detach().contiguous()
    own = None if scale is None else _summed_in(scale.detach(), weight).reshape(-1).contiguous()
    found = weight.new_empty((bags, columns))
    places = flat.new_empty((bags, columns), dtype=by_name["int64"]) if mode == "max" else None
    kernel = _kernel(tiles.Fold, weight.dtype.name, input.dtype.name, mode, own is not None)
    numbers = (columns, rows, table.stride(0), padding)
    each = NANOSECONDS_A_BYTE * weight.dtype.itemsize * columns * flat.numel() / max(bags, 1)
    if core.run(kernel, (found, table, flat, starts, own, places), numbers, bags, each):
        _refuse(flat, rows)
    if scale is not None and tape.recording(weight, scale):
        saved = (flat, starts, scale, weight)
        tape.record(
            "EmbeddingBagBackward0", _weighted_gradients, (weight, scale), found, saved, (padding, sparse)
        )
    elif tape.recording(weight):
        if places is not None:
            tape.record("EmbeddingBagBackward0", _dropped, (weight,), found, (places,), ((rows, columns),))
        else:
            extra = ((rows, columns), weight.dtype, mode, padding, sparse)
            tape.record("EmbeddingBagBackward0", _spread, (weight,), found, (flat, starts), extra)
    return found


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


def _inside(flat: TensorBase, starts: TensorBase, padding: int) -> _Inside:
    counts = starts[1:] - starts[:-1]
    bag = arange(counts.numel(), device=flat.device).repeat_interleave(counts)
    at: TensorBase | slice = slice(bag.numel())
    if padding >= 0:
        at = (flat[at] != padding).nonzero().reshape(-1)
        bag = bag.index_select(0, at)
    return _Inside(at, flat[at], bag, counts.numel())


def _spread(grad, flat, starts, sizes, dtype, mode, padding, sparse, scale=None):
    """The table's gradient: that of each bag, times the factors, at its rows."""
    if sparse or tape.recording(grad) or (scale is not None and tape.recording(scale)):
        inside = _inside(flat, starts, padding)
        grad = grad / inside.sizes().to(grad.dtype) if mode == "mean" else grad
        each = grad.index_select(0, inside.bag)
        each = each if scale is None else each * scale.reshape(-1)[inside.at].unsqueeze(1)
        if sparse:
            return (provided["sparse_coo"](inside.rows.long().unsqueeze(0), each.to(dtype), sizes),)
        return (grad.new_zeros(sizes).index_add(0, inside.rows, each),)
    given, factors = _summed_in(grad, grad).contiguous(), None
    if scale is not None:
        factors = _summed_in(scale, grad).reshape(-1).contiguous()
    found = given.new_zeros(sizes)
    kernel = _kernel(tiles.Spread, given.dtype.name, flat.dtype.name, mode, scale is not None)
    lanes = kernels.registers().bytes // given.dtype.itemsize
    numbers = (sizes[1], sizes[0], sizes[1], padding, starts.numel() - 1)
    each = NANOSECONDS_A_BYTE * 2 * kernels.registers().bytes * flat.numel()
    core.run(kernel, (found, given, flat, starts, factors), numbers, -(-sizes[1] // lanes), each)
    return (found.to(dtype),)


def _weighted_gradients(grad, flat, starts, scale, weight, padding, sparse):
    """The gradients of the table and of the factors of a weighted sum."""
    to_table = to_scale = None
    if weight.requires_grad:
        (to_table,) = _spread(
            grad, flat, starts, tuple(weight.shape), weight.dtype, "sum", padding, sparse, scale
        )
    if not scale.requires_grad:
        return to_table, None
    if tape.recording(grad, weight):
        inside = _inside(flat, starts, padding)
        each = (grad.index_select(0, inside.bag) * weight.index_select(0, inside.rows)).sum(1)
        at = arange(flat.numel(), device=flat.device)[inside.at]
        to_scale = each.new_zeros(flat.shape).index_add(0, at, each)
    else:
        given, table = (
            _summed_in(grad, grad).contiguous(),
            weight if weight.stride(1) == 1 else weight.contiguous(),
        )
        to_scale, bags = given.new_zeros(flat.shape), starts.numel() - 1
        kernel = _kernel(tiles.Dots, weight.dtype.name, flat.dtype.name)
        rows, columns = weight.shape
        each = NANOSECONDS_A_BYTE * 2 * weight.dtype.itemsize * columns * flat.numel() / max(bags, 1)
        core.run(
            kernel,
            (to_scale, table, flat, starts, given),
            (columns, rows, table.stride(0), padding),
            bags,
            each,
        )
    return to_table, to_scale.reshape(scale.shape).to(scale.dtype)


def _dropped(grad, places, sizes):
    """The table's gradient where each element of a bag is one of a row."""
    if tape.recording(grad):
        kept = grad.masked_fill(places < 0, 0.0)
        return (grad.new_zeros(sizes).scatter_add(0, places.clamp(min=0), kept),)
    given = _summed_in(grad, grad).contiguous()
    found, kernel = given.new_zeros(sizes), _kernel(tiles.Drop, given.dtype.name)
    bags, columns = places.shape
    core.run(kernel, (found, given, places), (columns, bags), columns, 2.0 * bags)
    return (found.to(grad.dtype),)


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
        and not tape.is_forward_open()
    )


def _bags(input: TensorBase, offsets: TensorBase | None, include_last_offset: bool) -> tuple[TensorBase, int]:
    """The bag that each number belongs to, and how many bags there are."""
    _check_bags(input, offsets)
    if offsets is None:
        n, length = input.shape
        return arange(n, device=input.device).unsqueeze(1).expand(n, length).reshape(-1), n
    if offsets.is_meta:  # which number lies in which bag stands in the data
        return input.new_empty(input.shape), offsets.shape[0] - include_last_offset
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
        return rows.new_zeros([bags, columns]), bag.new_zeros([bags, columns])
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
        found = inner.index_select(0, at.reshape(-1)).reshape(at.shape)
        return bags.bag, sizes, found.masked_fill((sizes == 0).unsqueeze(1), 0)


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
    checks.rank("embedding_bag", "weight", weight, 2, error=ValueError)
    _check_bags(input, offsets)
    plain = max_norm is None and not (scale_grad_by_freq and tape.recording(weight))
    if plain and _on_host(input, weight, offsets):
        row = -1 if padding_idx is None else _row(weight, padding_idx)
        return bag_rows(input, weight, offsets, per_sample_weights, mode, include_last_offset, row, sparse)
    bags = _in_bags(input, weight, offsets, per_sample_weights, include_last_offset, padding_idx)
    rows = embedding(bags.indices, weight, None, max_norm, norm_type, scale_grad_by_freq, sparse)
    if mode == "max":
        return _largest(rows, bags.bag, bags.sizes())[0]
    rows = rows.to(by_name["float32"]) if rows.dtype in HALF_TYPES else rows  # where sums are accumulated
    rows = rows if bags.scale is None else rows * bags.scale.unsqueeze(1)
    total = rows.new_zeros([bags.number, rows.shape[1]]).index_add(0, bags.bag, rows)
    if mode == "sum":
        return total.to(weight.dtype)
    return (total / bags.sizes().clamp(min=1).unsqueeze(1).to(rows.dtype)).to(weight.dtype)
