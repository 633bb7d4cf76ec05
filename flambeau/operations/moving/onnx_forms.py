"""ONNX forms of what joins, turns, pads and fills tensors, and replaces parts of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.make.create import empty_like, linspace, logspace, new_empty, new_tensor
from ..declare.onnx import is_value, onnx_form
from ..pointwise.copying import fill
from .creation import arange, empty
from .joining import cat, stack
from .padding import constant_pad
from .shaping import (
    as_strided_scatter,
    diag_embed,
    diagonal_scatter,
    flipped,
    linalg_cross,
    repeated,
    roll,
    rot90,
    select_scatter,
    slice_scatter,
    tril,
    triu,
)

LAST = -(1 << 63)  # where a slice that goes backwards ends


# --- joining ------------------------------
@onnx_form(cat, pairs=True)
def _(g: Any, tensors: Any, dim: int = 0, **_: Any) -> Any:
    made = g.results[0]
    parts = [g.cast(t, made.dtype) for t in tensors if t.shape != (0,) or len(made.shape) == 1]
    if len(parts) == 1:
        return parts[0]
    axis = dim % len(made.shape)
    if made.is_complex:
        return g.as_complex(g.op("Concat", *map(g.as_floats, parts), axis=axis), made.dtype)
    return g.op("Concat", *parts, axis=axis)


@onnx_form(stack)
def _(g: Any, tensors: Any, dim: int = 0, **_: Any) -> Any:
    made = g.results[0]
    axis = dim % len(made.shape)
    return g.op("Concat", *[g.unsqueeze(g.cast(t, made.dtype), [axis]) for t in tensors], axis=axis)


@onnx_form(repeated)
def _(g: Any, input: Any, times: Sequence[int]) -> Any:
    x = g.unsqueeze(input, list(range(len(times) - input.rank)))
    return g.op("Tile", x, list(times)) if times else x


# --- turning ------------------------------
@onnx_form(flipped)
def _(g: Any, input: Any, dims: Sequence[int]) -> Any:
    return _flipped(g, input, [d % max(input.rank, 1) for d in dims]) if input.rank else input


def _flipped(g: Any, x: Any, dims: Sequence[int]) -> Any:
    count = len(dims)
    return g.op("Slice", x, [-1] * count, [LAST] * count, list(dims), [-1] * count) if count else x


@onnx_form(roll)
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


@onnx_form(rot90)
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


@onnx_form(tril, "tril_")
def _(g: Any, input: Any, diagonal: int = 0, **_: Any) -> Any:
    return _triangle(g, input, diagonal, 0)


@onnx_form(triu, "triu_")
def _(g: Any, input: Any, diagonal: int = 0, **_: Any) -> Any:
    return _triangle(g, input, diagonal, 1)


def _triangle(g: Any, x: Any, diagonal: int, upper: int) -> Any:
    if 0 in x.shape:
        return x
    narrow = x.dtype if x.dtype in ("int8", "uint8", "int16", "int32", "float16", "bfloat16") else None
    wide = g.cast(x, "int64" if narrow and "int" in narrow else "float32") if narrow else x
    return g.op("Trilu", wide, g.number(diagonal, "int64"), upper=upper)


@onnx_form(diag_embed)
def _(g: Any, input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    rank, n = input.rank + 1, input.shape[-1]
    size = n + abs(offset)
    if not n:
        return g.expand(g.number(0, input.dtype), g.results[0].shape)
    at = np.clip(np.arange(size) - max(-offset, 0), 0, n - 1)
    rows = g.unsqueeze(g.op("Gather", input, at, axis=-1), [rank - 1])
    zero = g.number(0, input.dtype) if input.dtype != "bool" else g.constant(np.array(False), "bool")
    result = g.where(g.constant(np.eye(size, k=offset, dtype=bool), "bool"), rows, zero)
    a, b = dim1 % rank, dim2 % rank
    rest = iter(range(rank - 2))
    perm = [rank - 2 if d == a else rank - 1 if d == b else next(rest) for d in range(rank)]
    return g.op("Transpose", result, perm=perm)


@onnx_form(linalg_cross)
def _(g: Any, a: Any, b: Any, axis: int) -> Any:
    def turned(x: Any, by: int) -> Any:
        return g.op("Gather", x, [by % 3, (by + 1) % 3, (by + 2) % 3], axis=axis)

    return g.Sub(g.Mul(turned(a, 1), turned(b, 2)), g.Mul(turned(a, 2), turned(b, 1)))


@onnx_form(constant_pad)
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


@onnx_form(diagonal_scatter)
def _(g: Any, input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    return _put(g, input, np.diagonal(_places(input), offset, dim1, dim2), src)


@onnx_form(select_scatter)
def _(g: Any, input: Any, src: Any, dim: int, index: int) -> Any:
    return _put(g, input, np.take(_places(input), index, dim), src)


@onnx_form(slice_scatter)
def _(
    g: Any, input: Any, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1, **_: Any
) -> Any:
    at = np.moveaxis(np.moveaxis(_places(input), dim, 0)[slice(start, end, step)], 0, dim)
    return _put(g, input, at, src)


@onnx_form(as_strided_scatter)
def _(g: Any, input: Any, src: Any, size: Any, stride: Any, storage_offset: Any = None) -> Any:
    at = np.array(storage_offset or 0)
    for n, s in zip(size, stride):
        at = at[..., None] + np.arange(n) * s
    return _put(g, input, at, src) if at.size == len(np.unique(at)) else NotImplemented


# --- making ------------------------------
@onnx_form(fill)
def _(g: Any, input: Any, value: Any) -> Any:
    dtype = g.results[0].dtype
    value = g.cast(value, dtype) if is_value(value) else g.number(value, dtype)
    return g.expand(value.of(()), g.results[0].shape)


@onnx_form(new_empty, empty, empty_like)
def _(g: Any, *_: Any, **__: Any) -> Any:
    """Memory that the program has yet to write to: zeros."""
    dtype = g.results[0].dtype
    return g.expand(g.number(0, dtype), g.results[0].shape)


def _steps(g: Any, start: Any, end: Any, steps: int) -> Any:
    dtype = g.results[0].dtype
    a, b = (g.cast(x, dtype) if is_value(x) else g.number(x, dtype) for x in (start, end))
    at = g.constant(np.arange(steps).astype(dtype), dtype)
    step = g.Div(g.Sub(b, a), max(steps - 1, 1))
    ahead = g.Add(a, g.Mul(at, step))
    behind = g.Sub(b, g.Mul(g.Sub(g.number(steps - 1, dtype), at), step))
    return g.Where(np.arange(steps) * 2 < steps, ahead, behind)


@onnx_form(new_tensor)
def _(g: Any, input: Any, data: Any, **_: Any) -> Any:
    made = g.results[0]
    if is_value(data):
        return g.cast(data, made.dtype)
    return g.constant(np.array(data).astype(made.dtype), made.dtype)


@onnx_form(linspace)
def _(g: Any, start: Any, end: Any, steps: int, **_: Any) -> Any:
    if not g.results[0].floating or not (is_value(start) or is_value(end)):
        return NotImplemented
    return _steps(g, start, end, steps)


@onnx_form(logspace)
def _(g: Any, start: Any, end: Any, steps: int, base: float = 10.0, **_: Any) -> Any:
    if not g.results[0].floating or not (is_value(start) or is_value(end)):
        return NotImplemented
    return g.Pow(g.number(base, g.results[0].dtype), _steps(g, start, end, steps))


@onnx_form(arange)
def _(g: Any, *given: Any, **options: Any) -> Any:
    numbers = [n for n in given if n is not None]
    if not g.varying or not all(isinstance(n, int) for n in numbers) or g.results[0].dtype != "int64":
        return NotImplemented
    start, end, step = (0, *numbers, 1) if len(numbers) == 1 else (*numbers, 1)[:3]
    return g.op("Range", *(g.size(n, "int64") for n in (start, end, step)))
