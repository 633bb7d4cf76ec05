"""Elements at places that a table names, weighted and summed: sampling an image.

Point j has `each` places at[k·apart + j] with weights of their own.  `rows` sums what stands there, `spread` adds a point's elements to
all of them, and `dots` takes the products with them: each is the derivative of the others.  Where channels lie side by side lanes run
along those; in planes, which suit a few channels, along the points.  `core/lib/resampling/samples.pyx` walks over images.
"""

from __future__ import annotations

import functools

from ...core.base.callbacks import set_callback
from ..irtext import Value, i64
from .objects import compiled
from .taps import UNROLLED, Writer

_ARGUMENTS = (
    "ptr noalias %rows, ptr noalias %points, ptr noalias %at, ptr noalias %weight, i64 %count, i64 %length, i64 %step, i64 %far, "
    "i64 %each, i64 %apart"
)


def _text(symbol: str, kind: str, which: str, turns: int) -> str:
    """`rows` writes points, `spread` adds to rows, `dots` writes weights; rows are `length` neighbours, `step` elements apart, and points
    too (`far`).  `turns`: places of a point, where they are few.
    """
    w = Writer(kind, True, False)
    f = w.function(symbol, _ARGUMENTS)
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

    def place_of(j: Value, k: Value) -> tuple[Value, Value]:
        """Where tap k of point j stands in the table, and the place that it names."""
        place = f.add(f.mul(k, Value("i64", "%apart")), j)
        narrow = f.load("i32", f.gep("i32", Value("ptr", "%at"), place), 4)
        return place, f.op("i64", f"sext {narrow} to i64")

    def point(j: Value, _) -> list[Value]:
        if which == "rows":

            def chunk(x: Value, count: int, lanes_of: Value | None) -> list[Value]:
                def one(k: Value, totals: list[Value]) -> list[Value]:
                    place, row = place_of(j, k)
                    weight = w.splat(f, w.element(f, "%weight", place))
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
            place, row = place_of(j, k)
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


def _plane_text(symbol: str, kind: str, which: str, turns: int) -> str:
    """The same in planes: `length` of them, `step` elements apart in the image, which are also as many as there are, and `far` in the
    points; a place behind the last one is nothing.
    """
    w = Writer(kind, True, False)
    one = Writer(kind, True, False, 1)
    one.module = w.module
    f = w.function(symbol, _ARGUMENTS)
    lanes, step, far = w.lanes, Value("i64", "%step"), Value("i64", "%far")
    each = i64(turns) if turns else Value("i64", "%each")
    indices, valid_type = f"<{lanes} x i32>", f"<{lanes} x i1>"
    count, length = Value("i64", "%count"), Value("i64", "%length")

    def table(k: Value, j: Value) -> Value:
        return f.add(f.mul(k, Value("i64", "%apart")), j)

    if which == "spread":

        def add(c: Value, j: Value) -> list[Value]:
            given = f.load(
                w.scalar, f.gep(w.scalar, Value("ptr", "%points"), f.add(f.mul(c, far), j)), w.bytes
            )

            def tap(k: Value, _) -> list[Value]:
                place = table(k, j)
                narrow = f.load("i32", f.gep("i32", Value("ptr", "%at"), place), 4)
                at = f.op("i64", f"sext {narrow} to i64")

                def store() -> list[Value]:
                    to = f.gep(w.scalar, Value("ptr", "%rows"), f.add(f.mul(c, step), at))
                    old = f.load(w.scalar, to, w.bytes)
                    f.store(one.added(f, old, given, w.element(f, "%weight", place)), to, w.bytes)
                    return []

                f.when(f.op("i1", f"icmp ult {at}, {step.name}"), store)
                return []

            f.loop(i64(0), each, i64(1), [], tap)
            return []

        def plane(c: Value, _) -> list[Value]:
            f.loop(i64(0), count, i64(1), [], lambda j, _: add(c, j))
            return []

        f.loop(i64(0), length, i64(1), [], plane)
        f.do("ret void")
        return str(w.module)

    narrow_step = f.op("i32", f"trunc {step} to i32")
    bound = f.op(indices, f"insertelement {indices} poison, {narrow_step}, i64 0")
    bound = f.op(indices, f"shufflevector {bound}, {indices} poison, {indices} zeroinitializer")

    def block(j: Value, mask: Value | None, c: Value) -> list[Value]:
        def tap(k: Value) -> tuple[Value, Value, Value]:
            """Places, which of them there are, and where weights stand."""
            place = table(k, j)
            at = f.gep("i32", Value("ptr", "%at"), place)
            if mask is None:
                result = f.load(indices, at, 4)
            else:
                pointer = Value("ptr align 4", at.name)
                result = f.call(indices, f"llvm.masked.load.v{lanes}i32.p0", pointer, mask, bound)
            return (
                result,
                f.op(valid_type, f"icmp ult {result}, {bound.name}"),
                f.gep(w.scalar, Value("ptr", "%weight"), place),
            )

        def gathered(c: Value, at: Value, valid: Value) -> Value:
            base = f.gep(w.scalar, Value("ptr", "%rows"), f.mul(c, step))
            pointers = f.op(f"<{lanes} x ptr>", f"getelementptr {w.scalar}, {base}, {at}")
            return f.call(
                w.type,
                f"llvm.masked.gather.{w.spelled}.v{lanes}p0",
                Value(f"<{lanes} x ptr> align {w.bytes}", pointers.name),
                valid,
                w.zero(),
            )

        def points(c: Value) -> Value:
            return f.gep(w.scalar, Value("ptr", "%points"), f.add(f.mul(c, far), j))

        if which == "rows":
            known = [tap(i64(k)) for k in range(turns)]
            shares = [w.read(f, weight, mask) for _, _, weight in known]

            def channel(c: Value, _) -> list[Value]:
                def one_more(k: Value, totals: list[Value]) -> list[Value]:
                    at, valid, weight = tap(k)
                    return [w.added(f, totals[0], gathered(c, at, valid), w.read(f, weight, mask))]

                total = w.zero()
                for (at, valid, _), share in zip(known, shares):
                    total = w.added(f, total, gathered(c, at, valid), share)
                if not turns:
                    total = f.loop(i64(0), each, i64(1), [total], one_more)[0]
                w.write(f, total, points(c), mask)
                return []

            return channel(c, [])

        def product(k: Value, _) -> list[Value]:
            at, valid, weight = tap(k)
            total = f.loop(
                i64(0),
                length,
                i64(1),
                [w.zero()],
                lambda c, s: [w.added(f, s[0], gathered(c, at, valid), w.read(f, points(c), mask))],
            )[0]
            w.write(f, total, weight, mask)
            return []

        f.loop(i64(0), each, i64(1), [], product)
        return []

    whole = f.binary("and", count, i64(-lanes))
    rest = f.binary("sub", count, whole)

    def blocks(c: Value) -> list[Value]:
        f.loop(i64(0), whole, i64(lanes), [], lambda j, _: block(j, None, c))
        f.when(f.op("i1", f"icmp sgt {rest}, 0"), lambda: block(whole, w.below(f, rest), c))
        return []

    if which == "rows":  # plane by plane, as each lies in the nearest cache
        f.loop(i64(0), length, i64(1), [], lambda c, _: blocks(c))
    else:
        blocks(i64(0))
    f.do("ret void")
    return str(w.module)


@functools.cache
def address(which: str, kind: str, turns: int, planes: bool) -> int:
    """Where the function stands in this process."""
    text = _plane_text if planes else _text
    return compiled(functools.partial(text, kind=kind, which=which, turns=turns))


set_callback("samples.address", address)
