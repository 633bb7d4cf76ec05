"""Cases of neural networks: convolutions, pools, norms, losses, attention.  See `fuzz_cases`."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from fuzz_cases import case
from fuzz_draw import FLOATS, Draw

F = "nn.functional."


# --- convolutions ------------------------------
def _draw_convolution(n: int, transposed: bool = False) -> Any:
    def draw(d: Draw) -> tuple:
        groups, dtype = d.one_of(1, 1, 2), d.one_of("float32", "float64", "float64", "bfloat16")
        inner, outer = d.int(1, 3) * groups, d.int(1, 3) * groups
        kernel = [d.int(1, 3) for _ in range(n)]
        space = [d.int(1, 7) for _ in range(n)]
        x = d.tensor((d.one_of(0, 1, 2), inner, *space), dtype)
        weight = (inner, outer // groups, *kernel) if transposed else (outer, inner // groups, *kernel)
        options = {"stride": d.int(1, 3), "padding": d.int(0, 2), "dilation": d.int(1, 2), "groups": groups}
        return x, d.tensor(weight, dtype), d.tensor((outer,), dtype), options

    return draw


def _convolved(x: Any, w: Any, b: Any, stride: int, padding: int, dilation: int, groups: int) -> np.ndarray:
    """By the definition, one place of the kernel at a time."""
    n = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0)] + [(padding, padding)] * n)
    space = [(s - dilation * (k - 1) - 1) // stride + 1 for s, k in zip(x.shape[2:], w.shape[2:])]
    if min(space) <= 0:
        raise ValueError("the kernel is larger than the input")
    out = np.zeros((x.shape[0], w.shape[0], *space))
    inner, outer = w.shape[1], w.shape[0] // groups
    for g in range(groups):
        part = x[:, g * inner : (g + 1) * inner]
        for place in itertools.product(*map(range, w.shape[2:])):
            cut = tuple(
                slice(p * dilation, p * dilation + stride * (s - 1) + 1, stride) for p, s in zip(place, space)
            )
            weights = w[(slice(g * outer, (g + 1) * outer), slice(None), *place)]
            out[:, g * outer : (g + 1) * outer] += np.einsum(
                "bi...,oi->bo...", part[(slice(None), slice(None), *cut)], weights
            )
    return out + b.reshape(1, -1, *[1] * n)


for _n in (1, 2, 3):
    case(f"{F}conv{_n}d", _draw_convolution(_n), _convolved, 100)
    case(f"{F}conv_transpose{_n}d", _draw_convolution(_n, True))


# --- pools, windows ------------------------------
def _draw_pool(n: int) -> Any:
    def draw(d: Draw) -> tuple:
        k = d.int(1, 3)
        x = d.tensor((d.one_of(0, 1, 2), 2, *[d.int(3, 8) for _ in range(n)]), d.one_of(*FLOATS))
        return x, k, {"stride": d.one_of(None, 1, 2), "padding": d.int(0, k // 2), "ceil_mode": d.chance(0.3)}

    return draw


for _n in (1, 2, 3):
    case(f"{F}avg_pool{_n}d {F}max_pool{_n}d", _draw_pool(_n))
    case(
        f"{F}adaptive_avg_pool{_n}d {F}adaptive_max_pool{_n}d",
        lambda d, n=_n: (d.tensor((2, 3, *[d.int(1, 9) for _ in range(n)]), d.one_of(*FLOATS)), d.int(1, 5)),
    )
case(f"{F}lp_pool1d", lambda d: (d.tensor((2, 3, 8), "float64"), 2.0, d.int(1, 3)))
case(f"{F}lp_pool2d", lambda d: (d.tensor((2, 3, 8, 6), "float64"), 2.0, d.int(1, 3)))
case(
    f"{F}unfold",
    lambda d: (
        d.tensor((d.int(0, 2), 2, d.int(3, 7), d.int(3, 7)), "float64"),
        d.int(1, 3),
        {"padding": d.int(0, 1), "stride": d.int(1, 2)},
    ),
)
case(f"{F}fold", lambda d: (d.tensor((2, 8, 9), "float64"), (4, 4), 2))
case(
    f"{F}interpolate",
    lambda d: (
        d.tensor((1, 2, d.int(1, 6), d.int(1, 6)), d.one_of(*FLOATS)),
        {
            "size": (d.int(1, 9), d.int(1, 9)),
            "mode": d.one_of("nearest", "bilinear", "bicubic", "area", "nearest-exact"),
        },
    ),
)
case(
    f"{F}interpolate",
    lambda d: (
        d.tensor((1, 2, d.int(1, 6), d.int(1, 6)), "float64"),
        {"scale_factor": d.one_of(0.5, 1.5, 2.0, 3), "mode": "nearest"},
    ),
)
case(
    f"{F}grid_sample",
    lambda d: (
        d.tensor((2, 2, 5, 4), "float64"),
        d.tensor((2, 3, 3, 2), "float64", -1.5, 1.5),
        {
            "mode": d.one_of("bilinear", "nearest", "bicubic"),
            "padding_mode": d.one_of("zeros", "border", "reflection"),
            "align_corners": d.chance(0.5),
        },
    ),
)
case(
    f"{F}affine_grid",
    lambda d: (
        d.tensor((2, 2, 3), "float64"),
        (2, 1, d.int(1, 4), d.int(1, 4)),
        {"align_corners": d.chance(0.5)},
    ),
)


# --- norms ------------------------------
def _layer_norm(x: np.ndarray, shape: tuple, w: Any, b: Any) -> np.ndarray:
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-5) * w + b


def _rms_norm(x: np.ndarray, shape: tuple, w: Any, eps: float) -> np.ndarray:
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    return x / np.sqrt((x * x).mean(axes, keepdims=True) + eps) * w


def _draw_layer_norm(d: Draw) -> tuple:
    dtype = d.one_of(*FLOATS)
    x = d.tensor(d.shape(1, 4, 2), dtype)
    shape = tuple(x.tensor.shape[d.int(0, x.tensor.dim() - 1) :])
    return x, shape, d.tensor(shape, dtype), d.tensor(shape, dtype)


case(F + "layer_norm", _draw_layer_norm, _layer_norm, 200)
case(F + "rms_norm", lambda d: (*_draw_layer_norm(d)[:3], 1e-5), _rms_norm, 200)
case(
    F + "group_norm",
    lambda d: (d.tensor((2, 4, d.size(2)), t := d.one_of(*FLOATS)), 2, d.tensor((4,), t), d.tensor((4,), t)),
)
case(F + "instance_norm", lambda d: (d.tensor((2, 3, d.size(2)), d.one_of("float32", "float64")),))
case(
    F + "batch_norm",
    lambda d: (
        d.tensor((d.int(2, 5), 3, d.size(1)), t := d.one_of("float32", "float64")),
        d.tensor((3,), t),
        d.tensor((3,), t, 0.5, 2.0),
        d.tensor((3,), t),
        d.tensor((3,), t),
    ),
)
case(
    F + "batch_norm",
    lambda d: (d.tensor((d.int(2, 5), 3, d.size(1)), "float64"), None, None, {"training": True}),
)
case(F + "local_response_norm", lambda d: (d.tensor((2, d.int(1, 6), 4), "float64"), d.int(1, 4)))
case(F + "normalize", lambda d: (d.floats(2, 3, least=1), d.one_of(1.0, 2.0, 3.0), d.int(0, 1)))


# --- losses ------------------------------
def _pair(d: Draw, low: float = -2.0, high: float = 2.0) -> tuple:
    shape, dtype = d.shape(1, 3, 1), d.one_of("float32", "float64")
    return (
        d.tensor(shape, dtype, low, high),
        d.tensor(shape, dtype, low, high),
        {"reduction": d.one_of("none", "sum", "mean")},
    )


def _reduced(function: Any) -> Any:
    fold = {"none": lambda x: x, "sum": np.sum, "mean": np.mean}
    return lambda *args, reduction: fold[reduction](function(*args))


case(F + "mse_loss", _pair, _reduced(lambda x, y: (x - y) ** 2), 20)
case(F + "l1_loss", _pair, _reduced(lambda x, y: np.abs(x - y)), 20)
case(
    F + "smooth_l1_loss",
    _pair,
    _reduced(lambda x, y: np.where(np.abs(x - y) < 1, 0.5 * (x - y) ** 2, np.abs(x - y) - 0.5)),
    20,
)
case(
    F + "binary_cross_entropy",
    lambda d: _pair(d, 0.01, 0.99),
    _reduced(lambda x, y: -(y * np.log(x) + (1 - y) * np.log1p(-x))),
    50,
)


def _logits(d: Draw) -> tuple:
    x, _, reduction = _pair(d)
    return x, d.tensor(tuple(x.tensor.shape), str(x.tensor.dtype).partition(".")[2], 0, 1), reduction


case(F + "binary_cross_entropy_with_logits", _logits, _reduced(lambda x, y: np.logaddexp(0, x) - x * y), 50)
case(f"{F}huber_loss {F}soft_margin_loss {F}kl_div {F}poisson_nll_loss", _pair)
case(
    F + "cross_entropy",
    lambda d: (
        x := d.tensor((d.size(1), c := d.int(1, 9)), d.one_of(*FLOATS)),
        d.index((x.tensor.shape[0],), c),
    ),
    lambda x, y: np.mean(np.log(np.exp(x).sum(1)) - x[np.arange(len(y)), y]),
    50,
)
case(
    F + "nll_loss",
    lambda d: (
        x := d.tensor((d.size(1), c := d.int(1, 9)), "float64"),
        d.index((x.tensor.shape[0],), c),
        {"reduction": d.one_of("none", "sum", "mean")},
    ),
)
case(
    F + "multi_margin_loss",
    lambda d: (x := d.tensor((d.size(1), c := d.int(1, 9)), "float64"), d.index((x.tensor.shape[0],), c)),
)
case(
    f"{F}cosine_embedding_loss",
    lambda d: (*[d.tensor((4, 5), "float64") for _ in range(2)], d.hold(np.array([1, -1, 1, -1]), "int64")),
)
case(f"{F}triplet_margin_loss", lambda d: tuple(d.tensor((4, 5), "float64") for _ in range(3)))

# --- embedding, attention, activations with parameters ------------------------------
case(
    F + "embedding",
    lambda d: (d.index(d.shape(0, 3), 7), d.tensor((7, d.size(1)), d.one_of(*FLOATS))),
    lambda i, w: w[i],
)
case(
    F + "embedding_bag",
    lambda d: (d.index((4, 3), 7), d.tensor((7, 5), "float64"), {"mode": d.one_of("sum", "mean", "max")}),
)


def _draw_attention(d: Draw) -> tuple:
    queries, keys = d.int(1, 6), d.int(1, 6)
    return tuple(d.tensor((2, 2, n, w), "float64") for n, w in ((queries, 4), (keys, 4), (keys, 3)))


case(F + "scaled_dot_product_attention", _draw_attention)
case(F + "glu", lambda d: (d.tensor((d.size(), 2 * d.size()), d.one_of(*FLOATS)), -1))
case(F + "prelu", lambda d: (d.tensor((2, 3, d.size()), "float64"), d.tensor((3,), "float64")))
case(
    F + "bilinear",
    lambda d: (
        d.tensor((n := d.size(), 3), "float64"),
        d.tensor((n, 2), "float64"),
        d.tensor((4, 3, 2), "float64"),
    ),
)
