"""The two products of attention by keys and values in codes of eight bits, of which each row has a scale.

Scores are the product by the transpose of a weight (`quantised.py`) for every head.  The other product sums rows of codes,

    out[i, c] = sum over rows k of weights[i, k] · codes[k, c]

where the weights have been multiplied by the scales already.  It is cut into runs of `RUN` rows, each of which leaves sums of its own;
they are added up afterwards.  So a long sequence is shared out over threads, and the order of a sum depends on its shape alone.
"""

from __future__ import annotations

from typing import NamedTuple

from ..irtext import Module, Value, i64
from . import quantised
from .kernels import module_of, sources
from .quantised import COLUMNS, ROWS, Codes, Writer

KEYS = 64  # of a task of scores
RUN = 256  # rows of a task of sums
WIDE = 4  # vectors of columns whose sums stay in registers together


def _text(kernel: tuple) -> str:
    name = type(kernel).__name__
    return f"quantised attention {name} {tuple(kernel)} {sources(__file__)} {sources(quantised.__file__)}"


class Scores(NamedTuple):
    """Queries by keys in `codes`, scaled.

    Data: out (heads, rows, keys), queries (heads, rows, terms), codes, scales; all but the codes are float32.  Geometry: first task,
    where to end, keys, terms, rows, heads of a batch, and elements from batch to batch and from head to head, of codes and of scales.
    A task is `KEYS` keys of a head.
    """

    codes: str
    lanes: int
    dtype: str = "float32"

    def text(self) -> str:
        return _text(self)

    def module(self, triple: str) -> Module:
        return module_of(triple, lambda f: _Scores(f, self).write())


class Sums(NamedTuple):
    """Sums of rows of `codes`.

    Data: out (heads, runs, rows, columns), weights (heads, rows, keys), codes; all but the codes are float32.  Geometry: first task,
    where to end, keys, columns, rows, heads of a batch, and elements of codes from batch to batch and from head to head.  A task is a
    run of a head.
    """

    codes: str
    lanes: int
    dtype: str = "float32"

    def text(self) -> str:
        return _text(self)

    def module(self, triple: str) -> Module:
        return module_of(triple, lambda f: _Sums(f, self).write())


class _Heads(Codes):
    """Tasks of heads."""

    def geometries(self, first: int, count: int) -> list[Value]:
        return [self.geometry(k) for k in range(first, first + count)]

    def parts(self, task: Value, length: Value, most: int) -> tuple[Value, Value, Value]:
        """The head of a task, and where its part of `length` begins and ends."""
        f = self.f
        parts = f.binary("sdiv", f.add(length, i64(most - 1)), i64(most))
        head, part = f.binary("sdiv", task, parts), f.binary("srem", task, parts)
        first = f.mul(part, i64(most))
        beyond = f.add(first, i64(most))
        last = self.low.select(f.op("i1", f"icmp slt {beyond}, {length.name}"), beyond, length)
        return head, first, last

    def offset(self, head: Value, heads: Value, batch_step: Value, head_step: Value) -> Value:
        """Elements before those of a head."""
        f = self.f
        batch, own = f.binary("sdiv", head, heads), f.binary("srem", head, heads)
        return f.add(f.mul(batch, batch_step), f.mul(own, head_step))


class _Scores(_Heads, Writer):
    def write(self) -> None:
        f = self.f
        out, x, codes, scales = (self.data(k) for k in range(4))
        begin, end, self.columns, self.terms, rows, heads, *steps = self.geometries(0, 10)
        self.step = self.terms

        def task(which: Value, _: list[Value]) -> list[Value]:
            head, first, last = self.parts(which, self.columns, KEYS)
            before = f.mul(head, rows)
            self.out = self.element(out, f.mul(before, self.columns))
            self.x = self.element(x, f.mul(before, self.terms))
            self.weight = f.gep("i8", codes, self.offset(head, heads, *steps[:2]))
            self.scales = self.element(scales, self.offset(head, heads, *steps[2:]))
            f.loop(first, last, i64(COLUMNS), [], lambda column, _: self.block(column, last, rows))
            return []

        f.loop(begin, end, i64(1), [], task)


class _Sums(_Heads):
    def write(self) -> None:
        f = self.f
        out, weights, codes = (self.data(k) for k in range(3))
        begin, end, keys, self.columns, rows, heads, *steps = self.geometries(0, 8)
        self.keys = keys

        def task(which: Value, _: list[Value]) -> list[Value]:
            head, first, last = self.parts(which, keys, RUN)
            before = f.add(self.offset(head, heads, *steps), f.mul(first, self.columns))
            self.codes_at = f.gep("i8", codes, before)
            self.weights_at = self.element(weights, f.add(f.mul(f.mul(head, rows), keys), first))
            self.out_at = self.element(out, f.mul(f.mul(which, rows), self.columns))
            self.rows_of(rows, f.binary("sub", last, first))
            return []

        f.loop(begin, end, i64(1), [], task)

    def rows_of(self, rows: Value, count: Value) -> None:
        """All columns of a run, some vectors at a time, then one by one."""
        f = self.f
        wide = WIDE * self.lanes
        whole = f.mul(f.binary("sdiv", self.columns, i64(wide)), i64(wide))
        many = f.mul(f.binary("sdiv", rows, i64(ROWS)), i64(ROWS))

        def part(column: Value, vectors: int, mask: Value | None) -> list[Value]:
            f.loop(i64(0), many, i64(ROWS), [], lambda i, _: self.tile(i, ROWS, column, vectors, mask, count))
            f.loop(many, rows, i64(1), [], lambda i, _: self.tile(i, 1, column, vectors, mask, count))
            return []

        f.loop(i64(0), whole, i64(wide), [], lambda c, _: part(c, WIDE, None))
        f.loop(
            whole, self.columns, i64(self.lanes), [],
            lambda c, _: part(c, 1, self.first(f.binary("sub", self.columns, c))),
        )  # fmt: skip

    def tile(
        self, row: Value, rows: int, column: Value, vectors: int, mask: Value | None, count: Value
    ) -> list[Value]:
        """Some rows of weights by some vectors of columns."""
        f = self.f
        weights = [self.element(self.weights_at, f.mul(f.add(row, i64(i)), self.keys)) for i in range(rows)]

        def key(k: Value, sums: list[Value]) -> list[Value]:
            place = f.gep("i8", self.codes_at, f.add(f.mul(k, self.columns), column))
            read = [self.wholes(f.gep("i8", place, i64(v * self.lanes)), mask) for v in range(vectors)]
            result = list(sums)
            for i, own in enumerate(weights):
                weight = self.low.splat(f.load("float", self.element(own, k), 4))
                for v in range(vectors):
                    result[i * vectors + v] = self.fused(weight, read[v], sums[i * vectors + v])
            return result

        sums = f.loop(i64(0), count, i64(1), [self.zero] * (rows * vectors), key)
        for k, value in enumerate(sums):
            i, v = divmod(k, vectors)
            at = f.add(f.mul(f.add(row, i64(i)), self.columns), column)
            self.store(value, self.element(self.out_at, f.add(at, i64(v * self.lanes))), mask)
        return []
