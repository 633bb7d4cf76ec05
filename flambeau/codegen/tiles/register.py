"""The register tile that products and convolutions are made of.

One function computes `rows` rows by `vectors` vectors of columns, with all its sums in registers:

    c[i, j] = epilogue(sum over taps t, terms k of  a[i·row + offsets[t] + k·step] · b[t·b_tap + k·b_step + j])

An element of the left operand is broadcast, a vector of the right one read; so the left operand may lie in any way, the
right one has its columns side by side.  A product of matrices has one tap.  A convolution has one for each place of its
window: rows are pixels, terms channels, columns filters.  `cuts` says which rows take part in a run of taps, so that pixels
at an image's edge leave out the taps beyond it: their sums stay in registers meanwhile.

Sums are taken in groups of terms, and groups added up, so that the error grows with the roots of both.  The order depends on
the shape alone.  `core/lib/tiles.pxd` has the arguments as a struct.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from ...core.base.callbacks import set_callback
from .. import target
from ..irtext import Function, Module, Value, i64
from ..lower import ITEMSIZE
from .epilogues import MOST, Epilogue
from .objects import compiled
from .vectors import Vectors

AHEAD = 16  # terms before its use that a line of the right operand is requested by a tile that lays it out
PAIRS = "llvm.x86.avx512bf16.dpbf16ps.512"
GROUP = 128  # terms that are added up one after another; a tap longer than this is cut

# Places in the struct of arguments, in words of eight bytes.
_A, _ROW, _STEP, _OFFSETS, _TERMS, _B, _B_TAP, _B_STEP, _B_VECTOR = range(9)
_C, _C_ROW, _C_COLUMN, _COLUMNS = range(9, 13)
_TAPS = 13  # three counts, one for each cut
_NUMBERS = 16  # of the epilogue
_OPERANDS = (
    _NUMBERS + MOST
)  # of the epilogue: each its first element, and its steps from row to row and column to column
_LAID = _OPERANDS + 3 * MOST


class Register(NamedTuple):
    """A tile of so many rows and vectors; `turned` stores it column by column: rows are then side by side in c.

    `ragged` reads no more columns of the right operand than exist: those of its last vector are masked.  `lays` writes what it
    reads of the right operand of one tap side by side, term after term, for the tiles that come after it.  Without an epilogue
    the sums themselves are stored.  Where they are `paired`, an element of a and b is two neighbours of bfloat16, whose products are both
    added to a sum of float32 (AVX512_BF16).
    """

    dtype: str
    rows: int
    vectors: int
    cuts: tuple[tuple[int, int], ...] = ()
    turned: bool = False
    epilogue: Epilogue | None = None
    ragged: bool = False
    lays: bool = False
    paired: bool = False

    def text(self, symbol: str) -> str:
        module = Module(target.llvm().get_default_triple())
        Writer(Function(module, f"define void @{symbol}(ptr noalias %t)"), self).write()
        return str(module)


@functools.cache
def width() -> int:
    """Bytes of a vector register of this processor."""
    features = target.processor()[1].split(",")
    return 64 if "+avx512f" in features else 32 if "+avx2" in features else 16


@functools.cache
def lanes(dtype: str) -> int:
    return width() // ITEMSIZE[dtype]


def key_of(tile: tuple) -> tuple[Hashable, ...]:
    """All that the text of a tile depends on beside the sources and the processor."""
    return type(tile).__name__, width(), *(x.key if isinstance(x, Epilogue) else x for x in tile)


class Writer(Vectors):
    """The instructions of one tile."""

    def __init__(self, f: Function, tile: Register):
        super().__init__(f, tile.dtype, lanes(tile.dtype))
        self.tile = tile
        self.places = [(i, v) for i in range(tile.rows) for v in range(tile.vectors)]

    # --- arguments and memory ---
    def word(self, k: int, kind: str = "i64") -> Value:
        return self.f.load(kind, self.f.gep("i64", Value("ptr", "%t"), i64(k)), 8)

    def number(self, k: int) -> Value:
        """One of the scalars, which are float64, in every lane."""
        wide = self.word(k, "double")
        own = wide if self.scalar == "double" else self.f.op(self.scalar, f"fptrunc {wide} to {self.scalar}")
        return self.low.splat(own)

    def opaque(self, value: Value) -> Value:
        """The same number, of which the optimiser no longer knows how it was made: it would make it anew at each use."""
        return self.f.op(value.type, f'call {value.type} asm "", "=r,0"({value})')

    # --- the whole ---
    def write(self) -> None:
        tile = self.tile
        self.buffer = buffer = self.f.op(
            "ptr", f"alloca [{len(self.places)} x {self.vector}], align {width()}"
        )
        row = self.word(_ROW)
        beyond = i64((tile.vectors - 1) * self.lanes)
        self.last = (
            self.first(self.f.binary("sub", self.word(_COLUMNS), beyond)) if tile.ragged else None
        )  # of the last vector of the right operand
        distances = [self.opaque(self.f.mul(row, i64(i))) for i in range(1, min(tile.rows, 7))]
        sums: list[Value] = [self.zero] * len(self.places)
        state = [i64(0), i64(0), *sums]  # terms since the last group ended, whether one has, the sums
        begin = i64(0)
        for number, cut in enumerate(tile.cuts or ((0, tile.rows),)):
            end = self.f.add(begin, self.word(_TAPS + number))
            tap = functools.partial(self.tap, cut=cut, distances=distances, buffer=buffer)
            state = self.f.loop(begin, end, i64(1), state, tap)
            begin = end
        _, ended, *sums = state
        some = self.f.op("i1", f"icmp ne {ended}, 0")
        self.finish(self.f.when(some, lambda: self.added(sums, buffer), sums))
        self.f.do("ret void")

    def spot(self, buffer: Value, k: int) -> Value:
        return self.f.gep(self.vector, buffer, i64(k))

    def added(self, sums: Sequence[Value], buffer: Value) -> list[Value]:
        return [
            self.f.binary("fadd", self.f.load(self.vector, self.spot(buffer, k), width()), s)
            for k, s in enumerate(sums)
        ]

    def tap(
        self, t: Value, state: list[Value], cut: tuple[int, int], distances: list[Value], buffer: Value
    ) -> list[Value]:
        """All terms of one tap, in groups."""
        f = self.f
        offset = f.load("i64", f.gep("i64", self.word(_OFFSETS, "ptr"), t), 8)
        a = self.at(self.word(_A, "ptr"), offset)
        b = self.at(self.word(_B, "ptr"), f.mul(t, self.word(_B_TAP)))
        step, b_step, terms = self.word(_STEP), self.word(_B_STEP), self.word(_TERMS)
        b_vector, row = self.word(_B_VECTOR), self.word(_ROW)
        bases = [a]  # seven rows each, so that their distances stay in six registers
        for first in range(7, self.tile.rows, 7):
            bases.append(self.opaque(self.at(a, f.mul(row, i64(first)))))

        def group(start: Value, state: list[Value]) -> list[Value]:
            since, ended, *sums = state
            rest = f.binary("sub", terms, start)
            count = self.low.select(f.op("i1", f"icmp slt {rest}, {GROUP}"), rest, i64(GROUP))
            total = f.add(since, count)
            full = f.op("i1", f"icmp sgt {total}, {GROUP}")
            since, ended, *sums = f.when(
                full, lambda: self.put_down(ended, sums, buffer), [since, ended, *sums]
            )
            left = [self.at(base, f.mul(start, step)) for base in bases]
            right, wide = self.at(b, f.mul(start, b_step)), i64(self.tile.vectors * width())
            laid = [self.at(self.word(_LAID, "ptr"), f.mul(start, wide))] if self.tile.lays else []
            begin = [*left, right, *laid]
            n = len(begin)

            def term(_, carried: list[Value]) -> list[Value]:
                left, right, *laid = carried[: len(bases)], *carried[len(bases) : n]
                new = self.term(left, right, laid, b_vector, carried[n:], cut, distances)
                further = [*(self.at(p, step) for p in left), self.at(right, b_step)]
                return [*further, *(self.at(p, wide) for p in laid), *new]

            result = f.loop(i64(0), count, i64(1), [*begin, *sums], term)
            return [f.add(since, count), ended, *result[n:]]

        return f.loop(i64(0), terms, i64(GROUP), state, group)

    def put_down(self, ended: Value, sums: list[Value], buffer: Value) -> list[Value]:
        """Add the sums to those of the groups before, and begin anew."""
        again = self.f.op("i1", f"icmp ne {ended}, 0")
        whole = self.f.when(again, lambda: self.added(sums, buffer), sums)
        for k, s in enumerate(whole):
            self.f.store(s, self.spot(buffer, k), width())
        return [i64(0), i64(1), *[self.zero] * len(sums)]

    def term(
        self,
        left: list[Value],
        right: Value,
        laid: list[Value],
        b_vector: Value,
        sums: list[Value],
        cut: tuple[int, int],
        distances: list[Value],
    ) -> list[Value]:
        """The sums with one term more: for each row an element of the left operand times all vectors of the right one."""
        vectors, result = self.tile.vectors, list(sums)
        read = []
        for v in range(vectors):
            right = self.at(right, b_vector) if v else right
            read.append(self.load(right, self.last if v == vectors - 1 else None))
            for to in laid:
                self.store(read[v], self.at(to, i64(v * width())))
                if v * width() % 64 == 0:
                    self.foresee(self.at(right, self.f.mul(self.word(_B_STEP), i64(AHEAD))))
        for i in range(*cut):
            place = self.at(left[i // 7], distances[i % 7 - 1]) if i % 7 else left[i // 7]
            element = self.low.splat(self.f.load(self.scalar, place, self.size))
            for v in range(vectors):
                k = i * vectors + v
                result[k] = self.product(element, read[v], sums[k])
        return result

    def product(self, a: Value, b: Value, sum: Value) -> Value:
        if not self.tile.paired:
            return self.f.call(self.vector, f"llvm.fma.{self.spelled}", a, b, sum)
        pairs = f"<{2 * self.lanes} x bfloat>"
        a, b = (self.f.op(pairs, f"bitcast {x} to {pairs}") for x in (a, b))
        return self.f.call(self.vector, PAIRS, sum, a, b)

    # --- the end ---
    def finish(self, sums: list[Value]) -> None:
        """Epilogue and stores; without masks where all columns exist."""
        columns = self.word(_COLUMNS)
        if self.tile.turned:
            self.store_turned(sums, columns)
            return
        if self.tile.epilogue is not None and self.tile.epilogue.long():
            for k, s in enumerate(sums):
                self.f.store(s, self.spot(self.buffer, k), width())
            self.store_rows(None, list(self.masks(columns)))
            return
        whole = self.f.op("i1", f"icmp sge {columns}, {self.tile.vectors * self.lanes}")
        yes, no, after = (self.f.fresh(name) for name in ("whole", "part", "end"))
        self.f.branch_if(whole, yes, no)
        for label, masked in ((yes, False), (no, True)):
            self.f.start(label)
            self.store_rows(sums, list(self.masks(columns)) if masked else [None] * self.tile.vectors)
            self.f.branch(after)
        self.f.start(after)

    def masks(self, columns: Value) -> list[Value]:
        return [
            self.first(self.f.binary("sub", columns, i64(v * self.lanes))) for v in range(self.tile.vectors)
        ]

    def reads(self) -> tuple[str, ...]:
        return () if self.tile.epilogue is None else self.tile.epilogue.reads

    def numbers(self) -> list[Value]:
        """The epilogue's numbers, which are float64 in the struct, in every lane."""
        count = 0 if self.tile.epilogue is None else self.tile.epilogue.numbers
        return [self.number(_NUMBERS + k) for k in range(count)]

    def operand(self, k: int) -> Value:
        return self.word(_OPERANDS + 3 * k, "ptr")

    def operand_row(self, k: int) -> Value:
        return self.word(_OPERANDS + 3 * k + 1)

    def operand_column(self, k: int) -> Value:
        return self.word(_OPERANDS + 3 * k + 2)

    def ended(self, sum: Value, operands: Sequence[Value], numbers: Sequence[Value]) -> Value:
        """The epilogue of a vector of sums."""
        epilogue = self.tile.epilogue
        if epilogue is None:
            return sum
        given = {
            leaf: numbers[leaf.value] if leaf.op == "param" else (sum, *operands)[leaf.value]
            for leaf in epilogue.leaves()
        }
        return self.low.values([epilogue.root], given)[0]

    def store_rows(self, sums: list[Value] | None, masks: Sequence[Value | None]) -> None:
        """Row after row; in a loop, from the buffer, where no sums are given."""
        tile, reads, numbers = self.tile, self.reads(), self.numbers()
        vectors = range(tile.vectors)
        across = {
            k: [self.load(self.at(self.operand(k), i64(v * width())), masks[v]) for v in vectors]
            for k, read in enumerate(reads)
            if read == "columns"
        }
        moving = [k for k, read in enumerate(reads) if read != "columns"]
        begin = [self.word(_C, "ptr"), *(self.operand(k) for k in moving)]
        steps = [self.word(_C_ROW), *(self.operand_row(k) for k in moving)]

        def row(at: Sequence[Value], sums: Sequence[Value]) -> list[Value]:
            own = dict(across)
            for k, place in zip(moving, at[1:]):
                if reads[k] == "rows":
                    own[k] = [self.low.splat(self.f.load(self.scalar, place, self.size))] * tile.vectors
                else:
                    own[k] = [self.load(self.at(place, i64(v * width())), masks[v]) for v in vectors]
            for v in vectors:
                result = self.ended(sums[v], [own[k][v] for k in range(len(reads))], numbers)
                self.store(result, self.at(at[0], i64(v * width())), masks[v])
            return [self.at(place, step) for place, step in zip(at, steps)]

        def from_buffer(_, at: list[Value]) -> list[Value]:
            *places, buffer = at
            sums = [self.f.load(self.vector, self.spot(buffer, v), width()) for v in vectors]
            return [*row(places, sums), self.spot(buffer, tile.vectors)]

        if sums is None:
            self.f.loop(i64(0), i64(tile.rows), i64(1), [*begin, self.buffer], from_buffer)
            return
        at = begin
        for i in range(tile.rows):
            at = row(at, sums[i * tile.vectors : (i + 1) * tile.vectors])

    def store_turned(self, sums: list[Value], columns: Value) -> None:
        """Blocks of `lanes` rows by `lanes` columns are turned in registers; what does not exist is masked."""
        tile, reads, numbers, n = self.tile, self.reads(), self.numbers(), self.lanes
        masks = self.masks(columns)
        c, c_column = self.word(_C, "ptr"), self.word(_C_COLUMN)
        for v in range(tile.vectors):
            across = {
                k: self.load(self.at(self.operand(k), i64(v * width())), masks[v])
                for k, read in enumerate(reads)
                if read == "columns"
            }
            for start in range(0, tile.rows, n):
                own = range(start, min(start + n, tile.rows))
                block = [sums[i * tile.vectors + v] for i in own]
                turned = self.turn(block + [Value(self.vector, "poison")] * (n - len(block)))
                for j, value in enumerate(turned):
                    column = i64(v * n + j)
                    exists = self.f.op("i1", f"icmp sgt {columns}, {column.name}")
                    mask = self.first(self.low.select(exists, i64(len(own)), i64(0)))
                    shift = i64(start * self.size)
                    given = []
                    for k, read in enumerate(reads):
                        if read == "columns":
                            given.append(self.picked(across[k], across[k], [j] * n))
                            continue
                        place = self.operand(k)
                        if read == "both":
                            place = self.at(place, self.f.mul(self.operand_column(k), column))
                        given.append(self.load(self.at(place, shift), mask))
                    to = self.at(self.at(c, self.f.mul(c_column, column)), shift)
                    self.store(self.ended(value, given, numbers), to, mask)


@functools.cache
def address(tile: Register) -> int:
    """Where the tile's function stands in this process."""
    return compiled(tile.text, key_of(tile))


set_callback("tiles.register", address)
