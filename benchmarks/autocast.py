"""Training steps and single calls under autocast in bfloat16, beside PyTorch and beside float32, in one run.

    python benchmarks/autocast.py [--threads 1] [--rounds 7] [--cases REGEX]     # a Markdown table

Each round does every case with both libraries, one after the other; times are the least, in milliseconds.  `ratio` is PyTorch's time
under autocast over flambeau's; `f32` is flambeau's own time without autocast.  Losses of both libraries begin from the same
parameters and stand beside each other.  Needs PyTorch.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import math
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

LIBRARIES = ("torch", "flambeau")


def filled(t: Any, *shape: int) -> Any:
    """The same numbers in both libraries."""
    n = math.prod(shape)
    return (t.sin(t.arange(n, dtype=t.float64) * 12.9898) * 0.5).reshape(shape).float()


def settle(t: Any, net: Any) -> Any:
    """The same parameters in both libraries."""
    with t.no_grad():
        for p in net.parameters():
            p.copy_(filled(t, *p.shape) * (1 / math.sqrt(p.shape[-1]) if p.dim() > 1 else 0.1))
    return net


def trained(t: Any, net: Any, forward: Callable) -> Callable[[bool], float]:
    """A training step by SGD."""
    optimiser = t.optim.SGD(net.parameters(), lr=1e-3)

    def step(cast: bool) -> float:
        optimiser.zero_grad()
        with t.autocast("cpu", dtype=t.bfloat16) if cast else contextlib.nullcontext():
            loss = forward()
        loss.backward()
        optimiser.step()
        return float(loss.detach())

    return step


def mlp(t: Any, batch: int, width: int) -> Callable:
    nn = t.nn
    net = settle(
        t,
        nn.Sequential(
            nn.Linear(width, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 10)
        ),
    )
    x, y = filled(t, batch, width), t.arange(batch) % 10
    return trained(t, net, lambda: nn.functional.cross_entropy(net(x), y))


def encoder(t: Any, batch: int, length: int, width: int) -> Callable:
    nn = t.nn
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
    net = settle(t, nn.TransformerEncoder(layer, 2, enable_nested_tensor=False))
    x = filled(t, batch, length, width)
    return trained(t, net, lambda: net(x).square().mean())


def gpt(t: Any, batch: int, length: int, width: int) -> Callable:
    nn, F = t.nn, t.nn.functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            q, k, v = (
                part.reshape(batch, length, 4, width // 4).transpose(1, 2)
                for part in self.qkv(self.first(x)).chunk(3, -1)
            )
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(F.gelu(self.up(self.second(x))))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = nn.Embedding(512, width), nn.Linear(width, 512)
            self.blocks = nn.Sequential(Block(), Block())

        def forward(self, tokens):
            return self.head(self.blocks(self.embedding(tokens)))

    net = settle(t, Net())
    tokens = t.arange(batch * length).reshape(batch, length) % 512
    return trained(t, net, lambda: F.cross_entropy(net(tokens).flatten(0, 1), tokens.flatten()))


def convnet(t: Any, batch: int, size: int, narrow: bool) -> Callable:
    """Residual blocks of 64 to 512 channels: two windows of 3 × 3 each, or, `narrow`, one between two of 1 × 1."""
    nn, F = t.nn, t.nn.functional

    def normed(channels: int, filters: int, window: int, stride: int = 1) -> Any:
        conv = nn.Conv2d(channels, filters, window, stride, window // 2, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(filters))

    class Block(nn.Module):
        def __init__(self, channels: int, filters: int, stride: int) -> None:
            super().__init__()
            inner = filters // 4 if narrow else filters
            first = normed(channels, inner, 1 if narrow else 3, 1 if narrow else stride)
            rest = (
                (normed(inner, inner, 3, stride), nn.ReLU(), normed(inner, filters, 1))
                if narrow
                else (normed(inner, filters, 3),)
            )
            self.body = nn.Sequential(first, nn.ReLU(), *rest)
            self.skip = normed(channels, filters, 1, stride) if channels != filters else nn.Identity()

        def forward(self, x):
            return F.relu(self.body(x) + self.skip(x))

    widths = (64, 64, 128, 256, 512)
    blocks = [Block(a, b, 1 if a == b else 2) for a, b in zip(widths, widths[1:])]
    net = nn.Sequential(normed(3, 64, 7, 2), nn.ReLU(), *blocks)
    net = settle(t, nn.Sequential(net, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)))
    x, y = filled(t, batch, 3, size, size), t.arange(batch) % 10
    return trained(t, net, lambda: F.cross_entropy(net(x), y))


def product(t: Any, n: int) -> Callable:
    x, w = filled(t, n, n), filled(t, n, n)

    def call(cast: bool) -> float:
        with t.autocast("cpu", dtype=t.bfloat16) if cast else contextlib.nullcontext():
            for _ in range(10):
                result = t.nn.functional.linear(x, w)
        return float(result[0, 0])

    return call


def few(t: Any) -> Callable:
    """What a call costs: 100 additions, and 100 products of 2 × 2 whose operands are of the lower dtype."""
    x, y = t.ones(2, 2), t.ones(2, 2, dtype=t.bfloat16)

    def call(cast: bool) -> float:
        with t.no_grad(), t.autocast("cpu", dtype=t.bfloat16) if cast else contextlib.nullcontext():
            for _ in range(100):
                x + x
                y @ y
        return 0.0

    return call


CASES: dict[str, Callable[[Any], Callable[[bool], float]]] = {
    "100 a + b and a @ b of 2 × 2": few,
    "10 linear, 256 × 256": lambda t: product(t, 256),
    "10 linear, 1024 × 1024": lambda t: product(t, 1024),
    "MLP step, batch 32, width 64": lambda t: mlp(t, 32, 64),
    "MLP step, batch 256, width 512": lambda t: mlp(t, 256, 512),
    "nn.TransformerEncoder step, 2 layers, (8, 64, 128)": lambda t: encoder(t, 8, 64, 128),
    "nn.TransformerEncoder step, 2 layers, (8, 128, 256)": lambda t: encoder(t, 8, 128, 256),
    "residual network step, 3 × 3, (8, 3, 64, 64)": lambda t: convnet(t, 8, 64, False),
    "residual network step, 3 × 3, (8, 3, 128, 128)": lambda t: convnet(t, 8, 128, False),
    "residual network step, 1 × 1 and 3 × 3, (8, 3, 128, 128)": lambda t: convnet(t, 8, 128, True),
    "GPT block step, 2 blocks, (8, 64, 128)": lambda t: gpt(t, 8, 64, 128),
    "GPT block step, 2 blocks, (8, 128, 256)": lambda t: gpt(t, 8, 128, 256),
}


def milliseconds(call: Callable[[bool], float], cast: bool) -> float:
    begin = time.perf_counter()
    call(cast)
    return (time.perf_counter() - begin) * 1e3


def rows(threads: int, rounds: int, only: str) -> Iterator[str]:
    libraries = {name: importlib.import_module(name) for name in LIBRARIES}
    for t in libraries.values():
        t.set_num_threads(threads)
    for name, make in CASES.items():
        if not re.search(only, name):
            continue
        steps = {library: make(t) for library, t in libraries.items()}
        losses = {library: step(True) for library, step in steps.items()}
        ways = [("torch", True), ("flambeau", True), ("torch", False), ("flambeau", False)]
        least = dict.fromkeys(ways, math.inf)
        for way in ways:
            steps[way[0]](way[1])
        for _ in range(rounds):
            for way in ways:
                least[way] = min(least[way], milliseconds(steps[way[0]], way[1]))
        theirs, ours, their_single, single = (least[way] for way in ways)
        yield (
            f"| {name} | {theirs:.3f} | {ours:.3f} | {theirs / ours:.2f} | {their_single:.3f} | {single:.3f} | "
            f"{losses['torch']:.4f} | {losses['flambeau']:.4f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cases", default=".")
    args = parser.parse_args()
    print(
        "| case | PyTorch, autocast | flambeau, autocast | ratio | PyTorch f32 | f32 | loss, PyTorch | loss |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for row in rows(args.threads, args.rounds, args.cases):
        print(row, flush=True)


if __name__ == "__main__":
    main()
