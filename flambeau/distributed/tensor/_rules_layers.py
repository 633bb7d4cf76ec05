"""Sharding rules of layers, losses, indices, random numbers, and of what a backward pass calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...core.call.function import FunctionOp
from ...core.make.create import empty, empty_strided
from ...core.views.strided import through_op
from ._call import Call, Choice, dims_of, mapped
from ._rules import ADDED, BY_KIND, NAMED, REDUCTIONS, along, reduced_over, replicated, steps, view
from ._rules_products import labelled
from .placement_types import Partial, Replicate, Shard

loss_is_parallel = False  # whether classes may be cut in cross-entropy: `parallel.loss_parallel`


# Norms, attention, convolution ----------------------------------------------------------------------------------------------------------
def norm_of_rows(call: Call) -> Iterator[Choice]:
    """A norm over the last dimensions, and its gradients: cut along the others, over which gradients of weights are added up."""
    yield replicated(call)
    rank = max(t.dim() for t in call.operands)
    ahead = list(range(rank - call.bound["rank"]))

    def labels(t: Any) -> list[Any]:
        return list(range(rank)) if t.dim() == rank else [("weight", d) for d in range(t.dim())]

    free = [c for c in labelled(call, [*map(labels, call.operands)], [*map(labels, call.results)], ahead)]
    for choice in free:
        cut = [p.dim for p in choice.operands if isinstance(p, Shard)]
        if cut and cut[0] in ahead and any(t.dim() == rank for t in call.operands):
            yield choice


def attention(call: Call) -> Iterator[Choice]:
    """Scaled dot-product attention and its gradients: cut along batches and heads."""
    yield replicated(call)
    if call.argument("dropout_p"):
        return
    query = call.bound["query"]
    rank = query.dim()
    mask = call.argument("mask")
    if call.argument("of_mask"):
        return
    for dim in range(rank - 2):
        size = query.shape[dim]
        if any(t is not mask and t.shape[dim] != size for t in call.operands):
            continue
        result = []
        for t in call.operands:
            own = dim - rank + t.dim() if t is mask else dim
            result.append(Shard(own) if own >= 0 and t.shape[own] == size else Replicate())
        yield Choice(tuple(result), tuple(Shard(dim) for _ in call.results))


def convolution(call: Call) -> Iterator[Choice]:
    """Cut along images."""
    yield replicated(call)
    if call.operands[0].shape[0]:
        ins = [Replicate()] * len(call.operands)
        ins[0] = Shard(0)  # type: ignore[call-overload]
        yield Choice(tuple(ins), (Shard(0),))


def convolution_gradient(call: Call) -> Iterator[Choice]:
    """Cut along images, over which the gradients of weights are added up."""
    yield replicated(call)
    if call.operands[0].shape[0]:
        wanted = call.bound["wanted"]
        outs = tuple(Shard(0) if k == 0 else Partial() for k in range(3) if wanted[k])
        yield Choice((Shard(0), Shard(0), Replicate()), outs)


# Cross-entropy --------------------------------------------------------------------------------------------------------------------------
def cross_entropy(call: Call) -> Iterator[Choice]:
    """Cut along rows, or, under `loss_parallel`, along classes."""
    yield replicated(call)
    how = call.bound["how"]
    call.compute = lambda local, specs: _entropy(call, local, specs)
    rows = (Shard(0) if how == "none" else Partial(), Shard(0), Shard(0), Replicate())
    yield Choice((Shard(0), Shard(0)), rows)
    if loss_is_parallel:
        yield Choice((Shard(1), Replicate()), (Replicate(),) * 4)


def _cut_by(spec: Any, dim: int) -> list[int]:
    return list(spec.orders.get(dim, ()))


def _classes_here(call: Call, target: Any, first: int, count: int) -> tuple[Any, Any, Any]:
    """Which rows count, which have their class here, and its number here.  IndexError for a class that there is not."""
    from ...operations.neural.losses.losses import _refuse_classes

    not_ignored = target != call.bound["ignore_index"]
    classes = call.operands[call.names.index("input")].shape[1]
    if bool((not_ignored & ((target < 0) | (target >= classes))).any()):
        _refuse_classes("cross_entropy", target, call.bound["ignore_index"], classes)
    inside = not_ignored & (target >= first) & (target < first + count)
    return not_ignored, inside, (target - first).masked_fill(~inside, 0)


def _entropy(call: Call, local: dict[str, Any], specs: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
    """`class_entropy` of pieces: the largest logit, the sum of exponentials and the target's logit are reduced over classes."""
    spec, how = call.inputs[0], call.bound["how"]
    by_rows, by_classes = _cut_by(spec, 0), _cut_by(spec, 1)
    if not by_rows and not by_classes:
        return call.parameters.call(call.op, local)
    x, target = local["input"], local["target"]
    wide = x.float() if x.element_size() < 4 else x
    count, first = spec.cut(1)
    not_ignored, inside, here = _classes_here(call, target, first, count)
    few = wide.amax(1, True) if count else wide.new_full((len(target), 1), -float("inf"))
    top = reduced_over(few, spec, by_classes, "max")
    centred = wide - top
    total = reduced_over(centred.exp().sum(1, True), spec, by_classes, "sum").log()
    chosen = centred.gather(1, here.unsqueeze(1)) if count else wide.new_zeros((len(target), 1))
    chosen = reduced_over(chosen.masked_fill(~inside.unsqueeze(1), 0.0), spec, by_classes, "sum")
    losses = (total - chosen).masked_fill(~not_ignored.unsqueeze(1), 0.0).squeeze(1)
    many = reduced_over(not_ignored.sum().to(wide.dtype), spec, by_rows, "sum")
    loss = losses if how == "none" else losses.sum() if how == "sum" else losses.sum() / many
    return tuple(t.to(made.dtype) for t, made in zip((loss, top, total, many), call.results))  # type: ignore[return-value]


def cross_entropy_gradient(call: Call) -> Iterator[Choice]:
    """As the loss."""
    yield replicated(call)
    call.compute = lambda local, specs: _entropy_gradient(call, local, specs)
    rows = {name: Shard(0) for name in ("input", "target", "top", "total")}
    if call.bound["how"] == "none":
        rows["grad_out"] = Shard(0)
    yield call.choice(rows, Shard(0))
    yield call.choice({"input": Shard(1)}, Shard(1))


def _entropy_gradient(call: Call, local: dict[str, Any], specs: Sequence[Any]) -> Any:
    spec = call.inputs[call.names.index("input")]
    if not _cut_by(spec, 1):
        return call.parameters.call(call.op, local)
    count, first = spec.cut(1)
    target = local["target"]
    not_ignored, inside, here = _classes_here(call, target, first, count)
    nowhere = here.masked_fill(~inside, -1).masked_fill(~not_ignored, -100)
    return call.parameters.call(call.op, {**local, "target": nowhere, "ignore_index": -100})


# Indices --------------------------------------------------------------------------------------------------------------------------------
def rows_by_index(call: Call) -> Iterator[Choice]:
    """`index_select`, and so `embedding`: along other dimensions, along the indices, or of a cut dimension what is here, to be added up."""
    yield replicated(call)
    x = call.operands[0]
    at = call.argument("dim") % max(x.dim(), 1)
    if x.dim() == 0 or call.operands[1].dim() == 0:
        return
    for dim in range(x.dim()):
        if dim != at:
            yield Choice((Shard(dim), Replicate()), (Shard(dim),))
    yield Choice((Replicate(), Shard(0)), (Shard(at),))
    call.compute = lambda local, specs: _selected(call, local, at)
    if call.results[0].dtype.is_floating_point or call.results[0].dtype.is_complex:
        yield Choice((Shard(at), Replicate()), (Partial(),))


def _selected(call: Call, local: dict[str, Any], at: int) -> Any:
    """The rows that are here; zeros in place of the others.  IndexError for an index that there is not."""
    spec = call.inputs[0]
    if at not in spec.orders:
        return call.parameters.call(call.op, local)
    x, index = local[call.names[0]], local["index"]
    rows = spec.shape[at]
    wrong = (index < 0) | (index >= rows)
    if bool(wrong.any()):
        raise IndexError(f"{call.op.__name__}(): index out of range in self: indices are 0 to {rows - 1}")
    count, first = spec.cut(at)
    inside = (index >= first) & (index < first + count)
    if not count:
        shape = [*x.shape]
        shape[at] = len(index)
        return x.new_zeros(shape)
    result = x.index_select(at, (index - first).masked_fill(~inside, 0))
    away = ~inside.reshape([-1 if d == at else 1 for d in range(x.dim())])
    return result.masked_fill(away, 0)


def added_by_index(call: Call) -> Iterator[Choice]:
    """`index_add`: along other dimensions, or along the indices, over which the result is added up."""
    yield from along(call)
    at = call.argument("dim") % max(call.operands[0].dim(), 1)
    if call.operands[0].dim() and not call.op.writes:
        yield call.choice({"input": Partial(), "index": Shard(0), "source": Shard(at)}, Partial())


_PROBED = 1009  # a size like no other


def item_of(call: Call) -> Iterator[Choice]:
    """`x[key]`: as a view, or with tensors of indices along dimensions that no key touches."""
    if len(call.operands) == 1:
        yield from view(call)
        return
    yield replicated(call)
    x = call.operands[0]
    for dim in range(x.dim()):
        shape = [*x.shape]
        shape[dim] = _PROBED
        probe = empty(shape, dtype=x.dtype, device="meta")
        try:
            result = call.parameters.call(call.op, {**call.bound, call.names[0]: probe})
        except Exception:  # another size does not fit the key: the dimension is touched
            continue
        if (
            list(result.shape).count(_PROBED) == 1
            and result.numel() // _PROBED * x.shape[dim] == call.results[0].numel()
        ):
            place = list(result.shape).index(_PROBED)
            ins = (Shard(dim), *[Replicate()] * (len(call.operands) - 1))
            yield Choice(ins, (Shard(place),))


class _WithFullCall:
    """A rule of what is made of other operations on distributed tensors."""

    def __init__(self, function: Any) -> None:
        self.full_call = function


def _set_item(op: Any, parameters: Any, bound: dict[str, Any], out: Any) -> Any:
    """`x[key] = value`: into a view of it, whose pieces lie in those of x."""
    x, key, value = bound[parameters.names[0]], bound["key"], bound["value"]
    part = x[key]
    if part._local_tensor.numel() and not _shares(part._local_tensor, x._local_tensor):
        raise RuntimeError(
            f"__setitem__(): in-place operations that require placement change are not supported: {tuple(x.shape)} {x.placements} is cut "
            f"along a dimension that the key {key!r} takes apart, or the key holds tensors; redistribute it before"
        )
    if part._local_tensor.numel() or hasattr(value, "_spec"):
        part.copy_(value) if hasattr(value, "_spec") else part.fill_(value)
    return x


def _shares(one: Any, other: Any) -> bool:
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def repeated(call: Call) -> Iterator[Choice]:
    """Along dimensions that are not repeated."""
    yield replicated(call)
    times, rank = call.bound["times"], call.operands[0].dim()
    for dim in range(rank):
        place = dim + len(times) - rank
        if times[place] == 1:
            yield Choice((Shard(dim),), (Shard(place),))


def padded(call: Call) -> Iterator[Choice]:
    """Along dimensions that get no padding."""
    yield replicated(call)
    sizes, out = call.bound["sizes"], call.bound["out"]

    def adjust(local: dict[str, Any], specs: Sequence[Any]) -> dict[str, Any]:
        return {**local, "sizes": tuple(local["input"].shape), "out": specs[0].local_shape}

    call.adjust = adjust
    for dim, size in enumerate(sizes):
        if size == out[dim]:
            yield Choice((Shard(dim),), (Shard(dim),))


# Random numbers -------------------------------------------------------------------------------------------------------------------------
def random_like(call: Call) -> Iterator[Choice]:
    """Random numbers in a tensor's shape: those that one process draws, of which each takes its piece."""
    yield replicated(call)
    call.compute = lambda local, specs: _piece_of_drawn(call, local, specs)
    for dim in range(call.operands[0].dim()):
        yield call.choice({call.names[0]: Shard(dim)}, Shard(dim))
    if not call.op.writes:
        for how in REDUCTIONS:
            yield call.choice({call.names[0]: Partial(how)}, Replicate())


def _piece_of_drawn(call: Call, local: dict[str, Any], specs: Sequence[Any]) -> Any:
    x, spec = local[call.names[0]], specs[0]
    like_full = empty(spec.shape, dtype=x.dtype, device=x.device)
    drawn = call.parameters.call(call.op, {**local, call.names[0]: like_full})
    for dim in spec.orders:
        size, begin = spec.cut(dim)
        drawn = drawn.narrow(dim, begin, size)
    return x.copy_(drawn) if call.op.writes else drawn.contiguous()


# Answers --------------------------------------------------------------------------------------------------------------------------------
def _number(op: Any, parameters: Any, bound: dict[str, Any], out: Any) -> Any:
    """A query of values: answered by the whole."""
    return op(*(x.full_tensor() if hasattr(x, "_spec") else x for x in bound.values()))


def _outline(op: Any, parameters: Any, bound: dict[str, Any], out: Any) -> Any:
    """A query of shapes and dtypes: answered by the whole without data."""

    def outline(x: Any) -> Any:
        return empty_strided(tuple(x.shape), x.stride(), dtype=x.dtype, device="meta")

    return parameters.call(op, mapped(outline, bound))


# What backward calls --------------------------------------------------------------------------------------------------------------------
def _through(op: Any, parameters: Any, bound: dict[str, Any], out: Any) -> Any:
    """The gradients of views and joins, by operations."""
    node, grads = bound["node"], bound.get(parameters.rest, ())
    kind, *facts = node.described()
    if kind == "split":
        return (_joined(grads, *facts),)
    grad = grads[0]
    if kind == "join":
        new, dim, parts = facts
        return tuple(
            None if part is None else grad.select(dim, part[0]) if new else grad.narrow(dim, *part)
            for part in parts
        )
    source, sizes, strides, offset = facts
    if kind == "reshape":
        return (grad.reshape(source),)
    if kind == "permute":
        return (grad.permute(sizes),)
    if kind == "expand":
        return (grad.sum_to_size(source),)
    if kind == "place":
        return (place(grad, source, strides, offset),)
    raise NotImplementedError(
        f"{node.name()}: the gradient of a view by strides is not known of distributed tensors"
    )


def _joined(grads: Sequence[Any], drop: bool, dim: int, lengths: Sequence[int], sizes: Sequence[int]) -> Any:
    from ...operations.moving.joining import cat, stack

    some = next(g for g in grads if g is not None)
    result = []
    for grad, length in zip(grads, lengths):
        shape = [*sizes[:dim], *([] if drop else [length]), *sizes[dim + 1 :]]
        result.append(some.new_zeros(shape) if grad is None else grad)
    return stack(result, dim) if drop else cat(result, dim)


def _place(grad: Any, source: Sequence[int], strides: Sequence[int], offset: int) -> Any:
    """Zeros of a shape, with a gradient at the places of a view of it."""
    result = grad.new_zeros(source)
    result.as_strided(tuple(grad.shape), tuple(strides), offset).add_(grad)
    return result


place = FunctionOp(_place, "place", owns=False)


def placed(call: Call) -> Iterator[Choice]:
    """Cut along dimensions that the view has whole."""
    yield replicated(call)
    source, strides, offset = call.bound["source"], call.bound["strides"], call.bound["offset"]
    dense, step = [0] * len(source), 1
    for dim in reversed(range(len(source))):
        dense[dim] = step
        step *= max(source[dim], 1)
    call.compute = lambda local, specs: _placed_locally(local, specs[0].local_shape, dense, strides, offset)
    x = call.operands[0]
    for dim, size in enumerate(source):
        result = [d for d in range(x.dim()) if strides[d] == dense[dim] and x.shape[d] == size]
        if len(result) == 1 and size > 1:
            yield Choice((Shard(result[0]),), (Shard(dim),))
    for how in ADDED:
        yield Choice((Partial(how),), (Partial(how),))


def _placed_locally(
    local: dict[str, Any], shape: Sequence[int], dense: Sequence[int], strides: Sequence[int], offset: int
) -> Any:
    """The same on a piece: strides and offset are written in steps along the dimensions of the whole, then in those of the piece."""
    own, step = [0] * len(shape), 1
    for dim in reversed(range(len(shape))):
        own[dim] = step
        step *= max(shape[dim], 1)

    grad = local["grad"]
    return _place(grad, shape, [steps(s, dense, own) for s in strides], steps(offset, dense, own))


place.sharding_rule = placed
through_op.sharding_rule = _WithFullCall(_through)


def expanded_again(call: Call) -> Iterator[Choice]:
    """The gradient of a sum: along dimensions that it repeats, each process makes its piece."""
    yield replicated(call)
    sizes, keepdim = tuple(call.bound["sizes"]), call.bound["keepdim"]
    dims = dims_of(call.bound["dims"], len(sizes)) if sizes else ()
    call.adjust = lambda local, specs: {**local, "sizes": specs[0].local_shape}
    for dim in range(len(sizes)):
        if dim in dims:
            continue
        own = dim if keepdim else dim - sum(d < dim for d in dims)
        yield Choice((Shard(own),), (Shard(dim),))
    for how in ADDED:
        yield Choice((Partial(how),), (Partial(how),))


NAMED.update(
    {
        "norm of rows": norm_of_rows,
        "attention": attention,
        "convolution": convolution,
        "convolution gradient": convolution_gradient,
        "cross-entropy": cross_entropy,
        "cross-entropy gradient": cross_entropy_gradient,
        "rows by index": rows_by_index,
        "added by index": added_by_index,
        "item": item_of,
        "set item": _WithFullCall(_set_item),
        "random": random_like,
        "number": _WithFullCall(_number),
        "outline": _WithFullCall(_outline),
        "repeat": repeated,
        "pad": padded,
        "expanded again": expanded_again,
    }
)
BY_KIND["question"] = NAMED["outline"]
