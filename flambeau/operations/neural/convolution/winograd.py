"""Convolutions of 3 × 3 windows by Winograd's (codegen/tiles/winograd.py): plans by shape."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from ....codegen.tiles import register, turning, winograd
from ....codegen.tiles.epilogues import Epilogue, biased
from ....core.base.dtypes import by_name
from ....core.lib.convolution.winograd import Winograd

SHARED_BELOW = 4  # blocks of rows below which threads share each step instead
BLOCK_BYTES = 5 << 18  # of V and M together that a block of squares may take
FEWEST, MOST = 28, 112  # squares of a block
LARGE = (
    1 << 22
)  # bytes of filters' values from which a block has MANY squares at least, that they be read seldom
MANY = 64


@functools.cache
def rows_and_vectors() -> tuple[int, int]:
    """The largest tile of the processor's registers: the sums, an element of the left operand, vectors of the right one."""
    return (6, 2) if register.width() == 32 else (14, 2)


def computed_in(dtype: str) -> str:
    """The dtype of sums."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def runs(counts: Iterable[int], most: int) -> set[int]:
    """The lengths of near-equal runs of at most `most` that such counts are cut into."""
    result = set()
    for count in counts:
        parts = -(-count // most)
        result |= {count // parts, -(-count // parts)}
    return result


def tiles(dtype: str, vectors: int, panel: int, rows: set[int], epilogue: Epilogue | None = None):
    """(vectors, rows, address) of the tiles of all panels of so many vectors, the last narrower one included."""
    widths = {panel if vectors >= panel else vectors} | ({vectors % panel} - {0})
    return tuple(
        (v, n, register.address(register.Register(dtype, n, v, epilogue=epilogue)))
        for v in sorted(widths)
        for n in sorted(rows)
    )


@functools.lru_cache(maxsize=256)
def plan(
    dtype: str,
    m: int,
    shape: tuple[int, ...],
    filters: int,
    before: tuple[int, int],
    out: tuple[int, int],
    epilogue: Epilogue | None = None,
):
    """The driver for an input of `shape` (N, C, H, W); without an epilogue a bias is added.  Halves are computed in float32."""
    converting, dtype = turning.converting(dtype), computed_in(dtype)
    ending = epilogue or biased(dtype, "columns")
    lanes = register.lanes(dtype)
    most, panel = rows_and_vectors()
    vectors, channels = -(-filters // lanes), -(-shape[1] // lanes)
    panel = min(panel, vectors)
    down, across = -(-out[0] // m), -(-out[1] // m)
    rows = shape[0] * down
    each = (m + 2) ** 2 * (channels + vectors) * register.width()
    squares = min(max(BLOCK_BYTES // each, FEWEST), MOST)
    if (m + 2) ** 2 * channels * vectors * lanes * register.width() >= LARGE:
        squares = max(squares, MANY)
    block = min(max(squares // across, 1), rows)
    block = -(-rows // -(-rows // block))  # blocks of nearly one size
    shared = -(-rows // block) < SHARED_BELOW
    counts = {rows * across} if shared else {block * across, (rows - 1) % block * across + across}
    steps = tuple(
        register.address(step)
        for step in (
            turning.Turn(dtype),
            winograd.Transform(dtype, m, "spread"),
            winograd.Transform(dtype, m, "gather", ending),
            winograd.Transform(dtype, m, "lift"),
        )
    )
    return Winograd(
        m, by_name[dtype].itemsize, lanes, tuple(shape), filters, before, out, panel, most, block, shared, steps,
        tiles(dtype, vectors, panel, runs(counts, most)), converting,
    )  # fmt: skip


def values(weight, driver, turned: bool):
    """The filters' values of (K, C, 3, 3), or, `turned`, of (C, K, 3, 3) with its taps from the last to the first."""
    result = weight.new_empty(driver.values(), dtype=by_name[computed_in(weight.dtype.name)])
    driver.lift(weight.contiguous(), result, turned)
    return result
