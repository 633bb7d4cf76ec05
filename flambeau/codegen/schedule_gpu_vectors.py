"""Products of matrices as vectors, for devices whose threads have vector registers of their own, as OpenCL's CPU devices.

A block is one thread, which needs no barrier.  It computes a rectangle of the result as a graphics processor's block does: for some terms
at a time it copies what it needs of both operands into the memory of the block, and adds to sums that lie there; a few rows of them are in
registers while the terms are walked.  Each sum takes its terms in the order of `schedule_gpu_products`, so that the bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from . import expr as ex
from .expr import Expr
from .irtext import Value, i64
from .lower import ITEMSIZE, MEMORY, Lowering, expanded
from .schedule_gpu_tile import Tile

if TYPE_CHECKING:
    from .schedule_gpu_products import Product

MOST_ELEMENTS = 16  # of a vector in SPIR-V
FEWEST_LANES = 4  # float32's of a register, so that two float64's fit
ROWS, VECTORS = 4, 4  # sums in registers: so many rows of so many vectors
FEW = 4  # elements of the shorter vectors that move what is left of a line


class Shape(NamedTuple):
    """What a block computes: rows, columns, how many terms it holds at a time; and the elements of a vector."""

    rows: int
    columns: int
    terms: int
    lanes: int


def shape_for(kernel: Product) -> Shape:
    """`kernel.vector` float32's fill a register of the device."""
    size = ITEMSIZE[kernel.computed]
    lanes = min(MOST_ELEMENTS, 4 * kernel.vector // size)
    return Shape(64, VECTORS * lanes, 512 // size, lanes)


class Vectors(Tile):
    def __init__(self, kernel: Product, target: str) -> None:
        self.shape = shape = shape_for(kernel)
        super().__init__(kernel, target, shape.rows, shape.columns, (kernel.threads, 1, 1))
        self.vector = f"<{shape.lanes} x {self.kind}>"
        self.many = Lowering(self.f, shape.lanes)
        self.left = self.shared("left", shape.rows * shape.terms, 64)
        self.right = self.shared("right", shape.columns * shape.terms, 64)
        self.sums = self.shared("sums", shape.rows * shape.columns, 64)
        # how far it is in `left` from a row, and from a term, to the next
        self.row_step, self.term_step = (1, shape.rows) if kernel.a_turned else (shape.terms, 1)

    def rectangle(self) -> None:
        f, shape, given = self.f, self.shape, self.given
        rows = self.least(i64(shape.rows), f.binary("sub", given["m"], self.row0))
        columns = self.least(i64(shape.columns), f.binary("sub", given["n"], self.column0))
        self.fill(self.sums, i64(shape.rows * shape.columns))
        self.clear(self.left, f.binary("and", rows, i64(ROWS - 1)), shape.rows)
        self.clear(self.right, f.binary("and", columns, i64(shape.lanes - 1)), shape.columns)
        vectors = f.binary("udiv", f.add(columns, i64(shape.lanes - 1)), i64(shape.lanes))

        def stage(first: Value, _: list[Value]) -> list[Value]:
            terms = self.least(i64(shape.terms), f.binary("sub", given["k"], first))
            self.copy_left(rows, first, terms)
            if self.kernel.taps:
                self.gather(first, terms, columns)
            else:
                self.copy_right(first, terms, columns)
            for count in range(1, VECTORS + 1):  # a narrow rectangle has fewer sums
                some = partial(self.all_rows, rows, terms, count)
                f.when(f.op("i1", f"icmp eq {vectors}, {count}"), some)
            return []

        f.loop(i64(0), given["k"], i64(shape.terms), [], stage)

        def store(at: Value, digits: list[Value], count: Value) -> None:
            corner = self.element(self.starts["c"], self.row0, "c_row", self.offset(digits, self.c_steps))
            self.each(rows, lambda row: self.store_row(corner, row, at, count))

        self.runs(self.column0, columns, self.column_sizes, store)

    # --- walks ---
    def each(self, count: Value, body: Callable[[Value], None]) -> None:
        def turn(i: Value, _: list[Value]) -> list[Value]:
            body(i)
            return []

        self.f.loop(i64(0), count, i64(1), [], turn)

    def runs(
        self,
        first: Value,
        count: Value,
        sizes: Sequence[str],
        body: Callable[[Value, list[Value], Value], None],
    ) -> None:
        """`count` numbers from `first` on, in runs over which the last digit counts up and the others stay: where a run begins, the
        digits there, its length.
        """
        f = self.f
        if not sizes:
            body(i64(0), [first], count)
            return

        def turn(carried: list[Value]) -> list[Value]:
            (at,) = carried
            digits = self.digits(f.add(first, at), sizes)
            length = self.least(
                f.binary("sub", count, at), f.binary("sub", self.given[sizes[-1]], digits[-1])
            )
            body(at, digits, length)
            return [f.add(at, length)]

        f.repeat([i64(0)], lambda carried: f.op("i1", f"icmp slt {carried[0]}, {count.name}"), turn)

    def by_vectors(
        self, count: Value, side_by_side: Value, body: Callable[[Value, int], None], most: int | None = None
    ) -> None:
        """`body(i, lanes)` for all i below `count`: lanes of them at once, where they lie side by side, then FEW, then one."""
        f, begin, most = self.f, i64(0), self.shape.lanes if most is None else most
        for lanes in dict.fromkeys((most, FEW, 1)):
            if lanes > most:
                continue
            end = count
            if lanes > 1:
                left = f.binary("sub", count, begin)
                whole = f.add(begin, f.binary("and", left, i64(-lanes)))
                end = self.low.select(side_by_side, whole, begin)

            def turn(i: Value, _: list[Value], lanes: int = lanes) -> list[Value]:
                body(i, lanes)
                return []

            f.loop(begin, end, i64(lanes), [], turn)
            begin = end

    # --- copies to shared memory; what lies there behind a line is not read, or reaches sums only that are not stored ---
    def clear(self, memory: Value, left: Value, side: int) -> None:
        """Zeros for all lines of an operand, where `left` of them are multiplied with more that do not exist: what another kernel has left
        there may be subnormal, and such factors take a CPU many times as long as zeros do.
        """
        f = self.f
        terms = self.least(i64(self.shape.terms), self.given["k"])

        def zeros() -> list[Value]:
            # the left operand's lines may be of rows, which are as long as a whole stage
            count = i64(side * self.shape.terms) if memory is self.left else f.mul(terms, i64(side))
            self.fill(memory, count)
            return []

        f.when(f.op("i1", f"icmp ne {left}, 0"), zeros)

    def element(self, start: Value, number: Value, step: str, further: Value | None = None) -> Value:
        """Where an operand has the element that is `number` steps, and an offset, from `start`."""
        offset = self.f.mul(number, self.given[step])
        return self.f.gep(
            MEMORY[self.kernel.dtype], start, offset if further is None else self.f.add(offset, further)
        )

    def place(self, memory: Value, line: Value, length: int, further: Value) -> Value:
        return self.f.gep(self.kind, memory, self.f.add(self.f.mul(line, i64(length)), further))

    def fill(self, to: Value, count: Value, step: int = 1) -> None:
        """Zeros."""
        f = self.f

        def zero(i: Value, lanes: int) -> None:
            low = self.lowering(lanes)
            f.store(
                low.constant(0, self.kernel.computed), f.gep(self.kind, to, f.mul(i, i64(step))), self.bytes
            )

        self.by_vectors(count, Value("i1", "true" if step == 1 else "false"), zero)

    def move(self, to: Value, source: Value, count: Value, source_step: Value, step: int = 1) -> None:
        """A line of an operand, `source_step` apart, to places `step` apart in shared memory."""
        f, dtype = self.f, self.kernel.dtype
        near = f.op("i1", f"icmp eq {source_step}, 1") if step == 1 else Value("i1", "false")

        def some(i: Value, lanes: int) -> None:
            low = self.lowering(lanes)
            value = f.load(
                low.vector(MEMORY[dtype]),
                f.gep(MEMORY[dtype], source, f.mul(i, source_step)),
                ITEMSIZE[dtype],
            )
            value = low.cast(value, dtype, self.kernel.computed)
            f.store(value, f.gep(self.kind, to, f.mul(i, i64(step))), self.bytes)

        self.by_vectors(count, near, some)

    def lowering(self, lanes: int) -> Lowering:
        return Lowering(self.f, lanes if lanes > 1 else None)

    def copy_left(self, rows: Value, first: Value, terms: Value) -> None:
        f, shape, given = self.f, self.shape, self.given

        def run(at: Value, digits: list[Value], count: Value) -> None:
            corner = self.element(self.starts["a"], self.row0, "a_row", self.offset(digits, self.a_steps))
            if self.kernel.a_turned:

                def term(k: Value) -> None:
                    to = self.place(self.left, f.add(at, k), shape.rows, i64(0))
                    self.move(to, self.element(corner, k, "a_column"), rows, given["a_row"])

                self.each(count, term)
                return

            def row(i: Value) -> None:
                to = self.place(self.left, i, shape.terms, at)
                self.move(to, self.element(corner, i, "a_row"), count, given["a_column"])

            self.each(rows, row)

        self.runs(first, terms, self.term_sizes, run)

    def copy_right(self, first: Value, terms: Value, columns: Value) -> None:
        f, given = self.f, self.given
        corner = self.element(self.starts["b"], first, "b_row", f.mul(self.column0, given["b_column"]))

        def term(k: Value) -> None:
            to = self.place(self.right, k, self.shape.columns, i64(0))
            self.move(to, self.element(corner, k, "b_row"), columns, given["b_column"])

        self.each(terms, term)

    def gather(self, first: Value, terms: Value, columns: Value) -> None:
        """The taps of windows, as lines of places along the image's last dimension; outside of the image are zeros."""
        f, given, kernel = self.f, self.given, self.kernel
        last, length = kernel.taps - 1, self.shape.columns
        windows, taps = ((first, terms), (self.column0, columns))
        place_step, tap_step = length, 1
        if not kernel.summed:
            windows, taps, place_step, tap_step = taps, windows, 1, length
        step = f.mul(given[f"scale{last}"], given[f"b_step{last}"])

        def line(at: Value, digits: list[Value], count: Value) -> None:
            start, spots = self.window(digits[0], digits[1:])

            def tap(k: Value) -> None:
                channel, *tap = self.digits(f.add(taps[0], k), self.tap_sizes)
                further, steps = self.tap(channel, tap)
                own = [f.add(p, q) for p, q in zip(spots, steps)]
                seen = count
                for d in range(last):
                    seen = self.low.select(self.within(own[d], d), seen, i64(0))
                # of `count` places those from `low` on are inside, up to `high`
                low = self.least(self.reached(f.binary("sub", i64(0), own[last]), last), seen)
                high = self.reached(f.binary("sub", given[f"size{last}"], own[last]), last)
                high = self.most(self.least(high, seen), low)
                source = f.gep(
                    MEMORY[kernel.dtype], self.starts["b"], f.add(f.add(start, further), f.mul(low, step))
                )
                to = f.gep(self.kind, self.right, f.add(f.mul(at, i64(place_step)), f.mul(k, i64(tap_step))))
                self.fill(to, low, place_step)
                to_low, to_high = (f.gep(self.kind, to, f.mul(n, i64(place_step))) for n in (low, high))
                self.move(to_low, source, f.binary("sub", high, low), step, place_step)
                self.fill(to_high, f.binary("sub", count, high), place_step)

            self.each(taps[1], tap)

        self.runs(*windows, self.place_sizes, line)

    def reached(self, distance: Value, d: int) -> Value:
        """How many places it takes at most to come so far; none where that is behind."""
        distance = self.most(distance, i64(0))
        return self.divided(self.f.add(distance, self.f.add(self.given[f"scale{d}"], i64(-1))), f"scale{d}")

    # --- sums ---
    def all_rows(self, rows: Value, terms: Value, vectors: int) -> list[Value]:
        """`some_rows` of all rows."""
        one = lambda row, _: self.some_rows(row, terms, vectors)
        return self.f.loop(i64(0), rows, i64(ROWS), [], one)

    def some_rows(self, row: Value, terms: Value, vectors: int) -> list[Value]:
        """The terms in shared memory are added to the sums of ROWS rows and the first columns, so many vectors of them."""
        f, shape = self.f, self.shape
        corner = f.gep(self.kind, self.sums, f.mul(row, i64(shape.columns)))
        places = [
            f.gep(self.kind, corner, i64(i * shape.columns + j * shape.lanes))
            for i in range(ROWS)
            for j in range(vectors)
        ]
        left = f.gep(self.kind, self.left, f.mul(row, i64(self.row_step)))

        def term(k: Value, sums: list[Value]) -> list[Value]:
            here = f.gep(self.kind, left, f.mul(k, i64(self.term_step)))
            line = f.gep(self.kind, self.right, f.mul(k, i64(shape.columns)))
            right = [
                f.load(self.vector, f.gep(self.kind, line, i64(j * shape.lanes)), self.bytes)
                for j in range(vectors)
            ]
            result = []
            for i in range(ROWS):
                one = f.load(self.kind, f.gep(self.kind, here, i64(i * self.row_step)), self.bytes)
                factor = self.many.splat(one)
                result += [self.fused(factor, right[j], sums[i * vectors + j]) for j in range(vectors)]
            return result

        sums = f.loop(i64(0), terms, i64(1), [f.load(self.vector, p, self.bytes) for p in places], term)
        for place, sum in zip(places, sums):
            f.store(sum, place, self.bytes)
        return []

    def store_row(self, corner: Value, row: Value, at: Value, count: Value) -> None:
        """`count` results of a row, from column `at` of the rectangle on; `corner`: where its first row has that column."""
        f, kernel, given = self.f, self.kernel, self.given
        kind, size = MEMORY[kernel.dtype], ITEMSIZE[kernel.dtype]
        own, line = self.element(corner, row, "c_row"), self.place(self.sums, row, self.shape.columns, at)
        step = given[self.c_steps[-1]]
        near = f.op("i1", f"icmp eq {step}, 1")
        by_row = kernel.adds and kernel.addend == "row"
        apart = kernel.adds and kernel.addend == "matrix"
        if kernel.adds and kernel.addend:
            addend = self.element(self.starts["d"], f.add(self.row0, row), "d_row")
        if by_row:
            one = f.load(kind, addend, size)
        if apart:
            addend = self.element(addend, f.add(self.column0, at), "d_column")
            near = f.binary("and", near, f.op("i1", f"icmp eq {given['d_column']}, 1"))

        def put(i: Value, lanes: int) -> None:
            low = self.lowering(lanes)
            place = f.gep(kind, own, f.mul(i, step))
            old = None
            if by_row:
                old = low.splat(one)
            elif apart:
                old = f.load(low.vector(kind), self.element(addend, i, "d_column"), size)
            elif kernel.adds:
                old = f.load(low.vector(kind), place, size)
            sum = f.load(low.vector(self.kind), f.gep(self.kind, line, i), self.bytes)
            f.store(self.finished(sum, old, low), place, size)

        # SPIR-V has no instruction to ask whether any lane needs an unlikely value: an expression with one is computed lane by lane.
        self.by_vectors(
            count, near, put, 1 if kernel.after is not None and branches(kernel.after) else self.shape.lanes
        )


def branches(e: Expr) -> bool:
    """Whether an expression has a value that is computed only where an element needs it."""
    return any(part.op == "rarely" for part in ex.walk(expanded([e])))
