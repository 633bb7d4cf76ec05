"""The weight's gradient of 3 × 3 windows by Winograd's F(4 × 4, 3 × 3) (`core/lib/convolution/winograd_weights.pyx`)."""

from __future__ import annotations

import functools
import math

from ....codegen.tiles import register
from ....codegen.tiles.turning import Turn, converting
from ....codegen.tiles.winograd import Transform
from ....codegen.tiles.winograd_weights import Adjoint, M, T
from ....core.base.dtypes import by_name
from ....core.base.tensor import TensorBase
from ....core.lib.convolution import winograd_weights
from .grid import Geometry
from .weights import plan
from .winograd import computed_in

# Flops that take as long as an element's way to its value, and as a sum's to the gradient, while the sums fit the cache and beyond.
TRANSFORMED, LOWERED, LOWERED_FAR, CACHE_BYTES = 25, 80, 200, 1 << 24
MOST_BYTES = 1 << 27  # of sums


def less_work(images: int, channels: int, filters: int, out: tuple[int, ...]) -> bool:
    """Whether it takes less time than the direct sum, in flops of the same time.

    Measured on a busy Zen 5 core, in parts of PyTorch's time (this way, the direct one): 8 images of 64 channels at 56 × 56 2.4, 1.3;
    128 at 28 × 28 2.5, 1.2; 256 at 14 × 14 1.3, 1.2; 512 at 7 × 7 1.7, 2.9; one image of 256 at 14 × 14 1.6, 1.5.  The last is left to the
    direct sum, whose errors are smaller.
    """
    own, least = costs(images, channels, filters, out)
    return own == least


def costs(images: int, channels: int, filters: int, out: tuple[int, ...]) -> tuple[float, float]:
    """Flops of a direct sum's time: of this way, infinite where it is not to be taken, and of the lesser of both ways."""
    direct = 18 * channels * filters * images * out[0] * out[1]
    if min(channels, filters) < register.lanes("float32") or channels * filters * T * T * 4 > MOST_BYTES:
        return math.inf, direct
    squares, both = images * -(-out[0] // M) * -(-out[1] // M), channels * filters
    lowered = LOWERED if both * T * T * 4 < CACHE_BYTES else LOWERED_FAR
    work = T * T * (squares * (2 * both + TRANSFORMED * (channels + filters)) + lowered * both)
    return (work, work) if work < direct else (math.inf, direct)


def weight_gradient(grad: TensorBase, x: TensorBase, g: Geometry, kernel: tuple[int, ...]) -> TensorBase:
    """(filters, channels, 3, 3); of halves in float32."""
    stored = x.dtype.name
    dtype = computed_in(stored)
    result = x.new_empty((grad.shape[1], x.shape[1], *kernel), dtype=by_name[dtype])
    tiles = plan(dtype, grad.shape[1], x.shape[1])
    winograd_weights.weight_gradient(
        _readable(x), _readable(grad), result, g.before, register.lanes(dtype), _steps(dtype), tiles.tiles,
        tiles.filters, tiles.rows, converting(stored),
    )  # fmt: skip
    return result


def _readable(x: TensorBase) -> TensorBase:
    """x, or a copy of it, with its pixels or its channels side by side."""
    steps = x.stride()
    return x if steps[3] == 1 or steps[1] == 1 else x.contiguous()


@functools.cache
def _steps(dtype: str) -> tuple[int, ...]:
    kinds = (Turn(dtype), Transform(dtype, M, "spread"), Adjoint(dtype, "expand"), Adjoint(dtype, "lower"))
    return tuple(register.address(kind) for kind in kinds)
