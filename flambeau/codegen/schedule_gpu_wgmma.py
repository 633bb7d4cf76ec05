"""Tensor cores by warpgroup: `wgmma.mma_async.m64n256k16`, whose operands stay in shared memory, for sm_90a.

Each of the two warpgroups of a block computes 64 rows.  The instruction runs beside the threads: they issue those of a stage, start the
copies of a later stage, and then wait.  Where its operands lie is a 64-bit descriptor: PTX ISA, "Matrix descriptor format"; how sums lie in
registers: "Register fragments for wgmma.mma_async.m64nNk16".
"""

from __future__ import annotations

from typing import Any

from .irtext import Value, i32, i64
from .schedule_gpu_copies import LINE, PATTERN, Copies
from .schedule_gpu_stages import COLUMNS, LEFT_BYTES, STAGE_BYTES, TERMS, Writer

HIGH, DEEP = 64, 16  # rows and terms of an instruction
GROUP_BYTES = HIGH * LINE  # 64 lines of 128 bytes: of 64 rows their terms, or of 64 terms their rows
UNIT = 16  # bytes that addresses and steps in a descriptor are counted in
SWIZZLE_128 = 1
REGISTERS = {"i32": "r", "i64": "l"}  # constraints of assembly


def descriptor(leading: int) -> int:
    """A descriptor but for the address.  Where terms lie side by side, 8 rows and their 8 lines take PATTERN bytes, and the step to the
    next ones is the second that a descriptor has; else so do 8 terms, and the first step, `leading` bytes, is that to the next 64 rows.
    """
    return leading // UNIT << 16 | PATTERN // UNIT << 32 | SWIZZLE_128 << 62


DESCRIPTOR = descriptor(GROUP_BYTES)


class Warpgroups(Copies):
    """Writes what the instruction takes."""

    kernel: Any  # with a `dtype`
    thread: Value

    def group_number(self) -> Value:
        """Of the thread's warpgroup; the same in all threads of a warp, which the assembler cannot know otherwise: descriptors are in its
        uniform registers.
        """
        f = self.f
        number = f.op("i32", f"trunc {f.binary('lshr', self.thread, i64(7))} to i32")
        shuffle = "llvm.nvvm.shfl.sync.idx.i32"
        number = f.call("i32", shuffle, i32(-1), number, i32(0), i32(31), suffix=" convergent")
        return f.op("i64", f"zext {number} to i64")

    def described(self, begin: Value, leading: int) -> Value:
        """The descriptor of what lies in shared memory from there on."""
        f = self.f
        return f.binary("or", f.binary("lshr", begin, i64(UNIT.bit_length() - 1)), i64(descriptor(leading)))

    def visible(self) -> None:
        """What the thread's copies wrote is to be seen by the tensor cores, too."""
        self.f.do('call void asm sideeffect "fence.proxy.async.shared::cta;", "~{memory}"()')

    def instruction_of(self, columns: int) -> str:
        """Of 64 rows, so many columns and 16 terms."""
        kind = "f16" if self.kernel.dtype == "float16" else "bf16"
        return f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{kind}.{kind}"

    def registers(self, count: int) -> str:
        """The first operands of assembly, as a list."""
        return "{" + ", ".join(f"${n}" for n in range(count)) + "}"

    def in_place(self, text: str, sums: list[Value], *more: Value) -> list[Value]:
        """Assembly that changes the sums where they are."""
        f, count = self.f, len(sums)
        kind = "{ " + ", ".join(["float"] * count) + " }"
        constraints = [
            *["=f"] * count,
            *map(str, range(count)),
            *(REGISTERS[v.type] for v in more),
            "~{memory}",
        ]
        given = ", ".join(map(str, [*sums, *more]))
        both = f.op(kind, f'call {kind} asm sideeffect "{text}", "{",".join(constraints)}"({given})')
        return [f.op("float", f"extractvalue {both}, {n}") for n in range(count)]


class ByWarpgroups(Warpgroups, Writer):
    behind = 1  # so that the tensor core goes from one stage to the next without a pause
    sums = [
        (8 * below, 8 * j + right) for j in range(COLUMNS // 8) for below in range(2) for right in range(2)
    ]

    def prepare(self) -> None:
        f = self.f
        self.group = self.group_number()
        begin = f.op("i64", f"ptrtoint {self.memory} to i64")
        self.left = self.described(f.add(begin, self.times(self.group, GROUP_BYTES)), GROUP_BYTES)
        self.right = self.described(f.add(begin, i64(LEFT_BYTES)), GROUP_BYTES)

    def corner(self) -> tuple[Value, Value]:
        f = self.f
        warp = f.binary("and", f.binary("lshr", self.thread, i64(5)), i64(3))
        row = f.add(
            f.add(self.times(self.group, HIGH), self.times(warp, 16)), f.binary("lshr", self.lane, i64(2))
        )
        return row, self.times(f.binary("and", self.lane, i64(3)), 2)

    def arrived(self) -> None:
        self.visible()

    def multiply(self, stage: int, sums: list[Value]) -> list[Value]:
        """The instructions of a stage are issued; the sums are not there yet, see `settled`."""
        count = len(sums)
        turned = (self.kernel.a_turned, not self.kernel.b_turned)
        flags = ", ".join(str(int(t)) for t in turned)
        lines = [".reg .pred p;", ".reg .b64 a, b;", "setp.ne.b32 p, 1, 0;", "wgmma.fence.sync.aligned;"]
        for step in range(TERMS // DEEP):
            for operand, name_of, across in zip((2 * count, 2 * count + 1), "ab", turned):
                further = stage * STAGE_BYTES + step * DEEP * (LINE if across else 2)
                # no address of a stage reaches the bits above those of addresses
                lines.append(f"add.s64 {name_of}, ${operand}, {further // UNIT};")
            lines.append(f"{self.instruction_of(COLUMNS)} {self.registers(count)}, a, b, p, 1, 1, {flags};")
        lines.append("wgmma.commit_group.sync.aligned;")
        return self.in_place("{ " + " ".join(lines) + " }", sums, self.left, self.right)

    def settled(self, sums: list[Value], behind: int = 0) -> list[Value]:
        return self.in_place(f"wgmma.wait_group.sync.aligned {behind};", sums)
