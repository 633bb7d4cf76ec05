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


class Elements(Vectors):
    """Vectors in a kernel, whose operands and numbers stand where all kernels have them."""

    def data(self, k: int) -> Value:
        return self.f.load("ptr", self.f.gep("ptr", Value("ptr", "%data"), i64(k)), 8)

    def geometry(self, k: int) -> Value:
        return self.f.load("i64", self.f.gep("i64", Value("ptr", "%geometry"), i64(k)), 8)
