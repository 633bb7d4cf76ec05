"""ONNX forms of sorting, searching and counting."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..declare.onnx import is_value, onnx_form
from .searching import bucketize, isin, searchsorted, unique, unique_consecutive
from .sorting import argsort, kthvalue, mode, sort, topk


# --- sorting ------------------------------
def _sorted(g: Any, x: Any, dim: int, k: int, largest: bool) -> tuple[Any, Any]:
    wide = g.wider(x) if x.dtype != "uint8" else x
    values, places = g.op("TopK", wide, [k], outputs=2, axis=dim, largest=int(largest), sorted=1)
    places.dtype = "int64"
    return g.cast(values, x.dtype), places


@onnx_form(sort)
def _(g: Any, input: Any, dim: int = -1, descending: bool = False, stable: bool = False, **_: Any) -> Any:
    if not input.rank:
        return input, g.number(0, "int64")
    return _sorted(g, input, dim, input.shape[dim], bool(descending))


@onnx_form(argsort)
def _(g: Any, input: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    if not input.rank:
        return g.number(0, "int64")
    return _sorted(g, input, dim, input.shape[dim], bool(descending))[1]


@onnx_form(topk)
def _(g: Any, input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, **_: Any) -> Any:
    if not input.rank:
        return (input, g.number(0, "int64")) if k else NotImplemented
    return _sorted(g, input, dim, k, bool(largest))


def _kept(g: Any, result: tuple[Any, Any], dim: int, keepdim: bool) -> tuple[Any, Any]:
    return result if keepdim else tuple(g.squeeze(v, [dim]) for v in result)  # type: ignore[return-value]


@onnx_form(kthvalue)
def _(g: Any, input: Any, k: int, dim: int = -1, keepdim: bool = False, **_: Any) -> Any:
    if not input.rank:
        return input, g.number(0, "int64")
    values, places = _sorted(g, input, dim, k, False)
    cut = g.slice(values, dim, k - 1, k), g.slice(places, dim, k - 1, k)
    return _kept(g, cut, dim, keepdim)


@onnx_form("median_of_rows")
def _median(g: Any, input: Any, dim: int, keepdim: bool) -> Any:
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
def _nanmedian(g: Any, input: Any, dim: int, keepdim: bool) -> Any:
    if not input.rank:
        return input, g.number(0, "int64")
    if not input.floating:
        return NotImplemented
    missing = g.IsNaN(input)
    shown = g.Where(missing, g.number(math.inf, input.dtype), input)
    _, places = _sorted(g, shown, dim, input.shape[dim], False)
    count = g.reduce("ReduceSum", g.cast(g.Not(missing), "int64"), [dim], True)
    at = g.Max(g.Div(g.Sub(count, 1), 2), 0)
    result = g.GatherElements(places, at, axis=dim)
    return _kept(g, (g.GatherElements(input, result, axis=dim), result), dim, keepdim)


@onnx_form("median_of_all")
def _(g: Any, input: Any, dim: int) -> Any:
    return _median(g, input, dim, False)[0]


@onnx_form("nanmedian_of_all")
def _(g: Any, input: Any, dim: int) -> Any:
    both = _nanmedian(g, input, dim, False)
    return both if both is NotImplemented else both[0]


@onnx_form(mode)
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
    if not is_value(a):
        a = g.number(a, b.dtype)
    if a.dtype != b.dtype:
        wide = "float64" if a.floating or b.floating else "int64"
        a, b = g.cast(a, wide).of(a.shape), g.cast(b, wide).of(b.shape)
    return a, b


@onnx_form(bucketize)
def _(g: Any, input: Any, boundaries: Any, *, right: bool = False, **_: Any) -> Any:
    x, line = _alike(g, input, boundaries)
    return _counted(g, line, x, right)


@onnx_form(searchsorted)
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


@onnx_form(isin)
def _(g: Any, elements: Any, test_elements: Any, *, invert: bool = False, **_: Any) -> Any:
    if not is_value(elements) and not is_value(test_elements):
        return NotImplemented
    if not is_value(test_elements):
        test_elements = g.number(test_elements, elements.dtype)
    x, among = _alike(g, elements, test_elements)
    count = math.prod(among.shape)
    if not count:
        return NotImplemented
    hits = g.cast(g.Equal(g.unsqueeze(x, [x.rank]), g.reshape(among, [count])), "int32")
    result = g.cast(g.reduce("ReduceMax", hits, [-1]), "bool")
    return g.Not(result) if invert else result


@onnx_form(unique)
def _(
    g: Any,
    input: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: Any = None,
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


@onnx_form(unique_consecutive)
def _(g: Any, input: Any, return_inverse: bool = False, return_counts: bool = False, dim: Any = None) -> Any:
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
