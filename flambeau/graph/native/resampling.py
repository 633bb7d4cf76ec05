"""Calls that are linear along their last dimensions by tables (mean pooling, resizing, padding by what is there), as loops.

What a call sums stands in its declaration (`taps`).  A table is read by what it makes of unit vectors.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...codegen.irtext import Function, Value, float_literal, i64
from ...core.base.dtypes import by_name
from ...core.lib.resampling.taps import summed
from ...core.make.create import eye
from ..program import Call
from ..program import Value as Tensor
from .errors import Ungenerated
from .parts import Parts, at, nest
from .products import Known

SCALARS = {"float32": "float", "float64": "double"}


class Axis(NamedTuple):
    """A dimension: how many results, bytes between them, and for each the terms from `starts[k]` on: bytes to an element, its weight."""

    out: int
    step: int
    starts: tuple[int, ...]
    offsets: tuple[int, ...]
    weights: tuple[float, ...]


class TapsStep:
    """A tensor whose last dimensions are summed by tables."""

    workspace = 0
    known: Known | None = None

    def __init__(self, call: Call, input: Tensor, tables: Sequence[Any]) -> None:
        (result,) = call.results
        if [id(v) for v in call.arguments()] != [id(input)] or result.dtype != input.dtype:
            raise Ungenerated("its tables or dtype vary")
        self.moves = all(t is None or t.moves for t in tables)
        self.dtype, self.size = input.dtype.name, input.dtype.itemsize
        if not self.moves and self.dtype not in SCALARS:
            raise Ungenerated(f"sums by tables of {self.dtype}")
        count, size = len(tables), self.size
        to, own = ([s * size for s in v.place.stride] for v in (result, input))
        self.outer, self.steps = input.shape[:-count], (to[:-count], own[:-count])
        self.axes = [
            _axis(t, n, o, s) for t, n, o, s in zip(tables, input.shape[-count:], to[-count:], own[-count:])
        ]

    def emit(self, parts: Parts, f: Function, data: Sequence[Value], memory: Value, fault: Value) -> None:
        """`data`: result, input."""
        outs = tuple(axis.out for axis in self.axes)

        def result(at_outer: list[Value], _: Value) -> None:
            steps = [tuple(axis.step for axis in self.axes)]
            nest(
                f,
                outs,
                [at_outer[0]],
                steps,
                lambda to, number: self.one(parts, f, to[0], at_outer[1], number),
            )

        nest(f, self.outer, data, self.steps, result)

    def one(self, parts: Parts, f: Function, to: Value, source: Value, number: Value) -> None:
        """The result of that number, along the dimensions with tables."""
        places = f.coordinates(number, [i64(axis.out) for axis in self.axes[1:]])
        if self.moves:
            for axis, place in zip(self.axes, places):
                source = at(f, source, _word(f, parts.numbers(axis.offsets), place))
            kind = f"i{8 * self.size}"
            f.store(f.load(kind, source, min(self.size, 8)), to, min(self.size, 8))
            return
        kind = SCALARS[self.dtype]

        def sums(d: int, source: Value, weight: Value | None, total: Value) -> Value:
            if d == len(self.axes):
                x = f.load(kind, source, self.size)
                return f.binary("fadd", total, x if weight is None else f.binary("fmul", x, weight))
            axis = self.axes[d]
            starts = parts.numbers(axis.starts)
            begin, end = _word(f, starts, places[d]), _word(f, starts, f.add(places[d], i64(1)))

            def term(k: Value, carried: list[Value]) -> list[Value]:
                own = at(f, source, _word(f, parts.numbers(axis.offsets), k))
                bits = parts.numbers([struct.unpack("<q", struct.pack("<d", w))[0] for w in axis.weights])
                factor = f.load("double", f.gep("double", bits, k), 8)
                if kind == "float":
                    factor = f.op("float", f"fptrunc {factor} to float")
                return [
                    sums(
                        d + 1, own, factor if weight is None else f.binary("fmul", weight, factor), carried[0]
                    )
                ]

            return f.loop(begin, end, i64(1), [total], term)[0]

        f.store(sums(0, source, None, Value(kind, float_literal(0.0, kind))), to, self.size)


def _word(f: Function, array: Value, k: Value) -> Value:
    return f.load("i64", f.gep("i64", array, k), 8)


def _axis(table: Any, size: int, step: int, stride: int) -> Axis:
    """A dimension of so many elements, `stride` bytes apart, whose results are `step` bytes apart."""
    if table is None:
        whole = np.eye(size)
    else:
        whole = summed(eye(size, dtype=by_name["float64"]), 1, table, None).numpy()
    starts, offsets, weights = [0], list[int](), list[float]()
    for k in range(whole.shape[1]):
        own = np.flatnonzero(whole[:, k])
        offsets += [int(j) * stride for j in own]
        weights += [float(w) for w in whole[own, k]]
        starts.append(len(offsets))
    return Axis(whole.shape[1], step, tuple(starts), tuple(offsets) or (0,), tuple(weights) or (0.0,))
