"""Matrix decompositions and solvers by LAPACK, as NumPy and SciPy give them, with derivatives as formulas over operations.

Matrices are the last two dimensions of a tensor; those before are batches.  A gradient is that of a real loss, the
derivative by the real part plus i times that by the imaginary part, so formulas hold Hermitian transposes.  They are
those of M. Giles, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation"
(2008), and of the papers named beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...core.base.dtypes import by_name, dtype
from ...core.base.tensor import TensorBase
from ...core.lib import linalg as core
from ...core.lib.linalg import small
from ...core.lib.products.products import matmul
from ..declare import host
from ..declare.host import Result, without_data
from ..declare.registry import leaf, library
from ..declare.results import accepts_out, into, named_result
from ..declare.shapes import broadcast
from ..on_device import matrices

# mypy reads the names of the tuples' classes as if they had to be those of the variables
cholesky_ex_result = named_result("linalg_cholesky_ex", "L", "info")
inv_ex_result = named_result("linalg_inv_ex", "inverse", "info")
solve_ex_result = named_result("linalg_solve_ex", "result", "info")

DTYPES = ("float32", "float64", "complex64", "complex128")
INT32 = by_name["int32"]


class LinAlgError(RuntimeError):
    """A matrix has not what was asked for: it is singular, not positive-definite, or an iteration did not converge."""


# --- arguments and arrays -------------------------------------------------------------------------------------------------
def checked(who: str, given: TensorBase, name: str = "A", square: bool = True) -> None:
    """TypeError unless a tensor, RuntimeError unless matrices (square ones) of a dtype that LAPACK knows."""
    if not isinstance(given, TensorBase):
        raise TypeError(f"{who}(): argument '{name}' must be Tensor, not {type(given).__name__}")
    if given.ndim < 2:
        raise RuntimeError(
            f"{who}: The input tensor {name} must have at least 2 dimensions, got {given.ndim}."
        )
    check_dtype(who, given)
    if square:
        check_square(who, given, name)


def check_square(who: str, given: TensorBase, name: str = "A") -> None:
    """RuntimeError unless the last two sizes are equal."""
    if given.shape[-1] != given.shape[-2]:
        raise RuntimeError(
            f"{who}: {name} must be batches of square matrices, but they are {given.shape[-2]} by {given.shape[-1]} matrices"
        )


def check_dtype(who: str, given: TensorBase) -> None:
    """NotImplementedError, a RuntimeError, unless the dtype is float32, float64, complex64 or complex128."""
    if given.dtype.name in ("float16", "bfloat16"):
        raise NotImplementedError(f"{who}: Low precision dtypes not supported. Got {given.dtype}")
    if given.dtype.name not in DTYPES:
        raise NotImplementedError(
            f"{who}: Expected a floating point or complex tensor as input. Got {given.dtype}"
        )


def each_matrix(*arrays: Any) -> Iterator[tuple]:
    """The matrices of stacks with the same batch dimensions, stack beside stack."""
    import numpy as np

    for place in np.ndindex(arrays[0].shape[:-2]):
        yield tuple(a[place] for a in arrays)


def by_matrix(rules: list[Result], function: Callable) -> Callable:
    """The function of single matrices, which gives a tuple, as one of stacks; `rules` as in `computed`."""

    def whole(*arrays: Any) -> Any:
        import numpy as np

        rows = [function(*ones) for ones in each_matrix(*arrays)]
        if not rows:
            return [np.zeros(r.shape, r.dtype.name) for r in rules]
        return [np.stack(column).reshape(r.shape) for column, r in zip(zip(*rows), rules)]

    return whole


def computed(rule: Any, function: Callable, *tensors: TensorBase, on_device: Callable | None = None) -> Any:
    """What a function makes of tensors of the CPU and another (`on_device/matrices.py`) of those of devices, or, of tensors without
    data, what the rule says of it.
    """
    if without_data(*tensors):
        return host.computed(rule, function, *tensors)
    if on_device is not None and not tensors[0].is_cpu:
        return on_device(*tensors)
    return function(*tensors)


def fresh(x: TensorBase) -> TensorBase:
    """A contiguous copy, to be written to."""
    return x.clone() if x.is_contiguous() else x.contiguous()


def one_for_all(a: TensorBase) -> TensorBase:
    """The matrix of a stack that repeats one, else the stack."""
    return a[(0,) * (a.ndim - 2)] if a.ndim > 2 and a.numel() and not any(a.stride()[:-2]) else a


def refuse(who: str, info: TensorBase, what: Callable[[int], str]) -> None:
    """LinAlgError where LAPACK's verdict on a matrix is not 0, with the first one's number in the batch and what it means."""
    failed = None if info.is_meta else _first_failure(info)
    if failed is not None:
        place, verdict = failed
        batch = f"(Batch element {place}): " if info.ndim else ""
        raise LinAlgError(f"{who}: {batch}{what(verdict)}")


def _first_failure(info: TensorBase) -> tuple[int, int] | None:
    """The number of the first matrix whose verdict is not 0, and the verdict."""
    if info.is_cpu:
        return core.jobs.first_failure(info)
    failed = (info != 0).reshape(-1)
    if not failed.any():
        return None
    place = int(failed.to(INT32).argmax())
    return place, int(info.reshape(-1)[place])


@leaf("lapack")
def linalg_check_errors(info: TensorBase, who: str, meaning: str) -> None:
    """`refuse` as an operation, for composites; `{}` in the meaning stands for the verdict's number."""
    refuse(who, info, meaning.format)


def real_dtype(x: TensorBase) -> dtype:
    """The dtype of the real parts."""
    return x.dtype.to_real()


def diagonal(x: TensorBase) -> TensorBase:
    """The main diagonals of matrices."""
    return x.diagonal(0, -2, -1)


def diagonal_matrix(x: TensorBase) -> TensorBase:
    """Matrices with these diagonals."""
    return x.diag_embed()


def identity(n: int, like: TensorBase) -> TensorBase:
    """The n by n identity matrix, in the dtype of another tensor."""
    return like.new_ones(n).diag()


# --- triangular systems ---------------------------------------------------------------------------------------------------
@library("lapack", "linalg.solve_triangular", composite=True, batching="solving")
def solve_triangular(
    A: TensorBase,
    B: TensorBase,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
    out: TensorBase | None = None,
) -> TensorBase:
    """X with A X = B (or X A = B unless `left`) for triangular A, of which only that triangle is read, in A's dtype.

    Shape:
        A: (*, n, n); B: (*, n, k); result: (*, n, k)

    Raises:
        RuntimeError: the matrices are not square

    >>> import flambeau
    >>> A = flambeau.tensor([[2., 0.], [1., 1.]])
    >>> flambeau.linalg.solve_triangular(A, flambeau.tensor([[2.], [3.]]), upper=False)
    tensor([[1.],
            [2.]])
    """
    checked("linalg.solve_triangular", A)
    if A.is_complex() or not B.is_complex():
        B = B.to(A.dtype)
    checked("linalg.solve_triangular", B, "B", square=False)
    if B.shape[-2 if left else -1] != A.shape[-1]:
        raise RuntimeError(
            f"linalg.solve_triangular: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({A.shape[-2]}x{A.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})"
        )
    A, B = same_batch("linalg.solve_triangular", A, B)
    result = (
        linalg_solve_triangular(A, B, upper, unitriangular)
        if left
        else linalg_solve_triangular(A.mT, B.mT, not upper, unitriangular).mT
    )
    return into(out, result, "linalg.solve_triangular")


def same_batch(who: str, a: TensorBase, b: TensorBase) -> tuple[TensorBase, TensorBase]:
    """Two stacks of matrices with their batch dimensions broadcast; RuntimeError where dtypes differ."""
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"{who}: Expected A and B to have the same dtype, but found {a.dtype} and {b.dtype} instead"
        )
    batch = broadcast((tuple(a.shape[:-2]), tuple(b.shape[:-2])))
    return a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:])


@leaf("lapack", batching="batches")
def linalg_solve_triangular(A: TensorBase, B: TensorBase, upper: bool, unit: bool) -> TensorBase:
    """X with A X = B, of matrices with the same batch dimensions, of which one triangle of A is read."""

    def solve_all(a: TensorBase, b: TensorBase) -> TensorBase:
        result, turned = fresh(b), not a.is_contiguous() and a.mT.is_contiguous()
        core.solves.triangular(a.mT if turned else a.contiguous(), result, upper, unit, turned)
        return result

    if small.takes(A) and B.is_cpu:
        return small.triangular(A, B, upper, unit)
    by = lambda a, b: matrices.triangular(a, b, upper, unit)
    return computed(Result(B.shape, B.dtype), solve_all, A, B, on_device=by)


@linalg_solve_triangular.derivative
def _triangular_gradient(
    grad: TensorBase, A: TensorBase, result: TensorBase, upper: bool, unit: bool
) -> tuple:
    to_B = linalg_solve_triangular(A.mH, grad, not upper, unit)
    to_A = -matmul(to_B, result.mH)
    return (to_A.triu(int(unit)) if upper else to_A.tril(-int(unit))), to_B


# --- general systems ------------------------------------------------------------------------------------------------------
def is_vector(A: TensorBase, B: TensorBase) -> bool:
    """Whether `B` is a batch of vectors, as NumPy 1 decided it: 1-dim, or with a dimension less than A and its batch."""
    return B.ndim == 1 or (B.ndim == A.ndim - 1 and tuple(B.shape) == tuple(A.shape[:-1]))


@library("lapack", "linalg.solve", composite=True, autocast=("float32", "fallthrough"), batching="solving")
def solve(A: TensorBase, B: TensorBase, *, left: bool = True, out: TensorBase | None = None) -> TensorBase:
    """X with A X = B, or X A = B unless `left`; B is matrices, or vectors.  LinAlgError where A is singular.

    Shape:
        A: (*, n, n); B: (*, n, k) or (*, n); result: as B

    Raises:
        RuntimeError: the matrices are not square
        LinAlgError: a matrix is singular

    >>> import flambeau
    >>> flambeau.linalg.solve(flambeau.tensor([[2., 0.], [0., 4.]]), flambeau.tensor([2., 4.]))
    tensor([1., 1.])
    """
    result, info = _solution(A, B, left)
    linalg_check_errors(info, "linalg.solve", _UNSOLVABLE)
    return into(out, result, "linalg.solve")


def _solution(A: TensorBase, B: TensorBase, left: bool) -> tuple[TensorBase, TensorBase]:
    """The solution, and for each matrix 0 or the number of the first pivot that is 0."""
    checked("linalg.solve", A)
    if B.ndim == 0:
        raise RuntimeError("linalg.solve(): B must have at least 1 dimension, got 0")
    vector = is_vector(A, B)
    if vector and not left:
        raise RuntimeError(
            "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False"
        )
    right = B.unsqueeze(-1) if vector else B
    if right.shape[-2 if left else -1] != A.shape[-1]:
        raise RuntimeError(
            f"linalg.solve: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({A.shape[-2]}x{A.shape[-1]} and {right.shape[-2]}x{right.shape[-1]})"
        )
    A, right = same_batch("linalg.solve", A, right)
    if not left:
        result, info = linalg_solve_systems(A.mT, right.mT)
        return result.mT, info
    result, info = linalg_solve_systems(A, right)
    return result.squeeze(-1) if vector else result, info


_UNSOLVABLE = "The solver failed because the input matrix is singular."


def _solve(A: TensorBase, B: TensorBase) -> TensorBase:
    X, info = linalg_solve_systems(A, B)
    linalg_check_errors(info, "linalg.solve", _UNSOLVABLE)
    return X


@leaf("lapack", results=("X", "info"), label="LinalgSolveExBackward0", batching="batches")
def linalg_solve_systems(A: TensorBase, B: TensorBase) -> tuple[TensorBase, TensorBase]:
    """The solution, and for each matrix 0 or the number of the first pivot that is 0."""

    def solve_all(a: TensorBase, b: TensorBase) -> tuple:
        if small.takes(a):
            return small.general_systems(a, b)
        one, result = one_for_all(a), fresh(b)
        info = core.solves.solve(fresh(one), result)
        return result, info.expand(a.shape[:-2]).contiguous()

    return computed(
        [Result(B.shape, B.dtype), Result(A.shape[:-2], INT32)], solve_all, A, B, on_device=matrices.solve
    )


@linalg_solve_systems.derivative
def _solve_gradient(grad: TensorBase, A: TensorBase, X: TensorBase) -> tuple:
    to_B, _ = linalg_solve_systems(A.mH, grad)
    return -matmul(to_B, X.mH), to_B


@library(
    "lapack",
    "linalg.inv",
    "inverse",
    "Tensor.inverse",
    reference="numpy.linalg.inv",
    name="inv",
    composite=True,
    autocast=("float32", "fallthrough"),
)
def inv(A: TensorBase, *, out: TensorBase | None = None) -> TensorBase:
    """A⁻¹, the inverse of square matrices; LinAlgError where one is singular.

    Shape:
        A: (*, n, n); the result has the same

    Raises:
        RuntimeError: the matrices are not square

    >>> import flambeau
    >>> flambeau.linalg.inv(flambeau.tensor([[2., 0.], [0., 4.]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    checked("linalg.inv", A)
    Y, info = linalg_inverse(A)
    linalg_check_errors(info, "linalg.inv", _SINGULAR)
    return into(out, Y, "linalg.inv")


_SINGULAR = "The diagonal element {} is zero, the inversion could not be completed because the input matrix is singular."


@leaf("lapack", results=("Y", "info"), label="LinalgInvExBackward0")
def linalg_inverse(A: TensorBase) -> tuple[TensorBase, TensorBase]:
    """The inverse, and for each matrix 0 or the number of the first pivot that is 0."""

    def invert(a: TensorBase) -> tuple:
        if small.takes(a):
            return small.inverse(a)
        return core.factors.inverse(fresh(a))

    rules = [Result(A.shape, A.dtype), Result(A.shape[:-2], INT32)]
    return computed(rules, invert, A, on_device=matrices.inverse)


@linalg_inverse.derivative
def _inverse_gradient(grad: TensorBase, Y: TensorBase) -> TensorBase:
    return -matmul(Y.mH, matmul(grad, Y.mH))


@library("lapack", "linalg.inv_ex", composite=True, autocast=("float32", "fallthrough"), gives=inv_ex_result)
@accepts_out
def inv_ex(A: TensorBase, *, check_errors: bool = False) -> tuple:
    """A⁻¹ as `inv`, and for each matrix a number instead of an error.
    It is 0 or, where the matrix is singular, which pivot was 0.

    Shape:
        A: (*, n, n); results: (*, n, n) and (*)

    Raises:
        RuntimeError: the matrices are not square
        LinAlgError: a matrix is singular, under `check_errors`

    >>> import flambeau
    >>> flambeau.linalg.inv_ex(flambeau.tensor([[2.0, 0.0], [0.0, 4.0]])).inverse
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    >>> flambeau.linalg.inv_ex(flambeau.zeros(2, 2)).info
    tensor(1, dtype=flambeau.int32)
    """
    checked("linalg.inv_ex", A)
    Y, info = linalg_inverse(A)
    if check_errors:
        linalg_check_errors(info, "linalg.inv_ex", _SINGULAR)
    return inv_ex_result(Y, info)


@library("lapack", "linalg.solve_ex", composite=True, batching="solving", gives=solve_ex_result)
@accepts_out
def solve_ex(A: TensorBase, B: TensorBase, *, left: bool = True, check_errors: bool = False) -> tuple:
    """A⁻¹ B as `solve`, and for each matrix a number instead of an error.
    It is 0 or, where the matrix is singular, which pivot was 0.

    Shape:
        A: (*, n, n); B: (*, n) or (*, n, k); results: as B, and (*)

    Raises:
        RuntimeError: the matrices are not square

    >>> import flambeau
    >>> flambeau.linalg.solve_ex(flambeau.tensor([[2.0, 0.0], [0.0, 4.0]]), flambeau.tensor([2.0, 2.0]))[0]
    tensor([1.0000, 0.5000])
    """
    result, info = _solution(A, B, left)
    if check_errors:
        linalg_check_errors(info, "linalg.solve_ex", _UNSOLVABLE)
    return solve_ex_result(result, info)


# --- Cholesky -------------------------------------------------------------------------------------------------------------
@library(
    "lapack",
    "linalg.cholesky_ex",
    composite=True,
    autocast=("float32", "fallthrough"),
    gives=cholesky_ex_result,
)
@accepts_out
def cholesky_ex(A: TensorBase, *, upper: bool = False, check_errors: bool = False) -> tuple:
    """L with A = L Lᴴ as `cholesky`, and for each matrix a number instead of an error.
    It is 0 or the order of the first leading minor that is not positive.

    Shape:
        A: (*, n, n); results: (*, n, n) and (*)

    Raises:
        RuntimeError: the matrices are not square

    >>> import flambeau
    >>> flambeau.linalg.cholesky_ex(flambeau.tensor([[4.0, 2.0], [2.0, 2.0]])).L
    tensor([[2., 0.],
            [1., 1.]])
    >>> flambeau.linalg.cholesky_ex(-flambeau.eye(2)).info
    tensor(1, dtype=flambeau.int32)
    """
    checked("linalg.cholesky_ex", A)
    L, info = linalg_cholesky_factor(A, upper)
    if check_errors:
        linalg_check_errors(info, "linalg.cholesky", _NOT_POSITIVE)
    return cholesky_ex_result(L.mH if upper else L, info)


@leaf("lapack", results=("L", "info"), label="LinalgCholeskyExBackward0")
def linalg_cholesky_factor(A: TensorBase, upper: bool) -> tuple[TensorBase, TensorBase]:
    """The lower triangular factor, of Aᴴ where `upper`, and for each matrix 0 or the order of the first minor that is not positive."""
    rules = [Result(A.shape, A.dtype), Result(A.shape[:-2], INT32)]

    def factor(a: TensorBase) -> tuple:
        result = fresh(a)
        return result, core.cholesky.factor(result)

    if small.takes(A):
        return small.cholesky(A.mT if upper else A)
    return computed(rules, factor, A.mH if upper else A, on_device=matrices.cholesky)


_NOT_POSITIVE = (
    "The factorization could not be completed because the input is not positive-definite "
    "(the leading minor of order {} is not positive-definite)."
)


@linalg_cholesky_factor.derivative
def _cholesky_gradient(grad: TensorBase, L: TensorBase) -> tuple:
    """L⁻ᴴ sym(tril(Lᴴ ∂L)) L⁻¹: I. Murray, "Differentiation of the Cholesky decomposition" (2016)."""
    inner = matmul(L.mH, grad).tril()
    inner = (inner + inner.tril(-1).mH) * 0.5
    left = linalg_solve_triangular(L.mH, inner, True, False)
    return (linalg_solve_triangular(L.mH, left.mH, True, False).mH,)


@library("lapack", "linalg.cholesky", composite=True, autocast=("float32", "fallthrough"))
def cholesky(A: TensorBase, *, upper: bool = False, out: TensorBase | None = None) -> TensorBase:
    """Lower triangular L with A = L Lᴴ, or its Hermitian transpose where `upper`; A is Hermitian, positive-definite.

    LinAlgError where it is not.

    Shape:
        A: (*, n, n); the result has the same

    Raises:
        RuntimeError: the matrices are not square

    >>> import flambeau
    >>> flambeau.linalg.cholesky(flambeau.tensor([[4., 2.], [2., 2.]]))
    tensor([[2., 0.],
            [1., 1.]])
    """
    return into(out, cholesky_ex(A, upper=upper, check_errors=True)[0], "linalg.cholesky")
