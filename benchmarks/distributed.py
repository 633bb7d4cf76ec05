"""Two processes of one thread: all_reduce, and steps of DistributedDataParallel and FSDP, beside PyTorch's gloo.

python benchmarks/distributed.py [--rounds N] [--only REGEX]      # ratios in one run
python benchmarks/distributed.py --scaling [--rounds N] [--write]  # see scaling.py

A round starts two processes of flambeau, then two of PyTorch, each on a core of its own, and times every case in both; shown are
the medians over all rounds, of the slower of the two processes, and PyTorch's time over ours.  Needs PyTorch in the same
environment (`pip install ".[parity]"`).
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

PROCESSES = 2
MiB = 1 << 20


def repeated(call: Callable[[], Any], meet: Callable[[], Any], times: int, warm: int = 3) -> float:
    """Median seconds of a call that the processes begin together."""
    for _ in range(warm):
        call()
    samples = []
    for _ in range(times):
        meet()
        begun = time.perf_counter()
        call()
        samples.append(time.perf_counter() - begun)
    return statistics.median(samples)


def cases(torch: Any, dist: Any, ddp: Any, fsdp: Any) -> dict[str, tuple[Callable[[], Any], int]]:
    """Each case as a function that makes what is called, and how often it is timed."""
    nn = torch.nn

    def reduced(size: int) -> Callable[[], Any]:
        x = torch.ones(size // 4)
        return lambda: dist.all_reduce(x)

    def begun(size: int) -> Callable[[], Any]:
        x = torch.ones(size // 4)
        return lambda: dist.all_reduce(x, async_op=True).wait()

    def step(make: Callable[[], Any], x: Any, wrapped: Any = None, **options: Any) -> Callable[[], Any]:
        torch.manual_seed(0)
        net = ddp(make(), **options) if wrapped is None else wrapped(make())
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        y = torch.zeros(len(x), dtype=torch.int64)

        def run() -> None:
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()

        return run

    def sharded(make: Callable[[], Any], x: Any) -> Callable[[], Any]:
        kinds = (nn.Linear, nn.Conv2d)
        policy = fsdp.wrap.ModuleWrapPolicy(kinds)
        return step(make, x, lambda net: fsdp.FullyShardedDataParallel(net, **on_cpu(policy)))

    def in_place(make: Callable[[], Any], x: Any) -> Callable[[], Any]:
        def wrapped(net: Any) -> Any:
            for module in list(net.modules()):
                if isinstance(module, (nn.Linear, nn.Conv2d)):
                    fsdp.fully_shard(module, mesh=mesh)
            return fsdp.fully_shard(net, mesh=mesh)

        mesh = dist.device_mesh.init_device_mesh("cpu", (PROCESSES,))
        return step(make, x, wrapped)

    def on_cpu(policy: Any) -> dict[str, Any]:
        return dict(auto_wrap_policy=policy, use_orig_params=True, device_id=torch.device("cpu"))

    def mlp() -> Any:
        return nn.Sequential(
            nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
        )

    def cnn() -> Any:
        def block(i: int, o: int) -> list[Any]:
            return [nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2)]

        return nn.Sequential(
            *block(3, 32), *block(32, 64), *block(64, 128), nn.Flatten(), nn.Linear(128 * 16, 10)
        )

    images = torch.zeros(32, 3, 32, 32)
    return {
        "all_reduce 4 KB": (lambda: reduced(4096), 200),  # type: ignore[dict-item]
        "all_reduce 1 MB": (lambda: reduced(MiB), 50),  # type: ignore[dict-item]
        "all_reduce 64 MB": (lambda: reduced(64 * MiB), 5),  # type: ignore[dict-item]
        "all_reduce 1 MB, asynchronous": (lambda: begun(MiB), 50),  # type: ignore[dict-item]
        "DDP step, MLP": (lambda: step(mlp, torch.zeros(64, 512)), 20),  # type: ignore[dict-item]
        "DDP step, CNN": (lambda: step(cnn, images), 10),  # type: ignore[dict-item]
        "DDP step, MLP, bucket views": (
            lambda: step(mlp, torch.zeros(64, 512), gradient_as_bucket_view=True),
            20,
        ),  # type: ignore[dict-item]
        "FSDP step, MLP": (lambda: sharded(mlp, torch.zeros(64, 512)), 20),  # type: ignore[dict-item]
        "FSDP step, CNN": (lambda: sharded(cnn, images), 10),  # type: ignore[dict-item]
        "fully_shard step, MLP": (lambda: in_place(mlp, torch.zeros(64, 512)), 20),  # type: ignore[dict-item]
        "fully_shard step, CNN": (lambda: in_place(cnn, images), 10),  # type: ignore[dict-item]
    }


def worker(name: str, rank: int, port: int, only: str) -> None:
    """Time all cases in this process, and print the slower process's times."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[rank % len(cores)]})
    torch = importlib.import_module(name)
    dist = importlib.import_module(f"{name}.distributed")
    parallel = importlib.import_module(f"{name}.nn.parallel")
    fsdp = importlib.import_module(f"{name}.distributed.fsdp")
    importlib.import_module(f"{name}.distributed.fsdp.wrap")
    importlib.import_module(f"{name}.distributed.device_mesh")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=PROCESSES)
    times_of = {}
    for case, (make, times) in cases(torch, dist, parallel.DistributedDataParallel, fsdp).items():
        if re.search(only, case):
            seconds = torch.tensor([repeated(make(), dist.barrier, times)], dtype=torch.float64)
            dist.all_reduce(seconds, dist.ReduceOp.MAX)
            times_of[case] = seconds.item()
    if rank == 0:
        print(json.dumps(times_of), flush=True)
    dist.barrier()
    dist.destroy_process_group()
    os._exit(
        0
    )  # PyTorch's threads of gloo sometimes abort at the interpreter's exit, long after the times are there


def pair(name: str, only: str) -> dict[str, float]:
    """The times of two processes of a library."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = dict(
        os.environ,
        OMP_NUM_THREADS="1",
        OPENBLAS_NUM_THREADS="1",
        MKL_NUM_THREADS="1",
        FLAMBEAU_NUM_THREADS="1",
    )
    started = [
        subprocess.Popen(
            [sys.executable, __file__, "--worker", name, str(rank), str(port), only],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(PROCESSES)
    ]
    said = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise SystemExit(f"{name}: a process failed")
    return json.loads(said[0])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="cases whose names match")
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--scaling", action="store_true", help="the model of docs/scaling.md instead")
    parser.add_argument("--write", action="store_true", help="put its tables into the page")
    args = parser.parse_args()
    if args.scaling:
        import scaling

        scaling.main(args.rounds, args.write)
        return
    if args.worker:
        name, rank, port, only = args.worker
        worker(name, int(rank), int(port), only)
        return
    times: dict[str, dict[str, list[float]]] = {"flambeau": {}, "torch": {}}
    for _ in range(args.rounds):
        for name, of_cases in times.items():
            for case, seconds in pair(name, args.only).items():
                of_cases.setdefault(case, []).append(seconds)
    print(
        f"| {'two processes of one thread':32} | flambeau, ms | PyTorch (gloo), ms | ratio |\n|---|---|---|---|"
    )
    for case in times["flambeau"]:
        ours, theirs = (1000 * statistics.median(times[name][case]) for name in times)
        print(f"| {case:32} | {ours:12.3f} | {theirs:18.3f} | {theirs / ours:5.2f} |")


if __name__ == "__main__":
    main()
