"""Convolutions an element at a time, for every dtype and device, and over grids: for each dtype of a host's tiles.

A grid is the padded input, an array a channel; lanes run along its places (`codegen/convolution.py`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from ....codegen import convolution as tiles
from ....codegen import expr as ex
from ....codegen import indexed as ix
from ....core.base.dtypes import by_name
from ....core.base.tensor import TensorBase
from ....core.lib.convolution import convolution as core
from ....core.make.create import tensor
from ...declare import machine
from ...declare.indexed import indexed

TILED = ("float32", "float64")
SPARSE_FROM = 1 << 20  # elements of a plane of a grid up to which it is made, however empty it is
MANY_PHASES = 1024  # parts of a transposed convolution's output from which it is made an element at a time
CACHE_BYTES = 1 << 19  # what a chunk of a grid may take


class Geometry(NamedTuple):
    """How windows lie on the input, a number a dimension; `before` is the padding in front."""

    stride: tuple[int, ...]
    before: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int


# --- an element at a time ------------------------------
_STATIC = ("stride", "before", "dilation")


def _all(conditions):
    return functools.reduce(lambda a, b: a & b, conditions)


@indexed(static=_STATIC, effort=64)
def direct(at, x, w, *, stride, before, dilation, filters):
    """`filters`: output channels a group."""
    n, o, *place = at
    base = ex.div(o, filters) * w.size(1)

    def term(c, *k):
        spot = [p * s - b + i * d for p, s, b, i, d in zip(place, stride, before, k, dilation)]
        valid = _all(ix.inside(i, x.size(2 + d)) for d, i in enumerate(spot))
        return x.load((n, base + c, *spot), valid) * w[(o, c, *k)]

    return at.sum([w.size(d) for d in range(1, w.rank)], term)


@indexed(static=_STATIC, effort=64)
def direct_input(at, g, w, *, stride, before, dilation, channels, filters):
    """`channels`: input channels a group."""
    n, c, *place = at
    group, own = ex.div(c, channels), ex.rem(c, channels)

    def term(o, *k):
        reach = [p + b - i * d for p, b, i, d in zip(place, before, k, dilation)]
        spot = [ex.div(r, s) for r, s in zip(reach, stride)]
        valid = _all(
            (r == i * s) & ix.inside(i, g.size(2 + d)) for d, (r, i, s) in enumerate(zip(reach, spot, stride))
        )
        o = group * filters + o
        return g.load((n, o, *spot), valid) * w[(o, own, *k)]

    return at.sum([filters, *(w.size(d) for d in range(2, w.rank))], term)


@indexed(static=_STATIC, effort=64)
def direct_weight(at, g, x, *, stride, before, dilation, filters):
    o, c, *k = at
    channel = ex.div(o, filters) * at.size(1) + c

    def term(n, *place):
        spot = [p * s - b + i * d for p, s, b, i, d in zip(place, stride, before, k, dilation)]
        valid = _all(ix.inside(i, x.size(2 + d)) for d, i in enumerate(spot))
        return x.load((n, channel, *spot), valid) * g[(n, o, *place)]

    return at.sum([g.size(0), *(g.size(d) for d in range(2, g.rank))], term)


# --- grids ------------------------------
@indexed(static=("stride",), moves=("x",))
def laid_out(at, x, *, stride, **before):
    """(planes, *phases, *cells): the padded input, elements `stride` apart next to each other."""
    n = len(stride)
    plane, phases, cells = at[0], at[1 : 1 + n], at[1 + n :]
    spots = [i * s + f - before[f"before{d}"] for d, (i, s, f) in enumerate(zip(cells, stride, phases))]
    return x.get((plane, *spots), 0)


def grid_of(
    x: TensorBase, stride: Sequence[int], phases: Sequence[int], cells: Sequence[int], before: Sequence[int]
):
    """(N, C, phases × cells), contiguous; the input itself where that is the same."""
    n = len(cells)
    if set(stride) == {1} and not any(before) and tuple(x.shape[2:]) == tuple(cells):
        return x.contiguous()
    flat = x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])
    given = {f"before{d}": b for d, b in enumerate(before)}
    if set(phases) == {1} and len(set(stride)) == 1 and stride[0] == 1:
        return _padded((flat.shape[0], *cells), flat, **given).reshape(*x.shape[:2], -1)
    shape = (flat.shape[0], *phases, *cells)
    return (
        laid_out(shape, flat, stride=tuple(stride), **given).reshape(x.shape[0], x.shape[1], -1) if n else x
    )


@indexed(moves=("x",))
def _padded(at, x, **before):
    return x.get((at[0], *(i - before[f"before{d}"] for d, i in enumerate(at[1:]))), 0)


@functools.lru_cache(maxsize=256)
def _stores(
    out: tuple[int, ...], cells: tuple[int, ...], lanes: int
) -> tuple[int, TensorBase, TensorBase, TensorBase]:
    """How many places a channel has, and for each vector of them which lanes go where in the output."""
    width = out[-1]
    entries: dict[int, list[tuple[int, int]]] = {}
    places = 0
    for number, row in enumerate(product(*map(range, out[:-1]))):
        start = functools.reduce(lambda a, b: a * b[0] + b[1], zip(cells[:-1], row), 0) * cells[-1]
        places = start + width
        for v in range(start // lanes, (places - 1) // lanes + 1):
            low, high = max(start - v * lanes, 0), min(places - v * lanes, lanes)
            entries.setdefault(v, []).append(((1 << high) - (1 << low), number * width + v * lanes - start))
    firsts, masks, spots = [0], [], []
    for v in range(-(-places // lanes)):
        for mask, spot in entries.get(v, ()):
            masks.append(mask)
            spots.append(spot)
        firsts.append(len(masks))
    return places, *(tensor(t, dtype=by_name["int64"], device="cpu") for t in (firsts, masks, spots))


@functools.lru_cache(maxsize=256)
def _offsets(channels: int, cells: int, shifts: tuple[int, ...]) -> TensorBase:
    """Where the grid is read for each (channel, tap)."""
    result = [c * cells + s for c in range(channels) for s in shifts]
    return tensor(result, dtype=by_name["int64"], device="cpu")


@functools.cache
def _lanes(dtype: str) -> int:
    return tiles.registers().bytes // by_name[dtype].itemsize


@functools.cache
def _address(kernel) -> int:
    return machine.address(kernel)


def _multiply(grid, weight, bias, shifts, out: Sequence[int], cells: Sequence[int]) -> TensorBase:
    """(N, G · O, *out) from a grid and a weight (G, O, C · taps)."""
    groups, filters, depth = weight.shape
    dtype = grid.dtype.name
    result = grid.new_empty((grid.shape[0], groups * filters, *out))
    if result.numel() == 0:
        return result
    channels = grid.shape[1] // groups
    area = grid.numel() // (grid.shape[0] * grid.shape[1])
    lanes = _lanes(dtype)
    places, firsts, masks, spots = _stores(tuple(out), tuple(cells), lanes)
    kinds, first = [], 0
    for size, vectors in tiles.registers().tiles:
        count = (filters - first) // size
        if count:
            part = weight.narrow(1, first, count * size).reshape(groups, count, size, depth).transpose(2, 3)
            kernel = tiles.Products(dtype, size, vectors, lanes, depth > tiles.AHEAD)
            address = _address(kernel)
            kinds.append((address, size, first, count, part.contiguous()))
            first += count * size
    bias = grid.new_zeros(groups * filters) if bias is None else bias.contiguous()
    vectors = -(-places // lanes)
    chunk = min(max(CACHE_BYTES // (channels * grid.dtype.itemsize * lanes), 24) // 24 * 24, vectors)
    offsets = _offsets(channels, area, shifts)
    core.products(
        tuple(kinds), result, grid, bias, offsets, firsts, masks, spots, groups, places, lanes, chunk
    )
    return result


# --- the three functions, without the tape ------------------------------
class _Layout(NamedTuple):
    """The grid that a convolution reads: phases and cells a dimension, and where each tap begins."""

    phases: tuple[int, ...]
    cells: tuple[int, ...]
    shifts: tuple[int, ...]


@functools.lru_cache(maxsize=256)
def _layout(
    out: tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
) -> _Layout:
    phases = tuple(s if k > 1 else 1 for s, k in zip(stride, kernel))
    cells = tuple(o + (k - 1) * d // s for o, k, s, d in zip(out, kernel, stride, dilation))
    shifts = []
    for taps in product(*map(range, kernel)):
        phase = at = 0
        for k, d, s, f, c in zip(taps, dilation, stride, phases, cells):
            phase, at = phase * f + k * d % s, at * c + k * d // s
        shifts.append(phase * math.prod(cells) + at)
    return _Layout(phases, cells, tuple(shifts))


def _pointlike(kernel: Sequence[int], g: Geometry, sizes: Sequence[int], out: Sequence[int]) -> bool:
    """Whether output and input places are the same, one to one."""
    return max(kernel) == 1 and max(g.stride) == 1 and not any(g.before) and tuple(sizes) == tuple(out)


def extent(kernel: Sequence[int], g: Geometry, out: Sequence[int]) -> int:
    """The last place that a window reaches, the padding counted: the largest number on the way to an element."""
    return max((o - 1) * s + (k - 1) * d + 1 for o, s, k, d in zip(out, g.stride, kernel, g.dilation))


@functools.lru_cache(maxsize=256)
def sparse(sizes: tuple[int, ...], kernel: tuple[int, ...], g: Geometry, out: tuple[int, ...]) -> bool:
    """Whether a grid would hold much more than the input and the output: padding, for the most part."""
    area = math.prod((o + k * d // s + 1) * s for o, s, k, d in zip(out, g.stride, kernel, g.dilation))
    return (
        area > max(SPARSE_FROM, 16 * (math.prod(sizes) + math.prod(out))) or math.prod(kernel) > SPARSE_FROM
    )


def forward(x, w, bias, g: Geometry, out: tuple[int, ...]) -> TensorBase:
    kernel = tuple(w.shape[2:])
    filters = w.shape[0] // g.groups
    if x.dtype.name not in TILED or x.device.type != "cpu":
        result = direct(
            (x.shape[0], w.shape[0], *out), x, w, most=extent(kernel, g, out), **_numbers(g), filters=filters
        )
        return result if bias is None else result + bias.reshape(-1, *[1] * len(kernel))
    weight = w.reshape(g.groups, filters, -1)
    if _pointlike(kernel, g, x.shape[2:], out):
        grid, line = x.contiguous(), (math.prod(out),)
        return _multiply(grid, weight, bias, (0,), line, line).reshape(x.shape[0], w.shape[0], *out)
    if sparse(tuple(x.shape[2:]), kernel, g, out):
        result = direct(
            (x.shape[0], w.shape[0], *out), x, w, most=extent(kernel, g, out), **_numbers(g), filters=filters
        )
        return result if bias is None else result + bias.reshape(-1, *[1] * len(kernel))
    phases, cells, shifts = _layout(out, kernel, g.stride, g.dilation)
    return _multiply(grid_of(x, g.stride, phases, cells, g.before), weight, bias, shifts, out, cells)


def _numbers(g: Geometry) -> dict:
    return {"stride": g.stride, "before": g.before, "dilation": g.dilation}


def input_gradient(grad, w, g: Geometry, sizes: tuple[int, ...]) -> TensorBase:
    kernel = tuple(w.shape[2:])
    filters, channels = w.shape[0] // g.groups, w.shape[1]
    shape = (grad.shape[0], channels * g.groups, *sizes)
    many = math.prod(min(s, n) for s, n in zip(g.stride, sizes)) > MANY_PHASES
    if (
        grad.dtype.name not in TILED
        or grad.device.type != "cpu"
        or many
        or sparse(tuple(grad.shape[2:]), kernel, g, tuple(grad.shape[2:]))
    ):
        most = max(n + b + k * d for n, b, k, d in zip(sizes, g.before, kernel, g.dilation))
        return direct_input(shape, grad, w, most=most, **_numbers(g), channels=channels, filters=filters)
    turned = w.reshape(g.groups, filters, channels, -1).transpose(1, 2)
    if _pointlike(kernel, g, sizes, grad.shape[2:]):
        line, grid = (math.prod(sizes),), grad.contiguous()
        return _multiply(grid, turned.reshape(g.groups, channels, -1), None, (0,), line, line).reshape(shape)
    before, cells, parts = _phases(sizes, kernel, g)
    grid = grid_of(grad, (1,) * len(sizes), (1,) * len(sizes), cells, before)
    result = grad.new_empty(shape)
    for place, out, taps, shifts in parts:
        if not taps:
            part = grad.new_zeros((*shape[:2], *out))
        else:
            weight = (
                turned
                if len(taps) == math.prod(kernel)
                else turned.index_select(3, turned.new_tensor(taps, dtype=by_name["int64"]))
            )
            part = _multiply(grid, weight.reshape(g.groups, channels, -1), None, shifts, out, cells)
        if max(g.stride) == 1:
            return part
        result[(slice(None), slice(None), *(slice(f, None, s) for f, s in zip(place, g.stride)))].copy_(part)
    return result


@functools.lru_cache(maxsize=256)
def _phases(sizes: tuple[int, ...], kernel: tuple[int, ...], g: Geometry):
    """The input's places apart by stride, each of which a dense convolution of the gradient gives.

    For input place f + stride j and tap k the gradient is read at j + (f + before - dilation k) / stride, where that is whole.
    """
    lines = []  # for each dimension: (f, count of j, [(k, shift)])
    before, cells = [], []
    for n, size, s, b, d in zip(kernel, sizes, g.stride, g.before, g.dilation):
        line = []
        for f in range(min(s, size)):
            hits = [(k, (f + b - k * d) // s) for k in range(n) if (f + b - k * d) % s == 0]
            line.append((f, -(-(size - f) // s), hits))
        shifts = [e for _, _, hits in line for _, e in hits] or [0]
        low = max(0, -min(shifts))
        before.append(low)
        cells.append(max(count for _, count, _ in line) + max(0, max(shifts)) + low)
        lines.append([(f, count, [(k, e + low) for k, e in hits]) for f, count, hits in line])
    parts = []
    for choice in product(*lines):
        taps, shifts = [], []
        for picked in product(*(hits for _, _, hits in choice)):
            tap = at = 0
            for (k, e), n, c in zip(picked, kernel, cells):
                tap, at = tap * n + k, at * c + e
            taps.append(tap)
            shifts.append(at)
        parts.append(([f for f, _, _ in choice], tuple(count for _, count, _ in choice), taps, tuple(shifts)))
    return tuple(before), tuple(cells), parts


def weight_gradient(grad, x, g: Geometry, kernel: tuple[int, ...]) -> TensorBase:
    out: tuple[int, ...] = tuple(grad.shape[2:])
    cells: tuple[int, ...]
    shifts: tuple[int, ...]
    images, filters, channels = x.shape[0], grad.shape[1] // g.groups, x.shape[1] // g.groups
    shape = (grad.shape[1], channels, *kernel)
    if x.dtype.name not in TILED or x.device.type != "cpu" or sparse(tuple(x.shape[2:]), kernel, g, out):
        return direct_weight(shape, grad, x, most=extent(kernel, g, out), **_numbers(g), filters=filters)
    if grad.numel() == 0:
        return x.new_zeros(shape)
    if _pointlike(kernel, g, x.shape[2:], out):
        grid, shifts, cells, out = x.contiguous(), (0,), (math.prod(out),), (math.prod(out),)
    else:
        phases, cells, shifts = _layout(out, kernel, g.stride, g.dilation)
        grid = grid_of(x, g.stride, phases, cells, g.before)
    area, depth, dtype = grid.numel() // (images * x.shape[1]), channels * len(shifts), x.dtype.name
    lanes, most = _lanes(dtype), tiles.registers().accumulators
    apart = filters == 1 and g.groups > 1  # depthwise: lanes along places
    if apart:
        vectors, block, rows, padded = 1, 1, min(depth, most // 2), 1
        flat = grad.reshape(images, g.groups, -1).contiguous()
    else:
        padded = -(-filters // lanes) * lanes
        vectors = next(v for v in (4, 2, 1) if padded % (v * lanes) == 0)
        block, rows = vectors * lanes, min(depth, most // vectors)
        flat = grad.reshape(images, g.groups, filters, -1).permute(0, 3, 1, 2)
        if padded != filters:
            wide = grad.new_zeros((*flat.shape[:3], padded))
            wide.narrow(3, 0, filters).copy_(flat)
            flat = wide
        flat = flat.contiguous()
    kinds = []
    for size, count, first in ((rows, depth // rows, 0), (depth % rows, 1, depth - depth % rows)):
        if size:
            kernel_of = (
                tiles.Inners(dtype, size, lanes) if apart else tiles.Correlations(dtype, size, vectors, lanes)
            )
            kinds.append((_address(kernel_of), size, first, count, None))
    result = x.new_zeros((g.groups, depth, padded))
    width, lines = out[-1], (out[-2] if len(out) > 1 else 1)
    for plane in product(*map(range, out[:-2])):  # a volume goes plane by plane
        shift = functools.reduce(lambda a, b: a * b[0] + b[1], zip(cells, plane), 0) * math.prod(cells[-2:])
        own = flat
        if len(out) > 2:
            number = functools.reduce(lambda a, b: a * b[0] + b[1], zip(out, plane), 0)
            own = flat.narrow(2 if apart else 1, number * lines * width, lines * width).contiguous()
        offsets = _offsets(channels, area, tuple(s + shift for s in shifts))
        core.correlations(
            tuple(kinds), result, grid, own, offsets, images, lines, width, cells[-1], block, apart
        )
    return result.narrow(2, 0, filters).transpose(1, 2).reshape(shape)
