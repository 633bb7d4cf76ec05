"""Linear algebra of an accelerator: what decompositions promise, and NumPy's answers."""

from __future__ import annotations

import numpy as np
import pytest
from accelerator import DEVICE, array

import flambeau

L = flambeau.linalg
SQUARE = ((1, 1), (4, 4), (2, 3, 5, 5), (17, 17), (0, 0), (2, 0, 0))
OTHERS = ((3, 5), (5, 3), (2, 6, 4), (2, 4, 7), (0, 3), (3, 0))
DTYPES = ("float64", "complex128", "float32")


def matrices(shape, dtype: str) -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    a = rng.standard_normal(shape)
    return (a + 1j * rng.standard_normal(shape) if dtype.startswith("complex") else a).astype(dtype)


def moved(a: np.ndarray) -> flambeau.Tensor:
    return flambeau.from_numpy(a).to(DEVICE)


def close(actual, expected, dtype: str) -> None:
    actual = array(actual) if isinstance(actual, flambeau.Tensor) else actual
    tolerance = 3e-4 if dtype == "float32" else 1e-9
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


adjoint = lambda a: np.swapaxes(a, -2, -1).conj()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARE)
def test_systems_and_inverses(shape, dtype):
    a = matrices(shape, dtype) + 3 * np.eye(shape[-1], dtype=dtype)
    b = matrices((*shape[:-1], 3), dtype)
    close(L.solve(moved(a), moved(b)), np.linalg.solve(a, b), dtype)
    close(L.solve(moved(a).mT, moved(b)), np.linalg.solve(np.swapaxes(a, -2, -1), b), dtype)
    close(L.inv(moved(a)), np.linalg.inv(a), dtype)
    close(L.det(moved(a)) / 10 ** shape[-1], np.linalg.det(a) / 10 ** shape[-1], dtype)
    for actual, expected in zip(L.slogdet(moved(a)), np.linalg.slogdet(a), strict=True):
        close(actual, np.asarray(expected), dtype)
    for upper in (False, True):
        triangle = np.triu(a) if upper else np.tril(a)
        close(L.solve_triangular(moved(a), moved(b), upper=upper), np.linalg.solve(triangle, b), dtype)
    product = a @ adjoint(a)
    close(L.cholesky(moved(product)), np.linalg.cholesky(product), dtype)
    close(L.cholesky(moved(product), upper=True), adjoint(np.linalg.cholesky(product)), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARE + OTHERS)
def test_lu_and_qr(shape, dtype):
    a = matrices(shape, dtype)
    if min(shape):
        P, lower, upper = (array(x) for x in L.lu(moved(a)))
        close(P @ lower @ upper, a, dtype)
        LU, pivots = L.lu_factor(moved(a))
        on_cpu = L.lu_factor(flambeau.from_numpy(a))
        close(LU, array(on_cpu.LU), dtype)
        np.testing.assert_array_equal(array(pivots), array(on_cpu.pivots))
    for mode in ("reduced", "complete"):
        Q, R = (array(x) for x in L.qr(moved(a), mode=mode))
        expected = np.linalg.qr(a, mode)
        close(Q, expected[0], dtype)
        close(R, expected[1], dtype)
    close(L.qr(moved(a), mode="r").R, np.linalg.qr(a, "r"), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARE)
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_hermitian_eigenvalues(shape, dtype, uplo):
    a = matrices(shape, dtype)
    values, vectors = L.eigh(moved(a), UPLO=uplo)
    close(values, np.linalg.eigvalsh(a, uplo), dtype)
    close(L.eigvalsh(moved(a), UPLO=uplo), np.linalg.eigvalsh(a, uplo), dtype)
    half = np.tril(a, -1) if uplo == "L" else np.triu(a, 1)
    diagonal = np.einsum("...ii->...i", a).real
    whole = half + adjoint(half) + diagonal[..., None] * np.eye(shape[-1])
    v = array(vectors)
    close(whole @ v, v * array(values)[..., None, :], dtype)
    close(adjoint(v) @ v, np.broadcast_to(np.eye(shape[-1], dtype=dtype), shape), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARE + OTHERS)
@pytest.mark.parametrize("deficient", [False, True])
def test_singular_values(shape, dtype, deficient):
    a = matrices(shape, dtype)
    if deficient and min(shape[-2:]) > 1:
        a[..., 1] = a[..., 0]
        a[..., -1, :] = 0
    expected = np.linalg.svd(a, compute_uv=False)
    close(L.svdvals(moved(a)), expected, dtype)
    for full in (False, True):
        U, S, Vh = (array(x) for x in L.svd(moved(a), full_matrices=full))
        k = S.shape[-1]
        close(S, expected, dtype)
        close((U[..., :k] * S[..., None, :]) @ Vh[..., :k, :], a, dtype)
        for basis in (U, adjoint(Vh)):
            one = np.eye(basis.shape[-1], dtype=dtype)
            close(adjoint(basis) @ basis, np.broadcast_to(one, (*shape[:-2], *one.shape)), dtype)


def test_what_cannot_be_done():
    singular, negative = (
        flambeau.zeros(2, 2, 2, device=DEVICE),
        flambeau.tensor([[1.0, 2], [2, 1]], device=DEVICE),
    )
    with pytest.raises(
        L.LinAlgError, match=r"linalg.inv: \(Batch element 0\): The diagonal element 1 is zero"
    ):
        L.inv(singular)
    with pytest.raises(L.LinAlgError, match="the leading minor of order 2 is not positive-definite"):
        L.cholesky(negative)
    assert L.cholesky_ex(negative).info.item() == 2 and L.inv_ex(singular).info.tolist() == [1, 1]
    for function in (L.eigh, L.svd):
        with pytest.raises(L.LinAlgError, match="contained non-finite values"):
            function(negative * float("nan"))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_gradients(dtype):
    a = matrices((3, 3), dtype) / 4
    product = a @ adjoint(a) + 2 * np.eye(3)
    calls = {
        "inv": L.inv,
        "det": L.det,
        "cholesky": L.cholesky,
        "qr": lambda x: L.qr(x).R.abs(),
        "lu": lambda x: L.lu(x)[1],
        "eigvalsh": L.eigvalsh,
        "svdvals": L.svdvals,
        "pinv": L.pinv,
        "matrix_exp": L.matrix_exp,
        "matrix_norm": lambda x: L.matrix_norm(x, "nuc"),
    }
    for name, call in calls.items():
        gradients = []
        for place in ("cpu", DEVICE):
            x = flambeau.from_numpy(product).to(place).requires_grad_()
            call(x).abs().square().sum().backward()
            gradients.append(array(x.grad))
        np.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-8, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("dtype", [flambeau.complex64, flambeau.complex128])
def test_complex_numbers_are_multiplied_and_summed(dtype):
    x, y = flambeau.randn(3, 4, dtype=dtype), flambeau.randn(2, 4, 3, dtype=dtype)
    at = flambeau.tensor([0, 0])
    calls = (
        lambda x, y, at: x @ y,
        lambda x, y, at: y[0] @ x,
        lambda x, y, at: x[at],
        lambda x, y, at: x.index_add(0, at, x[:2]),
        lambda x, y, at: x.index_put((at,), x[:2], accumulate=True),
        lambda x, y, at: y.index_put((at, at), x[0, 0], accumulate=True),
        lambda x, y, at: x.scatter_add(0, at.expand(1, 2), x[:2]),
    )
    for call in calls:
        result = call(x.to(DEVICE), y.to(DEVICE), at.to(DEVICE))
        np.testing.assert_allclose(array(result), array(call(x, y, at)), rtol=1e-5)
