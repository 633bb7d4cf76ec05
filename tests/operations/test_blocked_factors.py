"""LU, Cholesky factors, inverses and triangular systems in blocks, beside NumPy's and SciPy's: sizes on both sides of every change of
method.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import flambeau
from flambeau import linalg

DTYPES = ["float32", "float64", "complex64", "complex128"]
# One panel and several, the last full or not; more rows than columns, and fewer; few and many matrices beside the threads.
SHAPES = [(161, 161), (320, 320), (200, 700), (700, 200), (5, 170, 170), (2, 0, 170)]


def drawn(dtype, *shape):
    rng = np.random.default_rng(7)
    a = rng.standard_normal(shape)
    return (a + 1j * rng.standard_normal(shape) if dtype.startswith("c") else a).astype(dtype)


def wide(a):
    """In double precision, so that a residual is that of what was computed."""
    return a.astype("complex128" if np.iscomplexobj(a) else "float64")


def positive(dtype, *shape):
    a = drawn(dtype, *shape)
    return (a @ a.conj().mT + shape[-1] * np.eye(shape[-1])).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_lu(shape, dtype):
    a = drawn(dtype, *shape)
    P, L, U = (wide(t.numpy()) for t in linalg.lu(flambeau.from_numpy(a)))
    k = min(shape[-2:])
    assert L.shape[-2:] == (shape[-2], k) and U.shape[-2:] == (k, shape[-1])
    if not a.size:
        return
    assert np.abs(L).max() <= 2**0.5 + 1e-6  # pivots are the largest by |real| + |imaginary|
    error = np.abs(P @ L @ U - a).max()
    ours = error / (np.finfo(dtype).eps * np.abs(a).max() * k)
    p, lower, upper = scipy.linalg.lu(a.reshape(-1, *shape[-2:])[0])
    lapack = np.abs(wide(p) @ wide(lower) @ wide(upper) - a.reshape(-1, *shape[-2:])[0]).max()
    assert ours < 3.0 and error < 5 * lapack


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [161, 256, 400])
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky(n, upper, dtype):
    a = positive(dtype, n, n)
    found = linalg.cholesky(flambeau.from_numpy(a), upper=upper).numpy()
    L = wide(found.conj().T if upper else found)
    assert not np.triu(L, 1).any()
    lapack = wide(scipy.linalg.cholesky(a, lower=True))
    error, expected = (np.abs(x @ x.conj().T - a).max() for x in (L, lapack))
    assert error < 3 * expected


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(161, 161), (300, 300), (5, 170, 170)], ids=str)
def test_inverse(shape, dtype):
    a = drawn(dtype, *shape)
    x = wide(linalg.inv(flambeau.from_numpy(a)).numpy())
    lapack = np.stack([wide(scipy.linalg.inv(one)) for one in a.reshape(-1, *shape[-2:])]).reshape(shape)
    of_one, lapack = (
        np.linalg.norm(wide(a) @ each - np.eye(shape[-1]), axis=(-2, -1)) for each in (x, lapack)
    )
    assert (of_one < 5 * lapack).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("columns", [1, 9, 300])
@pytest.mark.parametrize("n", [64, 65, 200])
def test_triangular_systems(n, columns, dtype):
    """Both triangles, with and without a unit diagonal, by rows and by columns; what is beyond the triangle is not read."""
    a, b = drawn(dtype, n, n) / n + 2 * np.eye(n, dtype=dtype), drawn(dtype, n, columns)
    a = a.astype(dtype)
    for upper in (False, True):
        for unit in (False, True):
            one = np.triu(a) if upper else np.tril(a)
            if unit:
                np.fill_diagonal(one, 1)
            given = a.copy()
            given[np.tril_indices(n, -1) if upper else np.triu_indices(n, 1)] = np.nan
            for matrix in (given, np.asfortranarray(given)):
                x = (
                    flambeau.from_numpy(matrix.T).mT
                    if matrix.flags.f_contiguous
                    else flambeau.from_numpy(matrix)
                )
                found = linalg.solve_triangular(x, flambeau.from_numpy(b), upper=upper, unitriangular=unit)
                expected = scipy.linalg.solve_triangular(wide(one), wide(b), lower=not upper)
                assert (
                    np.abs(found.numpy() - expected).max() < 60 * np.finfo(dtype).eps * np.abs(expected).max()
                )


@pytest.mark.parametrize("dtype", DTYPES)
def test_systems_of_many_sizes(dtype):
    for n, columns in ((161, 1), (161, 200), (300, 64), (300, 301)):
        a, b = drawn(dtype, n, n), drawn(dtype, n, columns)
        x = wide(linalg.solve(flambeau.from_numpy(a), flambeau.from_numpy(b)).numpy())
        lapack = wide(scipy.linalg.solve(a, b))
        error, expected = (np.linalg.norm(wide(a) @ each - b) for each in (x, lapack))
        assert error < 5 * expected


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("place", [0, 63, 64, 150, 299])
def test_the_first_zero_pivot_is_named(place, dtype):
    a = drawn(dtype, 300, 300)
    a[:, place] = 0
    x = flambeau.from_numpy(a)
    assert int(linalg.lu_factor_ex(x).info) == place + 1
    a[:, 299] = 0  # a later one changes nothing
    assert int(linalg.lu_factor_ex(flambeau.from_numpy(a)).info) == place + 1
    with pytest.raises(linalg.LinAlgError, match=f"diagonal element {place + 1} is zero"):
        linalg.inv(x)


def test_of_a_batch_the_singular_ones_alone_are_refused():
    a = drawn("float64", 4, 200, 200)
    a[2, :, 100] = 0
    x, info = linalg.inv_ex(flambeau.from_numpy(a))
    assert info.tolist() == [0, 0, 101, 0]
    assert x[2].isnan().all() and not x[[0, 1, 3]].isnan().any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("minor", [1, 128, 129, 250, 300])
def test_the_first_minor_that_is_not_positive_is_named(minor, dtype):
    a = positive(dtype, 300, 300)
    a[minor - 1, minor - 1] = -1
    assert int(linalg.cholesky_ex(flambeau.from_numpy(a)).info) == minor
    a[minor - 1, minor - 1] = np.nan
    assert int(linalg.cholesky_ex(flambeau.from_numpy(a)).info) == minor


def test_nan_comes_out_so():
    a = drawn("float32", 300, 300)
    a[70, 200] = np.nan
    x = flambeau.from_numpy(a)
    assert not linalg.lu_factor_ex(x).LU.isfinite().all()
    assert not linalg.inv_ex(x)[0].isfinite().all()
    assert not linalg.solve_ex(x, x)[0].isfinite().all()


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_bits_do_not_depend_on_threads(dtype):
    before = flambeau.get_num_threads()
    a, s = flambeau.from_numpy(drawn(dtype, 3, 300, 300)), flambeau.from_numpy(positive(dtype, 2, 300, 300))
    wanted = [
        lambda: linalg.lu_factor(a).LU,
        lambda: linalg.lu_factor(a[0, :, :200]).LU,
        lambda: linalg.cholesky(s),
        lambda: linalg.inv(a),
        lambda: linalg.solve(a, s[:1]),
        lambda: linalg.solve_triangular(a[0], s[0], upper=True),
    ]
    try:
        for function in wanted:
            found = []
            for threads in (1, 2, 3, 5):
                flambeau.set_num_threads(threads)
                found.append(function().numpy().tobytes())
            assert len(set(found)) == 1
    finally:
        flambeau.set_num_threads(before)


def test_views_and_one_matrix_for_many():
    a = drawn("float64", 200, 400)
    every_second = flambeau.from_numpy(a)[:, ::2]
    np.testing.assert_array_equal(
        linalg.inv(every_second).numpy(), linalg.inv(flambeau.from_numpy(a[:, ::2].copy())).numpy()
    )
    b = flambeau.from_numpy(drawn("float64", 3, 200, 20))
    one = every_second.expand(3, 200, 200)
    np.testing.assert_allclose(linalg.solve(one, b).numpy(), np.linalg.solve(a[:, ::2], b.numpy()), rtol=1e-8)
    assert (linalg.inv(one)[1] == linalg.inv(every_second)).all()
    assert every_second.numpy().tobytes() == a[:, ::2].tobytes()  # what was given is left alone
