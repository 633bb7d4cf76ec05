"""A matrix turned in registers: how planes of channels become pixels of channels, and back.

    to[j · to_step + i] = from[i · from_step + j]        for i < rows, j < columns

Squares as wide as a register are read row by row, exchanged between registers, and stored; at the edges what does not exist
is neither read nor written.  Elements may be of another dtype on one side: halves are read as float32, or rounded once as they are
written.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from ..irtext import Value
from . import register
from .register import lanes
from .vectors import Vectors, argument, i64, number, text

AHEAD = 512  # bytes before its use that a row is requested: rows lie far apart, and the next row of an image follows soon
ARGUMENTS = "ptr noalias %from, i64 %from_step, i64 %rows, i64 %columns, ptr noalias %to, i64 %to_step"


class Turn(NamedTuple):
    """Steps are bytes; what is read are elements of `source`, what is written those of `result`, where these are named."""

    dtype: str
    source: str = ""
    result: str = ""

    def text(self, symbol: str) -> str:
        return text(symbol, self.dtype, lanes(self.dtype), ARGUMENTS, functools.partial(_write, self))


@functools.cache
def converting(dtype: str) -> tuple[int, ...]:
    """Where the functions stand that turn and convert halves of `dtype` to float32, and back; () for what is no half."""
    from .attention import Pass, address

    if dtype not in ("float16", "bfloat16"):
        return ()
    convert = [address(Pass(what, dtype)) for what in ("widen", "narrow")]
    turns = [
        register.address(turn) for turn in (Turn("float32", source=dtype), Turn("float32", result=dtype))
    ]
    return turns[0], convert[0], turns[1], convert[1]


def _write(kind: Turn, v: Vectors) -> None:
    f, n = v.f, v.lanes
    reads, writes = Vectors(f, kind.source or v.dtype, n), Vectors(f, kind.result or v.dtype, n)

    def load(pointer: Value, mask: Value | None = None) -> Value:
        return v.low.cast(reads.load(pointer, mask), reads.dtype, v.dtype)

    def store(value: Value, pointer: Value, mask: Value | None = None) -> None:
        writes.store(v.low.cast(value, v.dtype, writes.dtype), pointer, mask)

    source, to = argument("from"), argument("to")
    from_step, to_step, rows, columns = (number(k) for k in ("from_step", "to_step", "rows", "columns"))

    def whole(start: Value, end: Value, after: str) -> None:
        block = []
        for _ in range(n):
            block.append(load(start))
            v.foresee(v.at(start, i64(AHEAD)))
            start = v.at(start, from_step)
        for value in v.turn(block):
            store(value, end)
            end = v.at(end, to_step)
        f.branch(after)

    def part(start: Value, end: Value, below: Value, left: Value, after: str) -> None:
        """Fewer rows or columns: vectors are read and written up to the last that exists, under one mask each way."""
        reading, writing = v.first(left), v.first(below)
        block = []
        for k in range(n):
            exists = f.op("i1", f"icmp sgt {below}, {k}")
            block.append(load(v.low.select(exists, start, source), reading))
            v.foresee(v.at(start, i64(AHEAD)))
            start = v.at(start, from_step)
        for k, value in enumerate(v.turn(block)):
            more = f.fresh("column")
            f.branch_if(f.op("i1", f"icmp sgt {left}, {k}"), more, after)
            f.start(more)
            store(value, end, writing)
            end = v.at(end, to_step)
        f.branch(after)

    def square(i: Value, j: Value) -> list[Value]:
        left, below = f.binary("sub", columns, j), f.binary("sub", rows, i)
        start = v.at(v.at(source, f.mul(i, from_step)), f.mul(j, i64(reads.size)))
        end = v.at(v.at(to, f.mul(j, to_step)), f.mul(i, i64(writes.size)))
        full = f.binary("and", *(f.op("i1", f"icmp sge {k}, {n}") for k in (left, below)))
        yes, no, after = (f.fresh(name) for name in ("whole", "part", "end"))
        f.branch_if(full, yes, no)
        f.start(yes)
        whole(start, end, after)
        f.start(no)
        part(start, end, below, left, after)
        f.start(after)
        return []

    def along(i: Value, _: list[Value]) -> list[Value]:
        f.loop(i64(0), columns, i64(n), [], lambda j, _: square(i, j))
        return []

    f.loop(i64(0), rows, i64(n), [], along)
