"""Sorting and order statistics against NumPy; equal elements, NaN, gradients, errors."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau.autograd import gradcheck

rng = np.random.default_rng(6)
DTYPES = ["float32", "float64", "int64", "int8", "bool", "float16"]


def sample(dtype, shape=(7, 6, 5)):
    a = rng.integers(-4, 5, shape)
    return flambeau.from_numpy(a.astype("float32")).to(getattr(flambeau, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("descending", [False, True])
def test_sort_keeps_the_order_of_equal_elements(dtype, dim, descending):
    x = sample(dtype)
    a = x.to(flambeau.float64).numpy()
    values, indices = x.sort(dim, descending)
    expected = np.argsort(-a if descending else a, axis=dim, kind="stable")
    np.testing.assert_array_equal(indices.numpy(), expected)
    np.testing.assert_array_equal(values.to(flambeau.float64).numpy(), np.take_along_axis(a, expected, dim))
    assert values.dtype == x.dtype and indices.dtype == flambeau.int64
    np.testing.assert_array_equal(x.argsort(dim, descending).numpy(), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_numbers(dtype):
    x = flambeau.tensor(
        [np.nan, 1.0, -np.inf, 0.0, -0.0, np.inf, np.nan, -1.0], dtype=getattr(flambeau, dtype)
    )
    assert x.argsort().tolist() == [2, 7, 3, 4, 1, 5, 0, 6]
    assert x.argsort(descending=True, stable=True).tolist() == [0, 6, 5, 1, 3, 4, 7, 2]
    assert x.topk(3).indices.tolist() == [0, 6, 5]


def test_wide_integers():
    a = np.array([1 << 62, -(1 << 62), 5, 1 << 62, 7])
    x = flambeau.from_numpy(a)
    assert x.argsort().tolist() == [1, 2, 4, 0, 3] and x.argsort(descending=True).tolist() == [0, 3, 4, 2, 1]
    assert x.kthvalue(3).values.item() == 7


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("k", [0, 1, 3, 100])
def test_topk_is_the_head_of_sort(dtype, largest, k):
    x = sample(dtype, (4, 100, 3))
    values, indices = x.topk(k, 1, largest)
    order = x.sort(1, largest)
    assert (
        indices.tolist() == order.indices[:, :k].tolist() and values.tolist() == order.values[:, :k].tolist()
    )


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("keepdim", [False, True])
def test_order_statistics(dim, keepdim):
    a = rng.standard_normal((9, 8))
    x = flambeau.from_numpy(a)
    for k in (1, 4, 8):
        values, indices = x.kthvalue(k, dim, keepdim)
        expected = np.sort(a, axis=dim).take([k - 1], axis=dim)
        expected = expected if keepdim else expected.squeeze(dim)
        np.testing.assert_array_equal(values.numpy(), expected)
    lower = np.sort(a, axis=dim).take([(a.shape[dim] - 1) // 2], axis=dim)
    found = x.median(dim, keepdim)
    np.testing.assert_array_equal(found.values.numpy(), lower if keepdim else lower.squeeze(dim))
    assert x.median().item() == np.sort(a.ravel())[(a.size - 1) // 2]


def test_medians_and_nan():
    x = flambeau.tensor([[3.0, np.nan, 1.0, 2.0], [4.0, 3.0, 2.0, 1.0]])
    assert np.isnan(x.median(1).values[0].item()) and x.median(1).values[1].item() == 2.0
    assert x.median(1).indices.tolist() == [1, 2]
    assert x.nanmedian(1).values.tolist() == [2.0, 2.0] and x.nanmedian().item() == 2.0
    assert np.isnan(flambeau.empty(0).median().item())


def test_mode():
    x = flambeau.tensor([[2, 1, 2, 1, 3], [5, 5, 4, 5, 4]])
    values, indices = x.mode(1)
    assert values.tolist() == [1, 5] and indices.tolist() == [3, 3]
    assert x.mode(0, keepdim=True).values.tolist() == [[2, 1, 2, 1, 3]]


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "nearest", "midpoint"])
@pytest.mark.parametrize("dim", [None, 0, 1])
def test_quantile(interpolation, dim):
    a = rng.standard_normal((7, 10))
    x, q = flambeau.from_numpy(a), np.array([0.0, 0.13, 0.5, 0.77, 1.0])
    got = flambeau.quantile(x, flambeau.from_numpy(q), dim, interpolation=interpolation)
    np.testing.assert_allclose(got.numpy(), np.quantile(a, q, axis=dim, method=interpolation), rtol=1e-12)
    kept = flambeau.quantile(x, 0.3, dim, True, interpolation=interpolation)
    np.testing.assert_allclose(
        kept.numpy(), np.quantile(a, 0.3, axis=dim, keepdims=True, method=interpolation), rtol=1e-12
    )


def test_nanquantile():
    a = rng.standard_normal((6, 9))
    a[0, 2] = a[3, :4] = np.nan
    x = flambeau.from_numpy(a)
    np.testing.assert_allclose(
        flambeau.nanquantile(x, 0.3, 1).numpy(), np.nanquantile(a, 0.3, axis=1), rtol=1e-12
    )
    assert np.isnan(flambeau.quantile(x, 0.3, 1).numpy()).tolist() == np.isnan(a).any(1).tolist()


def test_gradients():
    x = flambeau.from_numpy(rng.permutation(20).reshape(4, 5) / 7.0)
    x.requires_grad_()
    for function in (
        lambda t: t.sort(1, descending=True).values,
        lambda t: t.topk(2, 0).values,
        lambda t: t.kthvalue(2, 1).values,
        lambda t: t.median(0).values,
        lambda t: t.median(),
        lambda t: t.mode(1).values,
        lambda t: flambeau.quantile(t, 0.37, 1),
    ):
        assert gradcheck(function, (x,))
    q = flambeau.tensor([0.21, 0.6], dtype=flambeau.float64, requires_grad=True)
    assert gradcheck(lambda t, p: flambeau.quantile(t, p, 0), (x, q))


def test_zero_dimensions_and_out():
    x = flambeau.tensor(3.0)
    for found in (x.sort(), x.topk(1), x.kthvalue(1), x.median(0), x.mode()):
        assert found[0].item() == 3.0 and found[1].item() == 0 and found[1].shape == ()
    out = flambeau.empty(0), flambeau.empty(0, dtype=flambeau.int64)
    flambeau.sort(flambeau.tensor([2.0, 1.0]), out=out)
    assert out[0].tolist() == [1.0, 2.0] and out[1].tolist() == [1, 0]
    assert flambeau.msort(flambeau.tensor([[2, 1], [1, 2]])).tolist() == [[1, 1], [2, 2]]


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: flambeau.ones(2, 3).topk(4), RuntimeError, "k out of range"),
        (lambda: flambeau.ones(2, 3).kthvalue(0), RuntimeError, "k out of range"),
        (lambda: flambeau.ones(2).sort(1), IndexError, r"sort\(\): Dimension out of range"),
        (lambda: flambeau.ones(0, 2).median(0), IndexError, "non-zero size"),
        (lambda: flambeau.ones(0, 2).mode(0), IndexError, "non-zero size"),
        (lambda: flambeau.quantile(flambeau.ones(3), 1.5), RuntimeError, r"range \[0, 1\]"),
        (lambda: flambeau.quantile(flambeau.tensor([1]), 0.5), RuntimeError, "float or double"),
        (
            lambda: flambeau.quantile(flambeau.ones(3), 0.5, interpolation="cubic"),
            RuntimeError,
            "interpolation must be one of",
        ),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()
