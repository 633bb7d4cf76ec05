"""Step time of data-parallel training on many processes: a model, its numbers measured here, predicted and measured beside each other.

python benchmarks/distributed.py --scaling [--rounds N] [--write]     # --write puts the tables into docs/scaling.md

Measured on 1, 2 and 4 processes of one thread.  docs/scaling.md has the model and its assumptions.
"""

from __future__ import annotations

import json
import math
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

PAGE = Path(__file__).resolve().parents[1] / "docs" / "scaling.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
SIZES = [1 << k for k in range(12, 25, 2)]  # bytes: 4 KB to 16 MB
MEASURED = (1, 2, 4)
CARRIED = (8, 16, 32, 64, 128, 256, 512, 1024)
BATCH, WIDTH = 256, 1024


class Link(NamedTuple):
    """What a message costs: `latency` seconds, and `byte` seconds a byte, with the time to add it up."""

    latency: float
    byte: float


# One process a machine; a message of RDMA over 100 Gb/s, and adding float32 at 10 GB/s for half of the bytes.
CLUSTER = Link(latency=5e-6, byte=1 / 12.5e9 + 0.5 / 10e9)
ETHERNET = Link(latency=30e-6, byte=1 / 1.25e9 + 0.5 / 10e9)  # TCP over 10 Gb/s


def all_reduce_time(n: float, p: int, link: Link) -> float:
    """Seconds of an all_reduce of n bytes: the fastest of recursive doubling, Rabenseifner's algorithm and the ring.

    Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in MPICH, 2005, section 4.5.
    """
    if p == 1:
        return 0.0
    steps = math.ceil(math.log2(p))
    moved = 2 * (p - 1) / p * n * link.byte
    doubling = steps * (link.latency + n * link.byte)
    halving = 2 * steps * link.latency + moved
    ring = 2 * (p - 1) * link.latency + moved
    return min(doubling, halving, ring)


def step_time(compute: float, buckets: Sequence[int], p: int, link: Link, overlap: bool) -> float:
    """Seconds of a step: two thirds of `compute` are backward, in which buckets become ready as their bytes do.

    With `overlap` a bucket is sent while backward goes on, one after the other; without, after it.
    """
    total, ready, end = sum(buckets), compute / 3, compute if not overlap else 0.0
    for size in buckets:
        ready += 2 / 3 * compute * size / total
        end = max(end, ready if overlap else compute) + all_reduce_time(size, p, link)
    return max(end, compute)


def fitted(sizes: Sequence[int], seconds: Sequence[float]) -> Link:
    """Latency and seconds a byte of two processes' all_reduce, T = latency + byte n, by least squares of relative errors."""
    weights = [1 / t**2 for t in seconds]
    a = sum(weights)
    b = sum(w * n for w, n in zip(weights, sizes))
    c = sum(w * n * n for w, n in zip(weights, sizes))
    y = sum(w * t for w, t in zip(weights, seconds))
    z = sum(w * n * t for w, n, t in zip(weights, sizes, seconds))
    byte = (a * z - b * y) / (a * c - b * b)
    return Link(max((y - byte * b) / a, 0.0), byte)


# Measuring ------------------------------------------------------------------------------------------------------------------------
def worker(rank: int, size: int, port: int) -> None:
    """Time all_reduce and steps in this process; rank 0 prints the slowest process's medians."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[rank % len(cores)]})
    import flambeau as torch
    import flambeau.distributed as dist
    from flambeau.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)

    def timed(call: Any, times: int) -> float:
        call()
        seconds = []
        for _ in range(times):
            dist.barrier()
            begun = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - begun)
        slowest = torch.tensor([statistics.median(seconds)], dtype=torch.float64)
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        return slowest.item()

    reduced = []
    for n in SIZES:
        x = torch.ones(n // 4)
        reduced.append(timed(lambda x=x: dist.all_reduce(x), 20 if n <= 1 << 20 else 7))
    layers = [layer for _ in range(4) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())]
    net = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=4)
    optimizer, x = torch.optim.SGD(net.parameters(), lr=0.01), torch.ones(BATCH, WIDTH)

    def step() -> None:
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()

    stepped = timed(step, 7)
    sizes = [bucket.buffer().numel() * 4 for bucket in net.reducer.buckets]
    if rank == 0:
        print(json.dumps({"all_reduce": reduced, "step": stepped, "buckets": sizes}))
    dist.barrier()
    dist.destroy_process_group()


def measured(size: int) -> dict[str, Any]:
    """The times of so many processes."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    threads = dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "FLAMBEAU_NUM_THREADS"), "1"
    )
    started = [
        subprocess.Popen(
            [sys.executable, __file__, str(rank), str(size), str(port)],
            env={**os.environ, **threads},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    said = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise SystemExit(f"scaling: a process of {size} failed")
    return json.loads(said[0])


def best(size: int, rounds: int) -> dict[str, Any]:
    """The fastest of some rounds: what else runs on the machine only adds."""
    runs = [measured(size) for _ in range(rounds)]
    times = [min(run["all_reduce"][k] for run in runs) for k in range(len(SIZES))]
    return {"all_reduce": times, "step": min(run["step"] for run in runs), "buckets": runs[0]["buckets"]}


def _text(n: int) -> str:
    return f"{n >> 20} MB" if n >= 1 << 20 else f"{n >> 10} KB"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}"


def report(rounds: int) -> str:
    """Measure, and write the tables."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    load = os.getloadavg()[0]
    runs = {p: best(p, rounds) for p in MEASURED}
    link = fitted(SIZES, runs[2]["all_reduce"])
    compute, buckets = runs[1]["step"], runs[1]["buckets"]
    lines = [
        f"Measured on one machine of {cores} cores, load {load:.1f} at the beginning, fastest of {rounds} rounds: latency "
        f"{1e6 * link.latency:.1f} µs, {1e-9 / link.byte:.2f} GB/s, a step of one process {_ms(compute)} ms, "
        f"gradients of {sum(buckets) / 1e6:.1f} MB in {len(buckets)} buckets.",
        "",
        "all_reduce, ms, predicted / measured:",
        "",
        "| size | 2 processes | 4 processes |",
        "|---|---|---|",
    ]
    for k, n in enumerate(SIZES):
        # More processes than cores take turns: a step of the algorithm takes as many turns.
        cells = [
            f"{_ms(all_reduce_time(n, p, link) * max(1.0, p / cores))} / {_ms(runs[p]['all_reduce'][k])}"
            for p in (2, 4)
        ]
        lines.append(f"| {_text(n)} | {' | '.join(cells)} |")
    lines += [
        "",
        "A step, ms (every process has a batch of its own):",
        "",
        "| processes | predicted | measured |",
        "|---|---|---|",
    ]
    for p in MEASURED:
        turns = max(1.0, p / cores)
        predicted = step_time(compute, buckets, p, link, overlap=False) * turns
        lines.append(f"| {p} | {_ms(predicted)} | {_ms(runs[p]['step'])} |")
    lines += [
        "",
        "Carried on, one process a machine: efficiency, the step of one process over that of so many:",
        "",
        "| processes | 100 Gb/s, 5 µs | the same, no overlap | 10 Gb/s, 30 µs | the same, no overlap |",
        "|---|---|---|---|---|",
    ]
    for p in CARRIED:
        cells = [
            f"{compute / step_time(compute, buckets, p, net, overlap):.0%}"
            for net in (CLUSTER, ETHERNET)
            for overlap in (True, False)
        ]
        lines.append(f"| {p:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(rounds: int, write: bool) -> None:
    """Print the tables, or put them into the page."""
    text = report(rounds)
    print(text)
    if write:
        page = PAGE.read_text(encoding="utf-8")
        head, rest = page.split(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    worker(*map(int, sys.argv[1:4]))
