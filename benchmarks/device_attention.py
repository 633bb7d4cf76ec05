"""Attention on a device: one kernel beside all scores, forward, and forward with gradients.

python benchmarks/device_attention.py [--device opencl] [--small]

Each line has a size, the milliseconds of both (the fastest of several runs in turn), what the kernel takes of the others' time, and
which of them `scaled_dot_product_attention` takes.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable

import flambeau
from flambeau.nn import functional as F
from flambeau.nn.attention import SDPBackend, sdpa_kernel
from flambeau.operations.neural.attention import on_device

SIZES = [(length, width) for width in (16, 64, 128) for length in (128, 256, 512, 1024)]
KINDS = ("plain", "causal", "bool", "added")
HEADS = 4


def timed(run: Callable[[], object], device: str) -> float:
    """Milliseconds of a call."""
    start = time.perf_counter()
    run()
    getattr(flambeau, device).synchronize()
    return 1e3 * (time.perf_counter() - start)


def both(
    length: int, width: int, kind: str, device: str, gradients: bool, runs: int
) -> tuple[float, float, bool]:
    """The fastest run with all scores, that of the kernel, and whether the kernel is taken."""
    q, k, v = (flambeau.randn(1, HEADS, length, width).to(device) for _ in range(3))
    mask = {
        "bool": lambda: flambeau.rand(length, length) < 0.7,
        "added": lambda: flambeau.randn(length, length),
    }
    mask_tensor = mask[kind]().to(device) if kind in mask else None
    if gradients:
        q, k, v = (t.requires_grad_() for t in (q, k, v))

    def run(backend: SDPBackend) -> None:
        with sdpa_kernel(backend):
            out = F.scaled_dot_product_attention(q, k, v, mask_tensor, is_causal=kind == "causal")
        if gradients:
            flambeau.autograd.grad(out.sum(), (q, k, v))

    times: dict[SDPBackend, list[float]] = {SDPBackend.MATH: [], SDPBackend.FLASH_ATTENTION: []}
    for _ in range(runs + 1):
        for backend, samples in times.items():
            samples.append(timed(functools.partial(run, backend), device))
    taken = on_device.taken(q, k, v, mask_tensor, 0 if kind == "causal" else None)
    all_scores, kernel = (min(samples[1:]) for samples in times.values())  # the first run compiles
    return all_scores, kernel, taken


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="opencl")
    parser.add_argument("--small", action="store_true", help="the two shortest lengths")
    args = parser.parse_args()
    print("| length | width | scores | gradients | all scores, ms | kernel, ms | kernel / all | taken |")
    print("|" + " --- |" * 8)
    for length, width in SIZES:
        if args.small and length > 256:
            continue
        for kind in KINDS:
            for gradients in (False, True):
                one = both(length, width, kind, args.device, gradients, 10 if length <= 256 else 4)
                cells = [length, width, kind, "yes" if gradients else "no", f"{one[0]:.2f}", f"{one[1]:.2f}"]
                cells += [f"{one[1] / one[0]:.2f}", "kernel" if one[2] else "all scores"]
                print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
