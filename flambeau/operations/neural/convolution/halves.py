"""Convolutions of bfloat16 in two dimensions by the processor's matrix unit, or by vectors of pairs, and their gradients.

By the unit all are computed that have some work; by pairs those where it is less than in float32.  Filters are laid out as
(filters, taps, channels), filled up with zeros to what the unit reads; the input is brought to it in bands
(`core/lib/convolution/half_windows.pyx`).  The gradient in the input is a convolution of the gradient for each phase of the stride.
That in the weight is a product for each tap: the padded input from the tap's place on by the gradient, padded with zeros to the
input's pitch; where places are fewer than filters, one product for all taps, whose windows are laid out side by side.  Sums are
float32 and rounded once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ....codegen.tiles.pair_blocks import fast as fast_pairs
from ....core.base import prepacked
from ....core.base.dtypes import by_name
from ....core.lib.convolution import half_windows as core
from . import families, winograd_weights
from .direct import _line
from .grid import Geometry

BFLOAT16, FLOAT32 = by_name["bfloat16"], by_name["float32"]
FILL = 32  # filters, and channels, that the unit takes together
MOST_TAPS = 1024
FEW_PRODUCTS = 1 << 18
PAIRED = 1.7  # products of pairs in the time of one of float32: 160 to 190 GFLOP/s beside 100 on a Zen 4
LAID = 80  # flops in the time that an element of the filters takes to be laid out
MOST_PHASES = 16  # of the input, each copied by itself
MOST_PADDED = 4  # times the input that it may be with zeros around


@functools.cache
def possible() -> bool:
    """Whether the processor multiplies bfloat16 faster than float32: by a matrix unit that this process may use, or by pairs."""
    return core.by_unit() or (fast_pairs() and core.possible())


def takes(x, w, g: Geometry, out: tuple[int, ...], turned: bool) -> bool:
    """Whether it is worth it for a convolution of x that makes `out`, or, `turned`, for the gradient, of sizes `out`, that spreads x."""
    if x.dtype is not BFLOAT16 or x.device.type != "cpu" or not possible():
        return False
    read, made = (out, tuple(x.shape[2:])) if turned else (tuple(x.shape[2:]), out)
    key = x.shape[0], tuple(w.shape), g, read, made
    if _products(*key) < max(FEW_PRODUCTS, 1):
        return False
    return by_unit() or _less_work(*key, turned, families.allowed["winograd"])


def takes_weight(grad, x, g: Geometry, kernel: tuple[int, ...]) -> bool:
    """The same for the gradient of a weight."""
    if x.dtype is not BFLOAT16 or x.device.type != "cpu" or not possible():
        return False
    weight = grad.shape[1], x.shape[1] // g.groups, *kernel
    key = x.shape[0], weight, g, tuple(x.shape[2:]), tuple(grad.shape[2:])
    if _products(*key) < max(FEW_PRODUCTS, 1):
        return False
    return by_unit() or _weight_is_less_work(*key, families.allowed["winograd"])


@functools.lru_cache(maxsize=1024)
def _products(
    images: int, weight: tuple[int, ...], g: Geometry, read: tuple[int, ...], made: tuple[int, ...]
) -> int:
    """How many products of two numbers there are; 0 where they are not made here: windows of two dimensions without groups, not too
    many taps, nor much padding.
    """
    if len(weight) != 4 or g.groups != 1:
        return 0
    taps = math.prod(weight[2:])
    padded = math.prod(o * s + d * (k - 1) for o, s, d, k in zip(made, g.stride, g.dilation, weight[2:]))
    if taps > MOST_TAPS or padded > MOST_PADDED * max(math.prod(read), 64):
        return 0
    return images * math.prod(made) * math.prod(weight)


@functools.lru_cache(maxsize=1024)
def _less_work(
    images: int,
    weight: tuple[int, ...],
    g: Geometry,
    read: tuple[int, ...],
    made: tuple[int, ...],
    turned: bool,
    transformed: bool,
) -> bool:
    """Whether sums of pairs take less time than those of float32, direct or, where they may be, `transformed` by Winograd's."""
    kernel = weight[2:]
    filters, channels = (weight[1], weight[0]) if turned else weight[:2]
    products = images * filters * channels * math.prod(kernel) * math.prod(made)
    if turned:
        phases = [_line(*each) for each in zip(read, kernel, g.stride, g.before, g.dilation)]
        computed = sum(
            _computed(filters, channels, (len(down), len(right)), (rows, columns), (1, 1), g.dilation)
            for _, rows, down in phases[0]
            for _, columns, right in phases[1]
        )
    else:
        computed = _computed(filters, channels, kernel, made, g.stride, g.dilation)
    laid = math.prod(weight)
    time = 2 * images * computed / PAIRED + LAID * laid
    if transformed and kernel == (3, 3) and g.stride == (1, 1) and g.dilation == (1, 1):
        return time < families.winograd_costs(images, channels, filters, read if turned else made)[1]
    return time < 2 * products + families.PACKED * laid


def _computed(
    filters: int,
    channels: int,
    kernel: tuple[int, ...],
    places: tuple[int, ...],
    stride: tuple[int, ...],
    apart: tuple[int, ...],
) -> int:
    """Products for an image: filters and places fill registers, places are counted with what lies beside the image."""
    if not all(kernel):
        return 0
    fold = _fold(channels, kernel)
    depth = _depths(channels, kernel)[fold]
    pitch = places[1] + (0 if fold else (kernel[1] - 1) * apart[1] // stride[1])
    return _up(filters, 16) * depth * _up((places[0] - 1) * pitch + places[1], 16)


@functools.lru_cache(maxsize=1024)
def _weight_is_less_work(
    images: int,
    weight: tuple[int, ...],
    g: Geometry,
    read: tuple[int, ...],
    made: tuple[int, ...],
    transformed: bool,
) -> bool:
    """The same for the gradient of a weight."""
    (filters, channels, *kernel), places = weight, 1
    for o, s, d, k in zip(made, g.stride, g.dilation, kernel):
        places *= o + d * (k - 1) // s
    few = 16 if channels >= 8 else 64  # few rows by few columns do not fill tiles
    if math.prod(map(min, g.stride, kernel)) > MOST_PHASES:
        return False
    time = 2 * images * math.prod(kernel) * _up(channels, 4) * _up(filters, few) * places / PAIRED
    if transformed and kernel == [3, 3] and g.stride == (1, 1) and g.dilation == (1, 1):
        return time < winograd_weights.costs(images, channels, filters, made)[1]
    return time < 2 * images * math.prod(weight) * math.prod(made)


@functools.cache
def by_unit() -> bool:
    """Whether the matrix unit does."""
    return core.by_unit()


def _up(n: int, by: int = FILL) -> int:
    return -(-n // by) * by


class _Filters(NamedTuple):
    """Weights (K, C, kh, kw), of which some rows and columns of taps are read; or those of their adjoint, which is `turned`."""

    weight: Any
    rows: Sequence[int]
    columns: Sequence[int]
    turned: bool

    @property
    def counts(self) -> tuple[int, int]:
        """Of filters and of channels."""
        first, second = self.weight.shape[:2]
        return (second, first) if self.turned else (first, second)

    def laid(self, fold: int):
        """(filters, taps, channels), filled up with 0; kept as prepacked weights are."""
        layout = "halves", tuple(self.rows), tuple(self.columns), self.turned, fold
        kept = prepacked.prepack(self.weight, layout, lambda weight: self._lay(weight, fold))
        return self._lay(self.weight, fold) if kept is None else kept

    def _lay(self, weight, fold: int):
        (filters, channels), high, wide = self.counts, len(self.rows), len(self.columns)
        taps, deep = ((high * wide, channels), (high, wide * channels), (1, high * wide * channels))[fold]
        result = weight.new_empty((_up(filters), taps, _up(deep)))
        column = channels if fold else _up(deep)
        row = _up(deep) if fold == 1 else wide * column
        source = [i * weight.shape[3] + j for i in self.rows for j in self.columns]
        target = [i * row + j * column for i in range(high) for j in range(wide)]
        core.lay(weight.contiguous(), result, source, target, self.turned)
        return result


def _fold(channels: int, kernel: tuple[int, ...]) -> int:
    """Which taps are channels, so that the least is filled up: 0 none, 1 those of a row, 2 all."""
    depths = _depths(channels, kernel)
    best = min(depths)
    return 0 if 2 * best > depths[0] else depths.index(best)


def _depths(channels: int, kernel: tuple[int, ...]) -> tuple[int, ...]:
    """Terms of a sum for each fold, filled up."""
    high, wide = kernel
    return high * wide * _up(channels), high * _up(channels * wide), _up(channels * high * wide)


def _run(x, w: _Filters, bias, g: Geometry, out: tuple[int, ...]):
    kernel, (filters, channels) = (len(w.rows), len(w.columns)), w.counts
    fold = _fold(channels, kernel)
    terms = x.new_zeros(_up(filters), dtype=FLOAT32)
    if bias is not None:
        terms[:filters].copy_(bias)
    result = x.new_empty((x.shape[0], filters, *out))
    core.run(x.contiguous(), w.laid(fold), terms, result, kernel, g.stride, g.before, g.dilation, fold)
    return result


def forward(x, w, bias, g: Geometry, out: tuple[int, ...]):
    whole = _Filters(w, range(w.shape[2]), range(w.shape[3]), False)
    return _run(x, whole, bias, g, out)


def input_gradient(grad, w, bias, g: Geometry, sizes: tuple[int, ...]):
    """Of an input of `sizes`; a bias is added to each of its places."""
    lines = [_line(*each) for each in zip(sizes, w.shape[2:], g.stride, g.before, g.dilation)]
    whole = g.stride == (1, 1)
    result = grad.new_zeros((0,) if whole else (grad.shape[0], w.shape[1], *sizes))
    if bias is not None and not whole:
        result += bias.reshape(-1, 1, 1)
    for row, rows, down in lines[0]:
        for column, columns, right in lines[1]:
            if not down or not right:
                continue
            part = _Filters(w, [k for k, _ in down], [k for k, _ in right], True)
            apart = tuple(hits[1][1] - hits[0][1] if len(hits) > 1 else 1 for hits in (down, right))
            near = Geometry((1, 1), (-down[0][1], -right[0][1]), apart, 1)
            found = _run(grad, part, bias, near, (rows, columns))
            if whole:
                return found
            result[:, :, row :: g.stride[0], column :: g.stride[1]].copy_(found)
    return result


def weight_gradient(grad, x, g: Geometry, kernel: tuple[int, ...]):
    """(K, C, kh, kw); padded images lie one after another, channel by channel, in phases of the stride."""
    (images, filters, high, wide), channels = grad.shape, x.shape[1]
    reach = [d * (k - 1) for d, k in zip(g.dilation, kernel)]
    rows, pitch = (o + r // s for o, r, s in zip((high, wide), reach, g.stride))
    depth = images * rows * pitch
    terms = grad.new_zeros((filters, _up(depth)))
    terms[:, :depth].view(filters, images, rows, pitch)[:, :, :high, :wide].copy_(grad.transpose(0, 1))
    # Beyond the last image a tap reads on: what it finds there meets zeros, so it has to be a number.
    after = reach[0] // g.stride[0] * pitch + reach[1] // g.stride[1] + _up(depth) - depth
    # Where windows are no more than weights, they are laid out, and no result is turned.
    unfolded = terms.shape[1] <= filters
    factor, result = terms.t(), grad.new_empty((*kernel, channels, 0 if unfolded else filters))
    columns_of = grad.new_empty((channels, *kernel, terms.shape[1] if unfolded else 0))
    for row, down in _taps(kernel[0], g.dilation[0], g.stride[0]):
        for column, right in _taps(kernel[1], g.dilation[1], g.stride[1]):
            planes = _phase(x, g, (row, column), rows, pitch, after)
            first = down[0] * g.dilation[0] // g.stride[0] * pitch + right[0] * g.dilation[1] // g.stride[1]
            steps = _step(down, g.dilation[0], g.stride[0]) * pitch, _step(right, g.dilation[1], g.stride[1])
            shape = len(down), len(right), channels, terms.shape[1]
            windows = planes.as_strided(shape, (*steps, planes.shape[1], 1), first)
            if unfolded:
                columns_of[:, _span(down), _span(right)].copy_(windows.permute(2, 0, 1, 3))
                continue
            found = windows @ factor.expand(len(down), len(right), *factor.shape)
            if shape[:2] == tuple(kernel):
                result = found
            else:
                result[_span(down), _span(right)].copy_(found)
    if unfolded:
        return (terms @ columns_of.view(-1, terms.shape[1]).t()).view(filters, channels, *kernel)
    whole = grad.new_empty((filters, channels, *kernel))
    core.collect(result, whole)
    return whole


def _taps(count: int, dilation: int, stride: int) -> list[tuple[int, list[int]]]:
    """For each phase of a dimension the taps that read it."""
    phases: dict[int, list[int]] = {}
    for k in range(count):
        phases.setdefault(k * dilation % stride, []).append(k)
    return list(phases.items())


def _step(taps: list[int], dilation: int, stride: int) -> int:
    """How many places of the phase are between neighbours."""
    return (taps[1] - taps[0]) * dilation // stride if len(taps) > 1 else 0


def _span(taps: list[int]) -> slice:
    return slice(taps[0], taps[-1] + 1, taps[1] - taps[0] if len(taps) > 1 else 1)


def _phase(x, g: Geometry, phase: tuple[int, int], rows: int, pitch: int, after: int):
    """(C, N · rows · pitch + after) of a phase of the padded input."""
    images, channels, *sizes = x.shape
    depth = images * rows * pitch
    result = x.new_zeros((channels, depth + after))
    spans = []
    for size, count, s, before, f in zip(sizes, (rows, pitch), g.stride, g.before, phase):
        first = max(0, -((f - before) // s))  # the first place whose pixel exists
        last = min(count, (size - 1 + before - f) // s + 1)
        spans.append((first, max(first, last), first * s + f - before))
    (top, bottom, row), (left, right, column) = spans
    if bottom > top and right > left:
        to = result[:, :depth].view(channels, images, rows, pitch)[:, :, top:bottom, left:right]
        to.copy_(
            x.transpose(0, 1)[:, :, row :: g.stride[0], column :: g.stride[1]][
                :, :, : bottom - top, : right - left
            ]
        )
    return result
