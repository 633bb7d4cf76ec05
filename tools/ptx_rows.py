"""What row kernels become on NVIDIA's processors: registers, spills, occupancy, and the bytes that they move for each element, by count.

python tools/ptx_rows.py [--only REGEX]     # prints a table in Markdown

ptxas must be installed, as for `tools/ptx_report.py`.  Loads and stores are counted by running the PTX in an interpreter, on a few rows.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

TOOLS = Path(__file__).resolve().parent
sys.path[:0] = [str(TOOLS), str(TOOLS.parent / "tests" / "codegen")]

from flambeau.core.loops.launch import row_form  # noqa: E402
from ptx import ptxas  # noqa: E402
from ptx_machine import Machine  # noqa: E402
from ptx_report import LIMITS, REGISTERS, RESERVED  # noqa: E402

from flambeau.codegen import expr as ex  # noqa: E402
from flambeau.codegen import kernels as kn  # noqa: E402
from flambeau.codegen import schedule_gpu as gpu  # noqa: E402
from flambeau.codegen import target as tg  # noqa: E402
from flambeau.codegen.schedule_gpu_rows import most_held  # noqa: E402


def softmax(x):
    e = ex.call("exp", x - kn.max(x))
    return e / kn.sum(e)


def norm(x):
    centred = x - kn.mean(x)
    return centred / ex.sqrt(kn.mean(centred * centred) + 1e-5)


class Case(NamedTuple):
    """A kernel of float32, and the shape whose form is taken."""

    name: str
    body: object
    varies: bool  # whether the result is as long as the row
    shape: tuple[int, int]
    scans: bool = False


CASES = [
    Case("sum", kn.sum, False, (4096, 1024)),
    Case("sum", kn.sum, False, (1, 4096)),
    Case("softmax", softmax, True, (4096, 128)),
    Case("softmax", softmax, True, (4096, 1024)),
    Case("softmax", softmax, True, (4096, 4096)),
    Case("softmax", softmax, True, (4096, 8192)),
    Case("softmax", softmax, True, (4096, 8193)),
    Case("layer norm", norm, True, (4096, 1024)),
    Case("layer norm", norm, True, (4096, 8192)),
    Case("scan", kn.running_sum, True, (245, 4096), True),
]


def kernel_of(case: Case) -> kn.Row:
    result = case.body(ex.input(0, "float32"))  # type: ignore[operator]
    access = kn.CONTIGUOUS if case.varies else kn.BROADCAST
    return kn.Row("k", (result,), (access,), (kn.Operand("float32", kn.CONTIGUOUS),), (), "r")


def form_of(case: Case, kernel: kn.Row) -> gpu.Form:
    """What `core/loops/launch.pyx` takes for the shape."""
    most = most_held(kernel, "nvptx")
    if case.scans:
        return gpu.Form(width=gpu.BLOCK, wide=False, held=most)
    rows, length = case.shape
    width, held = row_form(length, rows, True, tg.TARGETS["nvptx"].lanes, most)
    return gpu.Form(width=width, wide=False, held=held)


def moved(case: Case, form: gpu.Form, text: str) -> tuple[float, float]:
    """Bytes read and written for each element, counted on as many rows as a block takes."""
    rows, length = gpu.BLOCK // form.width, case.shape[1]
    x = np.random.default_rng(0).standard_normal((rows, length)).astype("f4")
    out = np.zeros((rows, length) if case.varies else (rows, 1), "f4")
    machine = Machine(text)
    args = {"size0": rows, "size1": length, "total": length, "first": 0, "step0": 0}
    for k, array in enumerate((out, x)):
        args |= {f"data{k}": machine.place(array), f"offset{k}": 0}
        args |= {f"stride{k}_0": array.shape[1], f"stride{k}_1": int(array.shape[1] == length)}
    names = [name for name, _ in gpu.parameters(kernel_of(case), form)]
    machine.run(1, gpu.BLOCK, 0, *(args[n] for n in names))
    assert np.isfinite(out).all() and out.any()
    counts = []
    for kind in ("ld.global", "st.global"):
        total = 0
        for key, threads in machine.threads.items():
            if key.startswith(kind):
                total += threads * int(key[-2:]) // 8
        counts.append(total / x.size)
    return counts[0], counts[1]


def line(case: Case, processor: str, kernel: kn.Row, form: gpu.Form, bytes_moved: tuple[float, float]) -> str:
    assembler = ptxas()
    if assembler is None:
        sys.exit("ptx_rows: there is no ptxas")
    text = tg.image(str(gpu.module_for(kernel, "nvptx", form)), "nvptx", processor)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(str(text))
        command = [assembler, "-v", f"-arch={processor}", "-o", str(Path(folder) / "cubin"), str(source)]
        info = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    registers = int(re.findall(r"Used (\d+) registers", info)[0])
    spills = sum(map(int, re.findall(r"(\d+) bytes spill", info)))
    shared = sum(map(int, re.findall(r"(\d+) bytes smem", info)))
    limits = LIMITS[processor]
    blocks = min(
        REGISTERS // (-(-registers // 8) * 8 * gpu.BLOCK),
        1024 * limits.shared // (shared + RESERVED),
        limits.threads // gpu.BLOCK,
    )
    shape = f"{case.shape[0]} × {case.shape[1]}"
    cells = [case.name, shape, processor, form.width, form.held or "–", registers, spills, shared]
    cells += [f"{100 * blocks * gpu.BLOCK // limits.threads} %", *(f"{b:.2f}" for b in bytes_moved)]
    return "| " + " | ".join(map(str, cells)) + " |"


HEAD = "| kernel | shape | processor | threads a row | held | registers | spills | shared bytes | occupancy | read | written |"


def lines(only: str = "") -> Iterator[str]:
    """The lines of the table."""
    for case in CASES:
        kernel = kernel_of(case)
        form, counted = form_of(case, kernel), None
        for processor in LIMITS:
            if not re.search(only, f"{case.name} {case.shape[1]} {processor}"):
                continue
            if counted is None:
                code = tg.image(str(gpu.module_for(kernel, "nvptx", form)), "nvptx", "sm_80")
                counted = moved(case, form, str(code))
            yield line(case, processor, kernel, form, counted)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="kernels, lengths and processors that are looked at")
    args = parser.parse_args()
    print(HEAD)
    print("|" + " --- |" * HEAD.count(" | ") + " --- |")
    for each in lines(args.only):
        print(each, flush=True)


if __name__ == "__main__":
    main()
