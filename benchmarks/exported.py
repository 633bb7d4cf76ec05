"""Kept exported programs beside PyTorch: from nothing to the first result of a `.pt2` in a fresh process, and the memory that it takes.

    python benchmarks/exported.py [--only REGEX] [--rounds 5]      # PyTorch in the same environment

The same archives, written here, are read by both: import, `export.load`, `module()`, and the first call.  *s* is the time of all that, *MB*
the resident memory of the process then, *call* the fifth call after it, in milliseconds.  Each is the least of `rounds` processes of each
library, taken in turn; the kernel cache of flambeau is warm.  Ratios are PyTorch's figures by ours.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROGRAM = """
import sys, time
began = time.perf_counter()
import importlib
t = importlib.import_module(sys.argv[1])
importlib.import_module(sys.argv[1] + ".export")
t.set_num_threads(1)
program = t.export.load(sys.argv[2])
net = program.module()
args, kwargs = program.example_inputs
with t.no_grad():
    net(*args, **kwargs)
    first = time.perf_counter() - began
    for _ in range(5):
        again = time.perf_counter()
        net(*args, **kwargs)
        call = time.perf_counter() - again
memory = next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1]
print(first, int(memory) / 1024, call * 1e3)
"""
WORDS = ("s", "MB", "call, ms")


def cases() -> dict[str, Callable[[], tuple[Any, tuple, Any]]]:
    """Networks, example inputs and the sizes that vary."""
    import flambeau as torch
    from flambeau import nn
    from flambeau.export import Dim

    class Lstm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.rnn, self.head = (
                nn.Embedding(1000, 128),
                nn.LSTM(128, 256, 2, batch_first=True),
                nn.Linear(256, 1000),
            )

        def forward(self, x: Any) -> Any:
            return self.head(self.rnn(self.table(x))[0])

    def mlp() -> tuple[Any, tuple, Any]:
        layers = [nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)]
        return nn.Sequential(*layers), (torch.randn(16, 256),), ({0: Dim("batch", max=1024)},)

    def cnn() -> tuple[Any, tuple, Any]:
        blocks: list[Any] = []
        for a, b in ((3, 32), (32, 64), (64, 128), (128, 256)):
            blocks += [nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2)]
        return (
            nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10)),
            (torch.randn(4, 3, 64, 64),),
            None,
        )

    def transformer() -> tuple[Any, tuple, Any]:
        layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
        return nn.TransformerEncoder(layer, 6, enable_nested_tensor=False), (torch.randn(2, 64, 256),), None

    def wide() -> tuple[Any, tuple, Any]:
        return nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(12))), (torch.randn(1, 2048),), None

    def lstm() -> tuple[Any, tuple, Any]:
        return Lstm(), (torch.randint(0, 1000, (2, 32)),), None

    return {
        "mlp, batch varies": mlp,
        "cnn": cnn,
        "transformer, 6 layers": transformer,
        "lstm": lstm,
        "200 MB of weights": wide,
    }


def write(folder: Path, only: str) -> dict[str, Path]:
    """The archives by name."""
    import flambeau as torch

    paths = {}
    for k, (name, make) in enumerate(cases().items()):
        if re.search(only, name):
            torch.manual_seed(0)
            net, args, shapes = make()
            paths[name] = folder / f"net{k}.pt2"
            with torch.no_grad():
                torch.export.save(torch.export.export(net.eval(), args, dynamic_shapes=shapes), paths[name])
    return paths


def measured(library: str, path: Path) -> list[float]:
    """The figures of one process."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, library, str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    return [float(x) for x in done.stdout.split()]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    print("| program | " + " | ".join(f"flambeau, {w} | PyTorch, {w} | ratio" for w in WORDS) + " |")
    print("|---" * (1 + 3 * len(WORDS)) + "|")
    ratios: list[list[float]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, path in write(Path(folder), arguments.only).items():
            measured("flambeau", path)  # compiles the kernels
            rounds = [
                [measured(library, path) for library in ("flambeau", "torch")]
                for _ in range(arguments.rounds)
            ]
            best = [[min(r[k][w] for r in rounds) for w in range(len(WORDS))] for k in range(2)]
            ratios.append([theirs / ours for ours, theirs in zip(*best)])
            cells = [f"{a:.3g} | {b:.3g} | {r:.2f}" for a, b, r in zip(*best, ratios[-1])]
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
            os.remove(path)
    for k, word in enumerate(WORDS):
        column = [r[k] for r in ratios]
        mean = math.exp(sum(map(math.log, column)) / len(column))
        print(f"{word}: geometric mean of ratios {mean:.2f}, least {min(column):.2f}")


if __name__ == "__main__":
    main()
