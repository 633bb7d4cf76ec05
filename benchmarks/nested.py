"""Sequences of different lengths: nested tensors beside padded ones, and both beside PyTorch's.

    python benchmarks/nested.py                 # every case as a Markdown table
    python benchmarks/nested.py --cases step --repeats 7

Needs PyTorch.  Times are milliseconds, the least of several, the four programs taking turns in one process; `of PyTorch's` is
PyTorch's time for the same nested program divided by ours, `of padded` our padded program's time divided by our nested one's.
A step is forward, backward and AdamW of two transformer layers.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import re
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

BATCH, LONGEST, WIDTH, HEADS = 16, 256, 128, 4


def lengths() -> list[int]:
    """As of sentences: many short, few long."""
    return [max(8, LONGEST * (k + 1) ** 2 // BATCH**2) for k in range(BATCH)]


def layer(t: Any) -> Any:
    """A transformer's layer over padded batches with a mask, or over nested ones."""

    class Layer(t.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = t.nn.LayerNorm(WIDTH), t.nn.LayerNorm(WIDTH)
            self.q, self.k, self.v, self.out = (t.nn.Linear(WIDTH, WIDTH) for _ in range(4))
            self.up, self.down = t.nn.Linear(WIDTH, 4 * WIDTH), t.nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x: Any, mask: Any) -> Any:
            y = self.first(x)
            q, k, v = (
                m(y).unflatten(-1, (HEADS, WIDTH // HEADS)).transpose(1, 2) for m in (self.q, self.k, self.v)
            )
            seen = t.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            x = x + self.out(seen.transpose(1, 2).flatten(-2))
            return x + self.down(t.nn.functional.gelu(self.up(self.second(x))))

    return Layer()


def cases(t: Any, nested: bool) -> dict[str, Callable]:
    """The programs, over nested tensors or over padded ones."""
    t.manual_seed(0)
    F, n = t.nn.functional, lengths()
    parts = [t.randn(k, WIDTH) for k in n]
    whole = t.nested.nested_tensor(parts, layout=t.jagged)
    there = t.arange(LONGEST)[None] < t.tensor(n)[:, None]
    padded = whole.to_padded_tensor(0.0, (BATCH, LONGEST, WIDTH))
    x, mask = (whole, None) if nested else (padded, there[:, None, None, :])
    linear, norm, layers = t.nn.Linear(WIDTH, WIDTH), t.nn.LayerNorm(WIDTH), [layer(t) for _ in range(2)]
    heads = x.unflatten(-1, (HEADS, WIDTH // HEADS)).transpose(1, 2)
    optimizer = t.optim.AdamW([p for m in layers for p in m.parameters()], lr=1e-4)

    def step() -> None:
        y = x
        for m in layers:
            y = m(y, mask)
        flat = y.values() if nested else y[there]
        (flat * flat).mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    def backward(f: Callable, *operands: Any) -> Callable:
        leaves = [p.detach().requires_grad_() for p in operands]

        def run() -> None:
            result = f(*leaves)
            t.autograd.grad(result.values().sum() if nested else result.sum(), leaves)

        return run

    def attend(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    filled = x if nested else padded.masked_fill(~there[:, :, None], float("-inf"))
    return {
        "add": lambda: x + x,
        "gelu": lambda: F.gelu(x),
        "linear": lambda: linear(x),
        "layer_norm": lambda: norm(x),
        "softmax, sequences": lambda: filled.softmax(1),
        "sum, sequences": lambda: x.sum(1),
        "mean, sequences": lambda: x.mean(1) if nested else x.sum(1) / there.sum(1, keepdim=True),
        "amax, sequences": lambda: filled.amax(1),
        "cat, last": lambda: t.cat([x, x], -1),
        "heads apart": lambda: x.unflatten(-1, (HEADS, WIDTH // HEADS)).transpose(1, 2),
        "attention": lambda: attend(heads, heads, heads),
        "attention, both ways": backward(attend, heads, heads, heads),
        "to_padded_tensor": (lambda: x.to_padded_tensor(0.0)) if nested else (lambda: padded.clone()),
        "unbind": lambda: x.unbind(),
        "construction": (lambda: t.nested.nested_tensor(parts, layout=t.jagged))
        if nested
        else (lambda: t.nn.utils.rnn.pad_sequence(parts, True)),
        "step": step,
    }


def least(programs: list[Callable], repeats: int) -> Iterator[float]:
    """The least time of each, in milliseconds, taking turns."""
    shortest = [float("inf")] * len(programs)
    counts = []
    for program in programs:
        program()
        begin = time.perf_counter()
        program()
        counts.append(max(1, int(0.02 / max(time.perf_counter() - begin, 1e-7))))
    for _ in range(repeats):
        for k, (program, count) in enumerate(zip(programs, counts)):
            begin = time.perf_counter()
            for _ in range(count):
                program()
            shortest[k] = min(shortest[k], (time.perf_counter() - begin) / count * 1e3)
    yield from shortest


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", default="", help="a pattern for names of cases")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable()
    ours, theirs = importlib.import_module("flambeau"), importlib.import_module("torch")
    for t in (ours, theirs):
        t.set_num_threads(asked.threads)
    tables = [cases(t, nested) for t in (ours, theirs) for nested in (True, False)]
    tokens = sum(lengths())
    print(
        f"{BATCH} sequences of {min(lengths())} to {LONGEST}, {tokens} tokens of {BATCH * LONGEST} padded, width {WIDTH}\n"
    )
    print("| case | nested | padded | PyTorch nested | PyTorch padded | of PyTorch's | of padded |")
    print("|---|---|---|---|---|---|---|")
    for name in tables[0]:
        if not re.search(asked.cases, name):
            continue
        times = list(least([table[name] for table in tables], asked.repeats))
        shown = " | ".join(f"{x:.4f}" for x in times)
        print(f"| {name} | {shown} | {times[2] / times[0]:.2f} | {times[1] / times[0]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
