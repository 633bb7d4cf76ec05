"""Products by tensor cores: their PTX, interpreted thread by thread, against NumPy; what the assembler makes of it."""

from __future__ import annotations

import functools
import itertools
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from flambeau.codegen import schedule_gpu_tensor_cores as tc
from flambeau.codegen import target as tg
from flambeau.codegen.schedule_gpu_products import NUMBERS, Product
from flambeau.codegen.schedule_gpu_tensor_cores import TensorCoreProduct

sys.path.insert(0, str(Path(__file__).parent))
from ptx import ptxas  # noqa: E402
from ptx_machine import Machine, bfloat16, rounded  # noqa: E402

SHORT = {"float16": "f16", "bfloat16": "bf16"}
STEP = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
FORMS = list(itertools.product((False, True), repeat=2))


@functools.cache
def ptx(kernel: TensorCoreProduct) -> str:
    return tg.image(str(kernel.module("nvptx")), "nvptx", kernel.processor)


def numbers_of(bits, dtype):
    return bits.copy().view("<f2").astype("f4") if dtype == "float16" else bfloat16(bits)


class Matrices:
    """A stack of matrices in a dtype: bits in memory, `offset` bytes after 256, lines longer by `gap`; `step` elements side by side."""

    def __init__(self, random, dtype, batch, rows, columns, turned, gap=0, offset=0, step=1):
        lines, length = (columns, rows) if turned else (rows, columns)
        values = random.standard_normal((batch, lines, length * step + gap)).astype("f4")
        self.bits, self.offset = rounded(values, SHORT[dtype]), offset
        line = length * step + gap
        inside = self.bits[:, :, : length * step : step]
        self.view = inside.swapaxes(1, 2) if turned else inside
        self.steps = (lines * line, *((step, line) if turned else (line, step)))
        self.values = numbers_of(self.view, dtype).astype("f8")


def check(processor, dtype, turned, size, batch=1, adds=False, a=None, b=None, c=None, text=None, seed=0):
    """The kernel's result for random matrices is NumPy's but for the rounding of the result and of sums in float32."""
    kernel = TensorCoreProduct(dtype, *turned, adds, processor)
    random, (m, n, k) = np.random.default_rng(seed), size
    left = Matrices(random, dtype, batch, m, k, turned[0], **(a or {}))
    right = Matrices(random, dtype, batch, k, n, turned[1], **(b or {}))
    result = Matrices(random, dtype, batch, m, n, False, **(c or {}))
    before = result.bits.copy()
    machine = Machine(text or ptx(kernel), seed)
    places = [machine.place(x.bits, x.offset) for x in (result, left, right)]
    numbers = (batch, m, n, k, *result.steps, *left.steps, *right.steps)
    assert len(numbers) == len(NUMBERS)
    launch = kernel.blocks("nvptx", numbers)
    machine.run(launch.blocks[0], launch.threads[0], launch.shared, *places, *numbers, 1.5, 0.5)
    found = numbers_of(result.view, dtype)
    wanted = 1.5 * left.values @ right.values + (0.5 * result.values if adds else 0)
    magnitude = np.abs(left.values) @ np.abs(right.values) + np.abs(result.values)
    assert (np.abs(found - wanted) <= STEP[dtype] * np.abs(wanted) + 1e-5 * magnitude).all()
    untouched = np.ones(before.shape, bool)
    view = untouched[:, :, : n * (c or {}).get("step", 1) : (c or {}).get("step", 1)]
    view[:] = False
    assert (result.bits[untouched] == before[untouched]).all()
    return machine


KINDS = ["sm_86"]
