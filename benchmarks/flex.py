"""Attention with functions of scores: flex_attention here, PyTorch's eager one, and our own scaled_dot_product_attention.

    python benchmarks/flex.py                 # every case, 1 thread, as a Markdown table
    python benchmarks/flex.py --threads 2 --cases 'causal|window'

Needs PyTorch, whose eager flex_attention holds all scores; what its compiler makes of them is not measured.  A column `whole` is the
same attention by scaled_dot_product_attention, all scores at once, masks and biases made as tensors beforehand.  Times are the least
of three repeats, in milliseconds; memory is the peak of one forward and backward pass above its operands, in megabytes.
"""

from __future__ import annotations

import argparse
import importlib
import math
import re
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

SIZES = ((4, 8, 256, 64), (1, 8, 1024, 64), (1, 2, 4096, 64))  # batch, heads, length, width


class Case(NamedTuple):
    """Functions of a library and its captured tensors, and the mask or bias that says the same."""

    score: Callable | None
    mask: Callable | None


def cases(t, heads: int, length: int) -> dict[str, Case]:
    slope = t.exp2(-8.0 * t.arange(1, heads + 1) / heads)
    table = t.linspace(-1, 1, 2 * length).repeat(heads, 1)
    document = t.arange(length) * 8 // length
    return {
        "plain": Case(None, None),
        "causal": Case(None, lambda b, h, q, k: q >= k),
        "window of 128": Case(None, lambda b, h, q, k: (q >= k) & (q - k < 128)),
        "alibi": Case(lambda s, b, h, q, k: s + slope[h] * (k - q), None),
        "relative table": Case(lambda s, b, h, q, k: s + table[h, q - k + length], None),
        "soft cap, causal": Case(lambda s, b, h, q, k: 20 * t.tanh(s / 20), lambda b, h, q, k: q >= k),
        "8 documents": Case(None, lambda b, h, q, k: document[q] == document[k]),
    }


def least(function: Callable) -> float:
    """Milliseconds of a call."""
    function()
    shortest = math.inf
    for _ in range(3):
        begin = time.perf_counter()
        function()
        shortest = min(shortest, time.perf_counter() - begin)
    return shortest * 1e3


def both_ways(function: Callable, leaves: list) -> Callable:
    for x in leaves:
        x.requires_grad_()

    def run() -> None:
        for x in leaves:
            x.grad = None
        function().sum().backward()

    return run


def peak(t, function: Callable) -> float:
    """Megabytes that a call takes at most above what is held before it."""
    before = t.cpu.memory_allocated()
    t.cpu.reset_peak_memory_stats()
    function()
    return (t.cpu.max_memory_allocated() - before) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cases", default="", help="a regular expression")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    ours, theirs = importlib.import_module("flambeau"), importlib.import_module("torch")
    eager = importlib.import_module("torch.nn.attention.flex_attention")
    flex = importlib.import_module("flambeau.nn.attention.flex_attention")
    backends = importlib.import_module("flambeau.nn.attention")
    eager._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = True  # PyTorch's name for "do not look for a compiler"
    print(
        "| case | flex | PyTorch's flex | ratio | whole | flex, both ways | whole, both ways | flex, MB | whole, MB |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    ratios = []
    for size in SIZES:
        for name in cases(ours, size[1], size[2]):
            if not re.search(chosen.cases, name):
                continue
            sides: list[Callable] = []
            for t, module in ((ours, flex), (theirs, eager)):
                t.set_num_threads(chosen.threads)
                t.manual_seed(0)
                score, mask = cases(t, size[1], size[2])[name]
                blocks = (
                    module.create_block_mask(mask, None, None, *size[2:3] * 2, device="cpu") if mask else None
                )
                leaves = [t.randn(*size) for _ in range(3)]
                sides.append(lambda m=module, x=leaves, s=score, b=blocks: m.flex_attention(*x, s, b))
                if t is ours:
                    mine, bias = leaves, whole_bias(t, flex, score, mask, size)

            def call(x=mine, a=bias):
                with backends.sdpa_kernel(backends.SDPBackend.MATH):
                    return ours.nn.functional.scaled_dot_product_attention(*x, **a)

            with ours.no_grad(), theirs.no_grad():
                times = [least(f) for f in (*sides, call)]
            passes = [both_ways(f, mine) for f in (sides[0], call)]
            times += [least(f) for f in passes]
            memory = [peak(ours, f) for f in passes]
            ratios.append(times[1] / times[0])
            row = [f"{x:.2f}" for x in (*times[:2], ratios[-1], *times[2:])] + [f"{x:.1f}" for x in memory]
            print(f"| {name} {size} | {' | '.join(row)} |", flush=True)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"\n{len(ratios)} cases, PyTorch's time / ours: geometric mean {mean:.2f}, least {min(ratios):.2f}")


def whole_bias(t, flex, score: Callable | None, mask: Callable | None, size: tuple) -> dict[str, Any]:
    """The options of scaled_dot_product_attention that come closest: its mask or bias as a tensor, which no soft cap is."""
    if mask is not None:
        return {"attn_mask": flex.create_mask(mask, 1, 1, size[2], size[2])}
    if score is None:
        return {}
    b, h, q, k = (
        t.tensor(0),
        t.arange(size[1]).reshape(-1, 1, 1),
        t.arange(size[2]).reshape(-1, 1),
        t.arange(size[2]),
    )
    return {"attn_mask": score(t.zeros(1, size[1], size[2], size[2]), b, h, q, k)}


if __name__ == "__main__":
    main()
