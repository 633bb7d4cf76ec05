"""Convolutions on devices as implicit products, whose image is gathered while it is copied (`codegen/schedule_gpu_tile.py`).

    forward             filters × (channels, taps)  times  (channels, taps) × (images, places)
    input's gradient    channels × (filters, taps)  times  (filters, taps) × (images, places), for each phase of the stride on its own
    weight's gradient   filters × (images, places)  times  (images, places) × (channels, taps)

all for each group.  One tap that lies on each place makes a product of the matrices as they lie, of which nothing is gathered.  Few filters
a group, as of depthwise convolutions, leave most of a rectangle's rows empty, and numbers from 2³¹ on are not divided as fast as others:
these go an element at a time (`grid.py`), and so do strides of very many phases.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

from ....core.base.tensor import TensorBase
from ....core.loops.launch import run_blocks
from ...moving.device_bodies import one_step
from .grid import MANY_PHASES, Geometry, extent

if TYPE_CHECKING:
    from ....codegen.schedule_gpu_products import Product

FEWEST_ROWS = 8  # of a rectangle
FEWEST_PLACES = (
    128  # of an image that is multiplied by itself: fewer leave most of a rectangle's columns empty
)
FARTHEST = 1 << 30  # that a window reaches
DTYPES = "float16 bfloat16 float32 float64 uint8 int8 int16 int32 int64".split()


def takes(
    x: TensorBase, weight: Sequence[int], g: Geometry, out: Sequence[int], rows: int, turned: bool
) -> bool:
    """Whether a product of `rows` a group serves, for a weight of that shape; x and the sizes `out` are those of a convolution, or,
    `turned`, of a gradient and its input.
    """
    if x.device.type == "cpu" or x.dtype.name not in DTYPES or rows < FEWEST_ROWS:
        return False
    return _fits(tuple(x.shape), tuple(weight), g, tuple(out), turned)


@functools.lru_cache(maxsize=1024)
def _fits(
    shape: tuple[int, ...], weight: tuple[int, ...], g: Geometry, out: tuple[int, ...], turned: bool
) -> bool:
    sizes, places = (out, shape[2:]) if turned else (shape[2:], out)
    phases = math.prod(min(s, n) for s, n in zip(g.stride, sizes)) if turned else 1
    most = (
        extent(weight[2:], g, places) + max(sizes) + max(g.before),
        shape[0] * math.prod(out),
        shape[0] * math.prod(places),
        math.prod(weight),
    )
    return phases <= MANY_PHASES and max(most) < FARTHEST


def forward(
    x: TensorBase, w: TensorBase, bias: TensorBase | None, g: Geometry, result: TensorBase
) -> TensorBase:
    """The result, written to a tensor of its shape."""
    shift = [-b for b in g.before]
    _correlate(result, x, w.unflatten(0, (g.groups, -1)), bias, g.stride, g.dilation, shift)
    return result


def input_gradient(
    grad: TensorBase, w: TensorBase, bias: TensorBase | None, g: Geometry, result: TensorBase
) -> TensorBase:
    """The gradient of a convolution's input, or its transposed convolution with a bias."""
    turned = w.unflatten(0, (g.groups, -1)).transpose(1, 2)
    lines = [
        _phases(*numbers) for numbers in zip(result.shape[2:], w.shape[2:], g.stride, g.before, g.dilation)
    ]
    for choice in product(*lines):
        places = [slice(first, None, s) for (first, *_), s in zip(choice, g.stride)]
        taps = [slice(tap, None, step) for _, tap, step, _, _ in choice]
        _correlate(
            result[(..., *places)],
            grad,
            turned[(..., *taps)],
            bias,
            (1,) * len(choice),
            [further for *_, further, _ in choice],
            [shift for *_, shift in choice],
        )
    return result


@functools.lru_cache(maxsize=1024)
def _phases(
    size: int, kernel: int, stride: int, before: int, dilation: int
) -> list[tuple[int, int, int, int, int]]:
    """For each of the input's first places, up to the stride: that place; the first tap that reads there, and how far it is to the next;
    how far these taps are apart in the gradient; and where the first is.

    Tap k of place f + stride · j is read at j + (f + before - dilation · k) / stride, where that is whole.
    """
    step = stride // math.gcd(stride, dilation)
    result = []
    for f in range(min(stride, size)):
        tap = next((k for k in range(min(step, kernel)) if (f + before - k * dilation) % stride == 0), kernel)
        further = -(step * dilation // stride)
        result.append((f, tap, step, further, (f + before - tap * dilation) // stride))
    return result


def weight_gradient(grad: TensorBase, x: TensorBase, g: Geometry, result: TensorBase) -> TensorBase:
    filters = result.shape[0] // g.groups
    column = one_step(grad.shape[2:], grad.stride()[2:])
    if column != 1:
        grad, column = grad.contiguous(), 1
    c, a = result.stride(), grad.stride()
    length = math.prod(grad.shape[2:])
    _launch(
        (result, grad, x),
        summed=True,
        batch=g.groups,
        m=filters,
        n=math.prod(result.shape[1:]),
        k=grad.shape[0] * length,
        c_batch=filters * c[0],
        c_row=c[0],
        c_outer=c[1],
        c_step=c[2:],
        a_batch=filters * a[1],
        a_row=a[1],
        a_outer=a[0],
        a_column=column,
        a_length=length,
        b_batch=result.shape[1] * x.stride(1),
        scale=g.stride,
        tap=g.dilation,
        shift=[-b for b in g.before],
        places=grad.shape[2:],
        taps=result.shape[2:],
    )
    return result


def _correlate(
    result: TensorBase,
    x: TensorBase,
    w: TensorBase,
    bias: TensorBase | None,
    scale: Sequence[int],
    tap: Sequence[int],
    shift: Sequence[int],
) -> None:
    """result[n, (g, o), p] = bias[g, o] + the sum over (c, k) of w[g, o, c, k] · x[n, (g, c), scale · p + tap · k + shift]."""
    if result.numel() == 0:
        return
    if w.numel() == 0:
        if bias is None:
            result.zero_()
        else:
            result.copy_(bias.reshape(-1, *[1] * len(scale)))
        return
    groups, filters, channels = w.shape[:3]
    terms = math.prod(w.shape[2:])
    if terms == channels and groups == 1 and all(s == 1 for s in scale) and not any(shift):
        if _multiply(result, x, w, bias):
            return
    length, column, outer = terms, one_step(w.shape[2:], w.stride()[2:]), 0
    if column is None:
        length, column, outer = terms // channels, one_step(w.shape[3:], w.stride()[3:]), w.stride(2)
    if column is None:
        w = w.contiguous()
        length, column, outer = terms, 1, 0
    a, c = w.stride(), result.stride()
    given: dict = {}
    if bias is not None:
        step = bias.stride(0)
        given = {"d_batch": filters * step, "d_row": step, "d_column": 0}
    _launch(
        (result, w, x) if bias is None else (result, w, x, bias),
        summed=False,
        batch=groups,
        m=filters,
        n=result.numel() // result.shape[1],
        k=terms,
        c_batch=filters * c[1],
        c_row=c[1],
        c_outer=c[0],
        c_step=c[2:],
        a_batch=a[0],
        a_row=a[1],
        a_outer=outer,
        a_column=column,
        a_length=length,
        b_batch=channels * x.stride(1),
        scale=scale,
        tap=tap,
        shift=shift,
        places=result.shape[2:],
        taps=w.shape[3:],
        **given,
    )


def _multiply(result: TensorBase, x: TensorBase, w: TensorBase, bias: TensorBase | None) -> bool:
    """The same of one tap that lies on each place: a product of matrices as they lie, if places follow each other in equal steps."""
    from ....codegen.schedule_gpu_products import Product

    images, _, *sizes = x.shape
    to, step = (one_step(t.shape[2:], t.stride()[2:]) for t in (result, x))
    if to is None or step is None or tuple(result.shape[2:]) != tuple(sizes):
        return False
    places = math.prod(sizes)
    if images == 1 or (result.stride(0), x.stride(0)) == (places * to, places * step):  # as channels last
        images, places = 1, images * places
    elif places < FEWEST_PLACES:
        return False
    kernel = Product(
        x.dtype.name,
        w.stride(2) != 1,
        x.stride(1) == 1 and step != 1,
        bias is not None,
        addend="row" if bias is not None else "",
    )
    of_bias = () if bias is None else (0, bias.stride(0), 0)
    numbers = (
        *(images, w.shape[1], places, w.shape[2]),
        *(result.stride(0), result.stride(1), to),
        *(0, w.stride(1), w.stride(2)),
        *(x.stride(0), x.stride(1), step),
        *of_bias,
    )
    tensors = (result, w, x) if bias is None else (result, w, x, bias)
    _run(kernel, tensors, numbers)
    return True


def _launch(tensors: tuple[TensorBase, ...], summed: bool, **given) -> None:
    """`tensors`: c, a, the image, and a bias where there is one; `given`: the kernel's numbers but those of the image."""
    from ....codegen import schedule_gpu_tile as tile
    from ....codegen.schedule_gpu_products import Product

    x, biased = tensors[2], len(tensors) > 3
    kernel = Product(
        x.dtype.name,
        False,
        summed,
        biased,
        addend="row" if biased else "",
        taps=x.ndim - 2,
        summed=summed,
    )
    numbers = tile.numbers(
        kernel,
        **given,
        b_image=x.stride(0),
        b_channel=x.stride(1),
        b_step=x.stride()[2:],
        size=x.shape[2:],
    )
    _run(kernel, tensors, numbers)


def _run(kernel: Product, tensors: tuple[TensorBase, ...], numbers: tuple[int, ...]) -> None:
    """Launch a product with alpha and beta 1."""
    one = 1.0 if tensors[0].dtype.is_floating_point else 1
    run_blocks(kernel, tensors, numbers, (one, one))
