"""What the math functions are built from: layouts of the dtypes, polynomials, sums of two numbers."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from . import expr as ex
from ._math_coefficients import COEFFICIENTS, CONSTANTS
from .expr import Expr, bitcast, fma, like, where

EXPANSIONS: dict[str, Callable[..., Expr]] = {}
INF, NAN = float("inf"), float("nan")


def expansion(function: Callable[..., Expr]) -> Callable[..., Expr]:
    EXPANSIONS[function.__name__] = function
    return function


# --- floating-point formats ------------------------------
class Layout(NamedTuple):
    """How a dtype's bits are laid out."""

    integer: str
    unsigned: str
    mantissa: int  # bits of the fraction
    bias: int
    pack: tuple[str, str]

    def bits(self, value: float) -> int:
        """The bits of a number of this dtype."""
        return struct.unpack(self.pack[1], struct.pack(self.pack[0], value))[0]

    def value(self, bits: int) -> float:
        """The number of those bits."""
        return struct.unpack(self.pack[0], struct.pack(self.pack[1], bits))[0]

    def round(self, value) -> float:
        return struct.unpack(self.pack[0], struct.pack(self.pack[0], float(value)))[0]

    @property
    def tiny(self) -> float:
        """Smallest normal number."""
        return 2.0 ** (1 - self.bias)

    @property
    def shifter(self) -> float:
        """Adding this rounds to an integer, which then stands in the lowest bits."""
        return 1.5 * 2.0**self.mantissa


LAYOUT = {
    "float32": Layout("int32", "uint32", 23, 127, ("<f", "<i")),
    "float64": Layout("int64", "uint64", 52, 1023, ("<d", "<q")),
}


def bits(x: Expr) -> Expr:
    return bitcast(x, LAYOUT[x.dtype].integer)


def power_of_two(biased: Expr, dtype: str) -> Expr:
    return bitcast(biased << LAYOUT[dtype].mantissa, dtype)


@functools.cache
def parts(name: str, dtype: str, count: int) -> tuple[float, ...]:
    """A positive constant as a sum of numbers of the dtype, largest first.

    The last is rounded and the others are rounded down: so all are positive, and 0 times any of them takes
    no sign from x in x - 0·part.
    """
    layout = LAYOUT[dtype]
    rest, out = Fraction(CONSTANTS[name]), []
    for k in range(count):
        part = layout.round(rest)
        if part > rest and k < count - 1:
            part = layout.value(layout.bits(part) - 1)
        out.append(part)
        rest -= Fraction(part)
    return tuple(out)


def poly(x: Expr, name: str) -> Expr:
    """The polynomial of that name; even and odd powers apart, which halves the chain of operations."""
    c = COEFFICIENTS[name, x.dtype]
    return horner(x, c) if len(c) < 6 else fma(horner(x * x, c[1::2]), x, horner(x * x, c[0::2]))


def horner(x: Expr, coefficients) -> Expr:
    y = like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        y = fma(x, y, c) if y.op != "const" else fma(y, x, c)
    return y


def clamp(x: Expr, low: float, high: float) -> Expr:
    """x between two bounds; NaN stays."""
    return where(x < low, low, where(x > high, high, x))


# --- sums of two numbers ------------------------------
class Double(NamedTuple):
    """An unevaluated sum of two numbers, the second below the first's last bit (Dekker, 1971)."""

    high: Expr
    low: Expr


def quick_two_sum(a: Expr, b: Expr) -> Double:
    """a + b exactly, |a| >= |b| or a = 0."""
    s = a + b
    return Double(s, b - (s - a))


def two_sum(a: Expr, b: Expr) -> Double:
    """a + b exactly (Knuth)."""
    s = a + b
    back = s - a
    return Double(s, (a - (s - back)) + (b - back))


def times(a: Double, b: Double) -> Double:
    p = a.high * b.high
    return Double(p, fma(a.high, b.high, -p) + fma(a.high, b.low, a.low * b.high))


def plus(a: Double, b: Double) -> Double:
    """a + b for |a| >= |b|."""
    s, e = quick_two_sum(a.high, b.high)
    return Double(s, e + (a.low + b.low))


def constant(name: str, x: Expr) -> Double:
    """A constant for sums with x."""
    return Double(*(ex.const(part, x.dtype) for part in parts(name, x.dtype, 2)))
