"""A CUDA device without one: the fake driver built, and kernels' images made for it.

The driver is NVIDIA's, or AMD's, which has the same functions under other names: `build(folder, "hip")`.

Images are shared libraries of the host's machine code, from the very IR that PTX or an AMDGCN object is made of: reads of the thread's
number and barriers become calls of the fake driver, memory that a block shares becomes memory of the stream's thread
(the fake runs one block after another).
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from flambeau.codegen import target as tg

SOURCE = Path(__file__).with_name("fake_libcuda.c")
COUNTS = (
    "live_blocks live_bytes launches allocations events streams pinned limit delay trims gemms graphs peers opened lts lt_delay"
).split()
SIZES = {"i64": 8, "double": 8, "ptr": 8, "i32": 4, "float": 4}
CALLS = {  # of NVIDIA's processors and of AMD's
    "llvm.nvvm.read.ptx.sreg.tid.": "fake_thread_",
    "llvm.nvvm.read.ptx.sreg.ctaid.": "fake_block_",
    "llvm.nvvm.read.ptx.sreg.nctaid.": "fake_blocks_",
    "llvm.nvvm.barrier.cta.sync.aligned.all": "fake_barrier",
    "llvm.nvvm.shfl.sync.bfly.i32": "fake_shuffle_bfly",
    "llvm.nvvm.shfl.sync.idx.i32": "fake_shuffle_idx",
    "llvm.amdgcn.ds.swizzle": "fake_swizzle",
    "llvm.amdgcn.workitem.id.": "fake_thread_",
    "llvm.amdgcn.workgroup.id.": "fake_block_",
    "llvm.amdgcn.dispatch.ptr": "fake_packet",
    "llvm.amdgcn.s.barrier": "fake_barrier",
}
MEETINGS = ("barrier.cta", "amdgcn.s.barrier", "shfl.sync", "ds.swizzle")  # where threads wait for each other


def compiler() -> str | None:
    """The system's C compiler."""
    return shutil.which("cc")


def build(folder: Path, kind: str = "cuda") -> Path:
    """The fake driver as a library in `folder`: "cuda" or "hip"."""
    made = folder / f"fake_lib{kind}.so"
    command = [
        compiler() or "cc",
        "-O2",
        "-shared",
        "-fPIC",
        "-pthread",
        *(["-DHIP"] if kind == "hip" else []),
        "-o",
        str(made),
        str(SOURCE),
        "-ldl",
    ]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return made


def on_host(text: str) -> str:
    """IR for NVIDIA's or AMD's processors as IR for this one, with what the fake driver looks for."""
    signature = re.search(r"^define (?:ptx|amdgpu)_kernel void @kernel\((.*)\) .*\{$", text, re.M)
    assert signature is not None
    types = [part.split()[0] for part in signature[1].split(", ")]
    text = text.replace(signature[0], f"define internal void @kernel({signature[1]}) {{")
    text = re.sub(r"^target .*$", "", text, flags=re.M)
    barriers = int(any(name in text for name in MEETINGS))
    text = re.sub(  # a block is one thread here
        r'^ *fence syncscope\("workgroup"\) .*$', "", text, flags=re.M
    )
    for name, ours in CALLS.items():
        text = text.replace("@" + name, "@" + ours)
    text = re.sub(
        r"@shared = external addrspace\(3\) global \[0 x i8\]",
        "@shared = thread_local global [65536 x i8] zeroinitializer",
        text,
    )
    text = re.sub(r"addrspace\(3\) global", "thread_local global", text)
    text = re.sub(r" ?addrspace\([134]\)", "", text)
    loads = [
        line
        for k, type in enumerate(types)
        for line in (
            f"  %p{k} = getelementptr ptr, ptr %params, i64 {k}",
            f"  %q{k} = load ptr, ptr %p{k}",
            f"  %a{k} = load {type}, ptr %q{k}",
        )
    ]
    arguments = ", ".join(f"{type} %a{k}" for k, type in enumerate(types))
    sizes = ", ".join(f"i32 {SIZES[type]}" for type in types)
    return "\n".join(
        [
            text,
            f"@kernel_sizes = constant [{len(types) + 1} x i32] [{sizes}, i32 0]",
            f"@kernel_barriers = constant i32 {barriers}",
            "define void @kernel_call(ptr %params) {",
            *loads,
            f"  call void @kernel({arguments})",
            "  ret void",
            "}",
        ]
    )


def image(text: str, name: str, processor: str | None = None, real=tg.image) -> str | bytes:
    """In place of `compiler.target.image`: PTX or an object is emitted all the same, to see that it can be."""
    made = real(text, name, processor)
    if name not in ("nvptx", "amdgcn"):
        return made
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "kernel.o").write_bytes(tg.host_object(on_host(text), shared=True))
        command = [compiler() or "cc", "-shared", "-nostdlib", "-o", "kernel.so", "kernel.o"]
        subprocess.run(command, cwd=folder, check=True)
        return (place / "kernel.so").read_bytes()


def install() -> Fake:
    """Let this process's kernels be made for the fake driver, which FLAMBEAU_LIBCUDA or FLAMBEAU_LIBHIP names."""
    tg.image = image  # type: ignore[assignment]
    return Fake(library())


def library() -> str:
    """The fake driver of this process."""
    return os.environ.get("FLAMBEAU_LIBCUDA") or os.environ["FLAMBEAU_LIBHIP"]


def is_hip() -> bool:
    """Whether it is AMD's."""
    return "FLAMBEAU_LIBCUDA" not in os.environ


def pytest_configure() -> None:
    """As a plugin (`pytest -p fake_cuda`): for tests that know nothing of it."""
    install()


class Fake:
    """What the fake driver has counted, and its settings."""

    def __init__(self, path: str):
        # Global: kernels find their thread's number in it.
        self.library = ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
        self.library.fake_count.restype = ctypes.c_long

    def __getattr__(self, name: str) -> int:
        return self.library.fake_count(COUNTS.index(name))

    def set(self, name: str, value: int) -> None:
        """`limit`: the device's bytes, 0 for 8 GiB; `delay`: microseconds before each piece of work, -1 to hold all;
        `lt_delay`: microseconds that each product of cuBLASLt takes, or, where it is negative, each of cuBLAS."""
        self.library.fake_set(COUNTS.index(name), ctypes.c_long(value))


@functools.cache
def environment(folder: Path, kind: str = "cuda") -> dict[str, str]:
    """For a process that is to find the fake driver and no other."""
    library = str(build(folder, kind))
    names = ("LIBCUDA", "LIBCUBLAS") if kind == "cuda" else ("LIBHIP", "LIBROCBLAS")
    return os.environ | {f"FLAMBEAU_{name}": library for name in names}


def run_program() -> None:
    """`python -m fake_cuda program.py …`: a program for a machine with a device, on the fake driver."""
    install()
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    run_program()
