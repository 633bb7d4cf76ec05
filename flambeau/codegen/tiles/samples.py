"""Rows at places that a table names, weighted and summed: sampling an image whose channels lie side by side.

Point j has `each` places at[j·each + k] with weights of their own.  `rows` sums the rows there, `spread` adds a point's row to all of
them, and `dots` takes the products with them: each is the derivative of the others.  `core/lib/samples.pyx` walks over images.
"""

from __future__ import annotations

import functools

from ...core.base.provided import provide
from ..irtext import Value, i64
from .taps import UNROLLED, Writer, compiled

_ARGUMENTS = "ptr {0} %rows, ptr {0} %points, ptr noalias %at, ptr {0} %weight, i64 %count, i64 %length, i64 %step, i64 %each"


def _text(symbol: str, kind: str, which: str, turns: int) -> str:
    """`rows` writes points, `spread` adds to rows, `dots` writes weights; rows are `length` neighbours, `step` elements apart.  `turns`:
    places of a point, where they are few.
    """
    w = Writer(kind, True, False)
    f = w.function(symbol, _ARGUMENTS.format("noalias"))
    length, step, lanes = Value("i64", "%length"), Value("i64", "%step"), w.lanes
    each = i64(turns) if turns else Value("i64", "%each")
    whole = f.binary("and", length, i64(-lanes))
    rest = f.binary("sub", length, whole)
    mask = w.below(f, rest)

    def at(table: str, row: Value, x: Value) -> Value:
        return f.gep(w.scalar, Value("ptr", table), f.add(f.mul(row, step), x))

    def over(state: list[Value], body) -> list[Value]:
        """`state = body(x, mask, state)` along a row."""
        state = f.loop(i64(0), whole, i64(lanes), state, lambda x, s: body(x, None, s))
        some = f.op("i1", f"icmp sgt {rest}, 0")
        if not state:
            f.when(some, lambda: body(whole, mask, []))
            return []
        return f.when(some, lambda: body(whole, mask, state), state)

    def places(j: Value) -> Value:
        return f.mul(j, each)

    def point(j: Value, _) -> list[Value]:
        first = places(j)
        if which == "rows":

            def chunk(x: Value, count: int, lanes_of: Value | None) -> list[Value]:
                def one(k: Value, totals: list[Value]) -> list[Value]:
                    place = f.add(first, k)
                    row, weight = w.number(f, "%at", place), w.splat(f, w.element(f, "%weight", place))
                    return [
                        w.added(f, t, w.read(f, at("%rows", row, f.add(x, i64(v * lanes))), lanes_of), weight)
                        for v, t in enumerate(totals)
                    ]

                totals = [w.zero()] * count
                if turns:
                    for k in range(turns):
                        totals = one(i64(k), totals)
                else:
                    totals = f.loop(i64(0), each, i64(1), totals, one)
                for v, total in enumerate(totals):
                    w.write(f, total, at("%points", j, f.add(x, i64(v * lanes))), lanes_of)
                return []

            many = f.binary("and", length, i64(-lanes * UNROLLED))
            f.loop(i64(0), many, i64(lanes * UNROLLED), [], lambda x, _: chunk(x, UNROLLED, None))
            f.loop(many, whole, i64(lanes), [], lambda x, _: chunk(x, 1, None))
            f.when(f.op("i1", f"icmp sgt {rest}, 0"), lambda: chunk(whole, 1, mask))
            return []

        def one_place(k: Value, _) -> list[Value]:
            place = f.add(first, k)
            row = w.number(f, "%at", place)
            if which == "spread":
                weight = w.splat(f, w.element(f, "%weight", place))

                def add(x: Value, lanes_of: Value | None, _) -> list[Value]:
                    there = at("%rows", row, x)
                    given = w.read(f, at("%points", j, x), lanes_of)
                    w.write(f, w.added(f, w.read(f, there, lanes_of), given, weight), there, lanes_of)
                    return []

                over([], add)
                return []
            product = lambda x, lanes_of, s: [
                w.added(
                    f,
                    s[0],
                    w.read(f, at("%rows", row, x), lanes_of),
                    w.read(f, at("%points", j, x), lanes_of),
                )
            ]
            total = over([w.zero()], product)[0]
            sum_ = f.op(
                w.scalar,
                f"call reassoc {w.scalar} @llvm.vector.reduce.fadd.{w.spelled}({w.scalar} 0.0, {total})",
            )
            w.module.declare(f"llvm.vector.reduce.fadd.{w.spelled}", w.scalar, [w.scalar, w.type])
            f.store(sum_, f.gep(w.scalar, Value("ptr", "%weight"), place), w.bytes)
            return []

        f.loop(i64(0), each, i64(1), [], one_place)
        return []

    f.loop(i64(0), Value("i64", "%count"), i64(1), [], point)
    f.do("ret void")
    return str(w.module)


@functools.cache
def address(which: str, kind: str, turns: int) -> int:
    """Where the function stands in this process."""
    return compiled(_text, (kind, which, turns))


provide("samples.address", address)
