"""Convolutions of one and of three dimensions as such of two.

A line is an image of one row.  Of a volume, `reach` planes of the input make one plane of the output: laid plane by plane with all
channels together, they are an image with so many times the channels, and those of the next plane begin one step further on.
Each function here takes the one for two dimensions.
"""

from __future__ import annotations

from collections.abc import Callable

from ....codegen.tiles import register
from ....core.base.tensor import TensorBase
from .grid import Geometry

MOST_PLANES = 64  # of padding, and of a window


def takes(dtype: str, filters: int, kernel: tuple[int, ...], g: Geometry) -> bool:
    """Whether it is computed by way of two dimensions; of few filters a volume is not."""
    if len(kernel) == 1:
        return True
    few = filters < register.lanes(dtype)
    return not few and g.dilation[0] == 1 and g.before[0] <= MOST_PLANES and kernel[0] <= MOST_PLANES


def forward(of_images: Callable, x: TensorBase, w: TensorBase, bias, g: Geometry, out: tuple[int, ...]):
    if len(out) == 1:
        return of_images(x.unsqueeze(2), w.unsqueeze(2), bias, _of_line(g), (1, *out), True).squeeze(2)
    reach, step, before, depth = w.shape[2], g.stride[0], g.before[0], out[0]
    laid = _planes(x, before, (depth - 1) * step + reach)
    own = w.permute(0, 2, 1, 3, 4).reshape(w.shape[0], -1, *w.shape[3:])
    result = x.new_empty((x.shape[0], w.shape[0], *out))
    for image, planes in zip(result, laid):
        windows = _windows(planes, 0, step, depth, reach)
        image.transpose(0, 1).copy_(of_images(windows, own, bias, _of_plane(g), out[1:]))
    return result


def input_gradient(of_images: Callable, grad: TensorBase, w: TensorBase, g: Geometry, sizes: tuple[int, ...]):
    if len(sizes) == 1:
        return of_images(grad.unsqueeze(2), w.unsqueeze(2), _of_line(g), (1, *sizes), True).squeeze(2)
    step, before, depth = g.stride[0], g.before[0], sizes[0]
    parts = []  # planes f, f + step, … of the input: their taps, the first plane of the gradient for f, how many there are
    for f in range(min(step, depth)):
        taps = [k for k in range(w.shape[2]) if (f + before - k) % step == 0]
        parts.append((f, taps, (f + before - taps[-1]) // step if taps else 0, -(-(depth - f) // step)))
    low = max(0, *(-first for _, _, first, _ in parts))
    laid = _planes(grad, low, low + max(first + count + len(taps) for _, taps, first, count in parts))
    result = grad.new_empty((grad.shape[0], w.shape[1], *sizes))
    for f, taps, first, count in parts:
        if not taps:
            result[:, :, f::step] = 0
            continue
        own = w[:, :, taps[::-1]].permute(2, 0, 1, 3, 4).reshape(-1, w.shape[1], *w.shape[3:])
        for image, planes in zip(result, laid):
            windows = _windows(planes, low + first, 1, count, len(taps))
            image[:, f::step].transpose(0, 1).copy_(of_images(windows, own, _of_plane(g), sizes[1:]))
    return result


def _of_line(g: Geometry) -> Geometry:
    return Geometry((1, *g.stride), (0, *g.before), (1, *g.dilation), 1)


def _of_plane(g: Geometry) -> Geometry:
    return Geometry(g.stride[1:], g.before[1:], g.dilation[1:], 1)


def _planes(x: TensorBase, before: int, depth: int) -> TensorBase:
    """(N, depth, C, H, W): the planes of x behind `before` planes of zeros, and zeros after them."""
    images, channels, own, *sizes = x.shape
    result = x.new_zeros((images, depth, channels, *sizes))
    count = min(own, depth - before)
    if count > 0:
        result.narrow(1, before, count).copy_(x.narrow(2, 0, count).transpose(1, 2))
    return result


def _windows(planes: TensorBase, first: int, step: int, count: int, reach: int) -> TensorBase:
    """(count, reach · C, H, W): what each plane of the output is made of, where it lies."""
    _, channels, high, wide = planes.shape
    area = high * wide
    start = planes.storage_offset() + first * channels * area
    return planes.as_strided(
        (count, reach * channels, high, wide), (step * channels * area, area, wide, 1), start
    )
