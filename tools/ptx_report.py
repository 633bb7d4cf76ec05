"""What the assembler of PTX makes of our products and attention: registers, spills, shared memory, occupancy, and what the inner loop
consists of.

python tools/ptx_report.py [--only REGEX] [--disassembler NVDISASM]     # prints a table in Markdown
python tools/ptx_report.py --convolutions                               # of what is gathered: instructions of a stage

ptxas must be installed (part of CUDA, or `pip install nvidia-cuda-nvcc`).  With a disassembler (part of CUDA, or `pip install
nvidia-cuda-nvdisasm`) instructions of the processor are counted, else those of the PTX.
"""

from __future__ import annotations

import argparse
import itertools
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "codegen"))

from ptx import ptxas  # noqa: E402
from ptx_machine import Machine, Program  # noqa: E402

from flambeau.codegen import schedule_gpu_tile  # noqa: E402
from flambeau.codegen import target as tg  # noqa: E402
from flambeau.codegen.schedule_gpu_attention import Attention, shape_for  # noqa: E402
from flambeau.codegen.schedule_gpu_attention_backward import AttentionBackward  # noqa: E402
from flambeau.codegen.schedule_gpu_attention_backward import shape_for as backward_shape  # noqa: E402
from flambeau.codegen.schedule_gpu_products import Product  # noqa: E402


class Limits(NamedTuple):
    """Of a multiprocessor: threads, KB of shared memory, and the multiply-adds of halves that each of its four tensor cores makes in a
    cycle, with sums in float32 (CUDA C++ programming guide, "Technical specifications per compute capability"; NVIDIA's white papers on
    the A100, GA102, AD102 and H100; 0: not used here).
    """

    threads: int
    shared: int
    rate: int


LIMITS = {
    "sm_75": Limits(1024, 64, 0),
    "sm_80": Limits(2048, 164, 256),
    "sm_86": Limits(1536, 100, 64),
    "sm_89": Limits(1536, 100, 64),
    "sm_90a": Limits(2048, 228, 512),
    "sm_100": Limits(2048, 228, 0),
}
REGISTERS, RESERVED = (
    1 << 16,
    1024,
)  # of a multiprocessor; bytes of shared memory that the system takes of each block
ONE = 16 * 8 * 16  # multiply-adds of an mma.sync.m16n8k16


class Loop(NamedTuple):
    """The inner loop: instructions that multiply, that bring operands, and all; multiply-adds of a warp."""

    matrix: int
    loads: int
    all: int
    work: int

    @property
    def share(self) -> float:
        """The share of the instructions that multiply or load.  One of wgmma does the work of many mma.sync, and counts as these."""
        weighed = max(self.matrix, self.work // ONE)
        return (weighed + self.loads) / (weighed + self.all - self.matrix)


def instructions(text: str) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """The instructions of PTX or of disassembled code, each its name and the label that it jumps to, and where labels stand among them."""
    if "/*0000*/" not in text:
        program = Program(text)
        code = [
            (".".join(name), operands[0] if name[0] == "bra" else "") for _, name, operands in program.code
        ]
        return code, program.labels
    code, labels = [], {}
    for line in text.splitlines():
        if label := re.match(r"\s*(\.L_\w+):", line):
            labels[label[1]] = len(code)
        elif match := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?(\S+)([^;]*);", line):
            jump = re.search(r"\.L_\w+", match[2]) if re.match(r"BRA(\.|$)", match[1]) else None
            code.append((match[1], jump[0] if jump else ""))
    return code, labels


def inner_loop(text: str) -> Loop:
    """Of the loops that contain no other with matrix instructions, the one that multiplies most, and of these the one with the largest
    share; where threads multiply, the loop with the largest share.
    """
    code, labels = instructions(text)
    loops = {}
    for end, (_, label) in enumerate(code):
        begin = labels.get(label, end + 1)
        if begin <= end:
            loops[begin, end] = counted([name for name, _ in code[begin : end + 1]])
    best = Loop(0, 0, 1, 0)
    for (begin, end), loop in loops.items():
        inside = [one for (b, e), one in loops.items() if begin <= b and e <= end and (b, e) != (begin, end)]
        if not any(one.work for one in inside):
            best = max(best, loop, key=lambda one: (one.work, one.share))
    return best


def counted(names: list[str]) -> Loop:
    matrix = [n for n in names if re.match(r"mma\.|wgmma\.mma|HMMA|HGMMA", n)]
    columns = [re.search(r"m64n(\d+)k16|64x(\d+)x16", n) for n in matrix]
    work = sum(2 * ONE // 16 * int(c[1] or c[2]) if c else ONE for c in columns)
    loads = [n for n in names if re.match(r"ldmatrix|cp\.async\.cg|LDSM|LDGSTS", n)]
    if not matrix:  # threads multiply
        matrix = [n for n in names if re.match(r"fma\.|FFMA", n)]
        loads = [n for n in names if re.match(r"ld\.shared|LDS", n)]
    return Loop(len(matrix), len(loads), len(names), work)


def kernels() -> Iterator[tuple[str, str, Any]]:
    """Family, processor, kernel."""
    for processor in LIMITS:
        for dtype in ("float32", "bfloat16"):
            forms = itertools.product((False, True), repeat=2)
            for a_turned, b_turned in forms:
                kernel = Product(dtype, a_turned, b_turned, False).fitted(1, processor)
                form = f"{'aᵀ' if a_turned else 'a'} {'bᵀ' if b_turned else 'b'}"
                how = getattr(kernel, "instruction", "fma")
                if how != "fma" or form == "a b":
                    yield f"{dtype} {form}, {how}", processor, kernel
        for dtype, width in itertools.product(("float32", "bfloat16"), (64, 128)):
            shape = shape_for(dtype, width, width)
            assert shape is not None
            attention = Attention(dtype, shape).fitted(1, processor)
            how = getattr(attention, "instruction", "fma")
            if how != "fma" or dtype == "float32":
                yield f"{dtype} attention of {width}, {how}", processor, attention
        for side, (dtype, width) in itertools.product(
            ("queries", "keys"), (("float32", 64), ("bfloat16", 64), ("bfloat16", 128))
        ):
            own = backward_shape(dtype, side, width, width)
            assert own is not None
            backward = AttentionBackward(dtype, side, own).fitted(1, processor)
            how = getattr(backward, "instruction", "fma")
            if how != "fma" or dtype == "float32":
                yield f"{dtype} attention of {width}, gradients of {side}, {how}", processor, backward


def assembled(kernel: Any, processor: str, disassembler: str | None) -> tuple[str, str]:
    """The text of a kernel, as PTX or disassembled, and what the assembler says of it."""
    assembler = ptxas()
    if assembler is None:
        sys.exit("ptx_report: there is no ptxas")
    text = str(tg.image(str(kernel.module("nvptx")), "nvptx", processor))
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(text)
        command = [assembler, "-v", f"-arch={processor}", "-o", str(cubin), str(source)]
        info = subprocess.run(command, capture_output=True, text=True, check=True).stderr
        if disassembler:
            text = subprocess.run(
                [disassembler, "-c", str(cubin)], capture_output=True, text=True, check=True
            ).stdout
    return text, info


def used(info: str) -> tuple[int, int]:
    """Registers of a thread, and bytes of spills."""
    return int(re.findall(r"Used (\d+) registers", info)[0]), sum(
        map(int, re.findall(r"(\d+) bytes spill", info))
    )


def convolution(processor: str, channels: int, size: int) -> dict[str, int]:
    """The instructions that the warps of a block execute for 128 filters of 3 × 3 over an image of size × 16 in bfloat16."""
    kernel = Product("bfloat16", False, False, False, taps=2).fitted(1, processor)
    terms, places = 9 * channels, 16 * size
    numbers = schedule_gpu_tile.numbers(
        kernel,
        **dict(batch=1, m=128, n=places, k=terms),
        **dict(c_batch=0, c_row=places, c_outer=0, c_step=(16, 1)),
        **dict(a_batch=0, a_row=terms, a_outer=0, a_column=1, a_length=terms),
        **dict(b_batch=0, b_image=0, b_channel=places, b_step=(16, 1)),
        **dict(size=(size, 16), places=(size, 16), taps=(3, 3), scale=(1, 1), tap=(1, 1), shift=(-1, -1)),
    )
    machine = Machine(str(tg.image(str(kernel.module("nvptx")), "nvptx", processor)))
    tensors = [np.zeros(n, "<u2") for n in (128 * places, 128 * terms, channels * places)]
    launch = kernel.blocks("nvptx", numbers)
    addresses = [machine.place(t) for t in tensors]
    machine.run(launch.blocks[0], launch.threads[0], launch.shared, *addresses, *numbers, 1.0, 0.0)
    return machine.counts


def executed(processor: str) -> str:
    """One line of the table of convolutions: the difference that 64 channels make, which are 9 stages."""
    stages, warps = 9, 8
    few, many = convolution(processor, 64, 16), convolution(processor, 128, 16)
    more = {name: (many[name] - few.get(name, 0)) / stages / warps for name in many}
    matrix = sum(count for name, count in more.items() if re.match(r"mma\.|wgmma\.mma", name))
    loads = sum(count for name, count in more.items() if name.startswith("ld.global"))
    rate, work = LIMITS[processor].rate, 128 * 256 * 64 // warps
    kernel = Product("bfloat16", False, False, False, taps=2).fitted(1, processor)
    cells = ["bfloat16 3 × 3", processor, *used(assembled(kernel, processor, None)[1])]
    cells += [f"{matrix:.0f}", f"{loads:.0f}", f"{sum(more.values()) - matrix - loads:.0f}"]
    return "| " + " | ".join(map(str, [*cells, f"{sum(more.values()) * rate / work:.2f}"])) + " |"


def row(family: str, processor: str, kernel: Any, disassembler: str | None) -> str:
    """One line of the table."""
    text, info = assembled(kernel, processor, disassembler)
    registers, spills = used(info)
    launch = kernel.blocks("nvptx", (1, 4096, 4096, 4096, 4096))
    shared = launch.shared + sum(map(int, re.findall(r"(\d+) bytes smem", info)))
    threads, limits = launch.threads[0], LIMITS[processor]
    blocks = min(
        REGISTERS // (-(-registers // 8) * 8 * threads),
        1024 * limits.shared // (shared + RESERVED),
        limits.threads // threads,
    )
    loop = inner_loop(text)
    # the instructions that a quarter of the multiprocessor issues, beside the cycles for which its tensor core is busy with them
    slots = f"{loop.all * limits.rate / loop.work:.2f}" if limits.rate and loop.work else "–"
    cells = [family, processor, registers, spills, shared, threads]
    cells += [
        f"{100 * blocks * threads // limits.threads} %",
        loop.matrix,
        loop.loads,
        loop.all - loop.matrix - loop.loads,
    ]
    return "| " + " | ".join(map(str, [*cells, f"{loop.share:.2f}", slots])) + " |"


HEAD = (
    "| kernel | processor | registers | spills | shared bytes | threads | occupancy "
    "| matrix | loads | other | share | slots |"
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="families and processors that are looked at")
    parser.add_argument("--disassembler", default=shutil.which("nvdisasm"))
    parser.add_argument(
        "--convolutions", action="store_true", help="instructions that are executed, by interpretation"
    )
    args = parser.parse_args()
    if args.convolutions:
        print("| convolution | processor | registers | spills | matrix | gathering loads | other | slots |")
        print("|" + 8 * " --- |")
        for processor in ("sm_80", "sm_86", "sm_90a"):
            print(executed(processor), flush=True)
        return
    print(HEAD)
    print("|" + " --- |" * HEAD.count(" | ") + " --- |")
    for family, processor, kernel in kernels():
        if re.search(args.only, f"{family} {processor}"):
            print(row(family, processor, kernel, args.disassembler), flush=True)


if __name__ == "__main__":
    main()
