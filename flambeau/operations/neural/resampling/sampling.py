"""Sampling an image at points, its channels side by side.

A table holds for each point the places that it reads and their weights; it is the same for all channels, which are what the lanes
run along.  The sum of a point's rows, the spreading of points over rows, and the products of both are the derivatives of each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ....codegen import expr as ex
from ....codegen import tiles  # noqa: F401  says who provides the functions
from ....codegen.expr import Expr
from ....core.base.dtypes import by_name
from ....core.base.tensor import TensorBase
from ....core.call.leaf import LeafOp
from ....core.lib.resampling import samples as core
from ....core.make.create import empty, zeros
from ...declare.indexed import indexed
from ...declare.registry import leaf

FEW = 32  # channels times taps up to which planes are read, and added to, as they stand
MANY = 256  # up to which they are read so, where ...
NEAR = 1 << 16  # ... an image has so few places that all of them stay in a cache
TAPS = {"nearest": 1, "bilinear": 2, "bicubic": 4}


# --- tables ------------------------------
def _reflected(x: Expr, low, high) -> Expr:
    span = high - low
    twice = span * 2.0
    away = ex.absolute(x - low)
    away = away - ex.floor(away / twice) * twice
    return ex.where(span > 0, low + ex.minimum(away, twice - away), 0.0)


def _inside(x: Expr, size: Expr, padding: str, aligned: bool) -> Expr:
    if padding == "reflection":
        x = _reflected(x, size * 0.0, size - 1.0) if aligned else _reflected(x, size * 0.0 - 0.5, size - 0.5)
    if padding == "zeros":
        return x
    return ex.minimum(ex.where(x > 0.0, x, 0.0), size - 1.0)  # NaN is at 0


def _keys(x: Expr) -> Expr:
    """The cubic convolution kernel (Keys 1981), a = -0.75."""
    x = ex.absolute(x)
    inner = (1.25 * x - 2.25) * x * x + 1.0
    outer = ((x - 5.0) * x + 8.0) * x * -0.75 + 3.0
    return ex.where(x <= 1.0, inner, ex.where(x < 2.0, outer, 0.0))


def _tap(x: Expr, t: Expr, size: Expr, mode: str, padding: str, aligned: bool) -> tuple[Expr, Expr]:
    """Tap t of a point along one dimension: its place, -1 outside of the image, and its weight."""
    length, tap = ex.cast(size, x.dtype), ex.cast(t, x.dtype)
    x = (x + 1.0) * ((length - 1.0) * 0.5) if aligned else ((x + 1.0) * length - 1.0) * 0.5
    if mode == "nearest":
        place, weight = ex.rint(_inside(x, length, padding, aligned)), ex.like(x, 1.0)
    elif mode == "bilinear":
        x = _inside(x, length, padding, aligned)
        first = ex.floor(x)
        place, weight = first + tap, ex.where(t > 0, x - first, 1.0 - (x - first))
    else:
        first = ex.floor(x)
        place, weight = _inside(first + tap - 1.0, length, padding, aligned), _keys(x - first - tap + 1.0)
    within = (place >= 0.0) & (place <= length - 1.0)
    return ex.cast(ex.where(within, place, -1.0), "int32"), ex.where(within, weight, 0.0)


@indexed(static=("mode", "padding", "aligned", "column"), dtypes=(by_name["int32"], None), effort=16)
def taps_along(at, grid, *, mode, padding, aligned, column, size):
    """Tap t of point p of image n along one dimension."""
    n, t, p = at
    return _tap(grid[n, p, column], t, size, mode, padding, aligned)


@indexed(static=("mode", "padding", "aligned"), dtypes=(by_name["int32"], None), effort=16)
def only_tap(at, grid, *, mode, padding, aligned, size0, size1):
    """Tap 0 of point p in an image, where it has no other."""
    n, k, p = at
    sizes = size0, size1
    return _together(
        at, [_tap(grid[n, p, 1 - d], k, s, mode, padding, aligned) for d, s in enumerate(sizes)], sizes
    )


def _together(at, pairs: Sequence[tuple[Expr, Expr]], sizes: Sequence[Expr]) -> tuple[Expr, Expr]:
    """A tap in all dimensions, from its place and weight in each: the flat place, that behind the last one where one of them lies
    outside, and the product of the weights.
    """
    index, count, outside, weight = at.number(0), at.number(1), ex.const(False, "bool"), None
    for (place, share), size in zip(pairs, sizes):
        outside = outside | (place < 0)
        index, count = index * size + ex.cast(place, index.dtype), count * size
        weight = share if weight is None else weight * share
    return ex.cast(ex.where(outside, count, index), "int32"), ex.where(outside, 0.0, weight)


def _of_tables(at, tables: Sequence, bits: int, sizes: dict) -> tuple[Expr, Expr]:
    """Tap k of point p, from the tables of weights and places of each dimension."""
    n, k, p = at
    pairs = []
    for d, (shares, places) in enumerate(tables):
        t = (k >> (bits * (len(tables) - 1 - d))) & ((1 << bits) - 1)
        pairs.append((places[n, t, p], shares[n, t, p]))
    return _together(at, pairs, [sizes[f"size{d}"] for d in range(len(tables))])


@indexed(static=("bits",), dtypes=(by_name["int32"], None), effort=4)
def taps_of_two(at, v0, p0, v1, p1, *, bits, **sizes):
    """Tap k of point p in an image."""
    return _of_tables(at, ((v0, p0), (v1, p1)), bits, sizes)


@indexed(static=("bits",), dtypes=(by_name["int32"], None), effort=4)
def taps_of_three(at, v0, p0, v1, p1, v2, p2, *, bits, **sizes):
    """Tap k of point p in a volume."""
    return _of_tables(at, ((v0, p0), (v1, p1), (v2, p2)), bits, sizes)


def table(
    grid: TensorBase, shape: Sequence[int], mode: str, padding: str, aligned: bool
) -> tuple[TensorBase, TensorBase]:
    """The places and weights, (batch, taps, points), of the points `grid`, (batch, points, rank), in images of that shape."""
    taps, rank, (n, points, _) = TAPS[mode], len(shape), grid.shape
    sizes = {f"size{d}": s for d, s in enumerate(shape)}
    if taps == 1 and rank == 2:
        return only_tap((n, 1, points), grid, mode=mode, padding=padding, aligned=aligned, **sizes)
    along: list[TensorBase] = []
    for d, size in enumerate(shape):
        shape_of, column = (n, taps, points), rank - 1 - d
        result = taps_along(
            shape_of, grid, mode=mode, padding=padding, aligned=aligned, column=column, size=size
        )
        along.extend(reversed(result))
    together = taps_of_two if rank == 2 else taps_of_three
    return together((n, taps**rank, points), *along, bits=taps.bit_length() - 1, **sizes)


# --- sums, and their derivatives ------------------------------
class Sums(NamedTuple):
    """The leaves of images of one rank, whose nodes have a name of their own."""

    summed: LeafOp  # the points: the weighted sums of what stands at their places
    spread: LeafOp  # the image: every point added to its places by weight
    dots: LeafOp  # (batch, taps, points): the products of a point's channels with those at its places


def _sums(rank: int) -> Sums:
    def declared(name: str, inputs: tuple[str, ...]):
        return leaf(
            "library",
            name=f"grid_{name}_{rank}d",
            inputs=inputs,
            label=f"GridSampler{rank}DBackward0",
            batching="sliced",
        )

    @declared("summed", ("image", "weight"))
    def summed(
        image: TensorBase, at: TensorBase, weight: TensorBase, places: int, planes: bool
    ) -> TensorBase:
        """The weighted sums of what stands at the places of each point."""
        return core.summed(image.contiguous(), at, weight.contiguous(), planes)

    @summed.derivative
    def _(grad, image, at, weight, places, planes, needs):
        if planes and grad.shape[1] * at.shape[1] > FEW:  # lanes along the channels add faster
            rows = grad.transpose(1, 2).contiguous()
            image_of = lambda: (
                spread(rows, at, weight, places + 1, False).narrow(1, 0, places).transpose(1, 2)
            )  # noqa: E731
            return (
                image_of() if needs[0] else None,
                dots(channels_together(image), rows, at, places + 1, False) if needs[1] else None,
            )
        return (
            spread(grad, at, weight, places, planes) if needs[0] else None,
            dots(image, grad, at, places, planes) if needs[1] else None,
        )

    @declared("spread", ("points", "weight"))
    def spread(
        points: TensorBase, at: TensorBase, weight: TensorBase, places: int, planes: bool
    ) -> TensorBase:
        """Every point added to its places by weight."""
        n, a, b = points.shape
        image = zeros((n, a, places) if planes else (n, places, b), dtype=points.dtype, device="cpu")
        return core.spread(image, points.contiguous(), at, weight.contiguous(), planes)

    @spread.derivative
    def _(grad, points, at, weight, places, planes, needs):
        return (
            summed(grad, at, weight, places, planes) if needs[0] else None,
            dots(grad, points, at, places, planes) if needs[1] else None,
        )

    @declared("dots", ("image", "points"))
    def dots(image: TensorBase, points: TensorBase, at: TensorBase, places: int, planes: bool) -> TensorBase:
        """The products of a point's channels with those at its places."""
        return core.dots(image.contiguous(), points.contiguous(), at, planes)

    @dots.derivative
    def _(grad, image, points, at, places, planes, needs):
        return (
            spread(points, at, grad, places, planes) if needs[0] else None,
            summed(image, at, grad, places, planes) if needs[1] else None,
        )

    return Sums(summed, spread, dots)


_SUMS = {rank: _sums(rank) for rank in (2, 3)}


@leaf("library", label="TransposeBackward0", batching="sliced")
def channels_together(input: TensorBase) -> TensorBase:
    """(batch, places + 1, channels) of an input (batch, channels, *shape): the last row is 0."""
    n, c = input.shape[:2]
    flat = input.reshape(n, c, math.prod(input.shape[2:]))
    result = empty((n, flat.shape[2] + 1, c), dtype=input.dtype, device="cpu")
    result.narrow(1, 0, flat.shape[2]).copy_(flat.transpose(1, 2))
    result.select(1, flat.shape[2]).zero_()
    return result


@channels_together.derivative
def _channels_apart(grad, shape_input):
    return grad.narrow(1, 0, grad.shape[1] - 1).transpose(1, 2).reshape(shape_input)


def sampled(input: TensorBase, at: TensorBase, weight: TensorBase) -> TensorBase:
    """(batch, channels, points) of an input (batch, channels, *shape)."""
    n, c, *shape = input.shape
    places, summed = math.prod(shape), _SUMS[len(shape)].summed
    if c * at.shape[1] <= (MANY if places <= NEAR else FEW):
        return summed(input.reshape(n, c, places), at, weight, places, True)
    return summed(channels_together(input), at, weight, places + 1, False).transpose(1, 2).contiguous()
