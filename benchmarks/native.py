"""A call of a library from C beside the same call compiled and eager from Python, here and in PyTorch; one thread.

    python benchmarks/native.py [--only REGEX] [--seconds 0.3] [--rounds 5]

Microseconds a call on the same input, the least of `rounds` stretches of about `seconds` each, those of all taken in turn.  *in C* is the
loop of a program that a C compiler makes.  A ratio is the figure by that in C.  Needs a C compiler, and PyTorch in the same environment
(without it its columns are empty).
"""

from __future__ import annotations

import argparse
import importlib
import math
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "net.h"
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }
int main(int argc, char **argv)
{
    long count = atol(argv[1]);
    void *workspace = NULL, *outputs[NET_OUTPUTS];
    const void *inputs[NET_INPUTS];
    double begin;
    (void)argc;
    if (posix_memalign(&workspace, 64, NET_WORKSPACE + 64) || net_load("net.safetensors")) return 1;
    for (int k = 0; k < NET_INPUTS; k++) {
        void *x;
        if (posix_memalign(&x, 64, net_inputs[k].bytes)) return 1;
        memset(x, 0, net_inputs[k].bytes);
        inputs[k] = x;
    }
    for (int k = 0; k < NET_OUTPUTS; k++)
        if (posix_memalign(&outputs[k], 64, net_outputs[k].bytes)) return 1;
    for (long k = 0; k < count / 10 + 1; k++) net_run(inputs, outputs, workspace);
    begin = now();
    for (long k = 0; k < count; k++) net_run(inputs, outputs, workspace);
    printf("%.9f\n", (now() - begin) / count);
    return 0;
}
"""


def mlp(t: Any) -> tuple[Any, Any]:
    nn = t.nn
    layers = (nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    return nn.Sequential(*layers), t.zeros(4, 32)


def wide(t: Any) -> tuple[Any, Any]:
    return t.nn.Sequential(t.nn.Linear(512, 512), t.nn.ReLU(), t.nn.Linear(512, 512)), t.zeros(64, 512)


def images(t: Any) -> tuple[Any, Any]:
    nn = t.nn
    layers = (
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )
    return nn.Sequential(*layers), t.zeros(1, 3, 32, 32)


def block(t: Any) -> tuple[Any, Any]:
    return t.nn.TransformerEncoderLayer(64, 4, 256, batch_first=True, dropout=0.0), t.zeros(1, 16, 64)


def rows(t: Any) -> tuple[Any, Any]:
    return t.nn.Sequential(t.nn.LayerNorm(256), t.nn.Softmax(-1)), t.zeros(64, 256)


CASES = (mlp, wide, images, block, rows)


def of_python(call: Callable[[], Any], seconds: float) -> Callable[[], float]:
    """What times a stretch of calls."""
    call()
    begin = time.perf_counter()
    for _ in range(10):
        call()
    count = max(10, int(seconds * 10 / (time.perf_counter() - begin)))

    def stretch() -> float:
        begin = time.perf_counter()
        for _ in range(count):
            call()
        return (time.perf_counter() - begin) / count

    return stretch


def of_library(made: Any, folder: str, seconds: float) -> Callable[[], float]:
    """What times a stretch of calls in a program in C."""
    (Path(folder) / "main.c").write_text(PROGRAM)
    command = ["cc", "-O2", "main.c", str(made.library), f"-Wl,-rpath,{folder}", "-o", "main"]
    subprocess.run(command, cwd=folder, check=True)

    def run(count: int) -> float:
        done = subprocess.run(["./main", str(count)], cwd=folder, check=True, capture_output=True, text=True)
        return float(done.stdout)

    count = max(100, int(seconds / max(run(100), 1e-9)))
    return lambda: run(count)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    ours = importlib.import_module("flambeau")
    ways = ["in C", "compiled", "eager"]
    modules = [ours]
    try:
        modules.append(importlib.import_module("torch"))
        ways.append("PyTorch eager")
    except ImportError:
        print("PyTorch is not installed")
    for module in modules:
        module.set_num_threads(1)
        module.set_grad_enabled(False)
    print(
        "| case | "
        + " | ".join(f"{way}, µs" for way in ways)
        + " | "
        + " | ".join(f"{way} : in C" for way in ways[1:])
        + " |"
    )
    print("|---" * (2 * len(ways)) + "|")
    ratios: dict[str, list[float]] = {way: [] for way in ways[1:]}
    for case in CASES:
        if not re.search(arguments.only, case.__name__):
            continue
        with tempfile.TemporaryDirectory() as folder:
            net, x = case(ours)
            net = net.eval()
            made = ours.compiler.export_library(net, (x,), f"{folder}/net.so")
            compiled = ours.compile(net)
            stretches = [of_library(made, folder, arguments.seconds)]
            stretches += [of_python(partial(f, x), arguments.seconds) for f in (compiled, net)]
            if len(modules) > 1:
                theirs, y = case(modules[1])
                theirs = theirs.eval()
                stretches.append(of_python(partial(theirs, y), arguments.seconds))
            best = [math.inf] * len(ways)
            for _ in range(arguments.rounds):
                best = [min(b, stretch()) for b, stretch in zip(best, stretches)]
        for way, seconds in zip(ways[1:], best[1:]):
            ratios[way].append(seconds / best[0])
        figures = [f"{s * 1e6:.2f}" for s in best] + [f"{s / best[0]:.1f}" for s in best[1:]]
        print(f"| {case.__name__} | " + " | ".join(figures) + " |", flush=True)
    for way, group in ratios.items():
        if group:
            print(
                f"\n{way} : in C, geometric mean {math.exp(sum(map(math.log, group)) / len(group)):.2f}, least {min(group):.2f}"
            )


if __name__ == "__main__":
    sys.exit(main())
