"""Sums, means and maxima of bags of rows of a table, and their derivatives.

A bag is a run of a list of row numbers.  Its result stays in registers, some vectors of columns at a time, while the rows are read;
rows are added in their order, so results do not depend on the number of threads.  Tables of halves are added up in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..irtext import Module, Value, i32, i64
from ..lower import ITEMSIZE
from .kernels import Elements, module_of, sources

AHEAD = 8  # rows before its use that one is requested
WIDE = 8  # vectors of columns at a time


def computed(dtype: str) -> str:
    """What elements of a table are added up in."""
    return dtype if dtype == "float64" else "float32"


class Fold(NamedTuple):
    """What stands in each bag: `mode` is sum, mean or max; `weighted` where each row has a factor.

    Data: out (bags, columns), table, numbers of rows, where bags begin and the last one ends (int64), weights, for maxima the row
    in which each stands, (bags, columns), where one is met outside: not 0.  Geometry: first bag, where to end, columns, rows of
    the table, elements from row to row, the row that is in no bag (or -1).
    """

    dtype: str
    number: str  # int32 or int64
    lanes: int
    mode: str
    weighted: bool

    def text(self) -> str:
        return f"bags {tuple(self)} {sources(__file__)}"

    def module(self, triple: str) -> Module:
        return module_of(triple, lambda f: _fold(_Bags(f, self), self))


class Spread(NamedTuple):
    """The table's gradient of a sum or a mean: to each row of a bag, the gradient of the bag is added.

    Data: gradient (rows, columns), that of the bags (bags, columns), numbers, where bags begin, weights, what is met outside.
    Geometry: first vector of columns, where to end, columns, rows, elements from row to row, the row in no bag, bags.
    """

    dtype: str
    number: str
    lanes: int
    mode: str
    weighted: bool

    def text(self) -> str:
        return f"bags spread {tuple(self)} {sources(__file__)}"

    def module(self, triple: str) -> Module:
        return module_of(triple, lambda f: _spread(_Bags(f, self), self))


class Dots(NamedTuple):
    """The weights' gradient: of each row, times the gradient of its bag, the sum.

    Data: gradient (numbers,), table, numbers, where bags begin, that of the bags (bags, columns), what is met outside.
    Geometry: as for `Fold`.
    """

    dtype: str
    number: str
    lanes: int

    def text(self) -> str:
        return f"bags dots {tuple(self)} {sources(__file__)}"

    def module(self, triple: str) -> Module:
        return module_of(triple, lambda f: _dots(_Bags(f, self), self))


class Drop(NamedTuple):
    """The table's gradient of a maximum: each element's goes to the row in which it stands, or nowhere (-1).

    Data: gradient, that of the bags, rows in which they stand, unused.  Geometry: first column, where to end, columns, bags.
    """

    dtype: str

    def text(self) -> str:
        return f"bags drop {tuple(self)} {sources(__file__)}"

    def module(self, triple: str) -> Module:
        return module_of(triple, lambda f: _drop(Elements(f, self.dtype, 1)))


class _Bags:
    """What all of these kernels read, and rows as vectors."""

    def __init__(self, f, kernel) -> None:
        self.f, self.kernel, self.lanes = f, kernel, kernel.lanes
        self.memory = Elements(f, kernel.dtype, kernel.lanes)
        self.t = Elements(f, computed(kernel.dtype), kernel.lanes)

    def load(self, pointer: Value, mask: Value | None) -> Value:
        return self.t.low.cast(self.memory.load(pointer, mask), self.kernel.dtype, self.t.dtype)

    def ask(self, numbers: Value, n: Value, end: Value, table: Value, step: Value, c: Value) -> None:
        """Ask for a row that is read soon, its columns from c on."""
        later = self.f.add(n, i64(AHEAD))
        later = self.t.low.select(self.f.op("i1", f"icmp slt {later}, {end.name}"), later, n)
        own = self.memory.element(table, self.f.add(self.f.mul(self.row(numbers, later), step), c))
        for byte in range(0, WIDE * self.lanes * self.memory.size, 64):
            place = self.f.gep("i8", own, i64(byte))
            self.f.call("void", "llvm.prefetch.p0", place, i32(0), i32(3), i32(1))

    def store(self, value: Value, pointer: Value, mask: Value | None) -> None:
        self.memory.store(self.t.low.cast(value, self.t.dtype, self.kernel.dtype), pointer, mask)

    def row(self, numbers: Value, n: Value) -> Value:
        """The n-th number, as i64."""
        kind = "i32" if self.kernel.number == "int32" else "i64"
        result = self.f.load(kind, self.f.gep(kind, numbers, n), ITEMSIZE[self.kernel.number])
        return result if kind == "i64" else self.f.op("i64", f"sext {result} to i64")

    def start(self, starts: Value, bag: Value) -> tuple[Value, Value]:
        """Where a bag begins and ends."""
        following = self.f.add(bag, i64(1))
        return tuple(self.f.load("i64", self.f.gep("i64", starts, at), 8) for at in (bag, following))  # type: ignore[return-value]

    def over(
        self,
        numbers: Value,
        ends: tuple[Value, Value],
        rows: Value,
        padding: Value,
        carried: Sequence[Value],
        body: Callable,
    ) -> tuple[list[Value], Value]:
        """Go over the numbers of a bag but the padding: body(n, row, carried); and whether one is outside the table."""
        f = self.f

        def term(n: Value, state: list[Value]) -> list[Value]:
            row, wrong = self.row(numbers, n), state[-1]
            inside = f.op("i1", f"icmp ult {row}, {rows.name}")
            used = f.binary("and", inside, f.op("i1", f"icmp ne {row}, {padding.name}"))
            new = f.when(used, lambda: body(n, row, state[:-1]), state[:-1])
            outside = f.op("i64", f"zext {f.binary('xor', inside, Value('i1', 'true'))} to i64")
            return [*new, f.binary("or", wrong, outside)]

        *result, wrong = f.loop(*ends, i64(1), [*carried, i64(0)], term)
        return result, wrong

    def note(self, status: Value, wrong: Value) -> None:
        met = self.f.op("i1", f"icmp ne {wrong}, 0")
        self.f.when(met, lambda: self.f.store(i64(1), status, 8) or [])

    def columns(
        self,
        begin: Value,
        end: Value,
        count: Value,
        do: Callable[[Value, int, Value | None], Sequence[Value]],
    ) -> None:
        """Go over the columns of vectors [begin, end), `count` in all: some vectors at a time, then one, masked."""
        f = self.f
        first, wide = f.mul(begin, i64(self.lanes)), i64(WIDE * self.lanes)
        last = f.mul(end, i64(self.lanes))
        last = self.t.low.select(f.op("i1", f"icmp slt {last}, {count.name}"), last, count)
        length = f.binary("sub", last, first)
        middle = f.add(first, f.binary("sub", length, f.binary("srem", length, wide)))
        f.loop(first, middle, wide, [], lambda c, _: do(c, WIDE, None))
        f.loop(
            middle, last, i64(self.lanes), [],
            lambda c, _: do(c, 1, self.t.first(f.binary("sub", count, c))),
        )  # fmt: skip

    def counted(self, numbers: Value, ends: tuple[Value, Value], rows: Value, padding: Value) -> Value:
        """How many rows a bag has, in every lane, at least 1."""
        f = self.f
        whole = f.binary("sub", ends[1], ends[0])
        some = f.op("i1", f"icmp sge {padding}, 0")

        def one_by_one() -> list[Value]:
            return self.over(numbers, ends, rows, padding, [i64(0)], lambda n, r, s: [f.add(s[0], i64(1))])[0]

        count = f.when(some, one_by_one, [whole])[0]
        count = self.t.low.select(f.op("i1", f"icmp sgt {count}, 0"), count, i64(1))
        return self.t.low.splat(f.op(self.t.scalar, f"sitofp {count} to {self.t.scalar}"))

    def factor(self, weights: Value, n: Value) -> Value:
        return self.t.low.splat(self.f.load(self.t.scalar, self.t.element(weights, n), self.t.size))

    def vectors_of(self, columns: Value) -> Value:
        return self.f.binary("sdiv", self.f.add(columns, i64(self.lanes - 1)), i64(self.lanes))


def _fold(b: _Bags, k: Fold) -> None:
    f, t = b.f, b.t
    out, table, numbers, starts, weights, places, status = (t.data(n) for n in range(7))
    begin, end, columns, rows, step, padding = (t.geometry(n) for n in range(6))
    vectors, whole = b.vectors_of(columns), f"<{k.lanes} x i64>"
    least = Value(t.vector, f"splat ({t.scalar} 0xFFF0000000000000)")
    last_number = f.load("i64", f.gep("i64", starts, end), 8)
    nowhere = Value(whole, "splat (i64 -1)")

    def bag(which: Value, _) -> list[Value]:
        ends, line = b.start(starts, which), f.mul(which, columns)
        count = b.counted(numbers, ends, rows, padding) if k.mode == "mean" else None

        def some(c: Value, width: int, mask: Value | None) -> list[Value]:
            def term(n: Value, row: Value, state: list[Value]) -> list[Value]:
                own = b.memory.element(table, f.add(f.mul(row, step), c))
                x = [b.load(b.memory.element(own, i64(v * k.lanes)), mask) for v in range(width)]
                if width == WIDE:
                    b.ask(numbers, n, last_number, table, step, c)
                if k.mode == "max":
                    return larger(row, x, state)
                if not k.weighted:
                    return [f.binary("fadd", s, one) for s, one in zip(state, x)]
                w = b.factor(weights, n)
                return [f.call(t.vector, f"llvm.fma.{t.spelled}", w, one, s) for s, one in zip(state, x)]

            def larger(row: Value, x: list[Value], state: list[Value]) -> list[Value]:
                """NaN is larger than all others, and the first of equals stays."""
                best, at, here = [], [], t.low.splat(row)
                for v in range(width):
                    known = f.op(f"<{k.lanes} x i1>", f"fcmp ord {state[v]}, {state[v].name}")
                    more = f.op(f"<{k.lanes} x i1>", f"fcmp ugt {x[v]}, {state[v].name}")
                    first = f.op(f"<{k.lanes} x i1>", f"icmp slt {state[width + v]}, zeroinitializer")
                    taken = f.binary("or", f.binary("and", known, more), first)
                    best.append(t.low.select(taken, x[v], state[v]))
                    at.append(f.op(whole, f"select {taken}, {here}, {state[width + v]}"))
                return best + at

            start = [least] * width + [nowhere] * width if k.mode == "max" else [t.zero] * width
            result, wrong = b.over(numbers, ends, rows, padding, start, term)
            b.note(status, wrong)
            here = f.add(line, c)
            for v in range(width):
                value, place = result[v], f.add(here, i64(v * k.lanes))
                if count is not None:
                    value = f.binary("fdiv", value, count)
                if k.mode == "max":
                    none = f.op(f"<{k.lanes} x i1>", f"icmp slt {result[width + v]}, zeroinitializer")
                    value = t.low.select(none, t.zero, value)
                    _store_places(b, result[width + v], f.gep("i64", places, place), mask)
                b.store(value, b.memory.element(out, place), mask)
            return []

        b.columns(i64(0), vectors, columns, some)
        return []

    f.loop(begin, end, i64(1), [], bag)


def _store_places(b: _Bags, value: Value, pointer: Value, mask: Value | None) -> None:
    if mask is None:
        b.f.store(value, pointer, 8)
    else:
        place = Value("ptr align 8", pointer.name)
        b.f.call("void", f"llvm.masked.store.v{b.lanes}i64.p0", value, place, mask)


def _spread(b: _Bags, k: Spread) -> None:
    f, t = b.f, b.t
    gradient, grad, numbers, starts, weights, status = (t.data(n) for n in range(6))
    begin, end, columns, rows, step, padding, bags = (t.geometry(n) for n in range(7))

    def bag(which: Value, _) -> list[Value]:
        ends, line = b.start(starts, which), f.mul(which, columns)
        count = b.counted(numbers, ends, rows, padding) if k.mode == "mean" else None

        def some(c: Value, width: int, mask: Value | None) -> list[Value]:
            here = t.element(grad, f.add(line, c))
            g = [t.load(t.element(here, i64(v * k.lanes)), mask) for v in range(width)]
            if count is not None:
                g = [f.binary("fdiv", one, count) for one in g]

            def term(n: Value, row: Value, _) -> list[Value]:
                own = t.element(gradient, f.add(f.mul(row, step), c))
                w = b.factor(weights, n) if k.weighted else None
                for v in range(width):
                    place = t.element(own, i64(v * k.lanes))
                    old = t.load(place, mask)
                    new = f.binary("fadd", old, g[v])
                    if w is not None:
                        new = f.call(t.vector, f"llvm.fma.{t.spelled}", w, g[v], old)
                    t.store(new, place, mask)
                return []

            b.note(status, b.over(numbers, ends, rows, padding, [], term)[1])
            return []

        b.columns(begin, end, columns, some)
        return []

    f.loop(i64(0), bags, i64(1), [], bag)


def _dots(b: _Bags, k: Dots) -> None:
    f, t = b.f, b.t
    out, table, numbers, starts, grad, status = (t.data(n) for n in range(6))
    begin, end, columns, rows, step, padding = (t.geometry(n) for n in range(6))
    whole = f.binary("sub", columns, f.binary("srem", columns, i64(k.lanes)))
    rest = t.first(f.binary("sub", columns, whole))

    def bag(which: Value, _) -> list[Value]:
        ends, line = b.start(starts, which), t.element(grad, f.mul(which, columns))

        def term(n: Value, row: Value, _) -> list[Value]:
            own = b.memory.element(table, f.mul(row, step))

            def some(c: Value, sums: list[Value], mask: Value | None = None) -> list[Value]:
                x, g = b.load(b.memory.element(own, c), mask), t.load(t.element(line, c), mask)
                return [f.call(t.vector, f"llvm.fma.{t.spelled}", x, g, sums[0])]

            sums = some(whole, f.loop(i64(0), whole, i64(k.lanes), [t.zero], some), rest)
            start = Value(t.scalar, "-0.0")
            total = f.call(t.scalar, f"llvm.vector.reduce.fadd.{t.spelled}", start, sums[0])
            f.store(total, t.element(out, n), t.size)
            return []

        b.note(status, b.over(numbers, ends, rows, padding, [], term)[1])
        return []

    f.loop(begin, end, i64(1), [], bag)


def _drop(t: Elements) -> None:
    f = t.f
    gradient, grad, places = (t.data(n) for n in range(3))
    begin, end, columns, bags = (t.geometry(n) for n in range(4))

    def bag(which: Value, _) -> list[Value]:
        line = f.mul(which, columns)

        def column(c: Value, _) -> list[Value]:
            at = f.add(line, c)
            row = f.load("i64", f.gep("i64", places, at), 8)

            def add() -> list[Value]:
                place = t.element(gradient, f.add(f.mul(row, columns), c))
                f.store(
                    f.binary(
                        "fadd", f.load(t.scalar, place, t.size), f.load(t.scalar, t.element(grad, at), t.size)
                    ),
                    place,
                    t.size,
                )
                return []

            f.when(f.op("i1", f"icmp sge {row}, 0"), add)
            return []

        f.loop(begin, end, i64(1), [], column)
        return []

    f.loop(i64(0), bags, i64(1), [], bag)
