"""Vectors in memory: what a kernel loads, stores, gathers and scatters, under masks.

Processors have no lanes of 16 bytes: under a mask LLVM would take such elements one by one, a branch each, which made
most of the time that kernels of complex128 compiled.  Here they are two lanes of 8 bytes each.
"""

from __future__ import annotations

from collections.abc import Sequence

from .irtext import Function, Value

WIDE, HALF, PAIR = (
    "i128",
    "double",
    "<2 x double>",
)  # elements of 16 bytes, and what they are moved as: most are complex numbers


def load(f: Function, scalar: str, lanes: int, pointer: Value, size: int, mask: Value | None = None) -> Value:
    """`lanes` elements from `pointer` on; 0 where the mask is false, and nothing is read there."""
    if scalar == WIDE:
        return _whole(f, lanes, load(f, HALF, 2 * lanes, pointer, size, _twice(f, lanes, mask)))
    type = f"<{lanes} x {scalar}>"
    if mask is None:
        return f.load(type, pointer, size)
    place = Value(f"ptr align {size}", pointer.name)
    return f.call(type, f"llvm.masked.load.{_spelled(lanes, scalar)}.p0", place, mask, _zeros(type))


def store(
    f: Function, scalar: str, lanes: int, value: Value, pointer: Value, size: int, mask: Value | None = None
) -> None:
    if scalar == WIDE:
        store(f, HALF, 2 * lanes, _halves(f, lanes, value), pointer, size, _twice(f, lanes, mask))
    elif mask is None:
        f.store(value, pointer, size)
    else:
        place = Value(f"ptr align {size}", pointer.name)
        f.call("void", f"llvm.masked.store.{_spelled(lanes, scalar)}.p0", value, place, mask)


def gather(
    f: Function, scalar: str, lanes: int, pointers: Value, size: int, mask: Value | None = None
) -> Value:
    """The elements that the pointers stand at; 0 where the mask is false."""
    if scalar == WIDE and mask is None:
        return _whole(f, lanes, _joined(f, [f.load(PAIR, p, size) for p in _each(f, lanes, pointers)]))
    if scalar == WIDE:
        places = _both_halves(f, lanes, pointers)
        return _whole(f, lanes, gather(f, HALF, 2 * lanes, places, 8, _twice(f, lanes, mask)))
    type = f"<{lanes} x {scalar}>"
    name = f"llvm.masked.gather.{_spelled(lanes, scalar)}.v{lanes}p0"
    places = Value(f"{pointers.type} align {size}", pointers.name)
    return f.call(type, name, places, mask or every(lanes), _zeros(type))


def scatter(
    f: Function, scalar: str, lanes: int, value: Value, pointers: Value, size: int, mask: Value | None = None
) -> None:
    if scalar == WIDE:
        halves = _halves(f, lanes, value)
        if mask is None:
            for k, p in enumerate(_each(f, lanes, pointers)):
                f.store(_picked(f, halves, halves, [2 * k, 2 * k + 1]), p, size)
            return
        places = _both_halves(f, lanes, pointers)
        scatter(f, HALF, 2 * lanes, halves, places, 8, _twice(f, lanes, mask))
        return
    name = f"llvm.masked.scatter.{_spelled(lanes, scalar)}.v{lanes}p0"
    places = Value(f"{pointers.type} align {size}", pointers.name)
    f.call("void", name, value, places, mask or every(lanes))


def every(lanes: int) -> Value:
    """The mask that is true everywhere."""
    return Value(f"<{lanes} x i1>", "splat (i1 true)")


def _zeros(type: str) -> Value:
    return Value(type, "zeroinitializer")


def _spelled(lanes: int, scalar: str) -> str:
    return f"v{lanes}" + {"float": "f32", "double": "f64", "half": "f16"}.get(scalar, scalar)


def _whole(f: Function, lanes: int, halves: Value) -> Value:
    return f.op(f"<{lanes} x i128>", f"bitcast {halves} to <{lanes} x i128>")


def _halves(f: Function, lanes: int, value: Value) -> Value:
    return f.op(f"<{2 * lanes} x {HALF}>", f"bitcast {value} to <{2 * lanes} x {HALF}>")


def _picked(f: Function, a: Value, b: Value, places: Sequence[int]) -> Value:
    scalar = a.type[a.type.index(" x ") + 3 : -1]
    picks = ", ".join(f"i32 {p}" for p in places)
    return f.op(f"<{len(places)} x {scalar}>", f"shufflevector {a}, {b}, <{len(places)} x i32> <{picks}>")


def _joined(f: Function, vectors: list[Value]) -> Value:
    """As many vectors as a power of two, one after another."""
    width = 2
    while len(vectors) > 1:
        both = range(2 * width)
        vectors = [_picked(f, a, b, both) for a, b in zip(vectors[::2], vectors[1::2])]
        width *= 2
    return vectors[0]


def _each(f: Function, lanes: int, pointers: Value) -> list[Value]:
    return [f.op("ptr", f"extractelement {pointers}, i32 {k}") for k in range(lanes)]


def _repeated(f: Function, lanes: int, value: Value) -> Value:
    return _picked(f, value, value, [k // 2 for k in range(2 * lanes)])


def _twice(f: Function, lanes: int, mask: Value | None) -> Value | None:
    return mask and _repeated(f, lanes, mask)


def _both_halves(f: Function, lanes: int, pointers: Value) -> Value:
    offsets = ", ".join(f"i64 {k % 2}" for k in range(2 * lanes))
    own = _repeated(f, lanes, pointers)
    return f.gep("i64", own, Value(f"<{2 * lanes} x i64>", f"<{offsets}>"))
