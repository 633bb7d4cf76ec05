"""Triangular systems and the decompositions of Cholesky, LU and QR on devices.

A step of each algorithm is a launch or three over all elements of all matrices (G. Golub, C. Van Loan, "Matrix Computations", 2013,
algorithms 3.1.3, 3.4.1, 4.2.1 and 5.2.1), so n columns take some n launches.  LAPACK adds in another order: bits differ from the CPU's.
Conventions are LAPACK's.  Large matrices on NVIDIA's devices are cuSOLVER's, where it is installed (`devices/cusolver.py`).
"""

from __future__ import annotations

from typing import Any

from ...codegen import functions as fn
from ...codegen.expr import Expr
from ...core.base.callbacks import callbacks
from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ...core.make.create import arange
from ...core.places.join import stack
from ...core.tape.contexts import unrecorded
from ..declare.indexed import indexed

INT32, INT64 = by_name["int32"], by_name["int64"]


# --- numbers that may be complex ------------------------------
def _times(a: Expr, b: Expr) -> Expr:
    if not fn.is_complex(a.dtype):
        return a * b
    (ar, ai), (br, bi) = (fn.real(a), fn.imag(a)), (fn.real(b), fn.imag(b))
    return fn.pair(ar * br - ai * bi, ar * bi + ai * br)


def _plus(a: Expr, b: Expr) -> Expr:
    if not fn.is_complex(a.dtype):
        return a + b
    return fn.pair(fn.real(a) + fn.real(b), fn.imag(a) + fn.imag(b))


def _minus(a: Expr, b: Expr) -> Expr:
    if not fn.is_complex(a.dtype):
        return a - b
    return fn.pair(fn.real(a) - fn.real(b), fn.imag(a) - fn.imag(b))


def _over(a: Expr, b: Expr) -> Expr:
    """The quotient; of complex numbers with the divisor scaled, so that its modulus neither overflows nor vanishes."""
    if not fn.is_complex(a.dtype):
        return a / b
    br, bi = fn.real(b), fn.imag(b)
    size = fn.maximum(abs(br), abs(bi))
    br, bi = br / size, bi / size
    length = br * br + bi * bi
    ar, ai = fn.real(a) / size, fn.imag(a) / size
    return fn.pair((ar * br + ai * bi) / length, (ai * br - ar * bi) / length)


def _real(value: Expr, like: Expr) -> Expr:
    """A real number as one of the dtype of another."""
    return fn.pair(value, fn.like(value, 0.0)) if fn.is_complex(like.dtype) else value


def solver_for(a: TensorBase) -> Any:
    """The device's library of decompositions, where it has one that is faster for this stack of matrices; else None."""
    return callbacks["device.solver"](a) if a.is_cuda else None  # type: ignore[attr-defined]


# --- triangular systems ------------------------------
@indexed(static=("upper", "unit"))
def _solved(at, b, a, *, step, upper, unit):
    """B after row `step` of the triangle has been solved for and taken from the rows that follow."""
    *batch, i, c = at
    k = step
    x = b[(*batch, k, c)]
    x = x if unit else _over(x, a[(*batch, k, k)])
    rest = _minus(b[at], _times(a[(*batch, i, k)], x))
    return (fn.where(i == k, x, fn.where((i < k) if upper else (i > k), rest, b[at])),)


def triangular(a: TensorBase, b: TensorBase, upper: bool, unit: bool) -> TensorBase:
    """X with A X = B, of stacks of one shape, of which one triangle of A is read."""
    with unrecorded():
        result = b.contiguous()
        n = a.shape[-1]
        for k in reversed(range(n)) if upper else range(n):
            result = _solved(result.shape, result, a, step=k, upper=bool(upper), unit=bool(unit))
        return result.clone() if result is b else result


# --- Cholesky ------------------------------
@indexed()
def _cholesky_step(at, a, *, step):
    """The matrix after column `step` of the factor has been made, in place of the matrix's own."""
    *batch, i, j = at
    k = step
    head = fn.real(a[(*batch, k, k)])
    root = fn.sqrt(head)
    row, column = a[(*batch, i, k)], a[(*batch, j, k)]
    scaled = _over(row, _real(root, row))
    rest = _minus(a[at], _times(scaled, fn.conj(_over(column, _real(root, row)))))
    made = fn.where(i == k, _real(root, row), scaled)
    return (fn.where((j == k) & (i >= k), made, fn.where((j > k) & (i >= j), rest, a[at])),)


def cholesky(a: TensorBase) -> tuple[TensorBase, TensorBase]:
    """The lower factor, and for each matrix 0 or the order of the first minor that is not positive."""
    with unrecorded():
        if (solver := solver_for(a)) is not None:
            return solver.cholesky(a)
        result = a.tril().contiguous()
        n = a.shape[-1]
        for k in range(n):
            result = _cholesky_step(result.shape, result, step=k)
        return result, _first(~(_diagonal_parts(result) > 0))


def _diagonal_parts(x: TensorBase) -> TensorBase:
    """The real parts of the diagonals."""
    main = x.diagonal(0, -2, -1)
    return main.real if x.is_complex() else main


def _first(failed: TensorBase) -> TensorBase:
    """For each row, 0 or the number of the first element that holds, from 1."""
    if failed.shape[-1] == 0:
        return failed.new_zeros(failed.shape[:-1], dtype=INT32)
    number = failed.to(INT32).argmax(-1) + 1
    return (number * failed.any(-1)).to(INT32)


# --- LU ------------------------------
@indexed(moves=())
def _lu_step(at, a, pivots, *, step):
    """The matrix after rows `step` and its pivot's have been exchanged and the column below has been eliminated."""
    *batch, i, j = at
    k = step
    p = fn.cast(pivots[tuple(batch)] if batch else pivots[()], i.dtype)
    source = fn.where(i == k, p, fn.where(i == p, k, i))
    value, head = a[(*batch, source, j)], a[(*batch, p, k)]
    zero = (fn.real(head) == 0.0) & (fn.imag(head) == 0.0)
    below = a[(*batch, source, k)]
    factor = fn.where(zero, below, _over(below, head))
    rest = _minus(value, _times(factor, a[(*batch, p, j)]))
    return (fn.where((i > k) & (j == k), factor, fn.where((i > k) & (j > k), rest, value)),)


def _size(x: TensorBase) -> TensorBase:
    """What LAPACK compares pivots by."""
    return x.real.abs() + x.imag.abs() if x.is_complex() else x.abs()


def lu(a: TensorBase) -> tuple[TensorBase, TensorBase, TensorBase]:
    """L and U in one matrix, the rows exchanged at each step (from 1, int32), and 0 or the first zero pivot's number."""
    with unrecorded():
        if (solver := solver_for(a)) is not None:
            return solver.lu(a)
        result = a.contiguous()
        m, n = a.shape[-2:]
        pivots = []
        for k in range(min(m, n)):
            p = _size(result.select(-1, k).narrow(-1, k, m - k)).argmax(-1) + k if a.numel() else None
            p = a.new_full(a.shape[:-2], k, dtype=INT64) if p is None else p
            pivots.append((p + 1).to(INT32))
            result = _lu_step(result.shape, result, p, step=k)
        result = result.clone() if result is a else result
        if not pivots:
            none = a.new_zeros((*a.shape[:-2], 0), dtype=INT32)
            return result, none, a.new_zeros(a.shape[:-2], dtype=INT32)
        return result, stack(pivots, -1).contiguous(), _first(result.diagonal(0, -2, -1) == 0)


@indexed(dtypes=(INT64,))
def _row_order(at, pivots):
    """Where the row that stands at a place after all exchanges came from."""
    *batch, i = at

    def step(k, place):
        other = fn.cast(pivots[(*batch, k)], at.integer) - 1
        return k - 1, fn.where(place == k, other, fn.where(place == other, k, place))

    place = at.repeat((pivots.size(pivots.rank - 1) - 1, i), lambda k, _: k >= 0, step)[1]
    return (fn.cast(place, "int64"),)


def row_order(pivots: TensorBase, m: int) -> TensorBase:
    """Which row of the matrix stands at each place after the exchanges."""
    with unrecorded():
        return _row_order((*pivots.shape[:-1], m), pivots)


def _with_lu(factors: TensorBase, pivots: TensorBase, b: TensorBase) -> TensorBase:
    n = factors.shape[-1]
    rows = row_order(pivots, n).unsqueeze(-1).expand(b.shape)
    half = triangular(factors, b.gather(-2, rows), False, True)
    return triangular(factors, half, True, False)


def solve(a: TensorBase, b: TensorBase) -> tuple[TensorBase, TensorBase]:
    """The solution, and for each matrix 0 or the number of the first pivot that is 0."""
    with unrecorded():
        if (solver := solver_for(a)) is not None:
            return solver.solve(a, b)
        factors, pivots, info = lu(a)
        return _with_lu(factors, pivots, b), info


def inverse(a: TensorBase) -> tuple[TensorBase, TensorBase]:
    """The inverse, and for each matrix 0 or the number of the first pivot that is 0."""
    with unrecorded():
        one = a.new_ones(a.shape[-1]).diag().expand(a.shape)
        return solve(a, one.contiguous())


def determinant(a: TensorBase, logarithm: bool) -> tuple[TensorBase, Any]:
    """The determinant and None, or sign and logarithm of its modulus."""
    with unrecorded():
        factors, pivots, _ = lu(a)
        main = factors.diagonal(0, -2, -1)
        kept = arange(1, main.shape[-1] + 1, device=a.device)
        odd = (pivots != kept).sum(-1) % 2
        turn = (1 - 2 * odd).to(a.dtype)
        wide = main.to(by_name["complex128" if a.is_complex() else "float64"])
        if not logarithm:
            return (wide.prod(-1)).to(a.dtype) * turn, None
        size = wide.abs()
        signs = wide.sgn() if a.is_complex() else wide.sign()
        return signs.prod(-1).to(a.dtype) * turn, size.log().sum(-1).to(a.dtype.to_real())


# --- QR ------------------------------
@indexed(effort=32)
def _inner(at, v, e, *, step):
    """Σ v̄ᵢ eᵢ over the rows below `step`, of column `step` of v and a column of e."""
    *batch, c = at
    k = step
    zero = _real(fn.real(e[(*batch, k, c)]) * 0.0, e[(*batch, k, c)])
    zero = _minus(zero, zero)

    def turn(i, total):
        return i + 1, _plus(total, _times(fn.conj(v[(*batch, i, k)]), e[(*batch, i, c)]))

    return (at.repeat((k + 1, zero), lambda i, _: i < e.size(e.rank - 2), turn)[1],)


def _reflector(a: Any, sums: Any, batch: list, k: Expr) -> tuple[Expr, Expr, Expr]:
    """β, τ and what the column below is divided by, of LAPACK's larfg; β is α and τ is 0 where there is nothing to reflect."""
    alpha = a[(*batch, k, k)]
    square = fn.real(sums[(*batch, k)])
    real, imag = fn.real(alpha), fn.imag(alpha)
    none = (square == 0.0) & (imag == 0.0)
    length = fn.sqrt(real * real + imag * imag + square)
    beta = fn.copysign(length, -real)
    divisor = _minus(alpha, _real(beta, alpha))
    safe = fn.where(none, fn.like(beta, 1.0), beta)
    tau = (safe - real) / safe
    tau = fn.pair(tau, -imag / safe) if fn.is_complex(alpha.dtype) else tau
    zero = _real(beta * 0.0, alpha)
    one = _real(fn.like(beta, 1.0), alpha)
    return (
        fn.where(none, alpha, _real(beta, alpha)),
        fn.where(none, _minus(zero, zero), tau),
        fn.where(none, one, divisor),
    )


@indexed()
def _tau(at, a, sums, *, step):
    k = step
    return (_reflector(a, sums, list(at), k)[1],)


@indexed()
def _reflected(at, a, sums, *, step):
    """The matrix after the reflection of column `step`, whose vector stands below the diagonal."""
    *batch, i, j = at
    k = step
    beta, tau, divisor = _reflector(a, sums, batch, k)
    vector = _over(a[(*batch, i, k)], divisor)
    dot = _plus(a[(*batch, k, j)], _over(sums[(*batch, j)], fn.conj(divisor)))
    factor = _times(fn.conj(tau), dot)
    right = fn.where(i == k, _minus(a[at], factor), _minus(a[at], _times(vector, factor)))
    column = fn.where(i == k, beta, vector)
    return (fn.where(i < k, a[at], fn.where(j == k, column, fn.where(j > k, right, a[at]))),)


@indexed()
def _applied(at, e, v, tau, sums, *, step):
    """E after one reflection from the left."""
    *batch, i, c = at
    k = step
    dot = _plus(e[(*batch, k, c)], sums[(*batch, c)])
    factor = _times(tau[(*batch, k)], dot)
    rest = fn.where(i == k, _minus(e[at], factor), _minus(e[at], _times(v[(*batch, i, k)], factor)))
    return (fn.where(i < k, e[at], rest),)


def qr(a: TensorBase) -> tuple[TensorBase, TensorBase]:
    """R with the reflections' vectors below it, and their scales: LAPACK's geqrf."""
    with unrecorded():
        if (solver := solver_for(a)) is not None:
            return solver.qr(a)
        result, taus = a.contiguous(), []
        m, n = a.shape[-2:]
        batch = a.shape[:-2]
        for k in range(min(m, n)):
            sums = _inner((*batch, n), result, result, step=k)
            taus.append(
                _tau(batch, result, sums, step=k)
                if batch
                else _tau((1,), result[None], sums[None], step=k)[0]
            )
            result = _reflected(result.shape, result, sums, step=k)
        result = result.clone() if result is a else result
        return result, stack(taus, -1).contiguous() if taus else a.new_empty((*batch, 0))


def orthogonal(a: TensorBase, k: int, wanted: bool) -> tuple[TensorBase, TensorBase]:
    """Q with k columns (nothing unless `wanted`), and R."""
    with unrecorded():
        compact, tau = qr(a)
        m, n = a.shape[-2:]
        R = compact.narrow(-2, 0, min(k, m)).triu().contiguous()
        if not wanted:
            return a.new_empty(0), R
        batch = a.shape[:-2]
        Q = a.new_ones(min(m, k)).diag()
        if m > k:
            Q = a.new_zeros((m, k)).copy_(a.new_ones(m).diag().narrow(-1, 0, k))
        Q = Q.expand(*batch, m, k).contiguous()
        for step in reversed(range(min(m, n, k))):
            sums = _inner((*batch, k), compact, Q, step=step)
            Q = _applied(Q.shape, Q, compact, tau, sums, step=step)
        return Q, R
