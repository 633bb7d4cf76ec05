"""Sums of a few elements of a line, each with its weight: resizing, padding and pooling, and their gradients.

A table says for each place of the result which elements of the input go into it.  `rows` takes whole rows as its elements, so its
lanes run along them.  `line` goes along a row itself.  Where the processor permutes across two vectors (AVX-512), the elements of 16
neighbouring places are found in a window of 16 or 32 neighbours: a *slot* of the table is where that window begins, which lane takes
which of its elements, and their weights.  Elsewhere `line` reads one element after the other.

`core/lib/resampling/taps.pyx` makes the tables and walks over planes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from ...core.base.callbacks import set_callback
from .. import target
from ..irtext import Function, Module, Value, i64
from .objects import compiled

VECTOR = 64  # bytes: a vector of AVX-512, several of others
UNROLLED = 4  # vectors of a row that are summed side by side
TOGETHER = 8  # rows that are read side by side
WRITTEN_OUT = 4  # elements of a place up to which a plain sum has no loop

_MEMORY = {"u1": "i8", "u2": "i16", "u4": "i32", "u8": "i64", "f4": "float", "f8": "double"}
_BYTES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "float": 4, "double": 8}
_SPELLED = {"float": "f32", "double": "f64"}


class Writer:
    """What both functions are written with: an element type, and vectors of it."""

    def __init__(self, kind: str, weighted: bool, divided: bool, lanes: int | None = None):
        self.scalar = _MEMORY[kind]
        self.bytes = _BYTES[self.scalar]
        self.lanes = lanes or VECTOR // self.bytes
        self.weighted, self.divided = weighted, divided
        self.module = Module(target.llvm().get_default_triple())

    @property
    def type(self) -> str:
        return f"<{self.lanes} x {self.scalar}>" if self.lanes > 1 else self.scalar

    @property
    def spelled(self) -> str:
        kind = _SPELLED.get(self.scalar, self.scalar)
        return f"v{self.lanes}{kind}" if self.lanes > 1 else kind

    def zero(self) -> Value:
        name = "zeroinitializer" if self.lanes > 1 else "0.0" if self.scalar in _SPELLED else "0"
        return Value(self.type, name)

    def function(self, symbol: str, arguments: str) -> Function:
        return Function(self.module, f"define void @{symbol}({arguments})")

    def splat(self, f: Function, v: Value) -> Value:
        if self.lanes == 1:
            return v
        one = f.op(self.type, f"insertelement {self.type} poison, {v}, i64 0")
        zeros = f"<{self.lanes} x i32> zeroinitializer"
        return f.op(self.type, f"shufflevector {one}, {self.type} poison, {zeros}")

    def added(self, f: Function, total: Value, x: Value, weight: Value | None) -> Value:
        """total + weight · x, rounded once where the processor can."""
        if weight is not None:
            return f.call(self.type, f"llvm.fmuladd.{self.spelled}", x, weight, total)
        return f.binary("fadd" if self.scalar in _SPELLED else "add", total, x)

    def read(self, f: Function, at: Value, mask: Value | None) -> Value:
        """Neighbours from `at` on; 0, and no access, where the mask does not hold."""
        if mask is None:
            return f.load(self.type, at, self.bytes)
        pointer = Value(f"ptr align {self.bytes}", at.name)
        return f.call(self.type, f"llvm.masked.load.{self.spelled}.p0", pointer, mask, self.zero())

    def write(self, f: Function, value: Value, at: Value, mask: Value | None) -> None:
        if mask is None:
            f.store(value, at, self.bytes)
            return
        pointer = Value(f"ptr align {self.bytes}", at.name)
        f.call("void", f"llvm.masked.store.{self.spelled}.p0", value, pointer, mask)

    def below(self, f: Function, count: Value) -> Value:
        """The first `count` lanes."""
        ramp = ", ".join(f"i64 {k}" for k in range(self.lanes))
        one = f.op(f"<{self.lanes} x i64>", f"insertelement <{self.lanes} x i64> poison, {count}, i64 0")
        zeros = f"<{self.lanes} x i32> zeroinitializer"
        all_of_them = f.op(one.type, f"shufflevector {one}, {one.type} poison, {zeros}")
        return f.op(f"<{self.lanes} x i1>", f"icmp ugt {all_of_them}, <{ramp}>")

    def number(self, f: Function, table: str, k: Value) -> Value:
        return f.load("i64", f.gep("i64", Value("ptr", table), k), 8)

    def element(self, f: Function, table: str, k: Value) -> Value:
        return f.load(self.scalar, f.gep(self.scalar, Value("ptr", table), k), self.bytes)


def rows(symbol: str, kind: str, weighted: bool, divided: bool) -> str:
    """Row j of the result, j0 <= j < j1: Σ weight[t] · (row at[t] of the source) over t from first[j] to first[j + 1], divided by
    divisor[j] · factor[0].  Rows have `length` neighbours and are `to_step` and `from_step` elements apart.
    """
    w = Writer(kind, weighted, divided)
    f = w.function(
        symbol,
        "ptr noalias %to, i64 %to_step, ptr noalias %from, i64 %from_step, ptr noalias %first, ptr noalias %at, ptr noalias %weight, "
        "ptr noalias %divisor, ptr noalias %factor, i64 %j0, i64 %j1, i64 %length",
    )
    length, lanes = Value("i64", "%length"), w.lanes

    def row(j: Value, _) -> list[Value]:
        begin, end = w.number(f, "%first", j), w.number(f, "%first", f.add(j, i64(1)))
        k = f.binary("sub", j, Value("i64", "%j0"))
        out = f.gep(w.scalar, Value("ptr", "%to"), f.mul(k, Value("i64", "%to_step")))
        share = None
        if divided:
            factor = w.element(f, "%factor", i64(0))
            share = w.splat(f, f.binary("fmul", w.element(f, "%divisor", j), factor))

        def group(t0: Value, _) -> list[Value]:
            """Some rows more: few at a time, each read from its beginning to its end."""
            further = f.add(t0, i64(TOGETHER))
            t1 = f.call("i64", "llvm.smin.i64", further, end)
            again = f.op("i1", f"icmp sgt {t0}, {begin.name}")
            done = f.op("i1", f"icmp sge {further}, {end.name}")

            def vectors(x: Value, count: int, mask: Value | None) -> list[Value]:
                places = [f.gep(w.scalar, out, f.add(x, i64(v * lanes))) for v in range(count)]

                def tap(t: Value, totals: list[Value]) -> list[Value]:
                    start = f.add(f.mul(w.number(f, "%at", t), Value("i64", "%from_step")), x)
                    weight = w.splat(f, w.element(f, "%weight", t)) if weighted else None
                    at = [
                        f.gep(w.scalar, Value("ptr", "%from"), f.add(start, i64(v * lanes)))
                        for v in range(count)
                    ]
                    return [w.added(f, total, w.read(f, a, mask), weight) for total, a in zip(totals, at)]

                sums = f.when(again, lambda: [w.read(f, p, mask) for p in places], [w.zero()] * count)
                sums = f.loop(t0, t1, i64(1), sums, tap)
                if share is not None:
                    sums = f.when(done, lambda: [f.binary("fdiv", total, share) for total in sums], sums)
                for total, place in zip(sums, places):
                    w.write(f, total, place, mask)
                return []

            many = f.binary("and", length, i64(-lanes * UNROLLED))
            whole = f.binary("and", length, i64(-lanes))
            f.loop(i64(0), many, i64(lanes * UNROLLED), [], lambda x, _: vectors(x, UNROLLED, None))
            f.loop(many, whole, i64(lanes), [], lambda x, _: vectors(x, 1, None))
            rest = f.op("i1", f"icmp slt {whole}, {length.name}")
            f.when(rest, lambda: vectors(whole, 1, w.below(f, f.binary("sub", length, whole))))
            return []

        # a row without elements is one group of none
        last = f.call("i64", "llvm.smax.i64", end, f.add(begin, i64(1)))
        f.loop(begin, last, i64(TOGETHER), [], group)
        return []

    f.loop(Value("i64", "%j0"), Value("i64", "%j1"), i64(1), [], row)
    f.do("ret void")
    return str(w.module)


_LINE = (
    "ptr noalias %to, i64 %to_step, ptr noalias %from, i64 %from_step, i64 %lines, ptr noalias %which, ptr noalias %factor, "
    "i64 %size, i64 %out, ptr noalias %first, ptr noalias %at, ptr noalias %lane, ptr noalias %mask, ptr noalias %weight, "
    "ptr noalias %divisor"
)


def line(
    symbol: str, kind: str, weighted: bool, divided: bool, turns: int, wide: bool, short: bool, partial: bool
) -> str:
    """Every line r of the result from line which[r] of the source, by slots: those of vector b are first[b] to first[b + 1], or `turns`
    each where that is not 0.  Slot s begins at element at[s]; lane l takes its element lane[s, l], where bit l of mask[s] is set
    (`partial`), times weight[s, l].  `wide`: windows are two vectors.  `short`: lines are shorter than a window.
    """
    w = Writer(kind, weighted, divided)
    f = w.function(symbol, _LINE)
    lanes, bits = w.lanes, w.bytes * 8
    places = f"<{lanes} x i{bits}>"
    suffix = {1: "qi", 2: "hi", 4: "si" if not wide else "d", 8: "di" if not wide else "q"}[w.bytes]
    name = f"llvm.x86.avx512.{'vpermi2var' if wide else 'permvar'}.{suffix}.512"
    size, out = Value("i64", "%size"), Value("i64", "%out")
    masks: list[Value | None] = [None, None]
    if short:
        masks = [w.below(f, size)]
        if wide:
            more = f.op("i1", f"icmp sgt {size}, {lanes}")
            beyond = f.op("i64", f"select {more}, i64 {f.binary('sub', size, i64(lanes)).name}, i64 0")
            masks.append(w.below(f, beyond))

    def slot(s: Value) -> tuple[Value, Value, Value | None, Value | None]:
        """What a slot says: where its window begins, the lanes' elements, which lanes have one, and the weights."""
        where = f.mul(s, i64(lanes))
        picks = f.load(f"<{lanes} x i8>", f.gep("i8", Value("ptr", "%lane"), where), 1)
        wanted = f.op(places, f"zext {picks} to {places}") if bits > 8 else picks
        valid = None
        if partial:
            mask = w.number(f, "%mask", s)
            narrow = f.op(f"i{lanes}", f"trunc {mask} to i{lanes}") if lanes < 64 else mask
            valid = f.op(f"<{lanes} x i1>", f"bitcast {narrow} to <{lanes} x i1>")
        weight = None
        if weighted:
            weight = f.load(w.type, f.gep(w.scalar, Value("ptr", "%weight"), where), w.bytes)
        return w.number(f, "%at", s), wanted, valid, weight

    def taken(source: Value, said, total: Value) -> Value:
        at, wanted, valid, weight = said
        start = f.gep(w.scalar, source, at)
        window = [w.read(f, start, masks[0])]
        if wide:
            window.append(w.read(f, f.gep(w.scalar, start, i64(lanes)), masks[1]))
        if w.scalar in _SPELLED:
            window = [f.op(places, f"bitcast {v} to {places}") for v in window]
        given = (window[0], wanted, window[1]) if wide else (window[0], wanted)
        x = f.call(places, name, *given)
        if valid is not None:
            x = f.op(places, f"select {valid}, {x}, {places} zeroinitializer")
        if w.scalar in _SPELLED:
            x = f.op(w.type, f"bitcast {x} to {w.type}")
        return w.added(f, total, x, weight)

    def line_of(r: Value, _) -> list[Value]:
        source = f.gep(
            w.scalar, Value("ptr", "%from"), f.mul(w.number(f, "%which", r), Value("i64", "%from_step"))
        )
        result = f.gep(w.scalar, Value("ptr", "%to"), f.mul(r, Value("i64", "%to_step")))
        own = w.splat(f, w.element(f, "%factor", r)) if divided else None

        def block(b: Value, mask: Value | None) -> list[Value]:
            place = f.mul(b, i64(lanes))
            total = w.zero()
            if turns:
                for k in range(turns):
                    total = taken(source, slot(f.add(f.mul(b, i64(turns)), i64(k))), total)
            else:
                begin, end = w.number(f, "%first", b), w.number(f, "%first", f.add(b, i64(1)))
                step = lambda s, carried: [taken(source, slot(s), carried[0])]
                total = f.loop(begin, end, i64(1), [w.zero()], step)[0]
            if own is not None:
                share = f.load(w.type, f.gep(w.scalar, Value("ptr", "%divisor"), place), w.bytes)
                total = f.binary("fdiv", total, f.binary("fmul", share, own))
            w.write(f, total, f.gep(w.scalar, result, place), mask)
            return []

        f.loop(i64(0), blocks, i64(1), [], lambda b, _: block(b, None))
        f.when(f.op("i1", f"icmp sgt {rest}, 0"), lambda: block(blocks, w.below(f, rest)))
        return []

    blocks = f.binary("sdiv", out, i64(lanes))
    rest = f.binary("srem", out, i64(lanes))
    f.loop(i64(0), Value("i64", "%lines"), i64(1), [], line_of)
    f.do("ret void")
    return str(w.module)


def plain_line(symbol: str, kind: str, weighted: bool, divided: bool) -> str:
    """The same with a table of elements: those of place j are first[j] to first[j + 1].  Places come in `size` runs of as many elements
    each: run k ends before place mask[2k], and has mask[2k + 1] elements a place.
    """
    w = Writer(kind, weighted, divided, 1)
    f = w.function(symbol, _LINE)

    def one(r: Value, _) -> list[Value]:
        start = f.mul(w.number(f, "%which", r), Value("i64", "%from_step"))
        source = f.gep(w.scalar, Value("ptr", "%from"), start)
        target_at = f.gep(w.scalar, Value("ptr", "%to"), f.mul(r, Value("i64", "%to_step")))

        def tap(t: Value, total: Value) -> Value:
            x = f.load(w.scalar, f.gep(w.scalar, source, w.number(f, "%at", t)), w.bytes)
            return w.added(f, total, x, w.element(f, "%weight", t) if weighted else None)

        def places(begin: Value, end: Value, count: Value, turns: int | None) -> list[Value]:
            """Places of one run, their sums written out where they are of `turns` elements."""
            first = w.number(f, "%first", begin)

            def place(j: Value, _) -> list[Value]:
                t0 = f.add(first, f.mul(f.binary("sub", j, begin), count if turns is None else i64(turns)))
                total = w.zero()
                if turns is None:
                    total = f.loop(t0, f.add(t0, count), i64(1), [total], lambda t, s: [tap(t, s[0])])[0]
                else:
                    for k in range(turns):
                        total = tap(f.add(t0, i64(k)), total)
                if divided:
                    share = f.binary("fmul", w.element(f, "%divisor", j), w.element(f, "%factor", r))
                    total = f.binary("fdiv", total, share)
                f.store(total, f.gep(w.scalar, target_at, j), w.bytes)
                return []

            f.loop(begin, end, i64(1), [], place)
            return []

        def run(k: Value, carried: list[Value]) -> list[Value]:
            end = w.number(f, "%mask", f.mul(k, i64(2)))
            count = w.number(f, "%mask", f.add(f.mul(k, i64(2)), i64(1)))
            begin = carried[0]
            for turns in range(WRITTEN_OUT + 1):
                own = functools.partial(places, begin, end, count, turns)
                f.when(f.op("i1", f"icmp eq {count}, {turns}"), own)
            f.when(f.op("i1", f"icmp sgt {count}, {WRITTEN_OUT}"), lambda: places(begin, end, count, None))
            return [end]

        f.loop(i64(0), Value("i64", "%size"), i64(1), [i64(0)], run)
        return []

    f.loop(i64(0), Value("i64", "%lines"), i64(1), [], one)
    f.do("ret void")
    return str(w.module)


def mirror(symbol: str, kind: str) -> str:
    """A line from its end: to[i] = from[length - 1 - i]."""
    w = Writer(kind, False, False)
    f = w.function(symbol, "ptr noalias %to, ptr noalias %from, i64 %length")
    length, lanes = Value("i64", "%length"), w.lanes
    last = f.gep(w.scalar, Value("ptr", "%from"), f.binary("sub", length, i64(1)))
    back = ", ".join(f"i32 {lanes - 1 - k}" for k in range(lanes))

    def vector(i: Value, _) -> list[Value]:
        start = f.binary("sub", i64(1 - lanes), i)
        x = w.read(f, f.gep(w.scalar, last, start), None)
        turned = f.op(w.type, f"shufflevector {x}, {w.type} poison, <{lanes} x i32> <{back}>")
        w.write(f, turned, f.gep(w.scalar, Value("ptr", "%to"), i), None)
        return []

    def one(i: Value, _) -> list[Value]:
        x = f.load(w.scalar, f.gep(w.scalar, last, f.binary("sub", i64(0), i)), w.bytes)
        f.store(x, f.gep(w.scalar, Value("ptr", "%to"), i), w.bytes)
        return []

    whole = f.binary("and", length, i64(-lanes))
    f.loop(i64(0), whole, i64(lanes), [], vector)
    rest = f.op("i1", f"icmp slt {whole}, {length.name}")
    several = f.op("i1", f"icmp sge {length}, {lanes}")
    f.when(f.binary("and", rest, several), lambda: vector(f.binary("sub", length, i64(lanes)), None))
    f.loop(i64(0), f.op("i64", f"select {several}, i64 0, {length}"), i64(1), [], one)
    f.do("ret void")
    return str(w.module)


@functools.cache
def permutes(width: int) -> bool:
    """Whether the processor permutes elements of so many bytes across two vectors of 64 bytes."""
    needed = {1: "+avx512vbmi", 2: "+avx512bw"}.get(width, "+avx512f")
    return needed in target.processor()[1].split(",")


@functools.cache
def address(function: str, *given) -> int:
    """Where `rows`, `line`, `plain_line` or `mirror` with those arguments stands in this process."""
    texts: dict[str, Callable[..., str]] = {
        "rows": rows,
        "line": line,
        "plain_line": plain_line,
        "mirror": mirror,
    }
    return compiled(lambda symbol: texts[function](symbol, *given))


set_callback("taps.permutes", permutes)
set_callback("taps.address", address)
