"""Kernels as threads, for graphics processors.

The kernels are those of `schedule_cpu.py`.  Threads come in blocks of `BLOCK`, and any number of blocks may
be launched: every thread goes on to further elements, or rows, until there are none.  In a pointwise kernel a
thread computes one element at a time.  In a row kernel `width` threads share a row: each folds every
`width`-th element, a tree combines their states, and each writes its share (`schedule_gpu_rows.py`).

A kernel is called `kernel` in the image and takes plain values, no tables in memory: see `parameters`.

>>> from flambeau.codegen import expr, kernels, schedule_gpu
>>> x = expr.input(0, "float32")
>>> square = kernels.Pointwise("square", (x * x,), ("c",), (kernels.Operand("float32", "c"),), ())
>>> [name for name, _ in schedule_gpu.parameters(square)]
['data0', 'offset0', 'data1', 'offset1', 'size0', 'first', 'stride0_0', 'stride1_0']
>>> "ptx_kernel" in str(schedule_gpu.module_for(square, "nvptx"))
True
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from . import expr as ex
from . import schedule_gpu_indexed
from . import target as tg
from .complex import written_out
from .expr import Expr
from .indexed import Indexed
from .irtext import Function, Module, Value, i64
from .kernels import (
    CONTIGUOUS,
    STRIDED,
    Pointwise,
    Row,
    operands,
)
from .lower import ITEMSIZE, MEMORY, Lowering, expanded
from .schedule_gpu_rows import HELD, RowSchedule
from .schedule_gpu_threads import BLOCK, POINTER, OfBlocks, Threads

# What an OpenCL driver is told when it builds a kernel: quotients and roots have the same bits there, too.
OPENCL_OPTIONS = ("-cl-fp32-correctly-rounded-divide-sqrt",)
IN_FLIGHT = 4  # elements a thread loads before it waits for them; a power of two
LONG_BODY = 64  # nodes of an expression above which there is work enough to hide the loads' latency


class Form(NamedTuple):
    """What a kernel is built for, besides its expressions.

    `dims`: dimensions that the elements, or the rows, are counted over.
    `folded`: dimensions of a row (row kernels).
    `width`: threads a row, a power of two up to `BLOCK` (row kernels); see `core/loops/launch.pyx`, `row_form`.
    `wide`: offsets and coordinates have 64 bits.  Where the number of elements and all offsets from an
    operand's first element are below 2³¹, 32 bits do; counting over several dimensions is then much cheaper.
    `held`: elements of a row that each of its threads has in registers, a power of two: there are `width` times as many at most, and one
    at least.  0: rows of any length, read once for each pass.  Of a scan: elements that a thread takes at a time.
    """

    dims: int = 1
    folded: int = 1
    width: int = 1
    wide: bool = True
    held: int = 0


PLAIN = Form()


def parameters(kernel: Pointwise | Row | Indexed, form: Form = PLAIN) -> list[tuple[str, str]]:
    """The name and LLVM type of each parameter of the kernel, in order.

    - `data{k}`, `offset{k}` for each operand, outputs before inputs: where its buffer begins, and which
      element of it is the first.
    - `size{d}` for each dimension, outermost first; in a row kernel those of the rows, then those of a row.
    - Row kernels: `total`, the number of elements folded in all.  Elements whose index is not below it are
      left out: where a row is folded in blocks, the last block may be shorter.
    - `first`: the index of the first element (counted over all elements; in a row kernel, along the row).
    - Row kernels: `step{d}`, what one step along dimension d of the rows adds to the index; 0 but for blocks
      of a row.
    - `stride{k}_{d}` for each operand and dimension, in elements.  That of the dimension which the operand's
      access is about is not read where the access says contiguous or broadcast.
    - `scalar{k}`: double for float64, float for other floats, i64 for integers and bool.
    """
    if isinstance(kernel, Indexed):
        return schedule_gpu_indexed.parameters(kernel)
    row = isinstance(kernel, Row)
    operands = range(len(kernel.outputs) + len(kernel.inputs))
    axes = range(form.dims + (form.folded if row else 0))
    out = [pair for k in operands for pair in ((f"data{k}", POINTER), (f"offset{k}", "i64"))]
    out += [(f"size{d}", "i64") for d in axes]
    out += [("total", "i64")] if row else []
    out += [("first", "i64")]
    out += [(f"step{d}", "i64") for d in range(form.dims)] if row else []
    out += [(f"stride{k}_{d}", "i64") for k in operands for d in axes]
    return out + [(f"scalar{k}", _slot(dtype)[1]) for k, dtype in enumerate(kernel.params)]


def _slot(dtype: str) -> tuple[str, str]:
    """The dtype and the LLVM type that a scalar of `dtype` travels in."""
    if dtype == "float64":
        return "float64", "double"
    return ("float32", "float") if ex.is_float(dtype) else ("int64", "i64")


def groups(count: int, width: int = 1, most: int = 1024) -> int:
    """How many blocks to launch for `count` elements, or rows of `width` threads.

    `most` should be about 8 for each of the device's processors.
    """
    return max(1, min(most, -(-count * width // BLOCK)))


def module_for(kernel: Pointwise | Row | Indexed | OfBlocks, target: str, form: Form = PLAIN) -> Module:
    """The kernel in LLVM IR for one of `target.TARGETS`; blocks have exactly `BLOCK` threads, unless the
    kernel says itself how it is launched.

    Raises ValueError for a form that the kernel cannot take.
    """
    if isinstance(kernel, Indexed):
        return schedule_gpu_indexed.module_for(kernel, target)
    if not isinstance(kernel, (Pointwise, Row)):
        return kernel.module(target)
    if form.dims < 1 or form.folded < 1:
        raise ValueError(f"module_for: form.dims is {form.dims}, folded {form.folded}; at least 1 expected")
    if form.width not in [1 << k for k in range(BLOCK.bit_length())]:
        raise ValueError(f"module_for: form.width is {form.width}; a power of two from 1 to {BLOCK} expected")
    if form.held not in [0, *(1 << k for k in range(HELD.bit_length()))]:
        raise ValueError(f"module_for: form.held is {form.held}; 0 or a power of two up to {HELD} expected")
    kernel = written_out(kernel)
    module = Module(tg.TARGETS[target].triple, str(tg.machine(target).target_data))
    frame = Frame(module, kernel, target, form)
    if isinstance(kernel, Row):
        RowSchedule(frame, kernel).emit()
    else:
        pointwise(frame)
    frame.f.do("ret void")
    return module


# --- what all kernels share ------------------------------
class Frame:
    """What the code of one kernel has at hand: operands' pointers and strides, sizes, scalars and threads."""

    def __init__(self, module: Module, kernel: Pointwise | Row, target: str, form: Form):
        self.kernel, self.form = kernel, form
        self.f = f = Function(module, "")
        self.low, self.threads = Lowering(f, None), Threads(f, target)
        arguments = parameters(kernel, form)
        f.signature = self.threads.signature(arguments)
        self.given = {name: Value(type, f"%{name}") for name, type in arguments}
        self.integer = "i64" if form.wide else "i32"  # what offsets are computed in

        self.outputs = len(kernel.outputs)
        self.operands = operands(kernel)
        self.base = [
            f.gep(MEMORY[o.dtype], self.given[f"data{k}"], self.given[f"offset{k}"])
            for k, o in enumerate(self.operands)
        ]
        self.params = [
            self.low.cast(self.given[f"scalar{k}"], _slot(dtype)[0], dtype)
            for k, dtype in enumerate(kernel.params)
        ]
        self.axes = form.dims + (form.folded if isinstance(kernel, Row) else 0)
        across = isinstance(kernel, Row) and kernel.lanes_along != "r"
        lane_axis = form.dims - 1 if across else self.axes - 1  # the one that `access` is about
        axes = range(self.axes)
        self.strides = [[self.stride(k, d, lane_axis) for d in axes] for k in range(len(self.operands))]
        nodes = len(list(ex.walk(expanded(list(kernel.outputs)))))
        self.at_once = IN_FLIGHT if nodes <= LONG_BODY else 1

    def stride(self, k: int, axis: int, lane_axis: int) -> Value:
        access = self.operands[k].access
        if axis == lane_axis and access != STRIDED:
            return Value(self.integer, "1" if access == CONTIGUOUS else "0")
        return self.narrow(self.given[f"stride{k}_{axis}"])

    def narrow(self, n: Value) -> Value:
        return n if self.form.wide else self.f.op("i32", f"trunc {n} to i32")

    def widen(self, n: Value) -> Value:
        return n if self.form.wide else self.f.op("i64", f"sext {n} to i64")

    def product(self, axes: range) -> Value:
        out = self.given[f"size{axes[0]}"]
        for d in axes[1:]:
            out = self.f.mul(out, self.given[f"size{d}"])
        return out

    def coordinates(self, number: Value, axes: range) -> list[Value]:
        """Where element `number` (i64) of the dimensions `axes` stands in each of them."""
        return self.f.coordinates(
            self.narrow(number), [self.narrow(self.given[f"size{d}"]) for d in axes[1:]]
        )

    def distance(self, coordinates: Sequence[Value], strides: Sequence[Value]) -> Value:
        terms = [self.f.mul(c, s) for c, s in zip(coordinates, strides)]
        out = terms[0]
        for term in terms[1:]:
            out = self.f.add(out, term)
        return out

    def places(self, pointers: Sequence[Value], coordinates: Sequence[Value], axes: range) -> list[Value]:
        """Each operand's pointer moved to the coordinates."""
        return [
            self.f.gep(MEMORY[o.dtype], p, self.distance(coordinates, s[axes.start : axes.stop]))
            for o, p, s in zip(self.operands, pointers, self.strides)
        ]

    def load(self, number: int, places: Sequence[Value]) -> Value:
        """The element of input `number`."""
        k = self.outputs + number
        dtype = self.operands[k].dtype
        return self.low.from_memory(self.f.load(MEMORY[dtype], places[k], ITEMSIZE[dtype]), dtype)

    def store(self, k: int, value: Value, places: Sequence[Value]) -> None:
        dtype = self.operands[k].dtype
        self.f.store(self.low.to_memory(value, dtype), places[k], ITEMSIZE[dtype])

    def every(
        self,
        begin: Value,
        end: Value,
        step: Value,
        carried: Sequence[Value],
        body: Callable[[list[Value], list[Value]], Sequence[Value]],
    ) -> list[Value]:
        """`for i in range(begin, end, step)`, several a turn while there are as many.

        `body(numbers, carried)` returns the new carried values.
        """
        f, n = self.f, self.at_once
        if n == 1:
            return f.loop(begin, end, step, carried, lambda i, c: body([i], c))

        def turn(i: Value, carried: list[Value]) -> list[Value]:
            numbers = [i]
            for _ in range(n - 1):
                numbers.append(f.add(numbers[-1], step))
            return [*body(numbers, carried[:-1]), f.add(numbers[-1], step)]

        whole = f.binary("sub", end, f.mul(step, i64(n - 1)))
        *carried, rest = f.loop(begin, whole, f.mul(step, i64(n)), [*carried, begin], turn)
        return f.loop(rest, end, step, carried, lambda i, c: body([i], c))


def pointwise(frame: Frame) -> None:
    """Each thread: elements `thread`, `thread + threads` …"""
    f, kernel = frame.f, frame.kernel
    axes = range(frame.axes)
    nodes = list(ex.walk(kernel.outputs))

    def element(number: Value) -> tuple[dict[Expr, Value], list[Value]]:
        places = frame.places(frame.base, frame.coordinates(number, axes), axes)
        leaves: dict[Expr, Value] = {}
        for e in nodes:
            if e.op == "input":
                leaves[e] = frame.load(e.value, places)
            elif e.op == "param":
                leaves[e] = frame.params[e.value]
            elif e.op == "index":
                leaves[e] = f.add(frame.given["first"], number)
        return leaves, places

    def turn(numbers: list[Value], _) -> list[Value]:
        loaded = [element(n) for n in numbers]
        computed = [(frame.low.values(list(kernel.outputs), leaves), places) for leaves, places in loaded]
        for values, places in computed:
            for k, value in enumerate(values):
                frame.store(k, value, places)
        return []

    first = f.add(f.mul(frame.threads.block(), i64(BLOCK)), frame.threads.thread())
    frame.every(first, frame.product(axes), f.mul(frame.threads.blocks(), i64(BLOCK)), [], turn)
