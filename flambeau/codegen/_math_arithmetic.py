"""Roots, lengths and remainders."""

from __future__ import annotations

from . import expr as ex
from ._math_base import CONSTANTS, INF, LAYOUT, NAN, bits, expansion
from .expr import Expr, absolute, bitcast, cast, copysign, fma, like, rarely, sqrt, trunc, where


@expansion
def rsqrt(x: Expr) -> Expr:
    return 1.0 / sqrt(x)


@expansion
def cbrt(x: Expr) -> Expr:
    """x·z^2, where z = x^(-1/3) comes from a guess in the bits and an iteration of third order, no
    division."""
    layout = LAYOUT[x.dtype]
    a = absolute(x)
    small = a < layout.tiny
    scale = 3 * (layout.mantissa // 3 + 1)
    a = where(small, a * 2.0**scale, a)
    # The bits of a number are about its logarithm.
    offset = int((4 / 3 * layout.bias - float(CONSTANTS["cbrt guess"])) * 2**20) << (layout.mantissa - 20)
    high = bits(a) if x.dtype == "float32" else bits(a) >> 32
    third = cast(ex.mulhi(cast(high, "uint32"), 0x55555556), layout.integer)
    z = bitcast(offset - (third if x.dtype == "float32" else third << 32), x.dtype)
    for _ in range(2 if x.dtype == "float32" else 3):
        e = 1.0 - a * z * z * z
        z = fma(z * e, fma(e, 2 / 9, 1 / 3), z)
    y = a * z * z
    square = y * y
    rest = fma(-square, y, a) - fma(y, y, -square) * y
    y = fma(rest * z * z, 1 / 3, y)
    y = where(small, y * 2.0 ** (-scale // 3), y)
    return where(a < INF, copysign(y, x), x)


@expansion
def hypot(x: Expr, y: Expr) -> Expr:
    """sqrt(x^2 + y^2), scaled by a power of two where squares leave the range; infinite where x or y is."""
    ax, ay = absolute(x), absolute(y)
    swap = ax < ay
    large, small = where(swap, ay, ax), where(swap, ax, ay)
    low, up, high, down = {"float32": (-30, 90, 60, -66), "float64": (-300, 800, 500, -600)}[x.dtype]

    def length(scale: Expr | float) -> Expr:
        a, b = large * scale, small * scale
        return sqrt(fma(a, a, b * b))

    factor = where(large < 2.0**low, like(x, 2.0**up), where(large > 2.0**high, like(x, 2.0**down), 1.0))
    inverse = where(large < 2.0**low, like(x, 2.0**-up), where(large > 2.0**high, like(x, 2.0**-down), 1.0))
    scaled = where((ax == INF) | (ay == INF), INF, length(factor) * inverse)
    return rarely(~((large > 2.0**low) & (large < 2.0**high)), scaled, length(1.0))


@expansion
def fmod(x: Expr, y: Expr) -> Expr:
    """The exact remainder of x / y rounded towards zero, of x's sign."""
    layout = LAYOUT[x.dtype]
    step = layout.mantissa - 1
    ax, ay = absolute(x), absolute(y)

    def subtract(r: Expr, divisor: Expr) -> Expr:
        """r less a whole number of divisors, below 2^mantissa; rounding may make it one too large."""
        rest = fma(trunc(r / divisor), -divisor, r)
        return where(rest < 0.0, rest + divisor, rest)

    divisors = [ay]
    while len(divisors) * step < 2 * layout.bias + layout.mantissa:
        divisors.append(divisors[-1] * 2.0**step)
    r = ax
    for divisor in reversed(divisors):
        r = where(divisor < INF, subtract(r, divisor), r)
    far = where((ax < INF) & (y != 0.0) & ~ex.isnan(y), r, NAN)
    return copysign(rarely(~((ax < ay * 2.0**step) & (ay < INF)), far, subtract(ax, ay)), x)


@expansion
def remainder(x: Expr, y: Expr) -> Expr:
    """The remainder of x / y rounded down, of y's sign (zero: of x's), as PyTorch has it."""
    r = fmod(x, y)
    return where((r != 0.0) & ((r < 0.0) ^ (y < 0.0)), r + y, r)
