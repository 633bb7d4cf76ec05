"""Where windows lie whose places are drawn, on devices."""

from __future__ import annotations

import math

from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ...core.make.create import arange
from ...core.tape.contexts import unrecorded

INT64 = by_name["int64"]


def fractional_places(
    drawn: TensorBase, spatial: tuple[int, ...], sizes: tuple[int, ...], window: tuple[int, ...]
) -> TensorBase:
    """`fractional_max_places` (`neural/pooling/fractional_pooling.py`): (N, C, places)."""
    with unrecorded():
        batch, channels, n = drawn.shape
        drawn = (
            drawn.flip(-1) if n == 2 else drawn
        )  # PyTorch's order: (width, height), but (depth, height, width)
        place = drawn.new_zeros((batch, channels, *sizes, *window), dtype=INT64)
        for d in range(n):
            starts = _starts(drawn.select(-1, d), spatial[d], sizes[d], window[d])
            along = starts.unsqueeze(-1) + arange(window[d], device=drawn.device)
            shape = [batch, channels] + [1] * (2 * n)
            shape[2 + d], shape[2 + n + d] = sizes[d], window[d]
            place = place * spatial[d] + along.reshape(shape)
        return place.reshape(batch, channels, math.prod(sizes) * math.prod(window))


def _starts(u: TensorBase, size: int, count: int, window: int) -> TensorBase:
    """⌊α (i + u)⌋ - ⌊α u⌋, the last one at the end."""
    if count == 1:
        return u.new_full((*u.shape, 1), size - window, dtype=INT64)
    alpha = (size - window) / (count - 1)
    u = u.unsqueeze(-1)
    starts = ((u + arange(count, device=u.device)) * alpha).to(INT64) - (u * alpha).to(INT64)
    starts.select(-1, count - 1).fill_(size - window)
    return starts
