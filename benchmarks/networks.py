"""Eight whole networks, trained and asked, and a decoder that generates with a cache, beside PyTorch.

    python benchmarks/networks.py                            # all, 1 thread, as a Markdown table
    python benchmarks/networks.py --threads 2 --cases 'resnet|train' --rounds 5
    python benchmarks/networks.py --autocast bfloat16        # forward and loss of all sides under autocast
    python benchmarks/networks.py --capability avx2          # all sides held to AVX2, on whatever x86 processor
    python benchmarks/networks.py --sides flambeau:compiled,flambeau,torch,torch:compiled      # each run as one compiled function
    python benchmarks/networks.py --profile resnet50.train.16    # where flambeau's time goes

The networks stand in `architectures.py`.  `infer`: evaluation mode without gradients; `train`: gradients set to None, forward,
cross-entropy, backward, a step of SGD with momentum.  Each library runs in a process of its own and they take turns, run by run;
times are the least of all rounds.  Before a case is timed all sides start from the same weights, and their outputs (of a step,
without dropout, the loss and the norms of gradients) must agree within 1 %, under autocast within 5 %.  A ratio is another side's
time / the first side's.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
from architectures import initialise, networks
from versus import HELD

IMAGES = ("resnet18", "resnet50", "mobilenetv3", "convnext", "vit_tiny")
WORDS = {"gpt2": 50257, "bert": 30522, "lstm": 10000, "llama": 8000}
# Side of the images, or words of a sentence: (infer, train) at batch 1 and at batch 16, so that a run takes less than 2 s.
SIZES = dict.fromkeys(IMAGES, {1: (224, 128), 16: (224, 64)}) | {
    "gpt2": {1: (128, 64), 16: (32, 16)},
    "bert": {1: (128, 64), 16: (32, 32)},
    "lstm": {1: (64, 64), 16: (35, 35)},
    "llama": {1: (256, 64), 16: (256, 16)},
}
CASES = [f"{name}.{way}.{batch}" for name in SIZES for way in ("infer", "train") for batch in (1, 16)]


def prepared(
    t, case: str, compiled: bool = False, lower: str = ""
) -> tuple[Callable[[], object], list[float]]:
    """A run of the case, under autocast to the dtype `lower` where one is given, and numbers that all sides should find."""

    def cast():
        return t.autocast("cpu", dtype=getattr(t, lower)) if lower else contextlib.nullcontext()

    name, way, batch = case.split(".")
    size = SIZES[name][int(batch)][way == "train"]
    net = initialise(t, networks(t)[name]())
    numbers = np.random.default_rng(7)
    if name in IMAGES:
        x = t.from_numpy(numbers.standard_normal((int(batch), 3, size, size), dtype=np.float32))
        y = t.arange(int(batch)) % 10
    else:
        x = t.from_numpy(numbers.integers(0, WORDS[name], (int(batch), size)))
        y = t.arange(int(batch)) % 2 if name == "bert" else x.flatten().roll(-1)
    if way == "infer":
        net.eval()

        def ask():
            with t.no_grad(), cast():
                return net(x)

        ask = t.compile(ask) if compiled else ask
        return ask, ask().float().flatten()[:: max(1, ask().numel() // 64)].tolist()

    optimiser = t.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)

    def step():
        optimiser.zero_grad()
        with cast():
            loss = t.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimiser.step()
        return loss

    step = t.compile(step) if compiled else step
    drops = [m for m in net.modules() if isinstance(m, t.nn.Dropout)]
    rnns = [m for m in net.modules() if isinstance(m, t.nn.LSTM)]
    before = [m.p for m in drops], [m.dropout for m in rnns]
    for m in drops:
        m.p = 0.0
    for m in rnns:
        m.dropout = 0.0
    checks = [step().item()] + [p.grad.norm().item() for p in list(net.parameters())[::-8]]
    for m, p in zip(drops, before[0]):
        m.p = p
    for m, p in zip(rnns, before[1]):
        m.dropout = p
    return step, checks


def timed(run: Callable[[], object], seconds: float, clock: Callable[[], float]) -> float:
    """The least seconds of one run, of as many as fit."""
    best, stop = float("inf"), time.perf_counter() + seconds
    while True:
        began = clock()
        run()
        best = min(best, clock() - began)
        if time.perf_counter() > stop:
            return best


def serve(side: str, threads: int, clock: Callable[[], float], lower: str) -> None:
    """Answers lines `[case, seconds]` with the numbers of a new case, or with a time."""
    library, _, compiled = side.partition(":")
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    t = importlib.import_module(library)
    t.set_num_threads(threads)
    held: dict[str, Callable] = {}
    for line in sys.stdin:
        case, seconds = json.loads(line)
        if case not in held:
            held.clear()
            held[case], checks = prepared(t, case, bool(compiled), lower)
            held[case]()
            out.write(json.dumps(checks) + "\n")
        else:
            out.write(json.dumps(timed(held[case], seconds, clock)) + "\n")


class Side:
    def __init__(self, library: str, threads: int, cpu: bool, lower: str, held: bool):
        count = str(threads)
        env = dict(os.environ, OMP_NUM_THREADS=count, MKL_NUM_THREADS=count, OPENBLAS_NUM_THREADS=count)
        env |= HELD if held else {}
        command = [
            sys.executable,
            __file__,
            "--serve",
            library,
            "--threads",
            count,
            *(["--cpu"] if cpu else []),
            *(["--autocast", lower] if lower else []),
        ]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=env
        )

    def ask(self, case: str, seconds: float = 0.0):
        self.process.stdin.write(json.dumps([case, seconds]) + "\n")
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.process.args[3]} ended in {case}")
        return json.loads(line)


def table(
    cases: list[str],
    names: list[str],
    threads: int,
    rounds: int,
    seconds: float,
    cpu: bool,
    lower: str,
    held: bool,
) -> None:
    sides = [Side(name, threads, cpu, lower, held) for name in names]
    near = 5e-2 if lower else 1e-2
    titles = [f"{name.replace('torch', 'PyTorch').replace(':', ', ')}, ms" for name in names]
    titles += ["ratio"] if len(names) == 2 else [f"/ {title[:-4]}" for title in titles[1:]]
    print(f"| network | size | batch | way | {' | '.join(titles)} |\n|{'---|' * (4 + len(titles))}")
    ratios: list[list[float]] = []
    for case in cases:
        name, way, batch = case.split(".")
        ours, *others = (np.array(side.ask(case)) for side in sides)
        for theirs in others:
            if not np.allclose(ours, theirs, rtol=near, atol=near / 10 * np.abs(theirs).max()):
                print(f"{case}: {ours} here, {theirs} there", file=sys.stderr)
                raise SystemExit(1)
        times = [[side.ask(case, seconds) for side in sides] for _ in range(rounds)]
        mine, *other = (min(column) for column in zip(*times))
        ratios.append([t / mine for t in other])
        size = SIZES[name][int(batch)][way == "train"]
        print(
            f"| {name} | {size} | {batch} | {way} | {' | '.join(f'{t * 1e3:.1f}' for t in (mine, *other))} | "
            f"{' | '.join(f'{r:.2f}' for r in ratios[-1])} |",
            flush=True,
        )
    for name, column in zip(names[1:], zip(*ratios)):
        mean, good = float(np.exp(np.mean(np.log(column)))), sum(r >= 1 for r in column)
        beside = f" beside {name.replace(':', ', ')}" if len(names) > 2 else ""
        least = f", least {min(column):.2f}" if len(names) > 2 else ""
        print(f"\n{len(column)} cases{beside}, {good} at or above 1, geometric mean {mean:.2f}{least}.")


def profile(case: str, library: str, threads: int, lower: str) -> None:
    t = importlib.import_module(library)
    t.set_num_threads(threads)
    run, _ = prepared(t, case, lower=lower)
    run()
    with t.profiler.profile() as p:
        for _ in range(3):
            run()
    print(p.key_averages().table(sort_by="self_cpu_time_total", row_limit=30))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", default="", help="regular expression on names such as resnet18.train.16")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.3, help="a side's time in one round")
    parser.add_argument(
        "--sides", default="flambeau,torch", help="libraries, each by itself or as `flambeau:compiled`"
    )
    parser.add_argument(
        "--cpu", action="store_true", help="time on the processor, for busy machines: 1 thread"
    )
    parser.add_argument(
        "--autocast", choices=("bfloat16", "float16"), default="", help="the lower dtype of all sides"
    )
    parser.add_argument(
        "--capability", choices=("avx2",), default="", help="instructions that all sides are held to"
    )
    parser.add_argument("--profile", metavar="CASE", help="show where the time of one case goes")
    parser.add_argument("--library", default="flambeau", help="whose time --profile shows")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.serve:
        serve(o.serve, o.threads, time.process_time if o.cpu else time.perf_counter, o.autocast)
    elif o.profile:
        profile(o.profile, o.library, o.threads, o.autocast)
    else:
        cases = [c for c in CASES if re.search(o.cases, c)]
        table(
            cases, o.sides.split(","), o.threads, o.rounds, o.seconds, o.cpu, o.autocast, bool(o.capability)
        )


if __name__ == "__main__":
    main()
