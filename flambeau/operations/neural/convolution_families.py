"""Which way a convolution or a gradient of one is computed: chosen by shapes, dtype and device alone.

| way | what it takes |
|---|---|
| `winograd` | float32, windows of 3 × 3 at stride 1 and dilation 1, where that is the least work (`winograd_of`) |
| `direct` | float32 and float64 in two dimensions without groups, where vectors of filters are filled and sums are long |
| `depthwise` | float32 and float64 in one and two dimensions, a channel of the input a group, strides of 1 and 2 |
| `weights` | the weight's gradient in float32 and float64, but for groups of few filters |
| `grid` | other numbers of dimensions, groups, few filters, short sums; what it refuses goes an element at a time |

`winograd` and `direct` read and write images with pixels or channels side by side; a result has the layout of its input.
"""

from __future__ import annotations

import functools
import math

from ...codegen.tiles import register
from ...core.base.dtypes import by_name
from ...core.make.create import zeros
from . import (
    convolution_depthwise,
    convolution_direct,
    convolution_grid,
    convolution_lifted,
    convolution_weights,
    convolution_winograd,
)
from .convolution_grid import TILED, Geometry

FEWEST_FILTERS = 8
SHORTEST_SUM = 24
MOST_PHASES = 16
allowed = {"winograd": True}  # flambeau.backends.cpu.allow_winograd
# Flops that other work of F(m × m, 3 × 3) costs in the time of: for each element transformed, for each of the filters' values
# while they fit the cache, and beyond.
TRANSFORMED, LIFTED, LIFTED_FAR, CACHE_BYTES = 25, 20, 80, 1 << 24
PACKED = 20


def forward(x, w, bias, g: Geometry, out: tuple[int, ...]):
    if convolution_depthwise.takes(x, w.shape[1], tuple(w.shape[2:]), g):
        return convolution_depthwise.forward(x, w, bias, g, out)
    if convolution_lifted.takes(x, w, g, out):
        return convolution_lifted.forward(forward, x, w, bias, g, out)
    return _computed(forward_way(x, w, g, out), x, w, bias, g, out, False)


def input_gradient(grad, w, g: Geometry, sizes: tuple[int, ...]):
    if convolution_depthwise.takes(grad, w.shape[1], tuple(w.shape[2:]), g, transposed=True):
        return convolution_depthwise.input_gradient(grad, w, g, sizes)
    if convolution_lifted.takes(grad, w, g, sizes):
        return convolution_lifted.input_gradient(input_gradient, grad, w, g, sizes)
    return _computed(gradient_way(grad, w, g, sizes), grad, w, None, g, sizes, True)


def weight_gradient(grad, x, g: Geometry, kernel: tuple[int, ...]):
    if convolution_depthwise.takes(x, x.shape[1] // g.groups, kernel, g):
        return convolution_depthwise.weight_gradient(grad, x, g, kernel)
    if convolution_weights.takes(grad, x, g, kernel):
        return convolution_weights.weight_gradient(grad, x, g, kernel)
    return convolution_grid.weight_gradient(grad, x, g, kernel)


def forward_way(x, w, g: Geometry, out: tuple[int, ...]) -> str:
    if (
        not _tiled(x, w, g)
        or w.shape[0] < FEWEST_FILTERS
        or w.shape[1] * math.prod(w.shape[2:]) < SHORTEST_SUM
    ):
        return "grid"
    if convolution_grid._sparse(tuple(x.shape[2:]), tuple(w.shape[2:]), g, out):
        return "grid"
    if _plain(x, w, g):
        m = winograd_of(x.shape[0], w.shape[1], w.shape[0], tuple(out))
        return f"winograd {m}" if m else "direct"
    return "direct"


def gradient_way(grad, w, g: Geometry, sizes: tuple[int, ...]) -> str:
    if not _tiled(grad, w, g) or w.shape[1] < FEWEST_FILTERS or math.prod(g.stride) > MOST_PHASES:
        return "grid"
    if convolution_grid._sparse(tuple(grad.shape[2:]), tuple(w.shape[2:]), g, tuple(grad.shape[2:])):
        return "grid"
    if _plain(grad, w, g):
        m = winograd_of(grad.shape[0], w.shape[0], w.shape[1], tuple(sizes))
        return f"winograd {m}" if m else "direct"
    return "direct"


def _tiled(x, w, g: Geometry) -> bool:
    return (
        x.dtype.name in TILED and x.device.type == "cpu" and w.ndim == 4 and g.groups == 1 and x.numel() > 0
    )


def _plain(x, w, g: Geometry) -> bool:
    """Whether Winograd's may be taken at all."""
    return (
        allowed["winograd"]
        and x.dtype.name == "float32"
        and w.shape[2] == w.shape[3] == 3
        and g.stride == (1, 1)
        and g.dilation == (1, 1)
    )


@functools.lru_cache(maxsize=1024)
def winograd_of(images: int, channels: int, filters: int, out: tuple[int, int]) -> int:
    """4 or 2 for F(4 × 4) or F(2 × 2), 0 where a direct sum is less work, all counted in flops of the same time.

    Measured on a Zen 5 core, float32, filters lifted at each call, in parts of PyTorch's time (F(4 × 4), F(2 × 2), direct):

    | channels, places | 1 image | 8 images |
    |---|---|---|
    | 64, 56 × 56 | 3.3, 2.1, 1.1 | 5, 1.5, 1.0 |
    | 128, 28 × 28 | 3.0, 2.1, 1.1 | 8, 2.9, 1.0 |
    | 256, 14 × 14 | 2.0, 2.2, 1.3 | 5.3, 2.8, 1.5 |
    | 512, 7 × 7 | 0.7, 1.0, 1.3 | 1.9, 2.0, 1.1 |
    """
    if min(channels, filters) < register.lanes("float32"):
        return 0
    both = channels * filters
    costs = {0: both * 9 * (2 * images * math.prod(out) + PACKED)}
    for m in (2, 4):
        values = (m + 2) ** 2
        squares = images * math.prod(-(-o // m) for o in out)
        lifted = LIFTED if both * values * 4 < CACHE_BYTES else LIFTED_FAR
        costs[m] = values * (squares * (2 * both + TRANSFORMED * (channels + filters)) + lifted * both)
    return min(costs, key=costs.__getitem__)


def _computed(way: str, x, w, bias, g: Geometry, out: tuple[int, ...], turned: bool):
    """A convolution of x, or, `turned`, of a gradient to that of the input, in this way."""
    if way == "grid":
        if turned:
            return convolution_grid.input_gradient(x, w, g, out)
        return convolution_grid.forward(x, w, bias, g, out)
    kernel, dtype = tuple(w.shape[2:]), x.dtype.name
    filters = w.shape[1] if turned else w.shape[0]
    x = _readable(x)
    found = _room(x, filters, tuple(out))
    terms = _terms(bias, dtype, filters)
    shape, out = tuple(x.shape), tuple(out)
    if way == "direct":
        make = convolution_direct.gradient if turned else convolution_direct.forward
        make(dtype, shape, filters, kernel, g, out).run(x, w.contiguous(), terms, found, turned)
        return found
    before = tuple(2 - b for b in g.before) if turned else g.before
    plan = convolution_winograd.plan(dtype, int(way[-1]), shape, filters, before, out)
    plan.run(x, convolution_winograd.values(w, plan, turned), terms, found)
    return found


def _readable(x):
    """x, or a copy of it, with its pixels or its channels side by side."""
    steps = x.stride()
    return x if steps[3] == 1 or steps[1] == 1 else x.contiguous()


def channels_last(x) -> bool:
    """Whether a tensor of four dimensions has its channels side by side, as PyTorch tells it of its strides."""
    if x.is_contiguous():
        return False
    least, sizes, steps = 0, x.shape, x.stride()
    if steps[1] == 0:
        return False
    for d in (1, 3, 2, 0):
        if sizes[d] == 0 or steps[d] < least or (d == 0 and least == steps[1]):
            return False
        least = steps[d] * max(sizes[d], 1)
    return True


def _room(x, filters: int, out: tuple[int, ...]):
    """An empty result in the layout of x."""
    shape = (x.shape[0], filters, *out)
    if not channels_last(x):
        return x.new_empty(shape)
    down, across = out
    return x.new_empty_strided(shape, (down * across * filters, 1, across * filters, filters))


def _terms(bias, dtype: str, filters: int):
    """What is added to each filter's sums: an element for every lane of every vector of filters."""
    lanes = register.lanes(dtype)
    count = -(-filters // lanes) * lanes
    if bias is None:
        return _zeros(dtype, count)
    if count == filters:
        return bias.contiguous()
    found = bias.new_zeros(count)
    found.narrow(0, 0, filters).copy_(bias)
    return found


@functools.lru_cache(maxsize=64)
def _zeros(dtype: str, count: int):
    return zeros(count, dtype=by_name[dtype], device="cpu")
