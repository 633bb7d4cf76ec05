"""Tensor cores by warp: `mma.sync.m16n8k16`, whose operands `ldmatrix` brings from shared memory into registers.

The 8 warps of a block stand in 2 rows of 4; each computes 64 × 64 elements as 4 × 8 tiles of 16 × 8, 16 terms at a time.  How the elements
of these tiles lie in the registers of a warp: PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type" and "ldmatrix".
"""

from __future__ import annotations

from .irtext import Value, i64
from .schedule_gpu_copies import CHUNK, LINE, Copies
from .schedule_gpu_stages import LEFT_BYTES, STAGE_BYTES, TERMS, Writer

SIDE = 64  # rows and columns of a warp
ACROSS = 4  # warps beside each other
HIGH, WIDE, DEEP = 16, 8, 16  # rows, columns and terms of an instruction


class Fragments(Copies):
    """Brings tiles from shared memory into the registers of a warp, and multiplies them.

    An `ldmatrix` reads four 8 × 8 matrices; each thread says where one of their 32 lines begins.  The matrices of a left operand are those
    of the upper and the lower 8 rows, then the same for the later 8 terms; of a right one, the earlier and the later terms, then the same
    for the next 8 columns.
    """

    lane: Value

    def places(self, left: bool, along_terms: bool, first: Value | int, begin: int) -> list[Value]:
        """Where the thread's lines begin, by 16 terms (`along_terms`) or by 16 rows of a segment; the others follow in equal steps.

        `left`: which operand it is; `first`: its row (or column) that the warp begins with; `begin`: where it lies, in bytes.
        """
        f = self.f
        odd, late = (f.binary("and", f.binary("lshr", self.lane, i64(n)), i64(1)) for n in (3, 4))
        further, later = (odd, late) if left else (late, odd)  # 1 for the later 8 rows, for the later 8 terms
        in_matrix = f.binary("and", self.lane, i64(7))
        line, chunk = (further, later) if along_terms else (later, further)
        line = f.add(f.mul(line, i64(8)), in_matrix)
        # a warp's 64 rows are 64 lines of their terms, or one chain of lines of a term
        line = f.add(line, i64(first) if isinstance(first, int) else first)
        placed = f.mul(f.binary("xor", chunk, in_matrix), i64(CHUNK))
        offset = f.add(f.mul(line, i64(LINE)), placed)
        return [
            self.bytes(self.bytes(self.memory, f.binary("xor", offset, i64(2 * CHUNK * n))), begin)
            for n in range(LINE // (2 * CHUNK))
        ]

    def four(self, place: Value, offset: int, along_terms: bool) -> list[Value]:
        """Four 8 × 8 matrices: 16 rows (or columns), 16 terms."""
        f = self.f
        name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4{'' if along_terms else '.trans'}.b16"
        found = f.call(
            "{ i32, i32, i32, i32 }", f"{name}.p3", self.bytes(place, offset), suffix=" convergent"
        )
        return [f.op("i32", f"extractvalue {found}, {n}") for n in range(4)]

    def instruction(
        self, dtype: str, left: list[Value], right: list[Value], sums: list[Value]
    ) -> list[Value]:
        f = self.f
        if dtype == "bfloat16":
            name, operands = "llvm.nvvm.mma.m16n8k16.row.col.bf16", [*left, *right]
        else:
            name = "llvm.nvvm.mma.m16n8k16.row.col.f32.f32"
            operands = [f.op("<2 x half>", f"bitcast {v} to <2 x half>") for v in (*left, *right)]
        four = f.call("{ float, float, float, float }", name, *operands, *sums, suffix=" convergent")
        return [f.op("float", f"extractvalue {four}, {n}") for n in range(4)]


class ByWarps(Fragments, Writer):
    sums = [
        (HIGH * i + 8 * below, WIDE * j + right)
        for i in range(SIDE // HIGH)
        for j in range(SIDE // WIDE)
        for below in range(2)
        for right in range(2)
    ]

    def prepare(self) -> None:
        f = self.f
        warp = f.binary("lshr", self.thread, i64(5))
        self.row = f.mul(f.binary("lshr", warp, i64(2)), i64(SIDE))
        self.column = f.mul(f.binary("and", warp, i64(ACROSS - 1)), i64(SIDE))
        self.left = self.places(True, not self.kernel.a_turned, self.row, 0)
        self.right = self.places(False, self.kernel.b_turned, self.column, LEFT_BYTES)

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
                    two = right[j // 2][half : half + 2]
                    sums[at : at + 4] = self.instruction(self.kernel.dtype, left[i], two, sums[at : at + 4])
        return sums

    def load(self, places: list[Value], along_terms: bool, stage: int, rows: int, step: int) -> list[Value]:
        """16 rows (or columns) from 16 · rows on, 16 terms from 16 · step on."""
        place, further = (places[step], rows) if along_terms else (places[rows], step)
        return self.four(place, stage * STAGE_BYTES + further * 16 * LINE, along_terms)
