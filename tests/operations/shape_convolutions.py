"""Convolutions, the ways they are computed in, and windows of images, for `shape_search.py`."""

from __future__ import annotations

import functools
import math

import numpy as np
import shape_references as reference
from shape_search import LAYOUTS, Case, draw, family

import flambeau as fb
from flambeau.operations.neural.convolution import depthwise, families
from flambeau.operations.neural.convolution import grid as convolution_grid
from flambeau.operations.neural.convolution import grouped as convolution_grouped
from flambeau.operations.neural.convolution import lifted as convolution_lifted
from flambeau.operations.neural.convolution import weights as convolution_weights
from flambeau.operations.neural.convolution import winograd_weights as convolution_winograd_weights
from flambeau.operations.neural.convolution.grid import Geometry

F = fb.nn.functional
DTYPES = ("float32",) * 4 + ("float64",) * 3 + ("complex64", "bfloat16")
GEOMETRY = {  # by how many dimensions there are: sizes, kernels, strides, paddings, dilations
    1: ([(n,) for n in (*range(1, 8), 11, 17, 40)], [(k,) for k in (1, 2, 3, 4, 7)]),
    2: (
        [
            (1, 1),
            (2, 2),
            (3, 3),
            (4, 4),
            (1, 3),
            (5, 1),
            (2, 4),
            (5, 5),
            (7, 6),
            (4, 9),
            (8, 8),
            (3, 18),
            (13, 12),
        ],
        [(1, 1), (1, 1), (2, 2), (3, 3), (3, 3), (1, 2), (3, 1), (2, 3), (5, 5)],
    ),
    3: (
        [(1, 1, 1), (2, 2, 2), (3, 3, 3), (1, 2, 3), (4, 1, 2), (3, 4, 5), (5, 5, 5), (2, 3, 9)],
        [(1, 1, 1), (2, 2, 2), (3, 3, 3), (1, 2, 3), (3, 1, 1), (2, 1, 2)],
    ),
}
STRIDES = {1: (1, 2, 3, 7), 2: (1, 2, 3, 7), 3: (1, 2, 3)}
PADDINGS = {1: (0, 1, 2, 4), 2: (0, 1, 2, 4), 3: (0, 1, 2)}
NUMBERS = {
    1: lambda *v: [(a,) for a in v],
    2: lambda *v: [(a, a) for a in v] + [(v[0], v[1]), (v[-1], v[0])],
    3: lambda *v: [(a, a, a) for a in v] + [(v[0], v[1], v[-1]), (v[-1], v[0], v[0])],
}
GROUPS = [
    (1, c, f) for c in (1, 2, 3, 8, 17, 33) for f in (1, 2, 3, 8, 16, 33)
]  # groups, channels, filters of each
GROUPS += [(g, 1, f) for g in (2, 3, 5, 16, 19) for f in (1, 1, 2, 3)]
GROUPS += [(g, c, f) for g in (2, 3, 4) for c in (2, 3, 8) for f in (2, 4, 7, 32)]


def _padded(x: np.ndarray, n: int) -> np.ndarray:
    return x if x.ndim == n + 2 else x[None]


def _forward(n, sizes, kernel, stride, padding, dilation):
    return tuple(
        (i + 2 * p - d * (k - 1) - 1) // s + 1
        for i, k, s, p, d in zip(sizes, kernel, stride, padding, dilation)
    )


def _convolutions(n: int) -> None:
    sizes, kernels = GEOMETRY[n]
    shared = dict(
        batch=(None, 0, 1, 1, 2, 2, 3), sizes=sizes, kernel=kernels, groups=GROUPS, stride=NUMBERS[n](*STRIDES[n]),
        padding=NUMBERS[n](*PADDINGS[n]), dilation=NUMBERS[n](1, 2), bias=(False, True), dtype=DTYPES, layout=LAYOUTS,
        second=LAYOUTS, sent=LAYOUTS,
    )  # fmt: skip

    def run(rng, name, batch, groups, dtype, bias, x_sizes, out_sizes, kernel, call, against, swapped):
        count, channels, filters = groups
        lead = () if batch is None else (batch,)
        x = draw(rng, (*lead, count * channels, *x_sizes), dtype)
        w = (count * channels, filters) if swapped else (count * filters, channels)
        w = draw(rng, (*w, *kernel), dtype)
        b = draw(rng, (count * filters,), dtype) if bias else None

        def checked(x, w, *rest):
            bias, grad = rest[0] if rest[0] is not None else None, rest[-1]
            found, into = against(_padded(x, n), w, bias, _padded(grad, n))
            return found.reshape(grad.shape), [into[0].reshape(x.shape), *into[1:]]

        return Case([x, w, b], call, (*lead, count * filters, *out_sizes), checked)

    @family(f"conv{n}d", (0, 2600, 4600, 1500)[n], **shared, same=(False, False, False, "same", "valid"))
    def plain(rng, batch, sizes, kernel, groups, stride, padding, dilation, bias, dtype, same, **_):
        front = padding
        if same == "same":
            if max(stride) > 1:
                return None
            front, out = tuple(d * (k - 1) // 2 for d, k in zip(dilation, kernel)), sizes
        else:
            front = (0,) * n if same else padding
            out = _forward(n, sizes, kernel, stride, front, dilation)
        if min(out) < 1:
            return None
        convolve = getattr(F, f"conv{n}d")

        def call(x, w, b):
            return convolve(x, w, b, stride, same or padding, dilation, groups[0])

        def against(x, w, b, grad):
            return reference.convolution(x, w, b, grad, stride, front, dilation, groups[0])

        return run(rng, "conv", batch, groups, dtype, bias, sizes, out, kernel, call, against, False)

    @family(f"conv_transpose{n}d", (0, 1800, 2600, 900)[n], **shared, extra=NUMBERS[n](0, 0, 1))
    def turned(rng, batch, sizes, kernel, groups, stride, padding, dilation, bias, dtype, extra, **_):
        out = tuple(
            (i - 1) * s - 2 * p + d * (k - 1) + e + 1
            for i, s, p, d, k, e in zip(sizes, stride, padding, dilation, kernel, extra)
        )
        if min(out) < 1 or any(e >= max(s, d) for e, s, d in zip(extra, stride, dilation)):
            return None
        convolve = getattr(F, f"conv_transpose{n}d")

        def call(x, w, b):
            return convolve(x, w, b, stride, padding, extra, groups[0], dilation)

        def against(x, w, b, grad):
            return reference.transposed(x, w, b, grad, stride, padding, dilation, groups[0])

        return run(rng, "conv_transpose", batch, groups, dtype, bias, sizes, out, kernel, call, against, True)


for _n in (1, 2, 3):
    _convolutions(_n)


# --- each way, whether it is the one that shapes choose or not ------------------------------
class _Forced(fb.autograd.Function):
    """A convolution and its gradients by functions that are given."""

    @staticmethod
    def forward(ctx, x, w, b, ways, g, out):
        ctx.save_for_backward(x, w)
        ctx.given = ways, g, b is not None
        return ways[0](x, w, b, g, out)

    @staticmethod
    def backward(ctx, grad):
        (x, w), (ways, g, biased) = ctx.saved_tensors, ctx.given
        into_x = ways[1](grad, w, g, tuple(x.shape[2:]))
        into_w = ways[2](grad, x, g, tuple(w.shape[2:]))
        return into_x, into_w, grad.sum((0, *range(2, grad.ndim))) if biased else None, None, None, None


def _computed(way: str):
    def back(grad, w, g, sizes):
        if way == "product" and sizes != (1, 1):  # as `conv2d` chooses
            return convolution_grid.input_gradient(grad, w, g, sizes)
        return families.computed(way, grad, w, None, g, sizes, True)

    def forward(x, w, b, g, out):
        return families.computed(way, x, w, b, g, out, False)

    return forward, back, convolution_weights.weight_gradient


def _apart():
    def forward(x, w, b, g, out):
        made = w.shape[0] // g.groups
        one = lambda x, w, b, g: convolution_grid.forward(x, w, b, g, out)  # noqa: E731
        return convolution_grouped.apart(one, x, w, b, g, out, made)

    def back(grad, w, g, sizes):
        one = lambda grad, w, _, g: convolution_grid.input_gradient(grad, w, g, sizes)  # noqa: E731
        return convolution_grouped.apart(one, grad, w, None, g, sizes, w.shape[1])

    return forward, back, convolution_grid.weight_gradient


_GRID = convolution_grid.forward, convolution_grid.input_gradient, convolution_grid.weight_gradient
_LIFTED = (
    functools.partial(convolution_lifted.forward, families.forward),
    functools.partial(convolution_lifted.input_gradient, families.input_gradient),
    convolution_weights.weight_gradient,
)
_WINOGRAD = {
    m: (*_computed(f"winograd {m}")[:2], convolution_winograd_weights.weight_gradient) for m in (2, 4)
}


def _near(g: Geometry) -> bool:
    return max(g.stride) == max(g.dilation) == 1


WAYS = {  # which geometries each can take
    "direct": (_computed("direct"), 2, lambda k, g, out, sizes: g.groups == 1),
    "planes": (
        _computed("planes"), 2,
        lambda k, g, out, sizes: k == (1, 1) and g.groups == 1 and _near(g) and not any(g.before),
    ),
    "product": (
        _computed("product"), 2,
        lambda k, g, out, sizes: k == out == (1, 1) and g.groups == 1 and not any(g.before),
    ),
    "winograd 2": (_WINOGRAD[2], 2, lambda k, g, out, sizes: k == (3, 3) and g.groups == 1 and _near(g)),
    "winograd 4": (_WINOGRAD[4], 2, lambda k, g, out, sizes: k == (3, 3) and g.groups == 1 and _near(g)),
    "grid": (_GRID, (1, 2, 3), lambda k, g, out, sizes: True),
    "lifted": (
        _LIFTED, (1, 3), lambda k, g, out, sizes: g.groups == 1 and (len(k) == 1 or g.dilation[0] == 1)
    ),
    "apart": (_apart(), (1, 2, 3), lambda k, g, out, sizes: g.groups > 1),
    "strips": (
        (
            convolution_grouped.forward,
            lambda grad, w, g, sizes: (
                convolution_grouped.input_gradient(grad, w, g, sizes)
                if max(g.stride) == 1
                else convolution_grid.input_gradient(grad, w, g, sizes)
            ),
            depthwise.weight_gradient,
        ),
        (1, 2),
        lambda k, g, out, sizes: g.groups > 1 and depthwise.takes(1, k, g, False),
    ),
}  # fmt: skip


def _forced(way: str, n: int) -> None:
    sizes, kernels = GEOMETRY[n]
    ways, _, takes = WAYS[way]
    kernels = [k for k in kernels if way not in ("planes", "product") or max(k) == 1]
    kernels = [k for k in kernels if "winograd" not in way or k == (3, 3)]
    groups = [g for g in GROUPS if (g[0] > 1) == (way in ("apart", "strips")) or way == "grid"]
    layouts = [a for a in LAYOUTS if n == 2 or a != "last"]

    @family(
        f"{way}, {n}d", 500 if n != 3 else 200, batch=(1, 2, 3), sizes=sizes, kernel=kernels, groups=groups,
        stride=NUMBERS[n](*STRIDES[n]), padding=NUMBERS[n](*PADDINGS[n]), dilation=NUMBERS[n](1, 2), bias=(False, True),
        dtype=("float32",) if "winograd" in way else ("float32", "float64"), layout=layouts, second=LAYOUTS, sent=layouts,
    )  # fmt: skip
    def forced(rng, batch, sizes, kernel, groups, stride, padding, dilation, bias, dtype, **_):
        out = _forward(n, sizes, kernel, stride, padding, dilation)
        g = Geometry(stride, padding, tuple(d if k > 1 else 1 for d, k in zip(dilation, kernel)), groups[0])
        if min(out) < 1:
            return None
        if not takes(kernel, g, out, sizes):
            return None
        count, channels, filters = groups
        x = draw(rng, (batch, count * channels, *sizes), dtype)
        w = draw(rng, (count * filters, channels, *kernel), dtype)
        b = draw(rng, (count * filters,), dtype) if bias else None

        def against(x, w, b, grad):
            return reference.convolution(x, w, b, grad, stride, padding, dilation, count)

        return Case(
            [x, w, b],
            lambda x, w, b: _Forced.apply(x, w, b, ways, g, out),
            (batch, count * filters, *out),
            against,
        )


for _way, (_, _dims, _) in WAYS.items():
    for _n in _dims if isinstance(_dims, tuple) else (_dims,):
        _forced(_way, _n)


# --- windows of images ------------------------------
@family(
    "unfold", 500, batch=(None, 0, 1, 2), channels=(1, 3), sizes=GEOMETRY[2][0], kernel=GEOMETRY[2][1], stride=NUMBERS[2](1, 2, 3),
    padding=NUMBERS[2](0, 1), dilation=NUMBERS[2](1, 2), layout=LAYOUTS, sent=LAYOUTS, folds=(False, True),
)  # fmt: skip
def unfold(rng, batch, channels, sizes, kernel, stride, padding, dilation, dtype, folds, **_):
    out = _forward(2, sizes, kernel, stride, padding, dilation)
    if min(out) < 1:
        return None
    lead = () if batch is None else (batch,)
    cut = (*lead, channels * math.prod(kernel), math.prod(out))
    whole = (*lead, channels, *sizes)
    tables = [
        reference.table(o, k, i, s, p, d)
        for o, k, i, s, p, d in zip(out, kernel, sizes, stride, padding, dilation)
    ]

    def taken(x):
        return reference.cut(_padded(x, 2), tables).transpose(0, 1, 4, 5, 2, 3).reshape(cut)

    def laid(y):
        y = y.reshape(-1, channels, *kernel, *out)
        return reference.join(y.transpose(0, 1, 4, 5, 2, 3), tables).reshape(whole)

    given = dict(kernel_size=kernel, dilation=dilation, padding=padding, stride=stride)
    if folds:
        if batch == 0:
            return None
        return Case(
            [draw(rng, cut, dtype)],
            lambda y: F.fold(y, sizes, **given),
            whole,
            lambda y, grad: (laid(y), [taken(grad)]),
        )
    if batch == 0:
        return None
    return Case(
        [draw(rng, whole, dtype)],
        lambda x: F.unfold(x, **given),
        cut,
        lambda x, grad: (taken(x), [laid(grad)]),
    )
