"""Products of matrices as vectors, for devices whose threads have vector registers of their own, as OpenCL's CPU devices.

A block is one thread, which needs no barrier.  It computes a rectangle of the result as a graphics processor's block does: for some terms
at a time it copies what it needs of both operands into the memory of the block, and adds to sums that lie there; a few rows of them are in
registers while the terms are walked.  Each sum takes its terms in the order of `schedule_gpu_products`, so that the bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from . import expr as ex
from . import target as tg
from .irtext import Function, Module, Value, i32, i64
from .lower import ITEMSIZE, MEMORY, Lowering
from .schedule_gpu_threads import SHARED, Threads

if TYPE_CHECKING:
    from .schedule_gpu_products import Product

MOST_ELEMENTS = 16  # of a vector in SPIR-V
FEWEST_LANES = 4  # float32's of a register, so that two float64's fit
ROWS, VECTORS = 4, 4  # sums in registers: so many rows of so many vectors


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


def module_for(kernel: Product, target: str, parameters: list[tuple[str, str]]) -> Module:
    return _Writer(kernel, target, parameters).module


class _Writer:
    def __init__(self, kernel: Product, target: str, parameters: list[tuple[str, str]]) -> None:
        self.kernel, self.shape = kernel, shape_for(kernel)
        self.module = Module(tg.TARGETS[target].triple, str(tg.machine(target).target_data))
        self.f = f = Function(self.module, "")
        self.low, self.threads = Lowering(f, None), Threads(f, target, (kernel.threads, 1, 1))
        f.signature = self.threads.signature(parameters)
        self.given = {name: Value(type, f"%{name}") for name, type in parameters}
        self.kind, self.bytes = MEMORY[kernel.computed], ITEMSIZE[kernel.computed]
        self.vector = f"<{self.shape.lanes} x {self.kind}>"
        self.left = self.shared("left", self.shape.rows * self.shape.terms)
        self.right = self.shared("right", self.shape.columns * self.shape.terms)
        self.sums = self.shared("sums", self.shape.rows * self.shape.columns)
        # how far it is in `left` from a row, and from a term, to the next
        self.row_step, self.term_step = (1, self.shape.rows) if kernel.a_turned else (self.shape.terms, 1)
        self.write()

    def shared(self, name: str, count: int) -> Value:
        self.module.globals.append(
            f"@{name} = internal addrspace({SHARED}) global [{count} x {self.kind}] undef, align 64"
        )
        return Value(f"ptr addrspace({SHARED})", f"@{name}")

    def write(self) -> None:
        f, shape = self.f, self.shape
        m, n, batch = (self.given[name] for name in ("m", "n", "batch"))
        down = f.binary("sdiv", f.add(m, i64(shape.rows - 1)), i64(shape.rows))
        across = f.binary("sdiv", f.add(n, i64(shape.columns - 1)), i64(shape.columns))
        total = f.mul(f.mul(batch, down), across)
        threads = self.threads
        f.loop(threads.block(), total, threads.blocks(), [], lambda g, _: self.block(g, down, across))
        f.do("ret void")

    def block(self, number: Value, down: Value, across: Value) -> list[Value]:
        """One rectangle of the result."""
        f, shape, given = self.f, self.shape, self.given
        matrix, tile, column = f.coordinates(number, [down, across])
        row0, column0 = f.mul(tile, i64(shape.rows)), f.mul(column, i64(shape.columns))
        starts = {
            name: f.gep(MEMORY[self.kernel.dtype], given[name], f.mul(matrix, given[f"{name}_batch"]))
            for name in "cab"
        }
        rows = self.least(i64(shape.rows), f.binary("sub", given["m"], row0))
        columns = self.least(i64(shape.columns), f.binary("sub", given["n"], column0))
        zero = self.splat(self.low.constant(0, self.kernel.computed))

        def clear(at: Value, _: list[Value]) -> list[Value]:
            f.store(zero, f.gep(self.kind, self.sums, at), self.bytes)
            return []

        f.loop(i64(0), i64(shape.rows * shape.columns), i64(shape.lanes), [], clear)

        def stage(first: Value, _: list[Value]) -> list[Value]:
            terms = self.least(i64(shape.terms), f.binary("sub", given["k"], first))
            a = self.elements(starts["a"], row0, first, "a_row", "a_column")
            if self.kernel.a_turned:
                self.copy(self.left, self.exchanged(a), terms, rows, shape.rows, "a_row")
            else:
                self.copy(self.left, a, rows, terms, shape.terms, "a_column")
            b = self.elements(starts["b"], first, column0, "b_row", "b_column")
            self.copy(self.right, b, terms, columns, shape.columns, "b_column")
            f.loop(i64(0), rows, i64(ROWS), [], lambda row, _: self.some_rows(row, terms))
            return []

        f.loop(i64(0), given["k"], i64(shape.terms), [], stage)
        c = self.elements(starts["c"], row0, column0, "c_row", "c_column")
        f.loop(i64(0), rows, i64(1), [], lambda row, _: self.store_row(c, row, columns))
        return []

    # Where the element (i, j) of a rectangle of an operand lies.
    def elements(
        self, start: Value, row: Value, column: Value, down: str, across: str
    ) -> Callable[[Value, Value], Value]:
        f, kind = self.f, MEMORY[self.kernel.dtype]
        down_step, across_step = self.given[down], self.given[across]
        corner = f.gep(kind, start, f.add(f.mul(row, down_step), f.mul(column, across_step)))
        return lambda i, j: f.gep(kind, corner, f.add(f.mul(i, down_step), f.mul(j, across_step)))

    @staticmethod
    def exchanged(place: Callable[[Value, Value], Value]) -> Callable[[Value, Value], Value]:
        return lambda i, j: place(j, i)

    def whole_vectors(self, count: Value, step: str) -> Value:
        """How many of `count` elements are moved as whole vectors: none where they do not lie side by side, or have another dtype than
        sums have.
        """
        if self.kernel.dtype != self.kernel.computed:
            return i64(0)
        f = self.f
        whole = f.binary("sub", count, f.binary("srem", count, i64(self.shape.lanes)))
        side_by_side = f.op("i1", f"icmp eq {self.given[step]}, 1")
        return self.low.select(side_by_side, whole, i64(0))

    def copy(
        self,
        to: Value,
        place: Callable[[Value, Value], Value],
        lines: Value,
        count: Value,
        length: int,
        step: str,
    ) -> None:
        """`count` elements of each of some lines of an operand, to lines of `length` elements in shared memory; what lies behind them there
        is not read, or reaches sums only that are not stored.
        """
        f, kernel, kind = self.f, self.kernel, MEMORY[self.kernel.dtype]
        whole = self.whole_vectors(count, step)

        def line(i: Value, _: list[Value]) -> list[Value]:
            target = f.gep(self.kind, to, f.mul(i, i64(length)))

            def vectors(j: Value, _: list[Value]) -> list[Value]:
                value = f.load(self.vector, place(i, j), ITEMSIZE[kernel.dtype])
                f.store(value, f.gep(self.kind, target, j), self.bytes)
                return []

            def one(j: Value, _: list[Value]) -> list[Value]:
                value = self.low.cast(
                    f.load(kind, place(i, j), ITEMSIZE[kernel.dtype]), kernel.dtype, kernel.computed
                )
                f.store(value, f.gep(self.kind, target, j), self.bytes)
                return []

            f.loop(i64(0), whole, i64(self.shape.lanes), [], vectors)
            f.loop(whole, count, i64(1), [], one)
            return []

        f.loop(i64(0), lines, i64(1), [], line)

    def some_rows(self, row: Value, terms: Value) -> list[Value]:
        """The terms in shared memory are added to the sums of ROWS rows."""
        f, shape = self.f, self.shape
        corner = f.gep(self.kind, self.sums, f.mul(row, i64(shape.columns)))
        places = [
            f.gep(self.kind, corner, i64(i * shape.columns + j * shape.lanes))
            for i in range(ROWS)
            for j in range(VECTORS)
        ]
        left = f.gep(self.kind, self.left, f.mul(row, i64(self.row_step)))

        def term(k: Value, sums: list[Value]) -> list[Value]:
            here = f.gep(self.kind, left, f.mul(k, i64(self.term_step)))
            line = f.gep(self.kind, self.right, f.mul(k, i64(shape.columns)))
            right = [
                f.load(self.vector, f.gep(self.kind, line, i64(j * shape.lanes)), self.bytes)
                for j in range(VECTORS)
            ]
            result = []
            for i in range(ROWS):
                one = f.load(self.kind, f.gep(self.kind, here, i64(i * self.row_step)), self.bytes)
                factor = self.splat(one)
                result += [self.fused(factor, right[j], sums[i * VECTORS + j]) for j in range(VECTORS)]
            return result

        sums = f.loop(i64(0), terms, i64(1), [f.load(self.vector, p, self.bytes) for p in places], term)
        for place, sum in zip(places, sums):
            f.store(sum, place, self.bytes)
        return []

    def store_row(self, c: Callable[[Value, Value], Value], row: Value, columns: Value) -> list[Value]:
        f, kernel, kind = self.f, self.kernel, MEMORY[self.kernel.dtype]
        line = f.gep(self.kind, self.sums, f.mul(row, i64(self.shape.columns)))
        slot = "float64" if ex.is_float(kernel.dtype) else "int64"
        alpha, beta = (self.low.cast(self.given[name], slot, kernel.computed) for name in ("alpha", "beta"))
        size = ITEMSIZE[kernel.dtype]

        def put(many: bool) -> Callable[[Value, list[Value]], list[Value]]:
            def at(j: Value, _: list[Value]) -> list[Value]:
                place, own = c(row, j), f.gep(self.kind, line, j)
                value = f.load(self.vector if many else self.kind, own, self.bytes)
                multiply = "fmul" if ex.is_float(kernel.computed) else "mul"
                value = f.binary(multiply, value, self.splat(alpha) if many else alpha)
                if kernel.adds:
                    old = f.load(self.vector if many else kind, place, size)
                    old = old if many else self.low.cast(old, kernel.dtype, kernel.computed)
                    value = self.fused(self.splat(beta) if many else beta, old, value)
                value = value if many else self.low.cast(value, kernel.computed, kernel.dtype)
                f.store(value, place, size)
                return []

            return at

        whole = self.whole_vectors(columns, "c_column")
        f.loop(i64(0), whole, i64(self.shape.lanes), [], put(True))
        f.loop(whole, columns, i64(1), [], put(False))
        return []

    def splat(self, value: Value) -> Value:
        f, lanes = self.f, self.shape.lanes
        first = f.op(self.vector, f"insertelement {self.vector} poison, {value}, {i32(0)}")
        return f.op(
            self.vector,
            f"shufflevector {first}, {self.vector} poison, <{lanes} x i32> zeroinitializer",
        )

    def fused(self, a: Value, b: Value, c: Value) -> Value:
        if ex.is_float(self.kernel.computed):
            suffix = self.low.suffix(self.kernel.computed)
            many = f"v{self.shape.lanes}" if a.type == self.vector else ""
            return self.f.call(a.type, f"llvm.fma.{many}{suffix}", a, b, c)
        return self.f.binary("add", self.f.binary("mul", a, b), c)

    def least(self, a: Value, b: Value) -> Value:
        return self.low.select(self.f.op("i1", f"icmp slt {a}, {b.name}"), a, b)
