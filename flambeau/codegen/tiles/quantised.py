"""Products of rows by a weight of few bits, which is dequantised in registers: no float copy of it stands in memory.

    out[i, j] = sum over groups g of scale[g, j] · (sum over k in g of x[i, k] · code[j, k]) + zero[g, j] · (sum over k in g of x[i, k])

A weight of some columns is read once, in vectors of terms, and multiplied by some rows of x; sums are made in float32.  Such a product
is bound by memory, so a weight of four bits takes an eighth of the time that one of float32 takes.

Codes, of `columns` columns whose terms lie side by side:

- "int8": a number, scaled once at the end: one group.
- "float8": a number of float8_e4m3fn that is not NaN, scaled as "int8" is.
- "float8_e5m2": a number of float8_e5m2, which is the upper byte of one of float16; scaled as "int8" is.
- "int4": numbers 0 to 15 that mean -8 to 7, two a byte, in blocks of 32 terms: byte j holds term j in its low half, term 16 + j in
  its high one, so that a block is unpacked by a mask and a shift whatever the number of lanes.
- "nf4": places in a table of 16 numbers (Dettmers et al., "QLoRA", 2023), packed as "int4"; without zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, Protocol

from ..irtext import Function, Module, Value, float_literal, i64
from ..lower import Lowering
from .kernels import Elements, ahead, module_of, sources

BLOCK = 32  # terms of codes of four bits that are packed together, in 16 bytes
COLUMNS = 4  # at a time by one row; two by more, whose sums need the registers
ROWS = 2
# The quantiles of a normal distribution, the eighth of which is 0 (Dettmers et al., 2023, appendix E).
NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip


class Kernel(Protocol):
    """A kernel over codes, that reads and writes elements of `dtype`."""

    @property
    def codes(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def lanes(self) -> int: ...


class Product(NamedTuple):
    """Rows of `dtype` by a weight of `codes`.

    Data: out (rows, columns), x (rows, terms), codes, scales (groups, columns) with zeros beside them where the codes have any.
    Geometry: first block of columns, where to end, columns, terms, rows, terms of a group, elements of x from row to row.
    """

    dtype: str
    codes: str
    lanes: int

    def text(self) -> str:
        return f"quantised {tuple(self)} {sources(__file__)}"

    def module(self, triple: str) -> Module:
        return module_of(triple, lambda f: Writer(f, self).write())


class Unpacked(NamedTuple):
    """A weight of `codes` as float32, whose scales are of `dtype`.

    Data: out (columns, terms), codes, scales.  Geometry: first column, where to end, columns, terms, terms of a group.
    """

    dtype: str
    codes: str
    lanes: int

    def text(self) -> str:
        return f"unpacked {tuple(self)} {sources(__file__)}"

    def module(self, triple: str) -> Module:
        return module_of(triple, lambda f: _Unpacking(f, self).write())


def _number(value: float) -> Value:
    return Value("float", float_literal(value, "float"))


def _vector(values: Sequence[float]) -> Value:
    return Value(f"<{len(values)} x float>", "<" + ", ".join(str(_number(v)) for v in values) + ">")


class Codes(Elements):
    """What codes mean."""

    def __init__(self, f: Function, kernel: Kernel) -> None:
        super().__init__(f, "float32", kernel.lanes)
        self.codes, self.memory = kernel.codes, Elements(f, kernel.dtype, kernel.lanes)
        self.one = Lowering(f, None)
        self.four_bits = kernel.codes in ("int4", "nf4")
        self.has_zeros = kernel.codes == "int4"
        self.table = _vector(NF4 if kernel.codes == "nf4" else range(16))
        self.looked_up = kernel.lanes == 16  # one instruction picks from a register

    def line(self, weight: Value, column: Value, terms: Value) -> Value:
        """Where a column's codes begin."""
        length = self.f.binary("sdiv", terms, i64(2)) if self.four_bits else terms
        return self.f.gep("i8", weight, self.f.mul(column, length))

    def wholes(self, place: Value, mask: Value | None) -> Value:
        """A vector of codes of eight bits."""
        f, n = self.f, self.lanes
        if mask is None:
            code = f.load(f"<{n} x i8>", place, 1)
        else:
            aligned, none = Value("ptr align 1", place.name), Value(f"<{n} x i8>", "zeroinitializer")
            code = f.call(f"<{n} x i8>", f"llvm.masked.load.v{n}i8.p0", aligned, mask, none)
        if self.codes == "int8":
            return f.op(self.vector, f"sitofp {code} to {self.vector}")
        if self.codes == "float8_e5m2":
            wide = f.op(f"<{n} x i16>", f"zext {code} to <{n} x i16>")
            bits = f.op(wide.type, f"shl {wide}, splat (i16 8)")
            half = f.op(f"<{n} x half>", f"bitcast {bits} to <{n} x half>")
            return f.op(self.vector, f"fpext {half} to {self.vector}")
        # Where float16 has exponent and mantissa, whose exponent counts 8 more; small numbers are converted at full speed.
        wide = f.op(f"<{n} x i16>", f"sext {code} to <{n} x i16>")
        bits = f.op(
            wide.type,
            f"and <{n} x i16> {f.op(wide.type, f'shl {wide}, splat (i16 7)').name}, splat (i16 -16512)",
        )
        half = f.op(f"<{n} x half>", f"bitcast {bits} to <{n} x half>")
        return f.binary(
            "fmul", f.op(self.vector, f"fpext {half} to {self.vector}"), self.low.constant(256.0, "float32")
        )

    def halves(self, place: Value) -> tuple[Value, Value]:
        """What stands in the low and the high halves of a vector of bytes."""
        f, n = self.f, self.lanes
        wide = f.op(f"<{n} x i32>", f"zext {f.load(f'<{n} x i8>', place, 1)} to <{n} x i32>")
        low = wide if self.looked_up else f.binary("and", wide, self.low.constant(15, "int32"))
        return self.number_of(low), self.number_of(f.binary("lshr", wide, self.low.constant(4, "int32")))

    def number_of(self, code: Value) -> Value:
        """What codes 0 to 15 mean, but for scale and zero."""
        f, n = self.f, self.lanes
        if self.looked_up:  # by the lowest four bits
            return f.call("<16 x float>", "llvm.x86.avx512.permvar.sf.512", self.table, code)
        if self.codes == "int4":
            return f.op(self.vector, f"sitofp {code} to {self.vector}")
        if n == 8:
            low, high = (
                f.call("<8 x float>", "llvm.x86.avx2.permps", _vector(NF4[k : k + 8]), code) for k in (0, 8)
            )
            return self.low.select(self.low.compare("sgt", code, self.low.constant(7, "int32")), high, low)
        result = self.zero
        for lane in range(n):
            one = f.op("i32", f"extractelement {code}, i64 {lane}")
            value = f.op("float", f"extractelement {self.table}, {one}")
            result = f.op(self.vector, f"insertelement {result}, {value}, i64 {lane}")
        return result

    def fused(self, a: Value, b: Value, c: Value) -> Value:
        return self.f.call(self.vector, f"llvm.fma.{self.spelled}", a, b, c)

    def scale_of(self, group: Value, column: Value) -> tuple[Value, Value | None]:
        """A group's factor, and what is added where the codes have zeros: (code - 8) · scale + zero = code · scale + (zero - 8 · scale)."""
        f, memory = self.f, self.memory
        at = f.add(f.mul(group, self.columns), column)
        if not self.has_zeros:
            return self.low.splat(self.scalar_of(memory.element(self.scales, at))), None
        place = memory.element(self.scales, f.mul(at, i64(2)))
        scale, zero = self.scalar_of(place), self.scalar_of(memory.element(place, i64(1)))
        shifted = f.call("float", "llvm.fma.f32", scale, _number(-8.0), zero)
        return self.low.splat(scale), self.low.splat(shifted)

    def scalar_of(self, place: Value) -> Value:
        """An element in memory as float32."""
        value = self.f.load(self.memory.scalar, place, self.memory.size)
        return self.one.cast(value, self.memory.dtype, "float32")


class Writer(Codes):
    def write(self) -> None:
        f = self.f
        self.out, self.x, self.weight, self.scales = (self.data(k) for k in range(4))
        begin, end = self.geometry(0), self.geometry(1)
        self.columns, self.terms, rows, self.group, self.step = (self.geometry(k) for k in range(2, 7))
        f.loop(
            begin,
            end,
            i64(1),
            [],
            lambda which, _: self.block(f.mul(which, i64(COLUMNS)), self.columns, rows),
        )

    def block(self, first: Value, end: Value, rows: Value) -> list[Value]:
        """All rows by `COLUMNS` columns, or by those that there are before `end`."""
        f = self.f
        many = f.mul(f.binary("sdiv", rows, i64(ROWS)), i64(ROWS))

        def some_rows(column: Value, columns: int, row: Value, _: list[Value]) -> list[Value]:
            return self.tile(row, ROWS, column, columns)

        def all_rows(column: Value, columns: int) -> list[Value]:
            for j in range(0, columns, 2):
                f.loop(
                    i64(0), many, i64(ROWS), [], partial(some_rows, f.add(column, i64(j)), min(columns, 2))
                )
            f.loop(many, rows, i64(1), [], lambda row, _: self.tile(row, 1, column, columns))
            return []

        last = f.add(first, i64(COLUMNS))
        whole = f.op("i1", f"icmp sle {last}, {end.name}")
        f.when(whole, lambda: all_rows(first, COLUMNS))
        stop = self.low.select(whole, first, end)
        f.loop(first, stop, i64(1), [], lambda column, _: all_rows(column, 1))
        return []

    def tile(self, row: Value, rows: int, column: Value, columns: int) -> list[Value]:
        """Some rows by some columns: all terms, and what becomes of the sums."""
        f = self.f
        x = [self.memory.element(self.x, f.mul(f.add(row, i64(i)), self.step)) for i in range(rows)]
        w = [self.line(self.weight, f.add(column, i64(j)), self.terms) for j in range(columns)]
        count = rows * columns
        if not self.four_bits:
            whole = f.mul(f.binary("sdiv", self.terms, i64(self.lanes)), i64(self.lanes))
            sums = f.loop(
                i64(0),
                whole,
                i64(self.lanes),
                [self.zero] * count,
                lambda k, s: self.bytes_of(x, w, k, s, None),
            )
            rest = self.first(f.binary("sub", self.terms, whole))
            sums = self.bytes_of(x, w, whole, sums, rest)
            scales = [
                self.scalar_of(self.memory.element(self.scales, f.add(column, i64(j))))
                for j in range(columns)
            ]
            self.put(
                row,
                column,
                columns,
                [f.binary("fmul", self.sum(s), scales[k % columns]) for k, s in enumerate(sums)],
            )
            return []

        def group(first: Value, totals: list[Value]) -> list[Value]:
            start = [self.zero] * (count + (rows if self.has_zeros else 0))
            sums = f.loop(
                first, f.add(first, self.group), i64(BLOCK), start, lambda k, s: self.halves_of(x, w, k, s)
            )
            number = f.binary("sdiv", first, self.group)
            result = list(totals)
            for j in range(columns):
                scale, zero = self.scale_of(number, f.add(column, i64(j)))
                for i in range(rows):
                    k = i * columns + j
                    result[k] = self.fused(scale, sums[k], result[k])
                    if zero is not None:
                        result[k] = self.fused(zero, sums[count + i], result[k])
            return result

        totals = f.loop(i64(0), self.terms, self.group, [self.zero] * count, group)
        self.put(row, column, columns, [self.sum(s) for s in totals])
        return []

    def put(self, row: Value, column: Value, columns: int, sums: list[Value]) -> None:
        for k, value in enumerate(sums):
            i, j = divmod(k, columns)
            line = self.memory.element(self.out, self.f.mul(self.f.add(row, i64(i)), self.columns))
            place = self.memory.element(line, self.f.add(column, i64(j)))
            self.f.store(self.one.cast(value, "float32", self.memory.dtype), place, self.memory.size)

    def ahead(self, w: list[Value], at: Value, j: int, step: int) -> None:
        """Prefetch codes of the next columns: lines of codes are too short for the processor to foresee them."""
        length = self.f.binary("sdiv", self.terms, i64(2)) if self.four_bits else self.terms
        self.foresee(ahead(self.f, w, length, at, j, step), near=False)

    def read(self, x: Value, k: Value, mask: Value | None = None) -> Value:
        return self.low.cast(self.memory.load(self.memory.element(x, k), mask), self.memory.dtype, "float32")

    def bytes_of(
        self, x: list[Value], w: list[Value], k: Value, sums: list[Value], mask: Value | None
    ) -> list[Value]:
        """The sums with a vector of terms more, of codes of eight bits."""
        left, result = [self.read(p, k, mask) for p in x], list(sums)
        for j, p in enumerate(w):
            if mask is None:
                self.ahead(w, k, j, self.lanes)
            right = self.wholes(self.f.gep("i8", p, k), mask)
            for i, a in enumerate(left):
                at = i * len(w) + j
                result[at] = self.fused(a, right, sums[at])
        return result

    def halves_of(self, x: list[Value], w: list[Value], k: Value, sums: list[Value]) -> list[Value]:
        """The sums with a block of codes of four bits more, and those of x alone."""
        f, n, count = self.f, self.lanes, len(x) * len(w)
        result, half = list(sums), f.binary("sdiv", k, i64(2))
        for step in range(0, BLOCK // 2, n):  # bytes of the block
            low = [self.read(p, f.add(k, i64(step))) for p in x]
            high = [self.read(p, f.add(k, i64(BLOCK // 2 + step))) for p in x]
            if self.has_zeros:
                for i in range(len(x)):
                    both = f.binary("fadd", low[i], high[i])
                    result[count + i] = f.binary("fadd", result[count + i], both)
            for j, p in enumerate(w):
                if step == 0:
                    self.ahead(w, half, j, BLOCK // 2)
                first, second = self.halves(f.gep("i8", p, f.add(half, i64(step))))
                for i in range(len(x)):
                    at = i * len(w) + j
                    result[at] = self.fused(high[i], second, self.fused(low[i], first, result[at]))
        return result

    def sum(self, v: Value) -> Value:
        """The sum of the lanes, by halves."""
        n = self.lanes
        while n > 1:
            n //= 2
            kind = f"<{n} x float>"
            whole = f"<{2 * n} x float>"
            low, high = (
                self.f.op(
                    kind,
                    f"shufflevector {v}, {whole} poison, <{n} x i32> <{', '.join(f'i32 {k}' for k in order)}>",
                )
                for order in (range(n), range(n, 2 * n))
            )
            v = self.f.binary("fadd", low, high)
        return self.f.op("float", f"extractelement {v}, i64 0")


class _Unpacking(Codes):
    def write(self) -> None:
        f = self.f
        out, weight, self.scales = (self.data(k) for k in range(3))
        begin, end, self.columns, terms, group = (self.geometry(k) for k in range(5))

        def column(j: Value, _) -> list[Value]:
            codes, to = self.line(weight, j, terms), self.element(out, f.mul(j, terms))
            if not self.four_bits:
                scale = self.low.splat(self.scalar_of(self.memory.element(self.scales, j)))
                whole = f.mul(f.binary("sdiv", terms, i64(self.lanes)), i64(self.lanes))

                def some(k: Value, mask: Value | None = None) -> list[Value]:
                    value = f.binary("fmul", self.wholes(f.gep("i8", codes, k), mask), scale)
                    self.store(value, self.element(to, k), mask)
                    return []

                f.loop(i64(0), whole, i64(self.lanes), [], lambda k, _: some(k))
                return some(whole, self.first(f.binary("sub", terms, whole)))

            def of_group(first: Value, _) -> list[Value]:
                scale, zero = self.scale_of(f.binary("sdiv", first, group), j)

                def block(k: Value, _) -> list[Value]:
                    half = f.binary("sdiv", k, i64(2))
                    for step in range(0, BLOCK // 2, self.lanes):
                        for high, code in enumerate(self.halves(f.gep("i8", codes, f.add(half, i64(step))))):
                            value = (
                                f.binary("fmul", code, scale)
                                if zero is None
                                else self.fused(code, scale, zero)
                            )
                            self.store(value, self.element(to, f.add(k, i64(step + high * BLOCK // 2))))
                    return []

                f.loop(first, f.add(first, group), i64(BLOCK), [], block)
                return []

            f.loop(i64(0), terms, group, [], of_group)
            return []

        f.loop(begin, end, i64(1), [], column)
