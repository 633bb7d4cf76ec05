"""Convolutions of groups on a CPU.

Groups of few filters are computed in strips as depthwise ones are, some filters at once (`codegen/tiles/depthwise.py`), those of many
filters as convolutions of their own.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from ....codegen.tiles import register
from ....codegen.tiles.depthwise import Groups
from ....core.base.tensor import TensorBase
from ....core.lib.convolution import strips
from . import depthwise
from .grid import Geometry

MOST_FILTERS = 4  # at once
MOST_TERMS = 512  # of a sum, which is added up one after another
DENSE_FROM = 32  # filters of a group from which each group is a convolution of its own


def way(
    dtype: str, read: int, made: int, kernel: tuple[int, ...], g: Geometry, out: tuple[int, ...], turned: bool
) -> str:
    """How groups that read so many channels and make so many are computed: "apart", "strips", or "" for neither.

    Measured on a Zen 5 core, 4 images, windows of 3 × 3, in parts of PyTorch's time (strips, apart, grids): 32 groups of 8 at 28 × 28 1.9,
    -, 1.3; 32 of 16 at 14 × 14 0.9, 0.9, 0.7; 4 of 32 at 56 × 56 2.5, 4.4, 1.8; 32 of 16 at 7 × 7 0.6, 0.6, 0.8.
    """
    if made >= DENSE_FROM and read * math.prod(kernel) >= DENSE_FROM:
        return "apart"
    if max(kernel) == 1 or read * math.prod(kernel) > MOST_TERMS or (turned and max(g.stride) > 1):
        return ""
    if out[-1] <= register.lanes(dtype) // 2 or not depthwise.takes(1, kernel, g, turned):
        return ""
    return "strips"


def weight_in_strips(
    dtype: str, filters: int, kernel: tuple[int, ...], g: Geometry, out: tuple[int, ...]
) -> bool:
    """Whether the weight's gradient goes channel by channel as that of depthwise convolutions."""
    lanes = register.lanes(dtype)
    few = g.groups > 1 and filters < lanes and max(kernel) > 1
    return few and out[-1] > lanes // 2 and depthwise.takes(1, kernel, g, False)


def apart(
    of_one: Callable, x: TensorBase, w: TensorBase, bias, g: Geometry, out: tuple[int, ...], made: int
) -> TensorBase:
    """Each group by a function of (x, w, bias, geometry), which makes `made` channels."""
    result = x.new_empty((x.shape[0], g.groups * made, *out))
    own, read, filters = g._replace(groups=1), x.shape[1] // g.groups, w.shape[0] // g.groups
    for k in range(g.groups):
        terms = None if bias is None else bias.narrow(0, k * made, made)
        part = of_one(x.narrow(1, k * read, read), w.narrow(0, k * filters, filters), terms, own)
        result.narrow(1, k * made, made).copy_(part)
    return result


def forward(x: TensorBase, w: TensorBase, bias: TensorBase | None, g: Geometry, out: tuple[int, ...]):
    """(N, groups · filters, *out)."""
    result = x.new_empty((x.shape[0], w.shape[0], *out))
    _run(g, x, w, x.new_zeros(1) if bias is None else bias.contiguous(), result, False)
    return result


def input_gradient(grad: TensorBase, w: TensorBase, g: Geometry, sizes: tuple[int, ...]):
    """(N, groups · channels, *sizes), for a stride of 1."""
    result = grad.new_empty((grad.shape[0], g.groups * w.shape[1], *sizes))
    before = tuple((k - 1) * d - b for k, d, b in zip(w.shape[2:], g.dilation, g.before))
    _run(g._replace(before=before), grad, w, grad.new_zeros(1), result, True)
    return result


def _run(
    g: Geometry, x: TensorBase, w: TensorBase, bias: TensorBase, result: TensorBase, turned: bool
) -> None:
    """All of it as planes of two dimensions."""
    kernel, out = tuple(w.shape[2:]), result
    stride, before, dilation = g.stride, g.before, g.dilation
    if len(kernel) == 1:
        x, out = x.unsqueeze(2), result.unsqueeze(2)
        kernel, stride, before, dilation = (1, *kernel), (1, *stride), (0, *before), (1, *dilation)
    x = x if x.stride(3) == 1 else x.contiguous()
    sizes, outs = tuple(x.shape[2:]), tuple(out.shape[2:])
    own = out.shape[1] // g.groups
    plan, filters = _plan(x.dtype.name, own, turned, kernel, stride, before, dilation, sizes, outs)
    strips.run_groups(plan, x, w.contiguous(), bias, out, g.groups, filters, turned)


@functools.lru_cache(maxsize=512)
def _plan(dtype, own, turned, kernel, stride, before, dilation, sizes, outs) -> tuple[strips.Plan, int]:
    filters, widest = _tile(own, -(-kernel[0] // stride[0]))
    lines = depthwise.bands("forward", False, kernel[0], stride[0], before[0], dilation[0], sizes[0], outs[0])
    lanes = register.lanes(dtype)
    runs = depthwise.gathered(lanes, widest, kernel[1], stride[1], before[1], dilation[1], sizes[1], outs[1])
    calls = []
    for first, count, vectors, edges, ends in runs:
        kind = Groups(dtype, kernel, stride, dilation[1], filters, turned, vectors, edges, ends)
        run = register.address(kind)
        calls += [(run, run, first, count, *line, 0) for line in lines]
    return strips.Plan(calls, dilation[0], before[1]), filters


def _tile(own: int, ages: int) -> tuple[int, int]:
    """(filters, vectors) whose sums fit the registers, with the fewest loads: an element of a filter serves all vectors, a vector of x
    all filters and rows.
    """
    choices = [
        (1 / vectors + 1 / (filters * ages), filters, vectors)
        for filters in range(1, MOST_FILTERS + 1)
        if own % filters == 0
        for vectors in range(1, depthwise.WIDEST + 1)
        if filters * ages * vectors + vectors + 2 <= depthwise.registers() or filters * vectors == 1
    ]
    return min(choices)[1:]
