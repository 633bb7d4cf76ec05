"""Two of LLVM's pipelines over the kernels of elements and rows: milliseconds of CPU time for the passes and for machine code, bytes,
and how fast the loops run, one after the other in turn on data that fits the first cache.

    python benchmarks/passes.py [--share 0.1] [--dtypes float32 float64] [--seed 0]
"""

from __future__ import annotations

import argparse
import ctypes
import math
import random
import time

import numpy as np

from flambeau.codegen import build, kernels, schedule_cpu, target
from flambeau.kernels import _ahead

ROUNDS = 40
PIPELINES = {"O2": target.optimised, "simplified": target.simplified}
BUFFER = 16384  # elements an operand


def gathered(share: float, dtypes: list[str]) -> dict:
    """A random share of the kernels that common calls need, by their text."""
    by_text: dict = {}
    address = build.address

    def seen(kernel):
        if isinstance(kernel, (kernels.Pointwise, kernels.Row)):
            by_text[kernel.text()] = kernel
        return address(kernel)

    build.address = seen
    for call in _ahead.common_calls(dtypes):
        if random.random() < share:
            try:
                _ahead.backward(call())
            except (TypeError, RuntimeError, NotImplementedError, IndexError):  # a dtype it does not take
                continue
    return by_text


def arguments(kernel) -> tuple:
    """Pointers, geometry and scalars: 2048 elements, or rows of 512 or of 16 elements."""
    operands, outputs = kernels.operands(kernel), len(kernel.outputs)
    numbers = np.random.default_rng(0).uniform(0.1, 0.9, BUFFER)
    memory = []
    for o in operands:
        if o.dtype == "bfloat16":
            memory.append((numbers.astype("float32").view("uint32") >> 16).astype("uint16"))
        else:
            memory.append((numbers * (7 if "int" in o.dtype else 1)).astype(o.dtype))
    step = {"c": 1, "b": 0, "s": 3}
    if isinstance(kernel, kernels.Pointwise):
        geometry = [2048, 1, 0] + [step[o.access] for o in operands] + [0] * len(operands)
    else:
        along = kernel.lanes_along == "r"
        rows, length = (8, 512) if along else (512, 16)
        geometry, varying = [rows, 1, length, length, 0, 0], kernel.varying()
        for k, o in enumerate(operands):
            one = not varying[id(kernel.outputs[k])] if k < outputs else o.access == "b" and along
            inner = 0 if one else step[o.access] if along else rows
            geometry += [
                (1 if one else length * max(step[o.access], 1)) if along else step[o.access],
                0,
                inner,
            ]
    scalars = np.array([0.5 if p.startswith("float") else np.int64(2).view("float64") for p in kernel.params])
    pointers = (ctypes.c_void_p * len(memory))(*[m.ctypes.data for m in memory])
    places = (ctypes.c_int64 * len(geometry))(*geometry)
    return (pointers, places, scalars.ctypes.data_as(ctypes.c_void_p)), (memory, scalars)


def turns(functions: list, args: tuple) -> list[float]:
    """The shortest seconds of each, called in turn."""
    best = [math.inf] * len(functions)
    for _ in range(ROUNDS):
        for k, f in enumerate(functions):
            began = time.perf_counter()
            for _ in range(10):
                f(*args)
            best[k] = min(best[k], (time.perf_counter() - began) / 10)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--dtypes", nargs="+", default=["float32", "float64"])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    random.seed(options.seed)
    distinct = gathered(options.share, options.dtypes)
    machine, triple = target.host_machine(), target.llvm().get_default_triple()
    spent = {name: [0.0, 0.0, 0] for name in PIPELINES}
    ratios, prototype = [], ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    for number, kernel in enumerate(distinct.values()):
        text, functions = str(schedule_cpu.module_for(kernel, triple)), []
        for name, passes in PIPELINES.items():
            symbol = f"{name}{number}"
            began = time.process_time()
            module = passes(text.replace("@kernel(", f"@{symbol}("), machine)
            middle = time.process_time()
            code = machine.emit_object(module)
            for k, n in enumerate((middle - began, time.process_time() - middle, len(code))):
                spent[name][k] += n
            functions.append(prototype(target.load(code, symbol)))
        args, alive = arguments(kernel)
        before, after = turns(functions, args)
        ratios.append((after / before, kernel.name))
        del alive
    for name, (first, second, total) in spent.items():
        n = len(distinct)
        print(
            f"{name}: {first / n * 1e3:.1f} ms for parsing and passes, {second / n * 1e3:.1f} ms for machine code, {total // n} bytes"
        )
    mean = math.exp(sum(math.log(r) for r, _ in ratios) / len(ratios))
    print(f"{len(ratios)} kernels, time of simplified over O2: {mean:.3f}")
    print("highest:", ", ".join(f"{name} {r:.2f}" for r, name in sorted(ratios, reverse=True)[:8]))


if __name__ == "__main__":
    main()
