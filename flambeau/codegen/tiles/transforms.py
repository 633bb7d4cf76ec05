"""Discrete Fourier transforms of as many signals side by side as a vector has lanes.

An element of all these signals is a block: a vector of their real parts and one of their imaginary ones.  So butterflies need no
shuffles, and a factor is one number for all lanes.  `core/lib/fourier.pyx` walks over blocks and signals; here are the functions
it calls, each with a table of words (addresses, counts, distances in bytes) as its argument.

A pass is one step of Stockham's algorithm (W. Cochran et al., "What is the fast Fourier transform?", 1967): with factor R, m = the length
left / R, and s = the product of the factors before,

    y[q + s (R p + j)] = w^(p j) Σ_k x[q + s (p + m k)] e^(-2πi jk/R),   w = e^(-2πi/(R m))

An inverse transform is one of numbers whose real and imaginary parts change places: the places are arguments.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...core.base.callbacks import set_callback
from .. import target
from ..irtext import Function, Module, Value, float_literal, i64
from .objects import compiled
from .register import width

FACTORS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 16)
SIZES = {"float": 4, "double": 8}


class Complex(NamedTuple):
    re: Value
    im: Value


class _Writer:
    """Instructions on vectors of one type of number."""

    def __init__(self, f: Function, scalar: str):
        self.f, self.scalar, self.size = f, scalar, SIZES[scalar]
        self.lanes = width() // self.size
        self.vector = f"<{self.lanes} x {scalar}>"
        self.block = 2 * width()

    # --- memory ---
    def word(self, k: int, kind: str = "i64") -> Value:
        return self.f.load(kind, self.f.gep("i64", Value("ptr", "%t"), i64(k)), 8)

    def at(self, pointer: Value, offset: Value) -> Value:
        return self.f.gep("i8", pointer, offset)

    def element(self, pointer: Value, index: Value) -> Value:
        return self.at(pointer, self.f.mul(index, i64(self.block)))

    def load(self, pointer: Value) -> Value:
        return self.f.load(self.vector, pointer, self.size)

    def store(self, value: Value, pointer: Value) -> None:
        self.f.store(value, pointer, self.size)

    def read(self, pointer: Value, re: Value, im: Value) -> Complex:
        return Complex(self.load(self.at(pointer, re)), self.load(self.at(pointer, im)))

    def write(self, value: Complex, pointer: Value, re: Value, im: Value) -> None:
        self.store(value.re, self.at(pointer, re))
        self.store(value.im, self.at(pointer, im))

    def hidden(self, pointer: Value) -> Value:
        """The same address, of which the compiler does not see how it changes from turn to turn: it would keep each address that is made
        of it in a variable of its own, of which there are more than registers.
        """
        return self.f.op("ptr", f'call ptr asm "", "=r,0"({pointer})')

    def splat(self, number: Value) -> Value:
        one = self.f.op(self.vector, f"insertelement {self.vector} poison, {number}, i64 0")
        zeros = f"<{self.lanes} x i32> zeroinitializer"
        return self.f.op(self.vector, f"shufflevector {one}, {self.vector} poison, {zeros}")

    def factor(self, pointer: Value, k: int = 0) -> Complex:
        """Complex number k of a table, in every lane."""
        first = self.at(pointer, i64(2 * k * self.size))
        second = self.at(pointer, i64((2 * k + 1) * self.size))
        parts = (self.f.load(self.scalar, p, self.size) for p in (first, second))
        return Complex(*map(self.splat, parts))

    # --- arithmetic ---
    def constant(self, number: float) -> Value:
        one = f"{self.scalar} {float_literal(number, self.scalar)}"
        return Value(self.vector, f"<{', '.join([one] * self.lanes)}>")

    def plus(self, a: Value, b: Value) -> Value:
        return self.f.binary("fadd contract", a, b)

    def minus(self, a: Value, b: Value) -> Value:
        return self.f.binary("fsub contract", a, b)

    def scaled(self, a: Value, b: Value) -> Value:
        return self.f.binary("fmul contract", a, b)

    def sum(self, a: Complex, b: Complex) -> Complex:
        return Complex(self.plus(a.re, b.re), self.plus(a.im, b.im))

    def difference(self, a: Complex, b: Complex) -> Complex:
        return Complex(self.minus(a.re, b.re), self.minus(a.im, b.im))

    def product(self, a: Complex, b: Complex) -> Complex:
        re = self.minus(self.scaled(a.re, b.re), self.scaled(a.im, b.im))
        return Complex(re, self.plus(self.scaled(a.re, b.im), self.scaled(a.im, b.re)))

    def negative(self, a: Value) -> Value:
        return self.f.op(a.type, f"fneg {a}")

    def conjugate(self, a: Complex) -> Complex:
        return Complex(a.re, self.negative(a.im))

    def turned(self, a: Complex, k: int, n: int) -> Complex:
        """a e^(-2πi k/n)."""
        k %= n
        if k == 0:
            return a
        if 4 * k == n:
            return Complex(a.im, self.negative(a.re))
        if 2 * k == n:
            return Complex(self.negative(a.re), self.negative(a.im))
        if 4 * k == 3 * n:
            return Complex(self.negative(a.im), a.re)
        if 8 * k % n == 0:  # both parts of one size
            half, octant = self.constant(math.sqrt(0.5)), 8 * k // n
            both, apart = self.plus(a.re, a.im), self.minus(a.im, a.re)
            if octant == 1:
                return Complex(self.scaled(both, half), self.scaled(apart, half))
            if octant == 3:
                return Complex(self.scaled(apart, half), self.negative(self.scaled(both, half)))
            if octant == 5:
                return Complex(
                    self.negative(self.scaled(both, half)), self.negative(self.scaled(apart, half))
                )
            return Complex(self.negative(self.scaled(apart, half)), self.scaled(both, half))
        angle = 2.0 * math.pi * k / n
        return self.product(a, Complex(self.constant(math.cos(angle)), self.constant(-math.sin(angle))))

    # --- butterflies ---
    def dft(self, x: Sequence[Complex]) -> list[Complex]:
        """The transform of a few numbers: of a composite count in two steps, of a prime one with the symmetries of its roots."""
        n = len(x)
        if n == 1:
            return list(x)
        if n == 2:
            return [self.sum(*x), self.difference(*x)]
        for a in (4, 2, 3, 5):
            if n % a == 0 and n > a or n == a == 4:
                a = 2 if n == 4 else a
                return self.in_two_steps(x, a, n // a)
        return self.of_prime_count(x)

    def in_two_steps(self, x: Sequence[Complex], a: int, b: int) -> list[Complex]:
        n = a * b
        columns = [self.dft(x[j::b]) for j in range(b)]
        rows = [self.dft([self.turned(columns[j][k], j * k, n) for j in range(b)]) for k in range(a)]
        return [rows[k % a][k // a] for k in range(n)]

    def of_prime_count(self, x: Sequence[Complex]) -> list[Complex]:
        n, half = len(x), len(x) // 2
        sums = [self.sum(x[j], x[n - j]) for j in range(1, half + 1)]
        differences = [self.difference(x[j], x[n - j]) for j in range(1, half + 1)]
        total = x[0]
        for s in sums:
            total = self.sum(total, s)
        result: list[Complex] = [total] * n
        for k in range(1, half + 1):
            even, odd = x[0], x[0]  # the first turn sets the latter
            for j in range(1, half + 1):
                angle = 2.0 * math.pi * (j * k % n) / n
                cos, sin = self.constant(math.cos(angle)), self.constant(math.sin(angle))
                s, d = sums[j - 1], differences[j - 1]
                even = Complex(
                    self.plus(even.re, self.scaled(s.re, cos)), self.plus(even.im, self.scaled(s.im, cos))
                )
                more = Complex(self.scaled(d.re, sin), self.scaled(d.im, sin))
                odd = more if j == 1 else self.sum(odd, more)
            result[k] = Complex(self.plus(even.re, odd.im), self.minus(even.im, odd.re))
            result[n - k] = Complex(self.minus(even.re, odd.im), self.plus(even.im, odd.re))
        return result


# --- the functions -----------------------------------------------------------------------------------------------------------
def _pass(w: _Writer, radix: int) -> None:
    """x, y, factors, m, s, where real parts stand in a block, where imaginary ones."""
    f = w.f
    x, y, table = (w.word(k, "ptr") for k in range(3))
    m, s, re, im = (w.word(k) for k in range(3, 7))
    one_step = f.mul(s, i64(w.block))
    x_step = f.mul(one_step, m)

    def butterflies(p: Value, factors: Value | None) -> None:
        source = w.at(x, f.mul(p, one_step))
        to = w.at(y, f.mul(f.mul(p, one_step), i64(radix)))

        def butterfly(q: Value, _: list[Value]) -> list[Value]:
            here, there, read = w.hidden(w.at(source, q)), w.hidden(w.at(to, q)), []
            for j in range(radix):
                read.append(w.read(here, re, im))
                here = w.at(here, x_step) if j < radix - 1 else here
            for j, value in enumerate(w.dft(read)):
                if factors is not None and j:
                    value = w.product(value, w.factor(factors, j - 1))
                w.write(value, there, re, im)
                there = w.at(there, one_step) if j < radix - 1 else there
            return []

        f.loop(i64(0), one_step, i64(w.block), [], butterfly)

    def with_factors(p: Value, _: list[Value]) -> list[Value]:
        butterflies(p, w.at(table, f.mul(p, i64((radix - 1) * 2 * w.size))))
        return []

    butterflies(i64(0), None)
    f.loop(i64(1), m, i64(1), [], with_factors)


def _columns(w: _Writer, rows: list[Value]) -> list[Value]:
    """The columns of the square whose rows begin at these addresses.

    Pieces of 16 bytes are read to where they belong, which takes no shuffle; what is left are squares of pieces, one in each lane of
    16 bytes.  Registers of 64 bytes are shuffled across such lanes by one unit of the processor alone.
    """
    piece = 16 // w.size
    count = w.lanes // piece
    result: list[Value] = []
    for group in range(count):
        offset = i64(16 * group)
        block = [_gathered(w, [w.at(row, offset) for row in rows[i::piece]]) for i in range(piece)]
        result += _turned_in_lanes(w, block)
    return result


def _gathered(w: _Writer, places: list[Value]) -> Value:
    """16 bytes from each of these places, side by side."""
    piece, n = 16 // w.size, w.lanes
    result = Value(w.vector, "poison")
    for lane, place in enumerate(places):
        few = w.f.load(f"<{piece} x {w.scalar}>", place, w.size)
        order = ", ".join(f"i32 {k % piece}" for k in range(n))
        many = w.f.op(w.vector, f"shufflevector {few}, {few.type} poison, <{n} x i32> <{order}>")
        mask = ", ".join(f"i1 {str(k // piece == lane).lower()}" for k in range(n))
        result = many if lane == 0 else w.f.op(w.vector, f"select <{n} x i1> <{mask}>, {many}, {result}")
    return result


def _turned_in_lanes(w: _Writer, block: list[Value]) -> list[Value]:
    """Squares of pieces turned, one in each lane of 16 bytes, by exchanging halves of them, then quarters."""
    step = len(block) // 2
    while step:
        masks = []
        for other in (0, step):
            lanes = [
                k - k % (2 * step) + k % step + other + (w.lanes if k & step else 0) for k in range(w.lanes)
            ]
            masks.append(f"<{w.lanes} x i32> <{', '.join(f'i32 {lane}' for lane in lanes)}>")
        for i in range(len(block)):
            if not i & step:
                a, b = block[i], block[i + step]
                block[i], block[i + step] = (
                    w.f.op(w.vector, f"shufflevector {a}, {b}, {mask}") for mask in masks
                )
        step //= 2
    return block


def _by_squares(w: _Writer, count: Value, square: Callable[[Value], None]) -> None:
    """A square for each `lanes` elements; the last one overlaps the one before, and there are at least so many."""
    last = w.f.binary("sub nsw", count, i64(w.lanes))

    def one(start: Value, _: list[Value]) -> list[Value]:
        beyond = w.f.op("i1", f"icmp sgt {start}, {last.name}")
        square(w.f.op("i64", f"select {beyond}, {last}, {start}"))
        return []

    w.f.loop(i64(0), count, i64(w.lanes), [], one)


def _rows_in(w: _Writer) -> None:
    """source, where its rows begin (a table), to, elements, distance of vectors: rows become lanes."""
    source, table, to = (w.word(k, "ptr") for k in range(3))
    count, step = w.word(3), w.word(4)

    def square(start: Value) -> None:
        offset, rows = w.f.mul(start, i64(w.size)), []
        for i in range(w.lanes):
            row = w.at(source, w.f.load("i64", w.f.gep("i64", table, i64(i)), 8))
            rows.append(w.at(row, offset))
        place = w.at(to, w.f.mul(start, step))
        for i, column in enumerate(_columns(w, rows)):
            w.store(column, w.at(place, w.f.mul(step, i64(i))))

    _by_squares(w, count, square)


def _rows_out(w: _Writer) -> None:
    """source, where the rows of the result begin, result, elements, distance of vectors: lanes become rows."""
    source, table, to = (w.word(k, "ptr") for k in range(3))
    count, step = w.word(3), w.word(4)

    def square(start: Value) -> None:
        place = w.at(source, w.f.mul(start, step))
        columns = [w.at(place, w.f.mul(step, i64(i))) for i in range(w.lanes)]
        offset = w.f.mul(start, i64(w.size))
        for i, row in enumerate(_columns(w, columns)):
            begin = w.at(to, w.f.load("i64", w.f.gep("i64", table, i64(i)), 8))
            w.store(row, w.at(begin, offset))

    _by_squares(w, count, square)


def _each(w: _Writer, begin: Value, count: Value, body: Callable[[Value], None]) -> None:
    def one(k: Value, _: list[Value]) -> list[Value]:
        body(k)
        return []

    w.f.loop(begin, count, i64(1), [], one)


def _lanes_in(w: _Writer) -> None:
    """source, to, elements, distance of elements in the source: complex numbers side by side become lanes."""
    source, to, count, step = w.word(0, "ptr"), w.word(1, "ptr"), w.word(2), w.word(3)
    masks = [
        f"<{w.lanes} x i32> <{', '.join(f'i32 {2 * lane + k}' for lane in range(w.lanes))}>" for k in (0, 1)
    ]

    def one(k: Value) -> None:
        here = w.at(source, w.f.mul(k, step))
        a, b = w.load(here), w.load(w.at(here, i64(width())))
        parts = (w.f.op(w.vector, f"shufflevector {a}, {b}, {mask}") for mask in masks)
        w.write(Complex(*parts), w.element(to, k), i64(0), i64(width()))

    _each(w, i64(0), count, one)


def _lanes_out(w: _Writer) -> None:
    """source, to, elements, distance of elements in the result: lanes become complex numbers side by side."""
    source, to, count, step = w.word(0, "ptr"), w.word(1, "ptr"), w.word(2), w.word(3)
    orders = [
        [lane // 2 + w.lanes * (lane % 2) + half * w.lanes // 2 for lane in range(w.lanes)] for half in (0, 1)
    ]
    masks = [f"<{w.lanes} x i32> <{', '.join(f'i32 {lane}' for lane in order)}>" for order in orders]

    def one(k: Value) -> None:
        a, b = w.read(w.element(source, k), i64(0), i64(width()))
        there = w.at(to, w.f.mul(k, step))
        for half, mask in enumerate(masks):
            w.store(w.f.op(w.vector, f"shufflevector {a}, {b}, {mask}"), w.at(there, i64(half * width())))

    _each(w, i64(0), count, one)


def _times(w: _Writer) -> None:
    """x, factors, elements, places of the parts: each element times its factor, in place."""
    x, table, count, re, im = w.word(0, "ptr"), w.word(1, "ptr"), w.word(2), w.word(3), w.word(4)

    def one(k: Value) -> None:
        here = w.element(x, k)
        factor = w.factor(w.at(table, w.f.mul(k, i64(2 * w.size))))
        w.write(w.product(w.read(here, re, im), factor), here, re, im)

    _each(w, i64(0), count, one)


def _twisted(w: _Writer) -> None:
    """x, factors, blocks of factors, elements, places of the parts: each element times its factor and its block, in place."""
    x, table, blocks = (w.word(k, "ptr") for k in range(3))
    count, re, im = w.word(3), w.word(4), w.word(5)

    def one(k: Value) -> None:
        here = w.element(x, k)
        factor = w.factor(w.at(table, w.f.mul(k, i64(2 * w.size))))
        both = w.product(w.read(w.element(blocks, k), i64(0), i64(width())), factor)
        w.write(w.product(w.read(here, re, im), both), here, re, im)

    _each(w, i64(0), count, one)


def _scaled(w: _Writer) -> None:
    """x, elements, the factor (float64): each element times it, in place."""
    x, count, wide = w.word(0, "ptr"), w.word(1), w.word(2, "double")
    own = wide if w.scalar == "double" else w.f.op(w.scalar, f"fptrunc {wide} to {w.scalar}")
    factor = w.splat(own)

    def one(k: Value) -> None:
        here = w.element(x, k)
        value = w.read(here, i64(0), i64(width()))
        w.write(Complex(w.scaled(value.re, factor), w.scaled(value.im, factor)), here, i64(0), i64(width()))

    _each(w, i64(0), count, one)


def _mirrored(w: _Writer) -> None:
    """x, n: elements from n/2 on become the conjugates of those before, from the end: those of a real signal."""
    x, n = w.word(0, "ptr"), w.word(1)
    half = w.f.binary("lshr", w.f.add(n, i64(1)), i64(1))

    def one(k: Value) -> None:
        value = w.conjugate(w.read(w.element(x, k), i64(0), i64(width())))
        w.write(value, w.element(x, w.f.binary("sub nsw", n, k)), i64(0), i64(width()))

    _each(w, i64(1), half, one)


def _ends(w: _Writer, h: Value, k: Value, x: Value) -> tuple[Value, Value]:
    return w.element(x, k), w.element(x, w.f.binary("sub nsw", h, k))


def _unpacked(w: _Writer) -> None:
    """z, y, factors e^(-πi k/h), h: the first h + 1 values of a real signal of 2h numbers, from those of its pairs.

    With E = (z_k + z*_(h-k)) / 2 and O = (z_k - z*_(h-k)) / 2i: y_k = E + w^k O, y_(h-k) = (E - w^k O)*.
    """
    z, y, table, h = w.word(0, "ptr"), w.word(1, "ptr"), w.word(2, "ptr"), w.word(3)
    first, second = i64(0), i64(width())
    zero, half = w.constant(0.0), w.constant(0.5)
    a = w.read(z, first, second)
    w.write(Complex(w.plus(a.re, a.im), zero), y, first, second)
    w.write(Complex(w.minus(a.re, a.im), zero), w.element(y, h), first, second)

    def one(k: Value) -> None:
        low, high = _ends(w, h, k, z)
        a, b = w.read(low, first, second), w.conjugate(w.read(high, first, second))
        even, odd = w.sum(a, b), w.difference(a, b)
        even = Complex(w.scaled(even.re, half), w.scaled(even.im, half))
        odd = Complex(w.scaled(odd.im, half), w.negative(w.scaled(odd.re, half)))
        odd = w.product(odd, w.factor(w.at(table, w.f.mul(k, i64(2 * w.size)))))
        low, high = _ends(w, h, k, y)
        w.write(w.sum(even, odd), low, first, second)
        w.write(w.conjugate(w.difference(even, odd)), high, first, second)

    _each(w, i64(1), w.f.add(w.f.binary("lshr", h, i64(1)), i64(1)), one)


def _packed(w: _Writer) -> None:
    """y, z, factors, h: the reverse of `_unpacked`, times 2."""
    y, z, table, h = w.word(0, "ptr"), w.word(1, "ptr"), w.word(2, "ptr"), w.word(3)
    first, second = i64(0), i64(width())
    a, b = w.load(y), w.load(w.element(y, h))
    w.write(Complex(w.plus(a, b), w.minus(a, b)), z, first, second)

    def one(k: Value) -> None:
        low, high = _ends(w, h, k, y)
        a, b = w.read(low, first, second), w.conjugate(w.read(high, first, second))
        even, odd = w.sum(a, b), w.difference(a, b)
        factor = w.conjugate(w.factor(w.at(table, w.f.mul(k, i64(2 * w.size)))))
        odd = w.product(odd, factor)
        odd = Complex(w.negative(odd.im), odd.re)
        low, high = _ends(w, h, k, z)
        w.write(w.sum(even, odd), low, first, second)
        w.write(w.conjugate(w.difference(even, odd)), high, first, second)

    _each(w, i64(1), w.f.add(w.f.binary("lshr", h, i64(1)), i64(1)), one)


# --- signals whose own elements are lanes ------------------------------------------------------------------------------------
def _order(w: _Writer, picks: Sequence[int]) -> str:
    return f"<{w.lanes} x i32> <{', '.join(f'i32 {k}' for k in picks)}>"


def _apart(w: _Writer, a: Value, b: Value, backwards: bool = False) -> Complex:
    """Complex numbers side by side in two vectors, as vectors of their parts; `backwards`: the last one first."""
    picks = range(w.lanes)[:: -1 if backwards else 1]
    orders = [_order(w, [2 * lane + k for lane in picks]) for k in (0, 1)]
    return Complex(*(w.f.op(w.vector, f"shufflevector {a}, {b}, {order}") for order in orders))


def _together(w: _Writer, value: Complex, backwards: bool = False) -> list[Value]:
    """The reverse."""
    a, b = value
    order = [lane // 2 + w.lanes * (lane % 2) for lane in range(2 * w.lanes)]
    if backwards:
        order = [w.lanes * (lane % 2) + w.lanes - 1 - lane // 2 for lane in range(2 * w.lanes)]
    halves = order[: w.lanes], order[w.lanes :]
    return [w.f.op(w.vector, f"shufflevector {a}, {b}, {_order(w, half)}") for half in halves]


def _beside(w: _Writer, pointer: Value, backwards: bool = False) -> Complex:
    return _apart(w, w.load(pointer), w.load(w.at(pointer, i64(width()))), backwards)


def _put_beside(w: _Writer, value: Complex, pointer: Value, backwards: bool = False) -> None:
    for k, part in enumerate(_together(w, value, backwards)):
        w.store(part, w.at(pointer, i64(k * width())))


def _own_lanes_in(w: _Writer, signals: int, inverse: bool) -> None:
    """source, where its signals begin (a table), to, factors, groups of signals, m, bytes from a block to the next one of a signal: the
    first pass, of as many numbers as a vector has lanes.

    Lanes are neighbours p of one signal, or all m of several.  The results j of a lane are neighbours: squares are turned, and a block
    holds those of one p.  The blocks p of all signals stand side by side.
    """
    f, n = w.f, w.lanes
    source, table, to, factors = (w.word(k, "ptr") for k in range(4))
    groups, m, step = w.word(4), w.word(5), w.word(6)
    own = n // signals  # lanes of a signal
    number, piece = (
        2 * w.size,
        16 // (2 * w.size),
    )  # bytes of a complex number, and how many are moved at once
    buffer = f.op("ptr", f"alloca [{2 * n * width()} x i8], align 64")

    def group(g: Value, _: list[Value]) -> list[Value]:
        first = f.mul(g, i64(signals))
        bases = []
        for r in range(signals):
            place = f.gep("i64", table, f.add(first, i64(r)))
            bases.append(w.at(source, f.load("i64", place, 8)))

        def square(begin: Value, _: list[Value]) -> list[Value]:
            def read(k: int) -> Complex:
                offset = f.mul(f.add(begin, f.mul(m, i64(k))), i64(number))
                if signals == 1:
                    return _beside(w, w.at(bases[0], offset))
                vectors = []
                for half in range(2):
                    lanes = range(half * n // 2, (half + 1) * n // 2, piece)
                    places = [w.at(bases[c // own], f.add(offset, i64(c % own * number))) for c in lanes]
                    vectors.append(_gathered(w, places))
                return _apart(w, vectors[0], vectors[1])

            values = [read(k) for k in range(n)]
            if inverse:
                values = [Complex(v.im, v.re) for v in values]
            of_square = w.at(factors, f.mul(f.mul(begin, i64(n - 1)), i64(number)))
            for j, value in enumerate(w.dft(values)):
                if j:
                    at = w.at(of_square, i64((j - 1) * w.block))
                    value = w.product(value, w.read(at, i64(0), i64(width())))
                w.write(value, w.at(buffer, i64(j * width())), i64(0), i64(n * width()))
            columns = [
                _columns(w, [w.at(buffer, i64((part * n + j) * width())) for j in range(n)])
                for part in (0, 1)
            ]
            for lane in range(n):
                block = f.mul(f.add(begin, i64(lane % own)), step)
                signal = f.mul(f.add(first, i64(lane // own)), i64(w.block))
                there = w.at(to, f.add(block, signal))
                w.write(Complex(columns[0][lane], columns[1][lane]), there, i64(0), i64(width()))
            return []

        f.loop(i64(0), m, i64(own), [], square)
        return []

    f.loop(i64(0), groups, i64(1), [], group)


def _own_lanes_out(w: _Writer, inverse: bool) -> None:
    """source, to, blocks, bytes from a block to the next, the scale (float64): a signal's numbers side by side, times that."""
    source, to, count, step = w.word(0, "ptr"), w.word(1, "ptr"), w.word(2), w.word(3)
    scale = _scale(w, 4)

    def one(k: Value) -> None:
        value = w.read(w.at(source, w.f.mul(k, step)), i64(0), i64(width()))
        value = Complex(w.scaled(value.re, scale), w.scaled(value.im, scale))
        _put_beside(w, Complex(value.im, value.re) if inverse else value, w.element(to, k))

    _each(w, i64(0), count, one)


def _scale(w: _Writer, word: int) -> Value:
    wide = w.word(word, "double")
    return w.splat(wide if w.scalar == "double" else w.f.op(w.scalar, f"fptrunc {wide} to {w.scalar}"))


def _over_halves(w: _Writer, h: Value, body: Callable[[Value, Value], None]) -> None:
    """`body(k, last)` for as many numbers from k on as there are lanes, and those that end before number `last` = h - k + 1, which mirror
    them, until the halves meet; h is two vectors at least.
    """

    def some(k: Value, _: list[Value]) -> list[Value]:
        body(k, w.f.binary("sub nsw", w.f.add(h, i64(1)), k))
        return []

    w.f.loop(i64(1), w.f.add(w.f.binary("lshr", h, i64(1)), i64(1)), i64(w.lanes), [], some)


def _row_unpacked(w: _Writer) -> None:
    """z, y, factors e^(-πi k/h), h, the scale (float64): what `_unpacked` does, of one signal whose numbers stand side by side."""
    z, y, table, h = w.word(0, "ptr"), w.word(1, "ptr"), w.word(2, "ptr"), w.word(3)
    half = w.scaled(_scale(w, 4), w.constant(0.5))
    number = i64(2 * w.size)

    def some(k: Value, last: Value) -> None:
        end = w.f.mul(w.f.binary("sub nsw", last, i64(w.lanes)), number)
        begin = w.f.mul(k, number)
        a, b = _beside(w, w.at(z, begin)), w.conjugate(_beside(w, w.at(z, end), True))
        even, odd = w.sum(a, b), w.difference(a, b)
        even = Complex(w.scaled(even.re, half), w.scaled(even.im, half))
        odd = Complex(w.scaled(odd.im, half), w.negative(w.scaled(odd.re, half)))
        odd = w.product(odd, _beside(w, w.at(table, begin)))
        _put_beside(w, w.sum(even, odd), w.at(y, begin))
        _put_beside(w, w.conjugate(w.difference(even, odd)), w.at(y, end), True)

    _over_halves(w, h, some)


def _row_packed(w: _Writer) -> None:
    """y, z, factors, h: what `_packed` does, of one signal whose numbers stand side by side."""
    y, z, table, h = w.word(0, "ptr"), w.word(1, "ptr"), w.word(2, "ptr"), w.word(3)
    number = i64(2 * w.size)

    def some(k: Value, last: Value) -> None:
        end = w.f.mul(w.f.binary("sub nsw", last, i64(w.lanes)), number)
        begin = w.f.mul(k, number)
        a, b = _beside(w, w.at(y, begin)), w.conjugate(_beside(w, w.at(y, end), True))
        even, odd = w.sum(a, b), w.difference(a, b)
        odd = w.product(odd, w.conjugate(_beside(w, w.at(table, begin))))
        odd = Complex(w.negative(odd.im), odd.re)
        _put_beside(w, w.sum(even, odd), w.at(z, begin))
        _put_beside(w, w.conjugate(w.difference(even, odd)), w.at(z, end), True)

    _over_halves(w, h, some)


FUNCTIONS: dict[str, Callable[[_Writer], None]] = {
    **{f"pass{r}": functools.partial(_pass, radix=r) for r in FACTORS},
    "rows_in": _rows_in,
    "rows_out": _rows_out,
    "lanes_in": _lanes_in,
    "lanes_out": _lanes_out,
    "times": _times,
    "twisted": _twisted,
    "scaled": _scaled,
    "mirrored": _mirrored,
    "unpacked": _unpacked,
    "packed": _packed,
    **{
        f"own{signals}_{way}": functools.partial(_own_lanes_in, signals=signals, inverse=way == "back")
        for signals in (1, 2)
        for way in ("on", "back")
    },
    "own_out_on": functools.partial(_own_lanes_out, inverse=False),
    "own_out_back": functools.partial(_own_lanes_out, inverse=True),
    "row_unpacked": _row_unpacked,
    "row_packed": _row_packed,
}


def text(symbol: str, name: str, scalar: str) -> str:
    """The module of one function."""
    module = Module(target.llvm().get_default_triple())
    f = Function(module, f"define void @{symbol}(ptr noalias %t)")
    FUNCTIONS[name](_Writer(f, scalar))
    f.do("ret void")
    return str(module)


@functools.cache
def address(name: str, scalar: str) -> int:
    """Where a function stands in this process."""
    return compiled(functools.partial(text, name=name, scalar=scalar))


set_callback("transforms.width", width)
set_callback("transforms.address", address)
