"""Mapped functions beside PyTorch's.

    python benchmarks/vmap.py                 # every case as a Markdown table
    python benchmarks/vmap.py --cases mlp --repeats 7

Needs PyTorch.  Times are microseconds, the least of several; each library runs alone, on one thread, in processes that take turns.
`ratio` is PyTorch's time divided by ours.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any


def cases(t: Any) -> dict[str, Callable]:
    """The programs, written once for both libraries."""
    t.manual_seed(0)
    nn, f, F = t.nn, t.func, t.nn.functional

    def called(function: Callable, *args: Any) -> Callable:
        return lambda: function(*args)

    def of_samples(net: Any, x: Any) -> Callable:
        """Gradients of the parameters for each sample."""
        parameters = {name: p.detach() for name, p in net.named_parameters()}
        y = t.arange(len(x)) % 10

        def loss(p: Any, x: Any, y: Any) -> Any:
            return F.cross_entropy(f.functional_call(net, p, (x[None],)), y[None])

        return called(f.vmap(f.grad(loss), in_dims=(None, 0, 0)), parameters, x, y)

    def mask(b: Any, h: Any, q: Any, k: Any) -> Any:
        return (k <= q) & (b >= 0)

    for dims in ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None)):
        mask = f.vmap(mask, in_dims=dims)
    weight, point, places = t.randn(50, 50), t.randn(50), t.arange(64)
    mlp = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 10))
    wide = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10))
    cnn = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2304, 10)
    )  # fmt: skip
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    return {
        "sin, 64 slices of 100": called(f.vmap(t.sin), t.randn(64, 100)),
        "sin, 1000 slices of 1000": called(f.vmap(t.sin), t.randn(1000, 1000)),
        "(2x + 1).softmax().sum()": called(f.vmap(lambda a: (a * 2 + 1).softmax(0).sum()), t.randn(64, 100)),
        "a mask by four mapped functions": called(mask, t.arange(2), t.arange(4), places, places),
        "gradients of samples, mlp 32-64-10, 64": of_samples(mlp, t.randn(64, 32)),
        "gradients of samples, mlp 256-512-10, 64": of_samples(wide, t.randn(64, 256)),
        "gradients of samples, cnn, 16": of_samples(cnn, t.randn(16, 1, 28, 28)),
        "gradients of samples, transformer layer, 16": of_samples(
            nn.Sequential(layer, nn.Flatten(), nn.Linear(320, 10)), t.randn(16, 10, 32)
        ),
        "jacrev, 50 to 50": called(f.jacrev(lambda a: (weight @ a).tanh()), point),
        "hessian, 50": called(f.hessian(lambda a: (weight @ a).tanh().square().sum()), point),
    }


def measured(library: str, pattern: str) -> None:
    """Print the times of one library as JSON."""
    t = importlib.import_module(library)
    t.set_num_threads(1)
    shortest = {}
    for name, run in cases(t).items():
        if re.search(pattern, name):
            run(), run()
            least = float("inf")
            for _ in range(9):
                start, count = time.perf_counter(), 0
                while not count or time.perf_counter() - start < 0.02:
                    run()
                    count += 1
                least = min(least, (time.perf_counter() - start) / count)
            shortest[name] = least
    print(json.dumps(shortest))


def main() -> None:
    """Run both libraries in turn and print the table."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--cases", default="", help="only cases that match this regular expression")
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--library", help="(internal) a child")
    options = p.parse_args()
    if options.library:
        return measured(options.library, options.cases)
    alone = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")} | {"OMP_NUM_THREADS": "1"}
    least: dict[str, dict[str, float]] = {"flambeau": {}, "torch": {}}
    for _ in range(options.repeats):
        for library, times in least.items():
            child = [sys.executable, "-W", "ignore", __file__, "--cases", options.cases, "--library", library]
            told = subprocess.run(child, capture_output=True, text=True, check=True, env=alone).stdout
            for name, seconds in json.loads(told.splitlines()[-1]).items():
                times[name] = min(seconds, times.get(name, float("inf")))
    print("| case | flambeau, µs | PyTorch, µs | ratio |\n|---|---|---|---|")
    for name, ours in least["flambeau"].items():
        theirs = least["torch"][name]
        print(f"| {name} | {ours * 1e6:.0f} | {theirs * 1e6:.0f} | {theirs / ours:.2f} |")


if __name__ == "__main__":
    main()
