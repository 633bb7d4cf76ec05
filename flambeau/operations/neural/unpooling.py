"""Pooling turned round, pooling over random windows, and older names of padding and sampling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ..declare import checks
from ..declare.host import Result, computed, holds
from ..declare.registry import library
from ..moving.padding import pad
from ..random.random import rand
from .pooling import spread
from .resizing import grid_sample


# --- the places of maxima ------------------------------------------------------------------------------------------------------
def _output_sizes(
    who: str, input: TensorBase, n: int, window: tuple, stride: tuple, padding: tuple, given: Any
) -> list[int]:
    """The spatial sizes before pooling; those `given` may be off by less than a stride."""
    least = [(s - 1) * step - 2 * p + w for s, step, p, w in zip(input.shape[-n:], stride, padding, window)]
    if given is None:
        return least
    sizes = list(given)
    if len(sizes) == n + 2:
        sizes = sizes[2:]
    if len(sizes) != n:
        raise ValueError(
            f"{who}(): output_size should be a sequence containing {n} or {n + 2} elements, but it has {len(sizes)}"
        )
    for size, usual, step in zip(sizes, least, stride):
        if not usual - step < size < usual + step:
            raise ValueError(
                f"{who}(): invalid output_size {sizes} (each size must be within a stride of {least})"
            )
    return sizes


def _unpool(n: int) -> None:
    who = f"max_unpool{n}d"

    def function(
        input: TensorBase,
        indices: TensorBase,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        output_size: Any = None,
    ) -> TensorBase:
        if input.ndim not in (n + 1, n + 2):
            raise RuntimeError(
                f"{who}(): Input to {who} should be a {n + 1}d or {n + 2}d Tensor, but got a tensor with {input.ndim} dimensions"
            )
        window = spread(who, "kernel_size", kernel_size, n)
        step = window if stride is None else spread(who, "stride", stride, n)
        sizes = _output_sizes(who, input, n, window, step, spread(who, "padding", padding, n), output_size)
        if tuple(indices.shape) != tuple(input.shape):
            raise RuntimeError(
                f"{who}(): Expected shape of indices to be same as that of the input tensor ({list(input.shape)}) but got "
                f"{list(indices.shape)}"
            )
        checks.floating(who, input=input)
        if indices.dtype.name != "int64":
            raise RuntimeError(f"{who}(): elements in indices should be type int64 but got: {indices.dtype}")
        volume, lead = math.prod(sizes), input.shape[:-n]
        if not holds((indices >= 0) & (indices < volume)):
            wrong = next(k for k in indices.reshape(-1).tolist() if not 0 <= k < volume)
            raise RuntimeError(
                f"{who}(): Found an invalid max index: {wrong} (output volumes are of size {sizes})"
            )
        flat = input.new_zeros((*lead, volume))
        found = flat.scatter(-1, indices.flatten(-n), input.flatten(-n))
        return found.reshape(*lead, *sizes)

    function.__name__ = function.__qualname__ = who
    function.__doc__ = (
        f"The values of `max_pool{n}d` at the places it gave as `indices`, zeros elsewhere.\n\n"
        "RuntimeError for a place outside, ValueError for an `output_size` that does not fit the windows."
    )
    library("composite", f"nn.functional.{who}")(function)


for _n in (1, 2, 3):
    _unpool(_n)


# --- random windows ------------------------------------------------------------------------------------------------------------
def _fractional(n: int) -> None:
    who = f"fractional_max_pool{n}d"

    def function(
        input: TensorBase,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: TensorBase | None = None,
    ) -> Any:
        if input.ndim not in (n + 1, n + 2):
            raise RuntimeError(f"{who}(): Expected {n + 1}D or {n + 2}D tensor, but got: {list(input.shape)}")
        checks.floating(who, input=input)
        if 0 in input.shape[-n - 1 :]:
            raise RuntimeError(
                f"{who}(): Expected input to have non-zero size for non-batch dimensions, but got {list(input.shape)}"
            )
        if (output_size is None) == (output_ratio is None):
            raise ValueError(f"{who}(): exactly one of output_size and output_ratio must be given")
        window = spread(who, "kernel_size", kernel_size, n)
        spatial = tuple(input.shape[-n:])
        if output_ratio is not None:
            ratios = output_ratio if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * n
            sizes = tuple(int(s * r) for s, r in zip(spatial, ratios))
        else:
            sizes = spread(who, "output_size", output_size, n)
        for s, w, o in zip(spatial, window, sizes):
            if o < 1 or o + w - 1 > s:
                raise RuntimeError(f"{who}(): windows of {w} at {o} places do not fit an input of size {s}")
        x = input if input.ndim == n + 2 else input.unsqueeze(0)
        batch, channels = x.shape[:2]
        drawn = _random_samples
        if drawn is None:
            drawn = rand(batch, channels, n, dtype=x.dtype, device=x.device)
        if drawn.ndim != 3 or drawn.shape[0] < batch or tuple(drawn.shape[1:]) != (channels, n):
            raise RuntimeError(
                f"{who}(): Expected _random_samples of shape ({batch}, {channels}, {n}), or of more images, got "
                f"{tuple(drawn.shape)}"
            )
        if drawn.dtype is not x.dtype:
            raise RuntimeError(
                f"{who}(): Expected _random_samples of the input's dtype {x.dtype}, got {drawn.dtype}"
            )
        rule = Result((batch, channels, math.prod(sizes) * math.prod(window)), by_name["int64"])
        drawn = drawn[:batch].detach().double()
        places = computed(rule, lambda u: _window_places(u, spatial, sizes, window), drawn)
        gathered = x.flatten(2).gather(2, places).reshape(batch, channels, *sizes, math.prod(window))
        values, which = gathered.max(-1)
        values = values if input.ndim == n + 2 else values.squeeze(0)
        if not return_indices:
            return values
        at = places.reshape(gathered.shape).gather(-1, which.unsqueeze(-1)).squeeze(-1)
        return values, at if input.ndim == n + 2 else at.squeeze(0)

    function.__name__ = function.__qualname__ = who
    function.__doc__ = (
        "Maxima of windows whose places are drawn, so that the output has any size (B. Graham, Fractional max-pooling, 2014).\n\n"
        "`output_size` or `output_ratio` says how large it is; `_random_samples` in [0, 1), one for each dimension of each image "
        "and channel, decide the places."
    )
    library("composite", f"nn.functional.{who}")(function)


def _window_places(u: Any, spatial: tuple, sizes: tuple, window: tuple) -> Any:
    """Where the elements of all windows stand, one line an image and channel."""
    import numpy as np

    batch, channels, n = u.shape
    u = u[..., ::-1] if n == 2 else u  # PyTorch's order: (width, height), but (depth, height, width)
    place = np.zeros((batch, channels, *sizes, *window), "int64")
    for d in range(n):
        starts = _starts(u[..., d], spatial[d], sizes[d], window[d])
        along = starts[..., None] + np.arange(window[d])
        shape = [batch, channels] + [1] * (2 * n)
        shape[2 + d], shape[2 + n + d] = sizes[d], window[d]
        place = place * spatial[d] + along.reshape(shape)
    return place.reshape(batch, channels, -1)


def _starts(u: Any, size: int, count: int, window: int) -> Any:
    """Where windows begin: ⌊α (i + u)⌋ - ⌊α u⌋, the last one at the end."""
    import numpy as np

    if count == 1:
        return np.full((*u.shape, 1), size - window)
    alpha = (size - window) / (count - 1)
    i = np.arange(count)
    starts = ((i + u[..., None]) * alpha).astype("int64") - (u[..., None] * alpha).astype("int64")
    starts[..., -1] = size - window
    return starts


for _n in (2, 3):
    _fractional(_n)


# --- older names -----------------------------------------------------------------------------------------------------------------
@library("composite", "constant_pad_nd")
def constant_pad_nd(input: TensorBase, pad_: Sequence[int], value: float = 0) -> TensorBase:
    """`nn.functional.pad` with a constant."""
    return pad(input, tuple(pad_), "constant", value)


def _sampler(n: int) -> None:
    def function(
        input: TensorBase, grid: TensorBase, interpolation_mode: int, padding_mode: int, align_corners: bool
    ) -> TensorBase:
        modes, paddings = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
        return grid_sample(input, grid, modes[interpolation_mode], paddings[padding_mode], align_corners)

    function.__name__ = function.__qualname__ = f"grid_sampler_{n}d"
    function.__doc__ = "`nn.functional.grid_sample`, its modes by number."
    library("composite", function.__name__)(function)


for _n in (2, 3):
    _sampler(_n)
