"""Calls that wait beside calls that do not, and beside compiled functions: chains of several sizes, steps of small networks.

python benchmarks/lazy.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import flambeau
from flambeau import nn


def least(run: Callable[[], object], runs: int = 30) -> float:
    """Microseconds of the fastest run."""
    for _ in range(4):
        run()
    best = float("inf")
    for _ in range(runs):
        began = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - began)
    return best * 1e6


def chain(x: flambeau.Tensor) -> flambeau.Tensor:
    """Thirty pointwise calls and a sum."""
    for _ in range(10):
        x = (x * 1.01).tanh() - 0.1
    return x.sum()


def step_of(batch: int, width: int) -> tuple[Callable[..., flambeau.Tensor], flambeau.Tensor]:
    """A training step, and its input."""
    flambeau.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(width, 2 * width), nn.LayerNorm(2 * width), nn.GELU(), nn.Linear(2 * width, 8)
    )
    optimizer = flambeau.optim.AdamW(net.parameters())
    targets = flambeau.arange(batch) % 8

    def step(x: flambeau.Tensor) -> flambeau.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), targets)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, flambeau.randn(batch, width)


def main() -> None:
    """Print one line a case."""
    flambeau.set_num_threads(1)
    cases = [(f"chain of {n}", chain, flambeau.randn(n)) for n in (64, 1024, 8192, 1 << 16, 1 << 20)]
    cases += [(f"step, {b} × {w}", *step_of(b, w)) for b, w in ((8, 16), (32, 64), (128, 256))]
    for name, function, x in cases:
        eager = least(lambda: function(x).item())  # noqa: B023
        with flambeau.lazy():
            lazy = least(lambda: function(x).item())  # noqa: B023
        compiled = flambeau.compile(function)
        fast = least(lambda: compiled(x).item())  # noqa: B023
        print(f"{name}: eager {eager:.1f} lazy {lazy:.1f} compiled {fast:.1f}", flush=True)


if __name__ == "__main__":
    main()
