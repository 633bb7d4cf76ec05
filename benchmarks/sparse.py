"""Sparse matrices side by side with PyTorch and SciPy: products with dense ones, sorting of coordinates, graph convolution.

    python benchmarks/sparse.py                       # all, 1 thread, as a Markdown table
    python benchmarks/sparse.py --threads 2 --cases 'csr' --seconds 1

Needs PyTorch.  Rounds of the three libraries alternate, a round being as many calls as take some milliseconds; a case's time
is the least round, a ratio the other library's time / flambeau's.  Matrices have places drawn at random, each row as many as
comes; PyTorch's have int64 indices, or int32 where that is faster (both are tried).  Coordinates are drawn from so many places
that few or most of them are listed twice.  The graph convolution has the sizes of Cora: 2708 nodes, 1433 features, 16 hidden
ones, 7 classes, 13264 edges with loops; a step is forward, loss, backward and Adam.  SciPy has no step, and coalesces
matrices alone.
"""

from __future__ import annotations

import argparse
import importlib
import math
import re
import time
import warnings
from collections.abc import Callable

import numpy as np
from scipy import sparse as ss

Case = dict[str, Callable[[], object]]
SIZES = ((1_000, 10_000), (10_000, 100_000), (100_000, 1_000_000))
COLUMNS = (0, 1, 2, 4, 8, 16, 64, 256)
LIBRARIES = ("flambeau", "torch", "torch, int32", "scipy")


def libraries() -> dict:
    return {name: importlib.import_module(name) for name in ("flambeau", "torch")}


def random_matrix(n: int, nnz: int, kind: str) -> ss.csr_array:
    rng = np.random.default_rng(0)
    places = rng.integers(0, n, size=(2, nnz))
    matrix = ss.coo_array(
        (rng.standard_normal(nnz).astype(kind), (places[0], places[1])), shape=(n, n)
    ).tocsr()
    matrix.sum_duplicates()
    return matrix


def csr_of(lib, matrix: ss.csr_array, index: str):
    parts = (lib.tensor(x.astype(index)) for x in (matrix.indptr, matrix.indices))
    return lib.sparse_csr_tensor(*parts, lib.tensor(matrix.data), matrix.shape)


def product(n: int, nnz: int, columns: int, kind: str, layout: str) -> Case:
    matrix = random_matrix(n, nnz, kind)
    dense = np.random.default_rng(1).standard_normal((n, columns) if columns else n).astype(kind)
    programs: Case = {}
    for name in LIBRARIES[:3]:
        lib = libraries()[name.partition(",")[0]]
        a = csr_of(lib, matrix, "int32" if "int32" in name or name == "flambeau" else "int64")
        if layout == "coo":
            if "int32" in name:
                continue
            a = a.to_sparse_coo().coalesce()
        b = lib.tensor(dense)
        programs[name] = lambda a=a, b=b: a @ b
    both = matrix if layout == "csr" else matrix.tocoo()
    programs["scipy"] = lambda: both @ dense
    return programs


def coalesced(nnz: int, size: tuple[int, ...], width: int) -> Case:
    rng = np.random.default_rng(0)
    at = np.stack([rng.integers(0, n, size=nnz) for n in size])
    values = rng.standard_normal((nnz, width) if width else nnz).astype("float32")
    shape = (*size, width) if width else size
    programs: Case = {}
    for name, lib in libraries().items():
        indices, held = lib.tensor(at), lib.tensor(values)
        programs[name] = lambda lib=lib, i=indices, v=held: lib.sparse_coo_tensor(i, v, shape).coalesce()
    if len(size) == 2 and not width:

        def by_scipy():
            made = ss.coo_array((values, (at[0], at[1])), shape=size)
            made.sum_duplicates()
            return made

        programs["scipy"] = by_scipy
    return programs


def graph_convolution(layout: str) -> Case:
    nodes, features, hidden, classes = 2708, 1433, 16, 7
    rng = np.random.default_rng(0)
    ends = rng.integers(0, nodes, size=(2, 5278))
    rows = np.concatenate([ends[0], ends[1], np.arange(nodes)])
    columns = np.concatenate([ends[1], ends[0], np.arange(nodes)])
    matrix = ss.coo_array((np.ones(len(rows), "float32"), (rows, columns)), shape=(nodes, nodes)).tocsr()
    matrix.sum_duplicates()
    matrix.data[:] = 1 / np.sqrt(np.diff(matrix.indptr)).repeat(np.diff(matrix.indptr))
    x = (rng.random((nodes, features)) < 0.01).astype("float32")
    y = rng.integers(0, classes, size=nodes)
    programs: Case = {}
    for name, lib in libraries().items():
        lib.manual_seed(0)
        a = csr_of(lib, matrix, "int64")
        a = a if layout == "csr" else a.to_sparse_coo().coalesce()
        layers = lib.nn.Linear(features, hidden, bias=False), lib.nn.Linear(hidden, classes, bias=False)
        optimizer = lib.optim.Adam([m.weight for m in layers], lr=0.01)
        inputs, targets = lib.tensor(x), lib.tensor(y)

        def step(lib=lib, a=a, layers=layers, optimizer=optimizer, inputs=inputs, targets=targets):
            optimizer.zero_grad()
            h = (a @ layers[0](inputs)).relu()
            lib.nn.functional.cross_entropy(a @ layers[1](h), targets).backward()
            optimizer.step()

        programs[name] = step
    return programs


CASES: dict[str, Callable[[], Case]] = {
    **{
        f"csr {n:.0e}² {nnz:.0e} @ {c or 'vector'}, {kind}": lambda n=n, nnz=nnz, c=c, kind=kind: product(
            n, nnz, c, kind, "csr"
        )
        for n, nnz in SIZES
        for c in COLUMNS
        for kind in ("float32", "float64")
    },
    **{
        f"coo {n:.0e}² {nnz:.0e} @ {c or 'vector'}, float32": lambda n=n, nnz=nnz, c=c: product(
            n, nnz, c, "float32", "coo"
        )
        for n, nnz in SIZES
        for c in (0, 16)
    },
    **{
        f"coalesce {nnz:.0e}, {size}" + (f", {width} dense" if width else ""): (
            lambda nnz=nnz, size=size, width=width: coalesced(nnz, size, width)
        )
        for nnz in (10_000, 100_000, 1_000_000)
        for size, width in (
            ((nnz * 10,), 0),
            ((nnz // 4,), 0),
            ((nnz // 10, nnz // 10), 0),
            ((200, 100, 1000), 0),
            ((nnz // 4,), 16),
            ((500, 40), 16),
        )
    },
    "graph convolution, csr": lambda: graph_convolution("csr"),
    "graph convolution, coo": lambda: graph_convolution("coo"),
}


def measured(case: Case, seconds: float) -> dict[str, float]:
    calls = {}
    for name, f in case.items():
        f()
        start = time.perf_counter()
        f()
        calls[name] = max(1, int(0.004 / (time.perf_counter() - start)))
    best = dict.fromkeys(case, math.inf)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or math.inf in best.values():
        for name, f in case.items():
            start = time.perf_counter()
            for _ in range(calls[name]):
                f()
            best[name] = min(best[name], (time.perf_counter() - start) / calls[name])
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default="")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for lib in libraries().values():
        lib.set_num_threads(options.threads)
    print(
        "| case | flambeau µs | PyTorch µs | SciPy µs | beside PyTorch | beside SciPy |\n|---|---|---|---|---|---|"
    )
    ratios: dict[str, list[float]] = {"torch": [], "scipy": []}
    for name, make in CASES.items():
        if not re.search(options.cases, name):
            continue
        times = measured(make(), options.seconds)
        ours = times["flambeau"]
        theirs = {
            "torch": min(t for n, t in times.items() if n.startswith("torch")),
            "scipy": times.get("scipy"),
        }
        cells = []
        for other, t in theirs.items():
            if t is not None:
                ratios[other].append(t / ours)
            cells.append("" if t is None else f"{t / ours:.2f}")
        times = [f"{t * 1e6:.1f}" if t is not None else "" for t in (ours, *theirs.values())]
        print(f"| {name} | {' | '.join(times)} | {' | '.join(cells)} |", flush=True)
    for other, values in ratios.items():
        if values:
            mean = math.exp(sum(map(math.log, values)) / len(values))
            at = sum(r >= 1 for r in values)
            print(
                f"\nbeside {other}: {len(values)} cases, mean {mean:.2f}, least {min(values):.2f}, at or above 1: {at}"
            )


if __name__ == "__main__":
    main()
