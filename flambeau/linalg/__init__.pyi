# Written by `python tools/interface.py` from the registry.
from builtins import bool as _bool
from builtins import complex as _complex
from builtins import float as _float
from builtins import int as _int
from builtins import str as _str
from builtins import tuple as _tuple
from collections.abc import Sequence as _Sequence
from flambeau import dtype as _dtype
from flambeau import return_types as _return_types
from typing import Any as _Any
from flambeau import Tensor as Tensor

LinAlgError: _Any
def cholesky(A: Tensor, *, upper: _bool = False, out: Tensor | None = None) -> Tensor:
    """Lower triangular L with A = L Lᴴ, or its Hermitian transpose where `upper`; A is Hermitian, positive-definite."""
def cholesky_ex(A: Tensor, *, upper: _bool = False, check_errors: _bool = False, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.linalg_cholesky_ex:
    """L with A = L Lᴴ as `cholesky`, and for each matrix a number instead of an error. It is 0 or the order of the first leading minor that is not positive."""
def cond(A: Tensor, p: _float | _str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The condition number: norm(A) · norm(A⁻¹), for p 2 (the default) and -2 by singular values; inf for a singular matrix."""
def cross(input: Tensor, other: Tensor, *, dim: _int = -1, out: Tensor | None = None) -> Tensor:
    """(a₂b₃ - a₃b₂, a₃b₁ - a₁b₃, a₁b₂ - a₂b₁) for a = input and b = other along `dim`. That has three elements."""
def det(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Σ sign(π) Π A[k, π(k)]: the determinant of square matrices."""
def diagonal(A: Tensor, *, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> Tensor:
    """A[…, k, k + offset]: the diagonals of matrices, a view."""
def eig(A: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.linalg_eig:
    """λ and v with A v = λ v: eigenvalues and eigenvectors (of norm 1) of square matrices. They are always complex, in no certain order."""
def eigh(A: Tensor, UPLO: _str = 'L', *, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.linalg_eigh:
    """Eigenvalues (real, ascending) and orthonormal eigenvectors of Hermitian matrices, of which one triangle is read."""
def eigvals(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """λ with A v = λ v: eigenvalues of square matrices, always complex, in no certain order."""
def eigvalsh(A: Tensor, UPLO: _str = 'L', *, out: Tensor | None = None) -> Tensor:
    """λ with A v = λ v: eigenvalues (real, ascending) of Hermitian matrices. One triangle is read."""
def householder_product(input: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The first n columns of the product of the reflections 1 - τₖ vₖ vₖᴴ. The vₖ stand below the diagonal of the m by n `input` (with a 1 on it and zeros above)."""
def inv(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A⁻¹, the inverse of square matrices; LinAlgError where one is singular."""
def inv_ex(A: Tensor, *, check_errors: _bool = False, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.linalg_inv_ex:
    """A⁻¹ as `inv`, and for each matrix a number instead of an error. It is 0 or, where the matrix is singular, which pivot was 0."""
def ldl_factor(A: Tensor, *, hermitian: _bool = False, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.linalg_ldl_factor:
    """L and D with A = L D Lᵀ (Lᴴ where `hermitian`) in LAPACK's compact form. It is the Bunch-Kaufman decomposition of symmetric (or Hermitian) matrices."""
def ldl_factor_ex(A: Tensor, *, hermitian: _bool = False, check_errors: _bool = False, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.linalg_ldl_factor_ex:
    """Bunch-Kaufman decomposition A = L D Lᵀ (Lᴴ where `hermitian`) in LAPACK's compact form, and LAPACK's verdict."""
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: _bool = False, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """X with A X = B for A as `ldl_factor` gave it."""
def lstsq(A: Tensor, B: Tensor, rcond: _float | None = None, *, driver: _str | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.linalg_lstsq:
    """X with the least |A X - B|, as a named tuple (solution, residuals, rank, singular_values)."""
def lu(A: Tensor, *, pivot: _bool = True, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.linalg_lu:
    """Permutation P, lower triangular L with ones on its diagonal, and upper triangular U with A = P L U."""
def lu_factor(A: Tensor, *, pivot: _bool = True, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.linalg_lu_factor:
    """L and U with A = P L U in one matrix, and with which row each was exchanged (from 1). LinAlgError where a pivot is 0."""
def lu_factor_ex(A: Tensor, *, pivot: _bool = True, check_errors: _bool = False, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.linalg_lu_factor_ex:
    """`lu_factor`, A = P L U, and for each matrix 0 or the number of the first pivot that is 0."""
def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: _bool = True, adjoint: _bool = False, out: Tensor | None = None) -> Tensor:
    """X with A X = B (X A = B unless `left`; Aᴴ for A where `adjoint`) for A as `lu_factor` gave it."""
def matmul(input: Tensor, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """The matrix product `input @ other`. Two vectors give their dot product, a 0-dim tensor; a vector beside a matrix counts as a row on the left and as a column on the right, and its dimension does not appear in the result; dimensions before the last two count matrices and broadcast."""
def matrix_exp(A: Tensor) -> Tensor:
    """The exponential of square matrices, Σ Aᵏ / k!, by scaling, squaring and Taylor polynomials (Bader, Blanes, Casas 2019)."""
def matrix_norm(A: Tensor, ord: _float | _str | None = 'fro', dim: _Sequence[_int] = (-2, -1), keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """A norm of the matrices along two dimensions."""
def matrix_power(A: Tensor, n: _int, *, out: Tensor | None = None) -> Tensor:
    """A · A · … · A, n times, by repeated squaring; for negative n of the inverse, for 0 the identity."""
def matrix_rank(A: Tensor, tol: _Any = None, *, atol: _float | None = None, rtol: _float | None = None, hermitian: _bool = False, out: Tensor | None = None) -> Tensor:
    """How many singular values (moduli of eigenvalues where `hermitian`) are above max(atol, rtol · largest)."""
def multi_dot(tensors: _Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """A₁ · A₂ · … · Aₙ in the order of least work; the first and the last may be vectors."""
def norm(A: Tensor, ord: _float | _str | None = None, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, out: Tensor | None = None, dtype: _dtype | None = None) -> Tensor:
    """A norm: (Σ |a|^ord)^(1/ord) of vectors along one dimension, or that of matrices along two. Without `ord` and `dim` it is √(Σ |a|²)."""
def pinv(A: Tensor, rcond: _Any = None, hermitian: _bool = False, *, atol: _float | None = None, rtol: _float | None = None, out: Tensor | None = None) -> Tensor:
    """The pseudo-inverse of Moore and Penrose; singular values up to max(atol, rtol · largest) count as 0."""
def qr(A: Tensor, mode: _str = 'reduced', *, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.linalg_qr:
    """Q with orthonormal columns and upper triangular R with A = Q R, as a named tuple."""
def slogdet(A: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.linalg_slogdet:
    """det A / |det A| (or 0) and log |det A|, as a named tuple (sign, logabsdet)."""
def solve(A: Tensor, B: Tensor, *, left: _bool = True, out: Tensor | None = None) -> Tensor:
    """X with A X = B, or X A = B unless `left`; B is matrices, or vectors. LinAlgError where A is singular."""
def solve_ex(A: Tensor, B: Tensor, *, left: _bool = True, check_errors: _bool = False, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.linalg_solve_ex:
    """A⁻¹ B as `solve`, and for each matrix a number instead of an error. It is 0 or, where the matrix is singular, which pivot was 0."""
def solve_triangular(A: Tensor, B: Tensor, *, upper: _bool, left: _bool = True, unitriangular: _bool = False, out: Tensor | None = None) -> Tensor:
    """X with A X = B (or X A = B unless `left`) for triangular A, of which only that triangle is read, in A's dtype."""
def svd(A: Tensor, full_matrices: _bool = True, *, driver: _str | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.linalg_svd:
    """U, S and Vh with A = U diag(S) Vh: orthonormal columns and rows, and singular values in descending order."""
def svdvals(A: Tensor, *, driver: _str | None = None, out: Tensor | None = None) -> Tensor:
    """The diagonal of S in A = U S Vᴴ: singular values in descending order."""
def tensorinv(A: Tensor, ind: _int = 2, *, out: Tensor | None = None) -> Tensor:
    """The inverse with respect to `tensordot` over the first `ind` dimensions: tensordot(tensorinv(A), A, ind) is the identity."""
def tensorsolve(A: Tensor, B: Tensor, dims: _Sequence[_int] | None = None, *, out: Tensor | None = None) -> Tensor:
    """X with tensordot(A, X, X.ndim) = B; `dims` of A are first moved to the end."""
def vander(x: Tensor, *, N: _int | None = None) -> Tensor:
    """xᵢʲ for j = 0 … N-1, in a new last dimension. N is by default how many elements the last dimension has."""
def vecdot(x: Tensor, y: Tensor, *, dim: _int = -1, out: Tensor | None = None) -> Tensor:
    """Σ x* · y along `dim`, over all other dimensions broadcast."""
def vector_norm(x: Tensor | _complex, ord: _float | _str | None = 2, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
    """(Σ |x|^ord)^(1/ord) over `dim` (all dimensions flattened by default). Its derivative is 0 where an element (or all of them) is 0."""
