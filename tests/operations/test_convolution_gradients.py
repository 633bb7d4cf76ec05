"""Depthwise convolutions by planes and the weight's gradient by the register tile, each asked for by name, against sums in float64.

python test_convolution_gradients.py CPU FEATURES       # the same checks with the vectors of another processor
"""

from __future__ import annotations

import subprocess
import sys
from itertools import product

import numpy as np
import pytest

import flambeau as fb
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.codegen import target
from flambeau.operations.neural.convolution import depthwise, families, grouped, lifted, weights
from flambeau.operations.neural.convolution import winograd_weights as winograd
from flambeau.operations.neural.convolution.grid import Geometry

F = fb.nn.functional
TOLERANCE = {"float32": 2e-5, "float64": 1e-12}
OLDER = (("haswell", "+avx,+avx2,+fma"), ("haswell", "-avx2,+avx,+fma"))  # vectors of 32 bytes, of 16


def geometry(
    rng, n: int, strides, farthest: int
) -> tuple[tuple[int, ...], Geometry, tuple[int, ...], tuple[int, ...]]:
    """A window, how it lies, the input's sizes and the output's."""
    while True:
        kernel = tuple(rng.choice([1, 2, 3, 3, 5, 7], n).tolist())
        stride, before = tuple(rng.choice(strides, n).tolist()), tuple(rng.integers(0, 5, n).tolist())
        dilation = tuple(rng.choice([1, 1, 2, farthest], n).tolist())
        sizes = tuple(rng.choice([1, 2, 7, 14, 17, 33, 70], n).tolist())
        parts = zip(sizes, before, dilation, kernel, stride)
        out = tuple((s + 2 * b - d * (k - 1) - 1) // t + 1 for s, b, d, k, t in parts)
        if min(out) > 0:
            return kernel, Geometry(stride, before, dilation, 1), sizes, out


def slices(x, taps, g: Geometry, out):
    """The part of a padded input that a tap of the windows reads."""
    parts = zip(taps, g.dilation, g.stride, out)
    return x[(slice(None), slice(None), *(slice(k * d, k * d + t * (o - 1) + 1, t) for k, d, t, o in parts))]


def sums(x, w, grad, g: Geometry):
    """The convolution and its gradients in float64: of x, of w."""
    padded = np.pad(x, [(0, 0), (0, 0), *((b, b + 8) for b in g.before)])
    of_x, of_w = np.zeros_like(padded), np.zeros(w.shape)
    filters, channels, out = w.shape[0] // g.groups, w.shape[1], grad.shape[2:]
    found = np.zeros(grad.shape)
    for k, taps in product(range(g.groups), product(*map(range, w.shape[2:]))):
        own, rows = slice(k * channels, (k + 1) * channels), slice(k * filters, (k + 1) * filters)
        part, here = slices(padded[:, own], taps, g, out), (rows, slice(None), *taps)
        found[:, rows] += np.einsum("nc...,oc->no...", part, w[here])
        slices(of_x[:, own], taps, g, out)[...] += np.einsum("no...,oc->nc...", grad[:, rows], w[here])
        flat, other = part.reshape(*part.shape[:2], -1), grad[:, rows].reshape(len(grad), filters, -1)
        of_w[here] = np.einsum("ncp,nop->oc", flat, other)
    inner = (slice(None), slice(None), *(slice(b, b + s) for b, s in zip(g.before, x.shape[2:])))
    return found, of_x[inner], of_w


def near(found, want, dtype: str) -> None:
    assert found.dtype == getattr(fb, dtype)
    np.testing.assert_allclose(
        found.numpy(), want, rtol=0, atol=TOLERANCE[dtype] * max(1, np.abs(want).max(initial=0))
    )


def check_depthwise(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, dtype = int(rng.integers(1, 3)), str(rng.choice(["float32", "float64"]))
    strided = bool(rng.integers(2))
    kernel, g, sizes, out = geometry(rng, n, [1, 2] if strided else [1], 3)
    g = g._replace(groups=int(rng.integers(2, 5)), dilation=(1,) * n if strided else g.dilation)
    out = tuple(
        (s + 2 * b - d * (k - 1) - 1) // t + 1
        for s, b, d, k, t in zip(sizes, g.before, g.dilation, kernel, g.stride)
    )
    times, images = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    x, grad = (
        rng.standard_normal((images, g.groups, *sizes)),
        rng.standard_normal((images, times * g.groups, *out)),
    )
    w, b = rng.standard_normal((times * g.groups, 1, *kernel)), rng.standard_normal(times * g.groups)
    want, of_x, of_w = sums(x, w, grad, g)
    x, w, b, grad = (fb.tensor(a.astype(dtype)) for a in (x, w, b, grad))
    assert depthwise.takes(1, kernel, g, False) and depthwise.takes(1, kernel, g, True)
    near(depthwise.forward(x, w, None, g, out), want, dtype)
    shifted = want + b.numpy().astype(np.float64).reshape(-1, *[1] * n)
    near(depthwise.forward(x, w, b, g, out), shifted, dtype)
    near(depthwise.input_gradient(grad, w, g, sizes), of_x, dtype)
    near(depthwise.weight_gradient(grad, x, g, kernel), of_w, dtype)


def check_weights(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, dtype = int(rng.integers(1, 4)), str(rng.choice(["float32", "float64"]))
    kernel, g, sizes, out = geometry(rng, n, [1, 1, 2, 3], 3)
    if n == 3:
        sizes = tuple(min(s, 17) for s in sizes)
    g = g._replace(groups=int(rng.choice([1, 1, 2, 3])))
    parts = zip(sizes, g.before, g.dilation, kernel, g.stride)
    out = tuple(max((s + 2 * b - d * (k - 1) - 1) // t + 1, 0) for s, b, d, k, t in parts)
    channels, filters = int(rng.choice([1, 2, 3, 5, 13, 16])), int(rng.choice([3, 16, 17, 33, 70]))
    x, grad = (
        rng.standard_normal((2, g.groups * channels, *sizes)),
        rng.standard_normal((2, g.groups * filters, *out)),
    )
    if not grad.size:
        return
    of_w = sums(x, np.zeros((g.groups * filters, channels, *kernel)), grad, g)[2]
    near(
        weights.weight_gradient(fb.tensor(grad.astype(dtype)), fb.tensor(x.astype(dtype)), g, kernel),
        of_w,
        dtype,
    )


def check_winograd(seed: int) -> None:
    rng = np.random.default_rng(seed)
    images, before = int(rng.integers(1, 4)), tuple(rng.integers(0, 4, 2).tolist())
    channels, filters = rng.choice([1, 3, 16, 17, 40], 2).tolist()
    sizes = tuple(rng.choice([3, 5, 8, 14, 30], 2).tolist())
    out = tuple(s + 2 * b - 2 for s, b in zip(sizes, before))
    x, grad = rng.standard_normal((images, channels, *sizes)), rng.standard_normal((images, filters, *out))
    g = Geometry((1, 1), before, (1, 1), 1)
    of_w = sums(x, np.zeros((filters, channels, 3, 3)), grad, g)[2]
    near(winograd.weight_gradient(fb.tensor(grad).float(), fb.tensor(x).float(), g, (3, 3)), of_w, "float32")


def check_groups(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, dtype = int(rng.integers(1, 3)), str(rng.choice(["float32", "float64"]))
    strided = bool(rng.integers(2))
    kernel, g, sizes, _ = geometry(rng, n, [1, 2] if strided else [1], 3)
    g = g._replace(groups=int(rng.integers(2, 5)), dilation=(1,) * n if strided else g.dilation)
    parts = zip(sizes, g.before, g.dilation, kernel, g.stride)
    out = tuple((s + 2 * b - d * (k - 1) - 1) // t + 1 for s, b, d, k, t in parts)
    channels, filters = int(rng.integers(1, 6)), int(rng.integers(1, 10))
    x, grad = (
        rng.standard_normal((2, g.groups * channels, *sizes)),
        rng.standard_normal((2, g.groups * filters, *out)),
    )
    w, b = (
        rng.standard_normal((g.groups * filters, channels, *kernel)),
        rng.standard_normal(g.groups * filters),
    )
    want, of_x, of_w = sums(x, w, grad, g)
    want += b.reshape(-1, *[1] * n)
    x, w, b, grad = (fb.tensor(a.astype(dtype)) for a in (x, w, b, grad))
    near(grouped.forward(x, w, b, g, out), want, dtype)
    near(
        grouped.apart(lambda x, w, b, g: families.forward(x, w, b, g, out), x, w, b, g, out, filters),
        want,
        dtype,
    )
    near(depthwise.weight_gradient(grad, x, g, kernel), of_w, dtype)
    if not strided:
        near(grouped.input_gradient(grad, w, g, sizes), of_x, dtype)


@pytest.mark.parametrize("seed", range(16))
def test_groups(seed):
    check_groups(seed)


@pytest.mark.parametrize("seed", range(12))
def test_weights_by_winograd(seed):
    check_winograd(seed)


def test_winograd_goes_block_by_block_over_many_squares():
    """And its errors are a few times those of the direct sum, which is summed in groups."""
    rng = np.random.default_rng(0)
    x, grad = (fb.tensor(rng.standard_normal((3, 40, 60, 64))) for _ in range(2))
    g = Geometry((1, 1), (1, 1), (1, 1), 1)
    exact = weights.weight_gradient(grad, x, g, (3, 3))
    errors = [
        float((way.weight_gradient(grad.float(), x.float(), g, (3, 3)) - exact).square().mean().sqrt())
        for way in (winograd, weights)
    ]
    assert errors[0] < 8 * errors[1] and errors[0] < 2e-6 * float(exact.square().mean().sqrt())


def test_winograd_is_left_alone_where_it_gains_nothing():
    wins = {
        (8, 64, 56): True,
        (1, 64, 56): True,
        (1, 128, 28): True,
        (8, 256, 14): True,
        (1, 256, 14): False,
        (8, 512, 7): False,
    }
    for (images, channels, size), wanted in wins.items():
        assert winograd.less_work(images, channels, channels, (size, size)) == wanted


def test_the_switch_of_winograd_holds_for_weights():
    rng = np.random.default_rng(0)
    x, grad = (fb.tensor(rng.standard_normal((2, 32, 28, 28)).astype("float32")) for _ in range(2))
    g, before = Geometry((1, 1), (1, 1), (1, 1), 1), families.allowed["winograd"]
    try:
        for allowed, way in ((True, winograd), (False, weights)):
            families.allowed["winograd"] = allowed
            found = families.weight_gradient(grad, x, g, (3, 3))
            assert fb.equal(found, way.weight_gradient(grad, x, g, (3, 3)))
    finally:
        families.allowed["winograd"] = before


@pytest.mark.parametrize("seed", range(12))
def test_lines_and_volumes_by_way_of_images(seed):
    rng = np.random.default_rng(seed)
    n, dtype = int(rng.choice([1, 3])), str(rng.choice(["float32", "float64"]))
    kernel, g, sizes, out = geometry(rng, n, [1, 1, 2, 3], 2)
    if n == 3:
        kernel, sizes = tuple(min(k, 3) for k in kernel), tuple(min(s, 9) for s in sizes)
        g = g._replace(dilation=(1, *g.dilation[1:]))
        parts = zip(sizes, g.before, g.dilation, kernel, g.stride)
        out = tuple((s + 2 * b - d * (k - 1) - 1) // t + 1 for s, b, d, k, t in parts)
    assert min(out) > 0
    x, w = rng.standard_normal((2, 5, *sizes)), rng.standard_normal((18, 5, *kernel))
    grad = rng.standard_normal((2, 18, *out))
    want, of_x, _ = sums(x, w, grad, g)
    x, w, grad = (fb.tensor(a.astype(dtype)) for a in (x, w, grad))
    near(lifted.forward(families.forward, x, w, None, g, out), want, dtype)
    near(lifted.input_gradient(families.input_gradient, grad, w, g, sizes), of_x, dtype)


@pytest.mark.parametrize("seed", range(24))
def test_depthwise(seed):
    check_depthwise(seed)


@pytest.mark.parametrize("seed", range(24))
def test_weights(seed):
    check_weights(seed)


def test_bands_of_lines_and_of_images():
    """A gradient larger than what is turned at once, in one image and over several."""
    rng = np.random.default_rng(0)
    for images, channels, filters, size in ((1, 6, 64, (70, 70)), (40, 5, 70, (7, 9)), (2, 6, 64, (2, 2000))):
        g = Geometry((1, 1), (1, 1), (1, 1), 1)
        x, grad = (
            rng.standard_normal((images, channels, *size)),
            rng.standard_normal((images, filters, *size)),
        )
        of_w = sums(x, np.zeros((filters, channels, 3, 3)), grad, g)[2]
        found = weights.weight_gradient(fb.tensor(grad).float(), fb.tensor(x).float(), g, (3, 3))
        near(found, of_w, "float32")


@pytest.mark.parametrize("cpu, features", OLDER)
def test_with_the_vectors_of_other_processors(cpu, features):
    done = subprocess.run(
        [sys.executable, __file__, cpu, features], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize(
    "size, weight, options",
    [
        ((3, 40, 12, 29), (40, 1, 3, 3), {"padding": 1, "groups": 40}),
        ((3, 40, 12, 29), (80, 1, 3, 3), {"padding": 1, "groups": 40, "stride": 2}),
        ((3, 8, 9, 200), (8, 1, 5, 5), {"padding": 2, "groups": 8}),
        ((5, 17, 9, 20), (70, 17, 3, 3), {"padding": 1}),
        ((2, 3, 40, 40), (16, 3, 7, 7), {"padding": 3, "stride": 2}),
        ((70, 9, 6, 6), (20, 9, 1, 1), {}),
        ((3, 40, 30, 30), (70, 40, 3, 3), {"padding": 1}),
        ((3, 32, 12, 29), (48, 4, 3, 3), {"padding": 1, "groups": 8}),
        ((2, 64, 12, 29), (64, 32, 3, 3), {"padding": 1, "groups": 2}),
    ],
)
def test_the_same_bits_for_any_number_of_threads(size, weight, options):
    rng = np.random.default_rng(0)
    x, w = (fb.tensor(rng.standard_normal(s).astype("float32"), requires_grad=True) for s in (size, weight))
    before, found = fb.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 64):
            fb.set_num_threads(threads)
            y = F.conv2d(x, w, **options)
            found.append([y.detach(), *fb.autograd.grad((y * y).sum(), (x, w))])
    finally:
        fb.set_num_threads(before)
    for others in found[1:]:
        assert all(fb.equal(a, b) for a, b in zip(found[0], others))


def test_views_are_read_where_they_lie():
    rng = np.random.default_rng(0)
    base = fb.tensor(rng.standard_normal((2, 12, 22, 40)).astype("float32"))
    w = fb.tensor(rng.standard_normal((6, 1, 3, 3)).astype("float32"))
    dense = fb.tensor(rng.standard_normal((9, 6, 3, 3)).astype("float32"))
    for x in (
        base[:, ::2, 1:-1, 3:30],
        base[:, 6:, ::2],
        base[:, :6].transpose(2, 3),
        base[:1, :6].expand(3, 6, 22, 40),
        base[:, :6, :, ::2],
        base[:, :6].to(memory_format=fb.channels_last),
    ):
        for own, groups in ((w, 6), (dense, 1)):
            found, want = [], []
            for results, given in ((found, x), (want, x.contiguous().clone())):
                given, weight = given.detach().requires_grad_(), own.clone().requires_grad_()
                y = F.conv2d(given, weight, padding=1, groups=groups)
                results += [y.detach(), *fb.autograd.grad(y.sum() + (y * y).sum(), (given, weight))]
            for a, b in zip(found, want):
                np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("weight, groups", [((6, 1, 3, 3), 6), ((12, 3, 3, 3), 2), ((64, 3, 3, 3), 2)])
def test_channels_side_by_side_stay_so(weight, groups):
    rng = np.random.default_rng(0)
    x = fb.tensor(rng.standard_normal((2, 6, 12, 20)).astype("float32"))
    w = fb.tensor(rng.standard_normal(weight).astype("float32"))
    last = x.to(memory_format=fb.channels_last).requires_grad_()
    y = F.conv2d(last, w, padding=1, groups=groups)
    assert y.is_contiguous(memory_format=fb.channels_last) and not y.is_contiguous()
    assert fb.equal(y, F.conv2d(x, w, padding=1, groups=groups))
    (of_x,) = fb.autograd.grad(y.square().sum(), last)
    assert of_x.is_contiguous(memory_format=fb.channels_last)


def test_what_is_not_a_number_stays_in_its_windows():
    x, w = fb.ones(1, 2, 9, 40), fb.ones(2, 1, 3, 3)
    x[0, 0, 4, 17] = float("nan")
    found = F.conv2d(x, w, padding=1, groups=2).isnan()
    assert found.sum() == 9 and bool(found[0, 0, 3:6, 16:19].all())
    grad = fb.ones(1, 2, 9, 40)
    grad[0, 1, 0, 0] = float("inf")
    of_x = depthwise.input_gradient(grad, w, Geometry((1, 1), (1, 1), (1, 1), 2), (9, 40))
    assert fb.isinf(of_x).sum() == 4
    x[0, 0, 4, 17] = 1
    x[0, 1, 8, 39] = float("nan")  # a corner: the taps that reach over the edge from it do not read it
    of_w = weights.weight_gradient(fb.ones(1, 3, 7, 38), x, Geometry((1, 1), (0, 0), (1, 1), 1), (3, 3))
    assert of_w.isnan().nonzero().tolist() == [[o, 1, 2, 2] for o in range(3)]


@pytest.mark.parametrize("groups, weight", [(4, (4, 1, 3, 3)), (1, (8, 4, 2, 3))])
def test_no_images(groups, weight):
    x, w = fb.zeros(0, 4, 6, 6, requires_grad=True), fb.ones(weight, requires_grad=True)
    y = F.conv2d(x, w, padding=1, groups=groups)
    of_x, of_w = fb.autograd.grad(y.sum(), (x, w))
    assert y.shape[0] == 0 and of_x.shape == x.shape and fb.equal(of_w, fb.zeros_like(w))


@pytest.mark.parametrize("stride", [1, 2])
def test_derivatives_of_derivatives(stride):
    rng = np.random.default_rng(0)
    x, w, b = (
        fb.tensor(rng.standard_normal(s), requires_grad=True) for s in ((2, 3, 4, 5), (6, 1, 3, 2), (6,))
    )

    def run(x, w, b):
        return F.conv2d(x, w, b, stride=stride, padding=1, groups=3)

    assert gradcheck(run, (x, w, b)) and gradgradcheck(run, (x, w, b))


def test_kinds_of_strips_of_a_long_line_are_few():
    """Of a million places: the ends, and what lies between in one or two runs."""
    found = depthwise.gathered(16, 4, 9, 1, 4, 1, 1_000_003, 1_000_003)
    assert sum(count * vectors for _, count, vectors, *_ in found) == -(-1_000_003 // 16) and len(found) <= 5


if __name__ == "__main__":
    chosen = tuple(sys.argv[1:3])
    target.processor = lambda: chosen
    for seed in range(6):
        check_depthwise(seed)
        check_weights(seed)
        check_winograd(seed)
        check_groups(seed)
