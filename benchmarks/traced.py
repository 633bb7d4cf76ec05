"""Kept programs beside PyTorch: a trace that each library has written is loaded and run in a fresh process, one thread.

    python benchmarks/traced.py [--only REGEX] [--rounds 5]

*first result* is from the start of the interpreter's first statement to the first result: import, `jit.load`, a call.  *load* is
`jit.load` alone, *call* a call when warm (the least of many), *eager* the same call of the module itself, *memory* what is resident
after the first results.  Kernels are on the disk from an earlier process.  Figures are the least of `rounds` processes each, those of
both libraries taken in turn; a ratio is PyTorch's figure by flambeau's.  Needs PyTorch in the same environment.
"""

from __future__ import annotations

import argparse
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

MODELS = """
def small(nn):
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

def layers(nn):
    return nn.Sequential(*[m for _ in range(20) for m in (nn.Linear(32, 32), nn.LayerNorm(32), nn.GELU())])

def images(nn):
    return nn.Sequential(nn.Unflatten(1, (2, 4, 4)), nn.Conv2d(2, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32, 10))
"""
KEEP = """
import importlib, sys
torch = importlib.import_module(sys.argv[1])
model = globals()[sys.argv[2]](torch.nn).eval()
torch.jit.save(torch.jit.trace(model, torch.ones(4, 32)), sys.argv[3])
"""
RUN = """
import time
began = time.perf_counter()
import importlib, sys
torch = importlib.import_module(sys.argv[1])
torch.set_num_threads(1)
imported = time.perf_counter()
program = torch.jit.load(sys.argv[3])
loaded = time.perf_counter()
x = torch.ones(4, 32)
with torch.no_grad():
    program(x)
    first = time.perf_counter()
    for _ in range(3):
        program(x)
    resident = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS"))
    model = globals()[sys.argv[2]](torch.nn).eval()
    times = []
    for f in (program, model):
        for _ in range(20):
            f(x)
        best = float("inf")
        for _ in range(20):
            begin = time.perf_counter()
            for _ in range(20):
                f(x)
            best = min(best, (time.perf_counter() - begin) / 20)
        times.append(best)
print(first - began, loaded - imported, times[0], times[1], resident / 1024)
"""
FIGURES = (
    ("first result, ms", 1e3),
    ("load, ms", 1e3),
    ("call, µs", 1e6),
    ("eager, µs", 1e6),
    ("memory, MB", 1),
)


def process(code: str, *arguments: str) -> str:
    """What a program prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", MODELS + code, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    ratios: dict[str, list[float]] = {}
    print("| program | figure | flambeau | PyTorch | ratio |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in re.findall(r"def (\w+)", MODELS):
            if not re.search(arguments.only, name):
                continue
            best: dict[str, list[float]] = {}
            for module in ("flambeau", "torch"):
                process(KEEP, module, name, str(Path(folder) / f"{module}.pt"))
            for _ in range(arguments.rounds):
                for module in ("flambeau", "torch"):
                    figures = process(RUN, module, name, str(Path(folder) / f"{module}.pt")).split()
                    best[module] = list(map(min, best.get(module, [math.inf] * 5), map(float, figures)))
            for (figure, scale), ours, theirs in zip(FIGURES, best["flambeau"], best["torch"]):
                ratios.setdefault(figure.partition(",")[0], []).append(theirs / ours)
                print(
                    f"| {name} | {figure} | {ours * scale:.1f} | {theirs * scale:.1f} | {theirs / ours:.2f} |",
                    flush=True,
                )
    for figure, values in ratios.items():
        mean = math.exp(sum(map(math.log, values)) / len(values))
        print(f"\n{figure}: geometric mean of ratios {mean:.2f}, least {min(values):.2f}")


if __name__ == "__main__":
    sys.exit(main())
