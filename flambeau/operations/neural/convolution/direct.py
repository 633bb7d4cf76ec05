"""Convolutions of two dimensions, and their gradients in the input, by the register tile: plans by shape."""

from __future__ import annotations

import functools

from ....codegen.tiles import register, turning
from ....codegen.tiles.epilogues import Epilogue, biased
from ....core.base.dtypes import by_name
from ....core.lib.convolution.direct import Direct
from .grid import Geometry
from .winograd import computed_in, rows_and_vectors, runs, tiles

BAND_BYTES = 3 << 17  # of a band of the input, so that it stays in the cache beside filters
FILTER_BYTES = (
    1 << 20
)  # from which a band is filled up with rows of several images, that filters be read seldom
TASKS = 16  # bands, and parts of the filters, that there should be for threads
FEWEST_ROWS = 4
SET_BYTES = 4096  # pixels so far apart would share one set of the nearest cache


def _line(size: int, kernel: int, stride: int, before: int, dilation: int) -> list[tuple]:
    """Of one dimension: for each phase its first place, how many places, [(tap, where it reads)], ascending."""
    phases = []
    for f in range(min(stride, size)):
        hits = [(k, (f + before - k * dilation) // stride) for k in range(kernel)]
        hits = [(k, e) for k, e in hits if f + before - k * dilation == e * stride]
        phases.append((f, -(-(size - f) // stride), sorted(hits, key=lambda hit: hit[1])))
    return phases


def _parts(lines: list[list[tuple]], wide: int) -> tuple[tuple, ...]:
    parts = []
    for row, rows, down in lines[0]:
        for column, columns, right in lines[1]:
            own = bool(down) and bool(right)
            parts.append(
                (
                    rows,
                    columns,
                    row,
                    column,
                    tuple(e for _, e in down) if own else (),
                    tuple(e for _, e in right) if own else (),
                    tuple(k * wide + j for k, _ in down for j, _ in right),
                )
            )
    return tuple(parts)


@functools.lru_cache(maxsize=256)
def forward(
    dtype: str,
    shape: tuple[int, ...],
    filters: int,
    kernel: tuple[int, int],
    g: Geometry,
    out: tuple[int, int],
    epilogue: Epilogue | None = None,
):
    """The driver of a convolution of an input (N, C, H, W); without an epilogue a bias is added.  Halves are computed in float32."""
    lines = [
        [(0, o, [(k, k * d - b) for k in range(n)])] for o, n, d, b in zip(out, kernel, g.dilation, g.before)
    ]
    parts = _parts(lines, kernel[1])
    return _plan(dtype, shape, filters, kernel, g.stride, (1, 1), parts, out, epilogue)


@functools.lru_cache(maxsize=256)
def gradient(
    dtype: str,
    shape: tuple[int, ...],
    channels: int,
    kernel: tuple[int, int],
    g: Geometry,
    sizes: tuple[int, int],
):
    """The driver of the gradient in an input of `sizes`, for a gradient of `shape` (N, K, oh, ow); its filters are channels."""
    lines = [
        _line(size, n, s, b, d) for size, n, s, b, d in zip(sizes, kernel, g.stride, g.before, g.dilation)
    ]
    return _plan(dtype, shape, channels, kernel, (1, 1), g.stride, _parts(lines, kernel[1]), sizes)


def values(weight, driver, turned: bool):
    """The filters of (K, C, *), or, `turned`, of (C, K, *), as the driver packs them."""
    result = weight.new_empty(driver.values(), dtype=by_name[computed_in(weight.dtype.name)])
    driver.lay(weight.contiguous(), result, turned)
    return result


def _plan(dtype, shape, filters, kernel, stride, apart, parts, out, epilogue=None):
    converting, dtype = turning.converting(dtype), computed_in(dtype)
    ending = epilogue or biased(dtype, "columns")
    size, lanes = by_name[dtype].itemsize, register.lanes(dtype)
    most, panel = rows_and_vectors()
    vectors = -(-filters // lanes)
    panel = min(panel, vectors)
    images, channels = shape[:2]
    down = max(part[0] for part in parts)
    pitch = channels
    if pitch * stride[1] * size % SET_BYTES == 0:
        pitch += lanes
    width = stride[1] * max(part[1] for part in parts) + kernel[1]
    row = width * pitch * size * stride[0]
    weight = kernel[0] * kernel[1] * channels * filters * size
    rows = images * down
    band = max(min(BAND_BYTES // row, down), 1)
    if weight < FILTER_BYTES or band < down:
        band = max(min(band, -(-rows // TASKS)), min(FEWEST_ROWS, down))
        band = -(-down // -(-down // band))  # bands of nearly one size, each in one image
        band = band if down % band == 0 else -(-down // -(-down // band))
    else:
        band = min(max(BAND_BYTES // row // down, 1), images) * down
    panels = -(-vectors // panel)
    splits = min(panels, max(TASKS // -(-rows // band), 1))
    columns = {part[1] for part in parts}
    return Direct(
        size, lanes, tuple(shape), filters, tuple(out), tuple(stride), tuple(apart), parts, kernel[0] * kernel[1], panel, most,
        band, splits, pitch, register.address(turning.Turn(dtype)),
        tiles(dtype, vectors, panel, runs(columns, most), ending), len(ending.reads), converting,
    )  # fmt: skip
