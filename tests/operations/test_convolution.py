"""Convolutions against sums over windows written in NumPy, and their derivatives against finite differences."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import flambeau as fb
from flambeau.autograd import gradcheck, gradgradcheck

F = fb.nn.functional
rng = np.random.default_rng(2)

CASES = [  # input, weight, stride, padding, dilation, groups
    ((2, 3, 9, 11), (8, 3, 3, 3), 1, 1, 1, 1),
    ((2, 3, 9, 37), (8, 3, 3, 3), 1, 0, 1, 1),
    ((1, 4, 19, 23), (10, 4, 3, 2), 2, 1, 1, 1),
    ((2, 4, 12, 13), (17, 4, 3, 2), (2, 3), (1, 0), 2, 1),
    ((2, 6, 9, 20), (6, 1, 3, 3), 1, 1, 1, 6),
    ((2, 6, 10, 9), (12, 2, 3, 3), 2, 1, 1, 3),
    ((2, 6, 6, 7), (33, 6, 1, 1), 1, 0, 1, 1),
    ((2, 6, 6, 7), (5, 6, 1, 1), 2, 0, 1, 1),
    ((2, 2, 7, 7), (4, 2, 5, 5), 3, 2, 1, 1),
    ((2, 4, 2, 2), (3, 4, 1, 1), 2, 0, 1, 1),
    ((2, 4, 3), (3, 4, 1), 5, 0, 1, 1),
    ((2, 4, 3, 2, 2), (3, 4, 1, 1, 1), 3, 0, 1, 1),
    ((2, 4, 21), (6, 2, 4), 2, 3, 1, 2),
    ((2, 2, 5, 6, 7), (3, 2, 3, 2, 2), (1, 2, 1), 1, 1, 1),
    ((1, 3, 4, 4, 5), (3, 1, 2, 2, 3), 1, 1, 1, 3),
]


def spread(v, n):
    return (v,) * n if isinstance(v, int) else v


def convolution(x, w, stride, padding, dilation, groups):
    """A sum over channels and taps of shifted slices."""
    n = w.ndim - 2
    stride, padding, dilation = (spread(v, n) for v in (stride, padding, dilation))
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    out = [(s - d * (k - 1) - 1) // t + 1 for s, d, k, t in zip(x.shape[2:], dilation, w.shape[2:], stride)]
    found = np.zeros((x.shape[0], w.shape[0], *out))
    filters, channels = w.shape[0] // groups, w.shape[1]
    for g, taps in product(range(groups), product(*map(range, w.shape[2:]))):
        part = x[:, g * channels : (g + 1) * channels]
        steps = [slice(k * d, k * d + t * (o - 1) + 1, t) for k, d, t, o in zip(taps, dilation, stride, out)]
        part = part[(slice(None), slice(None), *steps)]
        own = w[g * filters : (g + 1) * filters][(slice(None), slice(None), *taps)]
        found[:, g * filters : (g + 1) * filters] += np.einsum("nc...,oc->no...", part, own)
    return found


def call(name, n, *arguments, **options):
    return getattr(F, f"{name}{n}d")(*arguments, **options)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64"])
def test_values(case, dtype):
    size, weight, stride, padding, dilation, groups = case
    x, w = rng.integers(-3, 4, size).astype("float64"), rng.integers(-3, 4, weight).astype("float64")
    b = rng.integers(-3, 4, weight[0]).astype("float64")
    kind = getattr(fb, dtype)
    found = call(
        "conv",
        len(weight) - 2,
        *(fb.tensor(a).to(kind) for a in (x, w, b)),
        stride,
        padding,
        dilation,
        groups,
    )
    want = convolution(x, w, stride, padding, dilation, groups) + b.reshape(-1, *[1] * (len(weight) - 2))
    if dtype == "bfloat16":
        np.testing.assert_allclose(found.to(fb.float64).numpy(), want, rtol=2**-8)
    else:
        np.testing.assert_array_equal(found.to(fb.float64).numpy(), want)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_the_transposed_convolution_is_the_adjoint(case, dtype):
    size, weight, stride, padding, dilation, groups = case
    n = len(weight) - 2
    x, w = rng.integers(-3, 4, size), rng.integers(-3, 4, weight)
    y = convolution(x, w, stride, padding, dilation, groups)
    g = rng.integers(-3, 4, y.shape)
    exact = [
        (o - 1) * s - 2 * p + d * (k - 1) + 1
        for o, s, p, d, k in zip(
            y.shape[2:], *(spread(v, n) for v in (stride, padding, dilation)), weight[2:]
        )
    ]
    extra = tuple(a - b for a, b in zip(size[2:], exact))
    kind = getattr(fb, dtype)
    back = call(
        "conv_transpose",
        n,
        fb.tensor(g).to(kind),
        fb.tensor(w).to(kind),
        None,
        stride,
        padding,
        extra,
        groups,
        dilation,
    )
    assert tuple(back.shape) == size
    assert (back.to(fb.float64).numpy() * x).sum() == (g * y).sum()


@pytest.mark.parametrize("case", CASES)
def test_derivatives(case):
    size, weight, *rest = case
    size = (size[0], size[1], *(min(s, 7) for s in size[2:]))
    x, w, b = (fb.tensor(rng.standard_normal(s), requires_grad=True) for s in (size, weight, weight[:1]))

    def run(x, w, b):
        return call("conv", len(weight) - 2, x, w, b, *rest)

    assert gradcheck(run, (x, w, b), fast_mode=True)
    assert gradgradcheck(run, (x, w, b), fast_mode=True)


@pytest.mark.parametrize("case", [CASES[0], CASES[3], CASES[4], CASES[10]])
def test_float32_gradients_are_those_of_float64(case):
    size, weight, *rest = case
    x, w = rng.standard_normal(size), rng.standard_normal(weight)
    found = []
    for kind in (fb.float32, fb.float64):
        a, b = (fb.tensor(v).to(kind).requires_grad_() for v in (x, w))
        y = call("conv", len(weight) - 2, a, b, None, *rest)
        y.square().sum().backward()
        found.append((a.grad.numpy(), b.grad.numpy()))
    for a, b in zip(*found):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * abs(b).max())


def test_the_same_bits_for_any_number_of_threads():
    x, w = fb.randn(3, 20, 30, 31), fb.randn(40, 20, 3, 3)
    before, found = fb.get_num_threads(), []
    for threads in (1, 2, 3):
        fb.set_num_threads(threads)
        a, b = x.clone().requires_grad_(), w.clone().requires_grad_()
        y = F.conv2d(a, b, padding=1)
        y.sum().backward()
        found.append((y.detach().numpy(), a.grad.numpy(), b.grad.numpy()))
    fb.set_num_threads(before)
    for other in found[1:]:
        for u, v in zip(found[0], other):
            np.testing.assert_array_equal(u, v)


def test_padding_by_name():
    x, w = fb.randn(1, 2, 9), fb.randn(3, 2, 4)
    same = F.conv1d(x, w, padding="same")
    wide = F.conv1d(F.pad(x, (1, 2)), w)
    np.testing.assert_allclose(same.numpy(), wide.numpy(), rtol=1e-5, atol=1e-6)
    assert F.conv1d(x, w, padding="valid").shape == (1, 3, 6)
    with pytest.raises(RuntimeError, match="not supported for strided"):
        F.conv1d(x, w, padding="same", stride=2)


def test_errors():
    x, w = fb.randn(2, 3, 8, 8), fb.randn(8, 4, 3, 3)
    with pytest.raises(RuntimeError, match="to have 4 channels, but got 3 channels instead"):
        F.conv2d(x, w)
    with pytest.raises(RuntimeError, match="Kernel size can't be greater than actual input size"):
        F.conv2d(fb.randn(1, 4, 2, 2), w)
    with pytest.raises(RuntimeError, match="expected bias to be 1-dimensional with 8 elements"):
        F.conv2d(fb.randn(1, 4, 8, 8), w, fb.randn(7))
    with pytest.raises(RuntimeError, match="should be the same"):
        F.conv2d(fb.randn(1, 4, 8, 8).to(fb.float64), w)
    with pytest.raises(RuntimeError, match="output padding must be smaller"):
        F.conv_transpose2d(fb.randn(1, 8, 8, 8), w, output_padding=1)
