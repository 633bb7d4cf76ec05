"""A few extreme eigenvalues of a large symmetric matrix, by SciPy's locally optimal block preconditioned conjugate gradients."""

from __future__ import annotations

import warnings
from typing import Any

from ...core.base.tensor import TensorBase
from ...core.base.typeinfo import finfo
from ...core.lib.products.products import matmul
from ..declare import checks
from ..declare.dtype_groups import WIDE
from ..declare.host import Result, computed
from ..declare.registry import leaf, library
from .decompositions import linalg_eigh
from .lapack import checked


@library("lapack", "lobpcg", batching="looped", composite=True, dtypes=WIDE)
def lobpcg(
    A: TensorBase,
    k: int | None = None,
    B: TensorBase | None = None,
    X: TensorBase | None = None,
    n: int | None = None,
    iK: TensorBase | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Any = None,
    ortho_iparams: Any = None,
    ortho_fparams: Any = None,
    ortho_bparams: Any = None,
) -> tuple[TensorBase, TensorBase]:
    """The `k` largest (or smallest) eigenvalues, (*, k), and eigenvectors, (*, m, k), of symmetric matrices A, (*, m, m).

    A x = λ B x where `B`, positive definite, is given. The search begins at `X`, (*, m, n), or at `n` random vectors (default
    `k`); `iK` is a preconditioner. It ends after `niter` steps (1000), or where residuals are below `tol` (√eps of the dtype); a
    warning says where they are not. Both methods, "basic" and "ortho", are the algorithm of Knyazev (2001) as SciPy has it.

    Gradients of A are those of a full eigendecomposition, which is made in backward; there are none with `B`.
    ValueError where m < 3 n, RuntimeError for dtypes other than float32 and float64.

    >>> import flambeau
    >>> values, vectors = flambeau.lobpcg(flambeau.arange(1.0, 11.0).diag(), k=2)
    >>> values.round(decimals=3)
    tensor([10.,  9.])
    """
    checked("lobpcg", A, square=False)
    if A.shape[-2] != A.shape[-1]:
        raise AssertionError(f"lobpcg(): A must be square, got shape {list(A.shape)}")
    given = {"A": A, "B": B, "X": X, "iK": iK}
    for name, x in given.items():
        if x is not None:
            checks.dtypes("lobpcg", ("float32", "float64"), RuntimeError, **{name: x})
    checks.same_dtype("lobpcg", **{name: x for name, x in given.items() if x is not None})
    if method not in (None, "basic", "ortho"):
        raise ValueError(f"lobpcg(): method must be 'basic' or 'ortho', got {method!r}")
    for name, option in (
        ("tracker", tracker),
        ("ortho_iparams", ortho_iparams),
        ("ortho_fparams", ortho_fparams),
        ("ortho_bparams", ortho_bparams),
    ):
        if option is not None:
            raise NotImplementedError(f"lobpcg(): SciPy's algorithm has no '{name}'")
    batch, m = tuple(A.shape[:-2]), A.shape[-1]
    k = k if k is not None else 1 if X is None else X.shape[-1]
    columns = X.shape[-1] if X is not None else k if n is None else n
    if not 0 < k <= columns:
        raise ValueError(f"lobpcg(): expected 0 < k <= n, got k={k} and n={columns}")
    if m < 3 * columns:
        raise ValueError(
            f"lobpcg(): LOBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than 3 x the number of "
            f"requested eigenpairs (={columns})"
        )
    for name, x, shape in (("B", B, (m, m)), ("X", X, (m, columns)), ("iK", iK, (m, m))):
        if x is not None and tuple(x.shape) != (*batch, *shape):
            raise AssertionError(
                f"lobpcg(): expected {name} of shape {[*batch, *shape]}, got {list(x.shape)}"
            )
    if A.requires_grad and B is not None:
        raise NotImplementedError("lobpcg(): gradients are not supported where B is given")
    if X is None:
        X = A.new_empty((*batch, m, columns)).normal_()
    steps = 1000 if niter is None else 2**31 - 1 if niter < 0 else niter
    tolerance = finfo(A.dtype).eps ** 0.5 if tol is None else tol
    A = (A + A.mT) * 0.5  # the gradient of a symmetric matrix is symmetric
    return linalg_lobpcg(A, X, B, iK, k, steps, tolerance, largest is None or bool(largest))


@leaf(
    "lapack",
    results=("E", "V"),
    inputs=("A",),
    label="LOBPCGAutogradFunctionBackward0",
    by_host="the search is SciPy's",
)
def linalg_lobpcg(
    A: TensorBase,
    X: TensorBase,
    B: TensorBase | None,
    iK: TensorBase | None,
    k: int,
    steps: int,
    tolerance: float,
    largest: bool,
) -> tuple[TensorBase, TensorBase]:
    """The search from X on, of checked arguments."""
    rules = [Result((*A.shape[:-2], k), A.dtype), Result((*A.shape[:-1], k), A.dtype)]
    options = {"tol": tolerance, "maxiter": steps, "largest": largest}
    return computed(rules, lambda *arrays: _found(arrays, k, options), A, X, B, iK)


def _found(arrays: tuple, k: int, options: dict[str, Any]) -> list:
    """SciPy's answers for each matrix of a batch, the eigenvalues from the extreme one on."""
    import numpy as np
    from scipy.sparse.linalg import lobpcg as search

    A, X, B, iK = arrays
    batch = A.shape[:-2]
    values = np.empty((*batch, k), A.dtype)
    vectors = np.empty((*batch, A.shape[-1], k), A.dtype)
    for at in np.ndindex(*batch):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            answer: Any = search(
                A[at],
                X[at].copy(),
                None if B is None else B[at],
                None if iK is None else iK[at],
                retResidualNormsHistory=True,
                **options,
            )
        result, directions, residuals = (*answer, ())[:3]  # small matrices, decomposed whole, have none
        order = np.argsort(-result if options["largest"] else result, kind="stable")[:k]
        values[at], vectors[at] = result[order], directions[:, order]
        last = np.max(np.atleast_1d(residuals[-1])[: len(result)], initial=0.0) if len(residuals) else 0.0
        if last > options["tol"] * max(1.0, np.abs(result).max()):
            warnings.warn(
                f"lobpcg(): residual {last:.1e} after {options['maxiter']} steps is above the tolerance {options['tol']:.1e}",
                stacklevel=5,
            )
    return [values, vectors]


@linalg_lobpcg.derivative
def _gradient(grads: tuple, A: TensorBase, E: TensorBase, V: TensorBase) -> tuple:
    """The symmetric part of V diag(∂E) Vᵀ + U (F ∘ Uᵀ∂V) Vᵀ over all eigenvectors U of A.

    F_ij = 1 / (E_j - L_i), 0 where they are the same one.
    """
    to_E, to_V = grads
    result = None
    if to_E is not None:
        result = matmul(V * to_E.unsqueeze(-2), V.mT)
    if to_V is not None:
        L, U = linalg_eigh(A, True)
        apart = E.unsqueeze(-2) - L.unsqueeze(-1)
        same = apart.abs() == apart.abs().amin(-2, True)
        shares = (matmul(U.mT, to_V) / apart.masked_fill(same, 1.0)).masked_fill(same, 0.0)
        rest = matmul(matmul(U, shares), V.mT)
        result = rest if result is None else result + rest
    return ((result + result.mT) * 0.5,)
