"""`save` and `load` of large files beside PyTorch, page cache warm, and the memory that loading takes.

    python benchmarks/files.py [--gigabytes 1] [--rounds 5] [--folder /dev/shm]

Each round does every case with both libraries, one after the other; the figure is PyTorch's least time over flambeau's.  Needs PyTorch.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

RESIDENT = """
import sys
library = __import__({library!r})
def figure(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name))
library.load({small!r}, mmap={mmap})
before = figure("VmHWM")
loaded = library.load({large!r}, mmap={mmap})
print((figure("VmHWM") - before) / 1000)
"""


def contents(library: Any, gigabytes: float, parts: int) -> dict[str, Any]:
    """Tensors of so many bytes together."""
    n = int(gigabytes * 2**30 / 4 / parts)
    return {f"layer{i}.weight": library.arange(n, dtype=library.float32) for i in range(parts)}


def resident(library: str, large: str, small: str, mmap: bool) -> float:
    """Megabytes that loading adds to the largest resident memory of a process."""
    program = RESIDENT.format(library=library, large=large, small=small, mmap=mmap)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return float(done.stdout)


def timed(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    made = call()
    taken = time.perf_counter() - begin
    del made
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", default="/dev/shm")
    options = parser.parse_args()
    import torch

    import flambeau

    libraries = {"torch": torch, "flambeau": flambeau}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        print(f"{'case':32s} {'PyTorch':>10s} {'flambeau':>10s} {'ratio':>7s}")
        for label, size, parts in (
            (f"{options.gigabytes:g} GB in 64", options.gigabytes, 64),
            (f"{options.gigabytes:g} GB in 1", options.gigabytes, 1),
            ("4 MB in 1000", 0.004, 1000),
        ):
            samples: dict[str, dict[str, list[float]]] = {}
            for name, library in libraries.items():
                obj = contents(library, size, parts)
                path = os.path.join(folder, f"{name}.pt")
                library.save(obj, path)
                for _ in range(options.rounds):
                    cases = {
                        "save": lambda lib=library, o=obj, p=path: lib.save(o, p),
                        "load": lambda lib=library, p=path: lib.load(p),
                        "load, mmap": lambda lib=library, p=path: lib.load(p, mmap=True),
                    }
                    for case, call in cases.items():
                        samples.setdefault(case, {}).setdefault(name, []).append(timed(call))
                del obj
            for case, times in samples.items():
                theirs, ours = min(times["torch"]), min(times["flambeau"])
                print(
                    f"{case + ', ' + label:32s} {theirs * 1e3:8.1f}ms {ours * 1e3:8.1f}ms {theirs / ours:7.2f}"
                )
        flambeau.save({"x": flambeau.ones(1)}, os.path.join(folder, "small.pt"))
        obj = contents(flambeau, options.gigabytes, 64)
        flambeau.save(obj, os.path.join(folder, "large.pt"))
        del obj
        for mmap in (False, True):
            figures = [
                resident(name, os.path.join(folder, "large.pt"), os.path.join(folder, "small.pt"), mmap)
                for name in libraries
            ]
            print(f"resident, load(mmap={mmap}): PyTorch {figures[0]:.1f} MB, flambeau {figures[1]:.1f} MB")


if __name__ == "__main__":
    main()
