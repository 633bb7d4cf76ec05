"""Operations at sizes of real work, side by side with PyTorch: where to look for the next loss.

    python benchmarks/wide.py                 # every case, 1 thread, as a Markdown table from the slowest ratio up
    python benchmarks/wide.py --threads 2 --cases 'pool|interp'

Needs PyTorch.  Ratio = PyTorch's time / flambeau's: the least of four repeats each, library after library, so unlike
`versus.py` the machine's drift is in the ratio.
"""

from __future__ import annotations

import argparse
import importlib
import math
import re
import timeit
import warnings
from collections.abc import Callable


def both_ways(function: Callable, *inputs) -> Callable:
    """Forward and backward from ones."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    gradient = function(*leaves).detach() * 0 + 1

    def run() -> None:
        for leaf in leaves:
            leaf.grad = None
        function(*leaves).backward(gradient)

    return run


def elementwise(t) -> dict[str, Callable]:
    F, a, fb = t.nn.functional, t.randn(1000, 1000), both_ways
    whole, c, h = t.randint(0, 100, (1000, 1000)), t.randn(1000, 1000, dtype=t.complex64), a.bfloat16()
    return {
        "where": lambda: t.where(a > 0, a, 0.0),
        "masked_fill": lambda: a.masked_fill(a > 0, 0.0),
        "clamp": lambda: a.clamp(-1, 1),
        "lerp": lambda: a.lerp(a, 0.3),
        "addcmul": lambda: a.addcmul(a, a),
        "pow": lambda: a.abs() ** 2.5,
        "atan2": lambda: t.atan2(a, a),
        "erfinv": lambda: (a * 0.1).erfinv(),
        "lgamma": lambda: a.lgamma(),
        "digamma": lambda: a.digamma(),
        "gelu, both ways": fb(F.gelu, a),
        "silu, both ways": fb(F.silu, a),
        "mish, both ways": fb(F.mish, a),
        "glu": lambda: F.glu(a),
        "prelu": lambda: F.prelu(a, a[0]),
        "hardswish": lambda: F.hardswish(a),
        "dropout": lambda: F.dropout(a, 0.3),
        "to float64": lambda: a.double(),
        "to int64": lambda: a.long(),
        "int64 add": lambda: whole + whole,
        "int64 //": lambda: whole // 7,
        "bfloat16 add": lambda: h + h,
        "bfloat16 exp": lambda: h.exp(),
        "complex64 mul": lambda: c * c,
        "complex64 exp": lambda: c.exp(),
        "complex64 abs": lambda: c.abs(),
    }


def folds(t) -> dict[str, Callable]:
    F, a, fb = t.nn.functional, t.randn(1000, 1000), both_ways
    whole, c, h = t.randint(0, 100, (1000, 1000)), t.randn(1000, 1000, dtype=t.complex64), a.bfloat16()
    return {
        "int64 sum": lambda: whole.sum(),
        "bfloat16 sum": lambda: h.sum(1),
        "bfloat16 softmax": lambda: h.softmax(1),
        "complex64 sum": lambda: c.sum(),
        "prod": lambda: a.prod(1),
        "var, dim 0": lambda: a.var(0),
        "std, dim 1": lambda: a.std(1),
        "norm 2": lambda: a.norm(dim=1),
        "norm 1, dim 0": lambda: a.norm(p=1, dim=0),
        "norm 3": lambda: a.norm(p=3, dim=1),
        "argmax, dim 1": lambda: a.argmax(1),
        "argmax, dim 0": lambda: a.argmax(0),
        "max, dim 1": lambda: a.max(1),
        "logsumexp": lambda: a.logsumexp(1),
        "any": lambda: (a > 9).any(),
        "cumsum, dim 1": lambda: a.cumsum(1),
        "cumsum, dim 0": lambda: a.cumsum(0),
        "cumprod": lambda: a.cumprod(1),
        "cummax": lambda: a.cummax(1),
        "logcumsumexp": lambda: a.logcumsumexp(1),
        "cumsum, both ways": fb(lambda x: x.cumsum(1), a),
        "softmax, both ways": fb(lambda x: x.softmax(1), a),
        "log_softmax, dim 0": lambda: a.log_softmax(0),
        "layer_norm, both ways": fb(lambda x: F.layer_norm(x, (1000,)), a),
        "renorm": lambda: a.renorm(2, 0, 1.0),
        "diff": lambda: a.diff(),
    }


def moves(t) -> dict[str, Callable]:
    F, a, fb = t.nn.functional, t.randn(1000, 1000), both_ways
    small, image = t.randn(256, 256), t.randn(8, 32, 64, 64)
    rows, places = t.randint(0, 1000, (1000,)), t.randint(0, 1000, (1000, 1000))
    table, tokens = t.randn(5000, 128), t.randint(0, 5000, (32, 64))
    return {
        "gather, dim 1": lambda: a.gather(1, places),
        "gather, dim 0": lambda: a.gather(0, places),
        "gather, both ways": fb(lambda x: x.gather(1, places), a),
        "index_select, dim 0": lambda: a.index_select(0, rows),
        "index_select, dim 1": lambda: a.index_select(1, rows),
        "x[rows]": lambda: a[rows],
        "x[rows], both ways": fb(lambda x: x[rows], a),
        "x[:, rows]": lambda: a[:, rows],
        "x[mask]": lambda: a[a > 0],
        "scatter": lambda: a.scatter(1, places, a),
        "scatter_add": lambda: a.scatter_add(0, places, a),
        "index_add": lambda: a.index_add(0, rows, a),
        "index_put, accumulated": lambda: a.clone().index_put_((rows,), a, accumulate=True),
        "embedding, both ways": fb(lambda w: F.embedding(tokens, w), table),
        "flip, dim 0": lambda: a.flip(0),
        "flip, dim 1": lambda: a.flip(1),
        "rot90": lambda: a.rot90(),
        "roll": lambda: a.roll(7, 1),
        "tril": lambda: a.tril(),
        "repeat": lambda: small.repeat(4, 4),
        "repeat_interleave": lambda: small.repeat_interleave(4, 1),
        "cat": lambda: t.cat([a, a], 1),
        "stack": lambda: t.stack([a, a], 2),
        "channels last": lambda: image.permute(0, 2, 3, 1).contiguous(),
        "pad": lambda: F.pad(image, (1, 1, 1, 1)),
        "pad, both ways": fb(lambda x: F.pad(x, (1, 1, 1, 1)), image),
        "pad, reflected": lambda: F.pad(image, (2, 2, 2, 2), mode="reflect"),
        "unfold": lambda: F.unfold(image, 3),
        "unfold, both ways": fb(lambda x: F.unfold(x, 3), image),
        "pixel_shuffle": lambda: F.pixel_shuffle(image, 2),
        "one_hot": lambda: F.one_hot(tokens, 5000),
    }


def images(t) -> dict[str, Callable]:
    F, fb = t.nn.functional, both_ways
    x, w, grid = t.randn(8, 32, 64, 64), t.randn(32, 32, 3, 3), t.rand(8, 64, 64, 2) * 2 - 1
    grouped, volume = w[:, :8].contiguous(), t.randn(2, 8, 4, 64, 64)
    enlarged = lambda mode: lambda x: F.interpolate(x, scale_factor=2, mode=mode)
    sampled = lambda x: F.grid_sample(x, grid, align_corners=False)
    return {
        "interpolate, nearest": lambda: enlarged("nearest")(x),
        "interpolate, nearest, both ways": fb(enlarged("nearest"), x),
        "interpolate, bilinear": lambda: enlarged("bilinear")(x),
        "interpolate, bilinear, both ways": fb(enlarged("bilinear"), x),
        "interpolate, bicubic": lambda: enlarged("bicubic")(x),
        "grid_sample": lambda: sampled(x),
        "grid_sample, both ways": fb(sampled, x),
        "max_pool2d 2": lambda: F.max_pool2d(x, 2),
        "max_pool2d 2, both ways": fb(lambda x: F.max_pool2d(x, 2), x),
        "max_pool2d 3/2, both ways": fb(lambda x: F.max_pool2d(x, 3, 2, 1), x),
        "avg_pool2d 2, both ways": fb(lambda x: F.avg_pool2d(x, 2), x),
        "avg_pool2d 3/1, both ways": fb(lambda x: F.avg_pool2d(x, 3, 1, 1), x),
        "adaptive_avg_pool2d 1, both ways": fb(lambda x: F.adaptive_avg_pool2d(x, 1), x),
        "adaptive_avg_pool2d 5, both ways": fb(lambda x: F.adaptive_avg_pool2d(x, 5), x),
        "adaptive_max_pool2d 8, both ways": fb(lambda x: F.adaptive_max_pool2d(x, 8), x),
        "batch_norm, both ways": fb(lambda x: F.batch_norm(x, None, None, training=True), x),
        "group_norm, both ways": fb(lambda x: F.group_norm(x, 4), x),
        "instance_norm, both ways": fb(F.instance_norm, x),
        "conv_transpose2d": lambda: F.conv_transpose2d(x, w, padding=1),
        "conv_transpose2d, stride 2": lambda: F.conv_transpose2d(x, w, stride=2),
        "conv1d": lambda: F.conv1d(x.flatten(2), w[:, :, 0], padding=1),
        "conv2d, dilated": lambda: F.conv2d(x, w, padding=2, dilation=2),
        "conv2d, 4 groups": lambda: F.conv2d(x, grouped, padding=1, groups=4),
        "conv3d": lambda: F.conv3d(volume, w[:8, :8, :, :, None]),
    }


def convolutions(t) -> dict[str, Callable]:
    F, fb = t.nn.functional, both_ways
    x, small, sound = t.randn(8, 64, 28, 28), t.randn(8, 128, 14, 14), t.randn(8, 32, 4000)
    volume, cube = t.randn(2, 16, 8, 32, 32), t.randn(16, 16, 3, 3, 3)
    three, five, square = t.randn(64, 1, 3, 3), t.randn(64, 1, 5, 5), t.randn(64, 64, 4, 4)
    deep = lambda stride=1, padding=1, dilation=1: (
        lambda x, w: F.conv2d(x, w, None, stride, padding, dilation, groups=64)
    )
    grouped = lambda x, w: F.conv2d(x, w, padding=1, groups=32)
    up = lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1)
    one, heard = lambda x, w: F.conv2d(x, w), lambda x, w: F.conv1d(x, w, padding=3)
    solid = lambda x, w: F.conv3d(x, w, padding=1)
    return {
        "depthwise 3x3": lambda: deep()(x, three),
        "depthwise 3x3, both ways": fb(deep(), x, three),
        "depthwise 3x3, stride 2": lambda: deep(2)(x, three),
        "depthwise 3x3, stride 2, both ways": fb(deep(2), x, three),
        "depthwise 5x5": lambda: deep(1, 2)(x, five),
        "depthwise 5x5, both ways": fb(deep(1, 2), x, five),
        "depthwise 3x3, dilated": lambda: deep(1, 2, 2)(x, three),
        "depthwise 3x3, dilated, both ways": fb(deep(1, 2, 2), x, three),
        "conv2d, 32 groups": lambda: grouped(small, t.ones(128, 4, 3, 3)),
        "conv2d, 32 groups, both ways": fb(grouped, small, t.randn(128, 4, 3, 3)),
        "conv2d 1x1, both ways": fb(one, x, t.randn(128, 64, 1, 1)),
        "conv_transpose2d 4x4, stride 2": lambda: up(x, square),
        "conv_transpose2d 4x4, stride 2, both ways": fb(up, x, square),
        "conv1d 7": lambda: heard(sound, t.ones(64, 32, 7)),
        "conv1d 7, both ways": fb(heard, sound, t.randn(64, 32, 7)),
        "conv3d 3x3x3": lambda: solid(volume, cube),
        "conv3d 3x3x3, both ways": fb(solid, volume, cube),
    }


def products(t) -> dict[str, Callable]:
    F, a, fb = t.nn.functional, t.randn(1000, 1000), both_ways
    small, heads, points = t.randn(256, 256), t.randn(8, 32, 64, 64), t.randn(300, 64)
    whole, c = t.randint(0, 100, (1000, 1000)), t.randn(256, 256, dtype=t.complex64)
    positive = small @ small.T + 300 * t.eye(256)
    return {
        "matrix @ vector": lambda: a @ a[0],
        "int64 @": lambda: whole @ whole,
        "complex64 @": lambda: c @ c,
        "float64 @": lambda: small.double() @ small.double(),
        "bmm": lambda: t.bmm(heads[0], heads[1]),
        "einsum bhqd,bhkd->bhqk": lambda: t.einsum("bhqd,bhkd->bhqk", heads, heads),
        "einsum ij,jk,kl->il": lambda: t.einsum("ij,jk,kl->il", small, small, small),
        "attention": lambda: F.scaled_dot_product_attention(heads, heads, heads),
        "attention, both ways": fb(lambda x: F.scaled_dot_product_attention(x, x, x), heads),
        "cdist, both ways": fb(lambda x: t.cdist(x, x * 1.1), points),
        "kron": lambda: t.kron(small[:32, :32], small[:32, :32]),
        "inv": lambda: t.linalg.inv(small),
        "solve": lambda: t.linalg.solve(small, small),
        "det": lambda: t.linalg.det(small),
        "cholesky": lambda: t.linalg.cholesky(positive),
        "qr": lambda: t.linalg.qr(small),
        "eigh": lambda: t.linalg.eigh(positive),
        "svd": lambda: t.linalg.svd(small),
        "matrix_exp": lambda: t.matrix_exp(small * 0.1),
        "fft": lambda: t.fft.fft(a),
        "rfft2": lambda: t.fft.rfft2(heads),
    }


def others(t) -> dict[str, Callable]:
    F, a, fb = t.nn.functional, t.randn(1000, 1000), both_ways
    classes, numbers = t.randint(0, 1000, (1000,)), t.randint(0, 50, (200000,))
    return {
        "sort": lambda: a.sort(),
        "sort, dim 0": lambda: a.sort(0),
        "topk": lambda: a.topk(10),
        "median": lambda: a.median(1),
        "kthvalue": lambda: a.kthvalue(5),
        "quantile": lambda: a.quantile(0.3, 1),
        "unique": lambda: numbers.unique(),
        "bincount": lambda: numbers.bincount(),
        "histc": lambda: a.histc(50),
        "nonzero": lambda: (a > 0).nonzero(),
        "bucketize": lambda: t.bucketize(a, t.linspace(-2, 2, 20)),
        "randn": lambda: t.randn(1000, 1000),
        "randint": lambda: t.randint(0, 10, (1000, 1000)),
        "randperm": lambda: t.randperm(100000),
        "multinomial": lambda: t.multinomial(a.abs(), 5),
        "arange": lambda: t.arange(1000000),
        "full": lambda: t.full((1000, 1000), 2.0),
        "tolist": lambda: a[0].tolist(),
        "cross_entropy, both ways": fb(lambda x: F.cross_entropy(x, classes), a),
        "nll_loss, both ways": fb(lambda x: F.nll_loss(x, classes), a),
        "bce with logits, both ways": fb(lambda x: F.binary_cross_entropy_with_logits(x, a.sigmoid()), a),
        "smooth_l1_loss, both ways": fb(lambda x: F.smooth_l1_loss(x, a * 1.1), a),
        "kl_div": lambda: F.kl_div(a.log_softmax(1), a.softmax(1), reduction="sum"),
    }


def sequences(t) -> dict[str, Callable]:
    """Recurrent layers, forward without gradients and both ways, and bags of rows."""
    F, fb, pack, cases = t.nn.functional, both_ways, t.nn.utils.rnn.pack_padded_sequence, {}
    for kind in (t.nn.RNN, t.nn.GRU, t.nn.LSTM):
        for name, sizes, options in (
            ("batch 1", (32, 1, 64), {}),
            ("batch 1, wide", (16, 1, 512), {}),
            ("batch 32", (32, 32, 128), {}),
            ("2 layers", (32, 32, 256), {"num_layers": 2}),
            ("both directions", (32, 16, 256), {"bidirectional": True}),
            ("batch 32, wide", (8, 32, 1024), {}),
        ):
            cases |= _recurrent(t, f"{kind.__name__}, {name}", kind, sizes, options, lambda x: x)
        lengths = t.arange(32, 0, -1)
        cases |= _recurrent(
            t,
            f"{kind.__name__}, packed",
            kind,
            (32, 32, 128),
            {},
            lambda x, lengths=lengths: pack(x, lengths),
        )
    table, numbers, factors = t.randn(5000, 128), t.randint(0, 5000, (4096,)), t.rand(4096)
    starts = t.arange(0, 4096, 16)
    for mode in ("sum", "mean", "max"):
        bags = lambda w, mode=mode: F.embedding_bag(numbers, w, starts, mode=mode)
        cases |= {f"embedding_bag, {mode}": lambda bags=bags: bags(table)}
        cases |= {f"embedding_bag, {mode}, both ways": fb(bags, table)}
    weighted = lambda w, s: F.embedding_bag(numbers, w, starts, mode="sum", per_sample_weights=s)
    padded = lambda w: F.embedding_bag(numbers.reshape(-1, 16), w, mode="mean", padding_idx=3)
    return cases | {
        "embedding_bag, weighted": lambda: weighted(table, factors),
        "embedding_bag, weighted, both ways": fb(weighted, table, factors),
        "embedding_bag, padded": lambda: padded(table),
        "embedding_bag, padded, both ways": fb(padded, table),
        "embedding_bag, few": lambda: F.embedding_bag(numbers[:64], table, starts[:4], mode="sum"),
        "embedding, padded, both ways": fb(lambda w: F.embedding(numbers, w, padding_idx=3), table),
    }


def _recurrent(
    t, name: str, kind: Callable, sizes: tuple, options: dict, prepare: Callable
) -> dict[str, Callable]:
    """A layer with gradients of input and weights, and without any."""
    layer, x = kind(sizes[2], sizes[2], **options), t.randn(sizes)

    def rows(x):
        result = layer(prepare(x))[0]
        return getattr(result, "data", result) if isinstance(result, tuple) else result

    def infer():
        with t.no_grad():
            layer(prepare(x))

    return {name: infer, f"{name}, both ways": both_ways_of(layer, rows, x)}


def both_ways_of(layer, function: Callable, *inputs) -> Callable:
    """`both_ways` where a layer's parameters get gradients, too."""
    run = both_ways(function, *inputs)

    def cleared() -> None:
        layer.zero_grad()
        run()

    return cleared


def other_shapes(t) -> dict[str, Callable]:
    """The families of `moves` and `images` at other sizes, dimensions, modes and layouts: what is fast must be so for all of them."""
    F, fb = t.nn.functional, both_ways
    x, odd, line, volume = (
        t.randn(4, 24, 56, 56),
        t.randn(2, 16, 75, 101),
        t.randn(8, 64, 1500),
        t.randn(1, 8, 20, 40, 40),
    )
    last = x.contiguous(memory_format=t.channels_last)
    cube, wide = t.randn(40, 100, 250), t.randint(0, 100, (40, 70, 250))
    rows, double = t.randint(0, 100, (80,)), t.randn(500, 700, dtype=t.float64)
    h, small = x.bfloat16(), t.randint(0, 100, (900, 1100)).byte()
    grid, grid3 = t.rand(4, 40, 50, 2) * 2.4 - 1.2, t.rand(1, 10, 30, 30, 3) * 2.4 - 1.2
    sampled = lambda **options: lambda x: F.grid_sample(x, grid, align_corners=False, **options)
    resized = lambda **options: lambda x: F.interpolate(x, **options)
    return {
        "adaptive_avg_pool2d 7, uneven, both ways": fb(lambda x: F.adaptive_avg_pool2d(x, 7), odd),
        "adaptive_avg_pool2d 3, channels last": lambda: F.adaptive_avg_pool2d(last, 3),
        "adaptive_avg_pool1d 100": lambda: F.adaptive_avg_pool1d(line, 100),
        "adaptive_avg_pool3d 3, both ways": fb(lambda x: F.adaptive_avg_pool3d(x, 3), volume),
        "adaptive_max_pool2d 7, uneven, both ways": fb(lambda x: F.adaptive_max_pool2d(x, 7), odd),
        "avg_pool1d 5/2, both ways": fb(lambda x: F.avg_pool1d(x, 5, 2, 2), line),
        "avg_pool2d 7/1, padding left out": lambda: F.avg_pool2d(x, 7, 1, 3, count_include_pad=False),
        "avg_pool3d 2, both ways": fb(lambda x: F.avg_pool3d(x, 2), volume),
        "max_pool1d 3/2, both ways": fb(lambda x: F.max_pool1d(x, 3, 2), line),
        "max_pool2d 3/1, both ways": fb(lambda x: F.max_pool2d(x, 3, 1, 1), x),
        "max_pool3d 2, both ways": fb(lambda x: F.max_pool3d(x, 2), volume),
        "interpolate, smaller, both ways": fb(resized(size=(33, 41), mode="bilinear"), odd),
        "interpolate, antialiased": lambda: resized(size=(33, 41), mode="bilinear", antialias=True)(odd),
        "interpolate, area": lambda: resized(size=(20, 30), mode="area")(odd),
        "interpolate, bicubic, both ways": fb(resized(scale_factor=1.7, mode="bicubic"), odd),
        "interpolate, channels last": lambda: resized(scale_factor=2, mode="bilinear")(last),
        "interpolate, linear, both ways": fb(resized(size=4100, mode="linear", align_corners=True), line),
        "interpolate, trilinear, both ways": fb(resized(scale_factor=1.5, mode="trilinear"), volume),
        "interpolate, bfloat16": lambda: resized(scale_factor=2, mode="bilinear")(h),
        "grid_sample, border": lambda: sampled(padding_mode="border")(x),
        "grid_sample, reflection, nearest": lambda: sampled(padding_mode="reflection", mode="nearest")(x),
        "grid_sample, bicubic, both ways": fb(sampled(mode="bicubic"), x),
        "grid_sample, of the grid, both ways": fb(
            lambda x, g: F.grid_sample(x, g, align_corners=False), x, grid
        ),
        "grid_sample, volume, both ways": fb(lambda x: F.grid_sample(x, grid3, align_corners=True), volume),
        "pad, reflected line, both ways": fb(lambda x: F.pad(x, (9, 20), mode="reflect"), line),
        "pad, replicated volume, both ways": fb(
            lambda x: F.pad(x, (1, 2, 2, 1, 1, 1), mode="replicate"), volume
        ),
        "pad, circular": lambda: F.pad(odd, (3, 3, 2, 2), mode="circular"),
        "flip, both dims, float64": lambda: double.flip(0, 1),
        "flip, bytes": lambda: small.flip(1),
        "roll, two dims": lambda: double.roll((3, 5), (0, 1)),
        "rot90, three quarters": lambda: double.rot90(3),
        "index_select, middle": lambda: cube.index_select(1, rows),
        "index_add, middle": lambda: cube.index_add(1, rows, cube[:, :80]),
        "gather, middle": lambda: cube.gather(1, wide),
        "scatter, middle": lambda: cube.scatter(1, wide, cube[:, :70]),
        "cat, transposed": lambda: t.cat([double.T, double.T], 1),
        "cummin, float64": lambda: double.cummin(1),
        "cummax, dim 0": lambda: double.cummax(0),
        "full, float64": lambda: t.full((700, 900), 0.5, dtype=t.float64),
        "arange, by sevenths": lambda: t.arange(0, 30000, 1 / 7),
    }


def decompositions(t) -> dict[str, Callable]:
    """Large matrices, and many small ones, where a call of LAPACK for each is most of the time."""
    L, a, tall = t.linalg, t.randn(600, 600), t.randn(2000, 50)
    few, many, tiny = t.randn(20, 64, 64), t.randn(100, 16, 16), t.randn(1000, 4, 4)
    positive = lambda x: x @ x.mT + x.shape[-1] * t.eye(x.shape[-1])
    one, double, c = (
        t.randn(100, 16, 1),
        t.randn(128, 128, dtype=t.float64),
        t.randn(128, 128, dtype=t.complex64),
    )
    p, q, r = positive(a), positive(few), positive(many)
    return {
        "inv, 600": lambda: L.inv(a),
        "inv, 1000 of 4": lambda: L.inv(tiny),
        "solve, 100 of 16, vectors": lambda: L.solve(many, one),
        "solve, float64": lambda: L.solve(double, double),
        "solve, complex64": lambda: L.solve(c, c),
        "solve_triangular, 600": lambda: L.solve_triangular(p, a, upper=True),
        "lu_factor, 600": lambda: L.lu_factor(a),
        "slogdet, 100 of 16": lambda: L.slogdet(many),
        "cholesky, 600": lambda: L.cholesky(p),
        "cholesky, 20 of 64": lambda: L.cholesky(q),
        "cholesky, 100 of 16": lambda: L.cholesky(r),
        "qr, tall": lambda: L.qr(tall),
        "qr, 20 of 64": lambda: L.qr(few),
        "eigh, 20 of 64": lambda: L.eigh(q),
        "eigvalsh, float64": lambda: L.eigvalsh(double),
        "svd, tall": lambda: L.svd(tall, full_matrices=False),
        "svdvals, 100 of 16": lambda: L.svdvals(many),
        "eig, 128": lambda: L.eig(c),
        "lstsq, tall": lambda: L.lstsq(tall, tall[:, :3]),
        "pinv": lambda: L.pinv(double),
        "matrix_exp, 100 of 16": lambda: t.matrix_exp(many * 0.1),
        "matrix_exp, float64": lambda: t.matrix_exp(double * 0.1),
    }


def transforms(t) -> dict[str, Callable]:
    """Fourier transforms: one signal and many, short and long, lengths of all kinds, several dimensions."""
    F, cases = t.fft, {}
    for rows, n in ((1, 100), (1, 1024), (32, 997), (32, 2401), (100, 256), (4, 65536), (1, 1000000)):
        x, z = t.randn(rows, n), t.randn(rows, n, dtype=t.complex64)
        half = F.rfft(x)
        cases |= {
            f"fft, {rows} of {n}": lambda z=z: F.fft(z),
            f"ifft, {rows} of {n}": lambda z=z: F.ifft(z),
            f"rfft, {rows} of {n}": lambda x=x: F.rfft(x),
            f"irfft, {rows} of {n}": lambda half=half: F.irfft(half),
        }
    image, volume, double = t.randn(3, 500, 375), t.randn(64, 64, 64), t.randn(300, 360, dtype=t.float64)
    z = t.randn(512, 512, dtype=t.complex64)
    return cases | {
        "fft, dim 0": lambda: F.fft(z, dim=0),
        "fft2": lambda: F.fft2(z),
        "rfft2, 500 by 375": lambda: F.rfft2(image),
        "irfft2, 500 by 375": lambda: F.irfft2(F.rfft2(image)),
        "rfftn": lambda: F.rfftn(volume),
        "fftn, float64": lambda: F.fftn(double),
        "rfft2, both ways": both_ways(lambda x: F.rfft2(x).abs(), image),
        "stft": lambda: t.stft(image.reshape(-1)[:160000], 512, window=t.ones(512), return_complex=True),
    }


def searches(t) -> dict[str, Callable]:
    a, whole, wide = t.randn(1000, 1000), t.randint(0, 1000000, (200000,)), t.randint(0, 5000, (200000,))
    bounds = t.linspace(-3, 3, 1000)
    rows = a[:, :100].sort().values
    return {
        "searchsorted, 1000 bounds": lambda: t.searchsorted(bounds, a),
        "searchsorted, rows": lambda: t.searchsorted(rows, a),
        "searchsorted, int64": lambda: t.searchsorted(wide.sort().values, wide),
        "bincount, 5000": lambda: wide.bincount(),
        "bincount, weighted": lambda: wide.bincount(a.reshape(-1)[:200000]),
        "unique, with counts": lambda: wide.unique(return_inverse=True, return_counts=True),
        "unique, sparse": lambda: (whole * 1000).unique(),
        "unique, sparse, with an inverse": lambda: (whole * 1000).unique(return_inverse=True),
        "unique, float32": lambda: a[:200].unique(),
        "nonzero, few": lambda: (a > 3).nonzero(),
        "nonzero, as a tuple": lambda: (a > 0).nonzero(as_tuple=True),
        "histc, given range": lambda: a.histc(100, -2, 2),
    }


GROUPS = (
    elementwise,
    folds,
    moves,
    images,
    convolutions,
    products,
    others,
    sequences,
    other_shapes,
    decompositions,
    transforms,
    searches,
)


def seconds(function: Callable) -> float:
    function()
    number = max(1, int(0.02 / max(timeit.timeit(function, number=1), 1e-7)))
    return min(timeit.repeat(function, number=number, repeat=4)) / number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cases", default="", help="a regular expression")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    ours, theirs = importlib.import_module("flambeau"), importlib.import_module("torch")
    rows = []
    for group in GROUPS:
        sides = []
        for module in (ours, theirs):
            module.set_num_threads(chosen.threads)
            module.manual_seed(0)
            sides.append(group(module))
        for name in sides[0]:
            if re.search(chosen.cases, name):
                mine, other = (seconds(side[name]) for side in sides)
                rows.append((other / mine, name, mine))
    mean = math.exp(sum(math.log(r[0]) for r in rows) / len(rows))
    print(f"{len(rows)} cases, geometric mean {mean:.2f}, {sum(r[0] >= 1 for r in rows)} at or above 1\n")
    print("| case | flambeau, µs | ratio |\n|---|---|---|")
    for ratio, name, mine in sorted(rows):
        print(f"| {name} | {mine * 1e6:.1f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
