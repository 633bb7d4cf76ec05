"""ONNX forms of systems, decompositions and eigenvalues: loops of a few operators, in float64.

ONNX has no operator for them but the determinant.  Rows and columns are chosen by comparing their numbers with that of the turn, so one
turn serves matrices of any size and any number of them.  What LAPACK finds wrong with a matrix is in `info` where there is one; nothing
is raised in the exported model.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..declare.onnx import onnx_form
from .decompositions import (
    linalg_eigh,
    linalg_eigvalsh,
    linalg_lu_factor_ex,
    linalg_lu_permutation,
    linalg_qr,
    linalg_svdvals,
)
from .determinants import linalg_slogdet
from .exponential import matrix_exp
from .lapack import linalg_cholesky_factor, linalg_inverse, linalg_solve_systems, linalg_solve_triangular
from .matrices import linalg_cholesky_inverse, linalg_cholesky_solve, linalg_lstsq, linalg_pinv

SWEEPS = 12  # of Jacobi's rotations over all pairs, after which nothing changes in float64


def _wide(g: Any, *given: Any) -> list[Any]:
    return [g.cast(x, "float64").of(x.shape) for x in given]


def _ends(g: Any, *result: Any) -> list[Any]:
    return [g.cast(v, r.dtype) for v, r in zip(result, g.results)]


def _empty(g: Any) -> list[Any]:
    """Results without elements, and those that say 0."""
    return [g.expand(g.number(0, r.dtype), r.shape) for r in g.results]


def _rows(g: Any, n: int) -> Any:
    return g.constant(np.arange(n)[:, None], "int64")


def _columns(g: Any, n: int) -> Any:
    return g.constant(np.arange(n), "int64")


def _zero(g: Any) -> Any:
    return g.number(0, "float64")


def _row_at(g: Any, x: Any, here: Any) -> Any:
    """The row where `here` is true, (…, 1, n)."""
    return g.reduce("ReduceSum", g.Where(here, x, _zero(g)), [-2], True)


def _column_at(g: Any, x: Any, here: Any) -> Any:
    return g.reduce("ReduceSum", g.Where(here, x, _zero(g)), [-1], True)


def _identity(g: Any, n: int) -> Any:
    return g.constant(np.eye(n), "float64")


def _swapped(g: Any, x: Any, k: Any, rows: Any, columns: Any) -> tuple[Any, Any, Any]:
    """The row of the largest element of column k from row k on, exchanged with row k; which it was, and which rows are k."""
    at_row, at_column = g.Equal(rows, k), g.Equal(columns, k)
    size = g.Where(g.GreaterOrEqual(rows, k), g.Abs(_column_at(g, x, at_column)), g.number(-1, "float64"))
    place = g.op("ArgMax", size, axis=-2, keepdims=1)
    at_place = g.Equal(rows, place)
    taken, own = _row_at(g, x, at_place), _row_at(g, x, at_row)
    return g.Where(at_row, taken, g.Where(at_place, own, x)), place, at_row


def _eliminated(g: Any, A: Any, B: Any) -> tuple[Any, Any, Any, Any]:
    """A⁻¹ B by Gauss and Jordan with pivots; the sign of the determinant, the logarithm of its size, and the first pivot that is 0."""
    n, m = A.shape[-1], B.shape[-1]
    batch = A.shape[:-2]
    rows, columns = _rows(g, n), _columns(g, n + m)
    start = g.op("Concat", A, B, axis=-1).of((*batch, n, n + m))
    one = (*batch, 1, 1)
    states = [
        start,
        g.expand(g.number(1, "float64"), one),
        g.expand(_zero(g), one),
        g.expand(g.number(0, "int64"), one),
    ]

    def turn(k: Any, states: Any) -> list[Any]:
        x, sign, log, info = states
        x, place, at_row = _swapped(g, x, k, rows, columns)
        column = _column_at(g, x, g.Equal(columns, k))
        pivot = _row_at(g, column, at_row)
        scaled = g.Div(_row_at(g, x, at_row), pivot)
        left = g.Where(at_row, scaled, g.Sub(x, g.Mul(column, scaled)))
        turned = g.Where(g.Equal(place, k), sign, g.Neg(sign))
        none = g.And(g.Equal(pivot, 0), g.Equal(info, 0))
        return [
            left,
            g.Mul(turned, g.Sign(pivot)),
            g.Add(log, g.Log(g.Abs(pivot))),
            g.Where(none, g.Add(k, 1), info),
        ]

    x, sign, log, info = g.loop(n, states, turn)
    return g.slice(x, -1, n, n + m), sign, log, info


@onnx_form(linalg_inverse)
def _(g: Any, A: Any) -> Any:
    if 0 in A.shape:
        return _empty(g)
    (a,) = _wide(g, A)
    n = A.shape[-1]
    result, _, _, info = _eliminated(g, a, g.expand(_identity(g, n), A.shape))
    return _ends(g, result, g.squeeze(info, [-2, -1]))


@onnx_form(linalg_solve_systems)
def _(g: Any, A: Any, B: Any) -> Any:
    if 0 in A.shape or 0 in B.shape:
        return _empty(g)
    a, b = _wide(g, A, B)
    line = B.rank == A.rank - 1
    b = g.unsqueeze(b, [B.rank]).of((*B.shape, 1)) if line else b
    batch = np.broadcast_shapes(A.shape[:-2], b.shape[:-2])
    a, b = g.expand(a, (*batch, *A.shape[-2:])), g.expand(b, (*batch, *b.shape[-2:]))
    result, _, _, info = _eliminated(g, a, b)
    return _ends(g, g.squeeze(result, [-1]) if line else result, g.squeeze(info, [-2, -1]))


@onnx_form(linalg_slogdet)
def _(g: Any, A: Any) -> Any:
    if not A.shape[-1]:
        sign, log = g.results
        return g.expand(g.number(1, sign.dtype), sign.shape), g.expand(g.number(0, log.dtype), log.shape)
    if 0 in A.shape:
        return _empty(g)
    (a,) = _wide(g, A)
    _, sign, log, info = _eliminated(g, a, g.slice(a, -1, 0, 1).of((*A.shape[:-1], 1)))
    singular = g.Not(g.Equal(info, 0))
    sign = g.Where(singular, _zero(g), sign)
    log = g.Where(singular, g.number(-math.inf, "float64"), log)
    return _ends(g, g.squeeze(sign, [-2, -1]), g.squeeze(log, [-2, -1]))


@onnx_form(linalg_lu_factor_ex)
def _(g: Any, A: Any) -> Any:
    if 0 in A.shape:
        return _empty(g)
    (a,) = _wide(g, A)
    *batch, m, n = A.shape
    steps = min(m, n)
    rows, columns, places = _rows(g, m), _columns(g, n), _columns(g, steps)
    states = [
        a,
        g.expand(g.number(0, "int64"), (*batch, steps)),
        g.expand(g.number(0, "int64"), (*batch, 1, 1)),
    ]

    def turn(k: Any, states: Any) -> list[Any]:
        x, pivots, info = states
        x, place, at_row = _swapped(g, x, k, rows, columns)
        at_column = g.Equal(columns, k)
        column, own = _column_at(g, x, at_column), _row_at(g, x, at_row)
        pivot = _row_at(g, column, at_row)
        safe = g.Where(g.Equal(pivot, 0), g.number(1, "float64"), pivot)
        factor = g.Where(g.Greater(rows, k), g.Div(column, safe), _zero(g))
        rest = g.Sub(x, g.Mul(factor, g.Where(g.Greater(columns, k), own, _zero(g))))
        x = g.Where(g.And(g.Greater(rows, k), at_column), factor, rest)
        number = g.Add(g.squeeze(place, [-1]), 1)
        none = g.And(g.Equal(pivot, 0), g.Equal(info, 0))
        return [x, g.Where(g.Equal(places, k), number, pivots), g.Where(none, g.Add(k, 1), info)]

    x, pivots, info = g.loop(steps, states, turn)
    return _ends(g, x, pivots, g.squeeze(info, [-2, -1]))


@onnx_form(linalg_lu_permutation)
def _(g: Any, pivots: Any, m: int, dtype: Any) -> Any:
    if 0 in g.results[0].shape:
        return _empty(g)
    *batch, steps = pivots.shape
    line, places = _columns(g, m), _columns(g, steps)
    exchanged = g.cast(pivots, "int64")

    def turn(k: Any, states: Any) -> list[Any]:
        (order,) = states
        none = g.number(0, "int64")
        other = g.reduce("ReduceSum", g.Where(g.Equal(places, k), exchanged, none), [-1], True)
        other = g.Sub(other, 1)
        at, there = g.Equal(line, k), g.Equal(line, other)
        own = g.reduce("ReduceSum", g.Where(at, order, none), [-1], True)
        taken = g.reduce("ReduceSum", g.Where(there, order, none), [-1], True)
        return [g.Where(at, taken, g.Where(there, own, order))]

    (order,) = g.loop(steps, [g.expand(line, (*batch, m))], turn) if steps else (g.expand(line, (*batch, m)),)
    return g.cast(g.Equal(_rows(g, m), g.unsqueeze(order, [len(batch)])), g.results[0].dtype)


def _triangular(g: Any, A: Any, B: Any, upper: bool, unit: bool) -> Any:
    n = A.shape[-1]
    rows, columns = _rows(g, n), _columns(g, n)

    def turn(number: Any, states: Any) -> list[Any]:
        (x,) = states
        k = g.Sub(g.number(n - 1, "int64"), number) if upper else number
        at_row = g.Equal(rows, k)
        column = _column_at(g, A, g.Equal(columns, k))
        result = _row_at(g, x, at_row)
        if not unit:
            result = g.Div(result, _row_at(g, column, at_row))
        behind = (g.Less if upper else g.Greater)(rows, k)
        rest = g.Sub(x, g.Mul(g.Where(behind, column, _zero(g)), result))
        return [g.Where(at_row, result, rest)]

    return g.loop(n, [B], turn)[0].of(B.shape)


@onnx_form(linalg_solve_triangular)
def _(g: Any, A: Any, B: Any, upper: bool, unit: bool) -> Any:
    if 0 in A.shape or 0 in B.shape:
        return _empty(g)
    a, b = _wide(g, A, B)
    return _ends(g, _triangular(g, a, b, bool(upper), bool(unit)))[0]


@onnx_form(linalg_cholesky_solve)
def _(g: Any, B: Any, L: Any, upper: bool) -> Any:
    if 0 in L.shape or 0 in B.shape:
        return _empty(g)
    factor, b = _wide(g, L, B)
    return _ends(g, _by_both_triangles(g, factor, b, bool(upper)))[0]


@onnx_form(linalg_cholesky_inverse)
def _(g: Any, L: Any, upper: bool) -> Any:
    if 0 in L.shape:
        return _empty(g)
    (factor,) = _wide(g, L)
    return _ends(g, _by_both_triangles(g, factor, g.expand(_identity(g, L.shape[-1]), L.shape), bool(upper)))[
        0
    ]


def _by_both_triangles(g: Any, factor: Any, b: Any, upper: bool) -> Any:
    turned = _turned(g, factor)
    lower, other = (turned, factor) if upper else (factor, turned)
    return _triangular(g, other, _triangular(g, lower, b, False, False), True, False)


def _turned(g: Any, x: Any) -> Any:
    rank = x.rank
    return g.transpose(x, [*range(rank - 2), rank - 1, rank - 2])


@onnx_form(linalg_cholesky_factor)
def _(g: Any, A: Any, upper: bool) -> Any:
    if 0 in A.shape:
        return _empty(g)
    (a,) = _wide(g, A)
    a = _turned(g, a) if upper else a
    n, batch = A.shape[-1], A.shape[:-2]
    rows, columns = _rows(g, n), _columns(g, n)
    zeros = g.expand(_zero(g), A.shape)

    def turn(k: Any, states: Any) -> list[Any]:
        x, lower, info = states
        column = g.Where(g.GreaterOrEqual(rows, k), _column_at(g, x, g.Equal(columns, k)), _zero(g))
        square = _row_at(g, column, g.Equal(rows, k))
        none = g.And(g.Not(g.Greater(square, 0)), g.Equal(info, 0))
        column = g.Div(column, g.Sqrt(square)).of((*batch, n, 1))
        rest = g.Sub(x, g.Mul(column, _turned(g, column)))
        return [rest, g.Where(g.Equal(columns, k), column, lower), g.Where(none, g.Add(k, 1), info)]

    info = g.expand(g.number(0, "int64"), (*batch, 1, 1))
    _, lower, info = g.loop(n, [a, zeros, info], turn)
    return _ends(g, lower, g.squeeze(info, [-2, -1]))


@onnx_form(linalg_qr)
def _(g: Any, A: Any, mode: str) -> Any:
    """Householder's reflections, with the signs of LAPACK's."""
    *batch, m, n = A.shape
    if 0 in A.shape:
        q, r = _empty(g)
        own = g.results[0]
        return q if 0 in own.shape else g.expand(g.cast(_identity(g, m), own.dtype).of((m, m)), own.shape), r
    (a,) = _wide(g, A)
    rows, columns = _rows(g, m), _columns(g, n)

    def turn(k: Any, states: Any) -> list[Any]:
        r, q = states
        at_row = g.Equal(rows, k)
        x = g.Where(g.GreaterOrEqual(rows, k), _column_at(g, r, g.Equal(columns, k)), _zero(g))
        first = _row_at(g, x, at_row)
        length = g.Sqrt(g.reduce("ReduceSum", g.Mul(x, x), [-2], True))
        beta = g.Where(g.Less(first, 0), length, g.Neg(length))
        v = g.Where(at_row, g.Sub(x, beta), x).of((*batch, m, 1))
        below = g.reduce("ReduceSum", g.Abs(g.Where(at_row, _zero(g), x)), [-2], True)
        square = g.reduce("ReduceSum", g.Mul(v, v), [-2], True)
        plain = g.Equal(below, 0)
        factor = g.Where(
            plain, _zero(g), g.Div(g.number(2, "float64"), g.Where(plain, g.number(1, "float64"), square))
        )
        turned = _turned(g, v)
        left = g.Mul(factor, g.Mul(v, g.MatMul(turned, r)))
        right = g.Mul(factor, g.Mul(g.MatMul(q, v), turned))
        return [g.Sub(r, left), g.Sub(q, right)]

    start = g.expand(_identity(g, m), (*batch, m, m))
    r, q = g.loop(min(m, n), [a, start], turn)
    k = m if mode == "complete" else min(m, n)
    r = g.op("Trilu", g.slice(r, -2, 0, k), upper=1)
    if mode == "r":
        shape = g.results[0].shape
        return g.expand(g.number(0, g.results[0].dtype), shape), g.cast(r, g.results[1].dtype)
    return _ends(g, g.slice(q, -1, 0, k), r)


@onnx_form(matrix_exp)
def _(g: Any, A: Any) -> Any:
    """Taylor's polynomial of A / 2ˢ, squared s times."""
    if 0 in A.shape:
        return _empty(g)
    (a,) = _wide(g, A)
    sums = g.reduce("ReduceSum", g.Abs(a), [-1])
    norm = g.reduce("ReduceMax", g.reshape(sums.of(()), [math.prod(A.shape[:-1])]), [0])
    times = g.Max(g.Ceil(g.Div(g.Log(g.Max(norm, 1e-30)), math.log(2))), -1.0)
    times = g.Add(times, 1)
    small = g.Div(a, g.Pow(g.number(2, "float64"), times))
    one = _identity(g, A.shape[-1])
    result = one
    for k in range(18, 0, -1):
        result = g.Add(one, g.Mul(g.MatMul(small, result), 1 / k))
    result = result.of(A.shape)
    return _ends(g, g.loop(g.cast(times, "int64"), [result], lambda k, s: [g.MatMul(s[0], s[0])])[0])[0]


# --- eigenvalues ------------------------------
def _eigen(g: Any, A: Any) -> tuple[Any, Any]:
    """Eigenvalues of symmetric matrices, ascending, and eigenvectors as columns, by Jacobi's rotations."""
    *batch, _, n = A.shape
    if n == 1:
        return g.squeeze(A, [-1]), g.expand(g.number(1, "float64"), A.shape)
    pairs = [(p, q) for p in range(n) for q in range(p + 1, n)]
    firsts, seconds = (g.constant(np.array([x[k] for x in pairs]), "int64") for k in (0, 1))
    rows, columns, one = _rows(g, n), _columns(g, n), _identity(g, n)

    def turn(number: Any, states: Any) -> list[Any]:
        a, v = states
        at = g.op("Mod", number, g.number(len(pairs), "int64"))
        p, q = (g.op("Gather", t, at, axis=0) for t in (firsts, seconds))
        row_p, row_q, column_p, column_q = (
            g.Equal(rows, p),
            g.Equal(rows, q),
            g.Equal(columns, p),
            g.Equal(columns, q),
        )
        column = _column_at(g, a, column_q)
        x, y = _row_at(g, _column_at(g, a, column_p), row_p), _row_at(g, column, row_q)
        off = _row_at(g, column, row_p)
        none = g.Equal(off, 0)
        ratio = g.Div(g.Sub(y, x), g.Mul(g.Where(none, g.number(1, "float64"), off), 2))
        sign = g.Where(g.Less(ratio, 0), g.number(-1, "float64"), g.number(1, "float64"))
        t = g.Div(sign, g.Add(g.Abs(ratio), g.Sqrt(g.Add(g.Mul(ratio, ratio), 1))))
        t = g.Where(none, _zero(g), t)
        c = g.Reciprocal(g.Sqrt(g.Add(g.Mul(t, t), 1)))
        s = g.Mul(t, c)
        same = g.Or(g.And(row_p, column_p), g.And(row_q, column_q))
        turned = g.Where(same, c, one)
        turned = g.Where(g.And(row_p, column_q), s, turned)
        turned = g.Where(g.And(row_q, column_p), g.Neg(s), turned).of((*batch, n, n))
        return [g.MatMul(_turned(g, turned), g.MatMul(a, turned)), g.MatMul(v, turned)]

    start = g.expand(one, A.shape)
    a, v = g.loop(SWEEPS * len(pairs), [A, start], turn)
    values = g.reduce("ReduceSum", g.Mul(a, one), [-1])
    values, order = g.op("TopK", values, [n], outputs=2, axis=-1, largest=0, sorted=1)
    order.dtype = "int64"
    places = g.expand(g.unsqueeze(order, [len(batch)]).of(()), (*batch, n, n))
    return values, g.GatherElements(v, places, axis=-1)


def _symmetric(g: Any, A: Any, lower: bool) -> Any:
    """The matrix whose one triangle is read."""
    (a,) = _wide(g, A)
    half = g.op("Trilu", a, upper=int(not lower)).of(A.shape)
    return g.Sub(g.Add(half, _turned(g, half)), g.Mul(a, _identity(g, A.shape[-1]))).of(A.shape)


@onnx_form(linalg_eigvalsh)
def _(g: Any, A: Any, lower: bool) -> Any:
    if 0 in A.shape:
        return _empty(g)
    return _ends(g, _eigen(g, _symmetric(g, A, lower))[0])[0]


@onnx_form(linalg_eigh)
def _(g: Any, A: Any, lower: bool) -> Any:
    if 0 in A.shape:
        return _empty(g)
    return _ends(g, *_eigen(g, _symmetric(g, A, lower)))


def _gram(g: Any, A: Any) -> tuple[Any, Any, Any]:
    """The matrix, wider than high, and singular values (ascending) with vectors of its product with itself, in float64."""
    (a,) = _wide(g, A)
    a = _turned(g, a) if A.shape[-2] > A.shape[-1] else a
    k = min(A.shape[-2:])
    values, vectors = _eigen(g, g.MatMul(a, _turned(g, a)).of((*A.shape[:-2], k, k)))
    return a, g.Sqrt(g.Max(values, 0.0)), vectors


@onnx_form(linalg_svdvals)
def _(g: Any, A: Any) -> Any:
    if 0 in A.shape:
        return _empty(g)
    _, values, _ = _gram(g, A)
    result = g.op("Slice", values, [-1], [-(1 << 63)], [-1], [-1])
    return _ends(g, result)[0]


def _pinv(g: Any, A: Any, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """A⁺ in float64, and the singular values that count."""
    a, values, u = _gram(g, A)
    small = float(np.finfo(A.dtype).eps) * max(A.shape[-2:])
    largest = g.slice(values, -1, -1, (1 << 63) - 1)
    if rtol is None:
        rtol = small if atol is None else 0.0
    share, least = (_tolerance(g, v) for v in (rtol, 0.0 if atol is None else atol))
    kept = g.Greater(values, g.Max(least, g.Mul(share, largest)))
    one = g.number(1, "float64")
    squares = g.Where(kept, g.Reciprocal(g.Where(kept, g.Mul(values, values), one)), _zero(g))
    u = u.of((*A.shape[:-2], min(A.shape[-2:]), min(A.shape[-2:])))
    inner = g.MatMul(g.Mul(u, g.unsqueeze(squares, [A.rank - 2])), _turned(g, u))
    result = g.MatMul(_turned(g, a), inner).of((*A.shape[:-2], max(A.shape[-2:]), min(A.shape[-2:])))
    return (_turned(g, result) if A.shape[-2] > A.shape[-1] else result), kept


def _tolerance(g: Any, x: Any) -> Any:
    if not hasattr(x, "floating"):
        return g.number(x, "float64")
    return g.unsqueeze(g.cast(x, "float64"), [x.rank])


@onnx_form(linalg_pinv)
def _(g: Any, A: Any, hermitian: bool, atol: Any, rtol: Any) -> Any:
    if 0 in A.shape:
        return _empty(g)
    if hermitian:
        A = g.cast(_symmetric(g, A, True), A.dtype).of(A.shape)
    return _ends(g, _pinv(g, A, atol, rtol)[0])[0]


@onnx_form(linalg_lstsq)
def _(g: Any, A: Any, B: Any, rcond: Any, driver: str) -> Any:
    if 0 in A.shape or 0 in B.shape:
        return NotImplemented
    inverse, kept = _pinv(g, A, None, rcond)
    a, b = _wide(g, A, B)
    result = g.MatMul(inverse, b)
    rest = g.Sub(g.MatMul(a, result), b)
    _, residuals, rank, values = g.results
    made = [
        result,
        g.reduce("ReduceSum", g.Mul(rest, rest), [-2]),
        g.reduce("ReduceSum", g.cast(kept, "int64"), [-1]),
    ]
    _, ascending, _ = _gram(g, A)
    made.append(g.op("Slice", ascending, [-1], [-(1 << 63)], [-1], [-1]))
    return [
        g.expand(g.number(0, r.dtype), r.shape) if 0 in r.shape else g.cast(v, r.dtype)
        for v, r in zip(made, g.results)
    ]
