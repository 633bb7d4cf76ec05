"""Rules of elements at places that keys and indices name, and of order."""

from __future__ import annotations

import functools
from typing import Any

from .._tensor import Tensor
from ..core.base.tensor import TensorBase
from ..core.places.indexing import key_of
from ..operations.moving import indexing, shaping, sorting
from ..operations.rows import segments
from ._batched import Level, Running
from ._rules import (
    along,
    decomposed,
    looped,
    made,
    operation,
    parameters,
    pointwise,
    rule,
    shapeless,
    sliced,
    with_rank,
    wrap_dim,
    written,
)

Result = Any


# --- places -----------------------------------------
def _split_key(x: Any, key: Any) -> tuple[Any, list[tuple[int, Any]]]:
    """A view by the numbers, slices and None of a key, and the index tensors for its dimensions."""
    items = list(key) if type(key) is tuple else [key]
    tensor = operation("as_tensor")
    items = [tensor(i) if isinstance(i, list) or hasattr(i, "__array_interface__") else i for i in items]
    used = sum(
        (i.ndim if i.dtype == _bool() else 1)
        if isinstance(i, TensorBase)
        else i is not None and not isinstance(i, bool)
        for i in items
        if i is not Ellipsis
    )
    if Ellipsis not in [i for i in items if not isinstance(i, TensorBase)]:
        items.append(Ellipsis)
    plain: list[Any] = []
    indices: list[tuple[int, Any]] = []
    place = 0
    for item in items:
        if item is Ellipsis:
            missing = x.ndim - used
            if missing < 0:
                raise IndexError(f"too many indices for tensor of dimension {x.ndim}")
            plain += [slice(None)] * missing
            place += missing
        elif isinstance(item, TensorBase):
            result = [item]
            if item.dtype == _bool() and item.ndim:
                result = list(item.nonzero(as_tuple=True))
            for index in result:
                indices.append((place, index))
                plain.append(slice(None))
                place += 1
        else:
            plain.append(item)
            place += item is None or isinstance(item, (slice, bool))
    return tuple(plain), indices


@functools.cache
def _bool() -> Any:
    from ..core.base.dtypes import by_name

    return by_name["bool"]


def _at(level: Level, x: Any, indices: list[tuple[int, Any]]) -> tuple[Any, tuple, int, int]:
    """Elements whose indexed dimensions come first, behind those of slices; a key for them; the number of dimensions that
    indices have, and where these belong in the result.
    """
    dims = [d for d, _ in indices]
    rank = max(i.ndim for _, i in indices)
    rest = [d for d in range(x.ndim) if d not in dims]
    inside = level.inside(x)
    many = any(level.inside(i) is not None for _, i in indices)
    key = [with_rank(level, i, rank) for _, i in indices]
    if inside is None:
        result = x.permute(*dims, *rest)
    else:
        result = inside.permute(0, *(d + 1 for d in dims), *(d + 1 for d in rest))
        number = (
            operation("arange")(level.size, device=x.device).reshape(-1, *(1,) * rank)
            if many
            else slice(None)
        )
        key.insert(0, number)
    adjacent = dims == list(range(dims[0], dims[0] + len(dims)))
    return result, tuple(key), rank, dims[0] if adjacent else 0


@rule(Tensor.__getitem__)
def _got(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    x, key = args[0], key_of(args[1])
    _no_masks(level, op, key)
    plain, indices = _split_key(x, key)
    inside = level.inside(x)
    view = x[plain] if inside is None else level.tensor(inside[(slice(None), *plain)])
    if not indices:
        return view
    elements, where, rank, place = _at(level, view, indices)
    result = elements[where]
    if place and rank:
        result = result.movedim(tuple(range(1, rank + 1)), tuple(range(1 + place, 1 + place + rank)))
    return level.tensor(result)


def _no_masks(level: Level, op: Any, key: Any) -> None:
    for item in key if type(key) is tuple else (key,):
        if isinstance(item, TensorBase) and item.dtype == _bool() and level.inside(item) is not None:
            if item.ndim == 0 or op is not None:
                shapeless(level, op, [], {}, None)


@rule(Tensor.__setitem__)
def _set(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    x, key, value = args[0], key_of(args[1]), args[2]
    written(level, op, args)
    masks = [
        i for i in (key if type(key) is tuple else (key,)) if isinstance(i, TensorBase) and i.dtype == _bool()
    ]
    if len(masks) == 1 and (not isinstance(key, tuple) or len(key) == 1):
        return _set_masked(level, op, x, masks[0], value)
    _no_masks(level, op, key)
    plain, indices = _split_key(x, key)
    inside = level.inside(x)
    view = level.tensor(inside[(slice(None), *plain)])
    if not indices:
        view.copy_(value) if isinstance(value, TensorBase) else view.fill_(value)
        return None
    _put(level, view, indices, value, False)
    return None


def _put(level: Level, view: Any, indices: list, value: Any, accumulate: bool) -> None:
    """Write to places of a view."""
    elements, where, rank, place = _at(level, view, indices)
    if isinstance(value, TensorBase):
        if place and rank and value.ndim:
            shape = operation("broadcast_shapes")(*(i.shape for _, i in indices))
            rest = [s for d, s in enumerate(view.shape) if d not in [k for k, _ in indices]]
            full = (*rest[:place], *shape, *rest[place:])
            value = value.expand(full).movedim(tuple(range(place, place + rank)), tuple(range(rank)))
        value = (
            with_rank(level, value, rank + view.ndim - len(indices))
            if value.ndim or level.inside(value) is not None
            else value
        )
        value = value.to(view.dtype) if value.dtype != view.dtype else value
    if not accumulate:
        elements[where] = value
        return
    places = tuple(_whole(level, i) for i in where)
    elements.index_put_(places, value, accumulate=True)


def _whole(level: Level, index: Any) -> Any:
    return None if isinstance(index, slice) else index


def _set_masked(level: Level, op: Any, x: Any, mask: Any, value: Any) -> None:
    """Write one value to all places of a mask, which may differ from slice to slice."""
    if isinstance(value, TensorBase) and value.numel() != 1:
        shapeless(level, op, [], {}, None)
    mask = mask.reshape(*mask.shape, *(1,) * (x.ndim - mask.ndim))
    if isinstance(value, TensorBase):
        x.copy_(operation("where")(mask, value.reshape(()).to(x.dtype), x))
    else:
        x.masked_fill_(mask, value)


@rule(indexing.index_put)
def _index_put(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    bound = parameters(op).bind(args, kwargs)
    x, given, values = bound["input"], bound["indices"], bound["values"]
    accumulate = bound.get("accumulate", False)
    in_place = op.writes
    if in_place:
        written(level, op, args)
        target = x
    else:
        target = level.tensor(level.broadcast(x).clone())
    masks = [i for i in given if i is not None and i.dtype == _bool()]
    if masks:
        if len(given) == 1 and not accumulate:
            _set_masked(level, op, target, masks[0], values)
            return target
        if any(level.inside(m) is not None for m in masks):
            shapeless(level, op, [], {}, None)
    plain, indices = _split_key(target, tuple(slice(None) if i is None else i for i in given))
    _put(level, target, indices, values, bool(accumulate))
    return target


@rule(Tensor.masked_fill, Tensor.masked_fill_)
def _filled(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    bound = parameters(op).bind(args, kwargs)
    value = bound["value"]
    if not isinstance(value, TensorBase) or level.inside(value) is None:
        return pointwise(level, op, args, kwargs, running)
    x = bound["input"] if "input" in bound else bound["self"]
    result = operation("where")(bound["mask"], value.to(x.dtype), x)
    return written(level, op, args).copy_(result) if op.writes else result


@made(indexing.index_select)
def _index_select(input: Any, dim: Any, index: Any) -> Result:
    index = index.reshape(1) if index.ndim == 0 else index
    if input.ndim == 0:
        wrap_dim(dim, 0)
        return input.reshape(1)[index].reshape(())
    return input[(*(slice(None),) * wrap_dim(dim, input.ndim), index)]


@made(indexing.take)
def _take(input: Any, index: Any) -> Result:
    return input.reshape(-1)[index]


def _by_index(*ops: Any) -> None:
    """An operation with one index for the places along a dimension: where it is the same for all slices, one call."""

    @rule(*ops)
    def indexed(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
        bound = parameters(op).bind(args, kwargs)
        held = level.inside(bound["index"]) is not None
        value = bound.get("value")
        if (
            held
            or bound["input" if "input" in bound else "self"].ndim == 0
            or (isinstance(value, TensorBase))
        ):
            return looped(level, op, args, kwargs, running)
        return along(spread=("source",))(level, op, args, kwargs, running)


for _op in (indexing.index_add, indexing.index_copy, indexing.index_fill, indexing.index_reduce):
    _by_index(_op, _op.entry.in_place)


@rule(shaping.diagonal_scatter, shaping.select_scatter, shaping.slice_scatter, shaping.as_strided_scatter)
def _written_copy(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    args[0] = level.tensor(level.broadcast(args[0]))
    return decomposed(level, op, args, kwargs, running)


@rule(indexing.scatter, indexing.scatter_add, indexing.scatter_reduce)
def _scattered(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    bound = parameters(op).bind(args, kwargs)
    if any(isinstance(bound.get(n), TensorBase) and bound[n].ndim == 0 for n in ("input", "index", "src")):
        return sliced(level, op, args, kwargs, running)
    return along()(level, op, args, kwargs, running)


@rule(indexing.gather)
def _gathered(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    bound = parameters(op).bind(args, kwargs)
    if (bound["input"].ndim == 0) != (bound["index"].ndim == 0):
        return sliced(level, op, args, kwargs, running)
    return along()(level, op, args, kwargs, running)


@rule(segments.segment_reduce)
def _segments(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    bound = dict(parameters(op).bind(args, kwargs))
    for name in ("data", "lengths", "offsets"):  # their dimensions before `axis` are batches already
        if isinstance(bound.get(name), TensorBase):
            bound[name] = level.broadcast(bound[name])
    axis = bound.get("axis", 0)
    bound["axis"] = axis + 1 if axis >= 0 else axis
    return level.wrapped(op(bound.pop("data"), bound.pop("reduce"), **bound))


# --- order ------------------------------------------
def _middle(op: Any) -> None:
    of_all = operation(f"{op.__name__}_of_all")

    @made(op)
    def median(input: Any, dim: Any = None, keepdim: bool = False) -> Result:
        if dim is None:
            return of_all(input.reshape(-1), 0)
        return _along_one(op, input, dim, keepdim)


def _along_one(op: Any, input: Any, dim: int, keepdim: bool) -> Any:
    return along()(input._level, op, [input, dim, keepdim], {}, None)


for _op in (sorting.median, sorting.nanmedian):
    _middle(_op)


@made(sorting.msort)
def _msort(input: Any) -> Result:
    return input.sort(0).values


@rule(sorting.quantile, sorting.nanquantile)
def _quantile(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    bound = parameters(op).bind(args, kwargs)
    q = bound["q"]
    if level.inside(q) is not None or bound.get("out") is not None:
        return looped(level, op, args, kwargs, running)
    elements, dim, rank = level.inside(bound["input"]), bound.get("dim"), bound["input"].ndim
    if dim is None:
        elements, dim = elements.reshape(level.size, -1), 0
    elif rank == 0:
        elements = elements.unsqueeze(1)
    result = parameters(op).call(op, {**bound, "input": elements, "dim": wrap_dim(dim, rank) + 1})
    many = isinstance(q, TensorBase) and q.ndim == 1
    result = result.movedim(0, 1) if many else result
    if bound.get("keepdim") and (bound.get("dim") is None or rank == 0):
        result = result.reshape(level.size, *(q.shape if many else ()), *(1,) * rank)
    return level.tensor(result)


@made(indexing.take_along_dim)
def _along(input: Any, indices: Any, dim: Any = None) -> Result:
    if dim is None:
        return _along(input.reshape(-1), indices.reshape(-1), 0)
    indices = operation("where")(indices < 0, indices + input.shape[dim], indices)
    shape = list(operation("broadcast_shapes")(_without(input.shape, dim), _without(indices.shape, dim)))
    at = dim % input.ndim
    return input.expand(*shape[:at], input.shape[at], *shape[at + 1 :]).gather(
        dim, indices.expand(*shape[:at], indices.shape[at], *shape[at + 1 :])
    )


def _without(shape: Any, dim: int) -> tuple:
    sizes = list(shape)
    sizes[dim] = 1
    return tuple(sizes)


@rule(operation("where"), Tensor.where)
def _chosen(level: Level, op: Any, args: list, kwargs: dict, running: Running | None) -> Result:
    if len(args) + len(kwargs) == 1:  # the places where a condition holds
        return shapeless(level, op, args, kwargs, running)
    return pointwise(level, op, args, kwargs, running)
