"""Blocks of images as columns against slices in NumPy; `fold` against the transposed sum."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fb
from flambeau.autograd import gradcheck, gradgradcheck

F = fb.nn.functional
rng = np.random.default_rng(5)
CASES = [(2, 1, 0, 1), ((2, 3), 1, 1, 2), (3, 2, (2, 1), (1, 3)), ((1, 2), (3, 1), 0, 1)]


def columns(x, kernel, dilation, padding, stride):
    (kh, kw), (dh, dw), (ph, pw), (sh, sw) = (
        v if isinstance(v, tuple) else (v, v) for v in (kernel, dilation, padding, stride)
    )
    x = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)))
    oh, ow = (x.shape[2] - dh * (kh - 1) - 1) // sh + 1, (x.shape[3] - dw * (kw - 1) - 1) // sw + 1
    found = np.empty((x.shape[0], x.shape[1], kh, kw, oh, ow))
    for i in range(kh):
        for j in range(kw):
            found[:, :, i, j] = x[
                :, :, i * dh : i * dh + sh * (oh - 1) + 1 : sh, j * dw : j * dw + sw * (ow - 1) + 1 : sw
            ]
    return found.reshape(x.shape[0], -1, oh * ow)


@pytest.mark.parametrize("case", CASES)
def test_blocks_and_their_sum(case):
    x = rng.integers(-9, 9, (2, 3, 9, 21)).astype("float32")
    want = columns(x, *case)
    found = F.unfold(fb.tensor(x), *case)
    np.testing.assert_array_equal(found.numpy(), want)
    y = rng.integers(-9, 9, want.shape).astype("float32")
    back = F.fold(fb.tensor(y), (9, 21), *case)
    assert (back.numpy() * x).sum() == (y * want).sum()


def test_derivatives():
    x = fb.tensor(rng.standard_normal((2, 2, 4, 5)), requires_grad=True)
    y = fb.tensor(rng.standard_normal((2, 8, 12)), requires_grad=True)
    for function, given in ((lambda a: F.unfold(a, 2, 1, 1), x), (lambda a: F.fold(a, (4, 5), 2), y)):
        assert gradcheck(function, (given,)) and gradgradcheck(function, (given,))


def test_errors():
    with pytest.raises(RuntimeError, match="at least one"):
        F.unfold(fb.zeros(1, 1, 2, 2), 3)
    with pytest.raises(RuntimeError, match="divisible by the product of kernel_size"):
        F.fold(fb.zeros(1, 3, 4), (3, 3), 2)
    with pytest.raises(RuntimeError, match="number of sliding blocks"):
        F.fold(fb.zeros(1, 4, 5), (3, 3), 2)
