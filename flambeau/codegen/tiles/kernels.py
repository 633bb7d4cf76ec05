"""What tiles are written with: the vector registers of a processor, and instructions on vectors of one dtype."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .. import target
from ..irtext import Function, Module, Value, i64
from ..schedule_cpu_frame import SIGNATURE
from .vectors import Vectors

# Bytes, beyond the next columns, of codes that are asked for.  One thread of a Zen 4, int4, 2048 by 8192: 10 GB/s where the same places of
# the next columns were asked for, each at its own distance and for the nearest cache, 24 in a line for the second; from the caches 25.
AHEAD = 1 << 12


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


def ahead(f: Function, columns: list[Value], line: Value, at: Value, number: int, step: int) -> Value:
    """Where to ask for codes while columns, whose lines follow one another, are read `step` bytes at a time and `at` is read of one.

    It walks through the lines of the next columns from one end to the other, and somewhat before: neighbours of memory one after the
    other, in the order in which processors ask for more themselves.
    """
    some = f.add(f.mul(line, i64(len(columns))), f.mul(at, i64(len(columns))))
    return f.gep("i8", columns[0], f.add(some, i64(number * step + AHEAD)))


class Elements(Vectors):
    """Vectors in a kernel, whose operands and numbers stand where all kernels have them."""

    def data(self, k: int) -> Value:
        return self.f.load("ptr", self.f.gep("ptr", Value("ptr", "%data"), i64(k)), 8)

    def geometry(self, k: int) -> Value:
        return self.f.load("i64", self.f.gep("i64", Value("ptr", "%geometry"), i64(k)), 8)
