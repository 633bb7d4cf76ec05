"""What the code of all kernels for a CPU core has in common: their signature, operands, vectors and masks.

Every kernel has the signature `void k(char **data, const int64_t *geometry, const uint64_t *scalars)`:
outputs come before inputs in `data`; `geometry` holds sizes, then strides in elements; each scalar takes 8
bytes (double, int64).  Work is split over threads by the caller, who shifts pointers and sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

from . import access as memory
from . import expr as ex
from . import target
from .expr import Expr
from .irtext import Function, Module, Value, i64
from .kernels import BROADCAST, CONTIGUOUS, STRIDED, operands
from .lower import ITEMSIZE, MEMORY, Lowering

SIGNATURE = (
    "void @kernel(ptr noalias readonly %data, ptr noalias readonly %geometry, ptr noalias readonly %scalars)"
)
VECTOR_BYTES = 64
AHEAD = 4096  # bytes


def lanes_for(
    outputs: Sequence[Expr], accesses: Sequence[str], most_registers: int = 4, long: int = 2
) -> int:
    """Elements a step: several registers of the widest dtype hide latencies, but gathers and long bodies take
    fewer: `long` ones.
    """
    widest, calls = 4, 0
    for e in ex.walk(outputs):
        widest = max(widest, ITEMSIZE[e.dtype])
        calls += e.op.startswith("call:")
    registers = 1 if STRIDED in accesses else long if calls else most_registers
    lanes = VECTOR_BYTES // widest * registers
    return max(lanes, 8)


def kernel_of(module: Module) -> Function:
    """The kernel's function. On x86-64 its stack is aligned: LLVM aligns vectors that it has to spill only in a frame that is aligned from
    the beginning, and elsewhere they cross cache lines, as the caller's stack happens to lie (then `pow` took 1.7 times as long with AVX2).
    """
    aligned = f" alignstack({VECTOR_BYTES})" if module.triple.startswith("x86_64") else ""
    return Function(module, "define " + SIGNATURE + aligned)


def halved(triple: str) -> bool:
    """Whether this processor has half a vector in a register, and 16 registers: math functions fill those with half as many elements."""
    return triple.startswith("x86_64") and not target.has("avx512f")


class Frame:
    """What the code of one kernel has at hand: its operands' pointers and strides, sizes and scalars."""

    def __init__(self, f: Function, kernel):
        self.f, self.kernel = f, kernel
        self.operands = operands(kernel)
        self.outputs = len(kernel.outputs)
        pointer = Value("ptr", "%data")
        self.base = [f.load("ptr", f.gep("ptr", pointer, i64(k)), 8) for k in range(len(self.operands))]
        self.params = []
        for k, dtype in enumerate(kernel.params):
            place = f.gep("i64", Value("ptr", "%scalars"), i64(k))
            slot, given = ("double", "float64") if ex.is_float(dtype) else ("i64", "int64")
            self.params.append(Lowering(f, None).cast(f.load(slot, place, 8), given, dtype))

    def geometry(self, k: int) -> Value:
        return self.f.load("i64", self.f.gep("i64", Value("ptr", "%geometry"), i64(k)), 8)

    # --- loads and stores of one vector; `mask` is None where every lane is inside ---
    def load(self, low: Lowering, k: int, pointer: Value, stride: Value, mask: Value | None) -> Value:
        dtype, access = self.operands[k]
        scalar, size = MEMORY[dtype], ITEMSIZE[dtype]
        if not low.lanes:
            return low.from_memory(self.f.load(scalar, pointer, size), dtype)
        lanes = low.lanes
        if access == BROADCAST:
            value = low.splat(self.f.load(scalar, pointer, size))
        elif access == CONTIGUOUS:
            value = memory.load(self.f, scalar, lanes, pointer, size, mask)
        else:
            places = self.places(low, scalar, pointer, stride)
            value = memory.gather(self.f, scalar, lanes, places, size, mask)
        return low.from_memory(value, dtype)

    def prefetch(self, low: Lowering, k: int, pointer: Value) -> list[Value]:
        """Ask for what this loop will read of a contiguous operand a page later, which its own prefetcher does
        not reach.  (Measured on Zen 4: sums from memory take 1.4 in place of 1.9 ms for 64 MiB; a longer body
        only loses by it, and so do rows in a core's own cache: there sums take up to 1.8 times as long.)
        """
        dtype = self.operands[k].dtype
        for line in range(0, (low.lanes or 1) * ITEMSIZE[dtype], 64):
            ahead = self.f.gep("i8", pointer, i64(AHEAD + line))
            self.f.call(
                "void", "llvm.prefetch.p0", ahead, Value("i32", "0"), Value("i32", "2"), Value("i32", "1")
            )
        return []

    def store(
        self,
        low: Lowering,
        k: int,
        value: Value,
        pointer: Value,
        stride: Value,
        mask: Value | None,
        streaming: bool = False,
    ) -> None:
        dtype, access = self.operands[k]
        scalar, size = MEMORY[dtype], ITEMSIZE[dtype]
        value = low.to_memory(value, dtype)
        if streaming:
            self.f.store(value, pointer, VECTOR_BYTES, streaming)
        elif not low.lanes:
            self.f.store(value, pointer, size)
        elif access == CONTIGUOUS:
            memory.store(self.f, scalar, low.lanes, value, pointer, size, mask)
        else:
            places = self.places(low, scalar, pointer, stride)
            memory.scatter(self.f, scalar, low.lanes, value, places, size, mask)

    def places(self, low: Lowering, scalar: str, pointer: Value, stride: Value) -> Value:
        offsets = self.f.binary("mul", low.iota(64), low.splat(stride))
        return Value(f"<{low.lanes} x ptr>", self.f.gep(scalar, pointer, offsets).name)

    def mask(self, low: Lowering, i: Value, n: Value) -> Value:
        left = self.f.op("i32", f"trunc {self.f.binary('sub', n, i)} to i32")
        return self.f.op(low.vector("i1"), f"icmp ugt {low.splat(left)}, {low.iota(32).name}")

    def smaller(self, a: Value, b: Value) -> Value:
        return self.f.op("i64", f"select {self.f.op('i1', f'icmp slt {a}, {b.name}')}, {a}, {b}")

    def vectors(
        self, n: Value, lanes: int, carried: Sequence[Value], body, begin: Value | None = None
    ) -> list[Value]:
        """The loop over whole vectors from element `begin` (0) on, then the masked rest: `body(low, i, mask, carried)` returns
        the new carried.
        """
        low = Lowering(self.f, lanes)
        whole = self.f.binary("and", n, i64(-lanes))
        carried = self.f.loop(begin or i64(0), whole, i64(lanes), carried, lambda i, c: body(low, i, None, c))
        rest = self.f.op("i1", f"icmp slt {whole}, {n.name}")
        return self.f.when(rest, lambda: body(low, whole, self.mask(low, whole, n), carried), carried)
