"""Which way a convolution or a gradient of one is computed: chosen by shapes, dtype and device alone.

| way | what it takes |
|---|---|
| `winograd` | float32, windows of 3 × 3 at stride 1 and dilation 1, where that is the least work (`winograd_of`) |
| `planes` | float32 and float64, windows of 1 × 1 at stride 1, pixels side by side |
| `spaced` | the same at other strides: the pixels that are read are brought together first |
| `product` | float32 and float64, windows of 1 × 1 that make one place, that of the first pixel |
| `direct` | float32 and float64 in two dimensions without groups, where vectors of filters are filled and sums are long |
| `depthwise` | float32, float64 and halves in one and two dimensions, a channel of the input a group, strides of 1 and 2 |
| `weights` | the weight's gradient of float32 and float64, but for groups of few filters; else `winograd`, or `product` of few places |
| `strips`, `apart` | groups of few filters, as depthwise; of many, each by the ways above |
| `lifted` | one and three dimensions, by those above |
| `grid` | other groups, few filters, short sums; what it refuses goes an element at a time |
| `implicit` | devices other than the host: floats and integers, but few filters a group |

Halves take the ways of `half_families.py`.

`winograd`, `planes` and `direct` read and write images as they lie, pixels or channels side by side.  Whichever way it took, and without
data too, the result of two dimensions has the layout of its input; those of one and of three have their places side by side.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from ....codegen.tiles import register
from ....core.base import prepacked
from ....core.base.dtypes import by_name
from ....core.base.tensor import TensorBase
from ....core.make.create import zeros
from . import depthwise
from . import direct as convolution_direct
from . import grid as convolution_grid
from . import grouped as convolution_grouped
from . import implicit as convolution_implicit
from . import lifted as convolution_lifted
from . import planes as convolution_planes
from . import weights as convolution_weights
from . import winograd as convolution_winograd
from . import winograd_weights as convolution_winograd_weights
from .grid import TILED, Geometry
from .winograd import computed_in

MOST_PHASES = 16
# Measured on a Zen 5 core, 8 images of 28 × 28, µs on a grid / direct:
#   stride 1, 3 × 3, filters 8, 16, 32, 64:  3 channels 30/56, 44/56, 73/77, 131/144;  32 channels 185/356, 328/359, 607/532, 1297/1101
#   stride 2, 3 × 3, filters 8, 16, 32, 64:  3 channels 22/22, 26/22, 35/28, 52/47;    32 channels 137/112, 176/111, 258/157, 418/282
FEWEST_FILTERS = {1: 32, 2: 8}  # by stride, 2 for all others
SHORTEST_SUM = {1: 48, 2: 16}
FEWEST_IN_PLANES = 8, 24  # filters, channels
# Up to which a grid costs more to lay out than the rest; a quarter of them where sums are short.
FEW_PRODUCTS = 1 << 20
allowed = {"winograd": True}  # flambeau.backends.cpu.allow_winograd
# Flops that other work of F(m × m, 3 × 3) costs in the time of: for each element transformed, for each of the filters' values
# while they fit the cache, and beyond; and for a call.
TRANSFORMED, LIFTED, LIFTED_FAR, CACHE_BYTES = 32, 20, 80, 1 << 24
FEW_FILTERS = 4 / 3  # where a direct sum is not the fastest way without Winograd's
STARTED = 500_000
MOST_BYTES = 1 << 25  # that the values of a row of squares may take, and the sums
# Turned filters of 1 × 1 are turned back where terms lie so many bytes apart that they drive each other out of the nearest cache, and many
# places read them: by 1024 × 256, 256 places take 0.6 of the time, 64 take 1.1.
FAR_TERMS, MANY_PLACES = 2048, 128
PACKED = 20  # for each element of filters that are packed for a direct sum


def forward(x, w, bias, g: Geometry, out: tuple[int, ...], line: bool = False):
    """`line`: one row of pixels stands for a convolution of one dimension."""
    if on_tile(x, w, g, out, False):
        return convolution_implicit.forward(
            x, w, bias, g, empty_result(x, w.shape[0], out, line or x.ndim != 4)
        )
    way = way_of(x, w, g, out, False)
    if way == "grid":
        return laid_as(x, convolution_grid.forward(x, w, bias, g, out), line)
    if way == "depthwise":
        return laid_as(x, depthwise.forward(x, w, bias, g, out))
    if way == "strips":
        return laid_as(x, convolution_grouped.forward(x, w, bias, g, out))
    if way == "apart":
        made = w.shape[0] // g.groups
        by_one = convolution_grouped.apart(
            lambda x, w, b, g: forward(x, w, b, g, out), x, w, bias, g, out, made
        )
        return laid_as(x, by_one)
    if way == "lifted":
        return convolution_lifted.forward(forward, x, w, bias, g, out)
    if way == "spaced":
        return computed("planes", spaced(x, g), w, bias, _NEAR, out, False, line)
    return computed(way, x, w, bias, g, out, False, line)


def way_of(x, w, g: Geometry, out: tuple[int, ...], turned: bool) -> str:
    """The way of a convolution, or, `turned`, of the gradient in its input."""
    if x.device.type != "cpu":
        return "grid"
    return _way(*_selection_key(x, w, g, out), turned, allowed["winograd"])


def on_tile(x, w, g: Geometry, out, turned: bool) -> bool:
    """Whether a convolution, or, `turned`, the gradient of its input, is an implicit product on a device."""
    rows = w.shape[1] if turned else w.shape[0] // g.groups
    return convolution_implicit.takes(x, w.shape, g, out, rows, turned)


def weight_on_tile(grad, x, weight: Sequence[int], g: Geometry) -> bool:
    """The same of the gradient of a weight, of that shape."""
    return convolution_implicit.takes(x, weight, g, grad.shape[2:], weight[0] // g.groups, False)


def transposed(x, w, bias, g: Geometry, out: tuple[int, ...], line: bool = False):
    """The adjoint of a convolution in its input, and a bias."""
    if on_tile(x, w, g, out, True):
        output = empty_result(x, w.shape[1] * g.groups, out, line or x.ndim != 4)
        return convolution_implicit.input_gradient(x, w, bias, g, output)
    result = input_gradient(x, w, g, out, line)
    return result if bias is None else result.add_(bias.reshape(-1, *[1] * len(out)))


def input_gradient(grad, w, g: Geometry, sizes: tuple[int, ...], line: bool = False):
    if on_tile(grad, w, g, sizes, True):
        return transposed(grad, w, None, g, sizes, line)
    way = way_of(grad, w, g, sizes, True)
    if way == "grid":
        return laid_as(grad, convolution_grid.input_gradient(grad, w, g, sizes), line)
    if way == "depthwise":
        return laid_as(grad, depthwise.input_gradient(grad, w, g, sizes))
    if way == "strips":
        return laid_as(grad, convolution_grouped.input_gradient(grad, w, g, sizes))
    if way == "apart":
        made = w.shape[1]
        by_one = convolution_grouped.apart(
            lambda x, w, _, g: input_gradient(x, w, g, sizes), grad, w, None, g, sizes, made
        )
        return laid_as(grad, by_one)
    if way == "lifted":
        return convolution_lifted.input_gradient(input_gradient, grad, w, g, sizes)
    if way == "spaced":
        result = empty_result(grad, w.shape[1], sizes, line).zero_()
        spaced(result, g).copy_(computed("planes", grad, w, None, _NEAR, tuple(grad.shape[2:]), True, line))
        return result
    return computed(way, grad, w, None, g, sizes, True, line)


def weight_gradient(grad, x, g: Geometry, kernel: tuple[int, ...]):
    shape = (grad.shape[1], x.shape[1] // g.groups, *kernel)
    if grad.numel() and weight_on_tile(grad, x, shape, g):
        return convolution_implicit.weight_gradient(grad, x, g, x.new_empty(shape))
    return OF_WEIGHTS[weight_way_of(grad, x, g, kernel)](grad, x, g, kernel)


def weight_way_of(grad, x, g: Geometry, kernel: tuple[int, ...]) -> str:
    """The way of a weight's gradient."""
    if x.device.type != "cpu":
        return "grid"
    return _weight_way(x.dtype.name, tuple(grad.shape), tuple(x.shape), g, kernel, allowed["winograd"])


OF_WEIGHTS = {
    "grid": convolution_grid.weight_gradient,
    "depthwise": depthwise.weight_gradient,
    "weights": convolution_weights.weight_gradient,
    "product": convolution_weights.product_of_places,
    "winograd": convolution_winograd_weights.weight_gradient,
}


_NEAR = Geometry((1, 1), (0, 0), (1, 1), 1)


def spaced(x: TensorBase, g: Geometry) -> TensorBase:
    """The pixels that windows of one place read, which lie a stride apart."""
    return x[:, :, :: g.stride[0], :: g.stride[1]]


@functools.lru_cache(maxsize=1024)
def _weight_way(
    dtype: str,
    grad: tuple[int, ...],
    shape: tuple[int, ...],
    g: Geometry,
    kernel: tuple[int, ...],
    transformed: bool,
) -> str:
    if dtype not in TILED or 0 in grad or 0 in shape:
        return "grid"
    if depthwise.takes(shape[1] // g.groups, kernel, g, False):
        return "depthwise"
    if convolution_grouped.weight_in_strips(dtype, grad[1] // g.groups, kernel, g, grad[2:]):
        return "depthwise"
    if convolution_grid.sparse(shape[2:], kernel, g, grad[2:]):
        return "grid"
    plain = kernel == (3, 3) and g.groups == 1 and g.stride == (1, 1) and g.dilation == (1, 1)
    if plain and transformed and dtype == "float32":
        if convolution_winograd_weights.less_work(shape[0], shape[1], grad[1], grad[2:]):
            return "winograd"
    if set(kernel) == {1} and g.groups == 1 and _reads_alone(g, shape[2:], grad[2:]):
        if convolution_weights.few_places(grad, shape):
            return "product"
    return "weights" if convolution_weights.takes(dtype, grad[1], g) else "grid"


def _selection_key(x, w, g: Geometry, out: tuple[int, ...]):
    """All that a choice depends on."""
    return x.dtype.name, x.ndim == 4 and channels_last(x), tuple(x.shape), tuple(w.shape), g, out


@functools.lru_cache(maxsize=1024)
def _way(
    dtype: str,
    last: bool,
    shape: tuple[int, ...],
    weight: tuple[int, ...],
    g: Geometry,
    out: tuple[int, ...],
    turned: bool,
    transformed: bool,
) -> str:
    """For a convolution of x, or, `turned`, of a gradient to that of the input; `last`: its channels lie side by side."""
    if dtype not in TILED or 0 in shape:
        return "grid"
    kernel = weight[2:]
    if depthwise.takes(weight[1], kernel, g, turned):
        return "depthwise"
    if g.groups != 1:
        read, made = (weight[0] // g.groups, weight[1]) if turned else (weight[1], weight[0] // g.groups)
        return convolution_grouped.way(dtype, read, made, kernel, g, out, turned) or "grid"
    filters, channels = (weight[1], weight[0]) if turned else weight[:2]
    if (turned and math.prod(g.stride) > MOST_PHASES) or convolution_grid.sparse(
        shape[2:], kernel, g, shape[2:] if turned else out
    ):
        return "grid"
    if len(weight) != 4:
        return "lifted" if convolution_lifted.takes(dtype, filters, kernel, g) else "grid"
    near = g.stride == (1, 1) and g.dilation == (1, 1)
    if near and kernel == (3, 3) and dtype == "float32" and transformed:
        m = winograd_of(shape[0], channels, filters, out)
        if m:
            return f"winograd {m}"
    terms = channels * math.prod(kernel)
    few = FEW_PRODUCTS if terms >= SHORTEST_SUM[1] else FEW_PRODUCTS // 4
    if kernel == out == (1, 1) and near and g.before == (0, 0):
        return "product"
    if last or shape[0] * filters * math.prod(out) * terms <= few:
        return "direct"
    spots = (out, shape[2:]) if turned else (shape[2:], out)
    if kernel == (1, 1) and _reads_alone(g, *spots):
        if filters >= FEWEST_IN_PLANES[0] and channels >= FEWEST_IN_PLANES[1]:
            return "planes" if near else "spaced"
        if near:
            return "grid"
    step = 1 if turned else min(max(g.stride), 2)
    wide = filters >= FEWEST_FILTERS[step] and terms >= SHORTEST_SUM[step]
    return "direct" if wide else "grid"


def _reads_alone(g: Geometry, read: Sequence[int], made: Sequence[int]) -> bool:
    """Whether windows of one place read pixels of the image alone, the first of each stride."""
    if any(g.before) or set(g.dilation) != {1}:
        return False
    return all(m == -(-r // s) for r, m, s in zip(read, made, g.stride))


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
    return winograd_costs(images, channels, filters, out)[0]


def winograd_costs(images: int, channels: int, filters: int, out: tuple[int, ...]) -> tuple[int, float]:
    """That number, and how many flops of a direct sum's time it takes."""
    direct = 18 * channels * filters * images * math.prod(out)
    if min(channels, filters) < 8:
        return 0, direct
    lanes, few = register.lanes("float32"), FEW_FILTERS if filters < FEWEST_FILTERS[1] else 1
    costs: dict[int, float] = {0: channels * filters * 9 * (2 * few * images * math.prod(out) + PACKED)}
    filters, wide = (-(-count // lanes) * lanes for count in (filters, channels))
    both = channels * filters
    for m in (2, 4):
        values = (m + 2) ** 2
        if values * -(-out[1] // m) * (wide + filters) * 4 > MOST_BYTES:
            continue
        squares = images * math.prod(-(-o // m) for o in out)
        lifted = LIFTED if both * values * 4 < CACHE_BYTES else LIFTED_FAR
        costs[m] = values * (squares * (2 * both + TRANSFORMED * (wide + filters)) + lifted * both) + STARTED
    best = min(costs, key=costs.__getitem__)
    return best, costs[best]


def computed(way: str, x, w, bias, g: Geometry, out: tuple[int, ...], turned: bool, line: bool = False):
    """A convolution of x, or, `turned`, of a gradient to that of the input, in one of the first three ways; of halves by `direct` and
    `winograd`.
    """
    filters, dtype = w.shape[1 if turned else 0], x.dtype.name
    if way == "product":
        rows, matrix = x[:, :, 0, 0], w[:, :, 0, 0]  # a stride may pass over the other pixels
        result = rows @ (matrix if turned else matrix.t())
        result = result if bias is None else result.add_(bias)
        return laid_as(x, result.reshape(x.shape[0], filters, 1, 1), line)
    x = _readable(x, way == "planes")
    result, shape = empty_result(x, filters, out, line), tuple(x.shape)
    if way == "planes":
        terms = _zeros(dtype, filters) if bias is None else bias.contiguous()
        w = w.contiguous()
        if turned and filters * x.element_size() >= FAR_TERMS and shape[0] * math.prod(out) >= MANY_PLACES:
            w, turned = w.transpose(0, 1).contiguous(), False
        convolution_planes.plan(dtype, shape, filters).run(x, w, terms, result, turned)
        return result
    terms = _terms(bias, computed_in(dtype), filters)
    if way == "direct":
        make = convolution_direct.gradient if turned else convolution_direct.forward
        plan = make(dtype, shape, filters, tuple(w.shape[2:]), g, out)
        packed = _prepacked(w, plan, turned, convolution_direct.values)
        if packed is None:
            plan.run(x, w.contiguous(), terms, result, turned)
        else:
            plan.run(x, packed, terms, result, turned, True)
        return result
    before = (2 - g.before[0], 2 - g.before[1]) if turned else g.before
    plan = convolution_winograd.plan(dtype, int(way[-1]), shape, filters, before, out)
    packed = _prepacked(w, plan, turned, convolution_winograd.values)
    plan.run(x, convolution_winograd.values(w, plan, turned) if packed is None else packed, terms, result)
    return result


def _prepacked(w, plan, turned: bool, values):
    """The weight as `values(w, plan, turned)` lays it out, where its storage keeps that; None where it is laid out in this call."""
    return prepacked.prepack(w, (plan.layout, turned), lambda w: values(w, plan, turned))


def _readable(x, planes: bool):
    """x, or a copy of it, with its pixels or its channels side by side; all of a plane's pixels for `planes`."""
    if x.is_contiguous():
        return x
    steps = x.stride()
    if planes:
        return x if steps[3] == 1 and steps[2] == x.shape[3] else x.contiguous()
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


def laid_as(x, result, line: bool = False):
    """A result that has its pixels side by side, in the layout of x."""
    if result.ndim != 4 or line or not channels_last(x):
        return result
    return empty_result(x, result.shape[1], tuple(result.shape[2:])).copy_(result)


def empty_result(x, filters: int, out: tuple[int, ...], line: bool = False):
    """An empty result in the layout of x."""
    shape = (x.shape[0], filters, *out)
    if line or not channels_last(x):
        return x.new_empty(shape)
    down, across = out
    return x.new_empty_strided(shape, (down * across * filters, 1, across * filters, filters))


def _terms(bias, dtype: str, filters: int):
    """What is added to each filter's sums: an element for every lane of every vector of filters."""
    lanes = register.lanes(dtype)
    count = -(-filters // lanes) * lanes
    if bias is None:
        return _zeros(dtype, count)
    bias = bias.to(by_name[dtype])
    if count == filters:
        return bias.contiguous()
    result = bias.new_zeros(count)
    result.narrow(0, 0, filters).copy_(bias)
    return result


@functools.lru_cache(maxsize=64)
def _zeros(dtype: str, count: int):
    return zeros(count, dtype=by_name[dtype], device="cpu")
