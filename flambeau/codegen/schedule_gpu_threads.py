"""Threads of graphics processors: where one is, how those of a block meet, and the memory that they reach."""

from __future__ import annotations

from collections.abc import Sequence

from . import target as tg
from .irtext import Function, Value, i32, i64

SYMBOL = "kernel"
BLOCK = 256  # threads a block
POINTER = "ptr addrspace(1)"
SHARED = 3  # the address space of memory that a block shares

# How many threads a block has, as an attribute of the function or as metadata on it.
_BLOCK_SIZE = {
    "nvptx": '"nvvm.reqntid"="{0}"',
    "amdgcn": '"amdgpu-flat-work-group-size"="{0},{0}" "uniform-work-group-size"="true"',
    "spirv": "!reqd_work_group_size !0",
}


class Threads:
    """Where a thread is, and how it meets the others of its block; numbers are i64."""

    def __init__(self, f: Function, target: str, count: int = BLOCK):
        self.f, self.target, self.count = f, target, count  # `count` threads a block

    def signature(self, arguments: Sequence[tuple[str, str]]) -> str:
        spelled = ", ".join(f"{type} %{name}" for name, type in arguments)
        if self.target == "spirv":
            self.f.module.globals.append(f"!0 = !{{i32 {self.count}, i32 1, i32 1}}")
        convention = tg.TARGETS[self.target].convention
        return f"define {convention}void @{SYMBOL}({spelled}) {_BLOCK_SIZE[self.target].format(self.count)}"

    def _register(self, name: str) -> Value:
        return self.f.op("i64", f"zext {self.f.call('i32', name)} to i64")

    def _opencl(self, name: str) -> Value:
        return self.f.call("i64", name, i32(0), convention="spir_func ")

    def thread(self) -> Value:
        """The thread's number in its block."""
        if self.target == "nvptx":
            return self._register("llvm.nvvm.read.ptx.sreg.tid.x")
        if self.target == "amdgcn":
            return self._register("llvm.amdgcn.workitem.id.x")
        return self._opencl("_Z12get_local_idj")

    def block(self) -> Value:
        if self.target == "nvptx":
            return self._register("llvm.nvvm.read.ptx.sreg.ctaid.x")
        if self.target == "amdgcn":
            return self._register("llvm.amdgcn.workgroup.id.x")
        return self._opencl("_Z12get_group_idj")

    def blocks(self) -> Value:
        """How many blocks there are."""
        if self.target == "nvptx":
            return self._register("llvm.nvvm.read.ptx.sreg.nctaid.x")
        if self.target == "spirv":
            return self._opencl("_Z14get_num_groupsj")
        packet = self.f.call("ptr addrspace(4)", "llvm.amdgcn.dispatch.ptr")
        grid_size_x = self.f.gep("i8", packet, i64(12))  # in an HSA kernel dispatch packet
        threads = self.f.load("i32", grid_size_x, 4)
        return self.f.op("i64", f"zext {self.f.binary('udiv', threads, i32(self.count))} to i64")

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
