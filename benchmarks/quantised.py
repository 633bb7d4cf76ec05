"""One token of a decoder whose weights are of fewer bits, beside PyTorch, and how much of the memory's bandwidth that takes.

    python benchmarks/quantised.py [--threads 2] [--shapes gpt2,llama] [--ways eager,compiled] [--seconds 3]     # a Markdown table

A step reads one token and 128 places of a cache, at batch 1.  `share` is the bytes of all weights that a step reads over its time, as
part of `GB/s`, the bandwidth of a sum over 1 GiB with as many threads, taken in turns with the steps.  Times are the least, in
milliseconds.  `error` is the largest difference of a logit from flambeau's in float32, over the logits' standard deviation.  Needs
PyTorch, and memory for two models in float32.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

PLACES = 129


class Shape(NamedTuple):
    """A decoder's sizes: of a word's vector, of the inner layer, heads, heads of keys and values, blocks, words."""

    dim: int
    inner: int
    heads: int
    pairs: int
    blocks: int
    words: int


SHAPES = {"gpt2": Shape(768, 3072, 12, 12, 12, 50257), "llama": Shape(2048, 8192, 32, 8, 16, 32000)}


def empty_decoder(t: Any, shape: Shape, device: str) -> Any:
    """A Llama of that shape (Touvron et al., 2023) with grouped heads; a step takes a word at the last place."""
    nn, F = t.nn, t.nn.functional
    width = shape.dim // shape.heads

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.RMSNorm(shape.dim), nn.RMSNorm(shape.dim)
            self.q = nn.Linear(shape.dim, shape.dim, bias=False)
            self.k, self.v = (nn.Linear(shape.dim, shape.pairs * width, bias=False) for _ in range(2))
            self.out = nn.Linear(shape.dim, shape.dim, bias=False)
            self.gate, self.up = (nn.Linear(shape.dim, shape.inner, bias=False) for _ in range(2))
            self.down = nn.Linear(shape.inner, shape.dim, bias=False)
            earlier = (
                t.arange(2 * shape.pairs * PLACES * width)
                .float()
                .sin()
                .view(2, 1, shape.pairs, PLACES, width)
            )
            self.register_buffer("keys", earlier[0].clone())
            self.register_buffer("values", earlier[1].clone())

        def forward(self, x: Any) -> Any:
            y = self.first(x)
            q = self.q(y).view(1, 1, shape.heads, width).transpose(1, 2)
            self.keys[:, :, -1:] = self.k(y).view(1, 1, shape.pairs, width).transpose(1, 2)
            self.values[:, :, -1:] = self.v(y).view(1, 1, shape.pairs, width).transpose(1, 2)
            y = F.scaled_dot_product_attention(
                q, self.keys, self.values, enable_gqa=shape.pairs != shape.heads
            )
            x = x + self.out(y.transpose(1, 2).reshape(1, 1, shape.dim))
            y = self.second(x)
            return x + self.down(F.silu(self.gate(y)) * self.up(y))

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(shape.words, shape.dim)
            self.blocks = nn.ModuleList(Block() for _ in range(shape.blocks))
            self.norm, self.head = nn.RMSNorm(shape.dim), nn.Linear(shape.dim, shape.words, bias=False)

        def forward(self, word: Any) -> Any:
            x = self.words(word)
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    with t.no_grad(), t.device(device):
        return Decoder().eval()


def decoder(t: Any, shape: Shape) -> Any:
    """The same with weights."""
    with t.no_grad():
        net = empty_decoder(t, shape, "cpu")
        for number, p in enumerate(net.parameters()):
            if p.dim() > 1:  # the same weights in both libraries, spread as a normal distribution's
                line = t.arange(p.shape[1], dtype=t.float64) * (1.0 + number / 7.0)
                rows = t.arange(p.shape[0], dtype=t.float64).unsqueeze(1)
                for start in range(0, p.shape[0], 1024):
                    u = ((rows[start : start + 1024] * 0.6180339887 + line * 0.7548776662) % 1.0).clamp(
                        1e-6, 1 - 1e-6
                    )
                    p[start : start + 1024] = (t.special.ndtri(u) / p.shape[1] ** 0.5).float()
    return net


def timed(runs: tuple[Callable[[], object], ...], seconds: float, rounds: int = 6) -> list[float]:
    """The least time of each, in turns of equal length."""
    best = [float("inf")] * len(runs)
    for _ in range(rounds):
        for k, run in enumerate(runs):
            stop = time.perf_counter() + seconds / rounds / len(runs)
            while time.perf_counter() < stop:
                began = time.perf_counter()
                run()
                best[k] = min(best[k], time.perf_counter() - began)
    return best


def weights(net: Any) -> int:
    """Bytes of the weights that a step reads: all but the table of words."""
    held = [*net.parameters(), *(b for name, b in net.named_buffers() if "codes" in name or "scales" in name)]
    return sum(x.numel() * x.element_size() for x in held) - sum(
        x.numel() * x.element_size() for x in net.words.parameters()
    )


def versions(name: str, t: Any, shape: Shape) -> Any:
    """(what, model, dtype of its activations, bytes that a step reads), one after the other."""
    net = decoder(t, shape)
    yield "float32", net, t.float32, weights(net)
    if name == "torch":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            quantised = t.ao.quantization.quantize_dynamic(net, {t.nn.Linear}, dtype=t.qint8)
        yield "dynamic int8", quantised, t.float32, weights(net) // 4
        del quantised
        net = net.bfloat16()
        yield "bfloat16", net, t.bfloat16, weights(net)
        return
    from flambeau.ao.quantization import (
        Int4WeightOnlyConfig,
        Int8WeightOnlyConfig,
        NF4WeightOnlyConfig,
        quantize_,
    )

    for what, config in (
        ("int8", Int8WeightOnlyConfig()),
        ("int4, groups of 128", Int4WeightOnlyConfig()),
        ("nf4, groups of 64", NF4WeightOnlyConfig()),
    ):
        quantize_(net, config)
        yield what, net, t.float32, weights(net)
        del net
        gc.collect()
        net = decoder(t, shape)
    net = net.bfloat16()
    yield "bfloat16", net, t.bfloat16, weights(net)
    quantize_(net, Int4WeightOnlyConfig())
    yield "bfloat16 by int4", net, t.bfloat16, weights(net)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--shapes", default="gpt2,llama")
    parser.add_argument("--ways", default="eager,compiled", help="eager, compiled: as it is, by `compile`")
    parser.add_argument("--seconds", type=float, default=3.0)
    arguments = parser.parse_args()
    libraries = {name: importlib.import_module(name) for name in ("flambeau", "torch")}
    for t in libraries.values():
        t.set_num_threads(arguments.threads)
    memory = libraries["flambeau"].ones(1 << 28)
    print(f"{arguments.threads} threads\n")
    print("| shape | library | weights | way | ms | tokens/s | GB | GB/s | share | error |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for shape in arguments.shapes.split(","):
        wanted = None
        for name, t in libraries.items():
            for what, net, dtype, read in versions(name, t, SHAPES[shape]):
                for block in net.blocks:
                    block.keys, block.values = block.keys.to(dtype), block.values.to(dtype)
                word = t.tensor([[7]])
                for way in arguments.ways.split(","):
                    step = t.compile(net) if way == "compiled" else net
                    with t.no_grad():
                        logits = step(word).float().flatten()
                        best, whole = timed(
                            (lambda step=step, word=word: step(word), memory.sum), arguments.seconds
                        )
                    bandwidth = memory.numel() * 4 / whole
                    logits = libraries["flambeau"].tensor(logits.tolist())
                    wanted = logits if wanted is None else wanted
                    error = ((logits - wanted).abs().max() / wanted.std()).item()
                    print(
                        f"| {shape} | {name} | {what} | {way} | {best * 1e3:.2f} | {1 / best:.1f} | {read / 1e9:.2f} | "
                        f"{bandwidth / 1e9:.1f} | {read / best / bandwidth:.2f} | {error:.3f} |",
                        flush=True,
                    )
                    del step
                del net
                gc.collect()


if __name__ == "__main__":
    main()
