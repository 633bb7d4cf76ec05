"""Time flambeau and PyTorch on an NVIDIA device, and write a table as Markdown.

    python tools/gpu_versus.py > table.md
    python tools/gpu_versus.py --cases 'gemm|rows' --rounds 9

A case is written once, as a function of the module.  Times are the device's, between two events around as many
calls as take about 20 ms; those of the group `host` are the processor's, for calls that are queued and not waited
for.  The two libraries take turns, and the table has the medians.  Without PyTorch, or with `--alone`, flambeau's
column stands alone; `--small` makes every size tiny, to see that all cases run.
"""

from __future__ import annotations

import argparse
import importlib
import re
import statistics
import time
from collections.abc import Callable
from typing import Any

Run = Callable[[], Any]
CASES: dict[str, Callable[[Any, Callable[[int], int]], Run]] = {}


def case(name: str) -> Callable:
    """Put a function of the module and of a scale for sizes under that name."""

    def add(make: Callable) -> Callable:
        CASES[name] = make
        return make

    return add


def on(t: Any, *sizes: int, dtype: str = "float32", grad: bool = False) -> Any:
    """Normal numbers on the device."""
    made = t.randn(*sizes, device="cuda").to(getattr(t, dtype))
    return made.requires_grad_() if grad else made


# --- what a call costs the processor ------------------------------
@case("host.add_4x4")
def _(t, n):
    a, b = on(t, 4, 4), on(t, 4, 4)
    return lambda: a + b


@case("host.softmax_4x4")
def _(t, n):
    a = on(t, 4, 4)
    return lambda: t.softmax(a, 1)


@case("host.matmul_4x4")
def _(t, n):
    a, b = on(t, 4, 4), on(t, 4, 4)
    return lambda: a @ b


@case("host.empty_4x4")
def _(t, n):
    return lambda: t.empty(4, 4, device="cuda")


# --- elements ------------------------------
for _dtype in ("float32", "bfloat16"):

    @case(f"pointwise.add_{_dtype}")
    def _(t, n, dtype=_dtype):
        a, b = on(t, n(1 << 26), dtype=dtype), on(t, n(1 << 26), dtype=dtype)
        return lambda: a + b

    @case(f"pointwise.exp_{_dtype}")
    def _(t, n, dtype=_dtype):
        a = on(t, n(1 << 26), dtype=dtype)
        return lambda: t.exp(a)

    @case(f"pointwise.gelu_{_dtype}")
    def _(t, n, dtype=_dtype):
        a = on(t, n(1 << 26), dtype=dtype)
        return lambda: t.nn.functional.gelu(a)


@case("pointwise.add_bias")
def _(t, n):
    a, b = on(t, n(8192), n(8192)), on(t, n(8192))
    return lambda: a + b


@case("pointwise.copy_transposed")
def _(t, n):
    a = on(t, n(8192), n(8192)).t()
    return lambda: a.contiguous()


@case("pointwise.cast_to_bfloat16")
def _(t, n):
    a = on(t, n(1 << 26))
    return lambda: a.to(t.bfloat16)


@case("pointwise.randn")
def _(t, n):
    return lambda: t.randn(n(1 << 26), device="cuda")


# --- rows ------------------------------
@case("reduction.sum_all")
def _(t, n):
    a = on(t, n(1 << 26))
    return lambda: a.sum()


@case("reduction.sum_rows")
def _(t, n):
    a = on(t, n(8192), n(8192))
    return lambda: a.sum(1)


@case("reduction.sum_columns")
def _(t, n):
    a = on(t, n(8192), n(8192))
    return lambda: a.sum(0)


@case("reduction.argmax_rows")
def _(t, n):
    a = on(t, n(8192), n(8192))
    return lambda: a.argmax(1)


@case("rows.softmax")
def _(t, n):
    a = on(t, n(8192), n(8192))
    return lambda: t.softmax(a, 1)


@case("rows.softmax_short")
def _(t, n):
    a = on(t, n(1 << 20), n(64))
    return lambda: t.softmax(a, 1)


@case("rows.layer_norm")
def _(t, n):
    a, w, b = on(t, n(16384), n(4096)), on(t, n(4096)), on(t, n(4096))
    return lambda: t.nn.functional.layer_norm(a, (n(4096),), w, b)


# --- products ------------------------------
for _dtype, _size in (("float32", 4096), ("float64", 4096), ("bfloat16", 8192), ("float16", 8192)):

    @case(f"gemm.square_{_size}_{_dtype}")
    def _(t, n, dtype=_dtype, size=_size):
        a, b = on(t, n(size), n(size), dtype=dtype), on(t, n(size), n(size), dtype=dtype)
        return lambda: a @ b


@case("gemm.transposed_bfloat16")
def _(t, n):
    a, b = on(t, n(4096), n(8192), dtype="bfloat16"), on(t, n(4096), n(8192), dtype="bfloat16")
    return lambda: a @ b.t()


@case("gemm.batched_bfloat16")
def _(t, n):
    a, b = on(t, n(512), n(512), n(512), dtype="bfloat16"), on(t, n(512), n(512), n(512), dtype="bfloat16")
    return lambda: a @ b


# --- training ------------------------------
def _step(t: Any, batch: int, width: int) -> Run:
    t.manual_seed(0)
    net = t.nn.Sequential(
        t.nn.Linear(width, 4 * width), t.nn.GELU(), t.nn.LayerNorm(4 * width), t.nn.Linear(4 * width, width)
    ).to("cuda")
    optimiser = t.optim.Adam(net.parameters(), lr=1e-4)
    x, y = on(t, batch, width), on(t, batch, width)

    def step() -> None:
        optimiser.zero_grad()
        ((net(x) - y) ** 2).mean().backward()
        optimiser.step()

    return step


@case("train.mlp_step")
def _(t, n):
    return _step(t, n(8192), n(1024))


@case("host.mlp_step_small")
def _(t, n):
    return _step(t, 32, 16)


# --- timing ------------------------------
def seconds_of_device(t: Any, run: Run, times: int) -> float:
    begin, end = t.cuda.Event(enable_timing=True), t.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(times):
        run()
    end.record()
    t.cuda.synchronize()
    return begin.elapsed_time(end) * 1e-3 / times


def seconds_of_host(t: Any, run: Run, times: int) -> float:
    t.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(times):
        run()
    spent = time.perf_counter() - begin
    t.cuda.synchronize()
    return spent / times


def measure(name: str, modules: list[Any], rounds: int, small: bool) -> list[float | str]:
    """For each module the median of seconds a call, or what was raised."""
    clock = seconds_of_host if name.startswith("host.") else seconds_of_device
    # The driver's queue holds some 1000 launches: more would time its waiting.
    most, budget = (200, 2e-3) if clock is seconds_of_host else (1000, 2e-2)
    scale = (lambda size: min(size, 8)) if small else (lambda size: size)
    runs: list[Run | str] = []
    for t in modules:
        try:
            run = CASES[name](t, scale)
            run()
            clock(t, run, 3)
            runs.append(run)
        except Exception as error:  # a table with a hole says more than none
            runs.append(f"{type(error).__name__}: {str(error).splitlines()[0][:80]}")
    samples: list[list[float]] = [[] for _ in modules]
    times = [
        1 if isinstance(run, str) else max(1, min(most, int(budget / max(clock(t, run, 3), 1e-9))))
        for t, run in zip(modules, runs)
    ]
    for _ in range(rounds):
        for k, (t, run) in enumerate(zip(modules, runs)):
            if not isinstance(run, str):
                samples[k].append(clock(t, run, times[k]))
    return [run if isinstance(run, str) else statistics.median(s) for run, s in zip(runs, samples)]


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--cases", default="", help="regular expression")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--alone", action="store_true", help="do not run PyTorch")
    options.add_argument("--small", action="store_true", help="tiny sizes, one round")
    chosen = options.parse_args()

    ours = importlib.import_module("flambeau")
    modules = [ours]
    if not chosen.alone:
        try:
            modules.append(importlib.import_module("torch"))
        except ImportError:
            print("PyTorch is not installed here.\n")
    beside = modules[1] if len(modules) > 1 else None
    print(f"{ours.cuda.get_device_name()}, PyTorch {beside.__version__ if beside else 'not run'}\n")
    print("| case | flambeau, µs | PyTorch, µs | ratio |\n|---|---|---|---|")
    failed = 0
    for name in CASES:
        if not re.search(chosen.cases, name):
            continue
        times = measure(name, modules, 1 if chosen.small else chosen.rounds, chosen.small)
        cells = [f"{value * 1e6:.2f}" if isinstance(value, float) else value for value in times]
        both = len(times) == 2 and isinstance(times[0], float) and isinstance(times[1], float)
        ratio = f"{times[1] / times[0]:.2f}" if both else ""  # type: ignore[operator]
        print(f"| {name} | {cells[0]} | {cells[1] if len(cells) > 1 else ''} | {ratio} |", flush=True)
        failed += isinstance(times[0], str)
        for t in modules:
            t.cuda.empty_cache()
    return failed > 0


if __name__ == "__main__":
    raise SystemExit(main())
