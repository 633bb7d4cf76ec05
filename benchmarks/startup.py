"""From nothing to the 100th training step of a small network: import time and whole time, for any
PyTorch-like module.

    python benchmarks/startup.py flambeau torch

Each run is a process of its own; flambeau runs with an empty kernel cache and with a warm one.  Seconds, the
least of three runs each.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

PROGRAM = """
import sys, time
began = time.perf_counter()
import importlib
t = importlib.import_module(sys.argv[1])
imported = time.perf_counter()
t.manual_seed(0)
net = t.nn.Sequential(t.nn.Linear(16, 32), t.nn.ReLU(), t.nn.Linear(32, 10))
optimiser, loss = t.optim.Adam(net.parameters(), lr=1e-3), t.nn.CrossEntropyLoss()
x, y = t.randn(8, 16), t.randint(0, 10, (8,))
for _ in range(100):
    optimiser.zero_grad()
    loss(net(x), y).backward()
    optimiser.step()
print(imported - began, time.perf_counter() - began)
"""


def run(module: str, folder: str) -> tuple[float, float]:
    """Seconds of the import and of everything."""
    env = dict(os.environ, FLAMBEAU_CACHE_DIR=folder)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, module], env=env, capture_output=True, text=True, check=True
    )
    first, last = done.stdout.split()
    return float(first), float(last)


def main() -> None:
    print(f"{'module':12s} {'kernel cache':12s} {'import':>8s} {'100 steps':>10s}")
    for module in sys.argv[1:] or ["flambeau"]:
        kinds = ("empty", "warm") if module == "flambeau" else ("-",)
        with tempfile.TemporaryDirectory() as cache:
            run(module, cache)
            for kind in kinds:
                rows = []
                for _ in range(3):
                    with tempfile.TemporaryDirectory() as fresh:
                        rows.append(run(module, fresh if kind == "empty" else cache))
                print(
                    f"{module:12s} {kind:12s} {min(r[0] for r in rows):8.3f} {min(r[1] for r in rows):10.3f}"
                )


if __name__ == "__main__":
    main()
