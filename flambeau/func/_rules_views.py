"""Rules of views by sizes, of tensors made anew, of joins and repetitions."""

from __future__ import annotations

import math
from typing import Any

from .._tensor import Tensor
from ..core import tape
from ..core.base.tensor import TensorBase
from ..core.make import create
from ..core.views import views
from ..operations.moving import joining, shaping, viewing
from ._batched import Level, Running, no_item
from ._rules import (
    along,
    elements_of,
    looped,
    made,
    made_of,
    operation,
    parameters,
    rule,
    shifted,
    with_rank,
    wrap_dim,
)

Result = Any


# --- views by sizes ---------------------------------
def _sizes(given: tuple, kwargs: dict, *names: str) -> tuple:
    """Sizes as given: one by one, in a sequence, or by name."""
    for name in names:
        if name in kwargs:
            given = (kwargs[name],)
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        return tuple(given[0])
    return tuple(given)


@rule(views.reshape, views.view)
def _reshaped(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    elements = level.broadcast(args[0])
    sizes = _sizes(tuple(args[1:]), kwargs, "shape", "size", "dtype")
    if len(sizes) == 1 and not isinstance(sizes[0], int) and not hasattr(sizes[0], "__index__"):
        return level.wrapped(op(elements, sizes[0]))  # view(dtype)
    if -1 in sizes:
        rest = math.prod(s for s in sizes if s != -1)
        if rest and args[0].numel() % rest == 0:
            sizes = tuple(args[0].numel() // rest if s == -1 else s for s in sizes)
    return level.wrapped(op(elements, (level.size, *sizes)))


@made(Tensor.view_as, Tensor.reshape_as)
def _view_as(input: Any, other: Any) -> Result:
    return input.reshape(other.shape)


@rule(views.expand, Tensor.broadcast_to)
def _expanded(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    sizes = _sizes(tuple(args[1:]), kwargs, "size", "sizes")
    if len(sizes) < args[0].ndim:
        raise RuntimeError(
            f"expand(): the number of sizes provided ({len(sizes)}) must be greater or equal to the number of dimensions in the "
            f"tensor ({args[0].ndim})"
        )
    return level.wrapped(operation("expand")(with_rank(level, args[0], len(sizes)), (level.size, *sizes)))


@made(Tensor.expand_as)
def _expand_as(input: Any, other: Any) -> Result:
    return input.expand(other.shape)


@rule(views.permute)
def _permuted(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    dims = _sizes(tuple(args[1:]), kwargs, "dims")
    rank = args[0].ndim
    if len(dims) != rank:
        raise RuntimeError(
            f"permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of "
            f"dimensions i.e. input.dim() = {rank} is not equal to len(dims) = {len(dims)}"
        )
    return level.wrapped(op(level.inside(args[0]), (0, *(shifted(d, rank) for d in dims))))


@rule(Tensor.unsqueeze, Tensor.unsqueeze_)
def _unsqueezed(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    dim = args[1] if len(args) > 1 else kwargs["dim"]
    target = args[0]
    result = op(level.inside(target), wrap_dim(dim, target.ndim + 1) + 1)
    return _in_shape(level, op, target, result)


def _in_shape(level: Level, op: Any, target: Any, result: Any) -> Any:
    """The result, or the tensor itself with its new shape, where the operation changed that in place."""
    if not op.writes:
        return level.wrapped(result)
    target._reshaped()
    return target


@rule(Tensor.squeeze, Tensor.squeeze_)
def _squeezed(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    target = args[0]
    rank = target.ndim
    given = [x for x in (*args[1:], *kwargs.values()) if x is not None]
    dims = _sizes(tuple(given), {}) if given else tuple(range(rank))
    wanted = sorted(
        {wrap_dim(d, rank) for d in dims if rank} & {d for d in range(rank) if target.shape[d] == 1}
    )
    elements = level.inside(target)
    if not wanted:
        return target if op.writes else level.tensor(elements.view_as(elements))
    return _in_shape(level, op, target, op(elements, tuple(d + 1 for d in wanted)))


@rule(Tensor.t, Tensor.t_, Tensor.transpose_, Tensor.swapaxes_, Tensor.swapdims_)
def _turned(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    target = args[0]
    bound = parameters(op).bind(args, kwargs)
    dims = [x for name, x in bound.items() if name not in ("input", "self")] or [0, 1]
    if op.__name__ in ("t", "t_") and target.ndim > 2:
        raise RuntimeError(
            f"{op.__name__}() expects a tensor with <= 2 dimensions, but self is {target.ndim}D"
        )
    elements = level.inside(target)
    if target.ndim < 2:
        return level.wrapped(elements.view_as(elements)) if not op.writes else target
    turn = operation("transpose_" if op.writes else "transpose")
    return _in_shape(level, op, target, turn(elements, *(shifted(d, target.ndim) for d in dims)))


@rule(Tensor.flatten)
def _flattened(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    if args[0].ndim == 0:
        return level.wrapped(level.inside(args[0]).unsqueeze(1))
    return along(spread=())(level, op, args, kwargs, running)


@made(Tensor.ravel)
def _ravel(input: Any) -> Result:
    return input.reshape(-1)


@made(Tensor.hsplit)
def _hsplit(input: Any, indices_or_sections: Any) -> Result:
    return input.tensor_split(indices_or_sections, 0 if input.ndim == 1 else 1)


@made(Tensor.vsplit)
def _vsplit(input: Any, indices_or_sections: Any) -> Result:
    return input.tensor_split(indices_or_sections, 0)


@made(Tensor.dsplit)
def _dsplit(input: Any, indices_or_sections: Any) -> Result:
    return input.tensor_split(indices_or_sections, 2)


def _at_least(rank: int, x: Any) -> Any:
    if x.ndim >= rank:
        return x
    if rank == 1:
        return x.reshape(1)
    if rank == 2:
        return x.reshape(1, -1)
    return x.reshape(1, -1, 1) if x.ndim < 2 else x.unsqueeze(2)


for _rank, _op in enumerate((viewing.atleast_1d, viewing.atleast_2d, viewing.atleast_3d), 1):

    def _at_least_all(*tensors: Any, rank: int = _rank) -> Result:
        if len(tensors) == 1 and not isinstance(tensors[0], (tuple, list)):
            return _at_least(rank, tensors[0])
        given = tensors[0] if len(tensors) == 1 else tensors
        return tuple(_at_least(rank, x) for x in given)

    made(_op)(_at_least_all)


@rule(Tensor.as_strided, Tensor.as_strided_)
def _strided(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    bound = parameters(op).bind(args, kwargs)
    elements, size, stride = level.inside(bound["input"]), tuple(bound["size"]), tuple(bound["stride"])
    offset = bound.get("storage_offset")
    offset = elements.storage_offset() if offset is None else offset
    if elements.stride(0) == 0 and level.size > 1 and tape.tracked(elements):
        elements, offset = _apart(op, elements, size, stride, offset)
    return level.wrapped(op(elements, (level.size, *size), (elements.stride(0), *stride), offset))


def _apart(op: Any, elements: Any, size: tuple, stride: tuple, offset: int) -> tuple[Any, int]:
    """The elements of slices that lie in one memory, which have derivatives each, in memory of their own: with what lies around
    them there in reach of a view, and where that view begins.
    """
    reach = lambda sizes, strides: 1 + sum((n - 1) * s for n, s in zip(sizes, strides) if n)
    begin, steps = elements.storage_offset(), elements.stride()[1:]
    low = min(begin, offset)
    length = max(begin + reach(elements.shape[1:], steps), offset + reach(size, stride)) - low
    for k, step in enumerate(steps):
        if not step:  # one element, seen several times
            elements = elements.narrow(k + 1, 0, min(elements.shape[k + 1], 1))
    around = op(elements.detach(), (elements.shape[0], length), (0, 1), low).clone()
    op(around, elements.shape, (length, *steps), begin - low).copy_(elements)
    return around, offset - low


@made(shaping.broadcast_tensors)
def _broadcast(*tensors: Any) -> Result:
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    shape = operation("broadcast_shapes")(*(t.shape for t in given))
    return tuple(t.expand(shape) for t in given)


rule(Tensor.mT.fget)(made_of(lambda x: x.transpose(-2, -1)))
rule(Tensor.mH.fget)(made_of(lambda x: _conjugate(x.transpose(-2, -1))))
rule(Tensor.T.fget)(made_of(lambda x: x.permute(tuple(reversed(range(x.ndim))))))
rule(Tensor.H.fget)(made_of(lambda x: _conjugate(x.transpose(0, 1))))


def _conjugate(x: Any) -> Any:
    return operation("conj")(x) if x.is_complex() else x


# --- creation ---------------------------------------
@rule(create.new_empty, create.new_zeros, create.new_ones, create.new_full, create.new_empty_strided)
def _new(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    if len(args) > 2 and op.__name__ != "new_full" and isinstance(args[1], int):
        args = [args[0], tuple(args[1:])]  # sizes one by one
    bound = parameters(op).bind(args, kwargs)
    if "fill_value" in bound and level.inside(bound["fill_value"]) is not None:
        return (
            bound["fill_value"].to(bound.get("dtype") or bound["input"].dtype).expand(bound["size"]).clone()
        )
    elements = bound.pop("input")
    inside = level.inside(elements)
    if "stride" in bound:
        size, strides = tuple(bound["size"]), tuple(bound["stride"])
        extent = 1 + sum((n - 1) * s for n, s in zip(size, strides)) if all(size) else 0
        bound["stride"] = (extent, *strides)
    size = bound["size"]
    bound["size"] = (level.size, *((size,) if isinstance(size, int) else size))
    return level.wrapped(op(elements if inside is None else inside, **bound))


@rule(create.full_like, create.full)
def _full(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    bound = parameters(op).bind(args, kwargs)
    value = bound["fill_value"]
    if level.inside(value) is None:
        return elements_of(level, op, args, kwargs, running)
    like = bound.get("input")
    shape = bound["size"] if like is None else like.shape
    dtype = bound.get("dtype") or (value.dtype if like is None else like.dtype)
    return value.to(dtype).expand(shape).clone()


@made(create.tensor, create.as_tensor, operation("asarray"))
def _as_tensor(data: Any, dtype: Any = None, device: Any = None, **kwargs: Any) -> Result:
    if not isinstance(data, TensorBase):
        no_item()
    return data.detach().to(dtype=dtype or data.dtype, device=device or data.device)


@rule(create.new_tensor_)
def _new_tensor(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    bound = parameters(op).bind(args, kwargs)
    if isinstance(bound["data"], TensorBase) or level.inside(bound["input"]) is None:
        return no_item()
    return op(level.inside(bound.pop("input")), **bound)


# --- joins ------------------------------------------
def _joined(level: Level, op: Any, args: list, kwargs: dict) -> tuple[list, int]:
    bound = parameters(op).bind(args, kwargs)
    tensors = list(bound["tensors"])
    return [t for t in tensors], int(bound.get("dim", 0))


@rule(joining.cat)
def _cat(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    tensors, dim = _joined(level, op, args, kwargs)
    full = [t for t in tensors if tuple(t.shape) != (0,)] or tensors
    if any(t.ndim == 0 for t in full):
        raise RuntimeError("zero-dimensional tensor (at position 0) cannot be concatenated")
    return level.wrapped(op([level.broadcast(t) for t in full], wrap_dim(dim, full[0].ndim) + 1))


@rule(joining.stack)
def _stack(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    tensors, dim = _joined(level, op, args, kwargs)
    return level.wrapped(op([level.broadcast(t) for t in tensors], wrap_dim(dim, tensors[0].ndim + 1) + 1))


@made(joining.dstack)
def _dstack(tensors: Any) -> Result:
    return operation("cat")([_at_least(3, t) for t in tensors], 2)


@made(joining.vstack)
def _vstack(tensors: Any) -> Result:
    return operation("cat")([_at_least(2, t) for t in tensors], 0)


@made(joining.hstack)
def _hstack(tensors: Any) -> Result:
    given = [_at_least(1, t) for t in tensors]
    return operation("cat")(given, 0 if given[0].ndim == 1 else 1)


@made(joining.column_stack)
def _column_stack(tensors: Any) -> Result:
    return _hstack([t if t.ndim > 1 else t.reshape(-1, 1) for t in tensors])


@made(joining.block_diag)
def _block_diag(*tensors: Any) -> Result:
    blocks = [_at_least(2, t) for t in tensors]
    width = sum(b.shape[1] for b in blocks)
    rows, before = [], 0
    for b in blocks:
        rows.append(operation("constant_pad_nd")(b, (before, width - before - b.shape[1])))
        before += b.shape[1]
    return operation("cat")(rows, 0)


# --- repeated and turned ----------------------------
@rule(shaping.roll)
def _rolled(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    bound = parameters(op).bind(args, kwargs)
    dims, x = bound.get("dims"), bound["input"]
    if dims is None or dims == () or dims == []:
        flat = op(level.inside(x).reshape(level.size, x.numel()), bound["shifts"], 1)
        return level.tensor(flat.reshape(level.size, *x.shape))
    return along()(level, op, args, kwargs, running)


@rule(shaping.repeat)
def _repeated(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    counts = _sizes(tuple(args[1:]), kwargs, "repeats")
    if len(counts) < args[0].ndim:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
        )
    return level.wrapped(op(with_rank(level, args[0], len(counts)), (1, *counts)))


@rule(shaping.tile)
def _tiled(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    counts = _sizes(tuple(args[1:]), kwargs, "dims")
    counts = (*(1,) * (args[0].ndim - len(counts)), *counts)
    return level.wrapped(operation("repeat")(with_rank(level, args[0], len(counts)), (1, *counts)))


@rule(shaping.repeat_interleave)
def _interleaved(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    bound = parameters(op).bind(args, kwargs)
    repeats, dim = bound.get("repeats"), bound.get("dim")
    if any(level.inside(x) is not None for x in (repeats,)) or repeats is None:
        return looped(level, op, args, kwargs, running)
    elements = level.inside(bound["input"])
    if dim is None:
        elements, dim = elements.reshape(level.size, -1), 0
    extra = {k: v for k, v in bound.items() if k == "output_size"}
    return level.wrapped(op(elements, repeats, wrap_dim(dim, max(bound["input"].ndim, 1)) + 1, **extra))
