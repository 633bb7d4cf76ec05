"""Tensor cores by warp: `mma.sync.m16n8k16`, whose operands `ldmatrix` brings from shared memory into registers.

The 8 warps of a block stand in 2 rows of 4; each computes 64 × 64 elements as 4 × 8 tiles of 16 × 8, 16 terms at a time.  How the elements
of these tiles lie in the registers of a warp: PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type" and "ldmatrix".
"""

from __future__ import annotations

from .irtext import Value, i64
from .schedule_gpu_stages import CHUNK, LEFT_BYTES, LINE, STAGE_BYTES, TERMS, Writer

SIDE = 64  # rows and columns of a warp
ACROSS = 4  # warps beside each other
HIGH, WIDE, DEEP = 16, 8, 16  # rows, columns and terms of an instruction


class ByWarps(Writer):
    sums = [
        (HIGH * i + 8 * below, WIDE * j + right)
        for i in range(SIDE // HIGH)
        for j in range(SIDE // WIDE)
        for below in range(2)
        for right in range(2)
    ]

    def prepare(self) -> None:
        f, lane = self.f, self.lane
        warp = f.binary("lshr", self.thread, i64(5))
        self.row = f.mul(f.binary("lshr", warp, i64(2)), i64(SIDE))
        self.column = f.mul(f.binary("and", warp, i64(ACROSS - 1)), i64(SIDE))
        # An ldmatrix reads four 8 × 8 matrices; each thread says where one of their 32 lines begins.  The matrices of the left operand are
        # those of the upper and the lower 8 rows, then the same for the later 8 terms; of the right one, the earlier and the later terms,
        # then the same for the next 8 columns.
        odd, late = (f.binary("and", f.binary("lshr", lane, i64(n)), i64(1)) for n in (3, 4))
        self.left = self.places(not self.kernel.a_turned, self.row, odd, late, 0)
        self.right = self.places(self.kernel.b_turned, self.column, late, odd, LEFT_BYTES)

    def places(
        self, along_terms: bool, first: Value, further: Value, later: Value, begin: int
    ) -> list[Value]:
        """Where the thread's lines begin in the first stage, by 16 terms (`along_terms`) or by 16 rows; the others follow in equal steps.

        `further`: 1 for the matrices of the later 8 rows; `later`: 1 for those of the later 8 terms.
        """
        f = self.f
        in_matrix = f.binary("and", self.lane, i64(7))
        line, chunk = (further, later) if along_terms else (later, further)
        line = f.add(f.mul(line, i64(8)), in_matrix)
        # a warp's 64 rows are 64 lines of their terms, or one chain of TERMS lines
        line = f.add(line, first)
        placed = f.mul(f.binary("xor", chunk, in_matrix), i64(CHUNK))
        offset = f.add(f.mul(line, i64(LINE)), placed)
        return [
            self.bytes(self.bytes(self.memory, f.binary("xor", offset, i64(2 * CHUNK * n))), begin)
            for n in range(LINE // (2 * CHUNK))
        ]

    def corner(self) -> tuple[Value, Value]:
        f = self.f
        row = f.add(self.row, f.binary("lshr", self.lane, i64(2)))
        return row, f.add(self.column, f.mul(f.binary("and", self.lane, i64(3)), i64(2)))

    def multiply(self, stage: int, sums: list[Value]) -> list[Value]:
        sums = list(sums)
        across = SIDE // WIDE
        for step in range(TERMS // DEEP):
            left = [
                self.load(self.left, not self.kernel.a_turned, stage, i, step) for i in range(SIDE // HIGH)
            ]
            right = [
                self.load(self.right, self.kernel.b_turned, stage, j, step) for j in range(SIDE // (2 * WIDE))
            ]
            for i in range(SIDE // HIGH):
                for j in range(across):
                    at = 4 * (i * across + j)
                    half = 2 * (j % 2)
                    sums[at : at + 4] = self.instruction(
                        left[i], right[j // 2][half : half + 2], sums[at : at + 4]
                    )
        return sums

    def load(self, places: list[Value], along_terms: bool, stage: int, rows: int, step: int) -> list[Value]:
        """Four 8 × 8 matrices: 16 rows (or columns) from 16 · rows on, 16 terms from 16 · step on."""
        f = self.f
        place, further = (places[step], rows) if along_terms else (places[rows], step)
        where = self.bytes(place, stage * STAGE_BYTES + further * 16 * LINE)
        name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4{'' if along_terms else '.trans'}.b16"
        four = f.call("{ i32, i32, i32, i32 }", f"{name}.p3", where, suffix=" convergent")
        return [f.op("i32", f"extractvalue {four}, {n}") for n in range(4)]

    def instruction(self, left: list[Value], right: list[Value], sums: list[Value]) -> list[Value]:
        f = self.f
        if self.kernel.dtype == "bfloat16":
            name, operands = "llvm.nvvm.mma.m16n8k16.row.col.bf16", [*left, *right]
        else:
            name = "llvm.nvvm.mma.m16n8k16.row.col.f32.f32"
            operands = [f.op("<2 x half>", f"bitcast {v} to <2 x half>") for v in (*left, *right)]
        four = f.call("{ float, float, float, float }", name, *operands, *sums, suffix=" convergent")
        return [f.op("float", f"extractvalue {four}, {n}") for n in range(4)]
