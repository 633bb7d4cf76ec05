"""Products of rows by a weight of four bits, by instructions that multiply bytes: as exact as by float32, at half of the instructions.

A row is split into steps of some terms.  In a step x = scale · q with a power of two for scale and integers |q| < 2^22, each of which
is three signed digits of base 256.  Sums of codes times digits are exact in 32 bits, so

    sum over a step of x · code = scale · (65536 · sum(q2 · code) + 256 · sum(q1 · code) + sum(q0 · code))

has no rounding error but that of x to q, which is at most 2^-22 of the largest magnitude of the step: what a float32 sum of such terms
loses as well.  Codes 0 to 15 mean -8 to 7, which is mended by sum(x), computed once for all columns.

The instruction is `vpdpbusd` (VNNI), which adds four products of an unsigned and a signed byte to 32 bits, else `vpmaddubsw`, which
adds two to 16 bits: at most 2 · 15 · 128, twice, so that it never saturates.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from .. import target
from ..irtext import Function, Module, Value, i64
from ..lower import Lowering
from .kernels import Elements, ahead, module_of, sources

BLOCK = 32  # terms packed together, as in `quantised`
COLUMNS = 4  # at a time
DIGITS = 3
MAGNITUDE = 22  # bits of |q|
PIECE = 16  # bytes of a vector that hold the halves of one block


class Digits(NamedTuple):
    """Rows of `dtype` as digits, by vectors of `bytes` codes.

    Data: digits (rows, 3 · terms) of int8, factors (rows, steps, 2) of float32: scale and sum(x), x, float32 rows that have no
    digits (rows,), a word that is set where there is one.  Geometry: first row, where to end, terms, elements of x from row to row.
    """

    dtype: str
    bytes: int
    lanes: int

    def text(self) -> str:
        return f"digits {tuple(self)} {sources(__file__)}"

    def module(self, triple: str) -> Module:
        return module_of(triple, lambda f: _Splitting(f, self).write())


class Product(NamedTuple):
    """Rows by a weight of four bits, by vectors of `bytes` codes, by the instruction of VNNI or not.

    Data: out (rows, columns), digits and factors as of `Digits`, codes, scales and zeros (groups, columns, 2).
    Geometry: first block of columns, where to end, columns, terms, rows, terms of a group.
    """

    dtype: str
    bytes: int
    vnni: bool

    def text(self) -> str:
        return f"integers {tuple(self)} {sources(__file__)}"

    def module(self, triple: str) -> Module:
        return module_of(triple, lambda f: _Multiplying(f, self).write())


def vector_bytes(group: int, register: int) -> int:
    """Bytes of a vector of codes where groups are of so many terms; 0 where products by floats are faster."""
    best = min(group // 2, register)
    return best if best >= 32 else 0


def has_vnni(length: int) -> bool:
    features = target.processor()[1].split(",")
    return (
        "+avx512vnni" in features
        and (length == 64 or "+avx512vl" in features)
        or ("+avxvnni" in features and length == 32)
    )


class _Splitting(Elements):
    def __init__(self, f: Function, kernel: Digits) -> None:
        super().__init__(f, "float32", kernel.lanes)
        self.length, self.memory = kernel.bytes, Elements(f, kernel.dtype, kernel.lanes)
        self.whole = f"<{kernel.lanes} x i32>"

    def number(self, value: int) -> Value:
        return self.low.constant(value, "int32")

    def write(self) -> None:
        f = self.f
        digits, factors, x, without, word = (self.data(k) for k in range(5))
        begin, end, terms, stride = (self.geometry(k) for k in range(4))
        step = 2 * self.length
        steps = f.binary("sdiv", terms, i64(step))

        def row(i: Value, _: list[Value]) -> list[Value]:
            line = self.memory.element(x, f.mul(i, stride))
            to = f.gep("i8", digits, f.mul(f.mul(i, terms), i64(DIGITS)))
            beside = f.gep("float", factors, f.mul(f.mul(i, steps), i64(2)))

            def one(k: Value, bad: list[Value]) -> list[Value]:
                first = f.mul(k, i64(step))
                place = f.gep("i8", to, f.mul(first, i64(DIGITS)))
                none = self.step(
                    self.memory.element(line, first), place, f.gep("float", beside, f.mul(k, i64(2)))
                )
                return [f.binary("or", bad[0], none)]

            (bad,) = f.loop(i64(0), steps, i64(1), [Value("i1", "false")], one)
            f.store(f.op("i8", f"zext {bad} to i8"), f.gep("i8", without, i), 1)

            def tell() -> list[Value]:
                f.store(i64(1), word, 8)
                return []

            f.when(bad, tell)
            return []

        f.loop(begin, end, i64(1), [], row)

    def step(self, x: Value, to: Value, beside: Value) -> Value:
        """The digits and factors of a step; whether it has none, which is infinite, NaN or too near to 0."""
        f, n = self.f, self.lanes
        places = range(0, 2 * self.length, n)
        numbers = [
            self.low.cast(self.memory.load(self.memory.element(x, i64(p))), self.memory.dtype, "float32")
            for p in places
        ]
        most = self.number(0)
        for v in numbers:
            bits = f.binary("and", f.op(self.whole, f"bitcast {v} to {self.whole}"), self.number(0x7FFFFFFF))
            most = f.call(self.whole, f"llvm.smax.v{n}i32", most, bits)
        largest = f.call("i32", f"llvm.vector.reduce.smax.v{n}i32", most)
        exponent = f.binary("lshr", largest, Value("i32", "23"))  # of 2, beside 127
        least = MAGNITUDE  # so that the scale is a normal number
        low = f.op("i1", f"icmp slt {exponent}, {least}")
        nothing = f.op("i1", f"icmp eq {largest}, 0")
        near = f.op("i1", f"select {nothing}, i1 false, {low}")
        bad = f.binary("or", near, f.op("i1", f"icmp eq {exponent}, 255"))
        held = f.op("i32", f"select {low}, i32 {least}, {exponent}")
        # Magnitudes below 2^(exponent - 126) become ones below 2^22.
        scale = self.power(f.op("i32", f"sub {held}, {MAGNITUDE - 1}"))
        inverse = self.low.splat(self.power(f.op("i32", f"sub i32 {254 + MAGNITUDE - 1}, {held.name}")))
        total = self.number(0)
        for p, v in zip(places, numbers):
            rounded = f.call(self.vector, f"llvm.rint.{self.spelled}", f.binary("fmul", v, inverse))
            q = f.op(
                self.whole, f"fptosi {rounded} to {self.whole}"
            )  # any number for NaN: such a row is not used
            total = f.binary("add", total, q)
            place = (p % BLOCK // PIECE) * self.length + p // BLOCK * PIECE + p % PIECE
            for digit in range(DIGITS):
                byte = f.op(f"<{n} x i8>", f"trunc {q} to <{n} x i8>")
                f.store(byte, f.gep("i8", to, i64((DIGITS - 1 - digit) * 2 * self.length + place)), 1)
                if digit + 1 < DIGITS:
                    q = f.binary("ashr", f.binary("add", q, self.number(128)), self.number(8))
        f.store(scale, beside, 4)
        whole = f.op("float", f"sitofp {f.call('i32', f'llvm.vector.reduce.add.v{n}i32', total)} to float")
        f.store(f.binary("fmul", whole, scale), f.gep("float", beside, i64(1)), 4)
        return bad

    def power(self, exponent: Value) -> Value:
        """2^(exponent - 127)."""
        return self.f.op("float", f"bitcast {self.f.binary('shl', exponent, Value('i32', '23'))} to float")


class _Multiplying(Elements):
    def __init__(self, f: Function, kernel: Product) -> None:
        super().__init__(f, "float32", kernel.bytes // 4)
        self.length, self.vnni, self.kept = kernel.bytes, kernel.vnni, kernel.dtype
        self.codes, self.whole = f"<{kernel.bytes} x i8>", f"<{self.lanes} x i32>"
        self.one = Lowering(f, None)

    def write(self) -> None:
        f = self.f
        self.out, self.digits, self.factors, self.weight, self.scales = (self.data(k) for k in range(5))
        begin, end = self.geometry(0), self.geometry(1)
        self.columns, self.terms, rows, self.group = (self.geometry(k) for k in range(2, 6))
        self.line = f.binary("sdiv", self.terms, i64(2))
        self.steps = f.binary("sdiv", self.line, i64(self.length))
        self.each = f.binary("sdiv", self.group, i64(2 * self.length))  # steps of a group

        def all_rows(column: Value, columns: int) -> list[Value]:
            f.loop(i64(0), rows, i64(1), [], lambda row, _: self.tile(row, column, columns))
            return []

        def block(which: Value, _: list[Value]) -> list[Value]:
            first = f.mul(which, i64(COLUMNS))
            whole = f.op("i1", f"icmp sle {f.add(first, i64(COLUMNS))}, {self.columns.name}")
            f.when(whole, lambda: all_rows(first, COLUMNS))
            stop = self.low.select(whole, first, self.columns)
            f.loop(first, stop, i64(1), [], lambda column, _: all_rows(column, 1))
            return []

        f.loop(begin, end, i64(1), [], block)

    def tile(self, row: Value, column: Value, columns: int) -> list[Value]:
        f = self.f
        digits = f.gep("i8", self.digits, f.mul(f.mul(row, self.terms), i64(DIGITS)))
        factors = f.gep("float", self.factors, f.mul(f.mul(row, self.steps), i64(2)))
        weight = [f.gep("i8", self.weight, f.mul(f.add(column, i64(j)), self.line)) for j in range(columns)]
        pairs = Elements(f, self.kept, 2 * columns)
        kind = f"<{2 * columns} x float>"

        def group(number: Value, sums: list[Value]) -> list[Value]:
            place = pairs.element(self.scales, f.mul(f.add(f.mul(number, self.columns), column), i64(2)))
            self.foresee(pairs.element(place, i64(4 * columns)))
            pair = pairs.low.cast(pairs.load(place), self.kept, "float32")
            first = f.mul(number, self.each)
            return f.loop(first, f.add(first, self.each), i64(1), sums, partial(step, pair))

        def step(pair: Value, k: Value, sums: list[Value]) -> list[Value]:
            beside = f.gep("float", factors, f.mul(k, i64(2)))
            scale, total = (
                pairs.low.splat(f.load("float", f.gep("float", beside, i64(i)), 4)) for i in (0, 1)
            )
            beside_sums = f.call(kind, f"llvm.fma.v{2 * columns}f32", pair, total, sums[-1])
            scaled = f.binary("fmul", pair, scale)
            at, x = f.mul(k, i64(self.length)), f.gep("i8", digits, f.mul(k, i64(2 * DIGITS * self.length)))
            parts = [f.load(self.codes, f.gep("i8", x, i64(d * self.length)), 1) for d in range(2 * DIGITS)]
            result = []
            for j, p in enumerate(weight):
                place = f.gep("i8", p, at)
                self.foresee(ahead(f, weight, self.line, at, j, self.length), near=False)
                exact = self.product(place, parts)
                number = f.op(self.vector, f"sitofp {exact} to {self.vector}")
                factor = self.splat_of(scaled, 2 * j, kind)
                result.append(f.call(self.vector, f"llvm.fma.{self.spelled}", number, factor, sums[j]))
            return [*result, beside_sums]

        start = [*[self.zero] * columns, Value(kind, "zeroinitializer")]
        groups = f.binary("sdiv", self.steps, self.each)
        *sums, beside = f.loop(i64(0), groups, i64(1), start, group)
        line = pairs.element(self.out, f.mul(row, self.columns))
        for j, v in enumerate(sums):
            scales, zeros = (f.op("float", f"extractelement {beside}, i64 {2 * j + i}") for i in (0, 1))
            value = f.call("float", "llvm.fma.f32", scales, Value("float", "-8.0"), zeros)
            value = f.binary("fadd", value, self.sum(v))
            place = pairs.element(line, f.add(column, i64(j)))
            f.store(self.one.cast(value, "float32", self.kept), place, pairs.size)
        return []

    def sum(self, v: Value) -> Value:
        zero = Value("float", "-0.0")
        name = f"llvm.vector.reduce.fadd.{self.spelled}"
        self.f.module.declare(name, "float", ["float", self.vector])
        return self.f.op("float", f"call reassoc float @{name}({zero}, {v})")

    def splat_of(self, v: Value, lane: int, kind: str) -> Value:
        picks = ", ".join([f"i32 {lane}"] * self.lanes)
        return self.f.op(self.vector, f"shufflevector {v}, {kind} poison, <{self.lanes} x i32> <{picks}>")

    def product(self, place: Value, parts: list[Value]) -> Value:
        """Sums of codes times integers, digit by digit from the highest."""
        f = self.f
        codes = f.load(self.codes, place, 1)
        words = Value(
            f"<{self.length // 2} x i16>", f.op("", f"bitcast {codes} to <{self.length // 2} x i16>").name
        )
        shifted = f.op(words.type, f"lshr {words}, splat (i16 4)")
        high = f.op(self.codes, f"bitcast {shifted} to {self.codes}")
        low, high = (f.op(self.codes, f"and {v}, splat (i8 15)") for v in (codes, high))
        total = Value(self.whole, "zeroinitializer")
        for digit in range(DIGITS):
            if digit:
                total = f.op(self.whole, f"shl {total}, splat (i32 8)")
            total = self.dot(total, ((low, parts[2 * digit]), (high, parts[2 * digit + 1])))
        return total

    def dot(self, total: Value, pairs: tuple[tuple[Value, Value], ...]) -> Value:
        """`total` and in each 32 bits the four products of unsigned and signed bytes there."""
        f = self.f
        if self.vnni:
            for a, b in pairs:
                total = f.call(self.whole, f"llvm.x86.avx512.vpdpbusd.{8 * self.length}", total, a, b)
            return total
        short = f"<{self.length // 2} x i16>"
        two, four = (
            ("llvm.x86.avx2.pmadd.ub.sw", "llvm.x86.avx2.pmadd.wd")
            if self.length == 32
            else ("llvm.x86.avx512.pmaddubs.w.512", "llvm.x86.avx512.pmaddw.d.512")
        )
        (low, x), (high, y) = pairs
        sums = f.binary("add", f.call(short, two, low, x), f.call(short, two, high, y))
        return f.binary("add", total, f.call(self.whole, four, sums, Value(short, "splat (i16 1)")))
