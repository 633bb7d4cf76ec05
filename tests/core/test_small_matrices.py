"""Factors, triangular systems and singular values of many small matrices, beside NumPy's of one at a time, and LAPACK's of large ones."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau import linalg

RANDOM = np.random.default_rng(3)


def positive(n, batch, dtype):
    a = RANDOM.normal(size=(*batch, n, n))
    return (a @ a.swapaxes(-1, -2) + n * np.eye(n)).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 2, 5, 32, 33])
@pytest.mark.parametrize("batch", [(), (3,), (2, 0), (500,)])
def test_cholesky(n, batch, dtype):
    a = positive(n, batch, dtype)
    tolerance = 1e-5 if dtype == "float32" else 1e-13
    for upper in (False, True):
        x = flambeau.from_numpy(np.triu(a) if upper else np.tril(a))  # the other triangle is not read
        found, info = linalg.cholesky_ex(x, upper=upper)
        expected = np.linalg.cholesky(a)
        expected = expected.swapaxes(-1, -2) if upper else expected
        np.testing.assert_allclose(found.numpy(), expected, rtol=tolerance, atol=tolerance * n)
        assert info.shape == batch and not info.any() and info.dtype is flambeau.int32


def test_what_has_no_factor():
    bad = positive(4, (3,), "float64")
    bad[1, 2, 2] = -1.0
    bad[2, 0, 0] = np.nan
    assert linalg.cholesky_ex(flambeau.from_numpy(bad)).info.tolist() == [0, 3, 1]
    with pytest.raises(linalg.LinAlgError, match="order 3 is not positive-definite"):
        linalg.cholesky(flambeau.from_numpy(bad[:2]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 3, 32, 33])
@pytest.mark.parametrize("columns", [0, 1, 7])
def test_triangular_systems(n, columns, dtype):
    a = (RANDOM.normal(size=(4, n, n)) / n + np.eye(n)).astype(dtype)
    b = RANDOM.normal(size=(4, n, columns)).astype(dtype)
    tolerance = 2e-4 if dtype == "float32" else 1e-11
    for upper in (False, True):
        for unit in (False, True):
            triangle = np.triu(a) if upper else np.tril(a)
            if unit:
                triangle = triangle - triangle * np.eye(n) + np.eye(n)
            options = {"upper": upper, "unitriangular": unit}
            found = linalg.solve_triangular(flambeau.from_numpy(a), flambeau.from_numpy(b), **options)
            np.testing.assert_allclose(triangle @ found.numpy(), b, rtol=tolerance, atol=tolerance)
            right = flambeau.from_numpy(np.ascontiguousarray(b.swapaxes(-1, -2)))
            found = linalg.solve_triangular(flambeau.from_numpy(a), right, left=False, **options)
            np.testing.assert_allclose(
                found.numpy() @ triangle, right.numpy(), rtol=tolerance, atol=tolerance
            )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "shape", [(1, 1), (500, 2, 2), (40, 16, 16), (2, 3, 32, 31), (7, 32), (5, 32, 1), (33, 33)], ids=str
)
def test_singular_values(shape, dtype):
    a = RANDOM.normal(size=shape).astype(dtype)
    close = {"rtol": 0, "atol": 40 * np.finfo(dtype).eps}
    for x in (a, a.swapaxes(-1, -2)):
        found = linalg.svdvals(flambeau.from_numpy(x)).numpy()
        expected = np.linalg.svd(x.astype("float64"), compute_uv=False)
        assert found.dtype == dtype and found.shape == expected.shape
        np.testing.assert_allclose(found / expected.max(), expected / expected.max(), **close)


def test_singular_values_of_degenerate_matrices():
    values = lambda a: linalg.svdvals(flambeau.tensor(a, dtype=flambeau.float64)).numpy()
    assert not values(np.zeros((2, 5, 3))).any()
    np.testing.assert_allclose(values(np.ones((4, 4))), [4, 0, 0, 0], atol=1e-15)
    np.testing.assert_allclose(values(np.diag([1e-8, -3.0, 2.0, 0.0])), [3.0, 2.0, 1e-8, 0.0], rtol=1e-14)
    a = RANDOM.normal(size=(6, 4))
    for scale in (1e-300, 1e-160, 1e160, 1e300):
        np.testing.assert_allclose(
            values(a * scale) / scale,
            np.linalg.svd(a, compute_uv=False),
            rtol=1e-13 if scale > 1e-300 else 1e-7,
        )
    for bad in (np.nan, np.inf):
        three = RANDOM.normal(size=(3, 4, 4))
        three[1, 2, 0] = bad
        with pytest.raises(linalg.LinAlgError, match="Batch element 1.*non-finite"):
            values(three)


def test_operands_stay_and_views_are_read():
    a, b = positive(3, (5,), "float64"), RANDOM.normal(size=(3, 2))
    x, y = flambeau.from_numpy(a)[::2].mT, flambeau.from_numpy(b)
    found = linalg.solve_triangular(x, y, upper=False)
    np.testing.assert_allclose(
        np.tril(a[::2].swapaxes(-1, -2)) @ found.numpy(), np.broadcast_to(b, (3, 3, 2)), rtol=1e-12
    )
    assert np.array_equal(y.numpy(), b) and flambeau.equal(
        linalg.cholesky(x), linalg.cholesky(x.contiguous())
    )


def test_bits_do_not_depend_on_threads():
    a = flambeau.from_numpy(positive(6, (3000,), "float32"))
    before, found = flambeau.get_num_threads(), []
    try:
        for threads in (1, 3):
            flambeau.set_num_threads(threads)
            factor = linalg.cholesky(a)
            found.append((factor, linalg.solve_triangular(factor, a, upper=False), linalg.svdvals(a)))
    finally:
        flambeau.set_num_threads(before)
    assert all(flambeau.equal(x, y) for x, y in zip(*found))


def test_singular_systems_are_infinite():
    zero = flambeau.tensor([[0.0, 0.0], [1.0, 1.0]])
    assert linalg.solve_triangular(zero, flambeau.ones(2, 1), upper=False)[0, 0] == float("inf")
