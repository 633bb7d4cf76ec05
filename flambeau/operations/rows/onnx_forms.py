"""ONNX forms of reductions and scans."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..declare.onnx import is_value, onnx_form
from ..moving.searching import histc
from .histograms import histogram_of_points
from .moments import deviation, variance, variance_and_mean
from .reductions import argmax, argmin, mean, prod
from .scans import cummax, cummin, cumprod, cumsum, logcumsumexp
from .softmax import log_softmax_of, softmax_of


def _dims(dim: Any, rank: int) -> list[int]:
    dims = [dim] if isinstance(dim, int) else list(dim or range(rank))
    return sorted(d % max(rank, 1) for d in dims)


@onnx_form(softmax_of)
def _(g: Any, input: Any, dim: int, dtype: Any = None, **_: Any) -> Any:
    return _along(g, "Softmax", input, dim)


@onnx_form(log_softmax_of)
def _(g: Any, input: Any, dim: int, dtype: Any = None, **_: Any) -> Any:
    return _along(g, "LogSoftmax", input, dim)


def _along(g: Any, kind: str, input: Any, dim: int) -> Any:
    x = g.cast(input, g.results[0].dtype)
    if input.rank == 0:
        return g.reshape(g.op(kind, g.reshape(x.of(()), [1]), axis=0).of((1,)), [])
    return g.op(kind, x, axis=dim)


@onnx_form(mean)
def _(g: Any, input: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
    dims = _dims(dim, input.rank) if input.rank else []
    if not dims or 0 in (input.shape[d] for d in dims):
        return NotImplemented
    return g.reduce("ReduceMean", g.cast(input, g.results[0].dtype), dims, keepdim)


def _extreme(kind: str) -> Any:
    def form(g: Any, input: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
        if dim is not None and input.rank:
            return NotImplemented
        flat = g.reshape(g.wider(input), [math.prod(input.shape)])
        return g.reshape(g.op(kind, flat, axis=0, keepdims=0), g.results[0].shape)

    return form


onnx_form(argmax)(_extreme("ArgMax"))
onnx_form(argmin)(_extreme("ArgMin"))


@onnx_form(prod)
def _(g: Any, input: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
    dims = _dims(dim, input.rank) if input.rank else []
    return g.reduce("ReduceProd", g.cast(input, g.results[0].dtype), dims, keepdim)


def _moments(g: Any, x: Any, dims: list[int], keepdim: bool, correction: float) -> tuple[Any, Any]:
    """Variance and mean."""
    mean = g.reduce("ReduceMean", x, dims, True)
    far = g.Sub(x, mean)
    squares = g.reduce("ReduceSum", g.Mul(far, far), dims, keepdim)
    count = math.prod(x.shape[d] for d in dims)
    free = g.Sub(g.size(count, x.dtype), g.number(correction, x.dtype)) if g.varying else None
    if free is None:
        free = g.number(max(count - correction, 0.0), x.dtype)
    return g.Div(squares, free), mean if keepdim else g.squeeze(mean, dims)


def _of_variance(root: bool, both: bool) -> Any:
    def form(g: Any, *given: Any, **_: Any) -> Any:
        if not isinstance(given[0], tuple):
            return NotImplemented
        (x,), dim, keepdim, _, params, _ = given
        if not x.floating or not x.rank or 0 in x.shape or x.dtype in ("float16", "bfloat16"):
            return NotImplemented
        variance, mean = _moments(g, x, _dims(dim, x.rank), bool(keepdim), (*params, 1.0)[0])
        result = g.Sqrt(variance) if root else variance
        return (result, mean) if both else result

    return form


onnx_form(variance)(_of_variance(False, False))
onnx_form(deviation)(_of_variance(True, False))
onnx_form(variance_and_mean)(_of_variance(False, True))


@onnx_form(cumsum)
def _(g: Any, input: Any, dim: int, **_: Any) -> Any:
    x = g.cast(input, g.results[0].dtype)
    return x if input.rank == 0 else g.CumSum(x, g.number(dim % input.rank, "int64"))


def _running(g: Any, x: Any, dim: int, neutral: float) -> Any:
    """Behind a new last dimension: for each place along `dim`, the elements up to there, and what changes nothing behind it."""
    rank, n = x.rank, x.shape[dim]
    order = [d for d in range(rank) if d != dim]
    rows = g.unsqueeze(g.transpose(x, [*order, dim]), [rank - 1])
    at = g.range(n)
    upto = g.LessOrEqual(at, g.unsqueeze(at, [1]))
    return g.Where(upto, rows, g.number(neutral, x.dtype))


def _back(g: Any, result: Any, rank: int, dim: int) -> Any:
    """The last dimension where `dim` was."""
    order = list(range(rank - 1))
    return g.transpose(result.of(g.results[0].shape), [*order[:dim], rank - 1, *order[dim:]])


@onnx_form(cumprod)
def _(g: Any, input: Any, dim: int, **_: Any) -> Any:
    x = g.cast(input, g.results[0].dtype).of(input.shape)
    if not x.rank:
        return x
    d = dim % x.rank
    return _back(g, g.reduce("ReduceProd", _running(g, x, d, 1), [x.rank]), x.rank, d)


@onnx_form(logcumsumexp)
def _(g: Any, input: Any, dim: int, **_: Any) -> Any:
    if not input.rank:
        return input
    d = dim % input.rank
    rows = _running(g, input, d, -math.inf)
    top = g.reduce("ReduceMax", rows, [input.rank], True)
    top = g.where(g.Equal(g.Abs(top), math.inf), 0, top)
    total = g.Log(g.reduce("ReduceSum", g.Exp(g.Sub(rows, top)), [input.rank]))
    return _back(g, g.Add(total, g.squeeze(top, [input.rank])), input.rank, d)


def _extremes(largest: bool) -> Any:
    kind = "Max" if largest else "Min"

    def form(g: Any, input: Any, dim: int, **_: Any) -> Any:
        if not input.rank:
            return input, g.number(0, "int64")
        if not input.floating:
            return NotImplemented
        d = dim % input.rank
        rows = _running(g, input, d, -math.inf if largest else math.inf)
        where = g.op(f"Arg{kind}", rows, axis=input.rank, keepdims=0, select_last_index=1)
        values = g.reduce(f"Reduce{kind}", rows, [input.rank])
        return _back(g, values, input.rank, d), _back(g, where, input.rank, d)

    return form


onnx_form(cummax)(_extremes(True))
onnx_form(cummin)(_extremes(False))


@onnx_form(histc)
def _(g: Any, input: Any, bins: int = 100, min: float = 0, max: float = 0, **_: Any) -> Any:
    x = g.flat(input)
    low, high = g.number(min, x.dtype), g.number(max, x.dtype)
    if min == max == 0:
        low, high = g.reduce("ReduceMin", x, [0]), g.reduce("ReduceMax", x, [0])
        same = g.Equal(low, high)
        low, high = g.where(same, g.Sub(low, 1), low), g.where(same, g.Add(high, 1), high)
    inside = g.And(g.GreaterOrEqual(x, low), g.LessOrEqual(x, high))
    bin = g.Floor(g.Div(g.Mul(g.Sub(x, low), bins), g.Sub(high, low)))
    bin = g.Min(bin, g.number(bins - 1, x.dtype))
    bin = g.cast(g.where(inside, bin, -1), "int64")
    hits = g.Equal(g.unsqueeze(bin, [0]), np.arange(bins)[:, None])
    return g.reduce("ReduceSum", g.cast(hits, x.dtype), [1])


def _edges(g: Any, x: Any, bins: Any, limits: Any) -> Any:
    """The ends of bins: those given, or as far from each other over the range or over the values."""
    if is_value(bins):
        return g.cast(bins, x.dtype).of(bins.shape)
    if limits is None:
        low, high = g.reduce("ReduceMin", x, [0]), g.reduce("ReduceMax", x, [0])
    else:
        low, high = (g.number(v, x.dtype) for v in limits)
    same = g.Equal(low, high)
    low, high = g.Where(same, g.Sub(low, 0.5), low), g.Where(same, g.Add(high, 0.5), high)
    step = g.Div(g.Sub(high, low), bins)
    inner = g.Add(low, g.Mul(np.arange(bins).astype(x.dtype), step))
    return g.op("Concat", inner, g.unsqueeze(high, [0]), axis=0).of((bins + 1,))


@onnx_form(histogram_of_points)
def _(g: Any, input: Any, weight: Any, bins: Any, limits: Any, counts: Any, density: bool) -> Any:
    """Each point's box by how many edges are not beyond it; edges have to ascend."""
    if not input.floating or not math.prod(input.shape):
        return NotImplemented
    dims = len(counts)
    points = g.reshape(input, [math.prod(input.shape) // dims, dims])
    place, inside, edges = g.number(0, "int64"), g.constant(np.array(True), "bool"), []
    for k, count in enumerate(counts):
        x = g.squeeze(g.slice(points, 1, k, k + 1), [1])
        line = _edges(g, x, bins[k], limits[k])
        edges.append(line)
        column = g.unsqueeze(x, [1])
        before = g.reduce("ReduceSum", g.cast(g.LessOrEqual(line, column), "int64"), [1])
        place = g.Add(g.Mul(place, count), g.Min(g.Sub(before, 1), count - 1))
        end = g.slice(line, 0, -1, (1 << 63) - 1)
        inside = g.And(inside, g.And(g.GreaterOrEqual(x, g.slice(line, 0, 0, 1)), g.LessOrEqual(x, end)))
    hits = g.And(g.Equal(place, np.arange(math.prod(counts))[:, None]), inside)
    each = (
        g.number(1, input.dtype) if weight is None else g.flat(g.cast(weight, input.dtype).of(weight.shape))
    )
    result = g.reduce("ReduceSum", g.Where(hits, each, g.number(0, input.dtype)), [1])
    if density:
        total = g.reduce("ReduceSum", result, [0])
    result = g.reshape(result.of((math.prod(counts),)), counts)
    if density:
        for k, line in enumerate(edges):
            wide = g.Sub(g.slice(line, 0, 1, (1 << 63) - 1), g.slice(line, 0, 0, -1))
            result = g.Div(result, g.op("Reshape", wide, [-1 if d == k else 1 for d in range(dims)]))
        result = g.Div(result, total)
    return [result, *edges]
