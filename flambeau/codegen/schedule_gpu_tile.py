"""What all products of matrices on devices share: the walk over rectangles of the result, where operands lie, what becomes of a sum.

    c = after(alpha · a @ b + beta · d)    for each matrix of a stack

A block takes one rectangle after the other.  How it copies operands, adds up and stores is its writer's: `schedule_gpu_products.py` has
threads, `schedule_gpu_vectors.py` vectors.

Operands lie in strides.  With `taps`, b is an image that windows move over, and is never written out: for `n` images, `c` channels,
places p of the windows and taps k,

    b[(c, k), (n, p)] = image[n, c, scale · p + tap · k + shift]    0 outside of the image; `summed`: terms are (n, p), columns (c, k)

so that columns and terms are numbers of several digits.  They are divided by sizes known at launch, by a multiplication and a shift, for
numbers below 2³¹ (Granlund and Montgomery, Division by invariant integers using multiplication, 1994).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from . import expr as ex
from . import target as tg
from .irtext import Function, Module, Value, i64
from .lower import ITEMSIZE, MEMORY, Lowering
from .schedule_gpu_threads import POINTER, SHARED, Threads

if TYPE_CHECKING:
    from .schedule_gpu_products import Product
    from .schedule_gpu_stages import StagedProduct

MOST = (1 << 31) - 1  # of a number that is divided
STRIDED = "batch m n k c_batch c_row c_column a_batch a_row a_column b_batch b_row b_column".split()
TAPPED = "batch m n k c_batch c_row c_outer a_batch a_row a_outer a_column a_length b_batch b_image b_channel".split()
EACH = "c_step b_step size scale tap shift places taps".split()  # a number a dimension
DIVISORS = "scale places taps".split()  # those of EACH that are divided by
ADDEND = "d_batch d_row d_column".split()


def divisor(n: int) -> int:
    """What `x // n` is computed with for 0 <= x <= MOST: a factor in the lower 32 bits, a shift above them.

    >>> d = divisor(7)
    >>> 1000 * (d & 0xFFFFFFFF) >> (d >> 32)
    142
    """
    shift = 31 + (n - 1).bit_length()
    return -(-(1 << shift) // n) | shift << 32


def number_names(kernel: Product | StagedProduct) -> list[str]:
    """The 64-bit arguments of a kernel: sizes, and steps in elements."""
    addend = ADDEND if kernel.addend else []
    if not kernel.taps:
        return [*STRIDED, *addend]
    each = [f"{name}{d}" for name in EACH for d in range(kernel.taps)]
    divided = ["by_a_length", *(f"by_{name}{d}" for name in DIVISORS for d in range(kernel.taps))]
    return [*TAPPED, *each, *divided, *addend]


def numbers(kernel: Product, **given: int | Sequence[int]) -> tuple[int, ...]:
    """The arguments in their order, from a number for each of TAPPED and ADDEND, and a sequence for each of EACH."""
    known: dict[str, int] = {}
    for name, value in given.items():
        if name in EACH:
            known |= {f"{name}{d}": n for d, n in enumerate(value)}  # type: ignore[arg-type]
        else:
            known[name] = value  # type: ignore[assignment]
    for name in number_names(kernel):
        if name.startswith("by_"):
            known[name] = divisor(known[name.removeprefix("by_")])
    return tuple(known[name] for name in number_names(kernel))


def parameters(kernel: Product | StagedProduct) -> list[tuple[str, str]]:
    """The name and LLVM type of each parameter: where tensors begin, sizes and steps in elements, alpha and beta."""
    scalar = "double" if ex.is_float(kernel.dtype) else "i64"
    return [
        *((name, POINTER) for name in kernel.tensors),
        *((name, "i64") for name in number_names(kernel)),
        ("alpha", scalar),
        ("beta", scalar),
    ]


class Part(NamedTuple):
    """What a row, a column or a term says of an element: its share of the offset, and of the place in the image; whether it is inside."""

    offset: Value
    inside: Value
    spots: Sequence[Value] = ()


class Places:
    """Writes where elements lie.  The writer of a kernel calls `set_digits` first."""

    f: Function
    given: dict[str, Value]
    kernel: Product | StagedProduct

    def set_digits(self) -> None:
        """The sizes of all digits but the first, and the steps of all, of a column of c and of a term of a."""
        kernel = self.kernel
        self.dimensions = range(kernel.taps)
        places, taps = ([f"{name}{d}" for d in self.dimensions] for name in ("places", "taps"))
        self.place_sizes, self.tap_sizes = places, taps
        self.column_sizes = taps if kernel.summed else places
        self.c_steps = ["c_outer", *(f"c_step{d}" for d in self.dimensions)] if kernel.taps else ["c_column"]
        self.term_sizes = ["a_length"] if kernel.taps else []
        self.a_steps = ["a_outer", "a_column"] if kernel.taps else ["a_column"]

    def divided(self, number: Value, size: str) -> Value:
        """number // size, rounded down, for a number from 0 to MOST."""
        f, divisor = self.f, self.given[f"by_{size}"]
        factor, shift = f.binary("and", divisor, i64(0xFFFFFFFF)), f.binary("lshr", divisor, i64(32))
        return f.binary("lshr", f.binary("mul", f.binary("and", number, i64(MOST)), factor), shift)

    def digits(self, number: Value, sizes: Sequence[str]) -> list[Value]:
        """The digits of a number; `sizes` are those of all but the first."""
        rest, inner = number, []
        for size in reversed(sizes):
            outer = self.divided(rest, size)
            inner.append(self.f.binary("sub", rest, self.f.mul(outer, self.given[size])))
            rest = outer
        return [rest, *reversed(inner)]

    def offset(self, digits: Sequence[Value], steps: Sequence[str]) -> Value:
        terms = [self.f.mul(digit, self.given[step]) for digit, step in zip(digits, steps)]
        return self.sum(terms)

    def sum(self, terms: Sequence[Value]) -> Value:
        result = terms[0]
        for term in terms[1:]:
            result = self.f.add(result, term)
        return result

    # --- where b lies, with taps ---
    def window(self, image: Value, place: Sequence[Value]) -> tuple[Value, list[Value]]:
        """Where a window's first tap is read: the offset, and the place in the image."""
        f, given = self.f, self.given
        spots = [
            f.add(f.mul(p, given[f"scale{d}"]), given[f"shift{d}"]) for d, p in zip(self.dimensions, place)
        ]
        steps = [f"b_step{d}" for d in self.dimensions]
        return f.add(f.mul(image, given["b_image"]), self.offset(spots, steps)), spots

    def tap(self, channel: Value, tap: Sequence[Value]) -> tuple[Value, list[Value]]:
        """How far a tap is from the first."""
        f, given = self.f, self.given
        spots = [f.mul(k, given[f"tap{d}"]) for d, k in zip(self.dimensions, tap)]
        steps = [f"b_step{d}" for d in self.dimensions]
        return f.add(f.mul(channel, given["b_channel"]), self.offset(spots, steps)), spots

    def within(self, spot: Value, d: int) -> Value:
        return self.f.op("i1", f"icmp ult {spot}, {self.given[f'size{d}'].name}")


class Tile(Places):
    """The writer of a kernel; a subclass has the `rectangle`."""

    kernel: Product

    def __init__(
        self, kernel: Product, target: str, rows: int, columns: int, threads: tuple[int, int, int]
    ) -> None:
        self.kernel, self.rows, self.columns = kernel, rows, columns
        self.module = Module(tg.TARGETS[target].triple, str(tg.machine(target).target_data))
        self.f = f = Function(self.module, "")
        self.low, self.threads = Lowering(f, None), Threads(f, target, threads)
        f.signature = self.threads.signature(parameters(kernel))
        self.given = {name: Value(type, f"%{name}") for name, type in parameters(kernel)}
        self.kind, self.bytes = MEMORY[kernel.computed], ITEMSIZE[kernel.computed]
        self.set_digits()

    # --- the walk ---
    def write(self) -> None:
        f, given = self.f, self.given
        self.begin()
        down, across = (
            f.binary("sdiv", f.add(given[size], i64(n - 1)), i64(n))
            for size, n in (("m", self.rows), ("n", self.columns))
        )
        total = f.mul(f.mul(given["batch"], down), across)

        def one(number: Value, _: list[Value]) -> list[Value]:
            matrix, tile, column = f.coordinates(number, [down, across])
            self.row0, self.column0 = f.mul(tile, i64(self.rows)), f.mul(column, i64(self.columns))
            self.starts = {
                name: f.gep(MEMORY[self.kernel.dtype], given[name], f.mul(matrix, given[f"{name}_batch"]))
                for name in self.kernel.tensors
            }
            self.rectangle()
            return []

        f.loop(self.threads.block(), total, self.threads.blocks(), [], one)
        f.do("ret void")

    def begin(self) -> None:
        """What is the same for all rectangles."""

    def rectangle(self) -> None:
        """The rectangle at `row0` and `column0` of the matrices at `starts`."""
        raise NotImplementedError

    def shared(self, name: str, count: int, align: int) -> Value:
        """Memory of the block for `count` sums or operands."""
        self.module.globals.append(
            f"@{name} = internal addrspace({SHARED}) global [{count} x {self.kind}] undef, align {align}"
        )
        return Value(f"ptr addrspace({SHARED})", f"@{name}")

    # --- numbers ---
    def least(self, a: Value, b: Value) -> Value:
        return self.low.select(self.f.op("i1", f"icmp slt {a}, {b.name}"), a, b)

    def most(self, a: Value, b: Value) -> Value:
        return self.low.select(self.f.op("i1", f"icmp sgt {a}, {b.name}"), a, b)

    # --- sums ---
    def fused(self, a: Value, b: Value, c: Value) -> Value:
        """a · b + c of elements or vectors, rounded once."""
        if ex.is_float(self.kernel.computed):
            lanes = a.type[1:].split(" x ")[0] if a.type.startswith("<") else ""
            suffix = f"{'v' if lanes else ''}{lanes}{self.low.suffix(self.kernel.computed)}"
            return self.f.call(a.type, f"llvm.fma.{suffix}", a, b, c)
        return self.f.binary("add", self.f.binary("mul", a, b), c)

    def scale(self, name: str) -> Value:
        """alpha or beta."""
        slot = "float64" if ex.is_float(self.kernel.dtype) else "int64"
        return self.low.cast(self.given[name], slot, self.kernel.computed)

    def finished(self, sum: Value, old: Value | None, low: Lowering) -> Value:
        """What is stored of a sum, and of an addend as it lies in memory; of vectors, where `low` has lanes."""
        kernel = self.kernel
        multiply = "fmul" if ex.is_float(kernel.computed) else "mul"
        value = self.f.binary(multiply, sum, low.splat(self.scale("alpha")))
        if old is not None:
            addend = low.cast(old, kernel.dtype, kernel.computed)
            value = self.fused(low.splat(self.scale("beta")), addend, value)
        if kernel.after is not None:
            value = low.values([kernel.after], {ex.input(0, kernel.computed): value})[0]
        return low.cast(value, kernel.computed, kernel.dtype)
