"""A network learns on an NVIDIA device: step by step, by a compiled step, and by a graph that is replayed; all as on the host.

The task is small and has one answer: to tell to which of ten random points a noisy point belongs.  A fault is a line that begins with
FAULT.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import nn

STEPS, ROWS, WIDTH, KINDS = 60, 128, 32, 10


def data() -> tuple[Any, Any]:
    """Points (ROWS, WIDTH) and their kinds (ROWS)."""
    generator = flambeau.Generator().manual_seed(1)
    centres = flambeau.randn(KINDS, WIDTH, generator=generator)
    kinds = flambeau.arange(ROWS) % KINDS
    return centres[kinds] + 0.1 * flambeau.randn(ROWS, WIDTH, generator=generator), kinds


def network(device: str) -> nn.Module:
    flambeau.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, KINDS)).to(device)


def losses(device: str, how: str) -> list[float]:
    """The loss of each step."""
    x, kinds = (t.to(device) for t in data())
    net = network(device)
    optimizer = flambeau.optim.SGD(net.parameters(), lr=0.1)

    def step() -> Any:
        optimizer.zero_grad(set_to_none=False)
        loss = nn.functional.cross_entropy(net(x), kinds)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run: Callable[[], Any] = step
    if how == "compiled":
        forward = flambeau.compile(net)

        def compiled() -> Any:
            optimizer.zero_grad(set_to_none=False)
            loss = nn.functional.cross_entropy(forward(x), kinds)
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = compiled
    if how == "graph":
        result = [step().item() for _ in range(3)]  # gradients and kernels are made before the capture
        graph = flambeau.cuda.CUDAGraph()
        with flambeau.cuda.graph(graph):
            loss = step()
        for _ in range(STEPS - 3):
            graph.replay()
            result.append(loss.item())
        return result
    return [run().item() for _ in range(STEPS)]


def main() -> int:
    right = losses("cpu", "eager")
    failed = 0
    for how in ("eager", "compiled", "graph"):
        got = losses("cuda", how)
        apart = max(abs(a - b) for a, b in zip(got, right, strict=True))
        print(f"{how:10} loss {got[0]:.4f} to {got[-1]:.4f}; at most {apart:.1e} from the host's")
        if not apart < 1e-2 or not got[-1] < 0.5 * got[0]:
            failed += 1
            print(f"FAULT {how}: {apart:.1e} from the host's, loss {got[0]:.4f} to {got[-1]:.4f}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
