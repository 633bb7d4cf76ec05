"""Scans: values against NumPy, long rows, dtypes, NaN, gradients and second gradients, errors."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau.autograd import gradcheck, gradgradcheck

rng = np.random.default_rng(4)


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
@pytest.mark.parametrize("shape", [(5, 4, 3), (3, 0, 2), (7, 1, 300)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8", "bool"])
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_sums_and_products(name, dtype, shape, dim):
    a = (rng.random(shape) * 3).astype(dtype)
    got = getattr(flambeau, name)(flambeau.from_numpy(a), dim)
    whole = dtype not in ("float32", "float64")
    expected = getattr(np, name)(a.astype("int64" if whole else "float64"), axis=dim)
    assert got.dtype == (flambeau.int64 if whole else getattr(flambeau, dtype))
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("n", [1, 3, 16383, 16384, 16385, 300_001])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_long_rows_have_the_same_bits_for_any_number_of_threads(n, dtype):
    a = (rng.standard_normal(n) * 100).astype(dtype)
    before, found = flambeau.get_num_threads(), []
    for threads in (1, 2, 3):
        flambeau.set_num_threads(threads)
        found.append(flambeau.from_numpy(a).cumsum(0).numpy())
    flambeau.set_num_threads(before)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    np.testing.assert_allclose(
        found[0], np.cumsum(a, dtype="int64" if dtype == "int64" else "float64"), rtol=1e-5, atol=1e-3
    )


def test_dtype_and_half_types():
    x = flambeau.full((5000,), 0.001, dtype=flambeau.bfloat16)
    assert abs(x.cumsum(0)[-1].item() - 5000 * x[0].item()) < 0.05
    assert flambeau.tensor([1, 2]).cumsum(0, dtype=flambeau.float64).dtype == flambeau.float64
    assert flambeau.tensor([200, 100], dtype=flambeau.uint8).cumsum(0, dtype=flambeau.uint8).tolist() == [
        200,
        44,
    ]
    assert flambeau.tensor(3.0).cumsum(0).item() == 3.0


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "bool"])
def test_running_extremes(dtype, dim):
    a = rng.integers(0, 5, (40, 7)).astype("float32")
    x = flambeau.from_numpy(a).to(getattr(flambeau, dtype))
    a = x.to(flambeau.float32).numpy()
    for name, accumulate in (("cummax", np.maximum.accumulate), ("cummin", np.minimum.accumulate)):
        values, indices = getattr(x, name)(dim)
        expected = accumulate(a, axis=dim)
        assert values.dtype == x.dtype
        np.testing.assert_array_equal(values.to(flambeau.float32).numpy(), expected)
        np.testing.assert_array_equal(np.take_along_axis(a, indices.numpy(), dim), expected)
        place = np.expand_dims(np.arange(a.shape[dim]), 1 - dim)
        latest = np.maximum.accumulate(np.where(a == expected, place, -1), axis=dim)
        np.testing.assert_array_equal(indices.numpy(), latest)


def test_nan_ends_a_running_extreme():
    x = flambeau.tensor([1.0, float("nan"), 0.0, 5.0])
    assert np.isnan(x.cummax(0).values.numpy()).tolist() == [False, True, True, True]
    assert x.cummin(0).indices.tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("dim", [0, 1])
def test_logcumsumexp(dim):
    a = rng.standard_normal((6, 5)) * 30
    a[1, 2], a[:2, 1] = np.inf, -np.inf
    got = flambeau.logcumsumexp(flambeau.from_numpy(a), dim).numpy()
    np.testing.assert_allclose(got, np.logaddexp.accumulate(a, axis=dim), rtol=1e-13)


ZEROS = [[], [(0, 2)], [(0, 0), (0, 3), (2, 4)]]


@pytest.mark.parametrize("zeros", ZEROS)
@pytest.mark.parametrize("dim", [0, 1])
def test_gradients_of_products(zeros, dim):
    a = rng.standard_normal((3, 5))
    for place in zeros:
        a[place] = 0
    x = flambeau.from_numpy(a).requires_grad_()
    assert gradcheck(lambda t: t.cumprod(dim), (x,))
    assert gradgradcheck(lambda t: t.cumprod(dim), (x,))


@pytest.mark.parametrize("name", ["cumsum", "logcumsumexp"])
@pytest.mark.parametrize("dim", [0, 1])
def test_gradients(name, dim):
    x = flambeau.from_numpy(rng.standard_normal((3, 5))).requires_grad_()
    assert gradcheck(lambda t: getattr(t, name)(dim), (x,))
    assert gradgradcheck(lambda t: getattr(t, name)(dim), (x,))
    assert gradcheck(lambda t: t.cummax(dim).values, (x,))
    assert gradcheck(lambda t: t.cummin(dim).values, (x,))


def test_in_place_and_out():
    x = flambeau.tensor([1.0, 2.0, 3.0])
    assert x.cumsum_(0) is x and x.tolist() == [1.0, 3.0, 6.0]
    out = flambeau.empty(0)
    assert flambeau.cumprod(x, 0, out=out) is out and out.tolist() == [1.0, 3.0, 18.0]


@pytest.mark.parametrize("n", [0, 1, 2, 4])
@pytest.mark.parametrize("dim", [0, -1])
def test_diff(n, dim):
    a = rng.standard_normal((4, 6))
    np.testing.assert_allclose(
        flambeau.diff(flambeau.from_numpy(a), n, dim).numpy(), np.diff(a, n, dim), rtol=1e-12
    )
    joined = flambeau.diff(flambeau.tensor([1, 4]), prepend=flambeau.tensor([0]), append=flambeau.tensor([9]))
    assert joined.tolist() == [1, 3, 5]


def test_integrals():
    y, x = rng.standard_normal((3, 8)), np.sort(rng.random(8))
    ty, tx = flambeau.from_numpy(y), flambeau.from_numpy(x)
    np.testing.assert_allclose(flambeau.trapezoid(ty, tx).numpy(), np.trapezoid(y, x), rtol=1e-12)
    np.testing.assert_allclose(
        flambeau.trapezoid(ty, dx=0.5, dim=0).numpy(), np.trapezoid(y, dx=0.5, axis=0), rtol=1e-12
    )
    running = flambeau.cumulative_trapezoid(ty, tx).numpy()
    np.testing.assert_allclose(running[:, -1], np.trapezoid(y, x), rtol=1e-12)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: flambeau.ones(2, 3).cumsum(2), IndexError, r"cumsum\(\): Dimension out of range"),
        (lambda: flambeau.ones(2).cumsum(0, dtype=flambeau.bool), NotImplementedError, "cumsum"),
        (lambda: flambeau.tensor([1]).logcumsumexp(0), NotImplementedError, "logcumsumexp"),
        (lambda: flambeau.tensor(1.0).diff(), RuntimeError, "at least one-dimensional"),
        (lambda: flambeau.ones(2).diff(-1), RuntimeError, "order must be non-negative but got -1"),
        (lambda: flambeau.trapezoid(flambeau.ones(2, 3), flambeau.ones(2)), RuntimeError, "one `x` value"),
        (lambda: flambeau.ones(2, requires_grad=True).cumsum_(0), RuntimeError, "leaf"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("shape", [(70000,), (3, 40000), (50, 1300), (40000, 3)])
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"])
def test_the_same_bits_for_any_number_of_threads(name, shape):
    """Long rows in blocks, a few of them, many short ones, and columns."""
    x = flambeau.randn(shape) * (0.01 if name == "cumprod" else 1.0) + (1.0 if name == "cumprod" else 0.0)
    dim = 0 if shape[-1] == 3 else -1
    before, found = flambeau.get_num_threads(), []
    for threads in (1, 2, 5):
        flambeau.set_num_threads(threads)
        results = getattr(flambeau, name)(x, dim)
        results = results if isinstance(results, tuple) else (results,)
        found.append([r.numpy().tobytes() for r in results])
    flambeau.set_num_threads(before)
    assert found[0] == found[1] == found[2]
    values = x.double().numpy()
    reference = {
        "cumsum": np.cumsum,
        "cumprod": np.cumprod,
        "cummax": np.maximum.accumulate,
        "cummin": np.minimum.accumulate,
        "logcumsumexp": np.logaddexp.accumulate,
    }[name]
    np.testing.assert_allclose(results[0].numpy(), reference(values, dim), rtol=2e-5, atol=1e-5)
    if len(results) == 2:
        taken = np.take_along_axis(x.numpy(), results[1].numpy(), dim)
        np.testing.assert_array_equal(taken, results[0].numpy())


def test_tangents_of_logcumsumexp():
    """They were 0: the adjoint of a gradient that is made of logarithms."""
    x = flambeau.tensor([0.3, -1.0, 2.0], dtype=flambeau.float64)
    v = flambeau.tensor([2.0, 1.0, -3.0], dtype=flambeau.float64)
    _, moved = flambeau.func.jvp(lambda t: t.logcumsumexp(0), (x,), (v,))
    expected = (x.exp() * v).cumsum(0) / x.exp().cumsum(0)
    flambeau.testing.assert_close(moved, expected)
    _, moved = flambeau.func.jvp(lambda t: t.logcumsumexp(0), (x.float() * 400,), (v.float(),))
    flambeau.testing.assert_close(moved, flambeau.tensor([2.0, 2.0, -3.0]))
