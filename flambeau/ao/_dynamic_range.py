"""The scale and zero point of numbers whose least and largest are known."""

from __future__ import annotations

import numpy as np

LEAST_SCALE = np.float32(6.1e-5)  # below which PyTorch widens the range


def qparams_of(least: float, most: float, low: int, high: int) -> tuple[float, int]:
    """The scale and zero point by which integers from `low` to `high` hold numbers from `least` to `most`, and zero exactly.

    The sums are in double precision, as PyTorch's are; the scale is a float32.

    >>> from flambeau.ao._dynamic_range import qparams_of
    >>> qparams_of(-1.0, 3.0, 0, 127)[1]
    32
    """
    least, most = min(least, 0.0), max(most, 0.0)
    scale = (most - least) / (high - low)
    if np.float32(scale) == 0 or np.float32(scale) < 2.0**-128:
        scale = 0.1
    if scale < LEAST_SCALE:
        narrow, scale = scale, float(LEAST_SCALE)
        if least == 0.0:
            most = scale * (high - low)
        elif most == 0.0:
            least = -scale * (high - low)
        else:
            least, most = least * scale / narrow, most * scale / narrow
    by_least, by_most = low - least / scale, high - most / scale
    nearer = abs(low) - abs(least / scale) < abs(high) - abs(most / scale)
    zero_point = round(min(max(by_least if nearer else by_most, low), high))
    return float(np.float32(scale)), zero_point
