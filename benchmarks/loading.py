"""Loading beside PyTorch, in one run on the same data: batches a second by DataLoaders of both, and their ratio.

    python benchmarks/loading.py [--only REGEX] [--seconds 0.6] [--rounds 5]

*Memory-bound* samples are rows of an array in memory, copied by nobody but the loader.  *Decode-bound* samples are
compressed by zlib, inflated and scaled to float32 in NumPy, as one would an image.  A batch has 32 small items (4 KB) or
8 large ones (4 MB) with a label each; this process computes with one thread, reads one element of each batch and drops
it.  Each figure is the best of `rounds` stretches of about `seconds` each, those of both libraries taken in turn;
workers persist, and the first epoch is not counted.  *start* is a whole pass over a dataset of two samples, its workers'
start and end included.
"""

from __future__ import annotations

import argparse
import importlib
import math
import re
import sys
import time
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

SIZES = {
    "4 KB": (1 << 10, 32, 512),
    "4 MB": (1 << 20, 8, 24),
}  # floats in an item, items in a batch, items there are


class Memory:
    """Rows of an array."""

    def __init__(self, floats: int, n: int, module: Any) -> None:
        self.rows = module.from_numpy(np.ones((n, floats), np.float32))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> Any:
        return self.rows[i], i


class Decode:
    """Bytes that are inflated and scaled."""

    def __init__(self, floats: int, n: int, module: Any) -> None:
        some = np.random.default_rng(0).integers(0, 16, floats, np.uint8)
        self.items, self.n = [zlib.compress(some.tobytes(), 1)], n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> Any:
        pixels = np.frombuffer(zlib.decompress(self.items[0]), np.uint8)
        return np.multiply(pixels, np.float32(1 / 16), dtype=np.float32), i


def endless(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


def rate(batches: Iterator[Any], count: int) -> float:
    """Batches a second."""
    began = time.perf_counter()
    for _ in range(count):
        x, _ = next(batches)
        x[0, 0].item()
    return count / (time.perf_counter() - began)


def start(make: Any) -> float:
    """Passes a second over very little, workers started and ended."""
    began = time.perf_counter()
    for _ in make():
        pass
    return 1 / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=0.6)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    modules = [importlib.import_module(name) for name in ("flambeau", "torch")]
    for module in modules:
        module.set_num_threads(1)
    ratios = []
    print(
        "| case | flambeau, batches/s | PyTorch, batches/s | ratio | flambeau, threads | ratio |\n|---|---|---|---|---|---|"
    )
    for kind in (Memory, Decode):
        for size, (floats, batch, n) in SIZES.items():
            for workers in (0, 2):
                case = f"{kind.__name__.lower()}-bound, {size}, {workers} workers"
                if re.search(arguments.only, case):
                    ratios.append(compare(case, modules, kind, floats, batch, n, workers, arguments))
    for method in ("fork", "spawn"):
        case = f"start of 2 workers by {method}"
        if re.search(arguments.only, case):
            started(case, modules, method, arguments.rounds)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"\n{len(ratios)} cases: geometric mean of ratios {mean:.2f}, least {min(ratios):.2f}")


def compare(
    case: str, modules: list[Any], kind: Any, floats: int, batch: int, n: int, workers: int, arguments: Any
) -> float:
    def loader(module: Any, **more: Any) -> Any:
        dataset = kind(floats, n, module)
        if workers:
            more.update(num_workers=workers, persistent_workers=True)
        return module.utils.data.DataLoader(dataset, batch_size=batch, drop_last=True, **more)

    ours, theirs = modules
    made = {"flambeau": loader(ours), "PyTorch": loader(theirs)}
    if workers:
        made["threads"] = loader(ours, worker_type="thread")
    running = {name: endless(one) for name, one in made.items()}
    counts = {}
    for name, batches in running.items():
        rate(batches, n // batch + 4)
        counts[name] = max(4, int(rate(batches, 8) * arguments.seconds))
    best = dict.fromkeys(running, 0.0)
    for _ in range(arguments.rounds):
        for name, batches in running.items():
            best[name] = max(best[name], rate(batches, counts[name]))
    ratio = best["flambeau"] / best["PyTorch"]
    threads = f"{best['threads']:.1f} | {best['threads'] / best['PyTorch']:.2f}" if workers else " | "
    print(
        f"| {case} | {best['flambeau']:.1f} | {best['PyTorch']:.1f} | {ratio:.2f} | {threads} |", flush=True
    )
    return ratio


def started(case: str, modules: list[Any], method: str, rounds: int) -> None:
    def making(module: Any) -> Any:
        data = Memory(4, 2, module)
        return lambda: module.utils.data.DataLoader(data, num_workers=2, multiprocessing_context=method)

    best = [0.0, 0.0]
    for _ in range(rounds):
        for k, module in enumerate(modules):
            best[k] = max(best[k], start(making(module)))
    print(f"| {case} | {best[0]:.1f} | {best[1]:.1f} | {best[0] / best[1]:.2f} | | |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
