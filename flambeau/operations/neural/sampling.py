"""Sampling an image at points, its channels side by side.

A table holds for each point the places that it reads and their weights; it is the same for all channels, which are what the lanes
run along.  The sum of a point's rows, the spreading of points over rows, and the products of both are the derivatives of each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...codegen import expr as ex
from ...codegen.expr import Expr
from ...codegen.tiles import samples as _compiled  # noqa: F401  provides the functions
from ...core import tape
from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ...core.call.function import FunctionOp
from ...core.call.watching import is_watched
from ...core.lib import samples as core
from ...core.make.create import empty, zeros
from ...core.tape.contexts import unrecorded
from ..declare.indexed import indexed

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
    return x if padding == "zeros" else ex.minimum(ex.maximum(x, 0.0), size - 1.0)


def _keys(x: Expr) -> Expr:
    """The cubic convolution kernel (Keys 1981), a = -0.75."""
    x = ex.absolute(x)
    inner = (1.25 * x - 2.25) * x * x + 1.0
    outer = ((x - 5.0) * x + 8.0) * x * -0.75 + 3.0
    return ex.where(x <= 1.0, inner, ex.where(x < 2.0, outer, 0.0))


@indexed(static=("mode", "padding", "aligned"), dtypes=(by_name["int64"], None), effort=32)
def sample_table(at, grid, *, mode, padding, aligned, **sizes):
    """Tap k of point p of image n: its place, that behind the last one where it lies outside, and its weight."""
    n, p, k = at
    rank, taps = len(sizes), TAPS[mode]
    bits, index, weight, outside, places = taps.bit_length() - 1, at.number(0), None, None, at.number(1)
    for d in range(rank):
        whole = sizes[f"size{d}"]
        x = grid[n, p, rank - 1 - d]
        size = ex.cast(whole, x.dtype)
        x = (x + 1.0) * ((size - 1.0) * 0.5) if aligned else ((x + 1.0) * size - 1.0) * 0.5
        turn = (k >> (bits * (rank - 1 - d))) & (taps - 1)
        tap = ex.cast(turn, x.dtype)
        share = None
        if mode == "nearest":
            place = ex.rint(_inside(x, size, padding, aligned))
        elif mode == "bilinear":
            x = _inside(x, size, padding, aligned)
            first = ex.floor(x)
            place, share = first + tap, ex.where(turn > 0, x - first, 1.0 - (x - first))
        else:
            first = ex.floor(x)
            place, share = _inside(first + tap - 1.0, size, padding, aligned), _keys(x - first - tap + 1.0)
        within = (place >= 0.0) & (place <= size - 1.0)
        beyond = ex.where(within, ex.const(False, "bool"), ex.const(True, "bool"))
        outside = beyond if outside is None else outside | beyond
        index = index * whole + ex.cast(ex.where(within, place, 0.0), whole.dtype)
        places = places * whole
        if share is not None:
            weight = share if weight is None else weight * share
    one = ex.like(grid[n, p, 0], 1.0)
    weight = ex.where(outside, 0.0, one if weight is None else weight)
    return ex.cast(ex.where(outside, places, index), "int64"), weight


def table(
    grid: TensorBase, shape: Sequence[int], mode: str, padding: str, aligned: bool
) -> tuple[TensorBase, TensorBase]:
    """The places and weights, (batch, points, taps), of the points `grid`, (batch, points, rank), in images of that shape."""
    rank = len(shape)
    sizes = {f"size{d}": s for d, s in enumerate(shape)}
    return sample_table(
        (*grid.shape[:2], TAPS[mode] ** rank), grid, mode=mode, padding=padding, aligned=aligned, **sizes
    )


# --- sums, and their derivatives ------------------------------
def _summed(image: TensorBase, at: TensorBase, weight: TensorBase) -> TensorBase:
    return core.summed(image.contiguous(), at, weight.contiguous())


def _spread(points: TensorBase, at: TensorBase, weight: TensorBase, places: int) -> TensorBase:
    image = zeros((points.shape[0], places, points.shape[2]), dtype=points.dtype, device="cpu")
    return core.spread(image, points.contiguous(), at, weight.contiguous())


def _dots(image: TensorBase, points: TensorBase, at: TensorBase) -> TensorBase:
    return core.dots(image.contiguous(), points.contiguous(), at)


_shown = {f: FunctionOp(f, f.__name__.strip("_"), owns=False) for f in (_summed, _spread, _dots)}


def _run(function, *given) -> TensorBase:
    with unrecorded():
        return (_shown[function] if is_watched() else function)(*given)


def summed(image: TensorBase, at: TensorBase, weight: TensorBase, label: str) -> TensorBase:
    """(batch, points, channels): the weighted sums of the image's rows, (batch, places, channels), at the points' places."""
    found = _run(_summed, image, at, weight)
    if tape.recording(image, weight):
        tape.record(
            label,
            _summed_back,
            (image, weight),
            found,
            (image, at, weight),
            (label, tape.recording(image), tape.recording(weight)),
        )
    return found


def _summed_back(grad, image, at, weight, label, first: bool, second: bool):
    return (
        spread(grad, at, weight, image.shape[1], label) if first else None,
        dots(image, grad, at, label) if second else None,
    )


def spread(points: TensorBase, at: TensorBase, weight: TensorBase, places: int, label: str) -> TensorBase:
    """(batch, places, channels): every point added to its places by weight."""
    found = _run(_spread, points, at, weight, places)
    if tape.recording(points, weight):
        tape.record(
            label,
            _spread_back,
            (points, weight),
            found,
            (points, at, weight),
            (label, tape.recording(points), tape.recording(weight)),
        )
    return found


def _spread_back(grad, points, at, weight, label, first: bool, second: bool):
    return (
        summed(grad, at, weight, label) if first else None,
        dots(grad, points, at, label) if second else None,
    )


def dots(image: TensorBase, points: TensorBase, at: TensorBase, label: str) -> TensorBase:
    """(batch, points, taps): the products of a point's channels with those at its places."""
    found = _run(_dots, image, points, at)
    if tape.recording(image, points):
        tape.record(
            label,
            _dots_back,
            (image, points),
            found,
            (image, points, at),
            (label, tape.recording(image), tape.recording(points)),
        )
    return found


def _dots_back(grad, image, points, at, label, first: bool, second: bool):
    return (
        spread(points, at, grad, image.shape[1], label) if first else None,
        summed(image, at, grad, label) if second else None,
    )


def _laid(input: TensorBase) -> TensorBase:
    """(batch, places + 1, channels) of an input (batch, channels, *shape): the last row is 0."""
    n, c = input.shape[:2]
    with unrecorded():
        flat = input.reshape(n, c, -1)
        found = empty((n, flat.shape[2] + 1, c), dtype=input.dtype, device="cpu")
        found.narrow(1, 0, flat.shape[2]).copy_(flat.transpose(1, 2))
        found.select(1, flat.shape[2]).zero_()
    if tape.recording(input):
        tape.record("TransposeBackward0", _laid_back, (input,), found, (), (tuple(input.shape),))
    return found


def _laid_back(grad: TensorBase, shape: tuple) -> TensorBase:
    return grad.narrow(1, 0, grad.shape[1] - 1).transpose(1, 2).reshape(shape)


def sampled(input: TensorBase, at: TensorBase, weight: TensorBase) -> TensorBase:
    """(batch, channels, points) of an input (batch, channels, *shape)."""
    label = f"GridSampler{input.ndim - 2}DBackward0"
    return summed(_laid(input), at, weight, label).transpose(1, 2).contiguous()
