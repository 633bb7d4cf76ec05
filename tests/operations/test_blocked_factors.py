"""LU, Cholesky factors, inverses and triangular systems, beside NumPy's and SciPy's: sizes on both sides of every change of method."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.linalg

import flambeau
from flambeau import linalg

DTYPES = ["float32", "float64", "complex64", "complex128"]
# One panel and several, the last full or not; more rows than columns, and fewer; few and many matrices beside the threads.
SHAPES = [(161, 161), (320, 320), (200, 700), (700, 200), (5, 170, 170), (2, 0, 170)]
# By recursion alone: narrower than a vector, than a block, and one more; long and wide.
SHAPES += [(33, 33), (40, 1), (1, 40), (48, 8), (60, 17), (17, 60), (3, 70, 33)]


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
    assert ours < 3.0 and error <= 5 * lapack


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [33, 49, 100, 161, 256, 400])
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky(n, upper, dtype):
    a = positive(dtype, n, n)
    given = a.copy()
    given[np.tril_indices(n, -1) if upper else np.triu_indices(n, 1)] = np.nan  # is not read
    found = linalg.cholesky(flambeau.from_numpy(given), upper=upper).numpy()
    L = wide(found.conj().T if upper else found)
    assert not np.triu(L, 1).any()
    lapack = wide(scipy.linalg.cholesky(a, lower=True))
    error, expected = (np.abs(x @ x.conj().T - a).max() for x in (L, lapack))
    assert error < 3 * expected


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(33, 33), (130, 130), (161, 161), (300, 300), (5, 170, 170)], ids=str)
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
        lambda: flambeau.cholesky_inverse(s),
        lambda: flambeau.cholesky_solve(a[:2], s),
        lambda: linalg.eigh(s[:, :90, :90]).eigenvectors,
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


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("n", [1, 5, 16, 33, 130, 300])
def test_what_cholesky_factors_solve(n, upper, dtype):
    a = positive(dtype, n, n)
    factor = np.linalg.cholesky(wide(a)).astype(dtype)
    given = (factor.conj().T if upper else factor).copy()
    given[np.tril_indices(n, -1) if upper else np.triu_indices(n, 1)] = np.nan
    tolerance = 30 * np.finfo(dtype).eps * np.linalg.cond(a)
    expected = np.linalg.inv(wide(factor) @ wide(factor).conj().T)
    for x in (flambeau.from_numpy(given), flambeau.from_numpy(given.T.copy()).mT):
        found = flambeau.cholesky_inverse(x, upper).numpy()
        assert np.abs(found - expected).max() < tolerance * np.abs(expected).max()
        assert (found == found.conj().T).all()
        for columns in (1, 3, 200):
            b = drawn(dtype, n, columns)
            solution = flambeau.cholesky_solve(flambeau.from_numpy(b), x, upper).numpy()
            assert np.abs(solution - expected @ b).max() < tolerance * np.abs(expected @ b).max()


def test_one_cholesky_factor_for_many():
    a, b = positive("float64", 40, 40), drawn("float64", 3, 40, 5)
    L = linalg.cholesky(flambeau.from_numpy(a))
    for factor in (L, L.expand(3, 40, 40)):
        found = flambeau.cholesky_solve(flambeau.from_numpy(b), factor)
        np.testing.assert_allclose(found.numpy(), np.linalg.solve(a, b), rtol=1e-10)
    many = flambeau.cholesky_inverse(L.expand(2, 3, 40, 40))
    np.testing.assert_allclose(many[1, 2].numpy(), np.linalg.inv(a), rtol=1e-10, atol=1e-14)
    assert flambeau.cholesky_inverse(L[:0, :0]).shape == (0, 0)
    assert flambeau.cholesky_inverse(L.expand(0, 40, 40)).shape == (0, 40, 40)


@pytest.mark.parametrize("upper", [False, True])
def test_gradients_of_inverses_by_cholesky_factors(upper):
    """As PyTorch has it: as if the whole of L were read."""
    L = flambeau.from_numpy(np.linalg.cholesky(positive("float64", 4, 4)))
    factor = (L.mT if upper else L).clone().requires_grad_()
    weights = flambeau.from_numpy(drawn("float64", 4, 4))
    (flambeau.cholesky_inverse(factor, upper) * weights).sum().backward()
    whole = factor.detach().clone().requires_grad_()
    (linalg.inv(whole.mT @ whole if upper else whole @ whole.mT) * weights).sum().backward()
    np.testing.assert_allclose(factor.grad.numpy(), whole.grad.numpy(), rtol=1e-9, atol=1e-12)
    twice = lambda x: flambeau.cholesky_inverse(linalg.cholesky((x + x.mT) / 2, upper=upper), upper)
    a = flambeau.from_numpy(positive("float64", 4, 4)).requires_grad_()
    assert flambeau.autograd.gradcheck(twice, [a]) and flambeau.autograd.gradgradcheck(twice, [a])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pivots_whose_reciprocals_are_not_numbers(dtype):
    """Quotients are exact where reciprocals overflow, or are below the least normal number."""
    for scale in (np.finfo(dtype).smallest_normal / 16, np.finfo(dtype).max / 4):
        n = 40
        a = np.diag(np.full(n, scale)).astype(dtype)
        a[1:, 0] = scale / 2
        LU, pivots = linalg.lu_factor(flambeau.from_numpy(a))
        assert (LU[1:, 0] == 0.5).all() and (LU.diagonal() == flambeau.from_numpy(a).diagonal()).all()
        b = np.full((n, 20), scale, dtype)
        x = linalg.solve_triangular(
            flambeau.from_numpy(np.diag(np.diag(a))), flambeau.from_numpy(b), upper=False
        )
        assert (x == 1).all()


def test_an_error_is_as_large_as_the_condition_says():
    """Hilbert's matrix, whose inverse is known: entries are whole numbers."""
    for n in (4, 8):
        a = scipy.linalg.hilbert(n)
        padded = scipy.linalg.block_diag(a, np.eye(60 - n))
        x = linalg.inv(flambeau.from_numpy(padded)).numpy()[:n, :n]
        expected = scipy.linalg.invhilbert(n, exact=True).astype("float64")
        assert (
            np.abs(x - expected).max() < np.finfo("float64").eps * np.linalg.cond(a) * np.abs(expected).max()
        )


NARROW = """
import sys
import numpy as np
import flambeau
sys.path.insert(0, ".")
from tests.operations.test_blocked_factors import DTYPES, drawn, positive, wide
for dtype in DTYPES:
    a, s = drawn(dtype, 170, 170), positive(dtype, 170, 170)
    x, L = (f(flambeau.from_numpy(m)).numpy() for f, m in ((flambeau.linalg.inv, a), (flambeau.linalg.cholesky, s)))
    eps = np.finfo(dtype).eps
    assert np.abs(wide(a) @ wide(x) - np.eye(170)).max() < 200 * eps * np.linalg.cond(a)
    assert np.abs(wide(L) @ wide(L).conj().T - s).max() < 200 * eps * np.abs(s).max()
    w, v = (t.numpy() for t in flambeau.linalg.eigh(flambeau.from_numpy(s[:90, :90].copy())))
    assert np.abs(s[:90, :90] @ v - v * w).max() < 200 * eps * np.abs(s).max()
    w, v = (t.numpy() for t in flambeau.linalg.eig(flambeau.from_numpy(a[:60, :60].copy())))
    assert np.abs(a[:60, :60] @ v - v * w).max() < 200 * eps * np.abs(w).max()
print("done")
"""


def test_with_narrower_vectors():
    environment = {**os.environ, "FLAMBEAU_CPU_CAPABILITY": "avx2"}
    found = subprocess.run(
        [sys.executable, "-c", NARROW], env=environment, capture_output=True, text=True, timeout=300
    )
    assert found.stdout == "done\n", found.stderr


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
