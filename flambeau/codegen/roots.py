"""Square roots of float32 by AVX-512: its instruction for 16 of them takes longer than an estimate that is put right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import target
from .irtext import Value

if TYPE_CHECKING:
    from .lower import Lowering

ESTIMATED = 16  # numbers that one instruction estimates 1/sqrt of
SMALLEST = 51 << 23  # the bits of 2^-76: from it on, no step below is subnormal
INFINITE = 255 << 23  # the bits of infinity


def estimates(low: Lowering) -> bool:
    """Whether this is code for a processor with the estimate, of vectors that it fills."""
    host = low.f.module.triple.startswith("x86_64")
    return host and (low.lanes or 1) % ESTIMATED == 0 and target.has("avx512f")


def root(low: Lowering, x: Value) -> Value:
    """sqrt(x), the nearest number to it.

    From an estimate y of 1/sqrt(x), whose error is below 2^-14, follow g near sqrt(x) and h near 1/(2 sqrt(x)); then
    g + h·(x - g²) by fused operations is rounded once (Markstein, IBM Journal of Research and Development 34, 1990).  It is the
    nearest number for every x and every estimate with that error (tests/codegen/test_roots.py), so bits are the instruction's.
    Zeros are put in where there are some; negative, infinite and very small numbers and NaN take the instruction.
    """
    f, half = low.f, low.constant(0.5, "float32")

    def fused(a: Value, b: Value, c: Value) -> Value:
        return low.intrinsic("fma", "float32", a, b, c)

    def negative(a: Value) -> Value:
        return f.op(a.type, f"fneg {a}")

    y = estimate(low, x)
    g, h = f.binary("fmul", x, y), f.binary("fmul", y, half)
    error = fused(negative(h), g, half)
    g, h = fused(g, error, g), fused(h, error, h)
    result = fused(fused(negative(g), g, x), h, g)

    bits = f.op(low.vector("i32"), f"bitcast {x} to {low.vector('i32')}")
    beyond = f.binary("sub", bits, low.constant(SMALLEST, "int32"))
    limit = INFINITE - SMALLEST

    def irregular() -> list[Value]:
        zero = low.compare("oeq", x, low.constant(0.0, "float32"), True)
        regular = f.binary("or", zero, low.compare("ult", beyond, low.constant(limit, "int32")))
        other = f.binary("xor", regular, low.constant(True, "bool"))
        kept = low.select(zero, x, result)

        def instruction() -> list[Value]:
            return [low.select(other, low.intrinsic("sqrt", "float32", x), kept)]

        return f.when(f.call("i1", f"llvm.vector.reduce.or.v{low.lanes}i1", other), instruction, [kept])

    return f.when(any_beyond(low, beyond, limit), irregular, [result])[0]


def any_beyond(low: Lowering, x: Value, limit: int) -> Value:
    """Whether one of these integers, without signs, is as large as the limit: the largest of the registers is compared."""
    f, part = low.f, f"<{ESTIMATED} x i32>"
    largest, *others = registers(low, x, "i32")
    for other in others:
        largest = f.call(part, f"llvm.umax.v{ESTIMATED}i32", largest, other)
    beyond = f.op(f"<{ESTIMATED} x i1>", f"icmp uge {largest}, splat (i32 {limit})")
    return f.call("i1", f"llvm.vector.reduce.or.v{ESTIMATED}i1", beyond)


def estimate(low: Lowering, x: Value) -> Value:
    """About 1/sqrt(x), register by register."""
    f, part = low.f, f"<{ESTIMATED} x float>"
    nothing, every = Value(part, "zeroinitializer"), Value("i16", "-1")
    parts = [
        f.call(part, "llvm.x86.avx512.rsqrt14.ps.512", own, nothing, every)
        for own in registers(low, x, "float")
    ]
    wide = ESTIMATED
    while len(parts) > 1:
        wide *= 2
        pairs = zip(parts[::2], parts[1::2])
        parts = [f.op(f"<{wide} x float>", f"shufflevector {a}, {b}, {picks(0, wide)}") for a, b in pairs]
    return parts[0]


def registers(low: Lowering, x: Value, scalar: str) -> list[Value]:
    firsts = range(0, low.lanes or 1, ESTIMATED)
    one = f"<{ESTIMATED} x {scalar}>"
    return [low.f.op(one, f"shufflevector {x}, {x.type} poison, {picks(k, ESTIMATED)}") for k in firsts]


def picks(first: int, count: int) -> str:
    return f"<{count} x i32> <{', '.join(f'i32 {k}' for k in range(first, first + count))}>"
