"""Decompositions and solvers: values against NumPy and SciPy, what they multiply to, derivatives, errors."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.special

import flambeau
from flambeau import linalg
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.utils._python_dispatch import TorchDispatchMode

BATCHES = [(), (2,), (2, 1)]


def matrices(*shape, seed=0, positive=False, requires_grad=False):
    a = np.random.default_rng(seed).standard_normal(shape)
    if positive:
        a = a @ np.swapaxes(a, -1, -2) + shape[-1] * np.eye(shape[-1])
    return flambeau.tensor(a, requires_grad=requires_grad)


def close(a, b, tolerance=1e-10):
    np.testing.assert_allclose(
        np.asarray(a.detach() if isinstance(a, flambeau.Tensor) else a),
        np.asarray(b.detach() if isinstance(b, flambeau.Tensor) else b),
        rtol=tolerance,
        atol=tolerance,
    )


# Each function with the real matrices it is tried on, and whether its values are unique.
SQUARE = {
    "inv": (linalg.inv, np.linalg.inv),
    "det": (linalg.det, np.linalg.det),
    "logabsdet": (lambda a: linalg.slogdet(a).logabsdet, lambda a: np.linalg.slogdet(a)[1]),
    "pinv": (linalg.pinv, np.linalg.pinv),
    "svdvals": (linalg.svdvals, lambda a: np.linalg.svd(a, compute_uv=False)),
    "matrix_exp": (linalg.matrix_exp, scipy.linalg.expm),
    "cube": (lambda a: linalg.matrix_power(a, 3), lambda a: np.linalg.matrix_power(a, 3)),
    "inverse square": (lambda a: linalg.matrix_power(a, -2), lambda a: np.linalg.matrix_power(a, -2)),
    "nuclear norm": (lambda a: linalg.matrix_norm(a, "nuc"), lambda a: np.linalg.norm(a, "nuc", (-2, -1))),
    "spectral norm": (lambda a: linalg.matrix_norm(a, 2), lambda a: np.linalg.norm(a, 2, (-2, -1))),
    "column norm": (lambda a: linalg.matrix_norm(a, 1), lambda a: np.linalg.norm(a, 1, (-2, -1))),
    "row norm": (
        lambda a: linalg.matrix_norm(a, -float("inf")),
        lambda a: np.linalg.norm(a, -np.inf, (-2, -1)),
    ),
    "cond": (linalg.cond, np.linalg.cond),
    "cond 1": (lambda a: linalg.cond(a, 1), lambda a: np.linalg.cond(a, 1)),
}


@pytest.mark.parametrize("name", SQUARE)
@pytest.mark.parametrize("batch", BATCHES)
def test_functions_of_square_matrices(name, batch):
    ours, theirs = SQUARE[name]
    A = matrices(*batch, 4, 4, requires_grad=True)
    close(ours(A), theirs(A.detach().numpy()))
    assert gradcheck(ours, [A])
    assert gradgradcheck(ours, [A])


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("batch", BATCHES)
def test_cholesky(batch, upper):
    A = matrices(*batch, 4, 4, positive=True, requires_grad=True)
    L = linalg.cholesky(A, upper=upper)
    close(L, scipy.linalg.cholesky(A.detach().numpy(), lower=not upper))
    both = lambda a: linalg.cholesky((a + a.mT) * 0.5, upper=upper)  # changes of A stay symmetric
    assert gradcheck(both, [A])
    assert gradgradcheck(both, [A])
    B = matrices(*batch, 4, 2, seed=3)
    close(flambeau.cholesky_solve(B, L, upper), np.linalg.solve(A.detach().numpy(), B.numpy()))
    close(flambeau.cholesky_inverse(L, upper), np.linalg.inv(A.detach().numpy()))
    factor = matrices(4, 4, positive=True).requires_grad_()
    whole = lambda b, x: flambeau.cholesky_solve(b, linalg.cholesky((x + x.mT) / 2, upper=upper), upper)
    assert gradcheck(whole, [B.requires_grad_(), factor])


def test_cholesky_of_what_is_not_positive():
    bad = flambeau.tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]]])
    with pytest.raises(linalg.LinAlgError, match="minor of order 2"):
        linalg.cholesky(bad)
    assert issubclass(linalg.LinAlgError, RuntimeError)
    assert linalg.cholesky_ex(bad).info.tolist() == [0, 2]


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 3)])
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_qr(shape, mode):
    A = matrices(*shape, requires_grad=True)
    Q, R = linalg.qr(A, mode)
    close(Q @ R, A)
    close(Q.mT @ Q, np.broadcast_to(np.eye(Q.shape[-1]), (*Q.shape[:-2], Q.shape[-1], Q.shape[-1])))
    close(R, R.triu())
    if mode == "complete" and shape[-2] > shape[-1]:
        with pytest.raises(RuntimeError, match="not differentiable"):
            (Q.sum() + R.sum()).backward()
        return
    assert gradcheck(lambda a: linalg.qr(a, mode)[0], [A])
    assert gradcheck(lambda a: linalg.qr(a, mode)[1], [A])
    assert gradgradcheck(lambda a: sum(r.sum() for r in linalg.qr(a, mode)), [A])
    with pytest.raises(RuntimeError, match="mode='r'"):
        linalg.qr(A, "r").R.sum().backward()


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 3)])
def test_lu(shape):
    A = matrices(*shape, requires_grad=True)
    P, L, U = linalg.lu(A)
    close(P @ L @ U, A)
    close(L, L.tril())
    close(U, U.triu())
    assert gradcheck(lambda a: linalg.lu(a)[1:], [A])
    assert gradgradcheck(lambda a: linalg.lu(a)[1:], [A])
    LU, pivots = linalg.lu_factor(A)
    for a, b in zip(flambeau.lu_unpack(LU, pivots), (P, L, U)):
        close(a, b)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_lu_solve(left, adjoint):
    A = matrices(2, 4, 4, requires_grad=True)
    B = (
        matrices(2, 4, 3, seed=1, requires_grad=True)
        if left
        else matrices(2, 3, 4, seed=1, requires_grad=True)
    )

    def solved(a, b):
        return linalg.lu_solve(*linalg.lu_factor(a), b, left=left, adjoint=adjoint)

    M = A.detach().mT if adjoint else A.detach()
    X = solved(A, B).detach()
    close(M @ X if left else X @ M, B)
    assert gradcheck(solved, [A, B])


@pytest.mark.parametrize("batch", BATCHES)
def test_eigh(batch):
    A = matrices(*batch, 4, 4, positive=True, requires_grad=True)
    L, V = linalg.eigh(A)
    close(L, np.linalg.eigvalsh(A.detach().numpy()))
    close(A @ V, V * L.unsqueeze(-2))
    close(linalg.eigvalsh(A), L)
    both = lambda a: linalg.eigh((a + a.mT) * 0.5)
    assert gradcheck(lambda a: both(a)[0], [A])
    assert gradcheck(lambda a: both(a)[1].abs(), [A])
    assert gradgradcheck(lambda a: both(a)[1].abs(), [A])
    with pytest.raises(RuntimeError, match="UPLO"):
        linalg.eigh(A, "X")


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 3)])
@pytest.mark.parametrize("full", [True, False])
def test_svd(shape, full):
    A = matrices(*shape, requires_grad=True)
    U, S, Vh = linalg.svd(A, full)
    k = min(shape[-2:])
    close(U[..., :k] * S.unsqueeze(-2) @ Vh[..., :k, :], A)
    assert U.shape[-1] == (shape[-2] if full else k) and Vh.shape[-2] == (shape[-1] if full else k)
    for k_th in (0, 1, 2):
        if full and k_th != 1 and shape[-1] != shape[-2]:
            continue  # vectors outside the space of A turn freely
        assert gradcheck(lambda a, n=k_th: linalg.svd(a, full)[n].abs(), [A])
    assert gradgradcheck(lambda a: linalg.svd(a, False)[0].abs(), [A])
    old = flambeau.svd(A, not full)
    close(old.V, Vh.mT)


@pytest.mark.parametrize("shape", [(5, 0), (0, 5), (2, 0, 3), (2, 3, 0), (0, 2, 3)])
def test_svd_of_no_elements(shape):
    A = flambeau.ones(*shape, dtype=flambeau.complex64)
    U, S, Vh = linalg.svd(A)
    assert S.shape == (*shape[:-2], 0) or shape[0] == 0
    for basis, size in ((U, shape[-2]), (Vh, shape[-1])):
        assert basis.shape == (*shape[:-2], size, size) and basis.dtype == A.dtype
        assert flambeau.equal(basis, flambeau.eye(size, dtype=A.dtype).expand_as(basis))
    mapped = flambeau.vmap(linalg.svd)(flambeau.stack([A, A]))
    assert flambeau.equal(mapped.U[1], U) and flambeau.equal(mapped.Vh[1], Vh)


def test_pinv_of_lower_rank_and_hermitian():
    a, b = matrices(5, 2, requires_grad=True), matrices(4, 2, seed=1, requires_grad=True)
    product = lambda x, y: linalg.pinv(x @ y.mT)  # changes keep the rank
    close(product(a, b), np.linalg.pinv((a @ b.mT).detach().numpy(), rcond=1e-10))
    assert gradcheck(product, [a, b])
    A = matrices(3, 3, positive=True)
    close(linalg.pinv(A, hermitian=True), np.linalg.pinv(A.numpy()))
    assert linalg.pinv(flambeau.ones(0, 3)).shape == (3, 0)


@pytest.mark.parametrize("driver", [None, "gels", "gelsy", "gelsd", "gelss"])
def test_lstsq(driver):
    A, B = matrices(5, 3, requires_grad=True), matrices(5, 2, seed=1, requires_grad=True)
    found = linalg.lstsq(A, B, driver=driver)
    x, residuals, rank, values = np.linalg.lstsq(A.detach().numpy(), B.detach().numpy(), rcond=None)
    close(found.solution, x)
    if driver in ("gels", "gelsd", "gelss"):
        close(found.residuals, residuals)
    if driver in ("gelsd", "gelss"):
        close(found.singular_values, values)
    assert found.rank.numel() == 0 if driver == "gels" else int(found.rank) == rank
    assert gradcheck(lambda a, b: linalg.lstsq(a, b, driver=driver).solution, [A, B])
    with pytest.raises(RuntimeError, match="driver"):
        linalg.lstsq(A, B, driver="qr")


@pytest.mark.parametrize("left", [True, False])
def test_solve(left):
    A = matrices(2, 4, 4, requires_grad=True)
    B = matrices(4, 3, seed=1, requires_grad=True) if left else matrices(3, 4, seed=1, requires_grad=True)
    X = linalg.solve(A, B, left=left)
    close(A @ X if left else X @ A, B.expand(2, *B.shape))
    function = lambda a, b: linalg.solve(a, b, left=left)
    assert gradcheck(function, [A, B]) and gradgradcheck(function, [A, B])
    close(
        linalg.solve(A, B[:, 0] if left else B.mT[:, 0]),
        np.linalg.solve(A.detach(), (B if left else B.mT).detach()[:, :1])[..., 0],
    )
    with pytest.raises(linalg.LinAlgError):
        linalg.solve(flambeau.zeros(2, 2), flambeau.ones(2))
    assert linalg.inv_ex(flambeau.zeros(2, 2)).info.item() == 1
    with pytest.raises(RuntimeError, match="Incompatible shapes"):
        linalg.solve(A, flambeau.ones(7, 2, dtype=flambeau.float64))
    with pytest.raises(RuntimeError, match="same dtype"):
        linalg.solve(A, B.detach().float(), left=left)


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_solve_triangular(upper, left, unit):
    A = matrices(4, 4, requires_grad=True)
    B = matrices(2, 4, 4, seed=1, requires_grad=True)
    T = A.detach().triu() if upper else A.detach().tril()
    if unit:
        T = T - T.diagonal().diag() + flambeau.eye(4, dtype=T.dtype)
    X = linalg.solve_triangular(A, B, upper=upper, left=left, unitriangular=unit)
    close(T @ X.detach() if left else X.detach() @ T, B)
    function = lambda a, b: linalg.solve_triangular(a, b, upper=upper, left=left, unitriangular=unit)
    assert gradcheck(function, [A, B]) and gradgradcheck(function, [A, B])
    options = {"upper": upper, "left": left, "unitriangular": unit}
    for given in (B.detach().float(), B.detach().half(), B.detach().long()):
        mixed = linalg.solve_triangular(A.detach(), given, **options)
        assert mixed.dtype is A.dtype
        assert mixed.equal(linalg.solve_triangular(A.detach(), given.to(A.dtype), **options))
    with pytest.raises(RuntimeError, match="same dtype"):
        linalg.solve_triangular(A, B.detach().cfloat(), **options)
    if left:
        found = flambeau.triangular_solve(B, A, upper, False, unit)
        close(found.solution, X)
        assert found.cloned_coefficient.shape == (2, 4, 4)


def test_determinant_of_a_singular_matrix():
    A = flambeau.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=flambeau.float64, requires_grad=True)
    linalg.det(A).backward()
    close(A.grad, [[4.0, -2.0], [-2.0, 1.0]])
    zeros = flambeau.zeros(3, 3, dtype=flambeau.float64, requires_grad=True)
    linalg.det(zeros).backward()
    close(zeros.grad, np.zeros((3, 3)))
    assert flambeau.logdet(flambeau.tensor([[-1.0]])).isnan()
    assert flambeau.logdet(flambeau.zeros(2, 2)).item() == -float("inf")


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (2, 3, 2), (0, 2), (2, 0)], ids=str)
def test_geqrf(shape):
    a = matrices(*shape)
    found, tau = flambeau.geqrf(a)
    assert found.shape == a.shape and tau.shape == (*shape[:-2], min(shape[-2:]))
    if shape[-2] >= shape[-1]:
        close(linalg.householder_product(found, tau) @ found[..., : shape[-1], :].triu(), a)
    if len(shape) == 2 and a.numel():
        (raw, scales), _ = scipy.linalg.qr(a.numpy(), mode="raw")
        close(found, raw)
        close(tau, scales)


def test_a_product_of_many_reflections():
    """Scales of 0 reflect nothing; the definition, one reflection after another."""
    a = matrices(2, 6, 4)
    tau = flambeau.tensor([[0.5, 0.0, 1.2, 0.7], [0.0, 0.0, 0.0, 2.0]], dtype=flambeau.float64)
    wanted = np.stack([np.eye(6)] * 2)
    for k in range(4):
        v = np.tril(a.numpy(), -1)[:, :, k] + np.eye(6)[k]
        wanted = wanted @ (np.eye(6) - tau.numpy()[:, k, None, None] * v[:, :, None] * v[:, None, :])
    close(linalg.householder_product(a, tau), wanted[..., :4])


def test_householder_product():
    a = matrices(5, 3, requires_grad=True)
    (raw, tau), _ = scipy.linalg.qr(a.detach().numpy(), mode="raw")
    found = linalg.householder_product(flambeau.tensor(np.ascontiguousarray(raw)), flambeau.tensor(tau))
    close(found, scipy.linalg.qr(a.detach().numpy(), mode="economic")[0])
    assert gradcheck(linalg.householder_product, [a, flambeau.tensor(tau, requires_grad=True)])


def test_ldl():
    A = matrices(2, 4, 4)
    A = A + A.mT
    LD, pivots = linalg.ldl_factor(A)
    B = matrices(2, 4, 3, seed=5)
    close(linalg.ldl_solve(LD, pivots, B), np.linalg.solve(A.numpy(), B.numpy()))


def test_vectors_and_tensors():
    x, y = matrices(2, 3, requires_grad=True), matrices(2, 3, seed=1, requires_grad=True)
    close(linalg.cross(x, y), np.cross(x.detach().numpy(), y.detach().numpy()))
    close(linalg.vecdot(x, y), (x * y).sum(-1))
    close(linalg.vander(x, N=4), np.stack([np.vander(r, 4, True) for r in x.detach().numpy()]))
    assert gradcheck(linalg.cross, [x, y]) and gradcheck(linalg.vecdot, [x, y])
    A = matrices(4, 6, 8, 3)
    close(linalg.tensorinv(A), np.linalg.tensorinv(A.numpy()))
    A, B = matrices(2, 3, 6), matrices(2, 3, seed=1)
    close(linalg.tensorsolve(A, B), np.linalg.tensorsolve(A.numpy(), B.numpy()))
    assert linalg.matrix_rank(matrices(5, 2) @ matrices(2, 5, seed=1)).item() == 2
    assert linalg.matrix_rank(flambeau.eye(3), hermitian=True).item() == 3
    close(linalg.norm(A, dim=(0, 1)), np.linalg.norm(A.numpy(), axis=(0, 1)))
    close(linalg.norm(A[0], "nuc"), np.linalg.norm(A[0].numpy(), "nuc"))


def test_low_rank():
    A = matrices(20, 3) @ matrices(3, 10, seed=1)
    U, S, V = flambeau.svd_lowrank(A, 4)
    close(U * S @ V.mT, A, 1e-8)
    U, S, V = flambeau.pca_lowrank(A, 3)
    close(U * S @ V.mT, A - A.mean(0), 1e-8)
    with pytest.raises(ValueError, match="not greater than min"):
        flambeau.pca_lowrank(A, 11)


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (2, 3, 3), (4, 0)])
def test_low_rank_beyond_the_size(shape):
    """The rank asked for, 6 by default, may be more than a matrix has: then the decomposition is whole."""
    A = matrices(*shape)
    U, S, V = flambeau.svd_lowrank(A)
    assert S.shape[-1] == min(shape[-2:])
    close(U * S.unsqueeze(-2) @ V.mT, A, 1e-8)
    with pytest.raises(RuntimeError, match="must not be negative"):
        flambeau.svd_lowrank(A, -1)


@pytest.mark.parametrize(
    "function",
    [linalg.inv, linalg.det, linalg.cholesky, linalg.eigh, linalg.lu, linalg.svd, linalg.qr, linalg.pinv],
)
def test_errors_and_empty(function):
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        function(flambeau.ones(3))
    with pytest.raises(RuntimeError, match="Expected a floating point or complex tensor"):
        function(flambeau.ones(3, 3, dtype=flambeau.int64))
    with pytest.raises(RuntimeError, match="Low precision"):
        function(flambeau.ones(3, 3, dtype=flambeau.bfloat16))
    with pytest.raises(TypeError, match="must be Tensor"):
        function([[1.0]])
    found = function(flambeau.ones(0, 2, 2))
    assert (found if isinstance(found, flambeau.Tensor) else found[0]).shape[0] == 0
    function(flambeau.ones(0, 0))
    if function not in (linalg.svd, linalg.qr, linalg.lu, linalg.pinv):
        with pytest.raises(RuntimeError, match="batches of square matrices"):
            function(flambeau.ones(2, 3))


# --- complex matrices: their parts are what gradcheck varies -----------------------------------------------------------------
COMPLEX = {
    "inv": (linalg.inv, np.linalg.inv),
    "det": (linalg.det, np.linalg.det),
    "pinv": (linalg.pinv, np.linalg.pinv),
    "matrix_exp": (linalg.matrix_exp, scipy.linalg.expm),
    "solve": (lambda a: linalg.solve(a, a.mT), lambda a: np.linalg.solve(a, a.swapaxes(-1, -2))),
    "qr": (lambda a: linalg.qr(a).Q, lambda a: np.linalg.qr(a)[0]),
    "lu": (lambda a: linalg.lu(a).U, lambda a: np.stack([scipy.linalg.lu(m)[2] for m in a])),
    "sign": (lambda a: linalg.slogdet(a).sign, lambda a: np.linalg.slogdet(a)[0]),
    "cholesky": (
        lambda a: linalg.cholesky(a @ a.mH + flambeau.eye(3)),
        lambda a: np.linalg.cholesky(a @ a.conj().swapaxes(-1, -2) + np.eye(3)),
    ),
    "eigenvectors": (
        lambda a: linalg.eigh(a + a.mH).eigenvectors.abs(),
        lambda a: abs(np.linalg.eigh(a + a.conj().swapaxes(-1, -2))[1]),
    ),
    "left vectors": (lambda a: linalg.svd(a).U.abs(), lambda a: abs(np.linalg.svd(a)[0])),
    "right vectors": (lambda a: linalg.svd(a).Vh.abs(), lambda a: abs(np.linalg.svd(a)[2])),
    "eig": (lambda a: linalg.eig(a).eigenvectors.abs(), lambda a: abs(np.linalg.eig(a)[1])),
    "eigvals": (linalg.eigvals, np.linalg.eigvals),
    "nuclear norm": (lambda a: linalg.matrix_norm(a, "nuc"), lambda a: np.linalg.norm(a, "nuc", (-2, -1))),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_matrices(name):
    ours, theirs = COMPLEX[name]
    parts = matrices(2, 3, 3, 2, seed=4, requires_grad=True)
    A = flambeau.view_as_complex(parts)
    close(ours(A), theirs(A.detach().numpy()))

    def real_parts(p):
        found = ours(flambeau.view_as_complex(p))
        return flambeau.view_as_real(found) if found.is_complex() else found

    assert gradcheck(real_parts, [parts])


def test_eigenvalues_of_real_matrices_are_complex():
    A = matrices(2, 4, 4, requires_grad=True)
    L, V = linalg.eig(A)
    close(A.detach().to(V.dtype) @ V.detach(), V.detach() * L.detach().unsqueeze(-2))
    assert gradcheck(lambda a: flambeau.view_as_real(linalg.eigvals(a)), [A])
    assert gradcheck(lambda a: linalg.eig(a).eigenvectors.abs(), [A])


# --- LAPACK itself: every type, sizes beyond one block, batches, what it refuses -----------------------------------------------
KINDS = {"float32": 2e-5, "float64": 1e-12, "complex64": 3e-5, "complex128": 1e-12}


def stack_of(*shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(shape)
    return (a + 1j * rng.standard_normal(shape) if dtype.startswith("c") else a).astype(dtype)


def holds_up(found, expected, dtype):
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == np.dtype(dtype)
    assert np.abs(found - expected).max() <= KINDS[dtype] * 10 * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shape", [(70, 70), (3, 40, 33), (2, 33, 40), (150, 9), (9, 150)])
def test_decompositions_of_every_type(shape, dtype):
    a = stack_of(*shape, dtype=dtype)
    A, (m, n) = flambeau.tensor(a), shape[-2:]
    for turned in (A, A.mT.contiguous().mT):  # rows, and columns, side by side
        for mode in ("reduced", "complete"):
            Q, R = linalg.qr(turned, mode)
            holds_up(Q @ R, a, dtype)
            holds_up(Q.mH @ Q, np.eye(Q.shape[-1]), dtype)
            assert Q.shape[-1] == R.shape[-2] == (m if mode == "complete" else min(m, n))
        close(
            linalg.qr(turned, "r").R,
            R[..., : min(m, n), :],
            1e-3 if "32" in dtype or dtype == "complex64" else 1e-9,
        )
        for full in (False, True):
            U, S, Vh = linalg.svd(turned, full)
            k = min(m, n)
            holds_up((U[..., :k] * S.unsqueeze(-2)) @ Vh[..., :k, :], a, dtype)
            holds_up(U.mH @ U, np.eye(U.shape[-1]), dtype)
            holds_up(Vh @ Vh.mH, np.eye(Vh.shape[-2]), dtype)
        holds_up(linalg.svdvals(turned) + 0 * turned[..., 0, 0].unsqueeze(-1), S, dtype)
        P, L, U = linalg.lu(turned)
        holds_up(P @ L @ U, a, dtype)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
@pytest.mark.parametrize("n", [1, 5, 32, 70])
def test_square_matrices_of_every_type(n, batch, dtype):
    a = stack_of(*batch, n, n, dtype=dtype) + 2 * n**0.5 * np.eye(n, dtype=dtype)
    b = stack_of(*batch, n, 4, dtype=dtype, seed=1)
    A, B = flambeau.tensor(a), flambeau.tensor(b)
    wide = a.astype("c16")
    for turned in (A, A.mT.contiguous().mT):
        holds_up(linalg.inv(turned), np.linalg.inv(wide), dtype)
        holds_up(linalg.solve(turned, B), np.linalg.solve(wide, b), dtype)
        holds_up(linalg.solve(turned.mT, B.mT, left=False).mT, linalg.solve(turned, B), dtype)
        unit = 0.5 / n**0.5  # determinants that float32 can hold
        determinant = linalg.det(turned * unit)
        ratio = determinant.numpy() / np.linalg.det((wide if dtype[0] == "c" else a.astype("d")) * unit)
        holds_up(np.asarray(ratio, dtype), np.ones(batch), dtype)
        sign, logarithm = linalg.slogdet(turned * unit)
        holds_up(sign * logarithm.exp() / determinant, np.ones(batch), dtype)
        L, V = linalg.eig(turned)
        holds_up(turned.to(V.dtype) @ V, V * L.unsqueeze(-2), str(V.dtype).rpartition(".")[2])
    hermitian = a @ a.conj().swapaxes(-1, -2)
    H = flambeau.tensor(hermitian)
    for triangle, given in (("L", H.tril()), ("U", H.triu())):  # the other one is not read
        L, V = linalg.eigh(given, triangle)
        scale = float(np.abs(hermitian).max())
        holds_up((V * L.unsqueeze(-2).to(V.dtype)) @ V.mH / scale, hermitian / scale, dtype)
        close(
            linalg.eigvalsh(given, triangle), L, 1e-3 * scale if dtype in ("float32", "complex64") else 1e-8
        )
    for upper, given in ((False, H.tril()), (True, H.triu())):
        L = linalg.cholesky(given, upper=upper)
        holds_up((L.mH @ L if upper else L @ L.mH) / scale, hermitian / scale, dtype)
        assert flambeau.equal(L, L.triu() if upper else L.tril())


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("columns", [1, 127, 300])
def test_right_sides_in_parts(columns, dtype):
    """Wide right sides are shared between threads, and nothing of the result tells of it."""
    a = stack_of(2, 130, 130, dtype=dtype) + 30 * np.eye(130, dtype=dtype)
    b = stack_of(2, 130, columns, dtype=dtype, seed=1)
    A, B, before = flambeau.tensor(a), flambeau.tensor(b), flambeau.get_num_threads()
    found = []
    for threads in (1, 3):
        flambeau.set_num_threads(threads)
        found.append([linalg.solve(A, B), *(linalg.solve_triangular(A, B, upper=u) for u in (False, True))])
        found[-1] += [linalg.solve_triangular(A.mT, B, upper=u) for u in (False, True)]
    flambeau.set_num_threads(before)
    for x, y in zip(*found):
        assert x.numpy().tobytes() == y.numpy().tobytes()
    turned = a.swapaxes(-1, -2)
    for x, matrix in zip(found[0], (a, np.tril(a), np.triu(a), np.tril(turned), np.triu(turned))):
        holds_up(matrix @ x.numpy() / 30, b / 30, dtype)


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd"])
@pytest.mark.parametrize("shape", [(40, 40), (60, 7), (7, 60), (3, 20, 5)])
def test_least_squares_of_full_and_lower_rank(shape, driver):
    """A matrix of full rank is solved by QR, one of lower rank or unclear rank by its singular values: alike."""
    a, b = stack_of(*shape, dtype="float64"), stack_of(*shape[:-1], 2, dtype="float64", seed=1)
    B = flambeau.tensor(b)
    close(linalg.lstsq(flambeau.tensor(a), B, driver=driver).solution, np.linalg.pinv(a) @ b, 1e-9)
    if driver != "gels":
        a[..., 1] = a[..., 0]
        found = linalg.lstsq(flambeau.tensor(a), B, driver=driver)
        close(found.solution, np.linalg.pinv(a) @ b, 1e-9)
        assert (found.rank == np.linalg.matrix_rank(a)).all()
        coarse = linalg.lstsq(flambeau.tensor(a), B, 0.5, driver=driver)
        close(coarse.solution, np.linalg.pinv(a, rcond=0.5) @ b, 1e-9)


def test_one_matrix_for_many_right_sides():
    A, B = matrices(40, 40, requires_grad=True), matrices(5, 2, 40, 3, seed=1)
    close(linalg.solve(A, B), np.linalg.solve(A.detach().numpy(), B.numpy()))
    close(linalg.solve_ex(A.detach(), B).info, np.zeros((5, 2)))
    linalg.solve(A, B).sum().backward()
    assert A.grad.shape == (40, 40)


def test_what_fails_is_named():
    good, bad = flambeau.eye(3), flambeau.zeros(3, 3)
    with pytest.raises(
        linalg.LinAlgError, match=r"linalg.inv: \(Batch element 1\): The diagonal element 1 is zero"
    ):
        linalg.inv(flambeau.stack([good, bad]))
    with pytest.raises(linalg.LinAlgError, match=r"linalg.solve: The solver failed"):
        linalg.solve(bad, flambeau.ones(3))
    Y, info = linalg.inv_ex(flambeau.stack([good, bad]))
    assert info.tolist() == [0, 1] and flambeau.equal(Y[0], good) and Y[1].isnan().all()
    assert linalg.solve_ex(bad, flambeau.ones(3)).info.item() == 1
    with pytest.raises(linalg.LinAlgError, match="U.1,1. is zero"):
        linalg.lu_factor(bad)
    for size in (3, 40):
        for value in ("nan", "inf"):
            nan = flambeau.full((size, size), float(value))
            for function in (linalg.svd, linalg.svdvals, linalg.eigh, linalg.eigvalsh, linalg.cholesky):
                with pytest.raises(linalg.LinAlgError, match="non-finite|not positive"):
                    function(nan)
            half = flambeau.eye(size).masked_fill(flambeau.ones(size, size).triu(1) > 0, float(value))
            assert linalg.eigvalsh(half).tolist() == [1.0] * size  # the other triangle is not read
            assert linalg.eigh(half.mT, "U").eigenvalues.tolist() == [1.0] * size
    for function in (linalg.inv, linalg.det, linalg.matrix_exp):
        assert function(nan).isnan().all()
    with pytest.raises(RuntimeError, match="infs or NaNs"):
        linalg.eig(nan)


@pytest.mark.parametrize(
    "function", [linalg.inv, linalg.svd, linalg.qr, linalg.eigh, linalg.cholesky, linalg.matrix_exp]
)
def test_bits_of_decompositions_do_not_depend_on_threads(function):
    a, before = matrices(9, 48, 48, positive=True).float(), flambeau.get_num_threads()
    found = []
    for threads in (1, 3):
        flambeau.set_num_threads(threads)
        one = function(a)
        found.append([x.numpy().tobytes() for x in (one if isinstance(one, tuple) else (one,))])
    flambeau.set_num_threads(before)
    assert found[0] == found[1]


# --- the exponential ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("degree, name", [(4, "_degree4"), (8, "_degree8"), (18, "_degree18")])
def test_taylor_polynomials(degree, name):
    """On a nilpotent matrix a polynomial shows its coefficients: those of the exponential."""
    from flambeau.operations.linalg import exponential

    shift = flambeau.ones(degree, dtype=flambeau.float64).diag(1)
    row = getattr(exponential, name)(shift)[0]
    close(row, 1.0 / scipy.special.factorial(np.arange(degree + 1)), 3e-15)


@pytest.mark.parametrize("dtype", KINDS)
def test_matrix_exp_of_every_norm(dtype):
    """Matrices of one batch that go different ways: degrees, halvings."""
    a = (
        stack_of(6, 7, 7, dtype=dtype)
        * np.array([0.0, 1e-5, 3e-3, 0.05, 0.3, 3.0]).astype(dtype)[:, None, None]
    )
    for one, whole in zip(linalg.matrix_exp(flambeau.tensor(a)), scipy.linalg.expm(a.astype("c16"))):
        scale = np.abs(whole).max()
        holds_up(one / scale, whole / scale, dtype)
    assert linalg.matrix_exp(flambeau.zeros(0, 3, 3)).shape == (0, 3, 3)
    assert flambeau.equal(linalg.matrix_exp(flambeau.zeros(3, 3)), flambeau.eye(3))


def test_old_solvers_want_one_dtype():
    b, factor = flambeau.ones(2, 1), flambeau.eye(2, dtype=flambeau.float64)
    for solve in (flambeau.cholesky_solve, flambeau.triangular_solve):
        with pytest.raises(
            RuntimeError, match="to have the same dtype, but found b of type flambeau.float32"
        ):
            solve(b, factor)


class Names(TorchDispatchMode):
    """The operations that the lower level sees."""

    def __init__(self):
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_verdicts_are_asked_for_by_an_operation_that_modes_see():
    a = matrices(3, 3, positive=True)
    for call in (linalg.inv, linalg.cholesky, linalg.lu_factor, lambda a: linalg.solve(a, a)):
        with Names() as seen:
            call(a)
        assert seen.names.count("linalg_check_errors") == 1
    with Names(), pytest.raises(linalg.LinAlgError, match=r"^linalg.inv: \(Batch element 1\): The diagonal"):
        linalg.inv(flambeau.stack([a, a * 0]))


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd"])
@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (4, 4), (2, 6, 3)])
def test_gradients_of_least_squares(shape, driver):
    """Of solutions and residuals, at first and second order, whichever way they are computed."""

    def both(a, b):
        found = linalg.lstsq(a, b, driver=driver)
        return (found.solution, found.residuals) if found.residuals.numel() else found.solution

    a, b = matrices(*shape, requires_grad=True), matrices(*shape[:-1], 2, seed=1, requires_grad=True)
    assert gradcheck(both, (a, b)) and gradgradcheck(both, (a, b))
    assert linalg.lstsq(a, b, driver=driver).solution.grad_fn.name() == "LinalgLstsqBackward0"


def test_singular_values_save_the_matrix_alone():
    a = matrices(5, 3, requires_grad=True)
    saved = []
    with flambeau.autograd.graph.saved_tensors_hooks(lambda t: (saved.append(t), t)[1], lambda t: t):
        linalg.svdvals(a)
        linalg.eigvalsh(a.mT @ a)
    assert [tuple(t.shape) for t in saved if t.shape != a.mT.shape] == [(5, 3), (5, 3), (3, 3)]


def test_slices_share_a_factor():
    """A solver whose matrix is that of all slices, forward and backward."""
    a, b = matrices(3, 3, positive=True), matrices(4, 3, 2, seed=1)
    factor = linalg.cholesky(a)
    for solve in (lambda x: flambeau.cholesky_solve(x, factor), lambda x: linalg.solve(a, x)):
        close(flambeau.vmap(solve)(b), flambeau.stack([solve(x) for x in b]))
        close(flambeau.func.jacrev(solve)(b[0]), flambeau.func.jacfwd(solve)(b[0]))
