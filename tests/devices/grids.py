"""A kernel whose launch has three dimensions and memory whose size the launch says: matrices are turned, a tile a block."""

from __future__ import annotations

from flambeau.codegen import target as tg
from flambeau.codegen.irtext import Function, Module, Value, i64
from flambeau.codegen.schedule_gpu_threads import POINTER, Blocks, OfBlocks, Threads

SIDE = 8  # rows and columns of a tile
THREADS = (SIDE, SIDE // 2, 2)
PARAMETERS = [("out", POINTER), ("matrices", POINTER), ("rows", "i64"), ("columns", "i64"), ("batch", "i64")]


class Turned(OfBlocks):
    """out[b, j, i] = matrices[b, i, j] in int32, of sizes that are multiples of SIDE; `spare` bytes are shared and not used."""

    name = "turned"

    def __init__(self, spare: int = 0, threads: tuple[int, int, int] = THREADS):
        self.spare, self.threads = spare, threads

    def text(self) -> str:
        return f"turned {SIDE} {self.threads}"

    def blocks(self, target, numbers) -> Blocks:
        rows, columns, batch = numbers
        return Blocks((columns // SIDE, rows // SIDE, batch), self.threads, 4 * SIDE * SIDE + self.spare)

    def module(self, target: str) -> Module:
        module = Module(tg.TARGETS[target].triple, str(tg.machine(target).target_data))
        f = Function(module, "")
        threads = Threads(f, target, self.threads, shared=True)
        f.signature = threads.signature(PARAMETERS)
        given = {name: Value(type, f"%{name}") for name, type in PARAMETERS}
        x = threads.thread(0)
        y = f.add(threads.thread(1), f.mul(threads.thread(2), i64(SIDE // 2)))
        across, down, number = (threads.block(axis) for axis in range(3))
        tile = threads.shared_memory()
        # the whole batch, for which the grid's size is read as well
        first = f.mul(f.mul(number, f.mul(threads.blocks(0), threads.blocks(1))), i64(SIDE * SIDE))
        here = f.add(
            f.mul(f.add(f.mul(down, i64(SIDE)), y), given["columns"]), f.add(f.mul(across, i64(SIDE)), x)
        )
        value = f.load("i32", f.gep("i32", given["matrices"], f.add(first, here)), 4)
        f.store(value, f.gep("i32", tile, f.add(f.mul(y, i64(SIDE)), x)), 4)
        threads.barrier()
        turned = f.load("i32", f.gep("i32", tile, f.add(f.mul(x, i64(SIDE)), y)), 4)
        there = f.add(
            f.mul(f.add(f.mul(across, i64(SIDE)), y), given["rows"]), f.add(f.mul(down, i64(SIDE)), x)
        )
        f.store(turned, f.gep("i32", given["out"], f.add(first, there)), 4)
        f.do("ret void")
        return module
