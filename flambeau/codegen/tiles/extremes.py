"""Running maxima and minima of rows and where they last stood, a vector at a time.

Elements become integers of the same order: NaN is the largest, both zeros are 0, and minima take the complements.  The prefix of a
vector takes as many steps as doublings; an element is the extreme so far where its own key is the prefix, and the last such lane up
to another says which element stands there.  Elements are moved by permutations of AVX-512.
"""

from __future__ import annotations

import functools

from ...core.base.callbacks import set_callback
from ..irtext import Value, i64
from .objects import compiled
from .taps import Writer, permutes

_KINDS = {"float32": "f4", "float64": "f8", "int32": "u4", "int64": "u8"}


def _text(symbol: str, dtype: str, smallest: bool) -> str:
    """rows(values, indices, source, count, length): rows are contiguous."""
    w = Writer(_KINDS[dtype], False, False)
    f = w.function(
        symbol, "ptr noalias %values, ptr noalias %indices, ptr noalias %from, i64 %count, i64 %length"
    )
    lanes, bits = w.lanes, w.bytes * 8
    keys = f"<{lanes} x i{bits}>"
    mask_type = f"<{lanes} x i1>"
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    below = ", ".join(f"i{bits} {(2 << k) - 1}" for k in range(lanes))
    length = Value("i64", "%length")

    def splat(type: str, v: Value | int) -> Value:
        element = type.split(" x ")[1][:-1]
        given = v if isinstance(v, Value) else Value(element, str(v))
        one = f.op(type, f"insertelement {type} poison, {given}, i64 0")
        return f.op(type, f"shufflevector {one}, {type} poison, <{lanes} x i32> zeroinitializer")

    def last(v: Value) -> Value:
        """The last lane in all of them."""
        picks = ", ".join(f"i32 {lanes - 1}" for _ in range(lanes))
        return f.op(v.type, f"shufflevector {v}, {v.type} poison, <{lanes} x i32> <{picks}>")

    def prefix(v: Value, nothing: Value) -> Value:
        step = 1
        while step < lanes:
            picks = ", ".join(f"i32 {k - step if k >= step else lanes + k}" for k in range(lanes))
            moved = f.op(keys, f"shufflevector {v}, {nothing}, <{lanes} x i32> <{picks}>")
            v = f.call(keys, f"llvm.smax.v{lanes}i{bits}", v, moved)
            step *= 2
        return v

    def key_of(x: Value) -> Value:
        if dtype.startswith("int"):
            return f.binary("xor", x, splat(keys, -1)) if smallest else x
        plain = f.op(keys, f"bitcast {x} to {keys}")
        zero = f.op(mask_type, f"fcmp oeq {x}, zeroinitializer")
        plain = f.op(keys, f"select {mask_type} {zero.name}, {keys} zeroinitializer, {plain}")
        sign = f.binary("ashr", plain, splat(keys, bits - 1))
        turned = f.binary("xor", plain, f.binary("and", sign, splat(keys, most)))
        if smallest:
            turned = f.binary("xor", turned, splat(keys, -1))
        nan = f.op(mask_type, f"fcmp uno {x}, zeroinitializer")
        return f.op(keys, f"select {mask_type} {nan.name}, {splat(keys, most)}, {turned}")

    def row(r: Value, _) -> list[Value]:
        start = f.mul(r, length)
        nothing = splat(keys, least)
        numbers = f"<{lanes} x i64>"

        def vector(i: Value, mask: Value | None, state: list[Value]) -> list[Value]:
            best, place, value = state
            at = f.add(start, i)
            x = w.read(f, f.gep(w.scalar, Value("ptr", "%from"), at), mask)
            key = key_of(x)
            top = f.call(keys, f"llvm.smax.v{lanes}i{bits}", prefix(key, nothing), best)
            own = f.op(mask_type, f"icmp eq {key}, {top.name}")
            those = f.op(
                f"i{lanes}", f"bitcast {own} to i{lanes}"
            )  # a bit for each; the highest up to a lane is its element's
            wide_bits = f.op(f"i{bits}", f"zext {those} to i{bits}")
            up_to = f.binary("and", splat(keys, wide_bits), Value(keys, f"<{below}>"))
            zeros = f.call(keys, f"llvm.ctlz.v{lanes}i{bits}", up_to, Value("i1", "false"))
            lane = f.binary("sub", splat(keys, bits - 1), zeros)
            here = f.op(mask_type, f"icmp sge {lane}, zeroinitializer")
            integers = x if x.type == keys else f.op(keys, f"bitcast {x} to {keys}")
            suffix = "si" if bits == 32 else "di"
            moved = f.call(keys, f"llvm.x86.avx512.permvar.{suffix}.512", integers, lane)
            value = f.op(keys, f"select {here}, {moved}, {value}")
            wide = lane if bits == 64 else f.op(numbers, f"sext {lane} to {numbers}")
            base = f.op(numbers, f"insertelement {numbers} poison, {i}, i64 0")
            base = f.op(numbers, f"shufflevector {base}, {numbers} poison, <{lanes} x i32> zeroinitializer")
            place = f.op(numbers, f"select {here}, {f.binary('add', wide, base)}, {place}")
            out = value if w.type == keys else f.op(w.type, f"bitcast {value} to {w.type}")
            w.write(f, out, f.gep(w.scalar, Value("ptr", "%values"), at), mask)
            to = f.gep("i64", Value("ptr", "%indices"), at)
            if mask is None:
                f.store(place, to, 8)
            else:
                pointer = Value("ptr align 8", to.name)
                f.call("void", f"llvm.masked.store.v{lanes}i64.p0", place, pointer, mask)
            return [last(top), last(place), last(value)]

        whole = f.binary("and", length, i64(-lanes))
        begin = [nothing, Value(numbers, "zeroinitializer"), Value(keys, "zeroinitializer")]
        state = f.loop(i64(0), whole, i64(lanes), begin, lambda i, s: vector(i, None, s))
        rest = f.binary("sub", length, whole)

        def tail() -> list[Value]:
            vector(whole, w.below(f, rest), state)
            return []

        f.when(f.op("i1", f"icmp sgt {rest}, 0"), tail)
        return []

    f.loop(i64(0), Value("i64", "%count"), i64(1), [], row)
    f.do("ret void")
    return str(w.module)


@functools.cache
def address(dtype: str, smallest: bool) -> int:
    """Where the function stands in this process; 0 where the processor has no such permutations, or no function is for the dtype."""
    if dtype not in _KINDS or not permutes(4):
        return 0
    return compiled(functools.partial(_text, dtype=dtype, smallest=smallest))


set_callback("extremes.address", address)
