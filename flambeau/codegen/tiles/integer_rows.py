"""Products of rows of bytes by columns of signed bytes, whose sums are exact in 32 bits.

    out[i, j] = start[j] + sum over k of x[i, k] · w[j, k]   modulo 2^32

Rows of x lie one after the other, or are windows of images that lie channels last: a window is runs of bytes at distances that are the same
for all windows, so nothing is laid out anew.

A weight is laid out in panels: `VECTORS` registers of columns side by side, and of each column as many terms together as one instruction
sums.  `vpdpbusd` (VNNI) adds four products of an unsigned and a signed byte to 32 bits.  Without it x is int16 and `pmaddwd` adds two
products, of which no pair leaves 32 bits; a product of bytes that sums in 16 bits (`vpmaddubsw`) would saturate.
"""

from __future__ import annotations

from functools import cache, partial
from typing import NamedTuple

from ..irtext import Function, Module, Value, i64
from .kernels import Elements, module_of, registers, sources
from .quantised_integers import has_vnni

VECTORS = 2  # of columns in a panel


class Layout(NamedTuple):
    """How this processor multiplies bytes: columns of a panel, terms of a step, the dtype of x."""

    columns: int
    terms: int
    dtype: str


@cache
def layout() -> Layout:
    register = registers().bytes
    vnni = has_vnni(register)
    return Layout(VECTORS * register // 4, 4 if vnni else 2, "uint8" if vnni else "int16")


class Product(NamedTuple):
    """Rows by panels, by registers of `lanes` sums; `terms` is 4 by VNNI, else 2.

    Data: out (rows, columns) of int32, x (rows, terms), panels (columns / width, terms / step, width, step) of int8, start
    (columns,) of int32.  Geometry: first task, where to end, columns, terms, rows.  A task is `rows` rows of a panel; the tasks of a
    panel follow each other.

    With `windows`, x is anything contiguous, and there are two data more, of int64: where in x each row begins, (rows,), and how far
    behind that each of its runs does, (runs,).  Terms are those of a run, whole steps; the geometry ends by the number of runs.
    """

    lanes: int
    terms: int
    rows: int
    windows: bool = False

    def text(self) -> str:
        return f"integer rows {tuple(self)} {sources(__file__)}"

    def module(self, triple: str) -> Module:
        return module_of(triple, lambda f: _Writer(f, self, triple).write())


def rows_at_once() -> int:
    """Rows of a tile, so that sums, a panel's vectors and one of x fit the registers."""
    return (registers().number - VECTORS - 2) // VECTORS if registers().number == 16 else 8


class _Writer(Elements):
    def __init__(self, f: Function, kernel: Product, triple: str) -> None:
        super().__init__(f, "int32", kernel.lanes)
        self.step, self.rows = kernel.terms, kernel.rows
        self.x86 = triple.startswith("x86_64")
        self.width = VECTORS * kernel.lanes
        self.item = 1 if kernel.terms == 4 else 2  # bytes of an element of x
        self.windows = kernel.windows

    def write(self) -> None:
        f = self.f
        self.out, self.x, self.panels, self.start = (self.data(k) for k in range(4))
        begin, end = self.geometry(0), self.geometry(1)
        self.columns, self.terms, rows = (self.geometry(k) for k in range(2, 5))
        if self.windows:
            self.begins, self.distances, self.runs = self.data(4), self.data(5), self.geometry(5)
        groups = f.binary("sdiv", f.add(rows, i64(self.rows - 1)), i64(self.rows))

        def task(number: Value, _: list[Value]) -> list[Value]:
            panel = f.binary("sdiv", number, groups)
            row = f.mul(f.binary("sub", number, f.mul(panel, groups)), i64(self.rows))
            last = f.add(row, i64(self.rows))
            whole = f.op("i1", f"icmp sle {last}, {rows.name}")
            f.when(whole, lambda: self.tile(row, self.rows, panel))
            begin_rest = self.low.select(whole, rows, row)
            f.loop(begin_rest, rows, i64(1), [], lambda i, _: self.tile(i, 1, panel))
            return []

        f.loop(begin, end, i64(1), [], task)

    def tile(self, row: Value, rows: int, panel: Value) -> list[Value]:
        """Some rows by a panel's columns: all terms."""
        f = self.f
        column = f.mul(panel, i64(self.width))
        terms = f.mul(self.runs, self.terms) if self.windows else self.terms
        codes = f.gep("i8", self.panels, f.mul(column, terms))
        lines = [self.line(f.add(row, i64(i))) for i in range(rows)]
        start = [
            self.load(self.element(self.start, f.add(column, i64(v * self.lanes)))) for v in range(VECTORS)
        ]
        run = partial(self.run, lines, codes)
        sums = (
            f.loop(i64(0), self.runs, i64(1), start * rows, run) if self.windows else run(None, start * rows)
        )
        for i in range(rows):
            line = self.element(self.out, f.add(f.mul(f.add(row, i64(i)), self.columns), column))
            for v in range(VECTORS):
                self.store(sums[i * VECTORS + v], self.element(line, i64(v * self.lanes)))
        return []

    def line(self, row: Value) -> Value:
        """Where a row of x begins."""
        f = self.f
        begin = f.load("i64", f.gep("i64", self.begins, row), 8) if self.windows else f.mul(row, self.terms)
        return f.gep("i8", self.x, f.mul(begin, i64(self.item)))

    def run(self, lines: list[Value], codes: Value, run: Value | None, sums: list[Value]) -> list[Value]:
        """The sums with a run of terms more; without windows a row is one run."""
        f = self.f
        if run is not None:
            distance = f.mul(f.load("i64", f.gep("i64", self.distances, run), 8), i64(self.item))
            lines = [f.gep("i8", line, distance) for line in lines]
            codes = f.gep("i8", codes, f.mul(f.mul(run, self.terms), i64(self.width)))
        return f.loop(i64(0), self.terms, i64(self.step), sums, partial(self.terms_of, lines, codes))

    def terms_of(self, lines: list[Value], codes: Value, k: Value, sums: list[Value]) -> list[Value]:
        """The sums with a step of terms more."""
        f, size = self.f, self.lanes * self.step
        place = f.gep("i8", codes, f.mul(k, i64(self.width)))
        weights = [f.load(f"<{size} x i8>", f.gep("i8", place, i64(v * size)), 1) for v in range(VECTORS)]
        if self.step == 2:
            weights = [f.op(f"<{size} x i16>", f"sext {w} to <{size} x i16>") for w in weights]
        result = []
        for i, line in enumerate(lines):
            word = f.load("i32", f.gep("i8", line, f.mul(k, i64(self.item))), 1)
            x = self.low.splat(word)
            result += [self.dot(sums[i * VECTORS + v], x, w) for v, w in enumerate(weights)]
        return result

    def dot(self, total: Value, x: Value, weight: Value) -> Value:
        """`total` and in each 32 bits the products of what x and the weight have there."""
        f, bits = self.f, 32 * self.lanes
        given = f.op(weight.type, f"bitcast {x} to {weight.type}")
        if self.step == 4:
            return f.call(self.vector, f"llvm.x86.avx512.vpdpbusd.{bits}", total, given, weight)
        if self.x86:
            name = {128: "sse2.pmadd.wd", 256: "avx2.pmadd.wd", 512: "avx512.pmaddw.d.512"}[bits]
            return f.binary("add", total, f.call(self.vector, f"llvm.x86.{name}", given, weight))
        for odd in (0, 1):
            a, b = (self.every_other(v, odd) for v in (given, weight))
            total = f.binary("add", total, f.binary("mul", a, b))
        return total

    def every_other(self, v: Value, odd: int) -> Value:
        """The even or the odd int16's as int32."""
        picks = ", ".join(f"i32 {2 * k + odd}" for k in range(self.lanes))
        half = self.f.op(
            f"<{self.lanes} x i16>", f"shufflevector {v}, {v.type} poison, <{self.lanes} x i32> <{picks}>"
        )
        return self.f.op(self.vector, f"sext {half} to {self.vector}")


@cache
def host(windows: bool = False) -> Product:
    """The product that this processor is fastest with."""
    given = layout()
    return Product(given.columns // VECTORS, given.terms, rows_at_once(), windows)


__all__ = ["Layout", "Product", "host", "layout"]
