"""ONNX forms of what moves elements: joining, reading and writing at indices, sorting, searching, turning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..declare.onnx import onnx_form

LAST = -(1 << 63)  # where a slice that goes backwards ends


def _vector(g: Any, x: Any) -> Any:
    """A tensor without dimensions as one of one element."""
    return g.reshape(x, [1]) if not x.rank else x


# --- joining ------------------------------
@onnx_form("cat")
def _(g: Any, tensors: Any, dim: int = 0, **_: Any) -> Any:
    made = g.results[0]
    parts = [g.cast(t, made.dtype) for t in tensors if t.shape != (0,) or len(made.shape) == 1]
    return parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis=dim)


@onnx_form("stack")
def _(g: Any, tensors: Any, dim: int = 0, **_: Any) -> Any:
    made = g.results[0]
    axis = dim % len(made.shape)
    return g.op("Concat", *[g.unsqueeze(g.cast(t, made.dtype), [axis]) for t in tensors], axis=axis)


@onnx_form("_repeat")
def _(g: Any, input: Any, times: Sequence[int]) -> Any:
    x = g.unsqueeze(input, list(range(len(times) - input.rank)))
    return g.op("Tile", x, list(times)) if times else x


# --- turning ------------------------------
@onnx_form("_flip")
def _(g: Any, input: Any, dims: Sequence[int]) -> Any:
    return _flipped(g, input, [d % max(input.rank, 1) for d in dims]) if input.rank else input


def _flipped(g: Any, x: Any, dims: Sequence[int]) -> Any:
    count = len(dims)
    return g.op("Slice", x, [-1] * count, [LAST] * count, list(dims), [-1] * count) if count else x


@onnx_form("roll")
def _(g: Any, input: Any, shifts: Any, dims: Any = None) -> Any:
    if 0 in input.shape or not input.rank:
        return input
    if dims is None or (isinstance(dims, (list, tuple)) and not dims):
        flat = g.flat(input)
        by = shifts if isinstance(shifts, int) else shifts[0]
        return g.reshape(_rolled(g, flat, 0, by % math.prod(input.shape)), input.shape)
    by_dim = zip([dims] if isinstance(dims, int) else dims, [shifts] if isinstance(shifts, int) else shifts)
    x = input
    for d, shift in by_dim:
        x = _rolled(g, x, d, shift % input.shape[d])
    return x


def _rolled(g: Any, x: Any, dim: int, shift: int) -> Any:
    if not shift:
        return x
    end = (1 << 63) - 1
    return g.op("Concat", g.slice(x, dim, -shift, end), g.slice(x, dim, 0, -shift), axis=dim)


@onnx_form("rot90")
def _(g: Any, input: Any, k: int = 1, dims: Sequence[int] = (0, 1)) -> Any:
    a, b = (d % input.rank for d in dims)
    perm = list(range(input.rank))
    perm[a], perm[b] = b, a
    turns = k % 4
    if turns == 0:
        return input
    if turns == 2:
        return _flipped(g, input, [a, b])
    if turns == 1:
        return g.op("Transpose", _flipped(g, input, [b]), perm=perm)
    return _flipped(g, g.op("Transpose", input, perm=perm), [b])


@onnx_form("tril", "tril_")
def _(g: Any, input: Any, diagonal: int = 0, **_: Any) -> Any:
    return _triangle(g, input, diagonal, 0)


@onnx_form("triu", "triu_")
def _(g: Any, input: Any, diagonal: int = 0, **_: Any) -> Any:
    return _triangle(g, input, diagonal, 1)


def _triangle(g: Any, x: Any, diagonal: int, upper: int) -> Any:
    if 0 in x.shape:
        return x
    narrow = x.dtype if x.dtype in ("int8", "uint8", "int16", "int32", "float16", "bfloat16") else None
    wide = g.cast(x, "int64" if narrow and "int" in narrow else "float32") if narrow else x
    return g.op("Trilu", wide, g.number(diagonal, "int64"), upper=upper)


@onnx_form("diag_embed")
def _(g: Any, input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    rank, n = input.rank + 1, input.shape[-1]
    size = n + abs(offset)
    if not n:
        return g.expand(g.number(0, input.dtype), g.results[0].shape)
    at = np.clip(np.arange(size) - max(-offset, 0), 0, n - 1)
    rows = g.unsqueeze(g.op("Gather", input, at, axis=-1), [rank - 1])
    zero = g.number(0, input.dtype) if input.dtype != "bool" else g.constant(np.array(False), "bool")
    found = g.where(g.constant(np.eye(size, k=offset, dtype=bool), "bool"), rows, zero)
    a, b = dim1 % rank, dim2 % rank
    rest = iter(range(rank - 2))
    perm = [rank - 2 if d == a else rank - 1 if d == b else next(rest) for d in range(rank)]
    return g.op("Transpose", found, perm=perm)


@onnx_form("_linalg_cross")
def _(g: Any, a: Any, b: Any, axis: int) -> Any:
    def turned(x: Any, by: int) -> Any:
        return g.op("Gather", x, [by % 3, (by + 1) % 3, (by + 2) % 3], axis=axis)

    return g.Sub(g.Mul(turned(a, 1), turned(b, 2)), g.Mul(turned(a, 2), turned(b, 1)))


@onnx_form("constant_pad")
def _(g: Any, input: Any, start: Any, sizes: Any, out: Any, value: Any) -> Any:
    ends = [o - s - n for o, s, n in zip(out, start, sizes)]
    if input.dtype in ("int16", "uint16"):
        return NotImplemented
    return g.op("Pad", input, [*start, *ends], g.number(value, input.dtype), mode="constant")


# --- parts replaced ------------------------------
def _places(x: Any) -> np.ndarray:
    return np.arange(math.prod(x.shape)).reshape(x.shape)


def _put(g: Any, x: Any, at: np.ndarray, source: Any) -> Any:
    dtype = g.results[0].dtype
    source = g.expand(g.cast(source, dtype), at.shape)
    return g.scatter(g.cast(x, dtype).of(x.shape), np.ascontiguousarray(at), source)


@onnx_form("diagonal_scatter")
def _(g: Any, input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    return _put(g, input, np.diagonal(_places(input), offset, dim1, dim2), src)


@onnx_form("select_scatter")
def _(g: Any, input: Any, src: Any, dim: int, index: int) -> Any:
    return _put(g, input, np.take(_places(input), index, dim), src)


@onnx_form("slice_scatter")
def _(
    g: Any, input: Any, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1, **_: Any
) -> Any:
    at = np.moveaxis(np.moveaxis(_places(input), dim, 0)[slice(start, end, step)], 0, dim)
    return _put(g, input, at, src)


@onnx_form("as_strided_scatter")
def _(g: Any, input: Any, src: Any, size: Any, stride: Any, storage_offset: Any = None) -> Any:
    at = np.array(storage_offset or 0)
    for n, s in zip(size, stride):
        at = at[..., None] + np.arange(n) * s
    return _put(g, input, at, src) if at.size == len(np.unique(at)) else NotImplemented


# --- indices ------------------------------
def _entries(key: Any, rank: int) -> list[Any]:
    """The parts of a key, an ellipsis written out; masks count for as many dimensions as they have."""
    parts = [_listed(p) for p in (key if isinstance(key, tuple) else (key,))]
    taken = sum(
        0 if p is None or p is ... else p.rank if _is_mask(p) else 1 for p in parts
    )
    at = next((k for k, p in enumerate(parts) if p is ...), len(parts))
    parts[at : at + 1] = [slice(None)] * (rank - taken)
    return parts


def _is_tensor(x: Any) -> bool:
    return hasattr(x, "floating")


def _listed(p: Any) -> Any:
    """A part of a key: a list of places is a line of them."""
    if not isinstance(p, (list, np.ndarray)):
        return p
    line = np.asarray(p)
    return line if line.dtype == bool else line.astype(np.int64)


def _is_mask(x: Any) -> bool:
    return _is_tensor(x) and x.dtype == "bool"


def _of_mask(g: Any, mask: Any) -> list[Any]:
    """The places where a mask is true, for each of its dimensions."""
    rows = g.NonZero(mask)
    return [g.squeeze(g.slice(rows, 0, d, d + 1), [0]).of((-1,)) for d in range(mask.rank)]


def _read(g: Any, x: Any, key: Any) -> Any:
    """`x[key]`."""
    parts = [
        g.constant(p, str(p.dtype)) if isinstance(p, np.ndarray) else p for p in _entries(key, x.rank)
    ]
    if [p for p in parts if _is_mask(p)] and all(
        p == slice(None) for p in parts if not _is_tensor(p)
    ) and len([p for p in parts if _is_tensor(p)]) == 1 and _is_mask(parts[0]):
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
        elif _is_tensor(p):
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
    found = g.GatherND(g.op("Transpose", x, perm=[*dims, *rest]), g.op("Concat", *lines, axis=width))
    if dims == list(range(dims[0], dims[0] + len(dims))) and dims[0]:
        lead = list(range(width, width + dims[0]))
        found = g.op(
            "Transpose",
            found,
            perm=[*lead, *range(width), *range(width + dims[0], width + len(rest))],
        )
    return found


@onnx_form("__getitem__")
def _(g: Any, input: Any, key: Any) -> Any:
    return _read(g, input, key)


def _shape_of(x: Any, key: Any) -> tuple[int, ...] | None:
    """The shape of `x[key]`; None where a mask decides it."""
    parts = tuple(
        np.zeros(p.shape, np.int64) if _is_tensor(p) else p for p in _entries(key, len(x.shape))
    )
    if any(_is_mask(p) or getattr(p, "dtype", None) == bool for p in _entries(key, len(x.shape))):
        return None
    plain = tuple(p for p in parts)
    ints = tuple(p if isinstance(p, (int, np.integer)) else slice(None) for p in plain if p is not None)
    shown = np.broadcast_to(np.zeros(()), x.shape)[ints]
    rest = tuple(p for p in plain if not isinstance(p, (int, np.integer)))
    return tuple(shown[rest].shape)


@onnx_form("__setitem__")
def _(g: Any, input: Any, key: Any, value: Any) -> Any:
    return _written(g, input, key, value, None)


@onnx_form("index_put")
def _(g: Any, input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    key = tuple(slice(None) if p is None else p for p in indices)
    return _written(g, input, key, values, "add" if accumulate else None)


def _written(g: Any, x: Any, key: Any, value: Any, reduction: str | None) -> Any:
    """`x` with `value` at `x[key]`."""
    value = g.cast(value, x.dtype).of(value.shape) if _is_tensor(value) else g.number(value, x.dtype)
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
        found = g.op(
            "ScatterElements",
            flat,
            g.op("Reshape", places, [-1]),
            g.op("Reshape", source, [-1]),
            axis=0,
            reduction=reduction,
        )
        return g.reshape(found, x.shape)
    extra = value.rank - len(shape)
    if extra > 0:
        value = g.reshape(value, value.shape[extra:])
    return g.scatter(x, places.of(shape), g.expand(value, shape), reduction)


@onnx_form("index_select")
def _(g: Any, input: Any, dim: int, index: Any, **_: Any) -> Any:
    found = g.op("Gather", _vector(g, input), _vector(g, index), axis=dim)
    return g.reshape(found.of((-1,)), []) if not input.rank else found


@onnx_form("gather")
def _(g: Any, input: Any, dim: int, index: Any, **_: Any) -> Any:
    if 0 in index.shape:
        return g.expand(g.number(0, input.dtype), index.shape)
    found = g.GatherElements(_vector(g, input), g.cast(_vector(g, index), "int64"), axis=dim)
    return g.reshape(found.of((-1,)), index.shape) if not (input.rank and index.rank) else found


@onnx_form("take")
def _(g: Any, input: Any, index: Any, **_: Any) -> Any:
    return g.op("Gather", g.flat(input), index, axis=0)


@onnx_form("take_along_dim")
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
    if _is_tensor(source):
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
        found = g.cast(g.op("ScatterElements", cast[0], places, cast[1], axis=dim), "bool")
    else:
        found = g.op("ScatterElements", given, places, source, axis=dim, reduction=reduction)
    return g.reshape(found.of(given.shape), x.shape)


_REDUCTIONS = {"add": "add", "multiply": "mul", "sum": "add", "prod": "mul", "amax": "max", "amin": "min"}


@onnx_form("scatter")
def _(
    g: Any, input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: Any = None, **_: Any
) -> Any:
    reduction = None if reduce is None else _REDUCTIONS[reduce]
    return _scattered(g, input, dim, index, value if src is None else src, reduction)


@onnx_form("scatter_add")
def _(g: Any, input: Any, dim: int, index: Any, src: Any, **_: Any) -> Any:
    return _scattered(g, input, dim, index, src, "add")


@onnx_form("scatter_reduce")
def _(g: Any, input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True, **_: Any) -> Any:
    return _reduced(g, input, dim, index, src, reduce, include_self)


def _reduced(g: Any, x: Any, dim: int, index: Any, src: Any, reduce: str, include: bool) -> Any:
    if 0 in index.shape or (reduce == "mean" and not x.floating):
        return x if 0 in index.shape else NotImplemented
    neutral = {"sum": 0, "mean": 0, "prod": 1, "amax": -math.inf, "amin": math.inf}[reduce]
    if not include and not x.floating and reduce in ("amax", "amin"):
        return NotImplemented
    start = x if include else _scattered(g, x, dim, index, neutral, None)
    found = _scattered(g, start, dim, index, src, _REDUCTIONS.get(reduce, "add"))
    if reduce == "mean":
        ones = g.expand(g.number(1, x.dtype), x.shape)
        first = ones if include else _scattered(g, ones, dim, index, 0, None)
        found = g.Div(found, _scattered(g, first, dim, index, 1, "add"))
    return found


def _along(g: Any, x: Any, dim: int, index: Any, source: Any) -> tuple[int, Any, Any]:
    """Indices along a dimension in the shape of the source."""
    if not x.rank:
        return 0, _vector(g, index), source
    d = dim % x.rank
    shape = [index.shape[0] if index.rank and k == d else 1 if k == d else n for k, n in enumerate(x.shape)]
    line = [-1 if k == d else 1 for k in range(x.rank)]
    places = g.expand(g.op("Reshape", index, line).of(()), shape)
    if _is_tensor(source):
        source = g.expand(g.reshape(source, shape) if math.prod(source.shape) == math.prod(shape) else source, shape)
    return d, places, source


@onnx_form("index_add")
def _(g: Any, input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1, **_: Any) -> Any:
    d, places, given = _along(g, input, dim, index, source)
    if alpha != 1:
        given = g.Mul(given, g.number(alpha, given.dtype)).of(given.shape)
    return _scattered(g, input, d, places, given, "add")


@onnx_form("index_copy")
def _(g: Any, input: Any, dim: int, index: Any, source: Any, **_: Any) -> Any:
    d, places, given = _along(g, input, dim, index, source)
    return _scattered(g, input, d, places, given, None)


@onnx_form("index_fill")
def _(g: Any, input: Any, dim: int, index: Any, value: Any) -> Any:
    d, places, _ = _along(g, input, dim, index, None)
    if _is_tensor(value):
        value = g.expand(value, places.shape)
    return _scattered(g, input, d, places, value, None)


@onnx_form("index_reduce")
def _(
    g: Any, input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True, **_: Any
) -> Any:
    d, places, given = _along(g, input, dim, index, source)
    return _reduced(g, input, d, places, given, reduce, include_self)


@onnx_form("put")
def _(g: Any, input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    if 0 in index.shape:
        return input
    return g.scatter(input, index, g.cast(source, input.dtype).of(source.shape), "add" if accumulate else None)


@onnx_form("masked_select")
def _(g: Any, input: Any, mask: Any, **_: Any) -> Any:
    shape = np.broadcast_shapes(input.shape, mask.shape)
    flat = [g.reshape(g.expand(v, shape), [math.prod(shape)]) for v in (input, mask)]
    return g.op("Compress", *flat, axis=0)


@onnx_form("masked_scatter")
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


@onnx_form("nonzero", "argwhere")
def _(g: Any, input: Any, as_tuple: bool = False, **_: Any) -> Any:
    x = input if input.dtype in ("bool", "float32", "int32", "int64", "uint8") else g.Not(g.Equal(input, 0))
    rows = g.NonZero(_vector(g, x))
    if as_tuple:
        return [g.squeeze(g.slice(rows, 0, d, d + 1), [0]) for d in range(max(input.rank, 1))]
    return g.op("Transpose", rows if input.rank else g.slice(rows, 0, 0, 0), perm=[1, 0])


# --- sorting ------------------------------
def _sorted(g: Any, x: Any, dim: int, k: int, largest: bool) -> tuple[Any, Any]:
    wide = g.wider(x) if x.dtype != "uint8" else x
    values, places = g.op("TopK", wide, [k], outputs=2, axis=dim, largest=int(largest), sorted=1)
    places.dtype = "int64"
    return g.cast(values, x.dtype), places


@onnx_form("sort")
def _(g: Any, input: Any, dim: int = -1, descending: bool = False, stable: bool = False, **_: Any) -> Any:
    if not input.rank:
        return input, g.number(0, "int64")
    return _sorted(g, input, dim, input.shape[dim], bool(descending))


@onnx_form("argsort")
def _(g: Any, input: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    if not input.rank:
        return g.number(0, "int64")
    return _sorted(g, input, dim, input.shape[dim], bool(descending))[1]


@onnx_form("topk")
def _(g: Any, input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, **_: Any) -> Any:
    if not input.rank:
        return (input, g.number(0, "int64")) if k else NotImplemented
    return _sorted(g, input, dim, k, bool(largest))


def _kept(g: Any, found: tuple[Any, Any], dim: int, keepdim: bool) -> tuple[Any, Any]:
    return found if keepdim else tuple(g.squeeze(v, [dim]) for v in found)  # type: ignore[return-value]


@onnx_form("kthvalue")
def _(g: Any, input: Any, k: int, dim: int = -1, keepdim: bool = False, **_: Any) -> Any:
    if not input.rank:
        return input, g.number(0, "int64")
    values, places = _sorted(g, input, dim, k, False)
    cut = g.slice(values, dim, k - 1, k), g.slice(places, dim, k - 1, k)
    return _kept(g, cut, dim, keepdim)


@onnx_form("median_of_rows")
def _(g: Any, input: Any, dim: int, keepdim: bool) -> Any:
    if not input.rank:
        return input, g.number(0, "int64")
    k = (input.shape[dim] - 1) // 2
    values, places = _sorted(g, input, dim, k + 1, False)
    cut = [g.slice(v, dim, k, k + 1) for v in (values, places)]
    if input.floating:
        first = g.op("ArgMax", g.cast(g.IsNaN(input), "int32"), axis=dim, keepdims=1)
        some = g.GatherElements(g.IsNaN(input), first, axis=dim)
        cut = [g.Where(some, g.GatherElements(input, first, axis=dim), cut[0]), g.Where(some, first, cut[1])]
    return _kept(g, (cut[0], cut[1]), dim, keepdim)


@onnx_form("nanmedian_of_rows")
def _(g: Any, input: Any, dim: int, keepdim: bool) -> Any:
    if not input.rank:
        return input, g.number(0, "int64")
    if not input.floating:
        return NotImplemented
    missing = g.IsNaN(input)
    shown = g.Where(missing, g.number(math.inf, input.dtype), input)
    _, places = _sorted(g, shown, dim, input.shape[dim], False)
    count = g.reduce("ReduceSum", g.cast(g.Not(missing), "int64"), [dim], True)
    at = g.Max(g.Div(g.Sub(count, 1), 2), 0)
    found = g.GatherElements(places, at, axis=dim)
    return _kept(g, (g.GatherElements(input, found, axis=dim), found), dim, keepdim)


@onnx_form("mode")
def _(g: Any, input: Any, dim: int = -1, keepdim: bool = False, **_: Any) -> Any:
    if not input.rank:
        return input, g.number(0, "int64")
    if not input.floating:
        return NotImplemented
    d = dim % input.rank
    order = [k for k in range(input.rank) if k != d]
    rows = g.transpose(input, [*order, d])
    same = g.Equal(g.unsqueeze(rows, [input.rank - 1]), g.unsqueeze(rows, [input.rank]))
    counts = g.reduce("ReduceSum", g.cast(same, "int64"), [-1])
    often = g.Equal(counts, g.reduce("ReduceMax", counts, [-1], True))
    least = g.reduce("ReduceMin", g.Where(often, rows, g.number(math.inf, input.dtype)), [-1], True)
    hits = g.cast(g.Equal(rows, least), "int32")
    at = g.op("ArgMax", hits, axis=-1, keepdims=1, select_last_index=1)
    values = g.GatherElements(rows, at, axis=-1)
    if not keepdim:
        return g.squeeze(values, [-1]), g.squeeze(at, [-1])
    back = list(range(input.rank - 1))
    perm = [*back[:d], input.rank - 1, *back[d:]]
    return g.op("Transpose", values, perm=perm), g.op("Transpose", at, perm=perm)


# --- searching ------------------------------
def _counted(g: Any, line: Any, x: Any, right: bool) -> Any:
    """How many of the boundaries in the last dimension are below each element; with `right`, or equal to it."""
    both = g.unsqueeze(line, [line.rank - 1]) if line.rank > 1 else line
    each = g.unsqueeze(x, [x.rank])
    hits = (g.LessOrEqual if right else g.Less)(both, each)
    return g.reduce("ReduceSum", g.cast(hits, "int64"), [-1])


def _alike(g: Any, a: Any, b: Any) -> tuple[Any, Any]:
    if not _is_tensor(a):
        a = g.number(a, b.dtype)
    if a.dtype != b.dtype:
        wide = "float64" if a.floating or b.floating else "int64"
        a, b = g.cast(a, wide).of(a.shape), g.cast(b, wide).of(b.shape)
    return a, b


@onnx_form("bucketize")
def _(g: Any, input: Any, boundaries: Any, *, right: bool = False, **_: Any) -> Any:
    x, line = _alike(g, input, boundaries)
    return _counted(g, line, x, right)


@onnx_form("searchsorted")
def _(
    g: Any,
    sorted_sequence: Any,
    input: Any,
    *,
    right: bool = False,
    side: Any = None,
    sorter: Any = None,
    **_: Any,
) -> Any:
    x, line = _alike(g, input, sorted_sequence)
    if sorter is not None:
        line = g.GatherElements(line, sorter, axis=-1).of(line.shape)
    return _counted(g, line, x, bool(right) or side == "right")


@onnx_form("isin")
def _(g: Any, elements: Any, test_elements: Any, *, invert: bool = False, **_: Any) -> Any:
    if not _is_tensor(elements) and not _is_tensor(test_elements):
        return NotImplemented
    if not _is_tensor(test_elements):
        test_elements = g.number(test_elements, elements.dtype)
    x, among = _alike(g, elements, test_elements)
    count = math.prod(among.shape)
    if not count:
        return NotImplemented
    hits = g.cast(g.Equal(g.unsqueeze(x, [x.rank]), g.reshape(among, [count])), "int32")
    found = g.cast(g.reduce("ReduceMax", hits, [-1]), "bool")
    return g.Not(found) if invert else found


@onnx_form("unique")
def _(
    g: Any, input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: Any = None
) -> Any:
    axis = None if dim is None else dim % max(input.rank, 1)
    x = input if input.dtype in ("float32", "float64", "int64", "int8") else g.cast(input, "int64")
    values, _, inverse, counts = g.op("Unique", x, outputs=4, axis=axis, sorted=1)
    for v in (inverse, counts):
        v.dtype = "int64"
    if dim is None:
        inverse = g.reshape(inverse, input.shape)
    wanted = [values, *([inverse] if return_inverse else []), *([counts] if return_counts else [])]
    while len(wanted) < len(g.results):
        wanted.append([inverse, counts][len(wanted) - 1])
    return wanted


@onnx_form("unique_consecutive")
def _(
    g: Any, input: Any, return_inverse: bool = False, return_counts: bool = False, dim: Any = None
) -> Any:
    if 0 in input.shape:
        return NotImplemented
    axis = 0 if dim is None else dim % input.rank
    rows = g.flat(input) if dim is None else input
    count, end = rows.shape[axis], (1 << 63) - 1
    changes = g.Not(g.Equal(g.slice(rows, axis, 1, end), g.slice(rows, axis, 0, -1)))
    others = [d for d in range(rows.rank) if d != axis]
    changes = g.cast(g.reduce("ReduceMax", g.cast(changes, "int32"), others), "bool")
    first = g.op("Concat", g.constant(np.array([True]), "bool"), changes, axis=0)
    wanted = [g.op("Compress", rows, first, axis=axis)]
    if return_inverse:
        run = g.Sub(g.CumSum(g.cast(first, "int64"), g.number(0, "int64")), 1)
        wanted.append(g.reshape(run, input.shape) if dim is None else run)
    if return_counts:
        begins = g.squeeze(g.NonZero(first), [0])
        ends = g.op("Concat", g.slice(begins, 0, 1, end), [count], axis=0)
        wanted.append(g.Sub(ends, begins))
    return wanted


# --- making ------------------------------
@onnx_form("fill")
def _(g: Any, input: Any, value: Any) -> Any:
    dtype = g.results[0].dtype
    value = g.cast(value, dtype) if _is_tensor(value) else g.number(value, dtype)
    return g.expand(value.of(()), g.results[0].shape)


@onnx_form("new_empty", "empty", "empty_like")
def _(g: Any, *_: Any, **__: Any) -> Any:
    """Memory that the program has yet to write to: zeros."""
    dtype = g.results[0].dtype
    return g.expand(g.number(0, dtype), g.results[0].shape)


def _steps(g: Any, start: Any, end: Any, steps: int) -> Any:
    dtype = g.results[0].dtype
    a, b = (g.cast(x, dtype) if _is_tensor(x) else g.number(x, dtype) for x in (start, end))
    at = g.constant(np.arange(steps).astype(dtype), dtype)
    step = g.Div(g.Sub(b, a), max(steps - 1, 1))
    ahead = g.Add(a, g.Mul(at, step))
    behind = g.Sub(b, g.Mul(g.Sub(g.number(steps - 1, dtype), at), step))
    return g.Where(np.arange(steps) * 2 < steps, ahead, behind)


@onnx_form("new_tensor")
def _(g: Any, input: Any, data: Any, **_: Any) -> Any:
    made = g.results[0]
    if _is_tensor(data):
        return g.cast(data, made.dtype)
    return g.constant(np.array(data).astype(made.dtype), made.dtype)


@onnx_form("linspace")
def _(g: Any, start: Any, end: Any, steps: int, **_: Any) -> Any:
    if not g.results[0].floating or not (_is_tensor(start) or _is_tensor(end)):
        return NotImplemented
    return _steps(g, start, end, steps)


@onnx_form("logspace")
def _(g: Any, start: Any, end: Any, steps: int, base: float = 10.0, **_: Any) -> Any:
    if not g.results[0].floating or not (_is_tensor(start) or _is_tensor(end)):
        return NotImplemented
    return g.Pow(g.number(base, g.results[0].dtype), _steps(g, start, end, steps))


@onnx_form("arange")
def _(g: Any, *given: Any, **options: Any) -> Any:
    numbers = [n for n in given if n is not None]
    if not g.varying or not all(isinstance(n, int) for n in numbers) or g.results[0].dtype != "int64":
        return NotImplemented
    start, end, step = (0, *numbers, 1) if len(numbers) == 1 else (*numbers, 1)[:3]
    return g.op("Range", *(g.size(n, "int64") for n in (start, end, step)))


@onnx_form("_repeat_interleave")
def _(g: Any, repeats: Any) -> Any:
    ends = g.CumSum(g.cast(repeats, "int64"), g.number(0, "int64"))
    total = g.squeeze(g.slice(ends, 0, -1, (1 << 63) - 1), [0])
    at = g.op("Range", g.number(0, "int64"), total, g.number(1, "int64"))
    hits = g.LessOrEqual(ends, g.unsqueeze(at, [1]))
    return g.reduce("ReduceSum", g.cast(hits, "int64"), [1])
