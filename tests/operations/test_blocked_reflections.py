"""QR by blocks of reflections, and what is made of it, beside NumPy's: sizes on both sides of every change of method."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau import linalg

# One reflection after another; blocks of 8, 16 and 48, the last of them full or not; large enough for the threads to share.
SHAPES = [(128, 128), (129, 128), (500, 50), (3, 300, 64), (200, 129), (130, 300), (2, 400, 160), (20000, 1)]
DTYPES = ["float32", "float64", "complex64", "complex128"]


def drawn(dtype, *shape):
    rng = np.random.default_rng(5)
    a = rng.standard_normal(shape)
    return (a + 1j * rng.standard_normal(shape) if dtype.startswith("c") else a).astype(dtype)


def near(found, expected, dtype, factor=300):
    """Equal to so many rounding errors of the largest element."""
    assert found.shape == expected.shape and found.dtype == expected.dtype
    assert np.abs(found - expected).max() <= factor * np.finfo(dtype).eps * np.abs(expected).max()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_qr(shape, dtype):
    a = drawn(dtype, *shape)
    x = flambeau.from_numpy(a)
    for mode in ("reduced", "complete")[: 1 + (shape[-2] < 1000)]:
        Q, R = (t.numpy() for t in linalg.qr(x, mode))
        expected = np.linalg.qr(a, mode)
        near(Q, expected[0], dtype)
        near(R, expected[1], dtype)
        near(
            Q.conj().mT @ Q,
            np.broadcast_to(np.eye(Q.shape[-1], dtype=dtype), R[..., :1].shape[:-2] + (Q.shape[-1],) * 2),
            dtype,
        )
        assert not np.tril(R, -1).any()
    near(linalg.qr(x, "r").R.numpy(), np.linalg.qr(a, "r"), dtype)
    assert np.array_equal(x.numpy(), a)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_compact_form(dtype):
    """LAPACK's: its reflections and scales, of which `householder_product` makes Q."""
    x = flambeau.from_numpy(drawn(dtype, 2, 400, 50))
    a, tau = flambeau.geqrf(x)
    assert tau.shape == (2, 50)
    Q, R = linalg.qr(x)
    near(linalg.householder_product(a, tau).numpy(), Q.numpy(), dtype)
    assert flambeau.equal(a[:, :50].triu(), R)


def test_bits_do_not_depend_on_threads_or_layout():
    stack = flambeau.from_numpy(drawn("float32", 2, 400, 160))
    before, found = flambeau.get_num_threads(), []
    try:
        for threads in (1, 3):
            flambeau.set_num_threads(threads)
            found.append((*linalg.qr(stack), *linalg.svd(stack[0, :, :60], full_matrices=False)))
    finally:
        flambeau.set_num_threads(before)
    assert all(flambeau.equal(x, y) for x, y in zip(*found))
    assert all(flambeau.equal(x[0], y) for x, y in zip(found[0], linalg.qr(stack[0].mT.contiguous().mT)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(300, 60), (60, 300), (2, 40, 20), (4, 1)], ids=str)
def test_singular_values_of_long_matrices(shape, dtype):
    a = drawn(dtype, *shape)
    x = flambeau.from_numpy(a)
    U, S, Vh = (t.numpy() for t in linalg.svd(x, full_matrices=False))
    near(S, np.linalg.svd(a, compute_uv=False), dtype)
    near(linalg.svdvals(x).numpy(), S, dtype)
    near((U * S[..., None, :]) @ Vh, a, dtype)
    for basis in (U.conj().mT @ U, Vh @ Vh.conj().mT):
        near(basis, np.broadcast_to(np.eye(S.shape[-1], dtype=dtype), basis.shape), dtype)


def test_small_singular_values_keep_their_digits():
    """Of columns of very different lengths the values agree with those found directly, to the largest's rounding error."""
    a = drawn("float64", 500, 12) * 10.0 ** -np.arange(12)
    near(linalg.svdvals(flambeau.from_numpy(a)).numpy(), np.linalg.svd(a, compute_uv=False), "float64", 10)
    near(linalg.qr(flambeau.from_numpy(a * 1e-300)).R.numpy() * 1e300, np.linalg.qr(a, "r"), "float64", 1e3)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite(bad):
    x = flambeau.from_numpy(drawn("float32", 500, 50))
    x[3, 7] = bad
    assert not linalg.qr(x).R[:, 7:].isfinite().all() and linalg.qr(x).R[:, :7].isfinite().all()
    for function in (linalg.svd, linalg.svdvals):
        with pytest.raises(linalg.LinAlgError, match="non-finite"):
            function(x[:, :50] if function is linalg.svdvals else x)
    with pytest.raises(linalg.LinAlgError, match="non-finite"):
        linalg.svd(x, full_matrices=False)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(600, 30), (2, 500, 90), (30, 30)], ids=str)
def test_least_squares(shape, dtype):
    a, b = drawn(dtype, *shape), drawn(dtype, *shape[:-1], 70)
    found = linalg.lstsq(flambeau.from_numpy(a), flambeau.from_numpy(b)).solution.numpy()
    expected = np.linalg.pinv(a.astype("complex128")) @ b
    near(found, (expected if dtype.startswith("c") else expected.real).astype(dtype), dtype, 1e4)


def test_matrices_of_dependent_columns():
    a = drawn("float64", 300, 60)
    a[:, 40:] = a[:, :20]
    Q, R = linalg.qr(flambeau.from_numpy(a))
    near((Q @ R).numpy(), a, "float64")
    assert np.abs(R.numpy().diagonal()[40:]).max() < 1e-12
    x = flambeau.from_numpy(a)
    assert linalg.matrix_rank(x) == 40
    b = x @ flambeau.ones(60, 1, dtype=flambeau.float64)
    near((x @ linalg.lstsq(x, b).solution).numpy(), b.numpy(), "float64")


@pytest.mark.parametrize("shape", [(0, 300, 60), (2, 0, 60), (300, 0), (0, 0)], ids=str)
def test_empty(shape):
    x = flambeau.zeros(shape)
    Q, R = linalg.qr(x)
    k = min(shape[-2:])
    assert Q.shape == (*shape[:-1], k) and R.shape == (*shape[:-2], k, shape[-1])
    assert linalg.svdvals(x).shape == (*shape[:-2], k)
    assert [t.shape for t in flambeau.geqrf(x)] == [shape, (*shape[:-2], k)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_small_matrices_of_any_shape_and_scale(dtype):
    """One reflection after another, by loops of our own and by LAPACK: errors in the unit of each column, whatever its scale."""
    rng, eps = np.random.default_rng(21), np.finfo(dtype).eps
    top = 30 if dtype == "float32" else 290
    for turn in range(150):
        m, n = (int(e) for e in rng.integers(1, 130, 2))
        a = rng.standard_normal((2, m, n))
        if turn % 5 == 1:
            a *= 10.0 ** rng.integers(-top, top)
        elif turn % 5 == 2:  # of lower rank
            a[:, :, n // 2 :] = a[:, :, : n - n // 2]
        elif turn % 5 == 3:
            a[:, m // 2 :] = 0
        elif turn % 5 == 4:
            a *= 10.0 ** rng.integers(-top // 2, top // 2, n)
        a = a.astype(dtype)
        unit = np.abs(a).max(1, keepdims=True).astype("longdouble")
        unit[unit == 0] = 1
        for mode in ("reduced", "complete"):
            found = []
            for threads in (1, 3):
                flambeau.set_num_threads(threads)
                found.append([x.numpy() for x in flambeau.linalg.qr(flambeau.tensor(a), mode=mode)])
            flambeau.set_num_threads(1)
            (Q, R), others = found
            assert all(x.tobytes() == y.tobytes() for x, y in zip((Q, R), others))
            assert not np.tril(R, -1).any()
            assert np.abs(Q.swapaxes(1, 2).astype("f8") @ Q - np.eye(Q.shape[2])).max() < 30 * eps
            assert np.abs((Q.astype("longdouble") @ R - a) / unit).max() < 60 * eps


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_matrix_that_is_not_finite_spoils_no_other(bad, dtype):
    a = np.random.default_rng(2).standard_normal((3, 24, 20)).astype(dtype)
    expected = flambeau.linalg.qr(flambeau.tensor(a))
    a[1, 5, 7] = bad
    Q, R = flambeau.linalg.qr(flambeau.tensor(a))
    assert Q[1].isnan().any() and R[1].isnan().any()
    for k in (0, 2):
        np.testing.assert_array_equal(Q[k].numpy(), expected[0][k].numpy())
        np.testing.assert_array_equal(R[k].numpy(), expected[1][k].numpy())
