"""Indexed kernels as threads, for graphics processors: each thread takes places of the parallel axes in turn, and walks
the serial axes in order.
"""

from __future__ import annotations

from . import expr as ex
from . import target as tg
from .indexed import Indexed
from .irtext import Function, Module, Value, i64
from .lower import MEMORY, Lowering
from .lower_indexed import Evaluation, Uniform, expanded_kernel
from .schedule_gpu_threads import BLOCK, POINTER, Threads


def parameters(kernel: Indexed) -> list[tuple[str, str]]:
    """The name and LLVM type of each parameter, in order.

    - `data{k}`, `offset{k}` for each operand, outputs before inputs.
    - `fault`: an int64 in memory, which becomes 1 where an index is out of bounds.
    - `extent{d}`: the length of each axis.
    - `size{k}_{d}` and then `stride{k}_{d}` for each operand and dimension.
    - `scalar{k}`: double for floats, i64 for integers.
    """
    operands = range(len(kernel.memory))
    out = [pair for k in operands for pair in ((f"data{k}", POINTER), (f"offset{k}", "i64"))]
    out += [("fault", POINTER)]
    out += [(f"extent{d}", "i64") for d in range(kernel.axes)]
    for k in operands:
        rank = range(kernel.memory[k].rank)
        out += [(f"size{k}_{d}", "i64") for d in rank] + [(f"stride{k}_{d}", "i64") for d in rank]
    return out + [
        (f"scalar{k}", "double" if ex.is_float(dtype) else "i64") for k, dtype in enumerate(kernel.params)
    ]


def module_for(kernel: Indexed, target: str) -> Module:
    kernel = expanded_kernel(kernel._replace(vector=False))
    module = Module(tg.TARGETS[target].triple, str(tg.machine(target).target_data))
    f = Function(module, "")
    threads = Threads(f, target)
    arguments = parameters(kernel)
    f.signature = threads.signature(arguments)
    given = {name: Value(type, f"%{name}") for name, type in arguments}
    narrow = kernel.integer == "int32"

    def number(name: str) -> Value:
        return f.op("i32", f"trunc {given[name]} to i32") if narrow else given[name]

    base = [
        f.gep(MEMORY[m.dtype], given[f"data{k}"], given[f"offset{k}"]) for k, m in enumerate(kernel.memory)
    ]
    sizes = [[number(f"size{k}_{d}") for d in range(m.rank)] for k, m in enumerate(kernel.memory)]
    strides = [[number(f"stride{k}_{d}") for d in range(m.rank)] for k, m in enumerate(kernel.memory)]
    for m, own in zip(kernel.memory, strides):
        if m.unit:
            own[-1] = Value(own[-1].type, "1")
    params = []
    for k, dtype in enumerate(kernel.params):
        slot = "float64" if ex.is_float(dtype) else "int64"
        params.append(Lowering(f, None).cast(given[f"scalar{k}"], slot, dtype))
    extents = [number(f"extent{d}") for d in range(kernel.axes)]
    evaluation = Evaluation(f, kernel, None, base, sizes, strides, extents, params, given["fault"])
    parallel = kernel.axes - kernel.serial
    count = i64(1)
    for d in range(parallel):
        count = f.mul(count, given[f"extent{d}"])

    ends = [given[f"extent{d}"] for d in range(kernel.axes)]

    def place(i: Value, _) -> list[Value]:
        at = f.coordinates(evaluation.narrow(i), extents[1:parallel]) if parallel else []
        return evaluation.serially([Uniform(c) for c in at], ends, None)

    first = f.add(f.mul(threads.block(), i64(BLOCK)), threads.thread())
    f.loop(first, count, f.mul(threads.blocks(), i64(BLOCK)), [], place)
    f.do("ret void")
    return module
