"""Compiling ahead: what programs are likely to call is called once on small tensors, in several processes.

Every operation compiles its kernels the first time that it meets a combination of dtypes and layouts, 10 ms to
100 ms each, and finds them on disk ever after.  `warm` meets the common combinations beforehand.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence

from ..codegen import cache
from ..core.base.parallel import usable_cpus


def warm(dtypes: Sequence[str] = ("float32",), workers: int | None = None) -> dict:
    """Compile the common kernels and store them on disk, so that later programs need not wait for them.

    Those are: every pointwise operation on contiguous, broadcast and strided operands and on a number, every reduction
    and row function along the last, the first and all dimensions, in `dtypes`, with their gradients; and the training
    steps of small networks of every common kind.  `workers` processes share the work (default: one a CPU).

    Returns a dict: "calls" made, "refused" (combinations that an operation does not take), "kernels" and "bytes" on disk
    afterwards, "seconds".  RuntimeError if a worker fails.

    `python -m flambeau.codegen` does the same from the shell.
    """
    import subprocess  # not at the start of every program

    began = time.perf_counter()
    workers = workers or usable_cpus()
    program = [sys.executable, "-m", "flambeau.codegen", *dtypes]
    started = [
        subprocess.Popen([*program, f"--part={k}/{workers}"], stdout=subprocess.PIPE, text=True)
        for k in range(workers)
    ]
    counts = []
    for worker in started:
        said, _ = worker.communicate()
        if worker.returncode:
            raise RuntimeError(f"codegen.warm(): a worker ended with status {worker.returncode}")
        counts.append([int(word) for word in said.split()])
    stats = cache.cache_stats()
    calls, refused = (sum(column) for column in zip(*counts))
    return {
        "calls": calls,
        "refused": refused,
        "kernels": stats["entries"],
        "bytes": stats["bytes"],
        "seconds": time.perf_counter() - began,
    }


def part(dtypes: Sequence[str], number: int, of: int) -> tuple[int, int]:
    """Make every `of`-th call; how many were made, and how many of those an operation refused."""
    import flambeau

    calls = refused = 0
    for k, call in enumerate(common_calls(dtypes)):
        if k % of == number:
            calls += 1
            try:
                backward(call())
            except (TypeError, RuntimeError, NotImplementedError, IndexError):  # a dtype it does not take
                refused += 1
    flambeau.set_grad_enabled(True)
    return calls, refused


def backward(results) -> None:
    for out in results if isinstance(results, tuple) else (results,):
        if getattr(out, "requires_grad", False):
            out.backward(out.detach(), retain_graph=True)


def common_calls(dtypes: Sequence[str]) -> Iterator[Callable]:
    from ..operations.declare.registry import REGISTRY

    for dtype in dtypes:
        for entry in REGISTRY.values():
            if entry.kind == "pointwise" and entry.places:
                yield from pointwise_calls(entry, dtype)
            elif entry.kind in ("reduction", "row", "scan"):
                yield from row_calls(entry, dtype)
    yield from training_steps()


def random(shape, dtype: str, low: float, high: float):
    import flambeau

    x = (flambeau.rand(shape) * (high - low) + low).to(getattr(flambeau, dtype))
    return x.requires_grad_() if x.is_floating_point() else x


def pointwise_calls(entry, dtype: str) -> Iterator[Callable]:
    """Operands alike; the last a row, a column, a number; all transposed."""
    names, (low, high) = entry.details["operands"], entry.domain
    numbers = {
        n: 0.5
        for n, p in entry.function.__signature__.parameters.items()
        if p.default is p.empty and n not in names
    }

    def operands(shapes) -> list:
        masks = ("condition", "mask")
        return [
            random(s, "float32", -1.0, 1.0) > 0 if n in masks else random(s, dtype, low, high)
            for n, s in zip(names, shapes)
        ]

    last = len(names) - 1
    yield lambda: entry.function(*operands([(6,)] * len(names)), **numbers)
    yield lambda: entry.function(*[x.t() for x in operands([(6, 5)] * len(names))], **numbers)
    if last:
        yield lambda: entry.function(*operands([(5, 6)] * last + [(6,)]), **numbers)
        yield lambda: entry.function(*operands([(5, 6)] * last + [(5, 1)]), **numbers)
        yield lambda: entry.function(*operands([(6,)] * last), (low + high) / 2, **numbers)


def row_calls(entry, dtype: str) -> Iterator[Callable]:
    """Along the last dimension, the first, and, where it may be left out, all; rows long enough to be cut, too."""
    for shape, dims in (
        ((8, 9), (-1,)),
        ((8, 9), (0,)),
        ((8, 9), ()),
        ((1 << 16,), (0,)),
        ((512, 600), (0,)),
    ):
        yield lambda shape=shape, dims=dims: entry.function(random(shape, dtype, *entry.domain), *dims)


def training_steps() -> Iterator[Callable]:
    import flambeau
    from flambeau import nn

    images, sequence = (2, 1, 12, 12), (2, 5, 8)
    networks: list[tuple[tuple[int, ...], Callable[[], nn.Module]]] = [
        ((4, 8), lambda: nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 3))),
        ((4, 8), lambda: nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Linear(8, 3))),
        (images, lambda: _convolutions(nn)),
        (sequence, lambda: nn.Sequential(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), nn.Flatten(), nn.Linear(40, 3))),
        (sequence, lambda: _Last(nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 3))),
        (sequence, lambda: _Last(nn.GRU(8, 8, batch_first=True), nn.Linear(8, 3))),
    ]  # fmt: skip
    optimisers = [
        lambda p: flambeau.optim.SGD(p, lr=0.01),
        lambda p: flambeau.optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=1e-4),
        lambda p: flambeau.optim.Adam(p),
        lambda p: flambeau.optim.AdamW(p),
    ]
    for shape, network in networks:
        for optimiser in optimisers:
            yield lambda shape=shape, network=network, optimiser=optimiser: step(shape, network(), optimiser)


def _convolutions(nn):
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 8, 3), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3),
    )  # fmt: skip


def _Last(recurrent, head):  # noqa: N802
    return lambda x: head(recurrent(x)[0][:, -1])


def step(shape, network, optimiser) -> None:
    import flambeau
    from flambeau import nn

    layers = [network] if isinstance(network, nn.Module) else [c.cell_contents for c in network.__closure__]
    chosen = optimiser([p for layer in layers for p in layer.parameters()])
    for _ in range(2):
        chosen.zero_grad()
        loss = nn.functional.cross_entropy(network(flambeau.randn(shape)), flambeau.zeros(shape[0]).long())
        loss.backward()
        chosen.step()


def main(arguments: Sequence[str]) -> None:
    parts = [a for a in arguments if a.startswith("--part=")]
    dtypes = [a for a in arguments if not a.startswith("--")] or ["float32"]
    if parts:
        number, of = parts[0].removeprefix("--part=").split("/")
        print(*part(dtypes, int(number), int(of)))
        return
    for name, value in warm(dtypes).items():
        print(f"{name}: {value:.1f}" if isinstance(value, float) else f"{name}: {value}")
