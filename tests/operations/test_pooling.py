"""Pooling against windows cut out by NumPy, and its derivatives against finite differences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import flambeau as fb
from flambeau.autograd import gradcheck, gradgradcheck

F = fb.nn.functional
rng = np.random.default_rng(1)
WINDOWS = [  # kernel, stride, padding, dilation
    (2, 2, 0, 1),
    (3, 1, 1, 1),
    (3, 2, 1, 1),
    ((2, 3), (3, 1), (1, 0), (1, 2)),
    (5, 5, 2, 1),
]


def pair(v):
    return (v, v) if isinstance(v, int) else v


def cut(x, kernel, stride, padding, dilation, fill):
    """All windows of (planes, H, W): (planes, oh, ow, window), and the flat places of their elements."""
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = map(pair, (kernel, stride, padding, dilation))
    wide = np.pad(x, ((0, 0), (ph, ph), (pw, pw)), constant_values=fill)
    flat = np.pad(np.arange(x[0].size).reshape(x[0].shape), ((ph, ph), (pw, pw)), constant_values=-1)
    oh, ow = (wide.shape[1] - dh * (kh - 1) - 1) // sh + 1, (wide.shape[2] - dw * (kw - 1) - 1) // sw + 1
    parts, places = [], []
    for i, j in itertools.product(range(kh), range(kw)):
        rows = slice(i * dh, i * dh + sh * (oh - 1) + 1, sh)
        columns = slice(j * dw, j * dw + sw * (ow - 1) + 1, sw)
        parts.append(wide[:, rows, columns])
        places.append(flat[rows, columns])
    return np.stack(parts, -1), np.stack(places, -1)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("shape", [(3, 9, 11), (2, 21, 40)])
def test_maxima_and_their_places(window, shape):
    x = rng.permutation(np.prod(shape)).reshape(shape).astype("float32")
    parts, places = cut(x, *window, -np.inf)
    values, at = F.max_pool2d(fb.tensor(x), *window, return_indices=True)
    np.testing.assert_array_equal(values.numpy(), parts.max(-1))
    want = np.take_along_axis(np.broadcast_to(places, parts.shape), parts.argmax(-1)[..., None], -1)[..., 0]
    np.testing.assert_array_equal(at.numpy(), want)
    np.testing.assert_array_equal(F.max_pool2d(fb.tensor(x), *window).numpy(), parts.max(-1))


@pytest.mark.parametrize("window", [w for w in WINDOWS if w[3] == 1])
@pytest.mark.parametrize("include", [True, False])
def test_means(window, include):
    x = rng.standard_normal((2, 13, 19))
    parts, places = cut(x, *window, 0.0)
    count = parts.shape[-1] if include else (places >= 0).sum(-1)
    found = F.avg_pool2d(fb.tensor(x), *window[:3], count_include_pad=include)
    np.testing.assert_allclose(found.numpy(), parts.sum(-1) / count, rtol=1e-12, atol=1e-12)


def test_a_nan_is_the_largest():
    x = fb.tensor([[1.0, float("nan"), 2.0, 3.0]])
    values, at = F.max_pool1d(x, 2, return_indices=True)
    assert np.isnan(values[0, 0].item()) and values[0, 1].item() == 3 and at.tolist() == [[1, 3]]


@pytest.mark.parametrize("parts", [(1, 1), (3, 4), (7, 5), (9, 13)])
def test_equal_parts(parts):
    x = rng.standard_normal((4, 7, 10))
    mean, largest = F.adaptive_avg_pool2d(fb.tensor(x), parts), F.adaptive_max_pool2d(fb.tensor(x), parts)
    for i, j in itertools.product(range(parts[0]), range(parts[1])):
        rows = slice(i * 7 // parts[0], -(-(i + 1) * 7 // parts[0]))
        columns = slice(j * 10 // parts[1], -(-(j + 1) * 10 // parts[1]))
        np.testing.assert_allclose(mean.numpy()[:, i, j], x[:, rows, columns].mean((1, 2)), atol=1e-12)
        np.testing.assert_array_equal(largest.numpy()[:, i, j], x[:, rows, columns].max((1, 2)))


@pytest.mark.parametrize("window", WINDOWS)
def test_derivatives_of_maxima(window):
    x = fb.tensor(rng.permutation(198).reshape(2, 9, 11) / 7.0, requires_grad=True)
    assert gradcheck(lambda a: F.max_pool2d(a, *window), (x,))
    assert gradgradcheck(lambda a: F.max_pool2d(a, *window), (x,))


@pytest.mark.parametrize(
    "pool",
    [
        lambda a: F.avg_pool2d(a, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        lambda a: F.avg_pool2d(a, (2, 3), (1, 4)),
        lambda a: F.avg_pool2d(a, 2, divisor_override=3),
        lambda a: F.adaptive_avg_pool2d(a, (3, 4)),
        lambda a: F.adaptive_avg_pool2d(a, (1, 1)),
        lambda a: F.adaptive_max_pool2d(a, (3, 2)),
    ],
)
def test_derivatives(pool):
    x = fb.tensor(rng.standard_normal((2, 8, 9)), requires_grad=True)
    assert gradcheck(pool, (x,)) and gradgradcheck(pool, (x,))


def test_errors():
    with pytest.raises(RuntimeError, match="pad should be at most half"):
        F.max_pool2d(fb.zeros(1, 4, 4), 2, padding=2)
    with pytest.raises(RuntimeError, match="Output size is too small|output size is too small"):
        F.avg_pool2d(fb.zeros(1, 2, 2), 3)
    with pytest.raises(RuntimeError, match="divisor must be not zero"):
        F.avg_pool2d(fb.zeros(1, 4, 4), 2, divisor_override=0)
    with pytest.raises(RuntimeError, match="output_size"):
        F.adaptive_avg_pool2d(fb.zeros(1, 4, 4), (2, -1))
