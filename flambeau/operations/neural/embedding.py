"""Rows of a table looked up by number: embeddings, bags of them, and one-hot vectors."""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

from ...core import tape
from ...core.base.dtypes import by_name
from ...core.base.provided import provided
from ...core.base.tensor import TensorBase
from ...core.make.create import arange, ones_like
from ...core.make.literal import tensor
from ...core.tape.contexts import unrecorded
from ..declare import checks
from ..declare.half_types import HALF_TYPES
from ..declare.host import holds
from ..declare.registry import library


@library("composite", "nn.functional.embedding")
def embedding(
    input: TensorBase,
    weight: TensorBase,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> TensorBase:
    """Rows of `weight` (V, D) at the places `input` (integers of any shape): (*, D).

    The row `padding_idx` gets no gradient; with `scale_grad_by_freq` a row's gradient is divided by how often it occurs;
    rows longer than `max_norm` are shortened in place.  With `sparse` the gradient of `weight` is a sparse tensor of the
    rows looked up.  IndexError for a number outside the table.
    """
    if input.dtype.name not in ("int32", "int64"):
        checks.dtypes("embedding", ("int32", "int64"), RuntimeError, input=input)
    if padding_idx is not None and weight.ndim:
        if not -weight.shape[0] <= padding_idx < weight.shape[0]:
            raise AssertionError("embedding(): padding_idx must be within num_embeddings")
        padding_idx %= weight.shape[0]
    if weight.ndim != 2:
        checks.rank("embedding", "weight", weight, 2)
    if max_norm is not None:
        shorten(weight, input, max_norm, norm_type)
    flat = input.reshape(-1)
    if sparse and tape.recording(weight):
        return _with_sparse_gradient(flat, weight, padding_idx, scale_grad_by_freq).reshape(
            [*input.shape, weight.shape[1]]
        )
    found = weight.index_select(0, flat)
    if padding_idx is not None and found.requires_grad:
        hidden = (flat == padding_idx).unsqueeze(1)
        found.register_hook(lambda grad: grad.masked_fill(hidden, 0.0))
    if scale_grad_by_freq and found.requires_grad:
        times = flat.new_zeros([weight.shape[0]]).index_add(0, flat, ones_like(flat)).index_select(0, flat)
        found.register_hook(lambda grad: grad / times.unsqueeze(1))
    return found.reshape([*input.shape, weight.shape[1]])


def _with_sparse_gradient(
    flat: TensorBase, weight: TensorBase, padding_idx: int | None, scale_grad_by_freq: bool
) -> TensorBase:
    """Rows whose gradient is one sparse tensor: of each place in `flat` but `padding_idx` a row."""
    with unrecorded():
        found = weight.index_select(0, flat)
    tape.record(
        "EmbeddingBackward",
        _rows_apart,
        (weight,),
        found,
        (flat,),
        (weight.shape, padding_idx, scale_grad_by_freq),
    )
    return found


def _rows_apart(
    grad: TensorBase, flat: TensorBase, sizes: Any, padding_idx: int | None, shared: bool
) -> tuple:
    if padding_idx is not None:
        kept = (flat != padding_idx).nonzero().reshape(-1)
        flat, grad = flat.index_select(0, kept), grad.index_select(0, kept)
    if shared:
        times = flat.new_zeros([sizes[0]]).index_add(0, flat, ones_like(flat)).index_select(0, flat)
        grad = grad / times.unsqueeze(1)
    return (provided["sparse_coo"](flat.long().unsqueeze(0), grad, sizes),)


def shorten(weight: TensorBase, input: TensorBase, max_norm: float, norm_type: float) -> None:
    """Scale the rows at `input` that are longer than `max_norm` down to it, in place; norms are p-norms."""
    from ..rows.norms import vector_norm

    if weight.is_meta:
        return
    with unrecorded():
        used = input.reshape(-1).unique()
        rows = weight.index_select(0, used)
        lengths = vector_norm(rows, norm_type, 1, True)
        weight.index_copy_(0, used, rows * (max_norm / (lengths + 1e-7)).clamp(max=1.0))


def _bags(input: TensorBase, offsets: TensorBase | None, include_last_offset: bool) -> tuple[TensorBase, int]:
    """The bag that each number belongs to, and how many bags there are."""
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError(
                "embedding_bag(): if input is 2D, then offsets has to be None, as input is treated as a mini-batch "
                "of fixed length sequences."
            )
        n, length = input.shape
        return arange(n, device=input.device).unsqueeze(1).expand(n, length).reshape(-1), n
    if input.ndim != 1:
        raise ValueError(
            f"embedding_bag(): input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}"
        )
    if offsets is None or offsets.ndim != 1:
        raise ValueError("embedding_bag(): offsets has to be a 1D Tensor, as input is 1D")
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


def _in_bags(input, weight, offsets, scale, include_last_offset: bool, padding_idx: int | None) -> _Bags:
    bag, bags = _bags(input, offsets, include_last_offset)
    flat = input.reshape(-1)
    scale = None if scale is None else scale.reshape(-1)
    if flat.shape[0] != bag.shape[0]:  # numbers after the last offset are in no bag
        flat = flat.narrow(0, 0, bag.shape[0])
        scale = None if scale is None else scale.narrow(0, 0, bag.shape[0])
    if padding_idx is not None:
        if not -weight.shape[0] <= padding_idx < weight.shape[0]:
            raise ValueError("embedding_bag(): padding_idx must be within the number of embeddings")
        if not flat.is_meta:
            used = (flat != padding_idx % weight.shape[0]).nonzero().reshape(-1)
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


@library("composite", "nn.functional.embedding_bag")
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
    """Sums, means or maxima of bags of rows of `weight` (V, D): (B, D).

    `input` is (B, N), or (N,) with the bags starting at `offsets` (B,).  `per_sample_weights` scales the rows of sums;
    `padding_idx` is in no bag; empty bags give 0.  ValueError for an unknown mode or arguments that do not fit.
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


@library("composite", "nn.functional.one_hot")
def one_hot(input: TensorBase, num_classes: int = -1) -> TensorBase:
    """int64 tensor (*, num_classes): 1 at each element's class, else 0."""
    if input.dtype.name != "int64":
        raise RuntimeError(
            f"one_hot(): is only applicable to index tensor of type LongTensor, got {input.dtype}"
        )
    if not holds(input >= 0):
        raise RuntimeError("one_hot(): Class values must be non-negative.")
    if num_classes == -1:
        if input.numel() == 0:
            raise RuntimeError("one_hot(): Can not infer total number of classes from empty tensor.")
        num_classes = int(input.max().item()) + 1
    elif not holds(input < num_classes):
        raise RuntimeError("one_hot(): Class values must be smaller than num_classes.")
    return (input.unsqueeze(-1) == arange(num_classes, device=input.device)).to(input.dtype)
