"""ONNX forms of reading and writing at indices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..declare.onnx import is_value, onnx_form
from .indexing import (
    argwhere,
    gather,
    index_add,
    index_copy,
    index_fill,
    index_put,
    index_reduce,
    index_select,
    masked_scatter,
    masked_select,
    nonzero,
    put,
    scatter,
    scatter_add,
    scatter_reduce,
    take,
    take_along_dim,
)
from .shaping import repeated_places


def _vector(g: Any, x: Any) -> Any:
    """A tensor without dimensions as one of one element."""
    return g.reshape(x, [1]) if not x.rank else x


# --- indices ------------------------------
def _entries(key: Any, rank: int) -> list[Any]:
    """The parts of a key, an ellipsis written out; masks count for as many dimensions as they have."""
    parts = [_listed(p) for p in (key if isinstance(key, tuple) else (key,))]
    taken = sum(0 if p is None or p is ... else p.rank if _is_mask(p) else 1 for p in parts)
    at = next((k for k, p in enumerate(parts) if p is ...), len(parts))
    parts[at : at + 1] = [slice(None)] * (rank - taken)
    return parts


def _listed(p: Any) -> Any:
    """A part of a key: a list of places is a line of them."""
    if not isinstance(p, (list, np.ndarray)):
        return p
    line = np.asarray(p)
    return line if line.dtype == bool else line.astype(np.int64)


def _is_mask(x: Any) -> bool:
    return is_value(x) and x.dtype == "bool"


def _of_mask(g: Any, mask: Any) -> list[Any]:
    """The places where a mask is true, for each of its dimensions."""
    rows = g.NonZero(mask)
    return [g.squeeze(g.slice(rows, 0, d, d + 1), [0]).of((-1,)) for d in range(mask.rank)]


def _read(g: Any, x: Any, key: Any) -> Any:
    """`x[key]`."""
    parts = [g.constant(p, str(p.dtype)) if isinstance(p, np.ndarray) else p for p in _entries(key, x.rank)]
    if (
        [p for p in parts if _is_mask(p)]
        and all(p == slice(None) for p in parts if not is_value(p))
        and len([p for p in parts if is_value(p)]) == 1
        and _is_mask(parts[0])
    ):
        mask = parts[0]
        flat = g.reshape(x, [math.prod(x.shape[: mask.rank]), *x.shape[mask.rank :]])
        return g.op("Compress", flat, g.flat(mask), axis=0)
    at: list[tuple[int, Any]] = []  # the dimensions that tensors index, in `x` after the rest was done
    dim = kept = 0
    cuts: list[tuple[int, int, int, int]] = []
    dropped: list[int] = []
    added: list[int] = []
    for p in parts:
        if p is None:
            added.append(kept)
            kept += 1
        elif is_value(p):
            for places in _of_mask(g, p) if _is_mask(p) else [p]:
                if places.dtype not in ("int32", "int64"):
                    places = g.cast(places, "int64").of(places.shape)
                at.append((kept, places))
                dim, kept = dim + 1, kept + 1
        elif isinstance(p, slice):
            start, stop, step = p.indices(x.shape[dim])
            if (start, stop, step) != (0, x.shape[dim], 1):
                cuts.append((dim, start, stop, step))
            dim, kept = dim + 1, kept + 1
        else:
            cuts.append((dim, int(p) % max(x.shape[dim], 1), int(p) % max(x.shape[dim], 1) + 1, 1))
            dropped.append(dim)
            dim += 1
    if cuts:
        x = g.op("Slice", x, *([c[k] for c in cuts] for k in (1, 2, 0, 3)))
    x = g.unsqueeze(g.squeeze(x, dropped), added)
    return _gathered(g, x, at, kept) if at else x


def _gathered(g: Any, x: Any, at: list[tuple[int, Any]], rank: int) -> Any:
    """The elements at indices along some dimensions, whose places the indices' dimensions take; in front where these are apart."""
    if len(at) == 1:
        return g.op("Gather", x, at[0][1], axis=at[0][0])
    dims = [d for d, _ in at]
    rest = [d for d in range(rank) if d not in dims]
    width = max(p.rank for _, p in at)
    shape = np.broadcast_shapes(*[tuple(1 if n < 0 else n for n in p.shape) for _, p in at])
    lines = []
    for _, p in at:
        line = g.cast(p, "int64").of(p.shape)
        known = all(n >= 0 for n in p.shape)
        lines.append(g.unsqueeze(g.expand(line, shape) if known else line, [width]))
    result = g.GatherND(g.op("Transpose", x, perm=[*dims, *rest]), g.op("Concat", *lines, axis=width))
    if dims == list(range(dims[0], dims[0] + len(dims))) and dims[0]:
        lead = list(range(width, width + dims[0]))
        result = g.op(
            "Transpose",
            result,
            perm=[*lead, *range(width), *range(width + dims[0], width + len(rest))],
        )
    return result


@onnx_form("__getitem__")
def _(g: Any, input: Any, key: Any) -> Any:
    return _read(g, input, key)


def _shape_of(x: Any, key: Any) -> tuple[int, ...] | None:
    """The shape of `x[key]`; None where a mask decides it."""
    parts = tuple(np.zeros(p.shape, np.int64) if is_value(p) else p for p in _entries(key, len(x.shape)))
    given = _entries(key, len(x.shape))
    if any(_is_mask(p) or (isinstance(p, np.ndarray) and p.dtype.kind == "b") for p in given):
        return None
    ints = tuple(p if isinstance(p, (int, np.integer)) else slice(None) for p in parts if p is not None)
    shown = np.broadcast_to(np.zeros(()), x.shape)[ints]
    rest = tuple(p for p in parts if not isinstance(p, (int, np.integer)))
    return tuple(shown[rest].shape)


@onnx_form("__setitem__")
def _(g: Any, input: Any, key: Any, value: Any) -> Any:
    return _written(g, input, key, value, None)


@onnx_form(index_put)
def _(g: Any, input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    key = tuple(slice(None) if p is None else p for p in indices)
    return _written(g, input, key, values, "add" if accumulate else None)


def _written(g: Any, x: Any, key: Any, value: Any, reduction: str | None) -> Any:
    """`x` with `value` at `x[key]`."""
    value = g.cast(value, x.dtype).of(value.shape) if is_value(value) else g.number(value, x.dtype)
    if _is_mask(key) or (isinstance(key, tuple) and len(key) == 1 and _is_mask(key[0])):
        mask = key if _is_mask(key) else key[0]
        if math.prod(value.shape) == 1 and reduction is None:
            shown = g.unsqueeze(mask, list(range(mask.rank, x.rank)))
            return g.where(shown, g.reshape(value, []), x)
    places = _read(g, g.places(x), key)
    shape = _shape_of(x, key)
    if shape is None:
        shape = ()
        sizes = g.Shape(places)
        source = g.op("Expand", value, sizes)
        flat = g.flat(x)
        result = g.op(
            "ScatterElements",
            flat,
            g.op("Reshape", places, [-1]),
            g.op("Reshape", source, [-1]),
            axis=0,
            reduction=reduction,
        )
        return g.reshape(result, x.shape)
    extra = value.rank - len(shape)
    if extra > 0:
        value = g.reshape(value, value.shape[extra:])
    return g.scatter(x, places.of(shape), g.expand(value, shape), reduction)


@onnx_form(index_select)
def _(g: Any, input: Any, dim: int, index: Any, **_: Any) -> Any:
    result = g.op("Gather", _vector(g, input), _vector(g, index), axis=dim)
    return g.reshape(result.of((-1,)), []) if not input.rank else result


@onnx_form(gather)
def _(g: Any, input: Any, dim: int, index: Any, **_: Any) -> Any:
    if 0 in index.shape:
        return g.expand(g.number(0, input.dtype), index.shape)
    result = g.GatherElements(_vector(g, input), g.cast(_vector(g, index), "int64"), axis=dim)
    return g.reshape(result.of((-1,)), index.shape) if not (input.rank and index.rank) else result


@onnx_form(take)
def _(g: Any, input: Any, index: Any, **_: Any) -> Any:
    return g.op("Gather", g.flat(input), index, axis=0)


@onnx_form(take_along_dim)
def _(g: Any, input: Any, indices: Any, dim: Any = None, **_: Any) -> Any:
    if dim is None:
        flat = g.flat(input)
        return g.GatherElements(flat, g.flat(indices), axis=0)
    if not input.rank:
        return NotImplemented
    d = dim % input.rank
    shapes = [[1 if k == d else n for k, n in enumerate(x.shape)] for x in (input, indices)]
    both = np.broadcast_shapes(*map(tuple, shapes))
    wide = [[x.shape[d] if k == d else n for k, n in enumerate(both)] for x in (input, indices)]
    return g.GatherElements(g.expand(input, wide[0]), g.expand(indices, wide[1]), axis=d)


def _scattered(g: Any, x: Any, dim: int, index: Any, source: Any, reduction: str | None) -> Any:
    """ScatterElements, with `source` cut to the size of the indices."""
    dtype = g.results[0].dtype
    if 0 in index.shape:
        return x
    given, places = _vector(g, g.cast(x, dtype).of(x.shape)), _vector(g, index)
    if is_value(source):
        source = g.cast(source, dtype).of(source.shape)
        if source.rank and source.shape != index.shape:
            for d, n in enumerate(index.shape):
                if source.shape[d] != n:
                    source = g.slice(source, d, 0, n)
            source = source.of(index.shape)
        source = _vector(g, source)
    else:
        source = g.expand(g.number(source, dtype), places.shape)
    if dtype == "bool" and reduction is None:
        cast = [g.cast(v, "uint8") for v in (given, source)]
        result = g.cast(g.op("ScatterElements", cast[0], places, cast[1], axis=dim), "bool")
    else:
        result = g.op("ScatterElements", given, places, source, axis=dim, reduction=reduction)
    return g.reshape(result.of(given.shape), x.shape)


_REDUCTIONS = {"add": "add", "multiply": "mul", "sum": "add", "prod": "mul", "amax": "max", "amin": "min"}


@onnx_form(scatter)
def _(
    g: Any,
    input: Any,
    dim: int,
    index: Any,
    src: Any = None,
    *,
    value: Any = None,
    reduce: Any = None,
    **_: Any,
) -> Any:
    reduction = None if reduce is None else _REDUCTIONS[reduce]
    return _scattered(g, input, dim, index, value if src is None else src, reduction)


@onnx_form(scatter_add)
def _(g: Any, input: Any, dim: int, index: Any, src: Any, **_: Any) -> Any:
    return _scattered(g, input, dim, index, src, "add")


@onnx_form(scatter_reduce)
def _(
    g: Any, input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True, **_: Any
) -> Any:
    return _reduced(g, input, dim, index, src, reduce, include_self)


def _reduced(g: Any, x: Any, dim: int, index: Any, src: Any, reduce: str, include: bool) -> Any:
    if 0 in index.shape or (reduce == "mean" and not x.floating):
        return x if 0 in index.shape else NotImplemented
    neutral = {"sum": 0, "mean": 0, "prod": 1, "amax": -math.inf, "amin": math.inf}[reduce]
    if not include and not x.floating and reduce in ("amax", "amin"):
        return NotImplemented
    start = x if include else _scattered(g, x, dim, index, neutral, None)
    result = _scattered(g, start, dim, index, src, _REDUCTIONS.get(reduce, "add"))
    if reduce == "mean":
        ones = g.expand(g.number(1, x.dtype), x.shape)
        first = ones if include else _scattered(g, ones, dim, index, 0, None)
        result = g.Div(result, _scattered(g, first, dim, index, 1, "add"))
    return result


def _along(g: Any, x: Any, dim: int, index: Any, source: Any) -> tuple[int, Any, Any]:
    """Indices along a dimension in the shape of the source."""
    if not x.rank:
        return 0, _vector(g, index), source
    d = dim % x.rank
    shape = [index.shape[0] if index.rank and k == d else 1 if k == d else n for k, n in enumerate(x.shape)]
    line = [-1 if k == d else 1 for k in range(x.rank)]
    places = g.expand(g.op("Reshape", index, line).of(()), shape)
    if is_value(source):
        source = g.expand(
            g.reshape(source, shape) if math.prod(source.shape) == math.prod(shape) else source, shape
        )
    return d, places, source


@onnx_form(index_add)
def _(g: Any, input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1, **_: Any) -> Any:
    d, places, given = _along(g, input, dim, index, source)
    if alpha != 1:
        given = g.Mul(given, g.number(alpha, given.dtype)).of(given.shape)
    return _scattered(g, input, d, places, given, "add")


@onnx_form(index_copy)
def _(g: Any, input: Any, dim: int, index: Any, source: Any, **_: Any) -> Any:
    d, places, given = _along(g, input, dim, index, source)
    return _scattered(g, input, d, places, given, None)


@onnx_form(index_fill)
def _(g: Any, input: Any, dim: int, index: Any, value: Any) -> Any:
    d, places, _ = _along(g, input, dim, index, None)
    if is_value(value):
        value = g.expand(value, places.shape)
    return _scattered(g, input, d, places, value, None)


@onnx_form(index_reduce)
def _(
    g: Any, input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True, **_: Any
) -> Any:
    d, places, given = _along(g, input, dim, index, source)
    return _reduced(g, input, d, places, given, reduce, include_self)


@onnx_form(put)
def _(g: Any, input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    if 0 in index.shape:
        return input
    return g.scatter(
        input, index, g.cast(source, input.dtype).of(source.shape), "add" if accumulate else None
    )


@onnx_form(masked_select)
def _(g: Any, input: Any, mask: Any, **_: Any) -> Any:
    shape = np.broadcast_shapes(input.shape, mask.shape)
    flat = [g.reshape(g.expand(v, shape), [math.prod(shape)]) for v in (input, mask)]
    return g.op("Compress", *flat, axis=0)


@onnx_form(masked_scatter)
def _(g: Any, input: Any, mask: Any, source: Any) -> Any:
    shape = g.results[0].shape
    if not math.prod(source.shape) or not math.prod(shape):
        return input
    count = math.prod(shape)
    shown = g.reshape(g.expand(mask, shape), [count])
    at = g.Sub(g.CumSum(g.cast(shown, "int64"), g.number(0, "int64")), 1)
    most = math.prod(source.shape) - 1
    taken = g.op("Gather", g.reshape(source, [most + 1]), g.Max(g.Min(at, most), 0), axis=0)
    x = g.reshape(g.expand(input, shape), [count])
    return g.reshape(g.where(shown, taken, x).of((count,)), shape)


@onnx_form(nonzero, argwhere)
def _(g: Any, input: Any, as_tuple: bool = False, **_: Any) -> Any:
    x = input if input.dtype in ("bool", "float32", "int32", "int64", "uint8") else g.Not(g.Equal(input, 0))
    rows = g.NonZero(_vector(g, x))
    if as_tuple:
        return [g.squeeze(g.slice(rows, 0, d, d + 1), [0]) for d in range(max(input.rank, 1))]
    return g.op("Transpose", rows if input.rank else g.slice(rows, 0, 0, 0), perm=[1, 0])


@onnx_form(repeated_places)
def _(g: Any, repeats: Any) -> Any:
    ends = g.CumSum(g.cast(repeats, "int64"), g.number(0, "int64"))
    total = g.squeeze(g.slice(ends, 0, -1, (1 << 63) - 1), [0])
    at = g.op("Range", g.number(0, "int64"), total, g.number(1, "int64"))
    hits = g.LessOrEqual(ends, g.unsqueeze(at, [1]))
    return g.reduce("ReduceSum", g.cast(hits, "int64"), [1])
