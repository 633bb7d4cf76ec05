"""Peak memory of one training step of a small transformer: eager, and as a plan.

python tools/graph_memory.py [--layers 2 --width 128 --heads 4 --batch 8 --length 64]

A step is forward, loss, gradients of all parameters and their new values.  Bytes are the allocator's own counters, beside what is held
before; the second line says what the plan itself says of them.  `bound` is what is alive at the plan's worst step: only computing again
takes less.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.graph.lower import plan
from flambeau.graph.program import Program
from flambeau.graph.trace import record


def peak_of(function: Callable[[], Any]) -> int:
    """The most bytes that a call holds beside what was held before."""
    function()  # what is made once
    flambeau.cpu.reset_peak_memory_stats()
    before = flambeau.cpu.memory_stats()["allocated_bytes"]
    function()
    return flambeau.cpu.memory_stats()["peak_allocated_bytes"] - before


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, value in [("layers", 2), ("width", 128), ("heads", 4), ("batch", 8), ("length", 64)]:
        parser.add_argument(f"--{name}", type=int, default=value)
    given = parser.parse_args()
    flambeau.manual_seed(0)
    net = flambeau.nn.Sequential(
        *[
            flambeau.nn.TransformerEncoderLayer(
                given.width, given.heads, 4 * given.width, dropout=0.0, batch_first=True, norm_first=True
            )
            for _ in range(given.layers)
        ]
    )
    x, y = (flambeau.randn(given.batch, given.length, given.width) for _ in range(2))
    weights = list(net.parameters())

    def step(x: Any, y: Any, *weights: Any) -> Any:
        loss = (net(x) - y).square().mean()
        return tuple((w - 0.01 * g).detach() for w, g in zip(weights, flambeau.autograd.grad(loss, weights)))

    program = Program(record(step, x, y, *weights)[0])
    runner = plan(program)
    eager, planned = peak_of(lambda: step(x, y, *weights)), peak_of(lambda: runner(x, y, *weights))
    worst = max((a - b).abs().max().item() for a, b in zip(runner(x, y, *weights), step(x, y, *weights)))
    mebi = 1 << 20
    print(
        f"eager {eager / mebi:.2f} MiB, plan {planned / mebi:.2f} MiB: {planned / eager:.2f}; worst difference {worst:.1e}"
    )
    use = runner.memory
    print(
        f"{runner!r}: arena {use.arena / mebi:.2f}, results {use.results / mebi:.2f}, of calls {use.calls / mebi:.2f}, "
        f"workspace {runner.workspace / mebi:.2f}; peak {use.peak / mebi:.2f}, bound {use.bound / mebi:.2f} MiB"
    )
    called = [repr(s) for s in runner.steps if "Call" in repr(s)]
    print("calls:", ", ".join(sorted({f"{c} x {called.count(c)}" for c in called})))


if __name__ == "__main__":
    main()
