"""Eigenvalues and eigenvectors of matrices in the nearer caches, whose reduction or sweeps are loops of our own, beside SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from scipy.optimize import linear_sum_assignment

import flambeau
from flambeau import linalg

SIZES = [1, 2, 3, 4, 15, 16, 17, 25, 26, 33, 64, 130]


def drawn(dtype, *shape):
    rng = np.random.default_rng(11)
    a = rng.standard_normal(shape)
    return (a + 1j * rng.standard_normal(shape) if dtype.startswith("c") else a).astype(dtype)


def wide(a):
    return a.astype("complex128" if np.iscomplexobj(a) else "float64")


def check_symmetric(a, lower=True):
    """Values, a residual and orthogonality, within what rounding of this many rows allows; only one triangle is read."""
    n, eps = a.shape[-1], np.finfo(a.dtype).eps
    given = a.copy()
    given[np.triu_indices(n, 1) if lower else np.tril_indices(n, -1)] = np.nan
    w, v = (t.numpy() for t in linalg.eigh(flambeau.from_numpy(given), "L" if lower else "U"))
    expected = scipy.linalg.eigh(wide(a), eigvals_only=True)
    limit = 10 * eps * (n**0.5 + 5)
    size = max(np.abs(expected).max(), np.finfo(a.dtype).smallest_subnormal)
    assert np.abs(w - expected).max() / size < limit
    assert np.abs(wide(a) @ wide(v) - wide(v) * w).max() / size < limit
    assert np.abs(wide(v).conj().T @ wide(v) - np.eye(n)).max() < limit
    alone = linalg.eigvalsh(flambeau.from_numpy(given), "L" if lower else "U").numpy()
    assert np.abs(alone - expected).max() / size < limit


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("n", SIZES)
def test_symmetric(n, dtype):
    a = drawn(dtype, n, n)
    a = a + a.conj().T
    check_symmetric(a)
    check_symmetric(a, lower=False)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scale", ["smallest_normal", "max"])
def test_symmetric_at_the_ends_of_the_range(scale, dtype):
    a = drawn("float64", 40, 40)
    size = float(getattr(np.finfo(dtype), scale)) * (1e6 if scale == "smallest_normal" else 1e-4)
    check_symmetric(((a + a.T) * size).astype(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_symmetric_matrices_of_some_forms(dtype):
    rng = np.random.default_rng(5)
    q = np.linalg.qr(rng.standard_normal((60, 60)))[0]
    values = np.repeat([1.0, 1.0 + 1e-9, -3.0, 1e-5], 15)
    forms = [
        np.zeros((40, 40)),
        np.eye(40),
        np.diag(np.arange(40.0)),
        np.diag(np.ones(39), 1) + np.diag(np.ones(39), -1),  # tridiagonal already
        np.ones((40, 40)),
        (q * values) @ q.T,
        np.diag(10.0 ** -np.arange(20)),
        scipy.linalg.block_diag(np.ones((20, 20)), np.zeros((20, 20))),
    ]
    for form in forms:
        a = form.astype(dtype)
        check_symmetric((a + a.T) / 2)


def test_symmetric_batches_and_what_is_not_finite():
    a = drawn("float32", 2, 3, 20, 20)
    a = a + a.swapaxes(-1, -2)
    x = flambeau.from_numpy(a)
    w, v = linalg.eigh(x)
    np.testing.assert_allclose((v * w.unsqueeze(-2) @ v.mT).numpy(), a, atol=1e-4)
    for i in range(2):
        for k in range(3):
            assert (linalg.eigh(x[i, k]).eigenvectors == v[i, k]).all()
    x[1, 2, 5, 3] = float("nan")
    with pytest.raises(linalg.LinAlgError, match="non-finite"):
        linalg.eigh(x)
    assert linalg.eigh(x[:0]).eigenvectors.shape == (0, 3, 20, 20)


def check_general(a, defective=False):
    eps = np.finfo(a.dtype).eps
    w, v = (t.numpy() for t in linalg.eig(flambeau.from_numpy(a)))
    size = np.linalg.norm(a)
    assert np.abs(wide(a) @ wide(v) - wide(v) * w).max() <= 30 * eps * size
    np.testing.assert_allclose(np.linalg.norm(wide(v), axis=0), 1, rtol=20 * eps)
    sizes = np.abs(wide(v))
    largest = sizes >= sizes.max(0) * (1 - 100 * eps)
    assert (largest & (v.imag == 0)).any(0).all()  # LAPACK's choice of the factor of modulus 1
    if not defective:
        expected = scipy.linalg.eigvals(wide(a))
        apart = np.abs(w[:, None] - expected[None, :])
        rows, columns = linear_sum_assignment(apart)
        reference = np.linalg.cond(scipy.linalg.eig(wide(a))[1])
        assert apart[rows, columns].max() <= 30 * eps * size * reference


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("n", SIZES)
def test_general(n, dtype):
    check_general(drawn(dtype, n, n))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_general_matrices_of_some_forms(dtype):
    a = drawn(dtype, 40, 40)
    turn = np.roll(np.eye(40), 1, axis=0)  # shifts by the last two rows do not converge
    forms = [
        np.zeros((40, 40)),
        np.eye(40),
        np.diag(drawn(dtype, 40)),
        np.triu(a),
        a + a.conj().T,
        turn,
        turn * 1j,
        np.diag(np.ones(39), -1) + np.diag(np.full(40, 2.0)),  # one vector
        scipy.linalg.block_diag(a[:20, :20], a[:20, :20]),
        scipy.linalg.companion(np.r_[1.0, np.zeros(19), -1.0]),
        a * np.logspace(0, -6, 40)[:, None],
    ]
    for number, form in enumerate(forms):
        check_general(form.astype(dtype), defective=number == 7)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("scale", ["smallest_normal", "max"])
def test_general_at_the_ends_of_the_range(scale, dtype):
    size = float(getattr(np.finfo(dtype), scale)) * (1e6 if scale == "smallest_normal" else 1e-4)
    a = (drawn("complex128", 30, 30) * size).astype(dtype)
    w, v = (t.numpy() for t in linalg.eig(flambeau.from_numpy(a)))
    rest = (wide(a) / size) @ wide(v) - wide(v) * (wide(w) / size)
    assert np.abs(rest).max() < 300 * np.finfo(dtype).eps


def test_general_batches_views_and_what_is_not_finite():
    a = drawn("complex64", 3, 40, 20)
    x = flambeau.from_numpy(a)[:, ::2]
    w, v = linalg.eig(x)
    np.testing.assert_allclose((x @ v - v * w.unsqueeze(-2)).abs().numpy(), 0, atol=2e-5)
    for k in range(3):
        assert (linalg.eig(x[k].contiguous()).eigenvectors == v[k]).all()
    assert flambeau.from_numpy(a)[:, ::2].equal(x)
    y = x.clone()
    y[1, 0, 0] = float("inf")
    with pytest.raises(RuntimeError, match="infs or NaNs"):
        linalg.eig(y)
    assert linalg.eig(x[:0]).eigenvectors.shape == (0, 20, 20)


def test_bits_do_not_depend_on_threads():
    before = flambeau.get_num_threads()
    x = flambeau.from_numpy(drawn("complex64", 5, 40, 40))
    try:
        found = []
        for threads in (1, 2, 4):
            flambeau.set_num_threads(threads)
            found.append(linalg.eig(x).eigenvectors.numpy().tobytes())
        assert len(set(found)) == 1
    finally:
        flambeau.set_num_threads(before)
