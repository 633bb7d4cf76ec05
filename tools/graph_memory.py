"""Peak memory of one training step of a transformer: eager, and compiled.

python tools/graph_memory.py [--layers 2 --width 128 --heads 4 --batch 8 --length 64 --dropout 0.0] [--checkpoint]

The first lines are of a whole step with AdamW as one function, the others of forward and backward alone, where the compiled function
stands on the tape.  Bytes are the allocator's own counters, beside what is held before; then what the plan itself says of them: its peak is
what is measured and the gradients of the step before, which are let go of before it runs.  `own` are memories that come and go, `args`
what backward is args and frees.  `bound` is what is alive at the plan's worst step: only computing again takes less.  With `--checkpoint`
each layer is a checkpointed region, eager and compiled, and only the whole step is measured.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable
from typing import Any

from flambeau.graph.record import Recording
from flambeau.graph.region import Region
from flambeau.graph.runner import Runner

import flambeau
from flambeau.graph.partition import region_of
from flambeau.utils.checkpoint import checkpoint

MEBI = 1 << 20


def peak_of(function: Callable[[], Any]) -> int:
    """The most bytes that a call holds beside what was held before."""
    for _ in range(3):
        function()  # what is made once
    gc.collect()
    flambeau.cpu.reset_peak_memory_stats()
    before = flambeau.cpu.memory_stats()["allocated_bytes"]
    function()
    return flambeau.cpu.memory_stats()["peak_allocated_bytes"] - before


def print_step(net: Any, x: Any, y: Any) -> Runner:
    """A whole step; its plan."""
    optimizer = flambeau.optim.AdamW(net.parameters())

    def step() -> Any:
        optimizer.zero_grad()
        loss = (net(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    compiled = flambeau.compile(step, fullgraph=True)
    eager, planned = peak_of(step), peak_of(compiled)
    gone = sum(p.grad.nbytes for p in net.parameters())
    print(
        f"whole step: eager {eager / MEBI:.2f} MiB, compiled {planned / MEBI:.2f} MiB: {planned / eager:.2f}; "
        f"gradients of the step before {gone / MEBI:.2f}"
    )
    runner = next(entry.launch for entry in compiled.entries if entry.launch is not None)
    print(f"  {described(runner)}")
    return runner


class Checkpointed(flambeau.nn.Sequential):
    """Layers of which each is a checkpointed region."""

    def forward(self, input: Any) -> Any:
        for layer in self:
            input = checkpoint(layer, input, use_reentrant=False)
        return input


def print_region(loss_of: Callable[..., Any], inputs: list[Any], weights: list[Any]) -> None:
    """Forward and backward alone."""
    with Recording() as recording:
        loss = loss_of(*inputs)
    region = region_of(recording, inputs, [loss])
    if not isinstance(region, Region):
        raise SystemExit(f"no region: {region}")
    del loss, recording

    def eager() -> Any:
        return flambeau.autograd.grad(loss_of(*inputs), weights)

    def compiled() -> Any:
        return flambeau.autograd.grad(region(*inputs)[0], weights)

    worst = max((a - b).abs().max().item() for a, b in zip(eager(), compiled()))
    before, after = peak_of(eager), peak_of(compiled)
    print(
        f"forward and backward: eager {before / MEBI:.2f} MiB, region {after / MEBI:.2f} MiB: {after / before:.2f}; "
        f"worst difference {worst:.1e}"
    )
    for name, runner in (("forward", region.forward), ("backward", region.backward)):
        print(f"  {name}: {described(runner)}")


def described(runner: Runner) -> str:
    """What a plan says of its memory."""
    use = runner.memory
    return (
        f"{runner!r}: arena {use.arena / MEBI:.2f}, own {use.own / MEBI:.2f}, results {use.results / MEBI:.2f}, of calls "
        f"{use.calls / MEBI:.2f}, args {use.args / MEBI:.2f}; peak {use.peak / MEBI:.2f}, bound {use.bound / MEBI:.2f} MiB"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, value in [("layers", 2), ("width", 128), ("heads", 4), ("batch", 8), ("length", 64)]:
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--checkpoint", action="store_true")
    args = parser.parse_args()
    flambeau.manual_seed(0)
    net = flambeau.nn.Sequential(
        *[
            flambeau.nn.TransformerEncoderLayer(
                args.width,
                args.heads,
                4 * args.width,
                dropout=args.dropout,
                batch_first=True,
                norm_first=True,
            )
            for _ in range(args.layers)
        ]
    )
    x, y = (flambeau.randn(args.batch, args.length, args.width) for _ in range(2))
    weights = list(net.parameters())
    if args.checkpoint:
        print_step(Checkpointed(*net), x, y)
        return

    runner = print_step(net, x, y)
    print_region(lambda x, y, *weights: (net(x) - y).square().mean(), [x, y, *weights], weights)
    called = [repr(s) for s in runner.steps if "Call" in repr(s)]
    print("calls:", ", ".join(sorted({f"{c} x {called.count(c)}" for c in called})))


if __name__ == "__main__":
    main()
