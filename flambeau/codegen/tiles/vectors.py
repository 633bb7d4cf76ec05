"""Instructions on vectors of one dtype that generated tiles are written with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .. import target
from ..irtext import Function, Module, Value, i64
from ..lower import ITEMSIZE, REGISTER, Lowering
from .register import lanes


class Vectors:
    """A function over vectors of `dtype`, as wide as the processor's registers."""

    def __init__(self, f: Function, dtype: str):
        self.f, self.lanes = f, lanes(dtype)
        self.low = Lowering(f, self.lanes)
        self.scalar, self.size = REGISTER[dtype], ITEMSIZE[dtype]
        self.bytes = self.lanes * self.size
        self.vector = f"<{self.lanes} x {self.scalar}>"
        self.spelled = f"v{self.lanes}{'f32' if self.size == 4 else 'f64'}"
        self.zero = Value(self.vector, "zeroinitializer")
        self.dtype = dtype

    def at(self, pointer: Value, offset: Value) -> Value:
        return self.f.gep("i8", pointer, offset)

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

    def turn(self, block: Sequence[Value]) -> list[Value]:
        """The transpose of a square of vectors: halves are exchanged between vectors that are 1, 2, 4 … apart."""
        n, distance, block = self.lanes, 1, list(block)
        while distance < n:
            new = list(block)
            for k in range(n):
                if k & distance:
                    continue
                a, b = block[k], block[k + distance]
                low = [j if not j & distance else n + j - distance for j in range(n)]
                high = [j + distance if not j & distance else n + j for j in range(n)]
                new[k], new[k + distance] = (
                    self.f.op(
                        self.vector,
                        f"shufflevector {a}, {b}, <{n} x i32> <{', '.join(f'i32 {p}' for p in picks)}>",
                    )
                    for picks in (low, high)
                )
            block, distance = new, distance * 2
        return block


def text(symbol: str, dtype: str, arguments: str, write: Callable[[Vectors], None]) -> str:
    """The module of one function without result."""
    module = Module(target.llvm().get_default_triple())
    f = Function(module, f"define void @{symbol}({arguments})")
    write(Vectors(f, dtype))
    f.do("ret void")
    return str(module)


def argument(name: str) -> Value:
    return Value("ptr", f"%{name}")


def number(name: str) -> Value:
    return Value("i64", f"%{name}")


__all__ = ["Vectors", "argument", "i64", "number", "text"]
