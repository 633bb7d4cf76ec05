"""Products of matrices as threads, for graphics processors.

A block of threads computes a rectangle of the result.  For some terms at a time it copies what it needs of both operands into memory that
the block shares, each element once, in the order in which they lie; then every thread reads there, and keeps some of the sums in
registers: those of rows `y + 16·i` and columns `x + 16·j`, so that neighbouring threads read, and write, neighbouring columns.

    c = after(alpha · a @ b + beta · d)    for each matrix of a stack; see `schedule_gpu_tile.py`

Halves are added up in float32 and rounded once, integers in their own dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from . import expr as ex
from . import schedule_gpu_vectors as by_vectors
from .expr import Expr
from .irtext import Module, Value, i64
from .lower import ITEMSIZE, MEMORY
from .schedule_gpu_threads import BLOCK, MOST_BLOCKS, Blocks
from .schedule_gpu_tile import STRIDED as NUMBERS
from .schedule_gpu_tile import Part, Tile, parameters

__all__ = ["MOST_BLOCKS", "NUMBERS", "SHAPES", "Product", "Shape", "module_for", "parameters"]

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


class Product(NamedTuple):
    """A product in `dtype`.

    `a_turned`: a's rows lie side by side, not its terms; `b_turned`: b's terms do, not its columns.  `adds`: beta times an addend is
    added, which is c itself, or, by `addend`, a tensor d of its own: a "matrix", or one number a "row".  `vector`: how many float32's fill
    a vector register of a thread; 1 where threads are the lanes, 0 for what the device has.  `taps`: over how many dimensions windows
    move; `summed`: their places are the terms, not the columns.  `after`: what is stored of the sum, `ex.input(0, computed)`.
    """

    dtype: str
    a_turned: bool
    b_turned: bool
    adds: bool
    vector: int = 0
    addend: str = ""
    taps: int = 0
    summed: bool = False
    after: Expr | None = None

    @property
    def name(self) -> str:
        return "convolution" if self.taps else "matmul"

    @property
    def tensors(self) -> str:
        """A letter for each of its tensors."""
        return "cabd" if self.addend else "cab"

    @property
    def params(self) -> tuple[str, ...]:
        """The dtypes of alpha and beta."""
        return 2 * ("float64" if ex.is_float(self.dtype) else "int64",)

    def text(self) -> str:
        return f"product {tuple(self[:-1])} {'' if self.after is None else ex.text([self.after])}"

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


def suits(after: Expr, vector: int) -> bool:
    """Whether sums had better end in an expression than be read again by a loop, for threads with vectors of that many float32's: there
    not where it is computed lane by lane.
    """
    return vector < by_vectors.FEWEST_LANES or not by_vectors.branches(after)


def module_for(kernel: Product, target: str) -> Module:
    writer = by_vectors.Vectors(kernel, target) if kernel.vector > 1 else _Threads(kernel, target)
    writer.write()
    return writer.module


class _Threads(Tile):
    """Each thread copies a share of the operands, and has some of the sums in registers."""

    def __init__(self, kernel: Product, target: str) -> None:
        self.shape = shape = SHAPES[target]
        super().__init__(kernel, target, shape.rows, shape.columns, (BLOCK, 1, 1))
        # A line of one term; where neighbouring threads hold neighbouring terms, lines begin in different banks.
        self.left_line = shape.rows + (0 if kernel.a_turned else 1)
        self.right_line = shape.columns + (1 if kernel.b_turned else 0)
        self.left = self.shared("left", self.left_line * shape.terms, 16)
        self.right = self.shared("right", self.right_line * shape.terms, 16)

    def begin(self) -> None:
        f = self.f
        self.thread = self.threads.thread()
        self.x = f.binary("and", self.thread, i64(SIDE - 1))
        self.y = f.binary("lshr", self.thread, i64(SIDE.bit_length() - 1))

    def rectangle(self) -> None:
        f, shape, kernel = self.f, self.shape, self.kernel
        rows, columns = shape.rows // SIDE, shape.columns // SIDE
        zero = self.low.constant(0, kernel.computed)

        def stage(first: Value, sums: list[Value]) -> list[Value]:
            left = self.row_of_a, self.term_of_a
            right = (self.column_of_b, self.term_of_b) if not kernel.taps else self.gathered()
            self.copy(
                self.left, "a", shape.rows, self.left_line, self.row0, first, *left, not kernel.a_turned
            )
            self.copy(
                self.right, "b", shape.columns, self.right_line, self.column0, first, *right, kernel.b_turned
            )
            self.threads.barrier()

            def some(k: Value, sums: list[Value]) -> list[Value]:
                for step in range(UNROLLED):
                    sums = self.term(f.add(k, i64(step)), sums)
                return sums

            sums = f.loop(i64(0), i64(shape.terms), i64(UNROLLED), sums, some)
            self.threads.barrier()
            return sums

        sums = f.loop(i64(0), self.given["k"], i64(shape.terms), [zero] * (rows * columns), stage)
        for i in range(rows):
            row = f.add(f.add(self.row0, self.y), i64(SIDE * i))
            for j in range(columns):
                self.store(row, f.add(f.add(self.column0, self.x), i64(SIDE * j)), sums[i * columns + j])

    # --- where an element lies: what its row or column says of it, and what its term says ---
    def below(self, number: Value, size: str) -> Value:
        return self.f.op("i1", f"icmp slt {number}, {self.given[size].name}")

    def row_of_a(self, row: Value) -> Part:
        return Part(self.f.mul(row, self.given["a_row"]), self.below(row, "m"))

    def term_of_a(self, term: Value) -> Part:
        return Part(self.offset(self.digits(term, self.term_sizes), self.a_steps), self.below(term, "k"))

    def column_of_b(self, column: Value) -> Part:
        return Part(self.f.mul(column, self.given["b_column"]), self.below(column, "n"))

    def term_of_b(self, term: Value) -> Part:
        return Part(self.f.mul(term, self.given["b_row"]), self.below(term, "k"))

    def gathered(self) -> tuple[Callable[[Value], Part], Callable[[Value], Part]]:
        """The same of columns and terms that are windows and taps."""

        def window(size: str) -> Callable[[Value], Part]:
            def part(number: Value) -> Part:
                image, *place = self.digits(number, self.place_sizes)
                offset, spots = self.window(image, place)
                return Part(offset, self.below(number, size), spots)

            return part

        def tap(size: str) -> Callable[[Value], Part]:
            def part(number: Value) -> Part:
                channel, *taps = self.digits(number, self.tap_sizes)
                offset, spots = self.tap(channel, taps)
                return Part(offset, self.below(number, size), spots)

            return part

        return (tap("n"), window("k")) if self.kernel.summed else (window("n"), tap("k"))

    def copy(
        self,
        to: Value,
        operand: str,
        side: int,
        line: int,
        first: Value,
        first_term: Value,
        across: Callable[[Value], Part],
        along: Callable[[Value], Part],
        by_terms: bool,
    ) -> None:
        """What a block needs of an operand: element s of `side` places from `first` on, of some terms, is to lie at term · line + s.

        What is outside is zero, and read where the operand begins.  `by_terms`: neighbouring threads copy neighbouring terms.
        """
        f, terms, kernel = self.f, self.shape.terms, self.kernel
        kind = MEMORY[kernel.dtype]
        for number in range(side * terms // BLOCK):
            at = f.add(self.thread, i64(number * BLOCK))
            inner = i64(terms if by_terms else side)
            outer, own = f.binary("udiv", at, inner), f.binary("urem", at, inner)
            s, k = (outer, own) if by_terms else (own, outer)
            place, term = across(f.add(first, s)), along(f.add(first_term, k))
            inside = f.binary("and", place.inside, term.inside)
            for d, (p, q) in enumerate(zip(place.spots, term.spots)):
                inside = f.binary("and", inside, self.within(f.add(p, q), d))
            offset = self.low.select(inside, f.add(place.offset, term.offset), i64(0))
            value = f.load(kind, f.gep(kind, self.starts[operand], offset), ITEMSIZE[kernel.dtype])
            value = self.low.cast(value, kernel.dtype, kernel.computed)
            value = self.low.select(inside, value, self.low.constant(0, kernel.computed))
            f.store(value, f.gep(self.kind, to, f.add(f.mul(k, i64(line)), s)), self.bytes)

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

    def store(self, row: Value, column: Value, sum: Value) -> None:
        f, given, kernel = self.f, self.given, self.kernel
        kind, size = MEMORY[kernel.dtype], ITEMSIZE[kernel.dtype]

        def put() -> list[Value]:
            digits = self.digits(column, self.column_sizes)
            place = f.gep(
                kind,
                self.starts["c"],
                f.add(f.mul(row, given["c_row"]), self.offset(digits, self.c_steps)),
            )
            old = None
            if kernel.adds and kernel.addend:
                steps = ["d_row"] if kernel.addend == "row" else ["d_row", "d_column"]
                old = f.load(kind, f.gep(kind, self.starts["d"], self.offset([row, column], steps)), size)
            elif kernel.adds:
                old = f.load(kind, place, size)
            f.store(self.finished(sum, old, self.low), place, size)
            return []

        f.when(f.binary("and", self.below(row, "m"), self.below(column, "n")), put)
