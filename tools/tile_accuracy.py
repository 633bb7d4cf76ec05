"""How far products, convolutions, recurrent layers and attention are from float64's, flambeau's beside PyTorch's: a table.

    python tools/tile_accuracy.py                      # the whole table, as Markdown
    python tools/tile_accuracy.py --only 'conv' --worse

As `accuracy.py` (whose cases are all kinds of sums), for shapes that tiles in registers, Winograd's transforms and blocked
attention are chosen for.  Inputs and weights are normal with deviation 1, those of convolutions also rectified, as inside networks;
errors are the largest and the root of the mean square, both over the root of the mean square of the result.  Needs PyTorch.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Iterator

import numpy as np
import torch
from accuracy import Case, leaves, normal, results

import flambeau


def products() -> Iterator[Case]:
    for dtype in ("float32", "bfloat16", "float16"):
        for m, k, n in (
            (32, 32, 32),
            (64, 64, 64),
            (256, 256, 256),
            (512, 512, 512),
            (32, 784, 256),
            (128, 768, 3072),
            (1, 1024, 1024),
            (37, 4100, 19),
        ):
            call = lambda _, a, b: a @ b
            yield Case(
                f"matmul {m}×{k}×{n}, {dtype}", call, (normal(m, k), normal(k, n, seed=1)), dtype, True
            )
        call = lambda t, a, b: t.bmm(a, b)
        yield Case(
            f"bmm 16×64×64×64, {dtype}", call, (normal(16, 64, 64), normal(16, 64, 64, seed=1)), dtype, True
        )
        call = lambda t, x, w, b: t.nn.functional.linear(x, w, b)
        arrays = normal(128, 768), normal(768, 768, seed=1), normal(768, seed=2)
        yield Case(f"linear 128×768×768, {dtype}", call, arrays, dtype, True)


def convolutions() -> Iterator[Case]:
    shapes = {  # batch, channels, side, channels out, kernel, and what is given
        "res56": (2, 64, 56, 64, 3, {"padding": 1}),
        "res28": (2, 128, 28, 128, 3, {"padding": 1}),
        "res14": (2, 256, 14, 256, 3, {"padding": 1}),
        "res7": (2, 512, 7, 512, 3, {"padding": 1}),
        "odd sides": (2, 48, 19, 40, 3, {"padding": 1}),
        "no padding": (4, 32, 26, 64, 3, {}),
        "3 channels": (4, 3, 64, 32, 3, {"padding": 1}),
        "stem 7×7": (2, 3, 112, 64, 7, {"stride": 2, "padding": 3}),
        "1×1": (2, 256, 28, 512, 1, {}),
        "stride 2": (2, 64, 56, 128, 3, {"stride": 2, "padding": 1}),
        "1×1 stride 2": (2, 256, 28, 512, 1, {"stride": 2}),
        "patches": (2, 3, 112, 192, 16, {"stride": 16}),
        "depthwise 3×3": (2, 128, 28, 128, 3, {"padding": 1, "groups": 128}),
        "depthwise 7×7": (2, 96, 28, 96, 7, {"padding": 3, "groups": 96}),
        "groups 8": (2, 128, 28, 128, 3, {"padding": 1, "groups": 8}),
        "dilated": (2, 64, 28, 64, 3, {"padding": 2, "dilation": 2}),
    }
    for name, (n, c, s, o, k, args) in shapes.items():
        call = lambda t, x, w, b, g=args: t.nn.functional.conv2d(x, w, b, **g)
        weight = normal(o, c // args.get("groups", 1), k, k, seed=1)
        for kind, x in (("", normal(n, c, s, s)), (", rectified", np.maximum(normal(n, c, s, s), 0))):
            yield Case(f"conv2d {name}{kind}", call, (x, weight, normal(o, seed=2)), "float32", True)
    call = lambda t, x, w: t.nn.functional.conv_transpose2d(x, w, stride=2, padding=1)
    yield Case("conv_transpose2d", call, (normal(2, 128, 14, 14), normal(128, 64, 4, 4)), "float32", True)
    call = lambda t, x, w: t.nn.functional.conv1d(x, w, padding=1)
    yield Case("conv1d", call, (normal(4, 128, 100), normal(128, 128, 3)), "float32", True)
    call = lambda t, x, w: t.nn.functional.conv3d(x, w, padding=1)
    yield Case("conv3d", call, (normal(1, 32, 8, 14, 14), normal(32, 32, 3, 3, 3)), "float32", True)


def layers() -> Iterator[Case]:
    def recurrent(kind: str):
        def call(t, x, *weights):
            layer = getattr(t.nn, kind)(64, 128, batch_first=True).to(x.dtype)
            args = {name: w for (name, _), w in zip(layer.named_parameters(), weights)}
            return t.func.functional_call(layer, args, (x,))[0]

        return call

    for kind, gates in (("LSTM", 4), ("GRU", 3)):
        arrays = [normal(gates * 128, 64), normal(gates * 128, 128), normal(gates * 128), normal(gates * 128)]
        arrays = [normal(16, 32, 64), *(a / np.float32(math.sqrt(128)) for a in arrays)]
        yield Case(f"{kind} 16×32×64, 128", recurrent(kind), tuple(arrays), "float32", True)
    for causal in (False, True):
        for shape in ((2, 4, 256, 64), (1, 2, 1000, 64)):
            call = lambda t, q, k, v, c=causal: t.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=c
            )
            arrays = tuple(normal(*shape, seed=k) for k in range(3))
            yield Case(f"attention {shape}{', causal' if causal else ''}", call, arrays, "float32", True)
    for shape in ((128, 512), (16, 50257)):
        yield Case(f"softmax {shape}", lambda t, x: t.softmax(x, 1), (4 * normal(*shape),), "float32", True)
        call = lambda t, x, y: t.nn.functional.cross_entropy(x, y)
        yield Case(f"cross_entropy {shape}", call, (4 * normal(*shape), np.arange(shape[0])), "float32", True)
    arrays = normal(512, 768), normal(768, seed=1), normal(768, seed=2)
    yield Case(
        "layer_norm 512×768",
        lambda t, *a: t.nn.functional.layer_norm(a[0], (768,), *a[1:]),
        arrays,
        "float32",
        True,
    )


def errors(case: Case) -> Iterator[tuple[str, list[float]]]:
    """For each result and gradient: largest and root-mean-square error here, then those there."""
    here = leaves(torch, case.arrays, case.dtype)
    rounded = [a if a.dtype.kind != "f" else t.to(torch.float64).numpy() for a, t in zip(case.arrays, here)]
    true = results(case, torch, leaves(torch, rounded, "float64"))
    sides = [results(case, t, leaves(t, case.arrays, case.dtype)) for t in (flambeau, torch)]
    gradients = sum(a.dtype.kind == "f" for a in case.arrays)
    for k, t in enumerate(true):
        place = k - len(true) + gradients
        size = math.sqrt(np.square(t).mean()) or 1.0
        wrong = [np.abs(side[k] - t) for side in sides]
        figures = [
            f for e in wrong for f in (float(e.max() / size), float(math.sqrt(np.square(e).mean()) / size))
        ]
        yield case.name + (f", gradient {place + 1}" if place >= 0 else ""), figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="rows whose name matches this regular expression")
    parser.add_argument("--worse", action="store_true", help="only rows where an error is above PyTorch's")
    o = parser.parse_args()
    print("| what | largest | PyTorch's | rms | PyTorch's | rms ratio |\n|---|---|---|---|---|---|")
    ratios: list[float] = []
    for case in (*products(), *convolutions(), *layers()):
        if not re.search(o.only, case.name):
            continue
        for name, (most, mean, there, theirs) in errors(case):
            ratio = mean / theirs if theirs else 1.0 if not mean else math.inf
            ratios.append(ratio)
            if not o.worse or ratio > 1.05:
                print(
                    f"| {name} | {most:.1e} | {there:.1e} | {mean:.1e} | {theirs:.1e} | {ratio:.2f} |",
                    flush=True,
                )
    within = sum(r <= 1.05 for r in ratios)
    mean = math.exp(sum(math.log(max(r, 1e-3)) for r in ratios) / len(ratios))
    summary = f"geometric mean of rms ratios {mean:.2f}, largest {max(ratios):.2f}"
    print(f"\n{len(ratios)} results: {within} at most PyTorch's (within 5 %), {summary}.")


if __name__ == "__main__":
    main()
