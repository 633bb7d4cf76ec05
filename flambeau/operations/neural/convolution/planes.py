"""Convolutions of windows of one place, pixels side by side: filters times planes (`core/lib/convolution/planes.pyx`)."""

from __future__ import annotations

import functools

from ....codegen.tiles import epilogues, register
from ....codegen.tiles.epilogues import Epilogue
from ....core.base.dtypes import by_name
from ....core.lib.convolution.planes import Planes
from .winograd import runs

TASKS = 16  # blocks of pixels, and parts of the filters, that there should be for threads

JOINED_FROM = 12  # parts of an image's pixels: so many idle lanes are too many


@functools.cache
def rows_and_vectors() -> tuple[int, int]:
    """The largest tile of few rows: pixels are copied for all filters, so a block of them is wide."""
    return (6, 2) if register.width() == 32 else (6, 4)


@functools.lru_cache(maxsize=256)
def plan(dtype: str, shape: tuple[int, ...], filters: int, epilogue: Epilogue | None = None):
    """The driver for an input of `shape` (N, C, H, W); without an epilogue a bias is added."""
    ending = epilogue or epilogues.biased(dtype, "rows")
    lanes = register.lanes(dtype)
    most, panel = rows_and_vectors()
    pixels = shape[2] * shape[3]
    # lanes that an image leaves idle cost more than the way by a buffer
    joined = shape[0] > 1 and -pixels % lanes * JOINED_FROM > pixels
    vectors = -(-pixels * (shape[0] if joined else 1) // lanes)
    blocks = -(-vectors // panel)
    widths = {vectors // blocks, -(-vectors // blocks)}
    rows = runs([filters], most)
    tiles = tuple(
        (v, n, register.address(register.Register(dtype, n, v, epilogue=ending)))
        for v in widths
        for n in rows
    )
    splits = min(max(TASKS // ((1 if joined else shape[0]) * blocks), 1), -(-filters // most))
    count = len(ending.reads)
    return Planes(
        by_name[dtype].itemsize, lanes, tuple(shape), filters, joined, panel, most, splits, tiles, count
    )
