"""Matrices turned in registers: the rows of the source become columns, so many at a time as a vector has lanes."""

from __future__ import annotations

from typing import NamedTuple

from .. import target
from ..irtext import Function, Module, Value, i64
from ..lower import ITEMSIZE, REGISTER, Lowering
from .register import lanes


class Turn(NamedTuple):
    """to[j, i] = source[i, j] for `rows` rows i, at most as many as lanes, and `columns` columns j.

    Of `to` whole vectors are written, up to a multiple of the lanes in j: what no row gives is one of the others' numbers.
    """

    dtype: str

    def text(self, symbol: str) -> str:
        module = Module(target.llvm().get_default_triple())
        arguments = "ptr noalias %source, i64 %row, i64 %rows, i64 %columns, ptr noalias %to, i64 %step"
        f = Function(module, f"define void @{symbol}({arguments})")
        _write(f, self.dtype)
        f.do("ret void")
        return str(module)


def _write(f: Function, dtype: str) -> None:
    n, size = lanes(dtype), ITEMSIZE[dtype]
    low, vector = Lowering(f, n), f"<{n} x {REGISTER[dtype]}>"
    spelled = f"v{n}{'f32' if size == 4 else 'f64'}"
    source, to = Value("ptr", "%source"), Value("ptr", "%to")
    row, rows, columns, step = (Value("i64", name) for name in ("%row", "%rows", "%columns", "%step"))
    last = f.binary("sub", rows, i64(1))
    starts = []
    for i in range(n):
        own = low.select(f.op("i1", f"icmp slt i64 {i}, {last.name}"), i64(i), last)
        starts.append(f.gep("i8", source, f.mul(row, own)))

    def block(j: Value, mask: Value | None) -> None:
        read = []
        for start in starts:
            place = f.gep("i8", start, f.mul(j, i64(size)))
            if mask is None:
                read.append(f.load(vector, place, size))
            else:
                place = Value(f"ptr align {size}", place.name)
                zero = Value(vector, "zeroinitializer")
                read.append(f.call(vector, f"llvm.masked.load.{spelled}.p0", place, mask, zero))
        here = f.gep("i8", to, f.mul(j, step))
        for value in turned(f, read):
            f.store(value, here, size)
            here = f.gep("i8", here, step)

    def whole(j: Value, _) -> list[Value]:
        block(j, None)
        return []

    middle = f.binary("and", columns, i64(-n))
    f.loop(i64(0), middle, i64(n), [], whole)

    def part() -> list[Value]:
        left = low.splat(f.binary("sub", columns, middle))
        block(middle, f.op(f"<{n} x i1>", f"icmp sgt {left}, {low.iota(64).name}"))
        return []

    f.when(f.op("i1", f"icmp slt {middle}, {columns.name}"), part)


def turned(f: Function, block: list[Value]) -> list[Value]:
    """The transpose of a square of vectors: halves are exchanged between vectors that are 1, 2, 4 … apart."""
    n, distance = len(block), 1
    while distance < n:
        new = list(block)
        for k in range(n):
            if k & distance:
                continue
            a, b = block[k], block[k + distance]
            low = [j if not j & distance else n + j - distance for j in range(n)]
            high = [j + distance if not j & distance else n + j for j in range(n)]
            new[k], new[k + distance] = (
                f.op(a.type, f"shufflevector {a}, {b}, <{n} x i32> <{', '.join(f'i32 {p}' for p in picks)}>")
                for picks in (low, high)
            )
        block, distance = new, distance * 2
    return block
