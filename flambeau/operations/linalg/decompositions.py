"""Decompositions of matrices by LAPACK: QR, LU, eigenvalues, singular values.  Conventions are those of `lapack.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.base.dtypes import by_name, dtype
from ...core.base.tensor import TensorBase
from ...core.lib import linalg as core
from ...core.lib.linalg import small
from ...core.lib.products.products import matmul
from ..declare import checks, host
from ..declare.host import Result, holds
from ..declare.registry import leaf, library
from ..declare.results import accepts_out, into, named_result
from ..moving.joining import cat
from ..moving.viewing import real
from ..on_device import matrices, rotations
from ..pointwise.arithmetic import where
from ..pointwise.complex_numbers import complex_of, conj
from .lapack import (
    INT32,
    LinAlgError,
    _solve,
    by_matrix,
    checked,
    computed,
    diagonal,
    diagonal_matrix,
    fresh,
    identity,
    linalg_check_errors,
    linalg_solve_triangular,
    real_dtype,
    refuse,
    same_batch,
    solve_triangular,
)

qr_result = named_result("linalg_qr", "Q", "R")
geqrf_result = named_result("geqrf", "a", "tau")
eigh_result = named_result("linalg_eigh", "eigenvalues", "eigenvectors")
eig_result = named_result("linalg_eig", "eigenvalues", "eigenvectors")
svd_result = named_result("linalg_svd", "U", "S", "Vh")
lu_result = named_result("linalg_lu", "P", "L", "U")
lu_factor_result = named_result("linalg_lu_factor", "LU", "pivots")
lu_factor_ex_result = named_result("linalg_lu_factor_ex", "LU", "pivots", "info")
ldl_factor_result = named_result("linalg_ldl_factor", "LD", "pivots")
ldl_factor_ex_result = named_result("linalg_ldl_factor_ex", "LD", "pivots", "info")


# --- QR -------------------------------------------------------------------------------------------------------------------
@library("lapack", "linalg.qr", autocast=("float32", "fallthrough"), composite=True, gives=qr_result)
@accepts_out
def qr(A: TensorBase, mode: str = "reduced") -> tuple:
    """Q with orthonormal columns and upper triangular R with A = Q R, as a named tuple.

    `mode` "reduced": Q is m by min(m, n); "complete": m by m; "r": R alone, Q is empty.

    Shape:
        A: (*, m, n); Q: (*, m, k), R: (*, k, n), k = min(m, n), or m for "complete"

    Raises:
        RuntimeError: there are fewer than two dimensions
        RuntimeError: `mode` is none of the three

    >>> import flambeau
    >>> Q, R = flambeau.linalg.qr(flambeau.tensor([[3.0, 1.0], [4.0, 2.0]]))
    >>> flambeau.allclose(Q @ R, flambeau.tensor([[3.0, 1.0], [4.0, 2.0]]), atol=1e-6)
    True
    >>> abs(R[0, 0].item()), R[1, 0].item()
    (5.0, 0.0)
    """
    checked("linalg.qr", A, square=False)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    return qr_result(*linalg_qr(A, mode))


@leaf("lapack", results=("Q", "R"))
def linalg_qr(A: TensorBase, mode: str) -> tuple[TensorBase, TensorBase]:
    """Q and R of a checked mode."""
    *batch, m, n = A.shape
    k = m if mode == "complete" else min(m, n)
    rules = [Result((0,) if mode == "r" else (*batch, m, k), A.dtype), Result((*batch, k, n), A.dtype)]
    by = lambda a: matrices.orthogonal(a, k, mode != "r")
    return computed(rules, lambda a: _orthogonal(a, k, mode != "r"), A, on_device=by)


def _orthogonal(a: TensorBase, k: int, wanted: bool) -> tuple[TensorBase, TensorBase]:
    """Q with k columns (nothing unless `wanted`), and R."""
    m, n = a.shape[-2:]
    columns = fresh(a.mT)
    blocks = core.reflections.qr(columns)
    rows = columns.mT
    R = rows.narrow(-2, 0, min(k, m)).triu().contiguous()
    if not wanted:
        return a.new_empty(0), R
    if k != n:
        space = a.new_empty((*a.shape[:-2], k, m))
        space.narrow(-2, 0, min(k, n)).copy_(columns.narrow(-2, 0, min(k, n)))
        columns = space
    core.reflections.q(columns, blocks)
    return columns.mT.contiguous(), R


@leaf("lapack", results=("R", "C"), batching="batches")
def linalg_reflected(A: TensorBase, B: TensorBase) -> tuple[TensorBase, TensorBase]:
    """R and Qᴴ B for A = Q R (*, m, n) with m >= n and B (*, m, k); on the CPU, Q is not formed."""
    n = A.shape[-1]
    rules = [Result((*A.shape[:-2], n, n), A.dtype), Result((*A.shape[:-2], n, B.shape[-1]), A.dtype)]

    def by_host(a: TensorBase, b: TensorBase) -> tuple:
        columns, right = fresh(a.mT), fresh(b.mT)
        core.reflections.multiply_adjoint(columns, core.reflections.qr(columns), right)
        return columns.mT.narrow(-2, 0, n).triu().contiguous(), right.mT.narrow(-2, 0, n).contiguous()

    def on_device(a: TensorBase, b: TensorBase) -> tuple:
        Q, R = linalg_qr(a, "reduced")
        return R, matmul(Q.mH, b)

    return computed(rules, by_host, A, B, on_device=on_device)


@linalg_reflected.derivative
def _reflected_gradient(grads: tuple, A: TensorBase, B: TensorBase) -> tuple:
    """Through Q, which is formed for it."""
    to_R, to_C = grads
    Q, R = linalg_qr(A, "reduced")
    if to_C is None:
        return _square_qr_gradient(None, to_R, Q, R), None
    return _square_qr_gradient(matmul(B, to_C.mH), to_R, Q, R), matmul(Q, to_C)


@linalg_qr.derivative
def _qr_gradient(grads: tuple, Q: TensorBase, R: TensorBase, mode: str) -> tuple:
    """S. Walter and L. Lehmann, "Algorithmic differentiation of linear algebra functions" (2010)."""
    to_Q, to_R = grads
    if mode == "r":
        raise RuntimeError(
            "linalg_qr_backward: The derivative of linalg.qr depends on Q, which mode='r' does not compute"
        )
    m, n = Q.shape[-2], R.shape[-1]
    if mode == "complete" and m > n:
        raise RuntimeError(
            "linalg_qr_backward: The QR decomposition is not differentiable when mode='complete' and nrows > ncols"
        )
    k = R.shape[-2]
    if n == k:
        return (_square_qr_gradient(to_Q, to_R, Q, R),)
    rest = None
    if to_R is not None:
        head, tail = to_R.narrow(-1, 0, k), to_R.narrow(-1, k, n - k)
        rest = matmul(Q, tail)
        more = matmul(matmul(Q, R.narrow(-1, k, n - k)), tail.mH)
        to_Q, to_R = more if to_Q is None else to_Q + more, head
    first = _square_qr_gradient(to_Q, to_R, Q, R.narrow(-1, 0, k))
    if rest is None:
        rest = first.new_zeros((*first.shape[:-1], n - k))
    return (cat([first, rest], -1),)


def _square_qr_gradient(to_Q: Any, to_R: Any, Q: TensorBase, R: TensorBase) -> TensorBase:
    """(∂Q + Q herm(∂R Rᴴ - Qᴴ ∂Q)) R⁻ᴴ, where herm mirrors an upper triangle."""
    inner = 0.0 if to_R is None else matmul(to_R, R.mH)
    if to_Q is not None:
        inner = inner - matmul(Q.mH, to_Q)
    upper = inner.triu()
    both = upper + upper.mH
    both = both - diagonal_matrix(real(diagonal(upper)).to(both.dtype))
    whole = matmul(Q, both) if to_Q is None else matmul(Q, both) + to_Q
    return linalg_solve_triangular(R, whole.mH, True, False).mH


@leaf(
    "lapack",
    "geqrf",
    "Tensor.geqrf",
    results=("a", "tau"),
    underived=True,
    differentiable=False,
    autocast=("float32", "fallthrough"),
    gives=geqrf_result,
)
@accepts_out
def geqrf(input: TensorBase) -> tuple:
    """QR decomposition in LAPACK's compact form: `a` holds R and, below its diagonal, the vectors of the reflections whose
    scales are `tau`; `linalg.householder_product` makes Q of both.

    Shape:
        input: (*, m, n); a: (*, m, n), tau: (*, min(m, n))

    Raises:
        RuntimeError: there are fewer than two dimensions

    >>> import flambeau
    >>> a, tau = flambeau.geqrf(flambeau.tensor([[3.0, 1.0], [4.0, 2.0]]))
    >>> (flambeau.linalg.householder_product(a, tau) @ a.triu()).round(decimals=3)
    tensor([[3., 1.],
            [4., 2.]])
    """
    checked("geqrf", input, "input", square=False)
    *batch, m, n = input.shape
    rules = [Result((*batch, m, n), input.dtype), Result((*batch, min(m, n)), input.dtype)]

    def factor(x: TensorBase) -> tuple:
        columns = fresh(x.mT)
        blocks = core.reflections.qr(columns)
        return columns.mT.contiguous(), core.reflections.scales(blocks)

    return geqrf_result(*computed(rules, factor, input, on_device=matrices.qr))


# --- LU -------------------------------------------------------------------------------------------------------------------
@leaf("lapack", results=("LU", "pivots", "info"))
def linalg_lu_factor_ex(A: TensorBase) -> tuple[TensorBase, TensorBase, TensorBase]:
    """L and U in one matrix, the rows exchanged at each step (from 1, int32), and 0 or the first zero pivot's number."""
    *batch, m, n = A.shape
    k = min(m, n)
    rules = [Result(A.shape, A.dtype), Result((*batch, k), INT32), Result(batch, INT32)]

    def factor(a: TensorBase) -> tuple:
        if m == n and small.takes(a):
            return small.lu(a)
        rows = fresh(a)
        return rows, *core.factors.lu(rows)

    return computed(rules, factor, A, on_device=matrices.lu)


def _order(pivots: TensorBase, m: int) -> TensorBase:
    """Which row of the matrix stands at each place after the exchanges."""

    def walk(steps: Any) -> Any:
        import numpy as np

        result = np.broadcast_to(np.arange(m), (*steps.shape[:-1], m)).copy()
        for place in np.ndindex(steps.shape[:-1]):
            for k, other in enumerate(steps[place]):
                result[place][[k, other - 1]] = result[place][[other - 1, k]]
        return result

    if not (pivots.is_cpu or pivots.is_meta):
        return matrices.row_order(pivots, m)
    return host.computed(Result((*pivots.shape[:-1], m), by_name["int64"]), walk, pivots)


@leaf("lapack")
def linalg_lu_permutation(pivots: TensorBase, m: int, dtype: dtype) -> TensorBase:
    """P with A = P L U; RuntimeError for pivots that name no row."""
    if not holds((pivots >= 1) & (pivots <= m)):
        raise RuntimeError(
            f"linalg.lu: pivots must be between 1 and {m}, the number of rows: are they those of lu_factor?"
        )
    return identity(m, pivots.new_empty(0, dtype=dtype))[_order(pivots, m)].mT.contiguous()


def _triangles(LU: TensorBase) -> tuple[TensorBase, TensorBase]:
    """L, with ones on its diagonal, and U."""
    m, n = LU.shape[-2:]
    k = min(m, n)
    L, U = LU.narrow(-1, 0, k).tril(-1), LU.narrow(-2, 0, k).triu()
    return L + diagonal_matrix(LU.new_ones((*LU.shape[:-2], k))) if m == k else _with_ones(L, k), U


def _with_ones(L: TensorBase, k: int) -> TensorBase:
    top = L.narrow(-2, 0, k) + diagonal_matrix(L.new_ones((*L.shape[:-2], k)))
    return cat([top, L.narrow(-2, k, L.shape[-2] - k)], -2)


@linalg_lu_factor_ex.derivative
def _lu_factor_gradient(grad: TensorBase, LU: TensorBase, pivots: TensorBase) -> tuple:
    L, U = _triangles(LU)
    k = min(LU.shape[-2:])
    parts = grad.narrow(-1, 0, k).tril(-1), grad.narrow(-2, 0, k).triu()
    P = linalg_lu_permutation(pivots, LU.shape[-2], LU.dtype)
    return (matmul(P, _lu_gradient(parts[0], parts[1], L, U)),)


def _lu_gradient(to_L: TensorBase, to_U: TensorBase, L: TensorBase, U: TensorBase) -> TensorBase:
    """The gradient of Pᵀ A: L⁻ᴴ (tril(Lᴴ ∂L, -1) + triu(∂U Uᴴ)) U⁻ᴴ of a square matrix.

    Of a wide one, U = [U₁ U₂] with U₂ = L⁻¹ Pᵀ A₂; of a tall one, L = [L₁; L₂] with L₂ = (Pᵀ A)₂ U⁻¹.
    """
    m, k, n = L.shape[-2], L.shape[-1], U.shape[-1]
    L1, U1 = L.narrow(-2, 0, k), U.narrow(-1, 0, k)
    to_L1, to_U1 = to_L.narrow(-2, 0, k), to_U.narrow(-1, 0, k)
    lower, upper = matmul(L1.mH, to_L1), matmul(to_U1, U1.mH)
    if n > k:
        to_U2 = to_U.narrow(-1, k, n - k)
        lower = lower - matmul(to_U2, U.narrow(-1, k, n - k).mH)
    if m > k:
        to_L2 = to_L.narrow(-2, k, m - k)
        upper = upper - matmul(L.narrow(-2, k, m - k).mH, to_L2)
    inner = lower.tril(-1) + upper.triu()
    inner = linalg_solve_triangular(U1, inner.mH, True, False).mH
    if n > k:
        inner = cat([inner, to_U2], -1)
    result = linalg_solve_triangular(L1.mH, inner, True, True)
    return cat([result, linalg_solve_triangular(U1, to_L2.mH, True, False).mH], -2) if m > k else result


def _needs_pivot(who: str, pivot: bool) -> None:
    if not pivot:
        raise RuntimeError(f"{who}: LU without pivoting is not implemented on the CPU")


@library("lapack", "linalg.lu_factor_ex", composite=True, gives=lu_factor_ex_result)
@accepts_out
def lu_factor_ex(A: TensorBase, *, pivot: bool = True, check_errors: bool = False) -> tuple:
    """`lu_factor`, A = P L U, and for each matrix 0 or the number of the first pivot that is 0.

    Shape:
        A: (*, m, n); LU: (*, m, n), pivots: (*, min(m, n)), info: (*)

    Raises:
        RuntimeError: there are fewer than two dimensions

    >>> import flambeau
    >>> flambeau.linalg.lu_factor_ex(flambeau.tensor([[4.0, 2.0], [2.0, 4.0]])).LU
    tensor([[4.0000, 2.0000],
            [0.5000, 3.0000]])
    """
    _needs_pivot("linalg.lu_factor", pivot)
    checked("linalg.lu_factor", A, square=False)
    LU, pivots, info = linalg_lu_factor_ex(A)
    if check_errors:
        linalg_check_errors(info, "linalg.lu_factor", _ZERO_PIVOT)
    return lu_factor_ex_result(LU, pivots, info)


_ZERO_PIVOT = "U[{0},{0}] is zero and using it on lu_solve would result in a division by zero."


@library("lapack", "linalg.lu_factor", composite=True, gives=lu_factor_result)
@accepts_out
def lu_factor(A: TensorBase, *, pivot: bool = True) -> tuple:
    """L and U with A = P L U in one matrix, and with which row each was exchanged (from 1).  LinAlgError
    where a pivot is 0.

    LinAlgError where a pivot is 0.

    Shape:
        A: (*, m, n); LU: (*, m, n), pivots: (*, min(m, n))

    Raises:
        RuntimeError: there are fewer than two dimensions
        LinAlgError: a pivot is 0

    >>> import flambeau
    >>> flambeau.linalg.lu_factor(flambeau.tensor([[2.0, 4.0], [4.0, 2.0]]))
    flambeau.return_types.linalg_lu_factor(
    LU=tensor([[4.0000, 2.0000],
            [0.5000, 3.0000]]),
    pivots=tensor([2, 2], dtype=flambeau.int32))
    """
    LU, pivots, _ = lu_factor_ex(A, pivot=pivot, check_errors=True)
    return lu_factor_result(LU, pivots)


@library("lapack", "linalg.lu", composite=True, gives=lu_result)
@accepts_out
def lu(A: TensorBase, *, pivot: bool = True) -> tuple:
    """Permutation P, lower triangular L with ones on its diagonal, and upper triangular U with A = P L U.

    Shape:
        A: (*, m, n); P: (*, m, m), L: (*, m, k), U: (*, k, n), k = min(m, n)

    Raises:
        RuntimeError: there are fewer than two dimensions

    >>> import flambeau
    >>> P, L, U = flambeau.linalg.lu(flambeau.tensor([[2.0, 4.0], [4.0, 2.0]]))
    >>> P @ L @ U
    tensor([[2., 4.],
            [4., 2.]])
    """
    _needs_pivot("linalg.lu", pivot)
    checked("linalg.lu", A, square=False)
    LU, pivots, _ = linalg_lu_factor_ex(A)
    return lu_result(linalg_lu_permutation(pivots, A.shape[-2], A.dtype), *_triangles(LU))


@library(
    "lapack", "linalg.lu_solve", autocast=("float32", "fallthrough"), batching="solving LU", composite=True
)
def lu_solve(
    LU: TensorBase,
    pivots: TensorBase,
    B: TensorBase,
    *,
    left: bool = True,
    adjoint: bool = False,
    out: TensorBase | None = None,
) -> TensorBase:
    """X with A X = B (X A = B unless `left`; Aᴴ for A where `adjoint`) for A as `lu_factor` gave it.

    Shape:
        LU: (*, n, n); pivots: (*, n); B: (*, n, k); result: (*, n, k)

    Raises:
        RuntimeError: the sizes do not fit

    >>> import flambeau
    >>> LU, pivots = flambeau.linalg.lu_factor(flambeau.tensor([[2.0, 0.0], [0.0, 4.0]]))
    >>> flambeau.linalg.lu_solve(LU, pivots, flambeau.tensor([[2.0], [2.0]]))
    tensor([[1.0000],
            [0.5000]])
    """
    checked("linalg.lu_solve", LU)
    checked("linalg.lu_solve", B, "B", square=False)
    checks.dtypes("linalg.lu_solve", ("int32",), RuntimeError, pivots=pivots)
    if tuple(pivots.shape) != tuple(LU.shape[:-1]):
        raise RuntimeError(
            "linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix; got "
            f"{list(pivots.shape)} for {list(LU.shape)}"
        )
    if not left:
        return into(out, lu_solve(LU, pivots, B.mH, adjoint=not adjoint).mH, "linalg.lu_solve")
    P = linalg_lu_permutation(pivots, LU.shape[-1], LU.dtype)
    if adjoint:
        result = matmul(P, _upper_lower(LU.mH, B, unit_upper=True))
    else:
        half = solve_triangular(LU, matmul(P.mT, B), upper=False, unitriangular=True)
        result = solve_triangular(LU, half, upper=True)
    return into(out, result, "linalg.lu_solve")


def _upper_lower(M: TensorBase, B: TensorBase, unit_upper: bool) -> TensorBase:
    """X with Uᴴ Lᴴ X = B, both in one matrix M."""
    half = solve_triangular(M, B, upper=False)
    return solve_triangular(M, half, upper=True, unitriangular=unit_upper)


# --- eigenvalues ----------------------------------------------------------------------------------------------------------
def _check_triangle(who: str, UPLO: str) -> str:
    if not isinstance(UPLO, str) or UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return UPLO.upper()


@library("lapack", "linalg.eigh", autocast=("float32", "fallthrough"), composite=True, gives=eigh_result)
@accepts_out
def eigh(A: TensorBase, UPLO: str = "L") -> tuple:
    """Eigenvalues (real, ascending) and orthonormal eigenvectors of Hermitian matrices, of which one triangle is read.

    A = V · diag(λ) · Vᴴ.

    Gradients of the eigenvectors need distinct eigenvalues.

    >>> import flambeau
    >>> flambeau.linalg.eigh(flambeau.tensor([[2., 0.], [0., 1.]])).eigenvalues
    tensor([1., 2.])
    """
    checked("linalg.eigh", A)
    triangle = _check_triangle("linalg.eigh", UPLO)
    return eigh_result(*linalg_eigh(A, triangle == "L"))


@leaf("lapack", results=("L", "V"))
def linalg_eigh(A: TensorBase, lower: bool) -> tuple[TensorBase, TensorBase]:
    """Eigenvalues and eigenvectors."""
    rules = [Result(A.shape[:-1], real_dtype(A)), Result(A.shape, A.dtype)]
    by = lambda a: _rotated("linalg.eigh", rotations.hermitian, a, lower)
    return computed(rules, lambda a: _symmetric(a, lower, True), A, on_device=by)


@leaf("lapack", results=("L",), label="LinalgEighBackward0")
def linalg_eigvalsh(A: TensorBase, lower: bool) -> TensorBase:
    """Eigenvalues alone, which take half the time; backward makes the eigenvectors."""
    by = lambda a: _rotated("linalg.eigh", rotations.hermitian, a, lower)[0]
    return computed(
        Result(A.shape[:-1], real_dtype(A)), lambda a: _symmetric(a, lower, False)[0], A, on_device=by
    )


@linalg_eigvalsh.derivative
def _eigvalsh_gradient(grad: TensorBase, A: TensorBase, lower: bool) -> tuple:
    return _eigh_gradient((grad, None), *linalg_eigh(A, lower))


def _rotated(who: str, function: Callable, a: TensorBase, *how: bool) -> tuple:
    """What Jacobi's rotations make on a device; LinAlgError as LAPACK has it where they do not end."""
    try:
        return function(a, *how)
    except rotations.NotConverged:
        raise LinAlgError(f"{who}: {_refused(-4)}") from None


def _symmetric(a: TensorBase, lower: bool, wanted: bool) -> tuple:
    """Eigenvalues, and eigenvectors where they are `wanted`."""
    rows = fresh(a)
    values, info = core.eigenvalues.eigh(rows, lower, wanted)
    refuse("linalg.eigh", info, _no_eigenvalues)
    if not wanted:
        return values, None
    return values, (conj(rows.mT) if a.is_complex() else rows.mT).contiguous()


@linalg_eigh.derivative
def _eigh_gradient(grads: tuple, L: TensorBase, V: TensorBase) -> tuple:
    """V (diag(∂L) + skew(Vᴴ ∂V) / E) Vᴴ with E_ij = L_j - L_i: Giles (2008), section 3.1, for Hermitian changes of A."""
    to_L, to_V = grads
    if to_V is None:
        return (matmul(V * to_L.unsqueeze(-2).to(V.dtype), V.mH),)
    product = matmul(V.mH, to_V)
    inner = (product - product.mH) * 0.5 / _differences(L)
    inner = inner - diagonal_matrix(diagonal(inner))
    if to_L is not None:
        inner = inner + diagonal_matrix(to_L.to(V.dtype))
    return (matmul(matmul(V, inner), V.mH),)


def _differences(L: TensorBase) -> TensorBase:
    """L_j - L_i, and 1 on the diagonal."""
    return L.unsqueeze(-2) - L.unsqueeze(-1) + identity(L.shape[-1], L)


@library("lapack", "linalg.eigvalsh", autocast=("float32", "fallthrough"), composite=True)
def eigvalsh(A: TensorBase, UPLO: str = "L", *, out: TensorBase | None = None) -> TensorBase:
    """λ with A v = λ v: eigenvalues (real, ascending) of Hermitian matrices.
    One triangle is read.

    Shape:
        A: (*, n, n); result: (*, n)

    Raises:
        RuntimeError: the matrices are not square

    >>> import flambeau
    >>> flambeau.linalg.eigvalsh(flambeau.tensor([[2.0, 1.0], [1.0, 2.0]]))
    tensor([1., 3.])
    """
    checked("linalg.eigvalsh", A)
    triangle = _check_triangle("linalg.eigvalsh", UPLO)
    return into(out, linalg_eigvalsh(A, triangle == "L"), "linalg.eigvalsh")


def _complex_of(A: TensorBase) -> dtype:
    return by_name["complex128" if A.dtype.name in ("float64", "complex128") else "complex64"]


@library("lapack", "linalg.eig", autocast=("float32", "fallthrough"), composite=True, gives=eig_result)
@accepts_out
def eig(A: TensorBase) -> tuple:
    """λ and v with A v = λ v: eigenvalues and eigenvectors (of norm 1) of square matrices.
    They are always complex, in no certain order.

    Gradients of the eigenvectors need distinct eigenvalues.

    Shape:
        A: (*, n, n); results: (*, n) and (*, n, n)

    Raises:
        RuntimeError: the matrices are not square

    >>> import flambeau
    >>> flambeau.linalg.eig(flambeau.tensor([[0.0, -1.0], [1.0, 0.0]])).eigenvalues
    tensor([0.+1.j, 0.-1.j])
    """
    checked("linalg.eig", A)
    return eig_result(*linalg_eig(A, not A.is_complex()))


@leaf(
    "lapack",
    results=("L", "V"),
    by_host="LAPACK reduces to Hessenberg form and iterates, a column after another",
)
def linalg_eig(A: TensorBase, real_input: bool) -> tuple[TensorBase, TensorBase]:
    """Eigenvalues and eigenvectors; RuntimeError where the matrices are not finite."""
    if not holds(A.isfinite()):
        raise RuntimeError("linalg.eig: input tensor should not contain infs or NaNs.")
    rules = [Result(A.shape[:-1], _complex_of(A)), Result(A.shape, _complex_of(A))]
    return computed(rules, _general, A)


def _general(a: TensorBase) -> tuple:
    values, imaginary, right, info = core.eigenvalues.eig(fresh(a.mT), True)
    refuse("linalg.eig", info, _no_eigenvalues)
    if imaginary is None:
        return values, right.mT.contiguous()
    # LAPACK gives a pair of conjugate vectors as two rows, the real part and the imaginary one.
    first = (imaginary > 0).unsqueeze(-1)
    second = (imaginary < 0).unsqueeze(-1)
    before, after = right.roll(1, -2), right.roll(-1, -2)
    parts = where(second, before, right), where(first, after, where(second, -right, 0.0))
    return complex_of(values, imaginary), complex_of(*parts).mT.contiguous()


@linalg_eig.derivative
def _eig_gradient(grads: tuple, L: TensorBase, V: TensorBase, real_input: bool) -> tuple:
    """V⁻ᴴ (diag(∂L) + (Vᴴ ∂V - Vᴴ V diag(Re(Vᴴ ∂V))) / E*) Vᴴ with E_ij = L_j - L_i.

    C. Boeddeker et al., "On the computation of complex-valued gradients" (2019), equation 4.77.
    """
    to_L, to_V = grads
    inner = None
    if to_V is not None:
        product = matmul(V.mH, to_V)
        lengths = real(diagonal(product)).to(V.dtype)
        inner = (product - matmul(V.mH, V) * lengths.unsqueeze(-2)) / conj(_differences(L))
        inner = inner - diagonal_matrix(diagonal(inner))
    if to_L is not None:
        inner = diagonal_matrix(to_L) if inner is None else inner + diagonal_matrix(to_L)
    result = _solve(V.mH, matmul(inner, V.mH))
    return (real(result) if real_input else result,)


@library("lapack", "linalg.eigvals", autocast=("float32", "fallthrough"), composite=True)
def eigvals(A: TensorBase, *, out: TensorBase | None = None) -> TensorBase:
    """λ with A v = λ v: eigenvalues of square matrices, always complex, in no certain order.

    Shape:
        A: (*, n, n); result: (*, n)

    Raises:
        RuntimeError: the matrices are not square

    >>> import flambeau
    >>> flambeau.linalg.eigvals(flambeau.tensor([[0.0, -1.0], [1.0, 0.0]]))
    tensor([0.+1.j, 0.-1.j])
    """
    checked("linalg.eigvals", A)
    return into(out, linalg_eig(A, not A.is_complex())[0], "linalg.eigvals")


# --- singular values ------------------------------------------------------------------------------------------------------
@library("lapack", "linalg.svd", autocast=("float32", "fallthrough"), composite=True, gives=svd_result)
@accepts_out
def svd(
    A: TensorBase,
    full_matrices: bool = True,
    *,
    driver: str | None = None,
) -> tuple:
    """U, S and Vh with A = U diag(S) Vh: orthonormal columns and rows, and singular values in descending order.

    U is m by m and Vh n by n, unless `full_matrices` is False: then they have min(m, n) columns and rows.  Gradients of U and
    Vh need distinct singular values.  RuntimeError for a `driver`, which only other devices know.

    >>> import flambeau
    >>> flambeau.linalg.svd(flambeau.tensor([[0., 2.], [1., 0.]])).S
    tensor([2., 1.])
    """
    checked("linalg.svd", A, square=False)
    if driver is not None:
        raise RuntimeError(
            "linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
        )
    return svd_result(*linalg_svd(A, full_matrices))


@leaf("lapack", results=("U", "S", "Vh"))
def linalg_svd(A: TensorBase, full_matrices: bool) -> tuple[TensorBase, TensorBase, TensorBase]:
    """U, S and Vh."""
    *batch, m, n = A.shape
    k = min(m, n)
    rules = [
        Result((*batch, m, m if full_matrices else k), A.dtype),
        Result((*batch, k), real_dtype(A)),
        Result((*batch, n if full_matrices else k, n), A.dtype),
    ]
    by = lambda a: _rotated("linalg.svd", rotations.singular, a, full_matrices, True)
    return computed(rules, lambda a: _singular(a, full_matrices, True), A, on_device=by)


@leaf("lapack", results=("S",), label="LinalgSvdBackward0")
def linalg_svdvals(A: TensorBase) -> TensorBase:
    """Singular values alone, which take half the time; backward makes the vectors."""
    rule = Result((*A.shape[:-2], min(A.shape[-2:])), real_dtype(A))
    by = lambda a: _rotated("linalg.svd", rotations.singular, a, False, False)[1]
    return computed(rule, lambda a: _singular(a, False, False)[1], A, on_device=by)


@linalg_svdvals.derivative
def _svdvals_gradient(grad: TensorBase, A: TensorBase) -> tuple:
    return _svd_gradient((None, grad, None), *linalg_svd(A, False))


def _singular(a: TensorBase, full: bool, wanted: bool) -> tuple:
    """U, S and Vh; S alone unless `wanted`."""
    m, n = a.shape[-2:]
    if not wanted and small.takes_rectangle(a):
        pairs, info = small.bidiagonal(a if m >= n else a.mT)
        core.eigenvalues.values_of_bidiagonals(pairs, info)
        refuse("linalg.svd", info, _not_converged)
        return None, pairs.select(-2, 0).to(a.dtype).contiguous(), None
    if max(m, n) >= 2 * min(m, n) and a.numel() and not (full and wanted):
        return _tall_singular(a, wanted) if m > n else _turned(_tall_singular(a.mT, wanted))
    # LAPACK sees rows as columns, and is slower where it sees more columns than rows.
    turned = m > n
    U, S, Vh, info = core.eigenvalues.svd(fresh(a.mT if turned else a), full, wanted)
    refuse("linalg.svd", info, _not_converged)
    if wanted and full and not a.numel():  # LAPACK was not called: the identity is a basis as good as any
        for basis in (U, Vh):
            basis.zero_().diagonal(0, -2, -1).fill_(1)
    return _turned((U, S, Vh)) if turned else (U, S, Vh)


def _turned(parts: tuple) -> tuple:
    """U, S and Vh of the transpose."""
    U, S, Vh = parts
    return (U, S, Vh) if U is None else (Vh.mT.contiguous(), S, U.mT.contiguous())


def _tall_singular(a: TensorBase, wanted: bool) -> tuple:
    """U, S and Vh of matrices with many more rows than columns, by those of R: T. Chan, "An improved algorithm for computing the
    singular value decomposition" (1982).
    """
    Q, R = _orthogonal(a, a.shape[-1], wanted)
    U, S, Vh, info = core.eigenvalues.svd(R, False, wanted)
    refuse("linalg.svd", info, _not_converged)
    return matmul(Q, U) if wanted else None, S, Vh


def _no_eigenvalues(code: int) -> str:
    if code < 0:
        return _refused(code)
    return (
        "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated eigenvalues "
        f"(error code: {code})."
    )


def _refused(code: int) -> str:
    """What LAPACK has against an argument: -4 stands for the elements, any other for work space beyond 32 bits."""
    if code == -4:
        return "The algorithm failed to converge because the input matrix contained non-finite values."
    return f"The matrix is too large for LAPACK (error code: {code})."


def _not_converged(code: int) -> str:
    if code < 0:
        return _refused(code)
    return (
        "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated singular values "
        f"(error code: {code})."
    )


@linalg_svd.derivative
def _svd_gradient(grads: tuple, U: TensorBase, S: TensorBase, Vh: TensorBase) -> tuple:
    """U [(skew(Uᴴ ∂U) / E) S + S (skew(Vᴴ ∂V) / E) + diag(∂S)] Vᴴ and what leaves the spaces of U and V.

    E_ij = S_j² - S_i²: J. Townsend, "Differentiating the singular value decomposition" (2016); for complex numbers
    Z.-Q. Wan and S.-X. Zhang, "Automatic differentiation for complex valued SVD" (2019).
    """
    to_U, to_S, to_Vh = grads
    m, n, k = U.shape[-2], Vh.shape[-1], S.shape[-1]
    if U.shape[-1] > k:
        U, to_U = U.narrow(-1, 0, k), None if to_U is None else to_U.narrow(-1, 0, k)
    if Vh.shape[-2] > k:
        Vh, to_Vh = Vh.narrow(-2, 0, k), None if to_Vh is None else to_Vh.narrow(-2, 0, k)
    if to_U is None and to_Vh is None:
        return (matmul(U * to_S.unsqueeze(-2).to(U.dtype), Vh),)
    squares = _differences(S * S)
    inner = 0.0 if to_S is None else diagonal_matrix(to_S.to(U.dtype))
    if to_U is not None:
        product = matmul(U.mH, to_U)
        turned = product - product.mH
        inner = inner + (turned / squares) * S.unsqueeze(-2)
        if U.is_complex():
            inner = inner + diagonal_matrix(diagonal(turned) / (2.0 * S))
    if to_Vh is not None:
        product = matmul(Vh, to_Vh.mH)
        inner = inner + S.unsqueeze(-1) * ((product - product.mH) / squares)
    result = matmul(matmul(U, inner), Vh)
    if m > k and to_U is not None:
        result = result + matmul((to_U - matmul(U, matmul(U.mH, to_U))) / S.unsqueeze(-2), Vh)
    if n > k and to_Vh is not None:
        result = result + matmul(U / S.unsqueeze(-2), to_Vh - matmul(matmul(to_Vh, Vh.mH), Vh))
    return (result,)


@library("lapack", "linalg.svdvals", autocast=("float32", "fallthrough"), composite=True)
def svdvals(A: TensorBase, *, driver: str | None = None, out: TensorBase | None = None) -> TensorBase:
    """The diagonal of S in A = U S Vᴴ: singular values in descending order.

    Shape:
        A: (*, m, n); result: (*, min(m, n))

    Raises:
        RuntimeError: there are fewer than two dimensions

    >>> import flambeau
    >>> flambeau.linalg.svdvals(flambeau.tensor([[0.0, 2.0], [1.0, 0.0]]))
    tensor([2., 1.])
    """
    checked("linalg.svdvals", A, square=False)
    return into(out, linalg_svdvals(A), "linalg.svdvals")


# --- symmetric indefinite matrices ----------------------------------------------------------------------------------------
_PIVOTED = "LAPACK chooses pivots of one or two rows by what it has computed"


@library("lapack", "linalg.ldl_factor_ex", differentiable=False, gives=ldl_factor_ex_result, by_host=_PIVOTED)
@accepts_out
def ldl_factor_ex(A: TensorBase, *, hermitian: bool = False, check_errors: bool = False) -> tuple:
    """Bunch-Kaufman decomposition A = L D Lᵀ (Lᴴ where `hermitian`) in LAPACK's compact form, and LAPACK's verdict.

    Shape:
        A: (*, n, n); LD: (*, n, n), pivots: (*, n), info: (*)

    Raises:
        RuntimeError: the matrices are not square

    >>> import flambeau
    >>> flambeau.linalg.ldl_factor_ex(flambeau.tensor([[4.0, 2.0], [2.0, 3.0]])).info
    tensor(0, dtype=flambeau.int32)
    """
    checked("linalg.ldl_factor_ex", A)
    name = "hetrf" if hermitian and A.is_complex() else "sytrf"
    rules = [Result(A.shape, A.dtype), Result(A.shape[:-1], INT32), Result(A.shape[:-2], INT32)]

    def factor_one(a: Any) -> Any:
        import numpy as np
        from scipy.linalg import get_lapack_funcs

        if not a.size:
            return a, np.zeros(0, "int32"), 0
        ld, pivots, info = get_lapack_funcs((name,), (a,))[0](a, lower=1)
        return np.tril(ld), pivots, info

    LD, pivots, info = host.computed(rules, by_matrix(rules, factor_one), A)
    if check_errors and not holds(info == 0):
        raise LinAlgError(f"linalg.ldl_factor_ex: D is singular: its element {int(info.max())} is zero")
    return ldl_factor_ex_result(LD, pivots, info)


@library("lapack", "linalg.ldl_factor", differentiable=False, gives=ldl_factor_result, by_host=_PIVOTED)
@accepts_out
def ldl_factor(A: TensorBase, *, hermitian: bool = False) -> tuple:
    """L and D with A = L D Lᵀ (Lᴴ where `hermitian`) in LAPACK's compact form.
    It is the Bunch-Kaufman decomposition of symmetric (or Hermitian) matrices.

    Shape:
        A: (*, n, n); LD: (*, n, n), pivots: (*, n)

    Raises:
        RuntimeError: the matrices are not square

    >>> import flambeau
    >>> flambeau.linalg.ldl_factor(flambeau.tensor([[4.0, 2.0], [2.0, 3.0]])).LD.diagonal()
    tensor([4., 2.])
    """
    return ldl_factor_result(*ldl_factor_ex(A, hermitian=hermitian, check_errors=True)[:2])


@library("lapack", "linalg.ldl_solve", differentiable=False, batching="solving LD", by_host=_PIVOTED)
@accepts_out
def ldl_solve(LD: TensorBase, pivots: TensorBase, B: TensorBase, *, hermitian: bool = False) -> TensorBase:
    """X with A X = B for A as `ldl_factor` gave it.

    Shape:
        LD: (*, n, n); pivots: (*, n); B: (*, n, k); result: (*, n, k)

    Raises:
        RuntimeError: the sizes do not fit

    >>> import flambeau
    >>> LD, pivots = flambeau.linalg.ldl_factor(flambeau.tensor([[2.0, 0.0], [0.0, 4.0]]))
    >>> flambeau.linalg.ldl_solve(LD, pivots, flambeau.tensor([[2.0], [2.0]]))
    tensor([[1.0000],
            [0.5000]])
    """
    checked("linalg.ldl_solve", LD)
    checked("linalg.ldl_solve", B, "B", square=False)
    n = LD.shape[-1]
    if B.shape[-2] != n:
        raise RuntimeError(
            f"linalg.ldl_solve(): LD of {n} by {n} matrices does not go with B of {B.shape[-2]} by {B.shape[-1]} matrices"
        )
    checks.dtypes("linalg.ldl_solve", checks.INTEGERS, RuntimeError, pivots=pivots)
    if tuple(pivots.shape) != tuple(LD.shape[:-1]):
        raise RuntimeError(
            f"linalg.ldl_solve(): expected pivots of shape {list(LD.shape[:-1])} for LD, got {list(pivots.shape)}"
        )
    if not holds((pivots != 0) & (pivots.abs() <= n)):
        raise RuntimeError(
            f"linalg.ldl_solve(): pivots must be of magnitudes from 1 to {n}: are they those of ldl_factor?"
        )
    LD, B = same_batch("linalg.ldl_solve", LD, B)
    name = "hetrs" if hermitian and LD.is_complex() else "sytrs"

    def solve_all(ld: Any, pivots: Any, b: Any) -> Any:
        import numpy as np
        from scipy.linalg import get_lapack_funcs

        result, steps = b.copy(), np.broadcast_to(pivots, ld.shape[:-1])
        if result.size:
            (solve_one,) = get_lapack_funcs((name,), dtype=ld.dtype)
            for place in np.ndindex(ld.shape[:-2]):
                result[place] = solve_one(ld[place], steps[place], b[place], lower=1)[0]
        return result

    return host.computed(Result(B.shape, B.dtype), solve_all, LD, pivots, B)
