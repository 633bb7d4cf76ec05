"""Products of matrices as threads, for graphics processors.

A block of threads computes a rectangle of the result.  For some terms at a time it copies what it needs of both operands into memory that
the block shares, each element once, in the order in which they lie; then every thread reads there, and keeps some of the sums in
registers: those of rows `y + 16·i` and columns `x + 16·j`, so that neighbouring threads read, and write, neighbouring columns.

    c = alpha · a @ b + beta · c, for each matrix of a stack

Halves are added up in float32 and rounded once, integers in their own dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from . import expr as ex
from . import schedule_gpu_vectors as by_vectors
from . import target as tg
from .irtext import Function, Module, Value, i64
from .lower import ITEMSIZE, MEMORY, Lowering
from .schedule_gpu_threads import BLOCK, POINTER, SHARED, Blocks, Threads

if TYPE_CHECKING:
    from .schedule_gpu_tensor_cores import TensorCoreProduct

SIDE = 16  # threads of a block along either side of its rectangle


class Shape(NamedTuple):
    """What a block computes: rows, columns, and how many terms it holds at a time."""

    rows: int
    columns: int
    terms: int


SHAPES = {"spirv": Shape(64, 64, 32), "nvptx": Shape(128, 128, 8), "amdgcn": Shape(128, 128, 8)}
UNROLLED = 4  # terms that are written out
MOST_BLOCKS = (1 << 31) - 1  # along a grid's first dimension, on every device


class Product(NamedTuple):
    """A product in `dtype`.  `a_turned`: a's rows lie side by side, not its terms; `b_turned`: b's terms do, not its columns.  `adds`:
    c is read.  `vector`: how many float32's fill a vector register of a thread; 1 where threads are the lanes, 0 for what the device has.
    """

    dtype: str
    a_turned: bool
    b_turned: bool
    adds: bool
    vector: int = 0

    @property
    def name(self) -> str:
        return "matmul"

    @property
    def params(self) -> tuple[str, ...]:
        """The dtypes of alpha and beta."""
        return 2 * ("float64" if ex.is_float(self.dtype) else "int64",)

    def text(self) -> str:
        return f"product {tuple(self)}"

    def blocks(self, target: str, numbers: Sequence[int]) -> Blocks:
        """How it is launched; `numbers` as in NUMBERS.  A block takes the place of several where there are more than fit into a grid."""
        batch, m, n, *_ = numbers
        shape = SHAPES[target] if self.vector <= 1 else by_vectors.shape_for(self)
        count = batch * -(-m // shape.rows) * -(-n // shape.columns)
        return Blocks((min(count, MOST_BLOCKS), 1, 1), (self.threads, 1, 1))

    def fitted(self, vector: int, processor: str = "") -> Product | TensorCoreProduct:
        """The same product for a device whose threads have vector registers of that many float32's, or by the tensor cores of its
        processor.
        """
        from .schedule_gpu_tensor_cores import chosen

        if self.vector:
            return self
        by_tensor_cores = chosen(self, processor)
        if by_tensor_cores is not None:
            return by_tensor_cores
        return self._replace(vector=vector if vector >= by_vectors.FEWEST_LANES else 1)

    @property
    def threads(self) -> int:
        """How many threads a block has."""
        return BLOCK if self.vector <= 1 else 1

    def module(self, target: str) -> Module:
        return module_for(self, target)

    @property
    def computed(self) -> str:
        """What sums are made in."""
        return "float32" if self.dtype in ("float16", "bfloat16") else self.dtype


NUMBERS = "batch m n k c_batch c_row c_column a_batch a_row a_column b_batch b_row b_column".split()


def parameters(kernel: Product) -> list[tuple[str, str]]:
    """The name and LLVM type of each parameter: where c, a and b begin, sizes and steps in elements, alpha and beta."""
    scalar = "double" if ex.is_float(kernel.dtype) else "i64"
    return [
        *((name, POINTER) for name in "cab"),
        *((name, "i64") for name in NUMBERS),
        ("alpha", scalar),
        ("beta", scalar),
    ]


def module_for(kernel: Product, target: str) -> Module:
    if kernel.vector > 1:
        return by_vectors.module_for(kernel, target, parameters(kernel))
    return _Writer(kernel, target).module


class _Writer:
    def __init__(self, kernel: Product, target: str) -> None:
        self.kernel, self.shape = kernel, SHAPES[target]
        self.module = Module(tg.TARGETS[target].triple, str(tg.machine(target).target_data))
        self.f = f = Function(self.module, "")
        self.low, self.threads = Lowering(f, None), Threads(f, target)
        f.signature = self.threads.signature(parameters(kernel))
        self.given = {name: Value(type, f"%{name}") for name, type in parameters(kernel)}
        self.kind = MEMORY[kernel.computed]
        self.bytes = ITEMSIZE[kernel.computed]
        # A line of one term; where neighbouring threads hold neighbouring terms, lines begin in different banks.
        self.left_line = self.shape.rows + (0 if kernel.a_turned else 1)
        self.right_line = self.shape.columns + (1 if kernel.b_turned else 0)
        space = f"ptr addrspace({SHARED})"
        for name, line in (("left", self.left_line), ("right", self.right_line)):
            count = line * self.shape.terms
            self.module.globals.append(
                f"@{name} = internal addrspace({SHARED}) global [{count} x {self.kind}] undef, align 16"
            )
        self.left, self.right = Value(space, "@left"), Value(space, "@right")
        self.write()

    def write(self) -> None:
        f, shape, threads = self.f, self.shape, self.threads
        self.thread = threads.thread()
        self.x = f.binary("and", self.thread, i64(SIDE - 1))
        self.y = f.binary("lshr", self.thread, i64(SIDE.bit_length() - 1))
        m, n, batch = (self.given[name] for name in ("m", "n", "batch"))
        down = f.binary("sdiv", f.add(m, i64(shape.rows - 1)), i64(shape.rows))
        across = f.binary("sdiv", f.add(n, i64(shape.columns - 1)), i64(shape.columns))
        total = f.mul(f.mul(batch, down), across)
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
        rows, columns = shape.rows // SIDE, shape.columns // SIDE
        zero = self.low.constant(0, self.kernel.computed)

        def stage(first: Value, sums: list[Value]) -> list[Value]:
            self.copy(
                self.left,
                starts["a"],
                "m",
                shape.rows,
                self.left_line,
                row0,
                first,
                "a_row",
                "a_column",
                not self.kernel.a_turned,
            )
            self.copy(
                self.right,
                starts["b"],
                "n",
                shape.columns,
                self.right_line,
                column0,
                first,
                "b_column",
                "b_row",
                self.kernel.b_turned,
            )
            self.threads.barrier()

            def some(k: Value, sums: list[Value]) -> list[Value]:
                for step in range(UNROLLED):
                    sums = self.term(f.add(k, i64(step)), sums)
                return sums

            sums = f.loop(i64(0), i64(shape.terms), i64(UNROLLED), sums, some)
            self.threads.barrier()
            return sums

        sums = f.loop(i64(0), given["k"], i64(shape.terms), [zero] * (rows * columns), stage)
        for i in range(rows):
            row = f.add(f.add(row0, self.y), i64(SIDE * i))
            for j in range(columns):
                self.store(
                    starts["c"], row, f.add(f.add(column0, self.x), i64(SIDE * j)), sums[i * columns + j]
                )
        return []

    def copy(
        self,
        to: Value,
        start: Value,
        size: str,
        side: int,
        line: int,
        first: Value,
        term: Value,
        step: str,
        along: str,
        by_terms: bool,
    ) -> None:
        """What a block needs of an operand: element s of `side` places from `first` on, of some terms, is to lie at term · line + s.

        What is outside is zero.  `by_terms`: neighbouring threads copy neighbouring terms.
        """
        f, terms = self.f, self.shape.terms
        last, last_term = (f.binary("sub", self.given[name], i64(1)) for name in (size, "k"))
        for number in range(side * terms // BLOCK):
            at = f.add(self.thread, i64(number * BLOCK))
            inner = i64(terms if by_terms else side)
            outer, own = f.binary("udiv", at, inner), f.binary("urem", at, inner)
            s, k = (outer, own) if by_terms else (own, outer)
            place, own_term = f.add(first, s), f.add(term, k)
            beyond = f.binary(
                "or",
                f.op("i1", f"icmp sgt {place}, {last.name}"),
                f.op("i1", f"icmp sgt {own_term}, {last_term.name}"),
            )
            offset = f.add(
                f.mul(self.least(place, last), self.given[step]),
                f.mul(self.least(own_term, last_term), self.given[along]),
            )
            kind = MEMORY[self.kernel.dtype]
            value = f.load(kind, f.gep(kind, start, offset), ITEMSIZE[self.kernel.dtype])
            value = self.low.cast(value, self.kernel.dtype, self.kernel.computed)
            value = self.low.select(beyond, self.low.constant(0, self.kernel.computed), value)
            f.store(value, f.gep(self.kind, to, f.add(f.mul(k, i64(line)), s)), self.bytes)

    def least(self, a: Value, b: Value) -> Value:
        return self.low.select(self.f.op("i1", f"icmp slt {a}, {b.name}"), a, b)

    def term(self, k: Value, sums: list[Value]) -> list[Value]:
        """The sums with one term more."""
        f = self.f
        rows, columns = self.shape.rows // SIDE, self.shape.columns // SIDE
        read = self.reader(self.left, f.add(f.mul(k, i64(self.left_line)), self.y))
        left = [read(SIDE * i) for i in range(rows)]
        read = self.reader(self.right, f.add(f.mul(k, i64(self.right_line)), self.x))
        right = [read(SIDE * j) for j in range(columns)]
        return [
            self.fused(left[i], right[j], sums[i * columns + j]) for i in range(rows) for j in range(columns)
        ]

    def reader(self, shared: Value, at: Value) -> Callable[[int], Value]:
        own = self.f.gep(self.kind, shared, at)
        return lambda further: self.f.load(self.kind, self.f.gep(self.kind, own, i64(further)), self.bytes)

    def fused(self, a: Value, b: Value, c: Value) -> Value:
        if ex.is_float(self.kernel.computed):
            return self.f.call(self.kind, f"llvm.fma.{self.low.suffix(self.kernel.computed)}", a, b, c)
        return self.f.binary("add", self.f.binary("mul", a, b), c)

    def store(self, start: Value, row: Value, column: Value, sum: Value) -> None:
        f, given, kernel = self.f, self.given, self.kernel
        inside = f.binary(
            "and",
            f.op("i1", f"icmp slt {row}, {given['m'].name}"),
            f.op("i1", f"icmp slt {column}, {given['n'].name}"),
        )

        def put() -> list[Value]:
            slot = "float64" if ex.is_float(kernel.dtype) else "int64"
            alpha, beta = (self.low.cast(given[name], slot, kernel.computed) for name in ("alpha", "beta"))
            offset = f.add(f.mul(row, given["c_row"]), f.mul(column, given["c_column"]))
            kind, size = MEMORY[kernel.dtype], ITEMSIZE[kernel.dtype]
            place = f.gep(kind, start, offset)
            multiply = "fmul" if ex.is_float(kernel.computed) else "mul"
            value = f.binary(multiply, sum, alpha)
            if kernel.adds:
                old = self.low.cast(f.load(kind, place, size), kernel.dtype, kernel.computed)
                value = self.fused(beta, old, value)
            f.store(self.low.cast(value, kernel.computed, kernel.dtype), place, size)
            return []

        f.when(inside, put)
