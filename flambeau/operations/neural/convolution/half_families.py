"""Which way a convolution of halves, or a gradient of one, is computed: sums are float32 and rounded once, whichever way.

| way | what it takes |
|---|---|
| `implicit` | devices other than the host, as floats do |
| `product` | windows of one place: a product of halves, which converts no whole image |
| `halves` | bfloat16 where the processor multiplies it, where that is less work than Winograd's way in float32 |
| `depthwise` | a channel of the input a group |
| `winograd`, `direct` | as in float32: halves are converted as they are brought to workspaces, and sums as they are written |
| `float32` | all else: some images at a time are converted, so that their copies are read from the cache |
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....codegen.tiles import register
from ....core.base import prepacked
from ....core.base.dtypes import by_name
from ....core.base.tensor import TensorBase
from ...declare.registry import REGISTRY
from . import depthwise, families, halves
from . import weights as convolution_weights
from .grid import Geometry

FLOAT32 = by_name["float32"]
# Bytes of images in float32, read and made, that are computed together: a last cache, and enough for many threads.
CACHED = 1 << 24
# Places of an image below which those of all images are columns of one product; and of all images, from which products of halves that
# are converted take no more time than float32's.
FEW_PLACES, FEWEST_PLACES = 64, 128
MOST_COLUMNS = 4  # of a depthwise window, with vectors of 32 bytes: of 3 the weight's gradient takes 0.4 of the time, of 7 1.4 times


def _wide(x: TensorBase | None) -> TensorBase | None:
    return None if x is None else x.to(FLOAT32)


def convolved(
    x: TensorBase,
    w: TensorBase,
    bias: TensorBase | None,
    g: Geometry,
    out: tuple[int, ...],
    turned: bool,
) -> TensorBase:
    """A convolution of x, or, `turned`, its adjoint: what spreads x, of the sizes that a convolution makes, over sizes `out`."""
    if families.on_tile(x, w, g, out, turned):
        compute = families.transposed if turned else families.forward
        return compute(x, w, bias, g, out)
    if _is_product(x, w.shape, g, (out, x.shape[2:]) if turned else (x.shape[2:], out)):
        if bias is None or families.channels_last(x):
            return _product(x, w, bias, g, out, turned)
    if halves.takes(x, w, g, out, turned):
        by_halves = halves.input_gradient if turned else halves.forward
        return families.laid_as(x, by_halves(x, w, bias, g, out))
    if depthwise.takes_halves(x, w.shape, g, turned) and not (turned and bias is not None):
        if turned:
            return families.laid_as(x, depthwise.input_gradient(x, w, g, out))
        return families.laid_as(x, depthwise.forward(x, w, bias, g, out))
    if x.is_cpu and _converts(x.shape[1]):
        key = families._selection_key(x, w, g, out)[1:]
        way = families._way("float32", *key, turned, families.allowed["winograd"])
        if way == "direct" or way.startswith("winograd"):
            return families.computed(way, x, w, bias, g, out, turned)
    return in_float32(x, w, bias, g, out, turned)


def _converts(channels: int) -> bool:
    """Whether the processor has vectors of halves, and masks for them or channels that fill one."""
    return register.width() == 64 or (register.width() == 32 and channels >= register.lanes("float32"))


def _widest() -> int:
    """Columns of a window whose weight's gradient reads halves: without masks for them each more takes longer."""
    return depthwise.MOST_TAPS if register.width() == 64 else MOST_COLUMNS


def addmm(bias: TensorBase, x: TensorBase, y: TensorBase) -> TensorBase:
    """bias + x @ y, rounded once."""
    return REGISTRY["addmm"].function(bias, x, y)


def _is_product(x: TensorBase, weight: Sequence[int], g: Geometry, spots: tuple) -> bool:
    """Whether windows of one place over `spots`, read and made, are computed by products of halves, which convert no whole image."""
    if not x.is_cpu or x.ndim != 4 or g.groups != 1 or set(weight[2:]) != {1}:
        return False
    if not families._reads_alone(g, *spots):
        return False
    if x.dtype is halves.BFLOAT16 and halves.possible():
        return not halves.by_unit()  # which does better by bands
    return x.shape[0] * math.prod(spots[1]) >= FEWEST_PLACES


def _product(
    x: TensorBase, w: TensorBase, bias: TensorBase | None, g: Geometry, out: tuple[int, ...], turned: bool
) -> TensorBase:
    """A convolution of windows of one place, or its adjoint: filters times pixels, or, with channels side by side, pixels times filters."""
    matrix = w[:, :, 0, 0]
    if turned:  # pairs of terms side by side are read where they stand
        matrix = matrix.t().contiguous()
    apart = max(g.stride) > 1
    pixels = families.spaced(x, g) if apart and not turned else x
    if families.channels_last(x):
        rows = pixels.permute(0, 2, 3, 1)
        lines = rows.reshape(-1, rows.shape[3])
        lines = lines @ matrix.t() if bias is None else addmm(bias, lines, matrix.t())
        made = lines.reshape(*rows.shape[:3], -1).permute(0, 3, 1, 2)
    else:
        images, places = x.shape[0], tuple(pixels.shape[2:])
        if images > 1 and math.prod(places) < FEW_PLACES:
            joined = pixels.transpose(0, 1).reshape(pixels.shape[1], -1)
            made = (matrix @ joined).unflatten(1, (images, *places)).transpose(0, 1).contiguous()
        else:
            made = (matrix @ pixels.flatten(2)).unflatten(2, places)
    if not (apart and turned):
        return made
    result = families.empty_result(x, matrix.shape[0], out).zero_()
    if bias is not None:
        result += bias.reshape(-1, 1, 1)
    families.spaced(result, g).copy_(made)
    return result


def in_float32(
    x: TensorBase,
    w: TensorBase,
    bias: TensorBase | None,
    g: Geometry,
    out: tuple[int, ...],
    turned: bool,
) -> TensorBase:
    """The same, some images at a time; the weight's copy is made once and kept, with the layouts that are made of it."""
    compute = families.transposed if turned else families.forward
    images, filters = x.shape[0], w.shape[1] * g.groups if turned else w.shape[0]
    wide = prepacked.prepack(w, ("float32", turned), _wide) if x.is_cpu else None
    given = _wide(w) if wide is None else wide, _wide(bias), g, out
    count = _together(x.numel() // images + filters * math.prod(out))
    if count >= images or not x.is_cpu:
        return compute(_wide(x), *given).to(x.dtype)
    result = families.empty_result(x, filters, out, x.ndim != 4)
    for first in range(0, images, count):
        part = x.narrow(0, first, min(count, images - first))
        result.narrow(0, first, part.shape[0]).copy_(compute(_wide(part), *given))
    return result


def _together(elements: int) -> int:
    """How many images are converted together, of so many elements each."""
    return max(CACHED // (4 * max(elements, 1)), 1)


def weight_gradient(grad: TensorBase, x: TensorBase, g: Geometry, kernel: Sequence[int]) -> TensorBase:
    """(filters, channels, *kernel), of what was made of x."""
    kernel = tuple(kernel)
    shape = (grad.shape[1], x.shape[1] // g.groups, *kernel)
    if families.weight_on_tile(grad, x, shape, g):
        return families.weight_gradient(grad, x, g, kernel)
    if x.dtype is halves.BFLOAT16 and halves.possible():
        if _is_product(x, shape, g, (x.shape[2:], grad.shape[2:])):
            return _product_of_places(grad, x, g, shape)
    if halves.takes_weight(grad, x, g, kernel):
        return halves.weight_gradient(grad.contiguous(), x, g, kernel)
    if depthwise.takes_halves(x, shape, g, True) and kernel[-1] <= _widest():
        return depthwise.weight_gradient(grad, x, g, kernel)
    way = "grid"
    if x.is_cpu:
        key = tuple(grad.shape), tuple(x.shape), g, kernel
        way = families._weight_way("float32", *key, families.allowed["winograd"])
    if way == "product":
        return families.OF_WEIGHTS[way](grad, x, g, kernel)
    if way == "winograd" and _converts(x.shape[1]):
        return families.OF_WEIGHTS[way](grad, x, g, kernel).to(x.dtype)
    if way == "weights":
        images = x.shape[0]
        count = _together(x.numel() // images)
        parts = (
            (grad.narrow(0, first, n), x.narrow(0, first, n).to(FLOAT32))
            for first in range(0, images, count)
            for n in (min(count, images - first),)
        )
        return convolution_weights.summed(parts, g, kernel).to(x.dtype)
    return families.OF_WEIGHTS[way](_wide(grad), _wide(x), g, kernel).to(x.dtype)


def _product_of_places(grad: TensorBase, x: TensorBase, g: Geometry, shape: tuple[int, ...]) -> TensorBase:
    """The same for windows of one place inside the image: one product, whose columns are the more of channels and filters."""
    left, right = (t.transpose(0, 1).reshape(t.shape[1], -1) for t in (grad, families.spaced(x, g)))
    if shape[0] > shape[1]:
        return (right @ left.t()).t().reshape(shape)
    return (left @ right.t()).reshape(shape)
