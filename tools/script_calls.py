"""What `jit.script` costs, and what calls of scripts do beside Python's and those of a loaded program.

python tools/script_calls.py
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import jit, nn


def small(x, w):
    return flambeau.relu(x @ w) + 1


def counting(n: int) -> int:
    s = 0
    for k in range(n):
        s = s + k * 2
    return s


def best(call: Callable[[], Any], number: int, rounds: int = 9) -> float:
    """The least time of a call in microseconds."""
    samples = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(number):
            call()
        samples.append((time.perf_counter() - start) / number)
    return min(samples) * 1e6


def main() -> None:
    """Print the figures."""
    start = time.perf_counter()
    jit.script(small)
    first = time.perf_counter()
    jit.script(counting)
    second = time.perf_counter()
    print(
        f"the first function: {(first - start) * 1e3:.0f} ms, with what is imported for it; the next: {(second - first) * 1e3:.1f} ms"
    )
    x = flambeau.ones(4, 4)
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)).eval()
    layer, y = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval(), flambeau.ones(2, 5, 16)
    cases: list[tuple[str, Any, tuple[Any, ...], int]] = [
        ("relu(x @ w) + 1", small, (x, x), 2000),
        ("a loop of 100 additions", counting, (100,), 500),
        ("two linear layers", net, (x,), 2000),
        ("an encoder layer", layer, (y,), 200),
    ]
    with flambeau.no_grad():
        for name, program, args, number in cases:
            scripted = jit.script(program)
            loaded = jit.load(io.BytesIO(scripted.save_to_buffer()))
            times = [best(lambda p=p: p(*args), number) for p in (program, scripted, loaded)]  # noqa: B023
            print(f"{name}: Python {times[0]:.2f} us, script {times[1]:.2f} us, loaded {times[2]:.2f} us")


if __name__ == "__main__":
    main()
