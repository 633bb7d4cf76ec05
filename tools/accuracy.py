"""How far sums of all kinds are from float64's, flambeau's beside PyTorch's: the table in docs/accuracy.md.

    python tools/accuracy.py                     # the whole table
    python tools/accuracy.py --only conv         # rows whose name contains a regular expression

Each case computes the same from the same float32 (float16, bfloat16) numbers with flambeau, with PyTorch, and with PyTorch in
float64; an error is the largest difference from the last, relative to the largest element of the result.  Needs PyTorch.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

import flambeau


class Case(NamedTuple):
    name: str
    call: Callable[..., Any]  # (module, *tensors) → a tensor or several
    arrays: tuple[np.ndarray, ...]
    dtype: str = "float32"
    gradients: bool = False


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def uniform(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(shape).astype(np.float32)


def tenths(*shape: int) -> np.ndarray:
    return np.full(shape, 0.1, np.float32)


def reductions() -> Iterator[Case]:
    """Sums and their kin over each dimension, in each layout."""
    shapes = {
        "1e6": ((1_000_000,), None),
        "(1000, 1000), 0": ((1000, 1000), 0),
        "(1000, 1000), 1": ((1000, 1000), 1),
        "(100, 100, 100), 1": ((100, 100, 100), 1),
        "(100000, 10), 0": ((100_000, 10), 0),
        "(10, 100000), 1": ((10, 100_000), 1),
        "(100000, 7), 1": ((100_000, 7), 1),
        "(100, 100, 100), (0, 2)": ((100, 100, 100), (0, 2)),
    }
    folds: dict[str, Callable] = {
        "sum": lambda m, x, d: m.sum(x, d) if d is not None else x.sum(),
        "mean": lambda m, x, d: m.mean(x, d) if d is not None else x.mean(),
        "nansum": lambda m, x, d: m.nansum(x, d) if d is not None else m.nansum(x),
        "var": lambda m, x, d: m.var(x, d) if d is not None else x.var(),
        "std": lambda m, x, d: m.std(x, d) if d is not None else x.std(),
        "var_mean": lambda m, x, d: m.var_mean(x, d) if d is not None else m.var_mean(x),
        "norm 1": lambda m, x, d: m.linalg.vector_norm(x, 1, d),
        "norm 2": lambda m, x, d: m.linalg.vector_norm(x, 2, d),
        "norm 3": lambda m, x, d: m.linalg.vector_norm(x, 3, d),
        "norm inf": lambda m, x, d: m.linalg.vector_norm(x, float("inf"), d),
        "logsumexp": lambda m, x, d: m.logsumexp(x, d if d is not None else 0),
    }
    for what, (shape, dim) in shapes.items():
        inputs = {
            "uniform": uniform(*shape),
            "0.1": tenths(*shape),
            "N(1e4, 1)": normal(*shape) + np.float32(1e4),
        }
        for name, fold in folds.items():
            for label, x in inputs.items():
                if label == "0.1" and name in ("var", "std", "var_mean") or label == "N(1e4, 1)" and name not in (
                    "var", "std", "var_mean", "mean"
                ):  # fmt: skip
                    continue
                yield Case(f"{name}, {what}, {label}", lambda m, t, d=dim, f=fold: f(m, t, d), (x,))
    x = uniform(1000, 1000)
    for name in ("sum", "mean", "var"):
        yield Case(f"{name}, (1000, 1000) transposed, 1", lambda m, t, n=name: getattr(m, n)(t.t(), 1), (x,))
        yield Case(f"{name}, (1000, 1000)[:, ::2], 1", lambda m, t, n=name: getattr(m, n)(t[:, ::2], 1), (x,))
        yield Case(f"{name}, (1000, 1000)[::2], 0", lambda m, t, n=name: getattr(m, n)(t[::2], 0), (x,))
    near = 1 + 1e-3 * normal(10, 10_000)
    yield Case("prod, (10, 10000), 1", lambda m, t: m.prod(t, 1), (near,))
    yield Case("prod, (10000, 10), 0", lambda m, t: m.prod(t, 0), (np.ascontiguousarray(near.T),))
    for dtype in ("float16", "bfloat16"):
        for name in ("sum", "mean", "var", "logsumexp"):
            yield Case(
                f"{name}, (10, 10000), 1, {dtype}",
                lambda m, t, n=name: getattr(m, n)(t, 1),
                (uniform(10, 10_000),),
                dtype,
            )
    wide = uniform(64, 3, 56, 56)
    yield Case(
        "gradient of a broadcast bias",
        lambda m, t, b: (t * b).sum((0, 2, 3)),
        (wide, uniform(3, 1, 1)),
        gradients=True,
    )
    yield Case(
        "gradient of a broadcast row",
        lambda m, t, b: t * b,
        (uniform(4096, 256), uniform(256)),
        gradients=True,
    )
    yield Case(
        "gradient of a broadcast column",
        lambda m, t, b: t * b,
        (uniform(256, 4096), uniform(256, 1)),
        gradients=True,
    )
    yield Case(
        "gradient of a number", lambda m, t, b: t * b, (uniform(1000, 1000), uniform(1)), gradients=True
    )


def scans() -> Iterator[Case]:
    for shape, dim in (((1_000_000,), 0), ((1000, 1000), 0), ((1000, 1000), 1), ((10, 100_000), 1)):
        for label, x in (("uniform", uniform(*shape)), ("0.1", tenths(*shape))):
            yield Case(f"cumsum, {shape}, {dim}, {label}", lambda m, t, d=dim: m.cumsum(t, d), (x,))
    near = 1 + 1e-3 * normal(10, 10_000)
    yield Case("cumprod, (10, 10000), 1", lambda m, t: m.cumprod(t, 1), (near,))
    yield Case("logcumsumexp, (10, 10000), 1", lambda m, t: m.logcumsumexp(t, 1), (normal(10, 10_000),))
    yield Case("trapezoid, 1e6", lambda m, t: m.trapezoid(t), (uniform(1_000_000),))
    yield Case("cumulative_trapezoid, 1e6", lambda m, t: m.cumulative_trapezoid(t), (uniform(1_000_000),))


def rows() -> Iterator[Case]:
    f = lambda m: m.nn.functional
    for shape in ((64, 1000), (4096, 64), (4, 100_000)):
        x, w, b = normal(*shape) + np.float32(3), uniform(shape[1], seed=1), uniform(shape[1], seed=2)
        yield Case(f"softmax, {shape}", lambda m, t: m.softmax(t, 1), (x,), gradients=True)
        yield Case(f"log_softmax, {shape}", lambda m, t: m.log_softmax(t, 1), (x,), gradients=True)
        yield Case(
            f"layer_norm, {shape}",
            lambda m, t, w, b: f(m).layer_norm(t, t.shape[1:], w, b),
            (x, w, b),
            gradients=True,
        )
        yield Case(
            f"rms_norm, {shape}", lambda m, t, w: f(m).rms_norm(t, t.shape[1:], w), (x, w), gradients=True
        )
        yield Case(
            f"cosine_similarity, {shape}",
            lambda m, t, u: f(m).cosine_similarity(t, u),
            (x, normal(*shape, seed=3)),
            gradients=True,
        )
        yield Case(
            f"layer_norm N(1e3, 1), {shape}",
            lambda m, t: f(m).layer_norm(t, t.shape[1:]),
            (x + np.float32(1e3),),
        )
    x = normal(16, 32, 28, 28) + np.float32(2)
    w, b = uniform(32, seed=1), uniform(32, seed=2)
    yield Case(
        "batch_norm, (16, 32, 28, 28)",
        lambda m, t, w, b: f(m).batch_norm(t, None, None, w, b, True),
        (x, w, b),
        gradients=True,
    )
    yield Case(
        "batch_norm, (10000, 32)",
        lambda m, t, w, b: f(m).batch_norm(t, None, None, w, b, True),
        (normal(10_000, 32), w, b),
        gradients=True,
    )
    yield Case(
        "group_norm, (16, 32, 28, 28)",
        lambda m, t, w, b: f(m).group_norm(t, 4, w, b),
        (x, w, b),
        gradients=True,
    )
    yield Case(
        "instance_norm, (16, 32, 28, 28)",
        lambda m, t, w, b: f(m).instance_norm(t, None, None, w, b),
        (x, w, b),
        gradients=True,
    )
    q = [normal(2, 4, 256, 64, seed=k) for k in range(3)]
    yield Case(
        "scaled_dot_product_attention",
        lambda m, a, b, c: f(m).scaled_dot_product_attention(a, b, c),
        tuple(q),
        gradients=True,
    )


def products() -> Iterator[Case]:
    f = lambda m: m.nn.functional
    for dtype in ("float32", "float16", "bfloat16"):
        a, b = normal(128, 2048), normal(2048, 96, seed=1)
        yield Case(f"matmul, {dtype}", lambda m, a, b: a @ b, (a, b), dtype, gradients=True)
        yield Case(
            f"matmul, uniform, {dtype}",
            lambda m, a, b: a @ b,
            (uniform(128, 2048), uniform(2048, 96, seed=1)),
            dtype,
        )
        yield Case(
            f"bmm, {dtype}",
            lambda m, a, b: m.bmm(a, b),
            (uniform(8, 32, 1024), uniform(8, 1024, 24, seed=1)),
            dtype,
        )
        yield Case(
            f"mv, {dtype}", lambda m, a, b: m.mv(a, b), (uniform(128, 8192), uniform(8192, seed=1)), dtype
        )
        yield Case(
            f"dot, {dtype}", lambda m, a, b: m.dot(a, b), (uniform(100_000), uniform(100_000, seed=1)), dtype
        )
        yield Case(
            f"linear, {dtype}",
            lambda m, a, w, b: f(m).linear(a, w, b),
            (uniform(64, 2048), uniform(96, 2048, seed=1), uniform(96)),
            dtype,
            gradients=True,
        )
    yield Case("matmul transposed", lambda m, a, b: a.t() @ b.t(), (uniform(2048, 96), uniform(128, 2048)))
    yield Case(
        "einsum bij,bjk->ik",
        lambda m, a, b: m.einsum("bij,bjk->ik", a, b),
        (uniform(16, 32, 256), uniform(16, 256, 24)),
    )
    for name in ("cov", "corrcoef"):
        yield Case(name, lambda m, t, n=name: getattr(m, n)(t), (normal(16, 10_000) + np.float32(10),))
    for p in (1.0, 2.0, 3.0, float("inf")):
        yield Case(
            f"cdist p={p}",
            lambda m, a, b, p=p: m.cdist(a, b, p),
            (uniform(20, 3000), uniform(30, 3000, seed=1)),
        )


def convolutions() -> Iterator[Case]:
    f = lambda m: m.nn.functional
    shapes = {
        "conv1d": ((4, 512, 64), (64, 512, 3), {}),
        "conv2d 512×3×3": ((2, 512, 14, 14), (64, 512, 3, 3), {"padding": 1}),
        "conv2d stride 2": ((2, 128, 28, 28), (64, 128, 3, 3), {"stride": 2, "padding": 1}),
        "conv2d 1×1": ((2, 1024, 14, 14), (64, 1024, 1, 1), {}),
        "conv2d depthwise 7×7": ((4, 64, 56, 56), (64, 1, 7, 7), {"groups": 64, "padding": 3}),
        "conv2d dilated": ((2, 128, 28, 28), (32, 128, 3, 3), {"dilation": 2, "padding": 2}),
        "conv2d 3 channels, 7×7": ((4, 3, 112, 112), (64, 3, 7, 7), {"stride": 2, "padding": 3}),
        "conv2d groups 4": ((2, 256, 14, 14), (256, 64, 3, 3), {"groups": 4}),
        "conv3d": ((1, 64, 8, 14, 14), (32, 64, 3, 3, 3), {"padding": 1}),
    }
    for name, (shape, weight, options) in shapes.items():
        kind = name.split()[0]
        call = lambda m, t, w, b, n=kind, g=options: getattr(f(m), n)(t, w, b, **g)
        arrays = normal(*shape), normal(*weight, seed=1), normal(weight[0], seed=2)
        yield Case(name, call, arrays, gradients=True)
        if "512" in name:
            yield Case(
                f"{name}, uniform",
                call,
                tuple(uniform(*a.shape, seed=k) for k, a in enumerate(arrays)),
                gradients=True,
            )
    yield Case(
        "conv_transpose2d",
        lambda m, t, w: f(m).conv_transpose2d(t, w, stride=2),
        (normal(2, 256, 14, 14), normal(256, 32, 3, 3)),
        gradients=True,
    )
    image = uniform(4, 8, 96, 96)
    yield Case("avg_pool2d 32", lambda m, t: f(m).avg_pool2d(t, 32), (image,), gradients=True)
    yield Case("avg_pool2d 3, stride 1", lambda m, t: f(m).avg_pool2d(t, 3, 1), (image,), gradients=True)
    yield Case(
        "avg_pool1d 4096", lambda m, t: f(m).avg_pool1d(t, 4096), (uniform(4, 8, 16_384),), gradients=True
    )
    yield Case(
        "adaptive_avg_pool2d 1",
        lambda m, t: f(m).adaptive_avg_pool2d(t, 1),
        (uniform(4, 8, 224, 224),),
        gradients=True,
    )
    yield Case(
        "adaptive_avg_pool2d 7",
        lambda m, t: f(m).adaptive_avg_pool2d(t, 7),
        (uniform(4, 8, 224, 224),),
        gradients=True,
    )
    for mode in ("bilinear", "bicubic", "nearest", "area"):
        size = {"mode": mode} | ({"align_corners": False} if mode in ("bilinear", "bicubic") else {})
        yield Case(
            f"interpolate {mode}",
            lambda m, t, g=size: f(m).interpolate(t, (41, 57), **g),
            (image,),
            gradients=True,
        )
    yield Case(
        "interpolate bilinear to 400",
        lambda m, t: f(m).interpolate(t, (400, 400), mode="bilinear"),
        (uniform(1, 2, 4, 4),),
        gradients=True,
    )


def scatters() -> Iterator[Case]:
    f = lambda m: m.nn.functional
    places = np.random.default_rng(5).integers(0, 8, 200_000)
    x, rows_ = uniform(200_000), uniform(20_000, 16)
    yield Case("scatter_add", lambda m, t, i: m.zeros(8, dtype=t.dtype).scatter_add(0, i, t), (x, places))
    yield Case(
        "index_add",
        lambda m, t, i: m.zeros(8, 16, dtype=t.dtype).index_add(0, i, t),
        (rows_, places[:20_000]),
    )
    yield Case(
        "index_put accumulate",
        lambda m, t, i: m.zeros(8, dtype=t.dtype).index_put((i,), t, accumulate=True),
        (x, places),
    )
    yield Case(
        "scatter_reduce mean",
        lambda m, t, i: m.zeros(8, dtype=t.dtype).scatter_reduce(0, i, t, "mean", include_self=False),
        (x, places),
    )
    yield Case("bincount weights", lambda m, t, i: m.bincount(i, t), (x, places))
    yield Case(
        "gradient of index_select",
        lambda m, w, i: w.index_select(0, i),
        (uniform(8, 16), places[:20_000]),
        gradients=True,
    )
    yield Case(
        "gradient of embedding",
        lambda m, w, i: f(m).embedding(i, w),
        (uniform(8, 16), places[:20_000]),
        gradients=True,
    )
    yield Case("gradient of gather", lambda m, w, i: w.gather(0, i), (uniform(8), places), gradients=True)
    bags = places[:20_000].reshape(4, -1) % 8
    for mode in ("sum", "mean"):
        yield Case(
            f"embedding_bag {mode}",
            lambda m, w, i, mode=mode: f(m).embedding_bag(i, w, mode=mode),
            (uniform(8, 16), bags),
            gradients=True,
        )


def losses() -> Iterator[Case]:
    f = lambda m: m.nn.functional
    x, y = uniform(1000, 1000), uniform(1000, 1000, seed=1)
    for how in ("mean", "sum"):
        for name in (
            "mse_loss",
            "l1_loss",
            "huber_loss",
            "smooth_l1_loss",
            "binary_cross_entropy",
            "binary_cross_entropy_with_logits",
            "kl_div",
        ):
            yield Case(
                f"{name} {how}",
                lambda m, a, b, n=name, h=how: getattr(f(m), n)(a, b, reduction=h),
                (x, y),
                gradients=True,
            )
        classes = np.random.default_rng(7).integers(0, 100, 10_000)
        for scale in (1, 1e4, 1e8):
            logits = normal(10_000, 100) + np.float32(scale)
            yield Case(
                f"cross_entropy {how}, logits near {scale:g}",
                lambda m, a, b, h=how: f(m).cross_entropy(a, b, reduction=h),
                (logits, classes),
                gradients=True,
            )
        yield Case(
            f"cross_entropy {how}, smoothed",
            lambda m, a, b, h=how: f(m).cross_entropy(a, b, reduction=h, label_smoothing=0.1),
            (logits * 0 + normal(10_000, 100), classes),
            gradients=True,
        )


def long() -> Iterator[Case]:
    yield Case("sum, 1e8, 0.1", lambda m, t: t.sum(), (tenths(100_000_000),))
    yield Case("mean, 1e8, 0.1", lambda m, t: t.mean(), (tenths(100_000_000),))


GROUPS = {
    "Reductions": reductions, "Scans": scans, "Normalisation and attention": rows, "Products": products,
    "Convolutions, pools, interpolation": convolutions, "Scatters": scatters, "Losses": losses, "1e8 elements": long,
}  # fmt: skip


def leaves(module, arrays, dtype: str) -> list:
    tensors = []
    for a in arrays:
        t = module.from_numpy(np.array(a))
        tensors.append(t.to(getattr(module, dtype)) if a.dtype.kind == "f" else t)
    return tensors


def results(case: Case, module, tensors) -> list[np.ndarray]:
    """The results and, where wanted, the gradients of Σ result · fixed weights."""
    floats = [t for t in tensors if t.is_floating_point()]
    if case.gradients:
        for t in floats:
            t.requires_grad_()
    out = case.call(module, *tensors)
    outs = list(out) if isinstance(out, (tuple, list)) else [out]
    if case.gradients:
        seeds = [module.from_numpy(uniform(*o.shape, seed=11)).to(o.dtype) for o in outs]
        module.autograd.backward(outs, seeds)
        outs += [t.grad for t in floats]
    return [o.detach().to(module.float64).numpy() for o in outs]


def errors(case: Case) -> list[tuple[str, float, float]]:
    rounded = [
        a if a.dtype.kind != "f" else t.to(torch.float64).numpy()
        for a, t in zip(case.arrays, leaves(torch, case.arrays, case.dtype))
    ]
    true = results(case, torch, leaves(torch, rounded, "float64"))
    ours = results(case, flambeau, leaves(flambeau, case.arrays, case.dtype))
    theirs = results(case, torch, leaves(torch, case.arrays, case.dtype))
    floats = sum(a.dtype.kind == "f" for a in case.arrays) if case.gradients else 0
    labels = [
        "" if k < len(true) - floats else f", gradient {k - len(true) + floats + 1}" for k in range(len(true))
    ]
    distances = []
    for label, t, a, b in zip(labels, true, ours, theirs):
        size = np.abs(t).max() or 1.0
        distances.append(
            (case.name + label, float(np.abs(a - t).max() / size), float(np.abs(b - t).max() / size))
        )
    return distances


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="rows whose name matches this regular expression")
    parser.add_argument(
        "--worse", action="store_true", help="only rows where flambeau's error is above PyTorch's"
    )
    args = parser.parse_args()
    for title, cases in GROUPS.items():
        lines = []
        for case in cases():
            if re.search(args.only, f"{title}: {case.name}"):
                for name, ours, theirs in errors(case):
                    if not args.worse or ours > theirs * 1.0001:
                        lines.append(f"| {name} | {ours:.1e} | {theirs:.1e} |")
        if lines:
            print(
                f"## {title}\n\n| what | flambeau | PyTorch {torch.__version__.split('+')[0]} |\n|---|---|---|"
            )
            print("\n".join(lines) + "\n", flush=True)


if __name__ == "__main__":
    main()
