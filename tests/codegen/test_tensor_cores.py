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

from flambeau.codegen import expr as ex
from flambeau.codegen import schedule_gpu_stages as tc
from flambeau.codegen import schedule_gpu_wgmma as wg
from flambeau.codegen import target as tg
from flambeau.codegen.schedule_gpu_products import NUMBERS, Product
from flambeau.codegen.schedule_gpu_tensor_cores import DTYPES, TensorCoreProduct

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "tools")]
import ptx_report  # noqa: E402
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


def check(
    processor,
    dtype,
    turned,
    size,
    batch=1,
    adds=False,
    a=None,
    b=None,
    c=None,
    text=None,
    seed=0,
    addend="",
    after=None,
    expected=lambda sums: sums,
):
    """The kernel's result for random matrices is NumPy's but for the rounding of the result and of sums in float32."""
    kernel = TensorCoreProduct(dtype, *turned, adds, processor, addend, after=after)
    random, (m, n, k) = np.random.default_rng(seed), size
    left = Matrices(random, dtype, batch, m, k, turned[0], **(a or {}))
    right = Matrices(random, dtype, batch, k, n, turned[1], **(b or {}))
    result = Matrices(random, dtype, batch, m, n, False, **(c or {}))
    before = result.bits.copy()
    machine = Machine(text or ptx(kernel), seed)
    places = [machine.place(x.bits, x.offset) for x in (result, left, right)]
    numbers = (batch, m, n, k, *result.steps, *left.steps, *right.steps)
    assert len(numbers) == len(NUMBERS)
    added = result.values
    if addend:  # a bias: one row for all, or one number a row
        one = Matrices(random, dtype, 1, *((m, 1) if addend == "row" else (1, n)), addend == "row")
        added = one.values
        places.append(machine.place(one.bits, one.offset))
        numbers += (0, 1, 0) if addend == "row" else (0, 0, 1)
    launch = kernel.blocks("nvptx", numbers)
    machine.run(launch.blocks[0], launch.threads[0], launch.shared, *places, *numbers, 1.5, 0.5)
    found = numbers_of(result.view, dtype)
    wanted = 1.5 * left.values @ right.values + (0.5 * added if adds else 0)
    wanted = expected(wanted)
    magnitude = np.abs(left.values) @ np.abs(right.values) + np.abs(added)
    assert (np.abs(found - wanted) <= STEP[dtype] * np.abs(wanted) + 1e-5 * magnitude).all()
    untouched = np.ones(before.shape, bool)
    view = untouched[:, :, : n * (c or {}).get("step", 1) : (c or {}).get("step", 1)]
    view[:] = False
    assert (result.bits[untouched] == before[untouched]).all()
    return machine


# Each kind of instruction with each operand in both layouts.  The sizes that come with them are one whole rectangle, with enough terms for
# the loop of whole stages, and rectangles with edges on all sides.
KERNELS = [
    ("sm_86", "bfloat16", (False, False), True, (128, 256, 328)),
    ("sm_80", "float16", (True, True), False, (128, 256, 328)),
    ("sm_90a", "float16", (False, True), True, (128, 256, 456)),
    ("sm_90a", "bfloat16", (True, False), False, (128, 256, 456)),
]


@pytest.mark.parametrize(("processor", "dtype", "turned", "adds", "size"), KERNELS)
def test_layouts_and_edges(processor, dtype, turned, adds, size):
    machine = check(processor, dtype, turned, size, adds=adds)
    name = "wgmma.mma_async" if processor == "sm_90a" else "mma.sync"
    assert any(key.startswith(name) for key in machine.counts)
    assert not any(key.startswith("ld.global.b16") for key in machine.counts), (
        "an aligned copy goes by elements"
    )
    check(processor, dtype, turned, (136, 24, 72), adds=adds, a={"gap": 8}, seed=1)


@pytest.mark.parametrize(("processor", "dtype", "turned"), [k[:3] for k in KERNELS[1:3]])
def test_what_lies_askew(processor, dtype, turned):
    """Lines of odd length, addresses between 16 bytes, elements with gaps."""
    adds = next(k[3] for k in KERNELS if k[:3] == (processor, dtype, turned))
    check(processor, dtype, turned, (17, 9, 67), adds=adds, seed=2)
    check(
        processor, dtype, turned, (3, 5, 70), adds=adds, a={"offset": 2}, b={"step": 2}, c={"step": 3}, seed=3
    )


def test_stacks_and_no_terms():
    processor, dtype, turned, adds, _ = KERNELS[0]
    check(processor, dtype, turned, (5, 7, 8), batch=3, adds=adds)
    check(processor, dtype, turned, (5, 7, 0), batch=2, adds=adds)
    kernel = TensorCoreProduct(dtype, *turned, adds, processor)
    assert (
        kernel.blocks("nvptx", (0, 5, 7, 8)).blocks[0] == kernel.blocks("nvptx", (3, 5, 0, 8)).blocks[0] == 0
    )
    assert kernel.blocks("nvptx", (3, tc.ROWS + 1, tc.COLUMNS, 8)).blocks[0] == 6


@pytest.mark.parametrize("addend", ["row", "matrix"])
def test_a_bias(addend):
    """An addend that is no part of the result: the whole rectangle, and edges."""
    for size in ((128, 256, 64), (9, 11, 64)):
        check("sm_86", "bfloat16", (False, False), size, batch=2, adds=True, addend=addend)


@pytest.mark.parametrize(("processor", "dtype"), [("sm_80", "float16"), ("sm_90a", "bfloat16")])
def test_a_sum_ends_in_an_expression(processor, dtype):
    """It is of the sum in float32, before the one rounding: the whole rectangle, and edges."""
    sum = ex.input(0, "float32")
    after = ex.where(sum > 1.0, sum * 0.5, sum + 3.0)
    for size in ((128, 256, 64), (9, 11, 64)):
        check(
            processor,
            dtype,
            (False, True),
            size,
            adds=True,
            addend="matrix",
            after=after,
            expected=lambda x: np.where(x > 1, x * 0.5, x + 3),
        )


def test_nan_stays_in_its_row_and_column():
    """What lies behind the last row, column and term has no part in a sum, whatever it is."""
    for processor, dtype, turned, adds, _ in (KERNELS[0], KERNELS[3]):
        kernel, k = TensorCoreProduct(dtype, *turned, adds, processor), 70
        infinite = {"float16": 0x7C00, "bfloat16": 0x7F80}[dtype]
        random = np.random.default_rng(0)
        a = Matrices(random, dtype, 1, 9, k, turned[0], gap=10)
        b = Matrices(random, dtype, 1, k, 11, turned[1], gap=13)
        for one in (a, b):
            outside = np.ones(one.bits.shape, bool)
            (outside.swapaxes(1, 2) if one.view.shape[1] != one.bits.shape[1] else outside)[
                :, : one.view.shape[1], : one.view.shape[2]
            ] = False
            one.bits[outside] = infinite
        a.view[0, 2, 3] = infinite
        c = np.zeros((9, 11), "<u2")
        machine = Machine(ptx(kernel))
        numbers = (1, 9, 11, k, 0, 11, 1, *a.steps, *b.steps)
        launch = kernel.blocks("nvptx", numbers)
        places = [machine.place(x) for x in (c, a.bits, b.bits)]
        machine.run(launch.blocks[0], launch.threads[0], launch.shared, *places, *numbers, 1.0, 0.0)
        finite = np.isfinite(numbers_of(c, dtype))
        assert not finite[2].any() and np.delete(finite, 2, 0).all()


# What is changed in a kernel, each of which is a fault that the interpreter must meet.
FAULTS = {
    "matrices are not turned": (0, ".trans.shared", ".shared"),
    "two registers of a fragment are exchanged": (
        0,
        r"(mma\.sync\S+\s+\{[^}]*\},\s+)\{(%\w+), (%\w+),",
        r"\1{\3, \2,",
    ),
    "copies are not waited for": (0, r"wait_group\s+0", "wait_group 1"),
    "the swizzle is another": (0, r"xor\.b64(\s+%\w+, %\w+), 32;", r"xor.b64\1, 96;"),
    "no barrier": (0, r"bar\.sync\s+0;", ""),
    "writes are not made visible to wgmma": (2, r"fence\.proxy\.async\.shared::cta;", ""),
    "the step in a descriptor is another": (2, str(wg.DESCRIPTOR), str(wg.DESCRIPTOR + (64 << 32))),
    "the first step in a descriptor is another": (3, str(wg.DESCRIPTOR), str(wg.DESCRIPTOR - (1 << 16))),
    "an operand is not turned": (3, "p, 1, 1, 1, 1;", "p, 1, 1, 1, 0;"),
    "sums are not waited for": (2, r"wgmma\.wait_group\.sync\.aligned 0", "wgmma.wait_group.sync.aligned 9"),
    "copies replace what is multiplied": (
        2,
        r"wgmma\.wait_group\.sync\.aligned \d",
        "wgmma.wait_group.sync.aligned 9",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_interpreter_meets_faults(fault):
    number, found, instead = FAULTS[fault]
    processor, dtype, turned, adds, _ = KERNELS[number]
    text, count = re.subn(found, instead, ptx(TensorCoreProduct(dtype, *turned, adds, processor)))
    assert count, "there is nothing to change"
    with pytest.raises(AssertionError):
        for seed in range(3):
            size = (128, 256, 520) if fault.startswith("copies replace") else (16, 136, 152)
            check(processor, dtype, turned, size, adds=adds, text=text, seed=seed)


def test_the_processor_chooses():
    """Tensor cores with sums in float32 and asynchronous copies are there from sm_80 on; float32 is never rounded to TF32."""
    for processor in tg.PROCESSORS["nvptx"]:
        for dtype in ("float16", "bfloat16", "float32", "float64", "int8"):
            kernel = Product(dtype, True, False, True)
            fitted = kernel.fitted(1, processor)
            if dtype in DTYPES and processor not in ("sm_70", "sm_75"):
                assert fitted == TensorCoreProduct(dtype, True, False, True, processor)
                assert fitted.instruction == ("wgmma" if processor == "sm_90a" else "mma")
            else:
                assert fitted == kernel._replace(vector=1)
    assert Product("float16", False, False, False).fitted(16) == Product("float16", False, False, False, 16)
    assert set(tc.STAGES) == set(tg.PROCESSORS["nvptx"]) - {"sm_70", "sm_75"}


@pytest.mark.parametrize(("processor", "dtype", "turned", "adds"), [k[:4] for k in KERNELS])
def test_the_inner_loop_multiplies_and_loads(processor, dtype, turned, adds):
    kernel = TensorCoreProduct(dtype, *turned, adds, processor)
    loop = ptx_report.inner_loop(ptx(kernel))
    turns = max(kernel.stages, 4 if kernel.stages == 2 else 0)  # stages in the loop
    assert loop.work * 8 == turns * tc.ROWS * tc.COLUMNS * tc.TERMS  # 8 warps
    copies = turns * tc.STAGE_BYTES // (tc.THREADS * tc.CHUNK)
    if kernel.instruction == "mma":  # each warp loads 64 rows and 64 columns, 16 × 16 elements an instruction
        assert loop.matrix == turns * 128 and loop.loads == copies + turns * 2 * 16
        assert loop.share >= 0.9
    else:
        assert loop.matrix == turns * 4 and loop.loads == copies
        assert loop.share >= 0.85


@pytest.mark.parametrize("number", range(len(tc.STAGES)))
def test_the_assembler_takes_it_without_spills(number, tmp_path):
    assembler = ptxas()
    if assembler is None:
        pytest.skip("there is no ptxas here")
    processor = list(tc.STAGES)[number]
    kernel = TensorCoreProduct(DTYPES[number % 2], *FORMS[number % 4], number % 2 == 0, processor)
    known = next((k for k in KERNELS if k[0] == processor), None)
    if known:  # compiled already
        kernel = TensorCoreProduct(known[1], *known[2], known[3], processor)
    path = tmp_path / "kernel.ptx"
    path.write_text(ptx(kernel))
    command = [assembler, "-v", f"-arch={processor}", "-o", str(tmp_path / "out.cubin"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "0 bytes spill stores, 0 bytes spill loads" in done.stderr, done.stderr
    assert "serialized" not in done.stderr, (
        done.stderr
    )  # wgmma whose registers other instructions touch meanwhile
    assert int(re.search(r"Used (\d+) registers", done.stderr)[1]) * tc.THREADS <= 1 << 16
