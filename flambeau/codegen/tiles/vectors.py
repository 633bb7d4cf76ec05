"""Instructions on vectors of one dtype that generated tiles are written with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .. import target
from ..irtext import Function, Module, Value, i64
from ..lower import ITEMSIZE, REGISTER, Lowering


class Vectors:
    """A function over vectors of so many lanes of `dtype`."""

    def __init__(self, f: Function, dtype: str, lanes: int):
        self.f, self.lanes = f, lanes
        self.low = Lowering(f, lanes)
        self.scalar, self.size = REGISTER[dtype], ITEMSIZE[dtype]
        self.bytes = self.lanes * self.size
        self.vector = f"<{self.lanes} x {self.scalar}>"
        self.spelled = self.low.suffix(dtype)
        self.zero = Value(self.vector, "zeroinitializer")
        self.dtype = dtype

    def at(self, pointer: Value, offset: Value) -> Value:
        """So many bytes further."""
        return self.f.gep("i8", pointer, offset)

    def element(self, pointer: Value, count: Value) -> Value:
        """So many elements further."""
        return self.f.gep(self.scalar, pointer, count)

    def load(self, pointer: Value, mask: Value | None = None) -> Value:
        if mask is None:
            return self.f.load(self.vector, pointer, self.size)
        place = Value(f"ptr align {self.size}", pointer.name)
        return self.f.call(self.vector, f"llvm.masked.load.{self.spelled}.p0", place, mask, self.zero)

    def store(self, value: Value, pointer: Value, mask: Value | None = None) -> None:
        if mask is None:
            self.f.store(value, pointer, self.size)
            return
        place = Value(f"ptr align {self.size}", pointer.name)
        self.f.call("void", f"llvm.masked.store.{self.spelled}.p0", value, place, mask)

    def foresee(self, pointer: Value, near: bool = True) -> None:
        """Ask for what is read soon; any address will do.  Not `near`: for the second cache, which can wait for more lines at a time."""
        numbers = (Value("i32", str(n)) for n in (0, 3 if near else 2, 1))  # a read, how near, of data
        self.f.call("void", "llvm.prefetch.p0", pointer, *numbers)

    def first(self, count: Value) -> Value:
        """A mask of the first `count` (i64) lanes: none where it is negative."""
        iota = self.low.iota(64)
        return self.f.op(f"<{self.lanes} x i1>", f"icmp sgt {self.low.splat(count)}, {iota.name}")

    def add(self, a: Value, b: Value) -> Value:
        return self.f.binary("fadd", a, b)

    def sub(self, a: Value, b: Value) -> Value:
        return self.f.binary("fsub", a, b)

    def times(self, factor: float, a: Value) -> Value:
        return self.f.binary("fmul", a, self.low.constant(factor, self.dtype))

    def fma(self, factor: float, a: Value, b: Value) -> Value:
        """factor · a + b, rounded once."""
        number = self.low.constant(factor, self.dtype)
        return self.f.call(self.vector, f"llvm.fma.{self.spelled}", a, number, b)

    def picked(self, a: Value, b: Value, places: Sequence[int]) -> Value:
        """The elements at these places of a and b, one after the other."""
        picks = ", ".join(f"i32 {p}" for p in places)
        return self.f.op(self.vector, f"shufflevector {a}, {b}, <{self.lanes} x i32> <{picks}>")

    def turn(self, block: Sequence[Value]) -> list[Value]:
        """The transpose of a square of vectors, by instructions that processors have: first within pieces of 16 bytes, then
        pieces among vectors.
        """
        n, rows = self.lanes, list(block)
        piece = min(16 // self.size, n)
        width = 1
        while width < piece:  # pairs of neighbours, then pairs of pairs
            new: list[Value] = []
            for i in range(0, n, 2 * width):
                for k in range(width):
                    a, b = rows[i + k], rows[i + width + k]
                    for half in (0, piece // 2):
                        order = [
                            start + half + w * width + e + side * n
                            for start in range(0, n, piece)
                            for w in range(piece // (2 * width))
                            for side in (0, 1)
                            for e in range(width)
                        ]
                        new.append(self.picked(a, b, order))
            rows, width = new, 2 * width
        pieces = n // piece
        while (
            pieces > 1
        ):  # even and odd pieces of two vectors; after as many turns as halvings, they stand in order
            pieces //= 2
            rows = self._pieces(rows, piece)
        return rows

    def _pieces(self, rows: list[Value], piece: int) -> list[Value]:
        n, result = self.lanes, list(rows)
        count = n // piece
        for g in range(0, count, 2):
            for k in range(piece):
                a, b = rows[g * piece + k], rows[(g + 1) * piece + k]
                for odd in (0, 1):
                    order = [
                        side * n + (2 * w + odd) * piece + e
                        for side in (0, 1)
                        for w in range(count // 2)
                        for e in range(piece)
                    ]
                    result[(g // 2 + odd * count // 2) * piece + k] = self.picked(a, b, order)
        return result


def text(symbol: str, dtype: str, lanes: int, arguments: str, write: Callable[[Vectors], None]) -> str:
    """The module of one function without result."""
    module = Module(target.llvm().get_default_triple())
    f = Function(module, f"define void @{symbol}({arguments})")
    write(Vectors(f, dtype, lanes))
    f.do("ret void")
    return str(module)


def argument(name: str) -> Value:
    return Value("ptr", f"%{name}")


def number(name: str) -> Value:
    return Value("i64", f"%{name}")


__all__ = ["Vectors", "argument", "i64", "number", "text"]
