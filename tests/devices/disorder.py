"""Kernels whose blocks run in another order, each with NaN in all of its shared memory at first."""

from __future__ import annotations

import os
import re

from flambeau.codegen.irtext import Value, float_literal, i64
from flambeau.codegen.schedule_gpu_threads import Threads

number_of = Threads.block


def disturbed(monkeypatch, kernel, count: int, factor: int, offset: int):
    """The kernel with its `count` blocks so, where block i takes the place of factor · i + offset; and whose memory was spoiled."""
    poisoned: set[str] = set()

    def block(threads):
        f = threads.f
        for line in f.module.globals:
            known = re.match(r"(@\w+) = internal addrspace\(3\) global \[(\d+) x float\]", line)
            if known:
                poisoned.add(known[1])
                memory = Value("ptr addrspace(3)", known[1])

                def spoil(i, _, memory=memory):
                    nan = Value("float", float_literal(float("nan"), "float"))
                    f.store(nan, f.gep("float", memory, i), 4)
                    return []

                f.loop(threads.thread(), i64(int(known[2])), i64(threads.threads[0]), [], spoil)
        threads.barrier()
        moved = f.add(f.mul(number_of(threads), i64(factor)), i64(offset))
        return f.binary("urem", moved, i64(count))

    class Disturbed(type(kernel)):
        __hash__ = object.__hash__

        def __eq__(self, other):
            return self is other

        def text(self):  # never the image of an earlier run, made by another form of this test
            return f"{super().text()} disturbed {os.getpid()} {factor} {offset}"

    monkeypatch.setattr(Threads, "block", block)
    return Disturbed(*kernel), poisoned
