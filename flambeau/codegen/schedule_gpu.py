"""Kernels as threads, for graphics processors.

The kernels are those of `schedule_cpu.py`.  Threads come in blocks of `BLOCK`, and any number of blocks may
be launched: every thread goes on to further elements, or rows, until there are none.  In a pointwise kernel a
thread computes one element at a time.  In a row kernel `width` threads share a row: each folds every
`width`-th element, a tree in the block's shared memory combines their states, and each writes its share.

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
from functools import partial
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
    folds_by_depth,
    operands,
    prefixes,
)
from .lower import ITEMSIZE, MEMORY, Lowering, expanded
from .passes import Together
from .schedule_gpu_threads import BLOCK, POINTER, SHARED, OfBlocks, Threads

# What an OpenCL driver is told when it builds a kernel: quotients and roots have the same bits there, too.
OPENCL_OPTIONS = ("-cl-fp32-correctly-rounded-divide-sqrt",)
IN_FLIGHT = 4  # elements a thread loads before it waits for them; a power of two
LONG_BODY = 64  # nodes of an expression above which there is work enough to hide the loads' latency


class Form(NamedTuple):
    """What a kernel is built for, besides its expressions.

    `dims`: dimensions that the elements, or the rows, are counted over.
    `folded`: dimensions of a row (row kernels).
    `width`: threads a row, a power of two up to `BLOCK` (row kernels); see `width_for`.
    `wide`: offsets and coordinates have 64 bits.  Where the number of elements and all offsets from an
    operand's first element are below 2³¹, 32 bits do; counting over several dimensions is then much cheaper.
    """

    dims: int = 1
    folded: int = 1
    width: int = 1
    wide: bool = True


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


def width_for(length: int, rows: int, lanes_along: str) -> int:
    """How many threads should share a row of `length` elements where there are `rows` of them."""
    width = 1
    if lanes_along == "r":  # neighbouring threads read neighbouring elements: always eight or more
        while width < BLOCK and (width < 8 or width * IN_FLIGHT < length):
            width *= 2
    else:  # neighbouring threads are on neighbouring rows: 32 of those at least
        while width < BLOCK // 32 and rows * width < 1 << 15 and 2 * width * IN_FLIGHT <= length:
            width *= 2
    return width


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


# --- rows ------------------------------
class RowSchedule:
    """A block takes BLOCK / width rows at a time: folds first, pass by pass, then the outputs along the row.

    Where operands are contiguous along the row, neighbouring threads are on one row, else on neighbouring
    rows: either way they read neighbouring elements.
    """

    def __init__(self, frame: Frame, kernel: Row):
        self.frame, self.f, self.kernel = frame, frame.f, kernel
        self.row_axes = range(frame.form.dims)
        self.fold_axes = range(frame.form.dims, frame.axes)
        self.width = frame.form.width
        self.rows_a_block = BLOCK // self.width
        self.along = kernel.lanes_along == "r"
        self.varying = kernel.varying()
        self.scans = prefixes(kernel.outputs)
        if self.scans and self.width not in (1, BLOCK if self.along else 1):
            raise ValueError(
                f"module_for: form.width is {self.width}; a scan takes 1 thread a row, or {BLOCK} along it"
            )

    def emit(self) -> None:
        f, width, rows_a_block = self.f, i64(self.width), i64(self.rows_a_block)
        self.thread = self.frame.threads.thread()
        if self.along:
            self.lane, self.apart = f.binary("urem", self.thread, width), 1
            row_in_block = f.binary("udiv", self.thread, width)
        else:
            self.lane, self.apart = f.binary("udiv", self.thread, rows_a_block), self.rows_a_block
            row_in_block = f.binary("urem", self.thread, rows_a_block)
        self.rows = self.frame.product(self.row_axes)
        self.row_length = self.frame.product(self.fold_axes)
        begin = f.mul(self.frame.threads.block(), rows_a_block)
        step = f.mul(self.frame.threads.blocks(), rows_a_block)
        if self.width == 1:
            begin = f.add(begin, row_in_block)  # no thread waits for another: each has its own rows
        f.loop(begin, self.rows, step, [], lambda row, _: self.row(row, row_in_block))

    def row(self, row: Value, row_in_block: Value) -> list[Value]:
        """The thread's part of one row; where there are barriers, a block's threads come here together."""
        f, frame = self.f, self.frame
        self.active = None  # certainly a row, where a block takes one at a time, or each thread its own
        if 1 < self.width < BLOCK:
            row = f.add(row, row_in_block)
            self.active = f.op("i1", f"icmp slt {row}, {self.rows.name}")
            row = frame.low.select(self.active, row, f.add(self.rows, i64(-1)))

        where = frame.coordinates(row, self.row_axes)
        self.starts = frame.places(frame.base, where, self.row_axes)
        steps = [frame.narrow(frame.given[f"step{d}"]) for d in self.row_axes]
        self.first_index = f.add(frame.given["first"], frame.widen(frame.distance(where, steps)))
        left = f.binary("sub", frame.given["total"], self.first_index)
        shorter = f.op("i1", f"icmp slt {left}, {self.row_length.name}")
        self.count = frame.low.select(shorter, left, self.row_length)
        if self.active:
            self.count = frame.low.select(self.active, self.count, i64(0))

        known: dict[Expr, Value] = {}
        for e in ex.walk(self.kernel.outputs):
            if e.op == "param":
                known[e] = frame.params[e.value]
            elif e.op == "length":
                known[e] = frame.given["total"]
            elif e.op == "input" and not self.varying[id(e)]:
                known[e] = frame.load(e.value, self.starts)
        for folds in folds_by_depth(self.kernel.outputs):
            self.fold_pass(folds, known)
        self.store_row_values(known)
        self.store_pass(known)
        return []

    def element(
        self, number: Value, needed: Sequence[Expr], known: dict[Expr, Value]
    ) -> tuple[dict[Expr, Value], list[Value]]:
        """The leaves for one element of the row, and where it stands in each operand."""
        frame = self.frame
        places = frame.places(self.starts, frame.coordinates(number, self.fold_axes), self.fold_axes)
        leaves = dict(known)
        for e in needed:
            if e.op == "input" and e not in leaves:
                leaves[e] = frame.load(e.value, places)
            elif e.op == "index" and e.value == 1:
                leaves[e] = self.f.add(self.first_index, number)
        return leaves, places

    def each(
        self, carried: Sequence[Value], roots: list[Expr], known: dict[Expr, Value], body: Callable
    ) -> list[Value]:
        """The thread's elements of the row: `body(leaves and places of some elements, carried)`."""
        frame = self.frame
        needed = list(ex.walk(roots))

        def turn(numbers: list[Value], carried: list[Value]) -> Sequence[Value]:
            return body([self.element(n, needed, known) for n in numbers], carried)

        return frame.every(self.lane, self.count, i64(self.width), carried, turn)

    def fold_pass(self, folds: list[list[Expr]], known: dict[Expr, Value]) -> None:
        """All folds of one depth in one walk over the row; adds their results to `known`."""
        low, together = self.frame.low, Together(folds)

        def turn(some: list, states: list[Value]) -> list[Value]:
            result = [low.values(together.elements, leaves) for leaves, _ in some]
            while len(result) > 1:  # pairs first: shorter chains, and smaller errors of sums
                result = [together.combined(low, a, b) for a, b in zip(result[::2], result[1::2])]
            return together.combined(low, states, result[0])

        states = self.each(together.start(low), together.elements, known, turn)
        if self.width > 1:
            states = self.across_threads(together, states)
        known.update(together.values(states))

    def across_threads(self, together: Together, states: list[Value]) -> list[Value]:
        """Combine the states of the row's threads by halves: a fixed tree, whose result all threads get."""
        f, low, barrier = self.f, self.frame.low, self.frame.threads.barrier
        write, read = self.exchange(together.dtypes)

        def meet(half: int) -> list[Value]:
            other = read(f.add(self.thread, i64(half * self.apart)))
            new = together.combined(low, states, other)
            write(new)
            return new

        write(states)
        barrier()
        half = self.width // 2
        while half:
            lower = f.op("i1", f"icmp slt {self.lane}, {half}")
            states = f.when(lower, partial(meet, half), states)
            barrier()
            half //= 2
        states = read(f.binary("sub", self.thread, f.mul(self.lane, i64(self.apart))))
        barrier()  # before the next fold, or the next row, writes there
        return states

    def exchange(self, dtypes: Sequence[str]) -> tuple[Callable, Callable]:
        """`write(values)` leaves a thread's values in shared memory, `read(thread)` gets another's."""
        f, low = self.f, self.frame.low
        arrays = self.shared_arrays(dtypes)

        def write(values: Sequence[Value]) -> None:
            for (array, dtype), value in zip(arrays, values):
                place = f.gep(MEMORY[dtype], array, self.thread)
                f.store(low.to_memory(value, dtype), place, ITEMSIZE[dtype])

        def read(thread: Value) -> list[Value]:
            places = [(f.gep(MEMORY[dtype], array, thread), dtype) for array, dtype in arrays]
            return [low.from_memory(f.load(MEMORY[d], p, ITEMSIZE[d]), d) for p, d in places]

        return write, read

    def shared_arrays(self, dtypes: Sequence[str]) -> list[tuple[Value, str]]:
        """For each dtype an array of BLOCK elements in shared memory; all folds use the same ones."""
        out = []
        for k, dtype in enumerate(dtypes):
            earlier = sum(MEMORY[d] == MEMORY[dtype] for d in dtypes[:k])
            name = f"@shared_{MEMORY[dtype]}_{earlier}"
            line = f"{name} = internal addrspace({SHARED}) global [{BLOCK} x {MEMORY[dtype]}] undef, align 8"
            if line not in self.f.module.globals:
                self.f.module.globals.append(line)
            out.append((Value(f"ptr addrspace({SHARED})", name), dtype))
        return out

    def store_row_values(self, known: dict[Expr, Value]) -> None:
        """The outputs of one value a row, by the row's first thread."""
        single = [(k, e) for k, e in enumerate(self.kernel.outputs) if not self.varying[id(e)]]
        if not single:
            return
        values = self.frame.low.values([e for _, e in single], known)

        def write() -> list[Value]:
            for (k, _), value in zip(single, values):
                self.frame.store(k, value, self.starts)
            return []

        if self.width == 1:
            write()
            return
        leads = self.f.op("i1", f"icmp eq {self.lane}, 0")
        self.f.when(self.f.binary("and", leads, self.active) if self.active else leads, write)

    def store_pass(self, known: dict[Expr, Value]) -> None:
        """The outputs that vary along the row."""
        full = [(k, e) for k, e in enumerate(self.kernel.outputs) if self.varying[id(e)]]
        roots = [e for _, e in full]

        def turn(some: list, _) -> list[Value]:
            computed = [(self.frame.low.values(roots, leaves), places) for leaves, places in some]
            for values, places in computed:
                for (k, _), value in zip(full, values):
                    self.frame.store(k, value, places)
            return []

        if full and self.scans:
            self.scan_pass(roots, known)
        elif full:
            self.each([], roots, known, turn)

    def scan_pass(self, roots: list[Expr], known: dict[Expr, Value]) -> None:
        """Prefixes, and the outputs that read them: a thread walks over its row, or a block goes over one row,
        `BLOCK` elements at a time.
        """
        f, frame, low = self.f, self.frame, self.frame.low
        together = Together(self.scans)
        start = together.start(low)
        needed = list(ex.walk([*together.elements, *roots]))

        def element(number: Value) -> tuple[dict[Expr, Value], list[Value]]:
            return self.element(number, needed, known)

        def finish(states: list[Value], leaves: dict[Expr, Value], places: list[Value]) -> None:
            leaves.update(together.values(states))
            values = iter(low.values(roots, leaves))
            for k, e in enumerate(self.kernel.outputs):
                if self.varying[id(e)]:
                    frame.store(k, next(values), places)

        def alone(number: Value, carried: list[Value]) -> list[Value]:
            leaves, places = element(number)
            states = together.combined(low, carried, low.values(together.elements, leaves))
            finish(states, leaves, places)
            return states

        def by_blocks(first: Value, carried: list[Value]) -> list[Value]:
            number = f.add(first, self.lane)
            inside = f.op("i1", f"icmp slt {number}, {self.count.name}")
            leaves, places = element(low.select(inside, number, first))
            own = [low.select(inside, v, n) for v, n in zip(low.values(together.elements, leaves), start)]
            own, all_of_them = self.running(together, own)

            def write() -> list[Value]:
                finish(together.combined(low, carried, own), leaves, places)
                return []

            f.when(inside, write)
            return together.combined(low, carried, all_of_them)

        if self.width == 1:
            f.loop(i64(0), self.count, i64(1), start, alone)
        else:
            f.loop(i64(0), self.count, i64(BLOCK), start, by_blocks)

    def running(self, together: Together, states: list[Value]) -> tuple[list[Value], list[Value]]:
        """The block's states, each combined with those of the threads before (Hillis and Steele, Data parallel
        algorithms, 1986), and the last of them.
        """
        f, low, barrier = self.f, self.frame.low, self.frame.threads.barrier
        write, read = self.exchange(together.dtypes)
        distance = 1
        while distance < BLOCK:
            write(states)
            barrier()
            later = f.op("i1", f"icmp sge {self.thread}, {distance}")
            back = f.add(self.thread, i64(-distance))
            states = f.when(later, lambda: together.combined(low, read(back), states), states)  # noqa: B023
            barrier()
            distance *= 2
        write(states)
        barrier()
        last = read(i64(BLOCK - 1))
        barrier()
        return states, last
