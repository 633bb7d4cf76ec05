"""Linear algebra made of decompositions and products: norms, pseudo-inverses, least squares, functions of matrices, and the
older names of what `flambeau.linalg` holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ...core.base.typeinfo import finfo
from ...core.lib import linalg as core
from ...core.lib.products.products import matmul
from ...core.make.create import arange
from ..declare import checks
from ..declare.dtype_groups import COMPLEX, EVERY, FLOATING, LATE, NUMBERS, WIDE
from ..declare.half_types import HALF_TYPES
from ..declare.host import Result, holds
from ..declare.registry import leaf, library, register
from ..declare.results import accepts_out, into, named_result
from ..declare.shapes import wrapped as _wrapped
from ..moving.shaping import broadcast_shapes
from ..moving.shaping import cross as _cross
from ..moving.viewing import real
from ..pointwise.complex_numbers import conj
from ..rows.norms import check_norm, vector_norm
from . import decompositions as dec
from . import lapack
from .lapack import check_square, checked, identity, inv, same_batch, solve_triangular

INT64 = by_name["int64"]
lstsq_result = named_result("linalg_lstsq", "solution", "residuals", "rank", "singular_values")
triangular_solve_result = named_result("triangular_solve", "solution", "cloned_coefficient")
svd_result = named_result("svd", "U", "S", "V")


# --- vectors --------------------------------------------------------------------------------------------------------------
@library(
    "composite", "linalg.cross", name="linalg_cross", autocast=("fallthrough", "promote"), dtypes=NUMBERS
)
def linalg_cross(
    input: TensorBase, other: TensorBase, *, dim: int = -1, out: TensorBase | None = None
) -> TensorBase:
    """(a₂b₃ - a₃b₂, a₃b₁ - a₁b₃, a₁b₂ - a₂b₁) for a = input and b = other along `dim`.
    That has three elements.

    Shape:
        input, other: (*, 3, *), which broadcast; the result has the shape they broadcast to

    Raises:
        RuntimeError: `dim` has not three elements

    >>> import flambeau
    >>> flambeau.linalg.cross(flambeau.tensor([0.0, 1.0, 0.0]), flambeau.tensor([0.0, 0.0, 1.0]))
    tensor([1., 0., 0.])
    """
    if input.ndim != other.ndim:
        raise RuntimeError(
            f"linalg.cross: inputs must have the same number of dimensions, got {input.ndim} and {other.ndim}"
        )
    return _cross(input, other, dim, out=out)


@library("composite", "linalg.vecdot", autocast="lower")
def vecdot(x: TensorBase, y: TensorBase, *, dim: int = -1, out: TensorBase | None = None) -> TensorBase:
    """Σ x* · y along `dim`, over all other dimensions broadcast.

    Shape:
        x, y: shapes that broadcast; result: the shape they broadcast to, without `dim`

    Raises:
        RuntimeError: the shapes do not broadcast

    >>> import flambeau
    >>> flambeau.linalg.vecdot(flambeau.tensor([[1, 2], [3, 4]]), flambeau.tensor([10, 1]))
    tensor([12, 34])
    """
    for t in (x, y):
        if t.dtype != x.dtype:
            raise RuntimeError(
                f"linalg.vecdot: Expected x and y to have the same dtype, but found {x.dtype} and {y.dtype}"
            )
    if x.ndim and y.ndim and {x.shape[-1], y.shape[-1]} == {0, 1} and max(x.ndim, y.ndim) == 1:
        raise RuntimeError(
            f"linalg.vecdot(): expected x and y of one length, got {x.shape[-1]} and {y.shape[-1]}"
        )
    return into(out, (conj(x) * y).sum(dim), "linalg.vecdot")


@library("composite", "linalg.vander", name="linalg_vander", dtypes=EVERY - LATE)
def linalg_vander(x: TensorBase, *, N: int | None = None) -> TensorBase:
    """xᵢʲ for j = 0 … N-1, in a new last dimension.
    N is by default how many elements the last dimension has.

    Shape:
        x: (*, n); result: (*, n, N)

    Raises:
        RuntimeError: there is no dimension

    >>> import flambeau
    >>> flambeau.linalg.vander(flambeau.tensor([2, 3]), N=3)
    tensor([[1, 2, 4],
            [1, 3, 9]])
    """
    x = x if x.ndim else x.unsqueeze(0)
    n = x.shape[-1] if N is None else N
    if n <= 1:
        raise RuntimeError(f"linalg.vander(): N must be greater than 1, got {n}")
    return x.unsqueeze(-1) ** arange(n, device=x.device)


@library("composite", "linalg.diagonal", name="linalg_diagonal")
def linalg_diagonal(A: TensorBase, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> TensorBase:
    """A[…, k, k + offset]: the diagonals of matrices, a view.

    Shape:
        A: (*, m, n); result: (*, number of elements on the diagonal)

    Raises:
        IndexError: there are fewer than two dimensions

    >>> import flambeau
    >>> flambeau.linalg.diagonal(flambeau.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    return A.diagonal(offset, dim1, dim2)


# --- norms ----------------------------------------------------------------------------------------------------------------
@library(
    "composite",
    "linalg.matrix_norm",
    autocast=("fallthrough", "float32 unless dtype"),
    dtypes=FLOATING | COMPLEX,
)
def matrix_norm(
    A: TensorBase,
    ord: Any = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: TensorBase | None = None,
) -> TensorBase:
    """A norm of the matrices along two dimensions.

    "fro": √Σ|a|², the root of the sum of squares; "nuc": sum of the singular values; 2 and -2: the largest and the least of these;
    1 and -1: largest and least sum of moduli of a column; inf and -inf: of a row.

    >>> import flambeau
    >>> flambeau.linalg.matrix_norm(flambeau.tensor([[3., 0.], [0., 4.]]), "nuc")
    tensor(7.)
    """
    check_norm("linalg.matrix_norm", A, ord, dtype)
    if A.ndim < 2:
        raise RuntimeError(
            f"linalg.matrix_norm: The input tensor A must have at least 2 dimensions, got {A.ndim}."
        )
    if len(dim) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {list(dim)}")
    rows, columns = (_wrapped(d, A, "linalg.matrix_norm") for d in dim)
    if rows == columns:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    if dtype is not None:
        A = A.to(dtype)
    return into(out, _matrix_norm(A, ord, rows, columns, keepdim), "linalg.matrix_norm")


def _largest(x: TensorBase, dim: int, keepdim: bool = False) -> TensorBase:
    """Of numbers that are not negative: 0 where there are none."""
    return x.amax(dim, keepdim) if x.shape[dim] else x.sum(dim, keepdim)


def _matrix_norm(A: TensorBase, ord: Any, rows: int, columns: int, keepdim: bool) -> TensorBase:
    if ord == "fro":
        return vector_norm(A, 2, (rows, columns), keepdim)
    if ord in ("nuc", 2, -2):
        S = dec.svdvals(A.movedim((rows, columns), (-2, -1)))
        result = S.sum(-1) if ord == "nuc" else _largest(S, -1) if ord == 2 else S.amin(-1)
        return result.unsqueeze(min(rows, columns)).unsqueeze(max(rows, columns)) if keepdim else result
    if isinstance(ord, (int, float)) and abs(ord) in (1, math.inf):
        along, over = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = A.abs().sum(along, True)
        result = _largest(sums, over, True) if ord > 0 else sums.amin(over, True)
        return result if keepdim else result.squeeze(max(rows, columns)).squeeze(min(rows, columns))
    raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")


@library(
    "composite",
    "linalg.norm",
    name="linalg_norm",
    autocast=("fallthrough", "float32 unless dtype"),
    dtypes=FLOATING | COMPLEX,
)
def linalg_norm(
    A: TensorBase,
    ord: Any = None,
    dim: Any = None,
    keepdim: bool = False,
    *,
    out: TensorBase | None = None,
    dtype: Any = None,
) -> TensorBase:
    """A norm: (Σ |a|^ord)^(1/ord) of vectors along one dimension, or that of matrices along two.
    Without `ord` and `dim` it is √(Σ |a|²).

    Shape:
        A: any; result: without `dim`, or with size 1 there under `keepdim`

    Raises:
        RuntimeError: the dtype is neither floating-point nor complex
        IndexError: `dim` is out of range

    >>> import flambeau
    >>> flambeau.linalg.norm(flambeau.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(5.)
    >>> flambeau.linalg.norm(flambeau.tensor([[3.0, 0.0], [0.0, 4.0]]), 2)
    tensor(4.)
    """
    check_norm("linalg.norm", A, ord, dtype)
    if dim is not None and not isinstance(dim, int) and len(dim) not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dim)}")
    if ord is None:
        return into(out, vector_norm(A, 2, dim, keepdim, dtype=dtype), "linalg.norm")
    if dim is None and A.ndim not in (1, 2) and not isinstance(ord, str):
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D."
        )
    if isinstance(ord, str) and (A.ndim != 2 if dim is None else isinstance(dim, int) or len(dim) != 2):
        raise RuntimeError(
            f"linalg.norm: ord={ord!r} is of matrices; got {'dim ' + str(dim) if dim else str(A.ndim) + 'D'}"
        )
    if isinstance(ord, str) or (A.ndim == 2 if dim is None else not isinstance(dim, int) and len(dim) == 2):
        return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype, out=out)
    return into(out, vector_norm(A, ord, dim, keepdim, dtype=dtype), "linalg.norm")


def _number(p) -> float | None:
    """The order of a norm that has a name; None for the nuclear norm, which is none of vectors."""
    if isinstance(p, (int, float)):
        return float(p)
    return {"fro": 2.0, "inf": math.inf, "-inf": -math.inf}.get(p)


@library(
    "composite",
    "norm",
    "Tensor.norm",
    autocast=("fallthrough", "float32 unless dtype"),
    dtypes=FLOATING | COMPLEX,
)
def norm(input, p="fro", dim=None, keepdim: bool = False, out=None, dtype=None) -> TensorBase:
    """(Σ |x|^p)^(1/p), the p-norm, over `dim` (all by default).
    For inf it is the largest |x|, for 0 the count of non-zeros.

    Shape:
        input: any; result: without `dim`, or with size 1 there under `keepdim`

    Raises:
        IndexError: `dim` is out of range

    >>> import flambeau
    >>> flambeau.norm(flambeau.tensor([3.0, 4.0]))
    tensor(5.)
    """
    order = _number(2.0 if p is None else p)
    if order is None:
        return linalg_norm(input, p, dim, keepdim, dtype=dtype, out=out)
    return vector_norm(input, order, dim, keepdim, dtype=dtype, out=out)


@library("composite", "nuclear_norm", autocast=("fallthrough", "float32"), dtypes=WIDE | COMPLEX)
def nuclear_norm(input: TensorBase, dim: Any = (-2, -1), keepdim: bool = False) -> TensorBase:
    """Σ σₖ: the sum of the singular values of matrices.

    Shape:
        input: (*, m, n); result: without the two dimensions `dim`, or with size 1 there under `keepdim`

    Raises:
        RuntimeError: there are fewer than two dimensions

    >>> import flambeau
    >>> flambeau.nuclear_norm(flambeau.tensor([[3.0, 0.0], [0.0, -4.0]]))
    tensor(7.)
    """
    return matrix_norm(input, "nuc", dim, keepdim)


@library("composite", "linalg.cond", autocast=("float32", "fallthrough"), dtypes=WIDE | COMPLEX)
def cond(A: TensorBase, p: Any = None, *, out: TensorBase | None = None) -> TensorBase:
    """The condition number: norm(A) · norm(A⁻¹), for p 2 (the default) and -2 by singular values; inf for a singular matrix.

    Shape:
        A: (*, m, n), square unless p is None, 2 or -2; result: (*)

    Raises:
        RuntimeError: there are fewer than two dimensions
        RuntimeError: the matrices are not square, for other norms than 2 and -2

    >>> import flambeau
    >>> flambeau.linalg.cond(flambeau.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor(2.)
    """
    checked("linalg.cond", A, square=p not in (None, 2, -2))
    if p in (None, 2, -2):
        S = dec.svdvals(A)
        if S.shape[-1] == 0:
            return into(out, S.sum(-1), "linalg.cond")
        largest, least = S.select(-1, 0), S.select(-1, S.shape[-1] - 1)
        return into(out, least / largest if p == -2 else largest / least, "linalg.cond")
    if not A.numel():
        return into(out, real(A.sum((-2, -1))), "linalg.cond")
    inverse, info = lapack.inv_ex(A)
    result = matrix_norm(A, p) * matrix_norm(inverse, p)
    return into(out, result.masked_fill(info != 0, math.inf), "linalg.cond")


# --- rank and pseudo-inverse ----------------------------------------------------------------------------------------------
def _tolerance(who: str, S: TensorBase, A: TensorBase, atol: Any, rtol: Any) -> TensorBase:
    """max(atol, rtol · largest), one for each matrix; rtol is by default the dtype's epsilon times the larger side, or 0
    where atol is given.
    """
    for name, given in (("atol", atol), ("rtol", rtol)):
        if isinstance(given, TensorBase) and given.is_complex():
            raise RuntimeError(f"{who}: {name} tensor of complex type is not supported.")
    usual = finfo(A.dtype).eps * max(A.shape[-2:])
    if rtol is None:
        if isinstance(atol, TensorBase):
            rtol = (atol <= 0).to(S.dtype) * usual
        else:
            rtol = usual if atol is None or atol <= 0 else 0.0
    largest = S.amax(-1)
    scaled = rtol * largest
    least = 0.0 if atol is None else atol
    return scaled.clamp(min=least) if not isinstance(least, TensorBase) else scaled.maximum(least.to(S.dtype))


def _magnitudes(A: TensorBase, hermitian: bool) -> TensorBase:
    return dec.linalg_eigvalsh(A, True).abs() if hermitian else dec.linalg_svdvals(A)


@library(
    "composite",
    "linalg.matrix_rank",
    differentiable=False,
    autocast=("float32", "fallthrough"),
    dtypes=WIDE | COMPLEX,
)
def matrix_rank(
    A: TensorBase,
    tol: Any = None,
    *,
    atol: Any = None,
    rtol: Any = None,
    hermitian: bool = False,
    out: TensorBase | None = None,
) -> TensorBase:
    """How many singular values (moduli of eigenvalues where `hermitian`) are above max(atol, rtol · largest).

    Shape:
        A: (*, m, n); result: (*)

    Raises:
        RuntimeError: there are fewer than two dimensions

    >>> import flambeau
    >>> flambeau.linalg.matrix_rank(flambeau.tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(1)
    """
    checked("linalg.matrix_rank", A, square=hermitian)
    if tol is not None:
        atol, rtol = tol, 0.0
    A = A.detach()
    if not A.numel():
        return into(out, A.new_zeros(A.shape[:-2]).long(), "linalg.matrix_rank")
    S = _magnitudes(A, hermitian)
    limit = _tolerance("linalg.matrix_rank", S, A, atol, rtol)
    return into(out, (S > limit.unsqueeze(-1)).sum(-1), "linalg.matrix_rank")


@library("composite", "linalg.pinv", autocast="composite", dtypes=WIDE | COMPLEX)
def pinv(
    A: TensorBase,
    rcond: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
    out: TensorBase | None = None,
) -> TensorBase:
    """The pseudo-inverse of Moore and Penrose; singular values up to max(atol, rtol · largest) count as 0.

    >>> import flambeau
    >>> flambeau.linalg.pinv(flambeau.tensor([[2.], [0.]]))
    tensor([[0.5000, 0.0000]])
    """
    checked("linalg.pinv", A, square=hermitian)
    if rcond is not None:
        rtol = rcond
    return into(out, linalg_pinv(A, hermitian, atol, rtol), "linalg.pinv")


@leaf("lapack", results=("P",), inputs=("A",), batching="solving tolerances", autocast="composite")
def linalg_pinv(A: TensorBase, hermitian: bool, atol: Any, rtol: Any) -> TensorBase:
    """The pseudo-inverse of checked matrices."""
    if not A.numel():
        return A.mH.clone()
    if hermitian:
        L, V = dec.linalg_eigh(A, True)
        limit = _tolerance("linalg.pinv", L.abs(), A, atol, rtol).unsqueeze(-1)
        kept = L.abs() > limit
        return matmul(V * (kept.to(L.dtype) / L.masked_fill(~kept, 1.0)).unsqueeze(-2), V.mH)
    U, S, Vh = dec.linalg_svd(A, False)
    limit = _tolerance("linalg.pinv", S, A, atol, rtol).unsqueeze(-1)
    kept = S > limit
    return matmul(Vh.mH * (kept.to(S.dtype) / S.masked_fill(~kept, 1.0)).unsqueeze(-2), U.mH)


@linalg_pinv.derivative
def _pinv_gradient(grad: TensorBase, A: TensorBase, P: TensorBase) -> tuple:
    """-Pᴴ ∂P Pᴴ + (1 - A P) ∂Pᴴ P Pᴴ + Pᴴ P ∂Pᴴ (1 - P A).

    G. H. Golub and V. Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems whose variables
    separate" (1973), equation 4.12.
    """
    Ph, Gh = P.mH, grad.mH
    left, right = matmul(Gh, matmul(P, Ph)), matmul(matmul(Ph, P), Gh)
    result = left - matmul(A, matmul(P, left)) + right - matmul(matmul(right, P), A)
    return (result - matmul(matmul(Ph, grad), Ph),)


@library(
    "composite",
    "linalg.lstsq",
    autocast=("float32", "fallthrough"),
    dtypes=WIDE | COMPLEX,
    gives=lstsq_result,
)
@accepts_out
def lstsq(A: TensorBase, B: TensorBase, rcond: float | None = None, *, driver: str | None = None) -> tuple:
    """X with the least |A X - B|, as a named tuple (solution, residuals, rank, singular_values).

    Drivers "gels" takes A of full rank, "gelsy" (the default), "gelsd" and "gelss" any; which of the results after the
    solution are not empty follows from it as in LAPACK.  Residuals are sums of squares, given where A has full rank and more
    rows than columns.

    Shape:
        A: (*, m, n); B: (*, m, k); solution: (*, n, k), residuals: (*, k), rank: (*), singular_values: (*,
            min(m, n))

    Raises:
        RuntimeError: A and B have not the same number of rows

    >>> import flambeau
    >>> A = flambeau.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> flambeau.linalg.lstsq(A, flambeau.tensor([[1.0], [3.0], [5.0]])).solution.round(decimals=3)
    tensor([[1.],
            [2.]])
    """
    checked("linalg.lstsq", A, square=False)
    if not (A.ndim >= B.ndim and A.ndim - B.ndim <= 1):
        raise RuntimeError(
            f"linalg.lstsq(): expected B to have as many dimensions as A, {A.ndim}, or one less, got {B.ndim}"
        )
    driver = "gelsy" if driver is None else driver
    if driver not in ("gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(
            f"linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), got {driver}"
        )
    if A.dtype != B.dtype:
        raise RuntimeError(
            f"linalg.lstsq: Expected A and B to have the same dtype, got {A.dtype} and {B.dtype}"
        )
    vector = lapack.is_vector(A, B)
    right = B.unsqueeze(-1) if vector else B
    if right.shape[-2] != A.shape[-2]:
        raise RuntimeError(
            f"linalg.lstsq: A.size(-2) should match B.size(-2), got {A.shape[-2]} and {right.shape[-2]}"
        )
    A, right = same_batch("linalg.lstsq", A, right)
    result, residuals, rank, values = linalg_lstsq(A, right, rcond, driver)
    if vector:
        result, residuals = result.squeeze(-1), residuals.squeeze(-1) if residuals.ndim else residuals
    return lstsq_result(result, residuals, rank, values)


# Some of the results may be empty, and have no slices then.
@leaf("lapack", results=("X", "residuals", "rank", "values"), batching="parts")
def linalg_lstsq(
    A: TensorBase, B: TensorBase, rcond: float | None, driver: str
) -> tuple[TensorBase, TensorBase, TensorBase, TensorBase]:
    """The results for matrices with the same batch dimensions."""
    m, n = A.shape[-2:]
    result = _by_qr(A, B, rcond) if driver in ("gels", "gelsy") and m >= n and A.numel() else None
    if driver == "gels":
        rank = A.new_empty(0).long()
    else:
        rank = matrix_rank(A, rtol=rcond) if result is None else A.new_full(A.shape[:-2], n, dtype=INT64)
    if result is None:
        result = matmul(linalg_pinv(A, False, None, rcond), B)
    values = dec.linalg_svdvals(A) if driver in ("gelsd", "gelss") else real(A.new_empty(0))
    if m > n and driver != "gelsy" and (driver == "gels" or holds(rank == n)):
        rest = (matmul(A, result) - B).abs()
        return result, (rest * rest).sum(-2), rank, values
    return result, real(A.new_empty(0)), rank, values


@linalg_lstsq.derivative
def _lstsq_gradient(
    grad_X: Any, grad_residuals: Any, A: TensorBase, B: TensorBase, X: TensorBase, rcond: float | None
) -> tuple:
    """Through X = A⁺ B, and through |A X - B|², whose derivative by X is 0."""
    to_A = to_B = None
    if grad_X is not None:
        P = linalg_pinv(A, False, None, rcond)
        to_A, to_B = _pinv_gradient(matmul(grad_X, B.mH), A, P)[0], matmul(P.mH, grad_X)
    if grad_residuals is not None and grad_residuals.numel():
        rest = (matmul(A, X) - B) * (2.0 * grad_residuals.unsqueeze(-2)).to(A.dtype)
        through = matmul(rest, X.mH)
        to_A, to_B = (through, -rest) if to_A is None else (to_A + through, to_B - rest)
    return to_A, to_B


def _by_qr(A: TensorBase, B: TensorBase, rcond: float | None) -> TensorBase | None:
    """R⁻¹ Qᴴ B where that is sure to be what the singular values would give: none of them counts as 0, since the quotient of the
    largest and the least is at most |R| |R⁻¹| in Frobenius's norm.
    """
    R, right = dec.linalg_reflected(A, B)
    inverse = solve_triangular(R, identity(A.shape[-1], A).expand(R.shape), upper=True)
    least = finfo(A.dtype).eps * A.shape[-2] if rcond is None else rcond
    condition = vector_norm(R, dim=(-2, -1)) * vector_norm(inverse, dim=(-2, -1))
    return matmul(inverse, right) if holds(condition * least < 1.0) else None


# --- functions of matrices ------------------------------------------------------------------------------------------------
@library(
    "composite",
    "linalg.matrix_power",
    "matrix_power",
    "Tensor.matrix_power",
    name="matrix_power",
    autocast="composite",
    dtypes=FLOATING | COMPLEX,
)
def matrix_power(A: TensorBase, n: int, *, out: TensorBase | None = None) -> TensorBase:
    """A · A · … · A, n times, by repeated squaring; for negative n of the inverse, for 0 the identity.

    Shape:
        A: (*, n, n); the result has the same

    Raises:
        RuntimeError: the matrices are not square

    >>> import flambeau
    >>> flambeau.linalg.matrix_power(flambeau.tensor([[1.0, 1.0], [0.0, 1.0]]), 5)
    tensor([[1., 5.],
            [0., 1.]])
    """
    if not isinstance(n, int):
        raise TypeError(f"matrix_power(): argument 'n' (position 2) must be int, not {type(n).__name__}")
    if n < 0 or not isinstance(A, TensorBase) or A.dtype not in HALF_TYPES:  # products alone take half types
        checked("linalg.matrix_power", A)
    else:
        checks.rank_at_least("linalg.matrix_power", "A", A, 2)
        check_square("linalg.matrix_power", A)
    if n == 0:
        return into(out, A.clone().copy_(identity(A.shape[-1], A)), "linalg.matrix_power")
    base, left = (inv(A), -n) if n < 0 else (A, n)
    result: Any = None
    while left:
        if left & 1:
            result = base if result is None else matmul(result, base)
        left >>= 1
        if left:
            base = matmul(base, base)
    return into(out, result.clone() if result is A else result, "linalg.matrix_power")


# --- tensors as matrices --------------------------------------------------------------------------------------------------
@library(
    "composite",
    "linalg.tensorinv",
    reference="numpy.linalg.tensorinv",
    autocast=("float32", "fallthrough"),
    dtypes=WIDE | COMPLEX,
)
def tensorinv(A: TensorBase, ind: int = 2, *, out: TensorBase | None = None) -> TensorBase:
    """The inverse with respect to `tensordot` over the first `ind` dimensions: tensordot(tensorinv(A), A, ind) is the identity.

    Shape:
        A: (*first, *second), of as many elements each, `ind` dimensions in first; result: (*second, *first)

    Raises:
        RuntimeError: both products of sizes differ

    >>> import flambeau
    >>> flambeau.linalg.tensorinv(2 * flambeau.eye(4).reshape(2, 2, 4)).shape
    flambeau.Size([4, 2, 2])
    """
    if ind <= 0:
        raise RuntimeError(f"linalg.tensorinv: Expected a strictly positive integer for 'ind', got {ind}")
    if ind > A.ndim:
        raise RuntimeError(
            f"linalg.tensorinv(): 'ind' must be at most the number of dimensions of A, {A.ndim}, got {ind}"
        )
    rows, columns = math.prod(A.shape[:ind]), math.prod(A.shape[ind:])
    if rows != columns:
        raise RuntimeError(
            f"linalg.tensorinv: Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), "
            f"but got {columns} != {rows}"
        )
    result = inv(A.reshape(rows, columns)).reshape(*A.shape[ind:], *A.shape[:ind])
    return into(out, result, "linalg.tensorinv")


@library(
    "composite",
    "linalg.tensorsolve",
    reference="numpy.linalg.tensorsolve",
    autocast=("float32", "fallthrough"),
    dtypes=WIDE | COMPLEX,
)
def tensorsolve(
    A: TensorBase, B: TensorBase, dims: Sequence[int] | None = None, *, out: TensorBase | None = None
) -> TensorBase:
    """X with tensordot(A, X, X.ndim) = B; `dims` of A are first moved to the end.

    Shape:
        A: (*B.shape, *X.shape); result: (*X.shape)

    Raises:
        RuntimeError: both products of sizes differ

    >>> import flambeau
    >>> flambeau.linalg.tensorsolve(2 * flambeau.eye(4).reshape(4, 2, 2), flambeau.tensor([2.0, 4.0, 6.0, 8.0]))
    tensor([[1., 2.],
            [3., 4.]])
    """
    if dims is not None:
        last = [_wrapped(d, A, "linalg.tensorsolve") for d in dims]
        A = A.permute([d for d in range(A.ndim) if d not in last] + last)
    shape = A.shape[B.ndim :]
    if math.prod(shape) != B.numel():
        raise RuntimeError(
            "linalg.tensorsolve: Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {math.prod(shape)} != {B.numel()}"
        )
    result = lapack.solve(A.reshape(B.numel(), B.numel()), B.reshape(-1)).reshape(shape)
    return into(out, result, "linalg.tensorsolve")


# --- older names ----------------------------------------------------------------------------------------------------------
@library(
    "composite",
    "cholesky",
    "Tensor.cholesky",
    name="old_cholesky",
    autocast=("float32", "fallthrough"),
    dtypes=WIDE | COMPLEX,
)
def cholesky(input: TensorBase, upper: bool = False, *, out: TensorBase | None = None) -> TensorBase:
    """`linalg.cholesky`: L with A = L Lᴴ, or its Hermitian transpose where `upper`.

    Shape:
        input: (*, n, n); the result has the same

    Raises:
        RuntimeError: the matrices are not square
        LinAlgError: a matrix is not positive-definite

    >>> import flambeau
    >>> flambeau.cholesky(flambeau.tensor([[4.0, 2.0], [2.0, 2.0]]))
    tensor([[2., 0.],
            [1., 1.]])
    """
    return lapack.cholesky(input, upper=upper, out=out)


@library("composite", autocast=("float32", "fallthrough"), dtypes=WIDE | COMPLEX)
def cholesky_solve(
    input: TensorBase, L: TensorBase, upper: bool = False, *, out: TensorBase | None = None
) -> TensorBase:
    """X with A X = input, for A = L Lᴴ (Lᴴ L where `upper`).

    Shape:
        input: (*, n, k); L: (*, n, n); result: (*, n, k)

    Raises:
        RuntimeError: there are fewer than two dimensions

    >>> import flambeau
    >>> flambeau.cholesky_solve(flambeau.tensor([[8.0], [9.0]]), flambeau.tensor([[2.0, 0.0], [0.0, 3.0]]))
    tensor([[2.],
            [1.]])
    """
    if input.ndim < 2 or L.ndim < 2:
        raise RuntimeError(
            f"cholesky_solve(): b and u should have at least 2 dimensions, but have {input.ndim} and {L.ndim} instead"
        )
    _one_dtype("cholesky_solve", input, L, "L")
    check_square("cholesky_solve", L, "L")
    if input.shape[-2] != L.shape[-1]:
        raise RuntimeError(
            f"cholesky_solve: Incompatible matrix sizes: each L is {L.shape[-2]} by {L.shape[-1]}, but each b matrix is "
            f"{input.shape[-2]} by {input.shape[-1]}"
        )
    return into(out, linalg_cholesky_solve(*same_batch("cholesky_solve", input, L), upper), "cholesky_solve")


def _one_dtype(who: str, b: TensorBase, A: TensorBase, name: str) -> None:
    if b.dtype is not A.dtype:
        raise RuntimeError(
            f"{who}(): Expected b and {name} to have the same dtype, but found b of type {b.dtype} and {name} of type {A.dtype} instead."
        )


@leaf("lapack", results=("X",), label="CholeskySolveBackward0", batching="batches")
def linalg_cholesky_solve(B: TensorBase, L: TensorBase, upper: bool) -> TensorBase:
    """X with L Lᴴ X = B (Lᴴ L where `upper`), of matrices with the same batch dimensions."""

    def of_rows(b: TensorBase, factor: TensorBase) -> TensorBase:
        result = lapack.fresh(b)
        core.solves.factored(lapack.one_for_all(factor).contiguous(), result, upper)
        return result

    def by_triangles(b: TensorBase, factor: TensorBase) -> TensorBase:
        lower = factor.mH if upper else factor
        return solve_triangular(lower.mH, solve_triangular(lower, b, upper=False), upper=True)

    return lapack.computed(Result(B.shape, B.dtype), of_rows, B, L, on_device=by_triangles)


@linalg_cholesky_solve.derivative
def _cholesky_solve_gradient(grad: TensorBase, L: TensorBase, X: TensorBase, upper: bool) -> tuple:
    """As if the whole of L were read, which is how PyTorch has it: through A = L Lᴴ."""
    to_B = linalg_cholesky_solve(grad, L, upper)
    half = -matmul(to_B, X.mH)
    both = half + half.mH
    return to_B, matmul(L, both) if upper else matmul(both, L)


@library("composite", autocast=("float32", "fallthrough"), dtypes=WIDE | COMPLEX)
def cholesky_inverse(L: TensorBase, upper: bool = False, *, out: TensorBase | None = None) -> TensorBase:
    """(L Lᴴ)⁻¹, or (Lᴴ L)⁻¹ where `upper`.

    Shape:
        L: (*, n, n); the result has the same

    Raises:
        RuntimeError: the matrices are not square

    >>> import flambeau
    >>> flambeau.cholesky_inverse(flambeau.tensor([[2.0, 0.0], [1.0, 1.0]]))
    tensor([[ 0.5000, -0.5000],
            [-0.5000,  1.0000]])
    """
    checked("cholesky_inverse", L, "L")
    return into(out, linalg_cholesky_inverse(L, upper), "cholesky_inverse")


@leaf("lapack", results=("X",), label="CholeskyInverseBackward0", batching="batches")
def linalg_cholesky_inverse(L: TensorBase, upper: bool) -> TensorBase:
    """(L Lᴴ)⁻¹ (of Lᴴ L where `upper`) of checked matrices."""
    by_solution = lambda factor: linalg_cholesky_solve(
        identity(factor.shape[-1], factor).expand(factor.shape), factor, False
    )
    of_rows = lambda factor: core.cholesky.inverse(factor.contiguous())
    return lapack.computed(Result(L.shape, L.dtype), of_rows, L.mH if upper else L, on_device=by_solution)


@linalg_cholesky_inverse.derivative
def _cholesky_inverse_gradient(grad: TensorBase, L: TensorBase, X: TensorBase, upper: bool) -> TensorBase:
    """As if the whole of L were read: through A = L Lᴴ, of whose inverse X the gradient is -X ∂X X."""
    both = -matmul(X, matmul(grad + grad.mH, X))
    return matmul(L, both) if upper else matmul(both, L)


@library(
    "composite", autocast=("float32", "fallthrough"), dtypes=WIDE | COMPLEX, gives=triangular_solve_result
)
@accepts_out
def triangular_solve(
    b: TensorBase, A: TensorBase, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple:
    """X with A X = b for triangular A (its transpose where requested), and A again.

    Shape:
        b: (*, n, k); A: (*, n, n); results: (*, n, k) and (*, n, n)

    Raises:
        RuntimeError: there are fewer than two dimensions

    >>> import flambeau
    >>> flambeau.triangular_solve(flambeau.tensor([[4.0], [2.0]]), flambeau.tensor([[2.0, 1.0], [0.0, 1.0]])).solution
    tensor([[1.],
            [2.]])
    """
    _one_dtype("triangular_solve", b, A, "A")
    if transpose:
        result = solve_triangular(A.mT, b, upper=not upper, unitriangular=unitriangular)
    else:
        result = solve_triangular(A, b, upper=upper, unitriangular=unitriangular)
    batch = broadcast_shapes(tuple(A.shape[:-2]), tuple(b.shape[:-2]))
    return triangular_solve_result(result, A.expand(*batch, *A.shape[-2:]).clone())


@library(
    "composite", "qr", "Tensor.qr", name="old_qr", autocast=("float32", "fallthrough"), dtypes=WIDE | COMPLEX
)
@accepts_out
def qr(input: TensorBase, some: bool = True) -> tuple:
    """`linalg.qr`, input = Q R: reduced where `some`, else complete.

    Shape:
        input: (*, m, n); Q: (*, m, k), R: (*, k, n), k = min(m, n) where `some`, else m

    Raises:
        RuntimeError: there are fewer than two dimensions

    >>> import flambeau
    >>> Q, R = flambeau.qr(flambeau.tensor([[3.0, 1.0], [4.0, 2.0]]))
    >>> (Q @ R).round(decimals=3)
    tensor([[3., 1.],
            [4., 2.]])
    """
    return dec.qr(input, "reduced" if some else "complete")


@library(
    "composite",
    "svd",
    "Tensor.svd",
    name="old_svd",
    autocast=("float32", "fallthrough"),
    dtypes=WIDE | COMPLEX,
    gives=svd_result,
)
@accepts_out
def svd(input: TensorBase, some: bool = True, compute_uv: bool = True) -> tuple:
    """`linalg.svd`, input = U diag(S) Vᴴ, with V instead of its Hermitian transpose; zeros for U and V
    unless `compute_uv`.

    Shape:
        input: (*, m, n); U: (*, m, k), S: (*, k), V: (*, n, k), k = min(m, n) where `some`; else U: (*, m,
            m), V: (*, n, n)

    Raises:
        RuntimeError: there are fewer than two dimensions

    >>> import flambeau
    >>> flambeau.svd(flambeau.tensor([[0.0, 2.0], [1.0, 0.0]])).S
    tensor([2., 1.])
    """
    if not compute_uv:
        m, n = input.shape[-2:]
        batch = input.shape[:-2]
        S = dec.svdvals(input)
        return svd_result(input.new_zeros((*batch, m, m)), S, input.new_zeros((*batch, n, n)))
    U, S, Vh = dec.svd(input, not some)
    return svd_result(U, S, Vh.mH)


@library(
    "composite",
    "lu",
    "Tensor.lu",
    name="old_lu",
    overloads=(
        "(A: Tensor, pivot: bool = True, get_infos: Literal[False] = False) -> tuple[Tensor, Tensor]",
        "(A: Tensor, pivot: bool = True, *, get_infos: Literal[True]) -> tuple[Tensor, Tensor, Tensor]",
    ),
    autocast=("float32", "fallthrough"),
    dtypes=WIDE | COMPLEX,
)
def lu(A: TensorBase, pivot: bool = True, get_infos: bool = False) -> tuple:
    """`linalg.lu_factor`, A = P L U, without an error for a zero pivot; with the verdicts where
    `get_infos`.

    Shape:
        A: (*, m, n); results: (*, m, n), (*, min(m, n)) and, where wanted, (*)

    Raises:
        RuntimeError: there are fewer than two dimensions

    >>> import flambeau
    >>> flambeau.lu(flambeau.tensor([[4.0, 2.0], [2.0, 4.0]]))[0]
    tensor([[4.0000, 2.0000],
            [0.5000, 3.0000]])
    """
    result = dec.lu_factor_ex(A, pivot=pivot)
    return tuple(result) if get_infos else tuple(result[:2])


@library(
    "composite",
    "lu_solve",
    "Tensor.lu_solve",
    name="old_lu_solve",
    autocast=("float32", "fallthrough"),
    dtypes=WIDE | COMPLEX,
)
@accepts_out
def lu_solve(b: TensorBase, LU_data: TensorBase, LU_pivots: TensorBase) -> TensorBase:
    """`linalg.lu_solve`: X with A X = b for A = P L U.

    Shape:
        b: (*, n, k); LU_data: (*, n, n); LU_pivots: (*, n); result: (*, n, k)

    Raises:
        RuntimeError: there are fewer than two dimensions

    >>> import flambeau
    >>> flambeau.lu_solve(flambeau.tensor([[2.0], [2.0]]), *flambeau.lu(flambeau.tensor([[2.0, 0.0], [0.0, 4.0]])))
    tensor([[1.0000],
            [0.5000]])
    """
    return dec.lu_solve(LU_data, LU_pivots, b)


lu_unpack_result = named_result("lu_unpack", "P", "L", "U")


@library("composite", "lu_unpack", gives=lu_unpack_result)
@accepts_out
def lu_unpack(
    LU_data: TensorBase, LU_pivots: TensorBase, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple:
    """P, L and U with A = P L U of what `linalg.lu_factor` gave; empty where not unpacked.

    Shape:
        LU_data: (*, m, n); LU_pivots: (*, k); P: (*, m, m), L: (*, m, k), U: (*, k, n), k = min(m, n)

    Raises:
        RuntimeError: the pivots are not int32

    >>> import flambeau
    >>> P, L, U = flambeau.lu_unpack(*flambeau.linalg.lu_factor(flambeau.tensor([[2.0, 4.0], [4.0, 2.0]])))
    >>> P @ L @ U
    tensor([[2., 4.],
            [4., 2.]])
    """
    L, U = dec._triangles(LU_data) if unpack_data else (LU_data.new_empty(0), LU_data.new_empty(0))
    P = LU_data.new_empty(0)
    if unpack_pivots:
        if LU_pivots.dtype.name != "int32":
            raise RuntimeError(
                f"lu_unpack: LU_pivots is expected to be a tensor of int32, got {LU_pivots.dtype}"
            )
        P = dec.linalg_lu_permutation(LU_pivots, LU_data.shape[-2], LU_data.dtype)
    return lu_unpack_result(P, L, U)


@library("composite", "pinverse", "Tensor.pinverse", autocast=("float32", "composite"), dtypes=WIDE | COMPLEX)
def pinverse(input: TensorBase, rcond: float = 1e-15) -> TensorBase:
    """`linalg.pinv`: V S⁺ Uᴴ for input = U S Vᴴ, where singular values up to rcond · largest count as 0.

    Shape:
        input: (*, m, n); result: (*, n, m)

    Raises:
        RuntimeError: there are fewer than two dimensions

    >>> import flambeau
    >>> flambeau.pinverse(flambeau.tensor([[2.0, 0.0], [0.0, 0.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.0000]])
    """
    return pinv(input, rcond)


# --- low rank -------------------------------------------------------------------------------------------------------------
@library("composite", "svd_lowrank", autocast="composite", dtypes=WIDE | COMPLEX)
def svd_lowrank(
    A: TensorBase, q: int | None = 6, niter: int | None = 2, M: TensorBase | None = None
) -> tuple[TensorBase, TensorBase, TensorBase]:
    """U, S and V of the best approximation of A - M of rank q, at most A's rows or columns, that random projections find.

    N. Halko, P.-G. Martinsson and J. A. Tropp, "Finding structure with randomness" (2011), algorithms 4.4 and 5.1.

    Shape:
        A: (*, m, n); U: (*, m, q), S: (*, q), V: (*, n, q)

    >>> import flambeau
    >>> U, S, V = flambeau.svd_lowrank(flambeau.outer(flambeau.tensor([3.0, 4.0]), flambeau.tensor([1.0, 0.0])), q=1)
    >>> S.round(decimals=3)
    tensor([5.])
    """
    q = 6 if q is None else q
    if M is not None:
        A = A - M.expand(A.shape)
    m, n = A.shape[-2:]
    if q < 0:
        raise RuntimeError(f"svd_lowrank(): q must not be negative, got {q}")
    if m < n:
        V, S, U = svd_lowrank(A.mH, q, niter)
        return U, S, V
    from ..random.random import randn

    Q = dec.qr(matmul(A, randn(n, q, dtype=A.dtype, device=A.device)))[0]
    for _ in range(2 if niter is None else niter):
        Q = dec.qr(matmul(A.mH, Q))[0]
        Q = dec.qr(matmul(A, Q))[0]
    U, S, Vh = dec.svd(matmul(Q.mH, A), False)
    return matmul(Q, U), S, Vh.mH


@library("composite", "pca_lowrank", autocast="composite", dtypes=WIDE | COMPLEX)
def pca_lowrank(
    A: TensorBase, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[TensorBase, TensorBase, TensorBase]:
    """Principal components: U, S and V with A - mean ≈ U diag(S) Vᴴ by `svd_lowrank`.
    The mean is that of the rows, where `center`; q is by default up to 6.

    Shape:
        A: (*, m, n); U: (*, m, q), S: (*, q), V: (*, n, q)

    Raises:
        ValueError: `q` is not within the smaller of both sizes

    >>> import flambeau
    >>> points = flambeau.tensor([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
    >>> flambeau.pca_lowrank(points, q=1)[1].round(decimals=3)
    tensor([2.])
    """
    m, n = A.shape[-2:]
    q = min(6, m, n) if q is None else q
    if not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    return svd_lowrank(A - A.mean(-2, True) if center else A, q, niter)


register("LinAlgError", "error", lapack.LinAlgError, places=("linalg.LinAlgError",), differentiable=False)
