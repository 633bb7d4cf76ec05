"""Eigenvalues of Hermitian matrices and singular values on devices, by Jacobi's rotations.

In each round all rows are paired and all pairs are rotated at once; n - 1 rounds (n, of an odd number) meet every pair: R. Brent and
F. Luk, "The solution of singular-value and symmetric eigenvalue problems on multiprocessor arrays" (1985).  Sweeps go on until no
pair is left to rotate, which one number a sweep tells the host.  Singular values are those of J. Demmel and K. Veselić, "Jacobi's method
is more accurate than QR" (1992), by rotations of columns alone.  Vectors differ from LAPACK's by a factor of modulus 1.
"""

from __future__ import annotations

from typing import Any

from ...codegen import functions as fn
from ...codegen.expr import Expr
from ...core.base.tensor import TensorBase
from ...core.base.typeinfo import finfo
from ...core.places.join import cat, stack
from ...core.tape.contexts import unrecorded
from ..declare.indexed import indexed
from .matrices import _minus, _plus, _real, _times, orthogonal, solver_for
from .ordering import order

SWEEPS = 60  # some ten are enough; more would never end


class NotConverged(RuntimeError):
    """Rotations, or the library's iterations, do not come to an end: the numbers are not finite."""


def _converged(info: TensorBase) -> None:
    if bool((info != 0).any()):
        raise NotConverged


def _partner(i: Expr, turn: Expr, size: Expr) -> Expr:
    """With which row i is paired in a round; a number beyond the last row for one that rests.  Row 0 stays, the others go round."""
    players = size + (size & 1)
    ring = players - 1
    place = fn.where(i == 0, i, 1 + fn.rem(i - 1 - turn + ring, ring))
    other = players - 1 - place
    return fn.where(other == 0, other, 1 + fn.rem(other - 1 + turn, ring))


def _rotation(first: Expr, second: Expr, off: Expr, still: Expr) -> tuple[Expr, Expr, Expr]:
    """c, s and the phase of `off` that make the element `off` beside two diagonal ones 0; 1, 0 and 1 where it is to be `still`."""
    length = fn.sqrt(fn.real(off) * fn.real(off) + fn.imag(off) * fn.imag(off))
    still = still | (length == 0.0)
    safe = fn.where(still, fn.like(length, 1.0), length)
    tau = (second - first) / (2.0 * safe)
    t = fn.copysign(fn.like(tau, 1.0), tau) / (abs(tau) + fn.sqrt(1.0 + tau * tau))
    c = 1.0 / fn.sqrt(1.0 + t * t)
    one = fn.like(c, 1.0)
    c, s = fn.where(still, one, c), fn.where(still, fn.like(c, 0.0), t * c)
    phase = fn.where(still, one, fn.real(off) / safe)
    if fn.is_complex(off.dtype):
        return c, s, fn.pair(phase, fn.where(still, fn.like(c, 0.0), fn.imag(off) / safe))
    return c, s, phase


def _column(own: Expr, other: Expr, lower: Expr, c: Expr, s: Expr, phase: Expr) -> Expr:
    """A column after the rotation of its pair: c x - s φ̄ y, where it is the `lower` one of x and y, else s y + c φ̄ x."""
    back = fn.conj(phase)
    if fn.is_complex(own.dtype):
        c, s = _real(c, own), _real(s, own)
    down = _minus(_times(c, own), _times(_times(s, back), other))
    up = _plus(_times(s, other), _times(_times(c, back), own))
    return fn.where(lower, down, up)


# --- Hermitian matrices ------------------------------
def _of_pair(a: Any, batch: list, i: Expr, turn: Expr, size: Expr) -> tuple:
    """The partner of i (i itself where it rests), whether i is the lower one, and the rotation of both."""
    other = _partner(i, turn, size)
    rests = other >= size
    other = fn.where(rests, i, other)
    lower = i <= other
    p, q = fn.where(lower, i, other), fn.where(lower, other, i)
    rotation = _rotation(fn.real(a[(*batch, p, p)]), fn.real(a[(*batch, q, q)]), a[(*batch, p, q)], rests)
    return other, lower, rotation


@indexed(dtypes=(None, None))
def _both_sides(at, a, v, *, turn):
    """The matrix with rows and columns rotated, and the product of all rotations so far."""
    *batch, i, j = at
    size = a.size(a.rank - 1)
    other_i, lower_i, (ci, si, phase_i) = _of_pair(a, batch, i, turn, size)
    other_j, lower_j, (cj, sj, phase_j) = _of_pair(a, batch, j, turn, size)
    column = lambda x, row: _column(x[(*batch, row, j)], x[(*batch, row, other_j)], lower_j, cj, sj, phase_j)
    # rows as columns of the adjoint
    own, beside = fn.conj(column(a, i)), fn.conj(column(a, other_i))
    return fn.conj(_column(own, beside, lower_i, ci, si, phase_i)), column(v, i)


def hermitian(a: TensorBase, lower: bool) -> tuple[TensorBase, TensorBase]:
    """Eigenvalues, ascending, and eigenvectors, of matrices of which one triangle is read."""
    with unrecorded():
        if (solver := solver_for(a)) is not None:
            values, vectors, info = solver.hermitian(a, lower)
            _converged(info)
            return values, vectors
        n = a.shape[-1]
        main = a.diagonal(0, -2, -1)
        main = main.real if a.is_complex() else main
        half = a.tril(-1) if lower else a.triu(1)
        x = (half + half.mH + main.to(a.dtype).diag_embed()).contiguous()
        v = a.new_ones(n).diag().expand(a.shape).contiguous()
        if a.numel():
            size = _square(x).sum((-2, -1)).sqrt()
            limit = size * finfo(main.dtype).eps
            for _ in range(SWEEPS):
                off = _square(x.tril(-1)).amax((-2, -1)).sqrt()
                if bool((off <= limit).all()):
                    break
                for turn in range(n - 1 + n % 2):
                    x, v = _both_sides(x.shape, x, v, turn=turn)
            else:
                raise NotConverged
        values = x.diagonal(0, -2, -1)
        values = (values.real if a.is_complex() else values).contiguous()
        ranked = order(values)
        return values.gather(-1, ranked), v.gather(-1, ranked.unsqueeze(-2).expand(v.shape))


def _square(x: TensorBase) -> TensorBase:
    return x.real.square() + x.imag.square() if x.is_complex() else x.square()


# --- singular values ------------------------------
@indexed(dtypes=(None, None, None, None), effort=32)
def _angles(at, w, floor, *, turn, rows):
    """For each column c, s and φ of its pair's rotation, and how far from orthogonal the two are over the first `rows` rows."""
    *batch, j = at
    size = w.size(w.rank - 1)
    other = _partner(j, turn, size)
    rests = other >= size
    other = fn.where(rests, j, other)
    lower = j <= other
    p, q = fn.where(lower, j, other), fn.where(lower, other, j)
    first = w[(*batch, at.number(0), p)]
    zero = fn.real(first) * 0.0
    zero = zero - zero

    def step(i, alpha, beta, real, imag):
        x, y = w[(*batch, i, p)], w[(*batch, i, q)]
        (a, b), (c, d) = (fn.real(x), fn.imag(x)), (fn.real(y), fn.imag(y))
        alpha, beta = alpha + (a * a + b * b), beta + (c * c + d * d)
        return i + 1, alpha, beta, real + (a * c + b * d), imag + (a * d - b * c)

    _, alpha, beta, real, imag = at.repeat(
        (at.number(0), zero, zero, zero, zero), lambda i, *_: i < rows, step
    )
    off = fn.pair(real, imag) if fn.is_complex(first.dtype) else real  # x̄ · y
    least = fn.real(floor[tuple(batch)])
    done = rests | (alpha <= least) | (beta <= least)
    c, s, phase = _rotation(alpha, beta, off, done)
    size_of_off = fn.sqrt(real * real + imag * imag)
    ratio = fn.where(done, zero, size_of_off / (fn.sqrt(alpha) * fn.sqrt(beta)))
    return _real(c, first), _real(s, first), phase, _real(ratio, first)


@indexed()
def _rotated(at, w, c, s, phase, *, turn):
    """The matrix with its columns rotated."""
    *batch, i, j = at
    size = w.size(w.rank - 1)
    other = _partner(j, turn, size)
    other = fn.where(other >= size, j, other)
    c, s, phase = fn.real(c[(*batch, j)]), fn.real(s[(*batch, j)]), phase[(*batch, j)]
    return (_column(w[at], w[(*batch, i, other)], j <= other, c, s, phase),)


def _columns(w: TensorBase, rows: int) -> TensorBase:
    """W with columns whose first `rows` rows are orthogonal."""
    n = w.shape[-1]
    real = w.real if w.is_complex() else w
    eps = finfo(real.dtype).eps
    size = _square(w.narrow(-2, 0, rows)).sum((-2, -1))
    floor = (size * (0.25 * eps * eps)).to(w.dtype)
    limit = eps * max(rows, 2) ** 0.5
    for _ in range(SWEEPS):
        ratios = []
        for turn in range(n - 1 + n % 2):
            c, s, phase, ratio = _angles((*w.shape[:-2], n), w, floor, turn=turn, rows=rows)
            w = _rotated(w.shape, w, c, s, phase, turn=turn)
            ratios.append(ratio.real if ratio.is_complex() else ratio)
        if not ratios or bool(stack(ratios).amax() <= limit):
            return w
    raise NotConverged


def singular(a: TensorBase, full: bool, wanted: bool) -> tuple[TensorBase, TensorBase, TensorBase]:
    """U, S, descending, and Vᴴ; S alone unless `wanted`."""
    with unrecorded():
        if (solver := solver_for(a)) is not None:
            U, S, Vh, info = solver.singular(a, full, wanted)
            _converged(info)
            return (U, S, Vh) if wanted else (a, S, a)
        m, n = a.shape[-2:]
        if m < n:
            V, S, Uh = singular(a.mH, full, wanted)
            return (Uh.mH.contiguous(), S, V.mH.contiguous()) if wanted else (a, S, a)
        below = a.new_ones(n).diag().expand(*a.shape[:-2], n, n)
        w = cat([a, below], -2).contiguous() if wanted else a.contiguous()
        w = _columns(w, m) if a.numel() else w
        columns = w.narrow(-2, 0, m)
        S = _square(columns).sum(-2).sqrt()
        ranked = order(S, True)
        S = S.gather(-1, ranked)
        if not wanted:
            return a, S, a
        pick = lambda x: x.gather(-1, ranked.unsqueeze(-2).expand(x.shape))
        columns, V = pick(columns), pick(w.narrow(-2, m, n))
        return _basis(columns, S, m if full else n), S, V.mH.contiguous()


def _basis(columns: TensorBase, S: TensorBase, k: int) -> TensorBase:
    """The columns with length 1; those whose length is rounding, and others up to k, are any that are orthogonal to the rest."""
    n = columns.shape[-1]
    lengths = S.unsqueeze(-2)
    eps = finfo(S.dtype).eps * max(columns.shape[-2:])
    kept = lengths > (lengths.narrow(-1, 0, 1) * eps if n else lengths)
    U = columns / lengths.masked_fill(~kept, 1.0).to(columns.dtype)
    if k == n and (not n or bool(kept.all())):
        return U.contiguous()
    Q, _ = orthogonal(U.masked_fill(~kept, 0.0), k, True)
    own = U.where(kept, Q.narrow(-1, 0, n))
    return cat([own, Q.narrow(-1, n, k - n)], -1).contiguous() if k > n else own.contiguous()
