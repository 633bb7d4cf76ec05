"""A step of each optimiser side by side with PyTorch, over 100 small and over 4 large parameters.

    python benchmarks/optimizers.py                  # all, 1 thread, as a Markdown table
    python benchmarks/optimizers.py --threads 2 --cases 'Adam|SGD' --seconds 0.5

Needs PyTorch.  Of PyTorch's implementations (a loop, foreach, fused) the fastest counts.  Rounds of the two libraries
alternate; a case's time is the median round, ratio = PyTorch's time / flambeau's.  Small parameters have 16 × 16
elements, large ones 512 × 512.  Gradients are given; LBFGS makes 5 iterations from the same parameters each time, and its
closure makes gradients by one product a parameter.
"""

from __future__ import annotations

import argparse
import importlib
import math
import re
import statistics
import time
from collections.abc import Callable

# Options of each case, and which implementations PyTorch has besides the loop.
CASES: dict[str, tuple[str, dict, tuple[str, ...]]] = {
    "SGD": ("SGD", {"lr": 1e-3}, ("foreach", "fused")),
    "SGD, momentum": ("SGD", {"lr": 1e-3, "momentum": 0.9}, ("foreach", "fused")),
    "Adam": ("Adam", {}, ("foreach", "fused")),
    "Adam, amsgrad": ("Adam", {"amsgrad": True}, ("foreach", "fused")),
    "AdamW": ("AdamW", {}, ("foreach", "fused")),
    "RMSprop": ("RMSprop", {}, ("foreach",)),
    "RMSprop, centered": ("RMSprop", {"centered": True, "momentum": 0.9}, ("foreach",)),
    "Adagrad": ("Adagrad", {}, ("foreach", "fused")),
    "Adadelta": ("Adadelta", {}, ("foreach",)),
    "Adamax": ("Adamax", {}, ("foreach",)),
    "NAdam": ("NAdam", {}, ("foreach",)),
    "RAdam": ("RAdam", {}, ("foreach",)),
    "Rprop": ("Rprop", {}, ("foreach",)),
    "ASGD": ("ASGD", {}, ("foreach",)),
    "Adafactor": ("Adafactor", {}, ("foreach",)),
    "Muon": ("Muon", {}, ()),
    "LBFGS": ("LBFGS", {"max_iter": 5}, ()),
    "LBFGS, Wolfe": ("LBFGS", {"max_iter": 5, "line_search_fn": "strong_wolfe"}, ()),
    "SparseAdam": ("SparseAdam", {}, ()),
}
SIZES = {"100 small": (100, 16), "4 large": (4, 512)}


def step_of(lib, kind: str, options: dict, count: int, side: int) -> Callable[[], object]:
    lib.manual_seed(0)
    params = [lib.nn.Parameter(lib.randn(side, side)) for _ in range(count)]
    rows = lib.randint(0, side, (max(1, side // 8),))
    for p in params:
        p.grad = lib.randn(side, side)
        if kind == "SparseAdam":
            p.grad = lib.sparse_coo_tensor(rows[None], lib.randn(len(rows), side), (side, side))
    optimizer = getattr(lib.optim, kind)(params, **options)
    if kind != "LBFGS":
        return optimizer.step
    scales = [lib.rand(side, side) + 0.5 for _ in params]
    starts = [p.detach().clone() for p in params]
    loss = lib.tensor(0.0)

    def closure():
        with lib.no_grad():
            for p, scale in zip(params, scales):
                p.grad = p * scale
        return loss.sub_(1.0)  # never stops for lack of progress

    def step():
        with lib.no_grad():
            for p, start in zip(params, starts):
                p.copy_(start)
        optimizer.state.clear()
        return optimizer.step(closure)

    return step


def rounds_of(step: Callable[[], object], seconds: float) -> int:
    """How many steps last about `seconds`; the first few warm up."""
    for _ in range(3):
        step()
    start = time.perf_counter()
    step()
    return max(1, int(seconds / max(time.perf_counter() - start, 1e-7)))


def timed(step: Callable[[], object], times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        step()
    return (time.perf_counter() - start) / times


def compare(torch, lib, name: str, size: str, seconds: float, rounds: int) -> tuple[float, float, str]:
    kind, options, more = CASES[name]
    ways = {"loop": {"foreach": False} if more else {}, **{way: {way: True} for way in more}}
    theirs = {way: step_of(torch, kind, {**options, **flag}, *SIZES[size]) for way, flag in ways.items()}
    steps = {"": step_of(lib, kind, options, *SIZES[size]), **theirs}
    times = {way: rounds_of(step, seconds / rounds / len(steps)) for way, step in steps.items()}
    samples: dict[str, list[float]] = {way: [] for way in steps}
    for _ in range(rounds):
        for way, step in steps.items():
            samples[way].append(timed(step, times[way]))
    medians = {way: statistics.median(values) for way, values in samples.items()}
    best = min(theirs, key=medians.__getitem__)
    return medians[""], medians[best], best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cases", default="", help="a regular expression for the names")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each case")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch, lib = importlib.import_module("torch"), importlib.import_module("flambeau")
    for library in (torch, lib):
        library.set_num_threads(options.threads)
    print(
        "| step | parameters | flambeau, µs | PyTorch, µs | PyTorch's way | ratio |\n|---|---|---|---|---|---|"
    )
    ratios = []
    for name in filter(re.compile(options.cases).search, CASES):
        for size in SIZES:
            ours, theirs, way = compare(torch, lib, name, size, options.seconds, options.rounds)
            ratios.append(theirs / ours)
            print(
                f"| {name} | {size} | {ours * 1e6:.1f} | {theirs * 1e6:.1f} | {way} | {ratios[-1]:.2f} |",
                flush=True,
            )
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    print(
        f"\n{len(ratios)} cases: geometric mean {mean:.2f}, least {min(ratios):.2f}, below 1: {sum(r < 1 for r in ratios)}"
    )


if __name__ == "__main__":
    main()
