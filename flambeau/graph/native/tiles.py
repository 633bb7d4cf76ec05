"""Products and convolutions by register tiles, as instructions: the walk over panels of columns and tiles of rows, whose sizes are known.

The right operand is read in panels, a few vectors of columns for all terms of all taps; see `core/lib/products/panels.pyx`.  What is
known when a library is made is laid out then; what is computed is laid out in the workspace, or read where it stands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from ...codegen.irtext import Function, Value, i64
from ...codegen.tiles import register
from ...codegen.tiles.epilogues import Epilogue
from ...codegen.tiles.panels import shape as shape_of
from ...codegen.tiles.register import Register
from .parts import Parts, at, nest, put, stack_buffer

WORDS = register._OPERANDS + 3 * register.MOST  # of a tile's arguments


class Right(NamedTuple):
    """A right operand: so many columns for each of the terms of each tap; how far these are apart, in bytes."""

    taps: int
    terms: int
    columns: int
    tap: int
    term: int
    column: int


class Operand(NamedTuple):
    """An operand of an epilogue: bytes from row to row, and from column to column."""

    row: int
    column: int


class Rows(NamedTuple):
    """The left operand, and where results go, in bytes; `turned`: rows are side by side in c."""

    height: int
    row: int
    term: int
    offsets: tuple[int, ...]  # of the taps
    c_row: int
    c_column: int
    turned: bool


class Panels(NamedTuple):
    """Panels of one width after one another: the first column, vectors of each, how many, and how many columns of each exist."""

    first: int
    vectors: int
    times: int
    exist: int


def panels_of(columns: int, size: int) -> list[Panels]:
    """How columns are cut: whole panels, and a last one, which takes a vector of its neighbour's where it would have a single one."""
    lanes, shape = shape_of(size)
    most = len(shape.tallest) - 1
    total = -(-columns // lanes)
    cut = [most] * (total // most) + ([total % most] if total % most else [])
    if most > 2 and len(cut) > 1 and cut[-1] == 1:
        cut[-2:] = [most - 1, 2]
    result: list[Panels] = []
    first = 0
    for vectors in cut:
        exist = min(vectors * lanes, columns - first)
        before = result[-1] if result else None
        if before is not None and (before.vectors, before.exist) == (vectors, exist):
            result[-1] = before._replace(times=before.times + 1)
        else:
            result.append(Panels(first, vectors, 1, exist))
        first += vectors * lanes
    return result


def tiles_of(rows: int, tallest: int) -> list[tuple[int, int, int]]:
    """How rows are cut: the first row, the height of a tile, and how many of them; where few would be left, the last two share."""
    result: list[tuple[int, int, int]] = []
    first = 0
    while first < rows:
        left = rows - first
        height = left if left <= tallest else tallest
        if tallest < left < 2 * tallest and 2 * (left - tallest) < tallest:
            height = (left + 1) // 2
        if result and result[-1][1] == height:
            result[-1] = (result[-1][0], height, result[-1][2] + 1)
        else:
            result.append((first, height, 1))
        first += height
    return result


def laid_bytes(right: Right, size: int) -> int:
    """Bytes of a right operand that is laid out."""
    lanes = shape_of(size)[0]
    return -(-right.columns // lanes) * lanes * right.taps * right.terms * size


def laid(right: np.ndarray) -> np.ndarray:
    """An operand of shape (taps, terms, columns) as panels one after another; what does not exist is 0."""
    size = right.dtype.itemsize
    lanes, parts = shape_of(size)[0], []
    for panel in panels_of(right.shape[2], size):
        for k in range(panel.times):
            first = panel.first + k * panel.vectors * lanes
            whole = np.zeros((*right.shape[:2], panel.vectors * lanes), right.dtype)
            whole[:, :, : panel.exist] = right[:, :, first : first + panel.exist]
            parts.append(whole.ravel())
    return np.concatenate(parts)


def lay(f: Function, right: Right, size: int, to: Value, source: Value) -> None:
    """Lay an operand out in memory."""
    lanes, kind = shape_of(size)[0], f"i{8 * size}"
    for panel in panels_of(right.columns, size):
        wide = panel.vectors * lanes

        def one(pointers: list[Value], _: Value) -> None:
            f.store(f.load(kind, pointers[1], size), pointers[0], size)

        whole = right.taps * right.terms * wide * size
        sizes = (panel.times, right.taps, right.terms, panel.exist)
        steps = [
            (whole, right.terms * wide * size, wide * size, size),
            (wide * right.column, right.tap, right.term, right.column),
        ]
        begin = [
            at(f, to, panel.first * right.taps * right.terms * size),
            at(f, source, panel.first * right.column),
        ]
        nest(f, sizes, begin, steps, one)
        if panel.exist < wide:  # read with the others, and in no result
            rest = (panel.times, right.taps * right.terms, wide - panel.exist)
            begin = [at(f, begin[0], panel.exist * size)]

            def zero(pointers: list[Value], _: Value) -> None:
                f.store(Value(kind, "0"), pointers[0], size)

            nest(f, rest, begin, [(whole, wide * size, size)], zero)


def multiply(
    parts: Parts,
    name: str,
    dtype: str,
    size: int,
    rows: Rows,
    right: Right,
    is_laid: bool,
    epilogue: Epilogue | None,
    operands: Sequence[Operand],
) -> str:
    """A function of the addresses of the result, left, right and the epilogue's operands; its name."""
    f, given = parts.function(name, ["c", "a", "b", *(f"o{k}" for k in range(len(operands)))])
    c, a, b, *others = given
    lanes, shape = shape_of(size)
    words = stack_buffer(f, "i64", WORDS)
    put(f, words, register._ROW, i64(rows.row))
    put(f, words, register._STEP, i64(rows.term))
    put(f, words, register._OFFSETS, parts.numbers(rows.offsets))
    put(f, words, register._TERMS, i64(right.terms))
    put(f, words, register._B_VECTOR, i64(lanes * size))
    put(f, words, register._C_ROW, i64(rows.c_row))
    put(f, words, register._C_COLUMN, i64(rows.c_column))
    for k, n in enumerate((right.taps, 0, 0)):
        put(f, words, register._TAPS + k, i64(n))
    for k, operand in enumerate(operands):
        put(f, words, register._OPERANDS + 3 * k + 1, i64(operand.row))
        put(f, words, register._OPERANDS + 3 * k + 2, i64(operand.column))
    c_step = rows.c_column if rows.turned else size
    c_down = size if rows.turned else rows.c_row
    whole = (
        right.taps * right.terms * size if is_laid else size
    )  # of the right operand, from column to column
    downs = [c_down, rows.row, *(own.row for own in operands)]

    def down(pointers: list[Value], panel: Panels, ragged: bool) -> None:
        """A panel by all rows: `pointers` are those of the result, of the right operand, and of the epilogue's."""
        put(f, words, register._B, pointers[1])
        for row, height, count in tiles_of(rows.height, shape.tallest[panel.vectors]):
            symbol = parts.tile(Register(dtype, height, panel.vectors, (), rows.turned, epilogue, ragged))
            begin = [at(f, p, row * move) for p, move in zip([pointers[0], a, *pointers[2:]], downs)]
            nest(f, (count,), begin, [(height * move,) for move in downs], partial(one_tile, symbol))

    def one_tile(symbol: str, places: list[Value], _: Value) -> None:
        put(f, words, register._C, places[0])
        put(f, words, register._A, places[1])
        for k, place in enumerate(places[2:]):
            put(f, words, register._OPERANDS + 3 * k, place)
        f.call("void", symbol, words)

    for panel in panels_of(right.columns, size):
        wide = panel.vectors * lanes
        put(f, words, register._B_STEP, i64(wide * size if is_laid else right.term))
        put(f, words, register._B_TAP, i64(right.terms * wide * size if is_laid else right.tap))
        put(f, words, register._COLUMNS, i64(panel.exist))
        moves = [c_step, whole, *(own.column for own in operands)]
        begin = [at(f, p, panel.first * move) for p, move in zip([c, b, *others], moves)]
        ragged = not is_laid and panel.exist < wide
        by_rows = partial(_of_panel, down, panel, ragged)
        nest(f, (panel.times,), begin, [(wide * move,) for move in moves], by_rows)
    f.do("ret void")
    return name


def _of_panel(
    down: Callable[[list[Value], Panels, bool], None],
    panel: Panels,
    ragged: bool,
    pointers: list[Value],
    _: Value,
) -> None:
    down(pointers, panel, ragged)


def merged(
    sizes: Sequence[int], rows: int, moves: Sequence[tuple[Sequence[int], int]]
) -> tuple[tuple[int, ...], int]:
    """Outer loops that are left, and rows, where the innermost loops go on where rows end.

    `moves` has for each operand its steps along the outer loops and from row to row.
    """
    left = list(sizes)
    while left and all(own[len(left) - 1] == row * rows for own, row in moves):
        rows *= left.pop()
    return tuple(left), rows


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of what lies without gaps."""
    return tuple(math.prod(max(n, 1) for n in shape[d + 1 :]) for d in range(len(shape)))
