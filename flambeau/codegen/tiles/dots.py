"""The tile for few rows and a right operand whose terms lie side by side, as a layer's weight for a small batch.

Both operands are read in vectors of terms, where they stand, each element of the right one once: such a product is bound by
memory, and laying the operand out in panels would take longer than multiplying by it.

    c[i, j] = epilogue(sum over k of a[i·row + k] · b[j·b_vector + k])

A lane sums every 16th (or so) term; at the end the lanes of 16 sums are added up together, by halves.  `core/lib/tiles.pxd` has the
arguments: `step`, `offsets`, `b_step` and `columns` are not used.
"""

from __future__ import annotations

import functools

from .. import target
from ..irtext import Function, Module, Value, i64
from ..lower import Lowering
from . import possible
from .objects import compiled
from .register import (
    _A,
    _B,
    _B_VECTOR,
    _C,
    _C_ROW,
    _ROW,
    _TERMS,
    Register,
    Writer,
    key_of,
)
from .vectors import Vectors


class _Dots(Writer):
    """`tile.vectors` counts columns here.  Halves are summed in float32, and results are rounded once: of bfloat16, pairs of terms are
    multiplied by the processor's instruction for that, where it has one; others are converted as they are read.
    """

    def __init__(self, f: Function, tile: Register):
        self.half = tile.dtype if tile.dtype in ("float16", "bfloat16") else ""
        super().__init__(f, tile._replace(dtype="float32") if self.half else tile)
        self.paired = self.half == "bfloat16" and possible()
        self.stored = 2 if self.half else self.size  # bytes of an element in memory
        self.together = self.lanes * (2 if self.paired else 1)  # terms
        self.words, self.one = Vectors(f, "int16", self.lanes), Lowering(f, None)

    def write(self) -> None:
        tile, f = self.tile, self.f
        a = self.lines(self.word(_A, "ptr"), self.word(_ROW), tile.rows)
        b = self.lines(self.word(_B, "ptr"), self.word(_B_VECTOR), tile.vectors)
        terms = self.word(_TERMS)
        rest = f.binary("srem", terms, i64(self.together))
        whole = f.binary("sub", terms, rest)
        sums = f.loop(
            i64(0),
            whole,
            i64(self.together),
            [self.zero] * len(self.places),
            lambda k, sums: self.terms(a, b, f.mul(k, i64(self.stored)), sums, None),
        )
        some = f.op("i1", f"icmp sgt {rest}, 0")
        sums = f.when(some, lambda: self.terms(a, b, f.mul(whole, i64(self.stored)), sums, rest), sums)
        self.put(sums)
        f.do("ret void")

    def lines(self, first: Value, step: Value, count: int) -> list[Value]:
        result = [first]
        for _ in range(1, count):
            result.append(self.at(result[-1], step))
        return result

    def read(self, place: Value, rest: Value | None) -> Value:
        """A vector of terms; only the first `rest` where it is given."""
        if not self.paired:
            mask = None if rest is None else self.first(rest)
            return (
                self.widened(self.low, self.words.load(place, mask)) if self.half else self.load(place, mask)
            )
        kind, n = f"<{self.together} x bfloat>", self.together
        if rest is None:
            return self.f.load(kind, place, 2)
        numbers = f"<{', '.join(f'i64 {k}' for k in range(n))}>"
        many = self.f.op(f"<{n} x i64>", f"insertelement <{n} x i64> poison, {rest}, i64 0")
        all_same = self.f.op(
            f"<{n} x i64>", f"shufflevector {many}, <{n} x i64> poison, <{n} x i32> zeroinitializer"
        )
        mask = self.f.op(f"<{n} x i1>", f"icmp sgt {all_same}, {numbers}")
        aligned = Value("ptr align 2", place.name)
        return self.f.call(
            kind, f"llvm.masked.load.v{n}bf16.p0", aligned, mask, Value(kind, "zeroinitializer")
        )

    def multiplied(self, x: Value, y: Value, sum: Value) -> Value:
        if self.paired:
            return self.f.call(self.vector, "llvm.x86.avx512bf16.dpbf16ps.512", sum, x, y)
        return self.f.call(self.vector, f"llvm.fma.{self.spelled}", x, y, sum)

    def terms(self, a, b, offset: Value, sums: list[Value], rest: Value | None) -> list[Value]:
        """The sums with a vector of terms more."""
        left = [self.read(self.at(p, offset), rest) for p in a]
        result = []
        for j, p in enumerate(b):
            right = self.read(self.at(p, offset), rest)
            for i in range(len(a)):
                result.append((i, j, left[i], right))
        new = list(sums)
        for i, j, x, y in result:
            k = i * len(b) + j
            new[k] = self.multiplied(x, y, sums[k])
        return new

    def added_up(self, block: list[Value]) -> Value:
        """A vector whose lane j is the sum over the lanes of the block's vector j."""
        n, distance = self.lanes, 1
        while distance < n:
            new = []
            for a, b in zip(block[::2], block[1::2]):
                low = [j if not j & distance else n + j - distance for j in range(n)]
                high = [j + distance if not j & distance else n + j for j in range(n)]
                halves = [
                    self.f.op(
                        self.vector,
                        f"shufflevector {a}, {b}, <{n} x i32> <{', '.join(f'i32 {p}' for p in picks)}>",
                    )
                    for picks in (low, high)
                ]
                new.append(self.f.binary("fadd", *halves))
            block, distance = new, distance * 2
        return block[0]

    def put(self, sums: list[Value]) -> None:
        """Epilogue and stores: as many sums as fill a vector, whatever their rows, with their operands gathered."""
        tile, n, numbers = self.tile, self.lanes, self.numbers()
        rows = self.lines(self.word(_C, "ptr"), self.word(_C_ROW), tile.rows)
        operands = []
        for k, read in enumerate(self.reads()):
            one = [self.operand(k)] * tile.rows
            operands.append(one if read == "columns" else self.lines(one[0], self.operand_row(k), tile.rows))
        for start in range(0, len(sums), n):
            block = sums[start : start + n]
            total = self.added_up(block + [Value(self.vector, "poison")] * (n - len(block)))
            places = [divmod(start + lane, tile.vectors) for lane in range(len(block))]
            given = [
                self.gathered([(lines[i], 0 if read == "rows" else j) for i, j in places])
                for lines, read in zip(operands, self.reads())
            ]
            ended = self.ended(total, given, numbers)
            for lane, (i, j) in enumerate(places):
                x = self.f.op(self.scalar, f"extractelement {ended}, i64 {lane}")
                if self.half:
                    x = self.one.cast(x, "float32", self.half)
                self.f.store(x, self.at(rows[i], i64(j * self.stored)), self.stored)

    def gathered(self, places: list[tuple[Value, int]]) -> Value:
        """The elements at so many columns behind these addresses, side by side."""
        result = self.zero
        for lane, (line, column) in enumerate(places):
            x = self.element(line, i64(column * self.stored))
            result = self.f.op(self.vector, f"insertelement {result}, {x}, i64 {lane}")
        return result

    def element(self, line: Value, place: Value) -> Value:
        if not self.half:
            return self.f.load(self.scalar, self.at(line, place), self.size)
        return self.widened(self.one, self.f.load("i16", self.at(line, place), 2))

    def widened(self, low: Lowering, bits: Value) -> Value:
        """Halves, as they are in memory, in float32."""
        if self.half == "float16":
            bits = self.f.op(low.type("float16"), f"bitcast {bits} to {low.type('float16')}")
        return low.cast(bits, self.half, "float32")


@functools.cache
def address(tile: Register) -> int:
    """Where the function stands for so many rows and (`vectors`) columns."""

    def text(symbol: str) -> str:
        module = Module(target.llvm().get_default_triple())
        _Dots(Function(module, f"define void @{symbol}(ptr noalias %t)"), tile).write()
        return str(module)

    return compiled(text, ("dots", *key_of(tile)))
