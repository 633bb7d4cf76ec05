"""Tiles of products in bfloat16, by the processor's instruction for sums of pairs (AVX512_BF16).

One function computes `ROWS` rows of 16 to 64 columns: sums of products in float32 over all of the depth, one rounding at
the end.  Operands are read as pairs of neighbours in depth: those of the left one wherever two strides say, those of the right one
in groups of 16 columns, pair after pair.  `core/lib/products/halves.pyx` lays them so and walks over the tiles.

The instruction takes denormal numbers for 0, as PyTorch's products in bfloat16 do.
"""

from __future__ import annotations

import functools

from ...core.base.callbacks import callbacks_in, set_callback
from ...core.base.lazily import waiting as _waiting
from .. import target

ROWS = 6  # with four vectors of columns, 24 of the 32 registers hold sums
VECTORS = 4

_DOT = "llvm.x86.avx512bf16.dpbf16ps.512"
_HEAD = f"""declare <16 x float> @{_DOT}(<16 x float>, <32 x bfloat>, <32 x bfloat>)
"""


def _function(symbol: str, vectors: int) -> str:
    """A tile of so many groups of 16 columns.

    The left operand's pair p of row i stands at `a + i·row + p·pair` (bytes), group v of the right one's at `b + v·group + 64·p`.
    `sums` holds the sums so far (mode bit 0), or takes them (unless bit 1); with bit 1 the result, alpha·sums + beta·c, goes to c, whose
    rows are `step` bytes apart.
    """
    tile = [(i, v) for i in range(ROWS) for v in range(vectors)]
    lines = [
        f"define void @{symbol}(ptr noalias %a, i64 %row, i64 %pair, ptr noalias %b, i64 %group, i64 %pairs, ptr noalias %c, "
        "i64 %step, ptr noalias %sums, i64 %mode, float %alpha, float %beta) {",
        "entry:",
        "  %adding = trunc i64 %mode to i1",
        "  br i1 %adding, label %old, label %new",
        "old:",
    ]
    for i, v in tile:
        lines += [
            f"  %so{i}_{v} = getelementptr float, ptr %sums, i64 {(i * VECTORS + v) * 16}",
            f"  %o{i}_{v} = load <16 x float>, ptr %so{i}_{v}, align 4",
        ]
    lines += ["  br label %begin", "new:", "  br label %begin", "begin:"]
    for i, v in tile:
        lines.append(f"  %s{i}_{v} = phi <16 x float> [ %o{i}_{v}, %old ], [ zeroinitializer, %new ]")
    lines += ["  br label %head", "head:", "  %p = phi i64 [ 0, %begin ], [ %next, %head ]"]
    lines += ["  %at = phi ptr [ %a, %begin ], [ %further, %head ]"]
    for i, v in tile:
        lines.append(f"  %t{i}_{v} = phi <16 x float> [ %s{i}_{v}, %begin ], [ %u{i}_{v}, %head ]")
    lines.append("  %here = shl i64 %p, 6")
    lines.append("  %b0 = getelementptr i8, ptr %b, i64 %here")
    for v in range(vectors):
        if v:
            lines.append(f"  %b{v} = getelementptr i8, ptr %b{v - 1}, i64 %group")
        lines.append(f"  %y{v} = load <32 x bfloat>, ptr %b{v}, align 2")
    for i in range(ROWS):
        before = "%at" if not i else f"%a{i - 1}"
        lines += [
            f"  %a{i} = getelementptr i8, ptr {before}, i64 {'0' if not i else '%row'}",
            f"  %w{i} = load i32, ptr %a{i}, align 2",
            f"  %e{i} = insertelement <16 x i32> poison, i32 %w{i}, i64 0",
            f"  %f{i} = shufflevector <16 x i32> %e{i}, <16 x i32> poison, <16 x i32> zeroinitializer",
            f"  %x{i} = bitcast <16 x i32> %f{i} to <32 x bfloat>",
        ]
        for v in range(vectors):
            lines.append(
                f"  %u{i}_{v} = call <16 x float> @{_DOT}(<16 x float> %t{i}_{v}, <32 x bfloat> %x{i}, <32 x bfloat> %y{v})"
            )
    lines += [
        "  %further = getelementptr i8, ptr %at, i64 %pair",
        "  %next = add nuw nsw i64 %p, 1",
        "  %more = icmp slt i64 %next, %pairs",
        "  br i1 %more, label %head, label %done",
        "done:",
        "  %last = and i64 %mode, 2",
        "  %ending = icmp ne i64 %last, 0",
        "  br i1 %ending, label %end, label %keep",
        "keep:",
    ]
    for i, v in tile:
        lines += [
            f"  %sk{i}_{v} = getelementptr float, ptr %sums, i64 {(i * VECTORS + v) * 16}",
            f"  store <16 x float> %u{i}_{v}, ptr %sk{i}_{v}, align 4",
        ]
    lines += ["  ret void", "end:"]
    for name in ("alpha", "beta"):
        lines += [
            f"  %{name}0 = insertelement <16 x float> poison, float %{name}, i64 0",
            f"  %{name}s = shufflevector <16 x float> %{name}0, <16 x float> poison, <16 x i32> zeroinitializer",
        ]
    lines += [
        "  %reads = fcmp une float %beta, 0.0",
        "  br i1 %reads, label %adds, label %plain",
        "adds:",
        *_results(tile, True),
        "  ret void",
        "plain:",
        *_results(tile, False),
        "  ret void",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _results(tile: list[tuple[int, int]], reads: bool) -> list[str]:
    """alpha·sums, and beta times what stands there where it is read, rounded once."""
    lines, kind = [], "r" if reads else "n"
    for i, v in tile:
        own = f"{kind}{i}_{v}"
        before = "%c" if not i else f"%{kind}c{i - 1}"
        if not v:
            lines.append(f"  %{kind}c{i} = getelementptr i8, ptr {before}, i64 {'0' if not i else '%step'}")
        lines += [
            f"  %p{own} = getelementptr i8, ptr %{kind}c{i}, i64 {32 * v}",
            f"  %m{own} = fmul <16 x float> %u{i}_{v}, %alphas",
        ]
        if reads:
            lines += [
                f"  %l{own} = load <16 x bfloat>, ptr %p{own}, align 2",
                f"  %g{own} = fpext <16 x bfloat> %l{own} to <16 x float>",
                f"  %h{own} = call <16 x float> @llvm.fma.v16f32(<16 x float> %g{own}, <16 x float> %betas, <16 x float> %m{own})",
            ]
        lines += [
            f"  %q{own} = fptrunc <16 x float> {'%h' if reads else '%m'}{own} to <16 x bfloat>",
            f"  store <16 x bfloat> %q{own}, ptr %p{own}, align 2",
        ]
    return lines


def text(symbol: str, vectors: int) -> str:
    """The module of a function for so many groups."""
    fused = "declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)\n"
    return _HEAD + fused + _function(symbol, vectors)


def possible() -> bool:
    """Whether the processor has the instruction; LLVM is queried only where the system says so."""
    try:
        with open("/proc/cpuinfo") as file:
            flags = next((line for line in file if line.startswith("flags")), "").split()
    except OSError:
        return False
    return {"avx512f", "avx512_bf16"} <= set(flags) and "+avx512bf16" in target.processor()[1].split(",")


@functools.cache
def address(vectors: int) -> int:
    """Where the function for 1 to `VECTORS` groups stands in this process."""
    from .objects import compiled

    return compiled(functools.partial(text, vectors=vectors))


set_callback("tiles.possible", possible)
set_callback("tiles.address", address)

# Each is imported for the first operation that runs in it.
_waiting(
    __name__,
    *(
        "attention",
        "bags",
        "depthwise",
        "dots",
        "epilogues",
        "extremes",
        "kernels",
        "matrix_unit",
        "objects",
        "pair_blocks",
        "panels",
        "quantised",
        "quantised_attention",
        "quantised_integers",
        "recurrent",
        "register",
    ),
    *("samples", "taps", "transforms", "turning", "winograd", "winograd_weights"),
)
for _module, _names in {
    "attention": ("attention.functions", "attention.half_functions"),
    "extremes": ("extremes.address",),
    "matrix_unit": ("matrix_unit.address", "matrix_unit.possible", "matrix_unit.turning"),
    "pair_blocks": ("pair_blocks.address",),
    "panels": tuple(
        f"panels.{_name}"
        for _name in ("continued", "crossed", "dot", "layer", "linear", "pairs", "shape", "tile")
    ),
    "register": ("tiles.register",),
    "samples": ("samples.address",),
    "taps": ("taps.address", "taps.permutes"),
    "transforms": ("transforms.address", "transforms.width"),
}.items():
    callbacks_in(f"{__name__}.{_module}", *_names)
