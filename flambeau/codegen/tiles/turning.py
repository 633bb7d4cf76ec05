"""A matrix turned in registers: how planes of channels become pixels of channels, and back.

    to[j · to_step + i] = from[i · from_step + j]        for i < rows, j < columns

Squares as wide as a register are read row by row, exchanged between registers, and stored; at the edges what does not exist
is neither read nor written.
"""

from __future__ import annotations

from typing import NamedTuple

from ..irtext import Value
from .vectors import Vectors, argument, i64, number, text

ARGUMENTS = "ptr noalias %from, i64 %from_step, i64 %rows, i64 %columns, ptr noalias %to, i64 %to_step"


class Turn(NamedTuple):
    """Steps are bytes."""

    dtype: str

    def text(self, symbol: str) -> str:
        return text(symbol, self.dtype, ARGUMENTS, _write)


def _write(v: Vectors) -> None:
    f, n = v.f, v.lanes
    source, to = argument("from"), argument("to")
    from_step, to_step, rows, columns = (number(k) for k in ("from_step", "to_step", "rows", "columns"))

    def square(i: Value, j: Value) -> None:
        left, below = f.binary("sub", columns, j), f.binary("sub", rows, i)
        start = v.at(v.at(source, f.mul(i, from_step)), f.mul(j, i64(v.size)))
        end = v.at(v.at(to, f.mul(j, to_step)), f.mul(i, i64(v.size)))
        whole = f.binary("and", *(f.op("i1", f"icmp sge {k}, {n}") for k in (left, below)))
        yes, no, after = (f.fresh(name) for name in ("whole", "part", "end"))
        f.branch_if(whole, yes, no)
        for label, masked in ((yes, False), (no, True)):
            f.start(label)
            place, block = start, []
            for k in range(n):
                mask = None
                if masked:
                    exists = f.op("i1", f"icmp sgt {below}, {k}")
                    mask = v.first(v.low.select(exists, left, i64(0)))
                block.append(v.load(place, mask))
                place = v.at(place, from_step)
            place = end
            for k, value in enumerate(v.turn(block)):
                mask = None
                if masked:
                    exists = f.op("i1", f"icmp sgt {left}, {k}")
                    mask = v.first(v.low.select(exists, below, i64(0)))
                v.store(value, place, mask)
                place = v.at(place, to_step)
            f.branch(after)
        f.start(after)

    def along(i: Value, _: list[Value]) -> list[Value]:
        f.loop(i64(0), columns, i64(n), [], lambda j, _: (square(i, j), [])[1])
        return []

    f.loop(i64(0), rows, i64(n), [], along)
