"""Pooling over windows whose places are drawn at random."""

from __future__ import annotations

import math
from typing import Any

from ....core.base.dtypes import by_name
from ....core.base.tensor import TensorBase
from ...declare import checks
from ...declare.dtype_groups import FLOATING
from ...declare.examples import of_call
from ...declare.host import Result, computed
from ...declare.registry import leaf, library
from ...on_device import windows
from ...random.random import rand
from .pooling import ntuple, with_or_without


def _fractional(n: int) -> None:
    who = f"fractional_max_pool{n}d"

    def function(
        input: TensorBase,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: Any = False,
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
        window = ntuple(who, "kernel_size", kernel_size, n)
        spatial = tuple(input.shape[-n:])
        if output_ratio is not None:
            ratios = output_ratio if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * n
            sizes = tuple(int(s * r) for s, r in zip(spatial, ratios))
        else:
            sizes = ntuple(who, "output_size", output_size, n)
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
        places = fractional_max_places(drawn[:batch], spatial, sizes, window)
        gathered = x.flatten(2).gather(2, places).reshape(batch, channels, *sizes, math.prod(window))
        values, which = gathered.max(-1)
        values = values if input.ndim == n + 2 else values.squeeze(0)
        if not return_indices:
            return values
        at = places.reshape(gathered.shape).gather(-1, which.unsqueeze(-1)).squeeze(-1)
        return values, at if input.ndim == n + 2 else at.squeeze(0)

    function.__name__ = function.__qualname__ = who
    sizes = ", ".join(["1"] + ["5"] * n)
    function.__doc__ = (
        "max(window) of windows whose places are drawn, so that the output has any size (Graham 2014).\n\n"
        'The source is B. Graham, "Fractional max-pooling" (2014): windows begin at ⌊α (i + u)⌋ - ⌊α u⌋.\n\n'
        "`output_size` or `output_ratio` says how large it is; `_random_samples` in [0, 1), one for each dimension of each image "
        "and channel, decide the places.\n\n"
        "Shape:\n    input: (N, C, *) or (C, *); result: (N, C, *output_size) or (C, *output_size)\n\n"
        "Raises:\n    ValueError: not one of `output_size` and `output_ratio` is given\n"
        "    RuntimeError: the windows do not fit into the input"
        + of_call(
            f"nn.functional.{who}(flambeau.ones({sizes}), kernel_size=2, output_size=2).shape",
            f"flambeau.Size([{', '.join(['1'] + ['2'] * n)}])",
        )
    )
    window = "kernel_size: int | Sequence[int], output_size: int | Sequence[int] | None = None, "
    window += "output_ratio: float | Sequence[float] | None = None"
    library(
        "composite",
        f"nn.functional.{who}",
        overloads=with_or_without(window, ", _random_samples: Tensor | None = None"),
        autocast=("float32", "fallthrough"),
        dtypes=FLOATING,
    )(function)

    def with_indices(
        input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None
    ) -> tuple[TensorBase, TensorBase]:
        return function(input, kernel_size, output_size, output_ratio, True, _random_samples)

    with_indices.__name__ = with_indices.__qualname__ = f"{who}_with_indices"
    with_indices.__doc__ = (
        f"`{who}`, max(window) of windows whose places are drawn, and the flat places of the maxima.\n\n"
        "Shape:\n    input: (N, C, *) or (C, *); results: (N, C, *output_size) or (C, *output_size)\n\n"
        "Raises:\n    ValueError: not one of `output_size` and `output_ratio` is given\n"
        "    RuntimeError: the windows do not fit into the input"
        + of_call(
            f"nn.functional.{who}_with_indices(flambeau.ones({sizes}), kernel_size=2, output_size=2)[1].shape",
            f"flambeau.Size([{', '.join(['1'] + ['2'] * n)}])",
        )
    )
    library(
        "composite",
        f"nn.functional.{who}_with_indices",
        autocast=("float32", "fallthrough"),
        aten=who,
        dtypes=FLOATING,
    )(with_indices)


@leaf("library", batching="images")
def fractional_max_places(
    drawn: TensorBase, spatial: tuple[int, ...], sizes: tuple[int, ...], window: tuple[int, ...]
) -> TensorBase:
    """Where the elements of all windows stand, for numbers (N, C, dimensions) in [0, 1): (N, C, places)."""
    if not (drawn.is_cpu or drawn.is_meta):
        return windows.fractional_places(drawn.double(), spatial, sizes, window)
    rule = Result((*drawn.shape[:2], math.prod(sizes) * math.prod(window)), by_name["int64"])
    return computed(rule, lambda u: _window_places(u, spatial, sizes, window), drawn.double())


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
    return place.reshape(batch, channels, math.prod(sizes) * math.prod(window))


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
