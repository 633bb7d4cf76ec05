"""What passes over graphs save: functions planned with a pass as it is, with the pass doing all that it could, and without it, run in turn.

    python benchmarks/graph_passes.py [--cases REGEX] [--rounds 15]

Times are microseconds of the best round; `all/none` and `chosen/none` are ratios of times: below 1 a pass saves.  `steps` counts the steps
of each of the three plans.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import flambeau as torch
from flambeau.graph import lower
from flambeau.graph.passes import common
from flambeau.graph.passes.constants import _Constants
from flambeau.graph.program import Program
from flambeau.graph.trace import record

Case = tuple[str, Callable[..., Any], tuple[Any, ...]]


def twice() -> Iterator[Case]:
    """f(x) summed over rows, and over columns, which are two kernels."""
    functions: dict[str, Callable[[Any], Any]] = {
        "x * 2": lambda x: x * 2,
        "sqrt(x * x + 1)": lambda x: (x * x + 1).sqrt(),
        "exp(x)": lambda x: x.exp(),
        "tanh(x)": lambda x: x.tanh(),
        "gelu(x)": torch.nn.functional.gelu,
        "sin(log1p(exp(x)))": lambda x: x.exp().log1p().sin(),
    }
    for shape in ((64, 1024), (2048, 4096)):
        for name, f in functions.items():
            x = torch.randn(shape)
            yield f"twice {name} {shape[0]}x{shape[1]}", lambda x, f=f: (f(x).sum(1), f(x).sum(0)), (x,)


def literals() -> Iterator[Case]:
    """What depends on sizes alone, beside scores of attention."""
    for n in (128, 512, 1024, 2048):
        functions: dict[str, Callable[..., Any]] = {
            "mask": lambda x, n: x + torch.full((n, n), -9.0).triu(1),
            "mask of bools": lambda x, n: x.masked_fill(torch.ones(n, n).triu(1) > 0, -9.0),
            "distances": lambda x, n: x - (torch.arange(n)[:, None] - torch.arange(n)).abs() * 0.1,
            "outer": lambda x, n: x * (torch.linspace(0, 1, n)[:, None] * torch.linspace(0, 1, n)),
            "exp of outer": lambda x, n: (
                x * (torch.linspace(0, 1, n)[:, None] * torch.linspace(0, 1, n)).exp()
            ),
            "positions": lambda x, n: x + (torch.arange(n) * 0.01).sin(),
            "fills": lambda x, n: x * torch.full((n, n), 3.0).log(),
        }
        for name, f in functions.items():
            yield f"literal {name} {n}x{n}", lambda x, f=f, n=n: f(x, n), (torch.randn(n, n),)


@contextmanager
def doing(how: str) -> Iterator[None]:
    """The passes as they are ("chosen"), wherever they could ("all"), or not at all ("none")."""
    if how == "chosen":
        yield
    elif how == "all":
        with (
            patch.object(common, "_is_long", lambda call: True),
            patch.object(_Constants, "pays", lambda *_: True),
        ):
            yield
    else:
        with patch.object(lower, "share", lambda *_: None), patch.object(lower, "fold", lambda *_: None):
            yield


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", default=".")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'case':44s} {'none':>9s} {'all/none':>9s} {'chosen/none':>12s}  steps")
    for name, function, tensors in (*twice(), *literals()):
        if not re.search(args.cases, name):
            continue
        plans = {}
        for how in ("none", "all", "chosen"):
            with doing(how):
                plans[how] = lower.plan(Program(record(function, *tensors)[0]))
        best = dict.fromkeys(plans, float("inf"))
        for _ in range(args.rounds):
            for how, runner in plans.items():
                begun = time.perf_counter()
                for _ in range(4):
                    runner(*tensors)
                best[how] = min(best[how], (time.perf_counter() - begun) / 4)
        none = best["none"]
        steps = " ".join(str(len(runner.report.steps)) for runner in plans.values())
        print(f"{name:44s} {none * 1e6:9.1f} {best['all'] / none:9.2f} {best['chosen'] / none:12.2f}  {steps}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
