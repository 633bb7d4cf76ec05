"""Depthwise convolutions on a CPU: which strips a plane is cut into (`codegen/tiles/depthwise.py`, `core/lib/convolution/strips.pyx`).

Three functions for float32 and float64, of one or two dimensions, with a channel of the input for each group and any number of
filters a channel.  `takes` says which geometries they know.  Halves are read and written as they are.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from ....codegen.tiles import register
from ....codegen.tiles.depthwise import Gather, Inner, Scatter
from ....core.base.tensor import TensorBase
from ....core.lib.convolution import strips
from ...declare.half_types import FLOAT32, HALF_TYPES
from .grid import Geometry

MOST_TAPS = (
    128  # of a window: its weights are all at hand, the ones that registers do not hold in the nearest cache
)
FARTHEST = 1 << 16  # columns of padding, and from a window's first tap to its last
WIDEST = 4  # vectors of a strip


def takes(channels: int, kernel: tuple[int, ...], g: Geometry, turned: bool) -> bool:
    """Whether a convolution (or, `turned`, an input's gradient) of groups of `channels` channels is done here."""
    if channels != 1 or g.groups == 1 or len(kernel) > 2:
        return False
    if math.prod(kernel) > MOST_TAPS or max(g.stride) > 2:
        return False
    reach = max((k - 1) * d for k, d in zip(kernel, g.dilation))
    if reach > FARTHEST or max(g.before) > FARTHEST:
        return False
    strided = max(g.stride) > 1
    return not (strided and (max(g.dilation[:-1], default=1) > 1 or (turned and g.dilation[-1] > 1)))


def takes_halves(x: TensorBase, weight: Sequence[int], g: Geometry, turned: bool) -> bool:
    """The same for a convolution of halves, or, `turned`, the gradients of one, whose filters' results are not to be added up."""
    return (
        register.width() >= 32
        and x.device.type == "cpu"
        and x.numel() > 0
        and takes(weight[1], tuple(weight[2:]), g, turned)
        and not (turned and weight[0] != g.groups)
    )


def forward(
    x: TensorBase, w: TensorBase, bias: TensorBase | None, g: Geometry, out: tuple[int, ...]
) -> TensorBase:
    """(N, groups · filters, *out)."""
    result = x.new_empty((x.shape[0], w.shape[0], *out))
    start = _computed(x.new_zeros(1) if bias is None else bias.contiguous())
    _run("forward", g, x, w, start, result, False)
    return result


def input_gradient(grad: TensorBase, w: TensorBase, g: Geometry, sizes: tuple[int, ...]) -> TensorBase:
    """(N, groups, *sizes)."""
    result = grad.new_empty((grad.shape[0], g.groups, *sizes))
    if max(g.stride) == 1:
        kernel = w.shape[2:]
        before = tuple((k - 1) * d - b for k, d, b in zip(kernel, g.dilation, g.before))
        _run("input", g._replace(before=before), grad, w, _computed(grad.new_zeros(1)), result, True)
    else:
        _run("input", g, grad, w, _computed(grad.new_zeros(1)), result, False)
    return result


def weight_gradient(grad: TensorBase, x: TensorBase, g: Geometry, kernel: tuple[int, ...]) -> TensorBase:
    """(groups · filters, channels, *kernel), one channel of each group after another."""
    channels = x.shape[1] // g.groups
    x, grad = (t if t.stride(-1) == 1 else t.contiguous() for t in (x, grad))
    result = _computed(x.new_zeros((grad.shape[1], channels, *kernel)))
    for c in range(channels):
        own = result.narrow(1, c, 1)
        _run("weight", g, x[:, c::channels], own, own, grad, False)
    return result.to(grad.dtype)


def _computed(x: TensorBase) -> TensorBase:
    """Weights and biases in what sums are computed in."""
    return x.to(FLOAT32) if x.dtype in HALF_TYPES else x


def _run(kind: str, g: Geometry, x, w, bias, out, turned: bool) -> None:
    """All of it as planes of two dimensions."""
    if out.numel() == 0 or x.numel() == 0:
        return
    kernel, stride, before, dilation = tuple(w.shape[2:]), g.stride, g.before, g.dilation
    if len(kernel) == 1:
        x, out = x.unsqueeze(2), out.unsqueeze(2)
        kernel, stride, before, dilation = (1, *kernel), (1, *stride), (0, *before), (1, *dilation)
    x = x if x.stride(3) == 1 else x.contiguous()
    out = out if out.stride(3) == 1 else out.contiguous()  # a gradient: what is written is contiguous
    sizes, outs = tuple(x.shape[2:]), tuple(out.shape[2:])
    summed = kind == "input" and x.shape[1] > out.shape[1]
    plan = _plan(kind, x.dtype.name, kernel, stride, before, dilation, sizes, outs, summed)
    strips.run(plan, kind, x, w if kind == "weight" else _computed(w.contiguous()), bias, out, turned)


@functools.lru_cache(maxsize=512)
def _plan(kind, dtype, kernel, stride, before, dilation, sizes, outs, summed) -> strips.Plan:
    """`summed`: several filters' results are added up."""
    scatters = kind == "input" and max(stride) > 1
    stored, dtype = (dtype, "float32") if dtype in ("float16", "bfloat16") else ("", dtype)
    lanes = register.lanes(dtype)
    calls = []
    for tap, rows in _parts(kernel, kind):
        part = (rows, kernel[1])
        widest = _widest(part, stride, kind, scatters)
        lines = bands(
            kind, scatters, rows, stride[0], before[0] - tap * dilation[0], dilation[0], sizes[0], outs[0]
        )
        if scatters:
            runs = _scattered(lanes, widest, kernel[1], stride[1], before[1], sizes[1], outs[1])
        else:
            runs = gathered(lanes, widest, kernel[1], stride[1], before[1], dilation[1], sizes[1], outs[1])
        for first, count, vectors, edges, ends in runs:
            if scatters:
                run, add = (
                    register.address(Scatter(dtype, part, stride, vectors, edges, ends, adds, stored))
                    for adds in (False, summed)
                )
            elif kind == "weight":
                run = add = register.address(
                    Inner(dtype, part, stride, dilation[1], vectors, edges, ends, stored)
                )
            else:
                run, add = (
                    register.address(
                        Gather(dtype, part, stride, dilation[1], vectors, edges, ends, adds, stored)
                    )
                    for adds in (False, summed)
                )
            calls += [(run, add, first, count, *band, tap * kernel[1]) for band in lines]
    return strips.Plan(calls, dilation[0], before[1])


def _parts(kernel: tuple[int, int], kind: str) -> list[tuple[int, int]]:
    """(first, count) of rows of taps: a weight's gradient has so many at a time that its sums stay in registers."""
    rows = kernel[0] if kind != "weight" else max(min(kernel[0], registers() * 3 // 4 // kernel[1]), 1)
    return [(r, min(rows, kernel[0] - r)) for r in range(0, kernel[0], rows)]


def registers() -> int:
    return 16 if register.width() == 32 else 32


def _widest(kernel: tuple[int, int], stride: tuple[int, int], kind: str, scatters: bool) -> int:
    """Vectors of a strip: as many as there is room for beside the weights."""
    taps, ages = math.prod(kernel), -(-kernel[0] // stride[0])
    if kind == "weight":
        used, each = 4, taps + ages
    elif scatters:
        used, each = taps + 2, max(kernel[0], stride[0]) * stride[1]
    else:
        used, each = taps + 2, ages + 1
    return next((v for v in (WIDEST, 3, 2) if min(used, registers() // 2) + v * each <= registers()), 1)


def bands(kind, scatters, taps, step, above, dilation, size, out) -> list[tuple[int, ...]]:
    """Rows by their remainder modulo the dilation: where they start, how many there are, and where they are all inside."""
    if scatters:
        steps = -(-(out + above) // step)
        begin = min(max(-(-above // step), 0), steps)
        end = min(max(min(size, (out - step + above) // step + 1), begin), steps)
        return [(0, 0, size, out, above, begin, end, steps)]
    result: list[tuple[int, ...]] = []
    ages, phases = -(-taps // step), min(step, taps)
    for e in range(min(dilation, out)):
        f = (e - above) % dilation
        rows, outs, own = -(-(size - f) // dilation), -(-(out - e) // dilation), (f - e + above) // dilation
        rows, steps = max(rows, 0), outs + ages - 1
        begin = min(max(-(-own // step), ages - 1, 0), steps)
        end = min((rows - phases + own) // step + 1, outs if kind == "weight" else steps)
        result.append((f, e, rows, outs, own, begin, max(end, begin), steps))
    return result


def _strips(total: int, widest: int, describe) -> list[tuple]:
    """(first vector, count, vectors, *description) of runs of equal strips; what lies in the middle of a row has no edges."""
    number = -(-total // widest)
    small, more = divmod(total, number)  # the first `more` strips have one vector more

    def first(i: int) -> int:
        return i * small + min(i, more)

    result: list[tuple] = []
    i = 0
    while i < number:
        vectors = small + (i < more)
        description = describe(first(i), vectors)
        plain = not any(map(any, description[0])) and not any(description[1])
        count = 1
        if plain:  # how many like it follow is found by halving: edges come at the end of a row only
            low, high = i, (more if i < more else number) - 1
            while low < high:
                middle = (low + high + 1) // 2
                if describe(first(middle), vectors) == description:
                    low = middle
                else:
                    high = middle - 1
            count = low - i + 1
        result.append((first(i), count, vectors, *description))
        i += count
    return result


def gathered(lanes, widest, taps, stride, before, apart, columns, outs):
    def describe(first: int, vectors: int):
        edges, ends = [], []
        for v in range(first, first + vectors):
            starts = [v * lanes * stride - before + q * apart // stride * stride for q in range(taps)]
            edges.append(tuple(s < 0 or s + stride * lanes > columns for s in starts))
            ends.append((v + 1) * lanes > outs)
        return tuple(edges), tuple(ends)

    result = _strips(-(-outs // lanes), widest, describe)
    return [(first * lanes, *rest) for first, *rest in result]


def _scattered(lanes, widest, taps, stride, before, columns, outs):
    begin, shifts = before // stride, -(-taps // stride)

    def describe(first: int, vectors: int):
        edges, ends = [], []
        for v in range(first, first + vectors):
            j = begin + v * lanes
            edges.append(tuple(j - m < 0 or j - m + lanes > columns for m in range(shifts)))
            ends.append(j * stride < before or (j + lanes) * stride - before > outs)
        return tuple(edges), tuple(ends)

    result = _strips(-(-(outs + before - begin * stride) // (stride * lanes)), widest, describe)
    return [(begin + first * lanes, *rest) for first, *rest in result]
