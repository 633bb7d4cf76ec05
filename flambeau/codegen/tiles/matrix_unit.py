"""Sums of products of bfloat16 by the processor's matrix unit (AMX): blocks of 16 or 32 rows and columns in float32.

    sums[i, j] (+)= sum over taps t and steps s of  A(t, s)[i, :] · B(t, s)[:, j]

A step is 32 of depth.  A(t, s) is 16 rows of 64 bytes, `a_row` bytes apart, or twice that; B(t, s) is 16 rows of 64 bytes, `b_row`
bytes apart: pairs of neighbours in depth of 16 columns, as `core/lib/products/halves.pyx` lays them.  The unit takes denormal numbers
for 0 and adds in float32, in one order.  Who calls a block sets the registers up before and gives them back after: other libraries may
use them, too.
"""

from __future__ import annotations

import ctypes
import functools
import platform

from ...core.base.callbacks import set_callback
from .. import target

SIDE = 16  # rows of a register, and columns of float32
BLOCKS = 2  # registers of A, and of B: four more hold sums

_REQUEST, _DATA, _ARCH_PRCTL = (
    0x1023,
    18,
    158,
)  # ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA, the number of the call
_HEAD = """declare void @llvm.x86.tilezero(i8)
declare void @llvm.x86.tileloadd64(i8, ptr, i64)
declare void @llvm.x86.tilestored64(i8, ptr, i64)
declare void @llvm.x86.tdpbf16ps(i8, i8, i8)
"""


def configuring(symbol: str) -> str:
    """The module of a function that sets the registers up as its 64 bytes say, or gives them back where it gets NULL."""
    return f"""declare void @llvm.x86.ldtilecfg(ptr)
declare void @llvm.x86.tilerelease()
define void @{symbol}(ptr %setup) {{
  %none = icmp eq ptr %setup, null
  br i1 %none, label %release, label %load
load:
  call void @llvm.x86.ldtilecfg(ptr %setup)
  ret void
release:
  call void @llvm.x86.tilerelease()
  ret void
}}
"""


def text(symbol: str, rows: int, columns: int) -> str:
    """The module of a function for blocks of so many registers' rows and columns.

    A moves on by `a_step` bytes a step, through all taps; B begins at `b + offsets[t]` for tap t and moves on by `b_step`, its second
    register is `group` bytes further.  Rows of `sums` are `pitch` bytes apart.  With bit 0 of `mode` they hold what is added to.
    """
    tile = [(i, j) for i in range(rows) for j in range(columns)]
    register = {(i, j): 2 * i + j for i, j in tile}
    lines = [
        _HEAD,
        f"define void @{symbol}(ptr %a, i64 %a_row, i64 %a_step, ptr %b, i64 %b_row, i64 %b_step, i64 %group, ptr %offsets, "
        "i64 %taps, i64 %steps, ptr %sums, i64 %pitch, i64 %mode) {",
        "entry:",
        "  %half = shl i64 %a_row, 4",
        "  %below = shl i64 %pitch, 4",
        "  %adds = trunc i64 %mode to i1",
        *(f"  %r{i} = getelementptr i8, ptr %sums, i64 {'%below' if i else '0'}" for i in range(rows)),
        *(f"  %s{i}{j} = getelementptr i8, ptr %r{i}, i64 {j * 64}" for i, j in tile),
        "  br i1 %adds, label %old, label %new",
        "old:",
        *(
            f"  call void @llvm.x86.tileloadd64(i8 {register[i, j]}, ptr %s{i}{j}, i64 %pitch)"
            for i, j in tile
        ),
        "  br label %tap",
        "new:",
        *(f"  call void @llvm.x86.tilezero(i8 {register[i, j]})" for i, j in tile),
        "  br label %tap",
        "tap:",
        "  %t = phi i64 [ 0, %old ], [ 0, %new ], [ %t1, %end ]",
        "  %at = phi ptr [ %a, %old ], [ %a, %new ], [ %a1, %end ]",
        "  %place = getelementptr i64, ptr %offsets, i64 %t",
        "  %offset = load i64, ptr %place",
        "  %bt = getelementptr i8, ptr %b, i64 %offset",
        "  br label %step",
        "step:",
        "  %k = phi i64 [ 0, %tap ], [ %k1, %step ]",
        "  %x0 = phi ptr [ %at, %tap ], [ %a1, %step ]",
        "  %y0 = phi ptr [ %bt, %tap ], [ %b1, %step ]",
    ]
    for j in range(columns):
        if j:
            lines.append("  %y1 = getelementptr i8, ptr %y0, i64 %group")
        lines.append(f"  call void @llvm.x86.tileloadd64(i8 {6 + j}, ptr %y{j}, i64 %b_row)")
    for i in range(rows):
        if i:
            lines.append("  %x1 = getelementptr i8, ptr %x0, i64 %half")
        lines.append(f"  call void @llvm.x86.tileloadd64(i8 {4 + i}, ptr %x{i}, i64 %a_row)")
        lines += [
            f"  call void @llvm.x86.tdpbf16ps(i8 {register[i, j]}, i8 {4 + i}, i8 {6 + j})"
            for j in range(columns)
        ]
    lines += [
        "  %a1 = getelementptr i8, ptr %x0, i64 %a_step",
        "  %b1 = getelementptr i8, ptr %y0, i64 %b_step",
        "  %k1 = add nuw nsw i64 %k, 1",
        "  %more = icmp slt i64 %k1, %steps",
        "  br i1 %more, label %step, label %end",
        "end:",
        "  %t1 = add nuw nsw i64 %t, 1",
        "  %further = icmp slt i64 %t1, %taps",
        "  br i1 %further, label %tap, label %done",
        "done:",
        *(
            f"  call void @llvm.x86.tilestored64(i8 {register[i, j]}, ptr %s{i}{j}, i64 %pitch)"
            for i, j in tile
        ),
        "  ret void",
        "}",
    ]
    return "\n".join(lines) + "\n"


def rounding(symbol: str) -> str:
    """The module of a function that writes rows of 16 sums: c = alpha·sums (+ beta·c), rounded once.

    `sums` moves on by 128 bytes a row, c by `step`; of each row `columns` elements are written.
    """
    v, h, m = "<16 x float>", "<16 x bfloat>", "<16 x i1>"
    count = ", ".join(f"i64 {k}" for k in range(SIDE))

    def splat(name: str, kind: str, count: str = "16") -> list[str]:
        return [
            f"  %{name}0 = insertelement <{count} x {kind}> poison, {kind} %{name}, i64 0",
            f"  %{name}s = shufflevector <{count} x {kind}> %{name}0, <{count} x {kind}> poison, <{count} x i32> zeroinitializer",
        ]

    lines = [
        f"declare {v} @llvm.fma.v16f32({v}, {v}, {v})",
        f"declare {h} @llvm.masked.load.v16bf16.p0(ptr, i32, {m}, {h})",
        f"declare void @llvm.masked.store.v16bf16.p0({h}, ptr, i32, {m})",
        f"define void @{symbol}(ptr noalias %sums, ptr noalias %c, i64 %step, i64 %rows, i64 %columns, float %alpha, float %beta) {{",
        "entry:",
        *splat("alpha", "float"),
        *splat("beta", "float"),
        *splat("columns", "i64"),
        f"  %mask = icmp slt <16 x i64> <{count}>, %columnss",
        "  %reads = fcmp une float %beta, 0.0",
        "  br label %row",
        "row:",
        "  %i = phi i64 [ 0, %entry ], [ %i1, %store ]",
        "  %from = phi ptr [ %sums, %entry ], [ %from1, %store ]",
        "  %to = phi ptr [ %c, %entry ], [ %to1, %store ]",
        f"  %sum = load {v}, ptr %from, align 4",
        f"  %scaled = fmul {v} %sum, %alphas",
        "  br i1 %reads, label %read, label %store",
        "read:",
        f"  %there = call {h} @llvm.masked.load.v16bf16.p0(ptr %to, i32 2, {m} %mask, {h} zeroinitializer)",
        f"  %wide = fpext {h} %there to {v}",
        f"  %added = call {v} @llvm.fma.v16f32({v} %wide, {v} %betas, {v} %scaled)",
        "  br label %store",
        "store:",
        f"  %whole = phi {v} [ %scaled, %row ], [ %added, %read ]",
        f"  %rounded = fptrunc {v} %whole to {h}",
        f"  call void @llvm.masked.store.v16bf16.p0({h} %rounded, ptr %to, i32 2, {m} %mask)",
        "  %from1 = getelementptr i8, ptr %from, i64 128",
        "  %to1 = getelementptr i8, ptr %to, i64 %step",
        "  %i1 = add nuw nsw i64 %i, 1",
        "  %more = icmp slt i64 %i1, %rows",
        "  br i1 %more, label %row, label %done",
        "done:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines) + "\n"


@functools.cache
def possible() -> bool:
    """Whether the processor has the unit and the system lets this process use it, which is queried once."""
    if platform.system() != "Linux" or not {"+amx-tile", "+amx-bf16", "+avx512bf16"} <= set(
        target.processor()[1].split(",")
    ):
        return False
    return ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST, _DATA) == 0


@functools.cache
def address(rows: int, columns: int) -> int:
    """Where the function for so many registers' rows and columns stands; 0 rows: the one that rounds; 0 columns, too: that sets up."""
    from .objects import compiled

    if rows == 0:
        return compiled(rounding if columns else configuring)
    return compiled(functools.partial(text, rows=rows, columns=columns))


def turning() -> int:
    """Where the function stands that turns a matrix of pairs."""
    from . import register
    from .turning import Turn

    return register.address(Turn("float32"))


set_callback("matrix_unit.possible", possible)
set_callback("matrix_unit.turning", turning)
set_callback("matrix_unit.address", address)
