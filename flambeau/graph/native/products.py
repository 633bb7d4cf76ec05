"""Products and convolutions of a plan as steps of a library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...codegen import expr as ex
from ...codegen.irtext import Function, Value, i64
from ...codegen.tiles.epilogues import Epilogue, linear
from ...operations.declare.registry import REGISTRY
from ...operations.neural.convolution.grid import Geometry
from ..convolutions import Convolution
from ..products import Product, product_of
from ..program import Call
from ..program import Value as Tensor
from .errors import Ungenerated
from .loops import copy_elements
from .parts import Parts, at, invoke, nest
from .tiles import Operand, Right, Rows, laid, laid_bytes, lay, merged, multiply, row_major

SIZES = {"float32": 4, "float64": 8}


class Known(NamedTuple):
    """A right operand that is laid out when the library is made."""

    array: np.ndarray


def _sizes(dtype: Any) -> tuple[str, int]:
    if dtype.name not in SIZES:
        raise Ungenerated(f"products of {dtype.name} have no generated kernel: make it float32 or float64")
    return dtype.name, SIZES[dtype.name]


def _aligned(shape: Sequence[int], strides: Sequence[int], whole: Sequence[int]) -> tuple[int, ...]:
    """Strides along a larger shape, 0 where it broadcasts."""
    missing = len(whole) - len(shape)
    return (0,) * missing + tuple(0 if n == 1 else s for n, s in zip(shape, strides))


class ProductStep:
    """alpha · left @ right + beta · addend, or an epilogue of the sums; of batches, too."""

    def __init__(self, number: int, step: Product, known: Any) -> None:
        plan = step.plan
        self.number = number
        self.dtype, self.size = _sizes(step.values[0].dtype)
        geometry: Any = plan.key()[1]
        (a_shape, a_strides), (b_shape, b_strides), *others = geometry
        batch = np.broadcast_shapes(a_shape[:-2], b_shape[:-2])
        self.whole = (*batch, a_shape[-2], b_shape[-1])
        if 0 in self.whole or a_shape[-1] == 0:
            raise Ungenerated("a product without elements or terms")
        size = self.size
        left = [s * size for s in _aligned(a_shape[:-2], a_strides[:-2], batch)]
        right = [s * size for s in _aligned(b_shape[:-2], b_strides[:-2], batch)]
        own = [s * size for s in row_major(self.whole)]
        self.epilogue, ways = self._ending(plan, others)
        strides = [[s * size for s in way] for way in ways]
        rows = (a_strides[-2] if a_shape[-2] > 1 else 0) * size
        moves = [(left, rows), (right, 0), (own, own[-2]), *((s, s[-2]) for s in strides)]
        self.outer, count = merged(batch, self.whole[-2], moves)
        self.steps = [own, left, right, *strides]
        self.rows = Rows(count, rows, a_strides[-1] * size, (0,), own[-2], size, False)
        self.right = Right(1, a_shape[-1], self.whole[-1], 0, b_strides[-2] * size, b_strides[-1] * size)
        self.operands = [Operand(s[-2], s[-1]) for s in strides]
        self.known: Known | None = None
        tensor = known(step.values[2]) if not any(right) else None
        if tensor is not None:
            self.known = Known(laid(tensor.reshape(1, *b_shape[-2:])))
        self.stands = self.known is None and (b_strides[-1] == 1 or b_shape[-1] == 1)
        self.workspace = 0 if self.stands or self.known is not None else laid_bytes(self.right, size)

    def _ending(self, plan: Any, others: list[tuple]) -> tuple[Epilogue | None, list[tuple[int, ...]]]:
        """What is made of the sums, and the strides of its operands along the whole result."""
        whole = self.whole
        if plan.epilogue is not None:
            dense, result = row_major(whole), []
            for read, (shape, strides) in zip(plan.epilogue.reads, others):
                if read == "columns":
                    result.append((*(0,) * (len(whole) - 1), 1))
                elif read == "rows":
                    result.append((*row_major(whole[:-1]), 0))
                else:
                    result.append(dense if tuple(strides) == row_major(shape) else tuple(strides))
            return plan.epilogue, result
        alpha, beta = (*plan.numbers, 1.0, 1.0)[:2]
        root = ex.input(0, self.dtype)
        if alpha != 1:
            root = root * ex.const(alpha, self.dtype)
        if not others or beta == 0:
            return (None if alpha == 1 else Epilogue(root)), []
        own = _aligned(others[0][0], others[0][1], whole)
        if own[-1] not in (0, 1):
            raise Ungenerated(f"a product and an addend of strides {own}: make it contiguous")
        if alpha == beta == 1 and own[-1] == 1 and not any(own[:-1]):
            return linear(self.dtype, False, True, False), [own]
        read = "rows" if own[-1] == 0 else "columns" if not any(own[:-1]) else "both"
        other = ex.input(1, self.dtype)
        return Epilogue(root + (other if beta == 1 else other * ex.const(beta, self.dtype)), (read,)), [own]

    def emit(self, parts: Parts, f: Function, data: Sequence[Value], memory: Value, fault: Value) -> None:
        """`data`: result, left, right (laid out, where it is known), operands."""
        is_laid = not self.stands
        name = multiply(
            parts,
            f"product{self.number}",
            self.dtype,
            self.size,
            self.rows,
            self.right,
            is_laid,
            self.epilogue,
            self.operands,
        )
        steps = [s[: len(self.outer)] for s in self.steps]

        def one(pointers: list[Value], _: Value) -> None:
            c, a, b, *others = pointers
            if self.workspace:
                lay(f, self.right, self.size, memory, b)
                b = memory
            invoke(f, name, c, a, b, *others)

        nest(f, self.outer, data, steps, one)


class ConvolutionStep:
    """A convolution of one or two dimensions, of images that are copied into a frame of zeros first, group after group."""

    def __init__(
        self,
        number: int,
        images: Images,
        result: Tensor,
        operands: Sequence[Tensor],
        epilogue: Epilogue | None,
        known: Any,
    ) -> None:
        self.number = number
        self.dtype, self.size = _sizes(result.dtype)
        size, (n, channels, h, w) = self.size, images.input.shape
        (filters, own, kh, kw), (_, _, oh, ow) = images.weight.shape, result.shape
        if 0 in images.input.shape or 0 in images.weight.shape or 0 in result.shape:
            raise Ungenerated("a convolution without elements")
        geometry, self.groups = images.geometry, images.geometry.groups
        (self.top, self.left), (sh, sw), (dh, dw) = geometry.before, geometry.stride, geometry.dilation
        self.shape = (n, channels, h, w)
        self.high = max(h + self.top, (oh - 1) * sh + (kh - 1) * dh + 1)
        self.wide = max(w + self.left, (ow - 1) * sw + (kw - 1) * dw + 1)
        self.images = [s * size for s in images.input.strides]
        pixel = channels * size
        offsets = tuple((y * dh * self.wide + x * dw) * pixel for y in range(kh) for x in range(kw))
        y = [s * size for s in result.place.stride]
        turned = y[1] != size
        if turned and y[3] != size and ow > 1:
            raise Ungenerated("a convolution whose result has neither channels nor columns side by side")
        self.rows = Rows(ow, sw * pixel, size, offsets, y[3], y[1], turned)
        taps, each = kh * kw, filters // self.groups
        self.right = Right(taps, own, each, size, taps * size, own * taps * size)
        self.one = laid_bytes(self.right, size)
        self.outer = (n, oh, self.groups)
        self.steps = [
            [y[0], y[2], each * y[1]],
            [self.high * self.wide * pixel, sh * self.wide * pixel, own * size],
            [0, 0, self.one],
        ]
        self.steps += [[0, 0, each * size] for _ in operands]
        self.operands, self.epilogue = [Operand(0, size) for _ in operands], epilogue
        if epilogue is None and operands:
            self.epilogue = linear(self.dtype, False, True, False)
        tensor = known(images.weight)
        self.known: Known | None = None
        if tensor is not None:
            parts = tensor.reshape(self.groups, each, own, taps).transpose(0, 3, 2, 1)
            self.known = Known(np.concatenate([laid(part) for part in parts]))
        self.frame = -(-n * self.high * self.wide * pixel // 64) * 64
        self.workspace = self.frame + (0 if self.known is not None else self.groups * self.one)

    def emit(self, parts: Parts, f: Function, data: Sequence[Value], memory: Value, fault: Value) -> None:
        """`data`: result, images, the weight (laid out, where it is known), operands."""
        size, pixel = self.size, self.shape[1] * self.size
        nbytes = i64(self.shape[0] * self.high * self.wide * pixel)
        f.call("void", "llvm.memset.p0.i64", memory, Value("i8", "0"), nbytes, Value("i1", "false"))
        to = at(f, memory, (self.top * self.wide + self.left) * pixel)
        along = (self.high * self.wide * pixel, size, self.wide * pixel, pixel)
        copy_elements(f, size, self.shape, to, along, data[1], self.images)
        weight = data[2]
        if self.known is None:
            weight = at(f, memory, self.frame)

            def lay_group(pointers: list[Value], _: Value) -> None:
                lay(f, self.right, size, *pointers)

            moves = [(self.one,), (self.right.columns * self.right.column,)]
            nest(f, (self.groups,), [weight, data[2]], moves, lay_group)
        name = multiply(
            parts,
            f"convolution{self.number}",
            self.dtype,
            size,
            self.rows,
            self.right,
            True,
            self.epilogue,
            self.operands,
        )

        def one(pointers: list[Value], _: Value) -> None:
            invoke(f, name, *pointers)

        nest(f, self.outer, [data[0], memory, weight, *data[3:]], self.steps, one)


class Images(NamedTuple):
    """What a convolution reads, of two dimensions."""

    input: Tensor
    weight: Tensor
    geometry: Geometry


def of_images(number: int, step: Convolution, known: Any) -> ConvolutionStep:
    """The step of a convolution that is prepared."""
    result, images, weight, *operands = step.values
    return ConvolutionStep(
        number, Images(images, weight, step.plan.geometry), result, operands, step.plan.epilogue, known
    )


def of_call(number: int, call: Call, known: Any) -> ConvolutionStep | None:
    """The step of a call that is a convolution of one or two dimensions; None for another."""
    if call.operation is not REGISTRY["convolution"].function or call.kwargs or len(call.args) != 6:
        return None
    input, weight, bias, geometry, _, transposed = call.args
    (result,) = call.results
    if (
        transposed
        or len(input.shape) not in (3, 4)
        or not weight.contiguous
        or not (bias is None or bias.contiguous)
    ):
        return None
    if len(input.shape) == 3:  # as rows of images that are one row high
        input, weight, result = map(_one_high, (input, weight, result))
        before, stride, dilation = (
            ((k,) + own) for k, own in zip((0, 1, 1), (geometry.before, geometry.stride, geometry.dilation))
        )
        geometry = geometry._replace(before=before, stride=stride, dilation=dilation)
    return ConvolutionStep(
        number, Images(input, weight, geometry), result, () if bias is None else (bias,), None, known
    )


def _one_high(value: Tensor) -> Tensor:
    """A value of three dimensions with one more, of size 1, before the last."""
    p = value.place
    place = p._replace(shape=(*p.shape[:2], 1, p.shape[2]), stride=(*p.stride[:2], p.stride[1], p.stride[2]))
    return Tensor(value.number, place, value.call, value.root)


def with_vectors(call: Call) -> Product | None:
    """The product of a call with a vector, as a matrix of one row or column; None for another call."""
    if (
        "product" not in getattr(getattr(call.operation, "entry", None), "details", {})
        or call.written
        or call.kwargs
    ):
        return None
    if len(call.args) != 2 or not all(isinstance(v, Tensor) and v.shape for v in call.args):
        return None
    (left, right), (result,) = call.args, call.results
    row, column = len(left.shape) == 1, len(right.shape) == 1
    again = Call(
        call.number,
        call.operation,
        (_matrix(left, 0) if row else left, _matrix(right, 1) if column else right),
        {},
    )
    made = _matrix(result, len(result.shape)) if column else result
    again.results = (_matrix(made, len(made.shape) - 1) if row else made,)
    return product_of(again)


def _matrix(value: Tensor, dim: int) -> Tensor:
    """A value with one more dimension, of size 1."""
    p = value.place
    place = p._replace(
        shape=(*p.shape[:dim], 1, *p.shape[dim:]), stride=(*p.stride[:dim], 1, *p.stride[dim:])
    )
    return Tensor(value.number, place, value.call, value.root)
