"""What tiles are written with: the vector registers of a processor, and instructions on vectors of one dtype."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .. import target
from ..irtext import Function, Module, Value, i64
from ..lower import ITEMSIZE, REGISTER, Lowering
from ..schedule_cpu import SIGNATURE


class Shape(NamedTuple):
    """A processor's vector registers: their bytes and their number."""

    bytes: int
    number: int


def registers() -> Shape:
    features = target.processor()[1].split(",")
    if "+avx512f" in features:
        return Shape(64, 32)
    return Shape(32, 16) if "+avx2" in features else Shape(16, 32)


@functools.cache
def sources(path: str) -> str:
    """What a kernel written in the file at `path` depends on besides what decides all kernels' code: part of its text."""
    read = Path(path).read_bytes() + Path(__file__).read_bytes()
    return hashlib.sha256(read).hexdigest()


def module_of(triple: str, write: Callable[[Function], None]) -> Module:
    """A module of one kernel, whose body is written by `write`."""
    module = Module(triple)
    f = Function(module, "define " + SIGNATURE)
    write(f)
    f.do("ret void")
    return module


class Vectors:
    """Instructions on vectors of one dtype."""

    def __init__(self, f: Function, dtype: str, lanes: int):
        self.f, self.lanes, self.low, self.dtype = f, lanes, Lowering(f, lanes), dtype
        self.scalar, self.size = REGISTER[dtype], ITEMSIZE[dtype]
        self.type = f"<{lanes} x {self.scalar}>"
        self.spelled = self.low.suffix(dtype)
        self.zero = Value(self.type, "zeroinitializer")

    def data(self, k: int) -> Value:
        return self.f.load("ptr", self.f.gep("ptr", Value("ptr", "%data"), i64(k)), 8)

    def geometry(self, k: int) -> Value:
        return self.f.load("i64", self.f.gep("i64", Value("ptr", "%geometry"), i64(k)), 8)

    def at(self, pointer: Value, elements: Value) -> Value:
        return self.f.gep(self.scalar, pointer, elements)

    def load(self, pointer: Value, mask: Value | None = None) -> Value:
        if mask is None:
            return self.f.load(self.type, pointer, self.size)
        place = Value(f"ptr align {self.size}", pointer.name)
        return self.f.call(self.type, f"llvm.masked.load.{self.spelled}.p0", place, mask, self.zero)

    def store(self, value: Value, pointer: Value, mask: Value | None = None) -> None:
        if mask is None:
            self.f.store(value, pointer, self.size)
            return
        place = Value(f"ptr align {self.size}", pointer.name)
        self.f.call("void", f"llvm.masked.store.{self.spelled}.p0", value, place, mask)

    def first(self, count: Value) -> Value:
        """A mask of the first `count` (i64) lanes."""
        return self.f.op(
            f"<{self.lanes} x i1>", f"icmp sgt {self.low.splat(count)}, {self.low.iota(64).name}"
        )
