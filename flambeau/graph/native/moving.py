"""Steps that move elements: copies, joins, padding with a number, and what is picked along a dimension by indices.

What a call joins, pads and picks stands in its declaration (`along`, `within`, `picks`).
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Sequence
from typing import Any

from ...codegen.irtext import Function, Value, i64
from ...codegen.lower import ITEMSIZE
from ...core.make.create import empty_strided
from ..program import Call
from ..program import Value as Tensor
from .errors import Ungenerated
from .loops import copy_elements
from .parts import Parts, at, nest
from .products import Known
from .tiles import row_major


class CopyStep:
    """A view that could only be had as a copy: the same elements in the order of rows."""

    workspace = 0
    known: Known | None = None

    def __init__(self, result: Tensor, source: Tensor) -> None:
        self.size = source.dtype.itemsize
        if not result.contiguous and result.shape != source.shape:
            raise Ungenerated("a copy into another order of dimensions")
        strides = row_major(source.shape) if result.contiguous else result.place.stride
        self.shape = source.shape
        self.to = _bytes(strides, self.size)
        self.source = _bytes(source.place.stride, self.size)

    def emit(self, parts: Parts, f: Function, data: Sequence[Value], memory: Value, fault: Value) -> None:
        """`data`: result, source."""
        copy_elements(f, self.size, self.shape, data[0], self.to, data[1], self.source)


class JoinStep:
    """Tensors one after another along a dimension, which is new where they are stacked."""

    workspace = 0
    known: Known | None = None

    def __init__(self, call: Call, tensors: Sequence[Tensor], dim: int, is_new: bool) -> None:
        (result,) = call.results
        self.size, rank = result.dtype.itemsize, len(result.shape)
        if [id(t) for t in tensors] != [id(v) for v in call.arguments()] or any(
            t.dtype != result.dtype for t in tensors
        ):
            raise Ungenerated("it joins tensors of several dtypes")
        self.steps = []
        dim, first = dim % rank, 0
        strides = result.place.stride
        for t in tensors:
            shape, own = t.shape, t.place.stride
            if is_new:
                shape, own = (*shape[:dim], 1, *shape[dim:]), (*own[:dim], 0, *own[dim:])
            if len(shape) == rank:  # one without elements may have any shape
                self.steps.append((shape, _bytes(own, self.size), first * strides[dim] * self.size))
                first += shape[dim]
        if first != result.shape[dim] or len(self.steps) != len(tensors):
            raise Ungenerated("it joins tensors without elements")
        self.to = _bytes(strides, self.size)

    def emit(self, parts: Parts, f: Function, data: Sequence[Value], memory: Value, fault: Value) -> None:
        """`data`: result, then tensors."""
        for source, (shape, own, offset) in zip(data[1:], self.steps):
            copy_elements(f, self.size, shape, at(f, data[0], offset), self.to, source, own)


class PadStep:
    """A tensor within a larger one, the rest of which is one number."""

    workspace = 0
    known: Known | None = None

    def __init__(self, call: Call, input: Tensor, start: Sequence[int], value: complex) -> None:
        (result,) = call.results
        if (
            [id(v) for v in call.arguments()] != [id(input)]
            or result.dtype != input.dtype
            or result.dtype.is_complex
        ):
            raise Ungenerated("its number or dtype varies")
        self.size = result.dtype.itemsize
        one: Any = empty_strided((1,), (1,), dtype=result.dtype, device="cpu")
        one.fill_(value)
        self.pattern = int.from_bytes(ctypes.string_at(one.data_ptr(), self.size), sys.byteorder)
        self.whole, self.shape = result.shape, input.shape
        self.to, self.source = _bytes(result.place.stride, self.size), _bytes(input.place.stride, self.size)
        self.first = sum(n * s for n, s in zip(start, self.to))

    def emit(self, parts: Parts, f: Function, data: Sequence[Value], memory: Value, fault: Value) -> None:
        """`data`: result, input."""
        number = Value(f"i{8 * self.size}", str(self.pattern))
        nest(
            f,
            self.whole,
            [data[0]],
            [self.to],
            lambda at_one, _: f.store(number, at_one[0], min(self.size, 8)),
        )
        copy_elements(f, self.size, self.shape, at(f, data[0], self.first), self.to, data[1], self.source)


class PickStep:
    """Slices of a tensor along a dimension, those that indices name; one that is out of range is a fault."""

    workspace = 0
    known: Known | None = None

    def __init__(self, call: Call, input: Tensor, dim: int, index: Tensor) -> None:
        (result,) = call.results
        if (
            [id(v) for v in call.arguments()] != [id(input), id(index)]
            or not input.shape
            or len(index.shape) > 1
        ):
            raise Ungenerated("it picks by indices of several dimensions")
        self.size, self.index = input.dtype.itemsize, index.dtype.name
        dim %= len(input.shape)
        self.count, self.bound = math.prod(index.shape), input.shape[dim]
        to, own = _bytes(result.place.stride, self.size), _bytes(input.place.stride, self.size)
        self.to, self.own = to[dim], own[dim]
        self.each = index.place.stride[0] * index.dtype.itemsize if index.shape else 0
        self.shape = (*input.shape[:dim], *input.shape[dim + 1 :])
        self.along = (*to[:dim], *to[dim + 1 :]), (*own[:dim], *own[dim + 1 :])

    def emit(self, parts: Parts, f: Function, data: Sequence[Value], memory: Value, fault: Value) -> None:
        """`data`: result, input, index."""
        width = ITEMSIZE[self.index]

        def one(pointers: list[Value], _: Value) -> None:
            to, place = pointers
            k = f.load(f"i{8 * width}", place, width)
            k = k if width == 8 else f.op("i64", f"sext {k} to i64")
            fits = f.op("i1", f"icmp ult {k}, {self.bound}")
            yes, no, after = (f.fresh(name) for name in ("fits", "beyond", "after"))
            f.branch_if(fits, yes, no)
            f.start(yes)
            source = at(f, data[1], f.mul(k, i64(self.own)))
            copy_elements(f, self.size, self.shape, to, self.along[0], source, self.along[1])
            f.branch(after)
            f.start(no)
            f.store(i64(1), fault, 8)
            f.branch(after)
            f.start(after)

        nest(f, (self.count,), [data[0], data[2]], [(self.to,), (self.each,)], one)


def _bytes(strides: Sequence[int], size: int) -> tuple[int, ...]:
    return tuple(s * size for s in strides)
