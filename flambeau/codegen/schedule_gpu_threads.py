"""Threads of graphics processors: where one is, how those of a block meet, and the memory that they reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from . import target as tg
from .irtext import Function, Module, Value, i32, i64

SYMBOL = "kernel"
BLOCK = 256  # threads a block
WARP = 32  # neighbouring threads that read each other's registers, where a target has shuffles
POINTER = "ptr addrspace(1)"
SHARED = 3  # the address space of memory that a block shares

AXES = "xyz"
BITS_OF = {
    "i1": 1,
    "i8": 8,
    "i16": 16,
    "half": 16,
    "i32": 32,
    "float": 32,
    "i64": 64,
    "double": 64,
    "i128": 128,
}
MOST_BLOCKS = (1 << 31) - 1  # along a grid's first dimension, on every device


class Blocks(NamedTuple):
    """A launch: blocks along x, y and z, the threads of each, and the bytes that a block shares besides what the kernel declares."""

    blocks: tuple[int, int, int]
    threads: tuple[int, int, int] = (BLOCK, 1, 1)
    shared: int = 0


class OfBlocks:
    """A kernel that says itself what a block computes, in a grid of its own; see `core/loops/launch.pyx`, `run_blocks`.

    `name` and `params` (the dtypes of its scalars) are as for every kernel.
    """

    name: str
    params: tuple[str, ...] = ()

    def text(self) -> str:
        """What tells it apart from all other kernels."""
        raise NotImplementedError

    def fitted(self, vector: int, processor: str = "") -> OfBlocks:
        """The same kernel for a device whose threads have vectors of that many float32's, and for its processor where code is made for
        one (`target.PROCESSORS`).
        """
        return self

    def blocks(self, target: str, numbers: Sequence[int]) -> Blocks:
        """How it is launched for those 64-bit arguments."""
        raise NotImplementedError

    def module(self, target: str) -> Module:
        """Its code for a target."""
        raise NotImplementedError


class Threads:
    """Where a thread is, and how it meets the others of its block; numbers are i64, axes are 0, 1, 2 for x, y, z.

    `threads`: those of a block.  `shared`: whether a block shares memory whose size the launch says.
    """

    def __init__(
        self,
        f: Function,
        target: str,
        threads: tuple[int, int, int] = (BLOCK, 1, 1),
        shared: bool = False,
    ):
        self.f, self.target, self.threads, self.shared = f, target, threads, shared

    def signature(self, arguments: Sequence[tuple[str, str]]) -> str:
        parameters = [f"{type} %{name}" for name, type in arguments]
        if self.shared and self.target == "spirv":
            parameters.append(f"ptr addrspace({SHARED}) %shared")
        elif self.shared:
            self.f.module.globals.append(f"@shared = external addrspace({SHARED}) global [0 x i8], align 16")
        convention = tg.TARGETS[self.target].convention
        return f"define {convention}void @{SYMBOL}({', '.join(parameters)}) {self._block_size()}"

    def _block_size(self) -> str:
        """How many threads a block has, as an attribute of the function or as metadata on it."""
        x, y, z = self.threads
        if self.target == "nvptx":
            return f'"nvvm.reqntid"="{x},{y},{z}"'
        if self.target == "amdgcn":
            size = x * y * z
            return f'"amdgpu-flat-work-group-size"="{size},{size}" "uniform-work-group-size"="true"'
        self.f.module.globals.append(f"!0 = !{{i32 {x}, i32 {y}, i32 {z}}}")
        return "!reqd_work_group_size !0"

    def shared_memory(self) -> Value:
        """Where the memory begins whose size the launch says."""
        return Value(f"ptr addrspace({SHARED})", "%shared" if self.target == "spirv" else "@shared")

    def _register(self, name: str) -> Value:
        return self.f.op("i64", f"zext {self.f.call('i32', name)} to i64")

    def _opencl(self, name: str, axis: int) -> Value:
        return self.f.call("i64", name, i32(axis), convention="spir_func ")

    def thread(self, axis: int = 0) -> Value:
        """The thread's number in its block."""
        if self.target == "nvptx":
            return self._register(f"llvm.nvvm.read.ptx.sreg.tid.{AXES[axis]}")
        if self.target == "amdgcn":
            return self._register(f"llvm.amdgcn.workitem.id.{AXES[axis]}")
        return self._opencl("_Z12get_local_idj", axis)

    def block(self, axis: int = 0) -> Value:
        if self.target == "nvptx":
            return self._register(f"llvm.nvvm.read.ptx.sreg.ctaid.{AXES[axis]}")
        if self.target == "amdgcn":
            return self._register(f"llvm.amdgcn.workgroup.id.{AXES[axis]}")
        return self._opencl("_Z12get_group_idj", axis)

    def blocks(self, axis: int = 0) -> Value:
        """How many blocks there are."""
        if self.target == "nvptx":
            return self._register(f"llvm.nvvm.read.ptx.sreg.nctaid.{AXES[axis]}")
        if self.target == "spirv":
            return self._opencl("_Z14get_num_groupsj", axis)
        packet = self.f.call("ptr addrspace(4)", "llvm.amdgcn.dispatch.ptr")
        grid_size = self.f.gep("i8", packet, i64(12 + 4 * axis))  # in an HSA kernel dispatch packet
        threads = self.f.load("i32", grid_size, 4)
        return self.f.op("i64", f"zext {self.f.binary('udiv', threads, i32(self.threads[axis]))} to i64")

    def barrier(self) -> None:
        """Wait for all threads of the block; what they wrote to shared memory can then be read."""
        if self.target == "nvptx":
            self.f.call("void", "llvm.nvvm.barrier.cta.sync.aligned.all", i32(0), suffix=" convergent")
        elif self.target == "amdgcn":
            self.f.do('fence syncscope("workgroup") release')
            self.f.call("void", "llvm.amdgcn.s.barrier", suffix=" convergent")
            self.f.do('fence syncscope("workgroup") acquire')
        else:  # 1: local memory
            self.f.call("void", "_Z7barrierj", i32(1), suffix=" convergent", convention="spir_func ")

    def from_lane(self, value: Value, keep: int, put: int = 0, flip: int = 0) -> Value:
        """The value that the thread ((n & keep) | put) ^ flip of the same warp has, for its thread n, in blocks of one dimension.  All
        threads of the warp come here together, on a target with shuffles.
        """
        f, bits = self.f, BITS_OF[value.type]
        whole = value
        if value.type in ("half", "float", "double"):
            whole = f.op(f"i{bits}", f"bitcast {value} to i{bits}")
        if bits < 32:
            whole = f.op("i32", f"zext {whole} to i32")
        words = [whole]
        if bits > 32:
            shifts = [Value(whole.type, str(32 * k)) for k in range(bits // 32)]
            words = [f.op("i32", f"trunc {f.binary('lshr', whole, s)} to i32") for s in shifts]
        moved = [self._word_from_lane(w, keep, put, flip) for w in words]
        if bits < 32:
            result = f.op(f"i{bits}", f"trunc {moved[0]} to i{bits}")
        elif bits == 32:
            result = moved[0]
        else:
            wide = [f.op(whole.type, f"zext {w} to {whole.type}") for w in moved]
            result = wide[0]
            for w, s in zip(wide[1:], shifts[1:]):
                result = f.binary("or", result, f.binary("shl", w, s))
        return result if result.type == value.type else f.op(value.type, f"bitcast {result} to {value.type}")

    def _word_from_lane(self, word: Value, keep: int, put: int, flip: int) -> Value:
        f, last = self.f, WARP - 1
        if self.target == "amdgcn":  # the pattern of `ds_swizzle` in "bit mask mode"
            pattern = i32(flip << 10 | put << 5 | keep & last)
            return f.call("i32", "llvm.amdgcn.ds.swizzle", word, pattern)
        if self.target != "nvptx":
            raise ValueError(f"{self.target} has no shuffles")
        all_threads = i32(-1)
        if keep & last == last and not put:
            return f.call("i32", "llvm.nvvm.shfl.sync.bfly.i32", all_threads, word, i32(flip), i32(last))
        lane = f.binary("and", f.call("i32", "llvm.nvvm.read.ptx.sreg.tid.x"), i32(keep & last))
        lane = f.binary("xor", f.binary("or", lane, i32(put)), i32(flip))
        return f.call("i32", "llvm.nvvm.shfl.sync.idx.i32", all_threads, word, lane, i32(last))
