"""The weight's gradient of dense convolutions on a CPU, by the register tile (`codegen/tiles/register.py`).

    gradient[o, c, k] = sum over images and places p of x[c, stride p + dilation k - before] · grad[o, p]

A tile's rows are channels, its columns filters, its terms the places of some lines.  The input is read where it lies: a tap beyond
the image's edge has fewer terms.  The gradient is turned, filters side by side, a band of lines at a time.  Where an input has
too few channels for rows, the taps of a line are rows, and the input is copied with its padding.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence

from ....codegen.tiles import register
from ....codegen.tiles.epilogues import added
from ....codegen.tiles.register import Register
from ....codegen.tiles.turning import Turn
from ....core.base.tensor import TensorBase
from ....core.lib.convolution import correlation
from .grid import Geometry

FEWEST_ROWS = 4  # channels from which they are rows
FEW_PLACES = 4  # elements copied for each of the gradient's, up to which copies cost less than sums that are put down after each image


def takes(dtype: str, filters: int, g: Geometry) -> bool:
    """Whether gradients of so many filters are computed here: where a group has some for half a vector."""
    return g.groups == 1 or filters // g.groups >= register.lanes(dtype) // 2


def weight_gradient(grad: TensorBase, x: TensorBase, g: Geometry, kernel: tuple[int, ...]) -> TensorBase:
    """(groups · filters, channels, *kernel)."""
    return summed([(grad, x)], g, kernel)


def summed(
    parts: Iterable[tuple[TensorBase, TensorBase]], g: Geometry, kernel: tuple[int, ...]
) -> TensorBase:
    """The sum of the gradients of some images, (grad, x), each of the same sizes but for their number; grad may be of halves."""
    sums = None
    for grad, x in parts:
        sums = _added(sums, grad, x, g, kernel)
    filters = grad.shape[1] // g.groups
    whole = sums.reshape(g.groups, -1, sums.shape[3]).narrow(2, 0, filters).transpose(1, 2)
    return whole.reshape(grad.shape[1], x.shape[1] // g.groups, *kernel)


def _added(
    sums: TensorBase | None, grad: TensorBase, x: TensorBase, g: Geometry, kernel: tuple[int, ...]
) -> TensorBase:
    """(groups, channels, taps, filters filled up to whole vectors) with the sums of these images more."""
    filters, channels, dtype = grad.shape[1] // g.groups, x.shape[1] // g.groups, x.dtype.name
    lanes = register.lanes(dtype)
    if sums is None:
        sums = x.new_zeros((g.groups, channels, math.prod(kernel), -(-filters // lanes) * lanes))
    if grad.numel() == 0 or x.numel() == 0:
        return sums
    along = channels < FEWEST_ROWS and kernel[-1] > channels
    before = g.before
    if along:
        reach = [
            (o - 1) * s + (k - 1) * d + 1 for o, s, k, d in zip(grad.shape[2:], g.stride, kernel, g.dilation)
        ]
        if any(before) or any(r > size for r, size in zip(reach, x.shape[2:])):  # "same" may pad behind alone
            x, before = _padded(x, before, reach), (0,) * len(kernel)
    missing = 3 - len(kernel)
    ones, zeros = (1,) * missing, (0,) * missing
    x = x.reshape(*x.shape[:2], *ones, *x.shape[2:])
    grad = grad.contiguous().reshape(*grad.shape[:2], *ones, *grad.shape[2:])
    tiles = plan(dtype, filters, kernel[-1] if along else channels)
    turn = tiles.turn if grad.dtype is x.dtype else register.address(Turn(dtype, source=grad.dtype.name))
    correlation.weight_gradient(
        tiles.tiles, turn, x, grad, sums, g.groups, ones + kernel, ones + g.stride, zeros + before,
        ones + g.dilation, lanes, tiles.filters, tiles.rows, along,
    )  # fmt: skip
    return sums


def few_places(grad: Sequence[int], x: Sequence[int]) -> bool:
    """Whether, for windows of one place, copies of both operands are small beside the weight's gradient."""
    places, filters, channels = math.prod(grad[2:]), grad[1], x[1]
    if grad[0] > 1:
        copied = grad[0] * places * (filters + channels)
    else:
        copied = 0 if grad[2:] == x[2:] else places * channels
    return copied <= FEW_PLACES * filters * channels


def product_of_places(grad: TensorBase, x: TensorBase, g: Geometry, kernel: tuple[int, ...]) -> TensorBase:
    """The same for windows of one place inside the image: filters by places, times places by channels."""
    x = x[(slice(None), slice(None), *(slice(None, None, s) for s in g.stride))]
    left, right = (t.transpose(0, 1).reshape(t.shape[1], -1) for t in (grad, x))
    return (left @ right.t()).reshape(grad.shape[1], x.shape[1], *kernel)


def _padded(x: TensorBase, before: Sequence[int], reach: Sequence[int]) -> TensorBase:
    """The input with all places that windows reach."""
    wide = x.new_zeros((*x.shape[:2], *reach))
    own, given = wide, x
    for d, (r, b) in enumerate(zip(reach, before), 2):
        count = max(min(r - b, x.shape[d]), 0)  # a window may see padding alone
        own, given = own.narrow(d, min(b, r), count), given.narrow(d, 0, count)
    own.copy_(given)
    return wide


class Plan:
    """The tiles for so many filters and rows."""

    def __init__(self, dtype: str, filters: int, rows: int):
        widest = 4 if register.width() != 32 else 2
        vectors = -(-filters // register.lanes(dtype))
        self.filters = _parts(vectors, widest)
        self.rows = _parts(rows, _rows(self.filters[1] + (self.filters[2] > 0)))
        self.tiles = tuple(tuple(self._tile(dtype, wider, longer) for longer in (1, 0)) for wider in (1, 0))
        self.turn = register.address(Turn(dtype))

    def _tile(self, dtype: str, wider: int, longer: int) -> int:
        if (wider and not self.filters[2]) or (longer and not self.rows[2]):
            return 0
        tile = Register(dtype, self.rows[1] + longer, self.filters[1] + wider, epilogue=added(dtype))
        return register.address(tile)


plan = functools.lru_cache(maxsize=256)(Plan)


def _rows(vectors: int) -> int:
    """How many rows fit the registers beside so many vectors."""
    if register.width() == 32:
        return {1: 10, 2: 6}[vectors]
    return {1: 16, 2: 12, 3: 8, 4: 6}[vectors]


def _parts(total: int, most: int) -> tuple[int, int, int]:
    """(number of parts, size of the smaller ones, how many of them are one larger)."""
    number = -(-total // most)
    return number, *divmod(total, number)
