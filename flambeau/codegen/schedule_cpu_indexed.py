"""Indexed kernels as loops over vectors, for a CPU core.

`geometry` holds which places to do: begin and end in the row-major order of all parallel axes but the last, begin and
end along the last; then the length of each axis, and for each operand its sizes and its strides.  The pointer behind
the operands' is where a fault is noted: an index out of bounds.
"""

from __future__ import annotations

from . import expr as ex
from .indexed import Indexed
from .irtext import Function, Module, Value, i64
from .lower import ITEMSIZE, Lowering
from .lower_indexed import Evaluation, Form, Ramp, Uniform, expanded_kernel
from .schedule_cpu_frame import VECTOR_BYTES, kernel_of

HEAD = 4  # numbers before the lengths of the axes


def module_for(kernel: Indexed, triple: str) -> Module:
    module = Module(triple)
    f = kernel_of(module)
    Schedule(f, expanded_kernel(kernel)).emit()
    f.do("ret void")
    return module


class Schedule:
    def __init__(self, f: Function, kernel: Indexed):
        self.f, self.kernel = f, kernel
        widest = max([4] + [ITEMSIZE[m.dtype] for m in kernel.memory[: len(kernel.stores)]])
        self.lanes = VECTOR_BYTES // widest if kernel.vector else None
        self.narrow = kernel.integer == "int32"
        count = len(kernel.memory)
        base = [f.load("ptr", f.gep("ptr", Value("ptr", "%data"), i64(k)), 8) for k in range(count + 1)]
        self.begin, self.end, self.low, self.high = (self.geometry(k) for k in range(HEAD))
        self.extent = [self.geometry(HEAD + d) for d in range(kernel.axes)]
        at, sizes, strides = HEAD + kernel.axes, [], []
        for m in kernel.memory:
            sizes.append([self.number(at + d) for d in range(m.rank)])
            steps = [self.number(at + m.rank + d) for d in range(m.rank)]
            if m.unit:
                steps[m.rank - 1] = Value(steps[m.rank - 1].type, "1")
            strides.append(steps)
            at += 2 * m.rank
        params = []
        for k, dtype in enumerate(kernel.params):
            slot, given = ("double", "float64") if ex.is_float(dtype) else ("i64", "int64")
            place = f.gep("i64", Value("ptr", "%scalars"), i64(k))
            params.append(Lowering(f, None).cast(f.load(slot, place, 8), given, dtype))
        extents = [self.number(HEAD + d) for d in range(kernel.axes)]
        self.evaluation = Evaluation(
            f, kernel, self.lanes, base[:count], sizes, strides, extents, params, base[count]
        )

    def geometry(self, k: int) -> Value:
        return self.f.load("i64", self.f.gep("i64", Value("ptr", "%geometry"), i64(k)), 8)

    def number(self, k: int) -> Value:
        result = self.geometry(k)
        return self.f.op("i32", f"trunc {result} to i32") if self.narrow else result

    def emit(self) -> None:
        self.f.loop(self.begin, self.end, i64(1), [], self.row)

    def row(self, row: Value, _) -> list[Value]:
        """All places of the last parallel axis, at one place of the others."""
        f, kernel = self.f, self.kernel
        parallel = kernel.axes - kernel.serial
        outer = f.coordinates(row, self.extent[1 : parallel - 1]) if parallel > 1 else []
        fixed: list[Form] = [Uniform(self.evaluation.narrow(c)) for c in outer]
        if self.lanes is None:
            f.loop(self.low, self.high, i64(1), [], lambda i, _: self.places(fixed, i, None))
            return []
        lanes = self.lanes
        whole = f.add(self.low, f.binary("and", f.binary("sub", self.high, self.low), i64(-lanes)))
        f.loop(self.low, whole, i64(lanes), [], lambda i, _: self.places(fixed, i, None))

        def rest_of_row() -> list[Value]:
            left = f.op("i32", f"trunc {f.binary('sub', self.high, whole)} to i32")
            vector = self.evaluation.vector
            mask = f.op(vector.vector("i1"), f"icmp ugt {vector.splat(left)}, {vector.iota(32).name}")
            return self.places(fixed, whole, mask)

        f.when(f.op("i1", f"icmp slt {whole}, {self.high.name}"), rest_of_row)
        return []

    def places(self, outer: list[Form], i: Value, mask: Value | None) -> list[Value]:
        """One place (or vector) of the parallel axes, if there are any: the serial axes in order, then the stores."""
        here = self.evaluation.narrow(i)
        form: Form = Uniform(here) if self.lanes is None else Ramp(here, Value(here.type, "1"))
        at = [*outer, form] if self.kernel.axes > self.kernel.serial else []
        return self.evaluation.serially(at, self.extent, mask)
