"""Time the same code on flambeau and on PyTorch, side by side, and print the ratios of their times.

    python benchmarks/versus.py                       # all 138 cases, 1 thread, both processes on one CPU
    python benchmarks/versus.py --threads 2 --cases 'conv|gemm' --rounds 5
    python benchmarks/versus.py --capability avx2     # both held to AVX2, on whatever x86 processor
    python benchmarks/versus.py --json out.json --floor 1.0     # exit status 1 where a ratio is below the floor

Needs PyTorch: pip install ".[parity]".  Each library runs in a process of its own; the two take turns, case by case and round by
round, so a ratio holds when the machine's speed drifts.  The time of a round is the least one seen in it.  A case's ratio is the median
over rounds of PyTorch's time / flambeau's: above 1, flambeau is faster.  The cases stand in versus_cases.py.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from versus_cases import CASES

# What holds a library, and those that it calls, to AVX2.
HELD = {
    "FLAMBEAU_CPU_CAPABILITY": "avx2",
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "DNNL_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
}

WARM_UP = 3  # calls before a case is timed: kernels are compiled, caches filled


def best_time(call: Callable[[], Any], seconds: float) -> float:
    """The least time of one call, in seconds, over `seconds`; calls are timed in bundles of a tenth of that."""
    n = 1
    while True:
        began = time.perf_counter()
        for _ in range(n):
            call()
        took = time.perf_counter() - began
        if took > seconds / 10 or n >= 1 << 20:
            break
        n *= 2
    best = took / n
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop:
        began = time.perf_counter()
        for _ in range(n):
            call()
        best = min(best, (time.perf_counter() - began) / n)
    return best


def serve(name: str, threads: int) -> None:
    """The child's loop: a case and a time come in on standard input, a line of JSON goes out."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints is no answer
    began = time.perf_counter()
    module = importlib.import_module(name)
    out.write(json.dumps({"import_s": time.perf_counter() - began}) + "\n")
    module.set_num_threads(threads)
    key, call = "", None
    for line in sys.stdin:
        wanted, seconds = json.loads(line)
        try:
            if wanted != key or call is None:
                call = None  # one case's data at a time
                key, call = wanted, CASES[wanted](module)
                for _ in range(WARM_UP):
                    call()
            answer: dict[str, Any] = {"s": best_time(call, seconds)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:160]}
        out.write(json.dumps(answer) + "\n")


class Side:
    """The process of one library."""

    def __init__(self, name: str, threads: int, capability: str = "") -> None:
        limits = {f"{library}_NUM_THREADS": str(threads) for library in ("OMP", "MKL", "OPENBLAS")}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", name, "--threads", str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={**os.environ, **limits, **(HELD if capability else {})},
        )
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f'`import {name}` failed: PyTorch comes with `pip install ".[parity]"`')
        self.import_s: float = json.loads(line)["import_s"]

    def time(self, key: str, seconds: float) -> dict[str, Any]:
        """{"s": seconds a call}, or {"error": why not}."""
        self.process.stdin.write(json.dumps([key, seconds]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": "the process died"}

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def shown(seconds: float) -> str:
    if seconds < 1e-5:
        return f"{seconds * 1e9:9.0f} ns"
    return f"{seconds * 1e6:9.1f} µs" if seconds < 1e-2 else f"{seconds * 1e3:9.2f} ms"


def measure(key: str, sides: tuple[Side, Side], rounds: int, seconds: float) -> dict[str, Any]:
    """A case's row: best times and the median, least and largest ratio of its rounds, or why it failed."""
    pairs = []
    for _ in range(rounds):
        ours, theirs = (side.time(key, seconds) for side in sides)
        if "error" in ours or "error" in theirs:
            return {"case": key, "error": ours.get("error") or f"reference: {theirs['error']}"}
        pairs.append((ours["s"], theirs["s"]))
    ratios = [theirs / ours for ours, theirs in pairs]
    return {
        "case": key,
        "ours_s": min(ours for ours, _ in pairs),
        "theirs_s": min(theirs for _, theirs in pairs),
        "ratio": statistics.median(ratios),
        "least": min(ratios),
        "most": max(ratios),
    }


def of_ratios(ratios: list[float]) -> str:
    """What a list of ratios comes to."""
    mean, above = statistics.geometric_mean(ratios), sum(ratio >= 1 for ratio in ratios)
    return f"geometric mean {mean:.2f}, least {min(ratios):.2f}, {above} of {len(ratios)} at or above 1"


def run(options: argparse.Namespace, keys: list[str]) -> int:
    """Measures the cases, prints them and a summary; the exit status."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])

    def start() -> tuple[Side, Side]:
        names = options.candidate, options.reference
        ours, theirs = (Side(name, options.threads, options.capability) for name in names)
        return ours, theirs

    sides = start()
    imports = [f"{side.import_s * 1e3:.0f} ms" for side in sides]
    print(f"{'case':38s} {options.candidate:>12s} {options.reference:>12s}   ratio  (min … max)")
    rows, short = [], 0
    for key in keys:
        row = measure(key, sides, options.rounds, options.seconds)
        rows.append(row)
        if "error" in row:
            short += 1
            print(f"{key:38s} {row['error']}")
            if "process died" in row["error"]:
                sides = start()
            continue
        low = options.floor is not None and row["ratio"] < options.floor
        short += low
        span = f"({row['least']:.2f} … {row['most']:.2f})"
        print(
            f"{key:38s} {shown(row['ours_s'])} {shown(row['theirs_s'])}  {row['ratio']:6.2f}  {span}{'  below' if low else ''}",
            flush=True,
        )
    for side in sides:
        side.end()
    good = [row["ratio"] for row in rows if "ratio" in row]
    if good:
        print()
        for group in dict.fromkeys(row["case"].split(".")[0] for row in rows):
            ratios = [row["ratio"] for row in rows if "ratio" in row and row["case"].startswith(f"{group}.")]
            if ratios:
                print(f"{group}: {of_ratios(ratios)}")
        print(f"{len(good)} of {len(rows)} cases ran; {of_ratios(good)}; import {' against '.join(imports)}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)
    return 1 if options.floor is not None and short else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--candidate", default="flambeau", help="the module under test (default: flambeau)")
    parser.add_argument("--reference", default="torch", help="the module beside it (default: torch)")
    parser.add_argument("--cases", default="", help="only cases whose name matches this regular expression")
    parser.add_argument("--threads", type=int, default=1, help="threads of each library (default: 1)")
    parser.add_argument("--rounds", type=int, default=3, help="turns that each library takes (default: 3)")
    parser.add_argument("--seconds", type=float, default=0.2, help="time of a turn (default: 0.2)")
    parser.add_argument(
        "--capability", choices=["avx2"], default="", help="instructions that both libraries are held to"
    )
    parser.add_argument("--json", help="write every row there")
    parser.add_argument("--floor", type=float, help="exit status 1 where a ratio is below, or a case fails")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.threads)
        return 0
    keys = [key for key in CASES if re.search(options.cases, key)]
    if options.list:
        print("\n".join(keys))
        return 0
    return run(options, keys)


if __name__ == "__main__":
    sys.exit(main())
