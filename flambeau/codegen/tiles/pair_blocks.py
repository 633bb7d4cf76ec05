"""Sums of products of bfloat16 by vectors of pairs (AVX512_BF16): the blocks of the matrix unit where there is none.

    sums[i, j] (+)= sum over taps t and steps s of  A(t, s)[i, :] · B(t, s)[:, j]

Operands lie as `matrix_unit.py` says and the function has the same arguments, so who calls a block need not know which of the two
computes it.  Eight rows at a time keep their sums in registers through all taps and steps: a pair of A is broadcast from where it
stands, and meets a vector of 16 pairs of B.  Each sum is taken in float32, from the first pair to the last.
"""

from __future__ import annotations

import functools

from ...core.base.callbacks import set_callback
from .. import target
from ..irtext import Function, Module, Value, i64
from .matrix_unit import SIDE
from .register import PAIRS
from .vectors import Vectors, argument, number

ROWS = 8  # that are summed together

_ARGUMENTS = (
    "ptr noalias %a, i64 %a_row, i64 %a_step, ptr noalias %b, i64 %b_row, i64 %b_step, i64 %group, ptr noalias %offsets, i64 %taps, "
    "i64 %steps, ptr noalias %sums, i64 %pitch, i64 %mode"
)


def text(symbol: str, rows: int, columns: int) -> str:
    """The module of a function for blocks of 16 or 32 rows and columns, in units of 16."""
    module = Module(target.llvm().get_default_triple())
    f = Function(module, f"define void @{symbol}({_ARGUMENTS})")
    _write(Vectors(f, "float32", SIDE), rows * SIDE, columns)
    f.do("ret void")
    return str(module)


def _write(v: Vectors, rows: int, columns: int) -> None:
    f, a_row, b_row = v.f, number("a_row"), number("b_row")
    mode = f.binary("and", number("mode"), i64(1))
    adds = f.op("i1", f"icmp ne {mode}, 0")
    further = [f.mul(a_row, i64(k)) for k in range(4)]
    tap_bytes = f.mul(number("a_step"), number("steps"))

    def places(first: Value) -> list[Value]:
        """Where the sums of some rows stand."""
        result = []
        for _ in range(ROWS):
            result += [v.at(first, i64(j * v.bytes)) for j in range(columns)]
            first = v.at(first, number("pitch"))
        return result

    def pair(_, carried: list[Value]) -> list[Value]:
        """The sums with one pair of each row more."""
        a, b, *sums = carried
        halves = a, v.at(a, f.mul(a_row, i64(4)))
        read = [v.load(b)] + [v.load(v.at(b, number("group"))) for _ in range(columns - 1)]
        for i in range(ROWS):
            element = v.low.splat(f.load("float", v.at(halves[i // 4], further[i % 4]), 4))
            for j in range(columns):
                sums[i * columns + j] = _added(v, sums[i * columns + j], element, read[j])
        return [v.at(a, i64(4)), v.at(b, b_row), *sums]

    def band(at: Value, state: list[Value]) -> list[Value]:
        """Eight rows through all taps and steps."""
        start = v.at(argument("a"), f.mul(at, a_row))
        to = places(v.at(argument("sums"), f.mul(at, number("pitch"))))
        zero = [v.zero] * len(to)
        sums = f.when(adds, lambda: [v.load(place) for place in to], zero)

        def tap(t: Value, sums: list[Value]) -> list[Value]:
            a = v.at(start, f.mul(t, tap_bytes))
            b = v.at(argument("b"), f.load("i64", f.gep("i64", argument("offsets"), t), 8))

            def step(_, carried: list[Value]) -> list[Value]:
                a, b, *sums = carried

                sums = f.loop(i64(0), i64(SIDE), i64(1), [a, b, *sums], pair)[2:]
                return [v.at(a, number("a_step")), v.at(b, number("b_step")), *sums]

            return f.loop(i64(0), number("steps"), i64(1), [a, b, *sums], step)[2:]

        for place, value in zip(to, f.loop(i64(0), number("taps"), i64(1), sums, tap)):
            v.store(value, place)
        return state

    f.loop(i64(0), i64(rows), i64(ROWS), [], band)


def _added(v: Vectors, sum: Value, a: Value, b: Value) -> Value:
    a, b = (v.f.op("<32 x bfloat>", f"bitcast {x} to <32 x bfloat>") for x in (a, b))
    return v.f.call(v.vector, PAIRS, sum, a, b)


def fast() -> bool:
    """Whether a vector of pairs takes no longer than one of float32: on AMD's processors, not on Intel's."""
    return target.processor()[0].startswith("znver")


@functools.cache
def address(rows: int, columns: int) -> int:
    """Where the function for one or two registers' rows and columns stands."""
    from .objects import compiled

    return compiled(functools.partial(text, rows=rows, columns=columns))


set_callback("pair_blocks.address", address)
