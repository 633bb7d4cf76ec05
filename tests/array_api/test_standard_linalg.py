"""The extensions `linalg` and `fft` beside NumPy's."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from standard_arrays import COMPLEXES, INTEGERS, NUMERIC, REALS, numbers, ours, pairs, same, xp

FLOATING = REALS + COMPLEXES
STACKS = ((1, 1), (3, 3), (2, 3, 3), (0, 2, 2), (0, 0), (2, 0, 0))


def square(dtype, shape, seed=0):
    """Well-conditioned square matrices."""
    return (numbers(dtype, shape, seed) + 4 * np.eye(shape[-1])).astype(dtype)


def symmetric(dtype, shape):
    x = square(dtype, shape)
    return (x @ np.conj(np.matrix_transpose(x)) + np.eye(shape[-1])).astype(dtype)


PRODUCTS = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((5, 1, 2, 3), (6, 3, 4)),
    ((2, 0), (0, 3)),
    ((0, 3), (3, 0)),
]


def test_products():
    for (a, b), (s, t) in itertools.product(pairs(NUMERIC), PRODUCTS):
        x, y = numbers(a, s, 1), numbers(b, t, 2)
        same(xp.matmul(ours(x), ours(y)), np.matmul(x, y), loose=8)
    for wrong in (((), (3,)), ((3,), (4,)), ((2, 3), (2, 3))):
        with pytest.raises((ValueError, RuntimeError)):
            xp.matmul(*map(xp.ones, wrong))


def test_sums_of_products():
    for dtype in NUMERIC:
        x, y = numbers(dtype, (2, 3, 4), 1), numbers(dtype, (3, 4, 5), 2)
        for axes in (2, ((1, 2), (0, 1)), ((2, 1), (1, 0)), ((-1, -2), (-2, -3)), ((1,), (0,))):
            same(xp.tensordot(ours(x), ours(y), axes=axes), np.tensordot(x, y, axes=axes), loose=8)
        same(xp.tensordot(ours(x), ours(y), axes=0), np.tensordot(x, y, axes=0))
        for a, b, axis in (
            ((2, 3), (2, 3), -1),
            ((2, 3), (2, 3), -2),
            ((4, 1, 3), (2, 3), -1),
            ((3,), (2, 3), -1),
        ):
            p, q = numbers(dtype, a, 3), numbers(dtype, b, 4)
            same(xp.vecdot(ours(p), ours(q), axis=axis), np.vecdot(p, q, axis=axis), loose=8)
    same(xp.vecdot(xp.ones(2), xp.ones(2, dtype=xp.float64)), np.float64(2))
    for wrong, axis in ((((3,), (1,)), -1), (((2, 3), (3,)), -2), (((2, 3), (2, 3)), 0)):
        with pytest.raises(ValueError, match="vecdot"):
            xp.vecdot(*map(xp.ones, wrong), axis=axis)
    for axes in (3, -1, ((0,), (0,))):
        with pytest.raises((ValueError, IndexError)):
            xp.tensordot(xp.ones((2, 3)), xp.ones((3, 2)), axes=axes)


@pytest.mark.parametrize("dtype", FLOATING)
def test_decompositions(dtype):
    for shape in STACKS:
        x, spd = square(dtype, shape), symmetric(dtype, shape)
        for name in ("det", "inv"):
            same(getattr(xp.linalg, name)(ours(x)), getattr(np.linalg, name)(x), loose=100)
        for mine, wanted in zip(xp.linalg.slogdet(ours(x)), np.linalg.slogdet(x), strict=True):
            same(mine, wanted, loose=100)
        for n in (0, 1, 3, -1, -2):
            same(xp.linalg.matrix_power(ours(x), n), np.linalg.matrix_power(x, n), loose=1000)
        same(xp.linalg.cholesky(ours(spd)), np.linalg.cholesky(spd), loose=100)
        upper = xp.linalg.cholesky(ours(spd), upper=True)
        same(upper, np.conj(np.matrix_transpose(np.linalg.cholesky(spd))), loose=100)
        if 0 not in shape:
            same(xp.linalg.eigvalsh(ours(spd)), np.linalg.eigvalsh(spd), loose=400)
            found = xp.linalg.eigh(ours(spd))
            values, vectors = found.eigenvalues.numpy(), found.eigenvectors.numpy()
            np.testing.assert_allclose(spd @ vectors, vectors * values[..., None, :], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", FLOATING)
def test_of_any_shape(dtype):
    for shape in ((2, 3), (3, 2), (4, 3, 3), (2, 0, 3)):
        x = numbers(dtype, shape)
        if 0 not in shape:
            same(xp.linalg.pinv(ours(x)), np.linalg.pinv(x), loose=4000)
            same(xp.linalg.matrix_rank(ours(x)), np.linalg.matrix_rank(x))
            same(xp.linalg.matrix_rank(ours(x), rtol=10.0), np.linalg.matrix_rank(x, rtol=10.0))
            same(xp.linalg.svdvals(ours(x)), np.linalg.svdvals(x), loose=100)
            for full in (True, False):
                U, S, Vh = (part.numpy() for part in xp.linalg.svd(ours(x), full_matrices=full))
                assert [p.shape for p in (U, S, Vh)] == [
                    p.shape for p in np.linalg.svd(x, full_matrices=full)
                ]
                k = S.shape[-1]
                np.testing.assert_allclose((U[..., :k] * S[..., None, :]) @ Vh[..., :k, :], x, atol=1e-4)
            for mode in ("reduced", "complete"):
                Q, R = (part.numpy() for part in xp.linalg.qr(ours(x), mode=mode))
                assert [p.shape for p in (Q, R)] == [p.shape for p in np.linalg.qr(x, mode=mode)]
                np.testing.assert_allclose(Q @ R, x, atol=1e-4)
            for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
                for keepdims in (False, True):
                    same(
                        xp.linalg.matrix_norm(ours(x), ord=order, keepdims=keepdims),
                        np.linalg.matrix_norm(x, ord=order, keepdims=keepdims),
                        loose=100,
                    )
        for axis, keepdims in itertools.product((None, 0, -1, (0, 1)), (False, True)):
            for order in (0, 1, 2, 3, 0.5, np.inf) if 0 not in shape else (0, 1, 2):
                wanted = np.linalg.vector_norm(x, axis=axis, keepdims=keepdims, ord=order)
                found = xp.linalg.vector_norm(ours(x), axis=axis, keepdims=keepdims, ord=order)
                same(found, wanted.astype(np.abs(x).dtype), loose=100)
    same(xp.linalg.vector_norm(xp.asarray([[3.0, -4.0]]), axis=()), np.asarray([[3.0, 4.0]], "float32"))
    assert xp.linalg.svd(xp.ones((2, 2)))._fields == ("U", "S", "Vh") and xp.linalg.qr(
        xp.ones((2, 2))
    )._fields == ("Q", "R")
    with pytest.raises(ValueError, match="mode"):
        xp.linalg.qr(xp.ones((2, 2)), mode="raw")


def test_diagonals():
    for dtype, shape, offset in itertools.product(NUMERIC, ((2, 3), (4, 3, 3), (0, 2)), (-1, 0, 1)):
        x = numbers(dtype, shape)
        same(xp.linalg.diagonal(ours(x), offset=offset), np.linalg.diagonal(x, offset=offset))
        same(xp.linalg.trace(ours(x), offset=offset), np.linalg.trace(x, offset=offset))
    same(xp.linalg.trace(xp.ones((2, 2), dtype=xp.int8), dtype=xp.float64), np.float64(2))


def test_outer_of_whole_numbers_up_to_their_ends():
    draw = np.random.default_rng(0)
    for a, b in pairs(INTEGERS):
        x, y = (draw.integers(0, np.iinfo(t).max, 4, dtype=t, endpoint=True) for t in (a, b))
        same(xp.linalg.outer(ours(x), ours(y)), np.linalg.outer(x, y))


def test_crossed_and_outer():
    for a, b in pairs(NUMERIC):
        same(
            xp.linalg.outer(ours(numbers(a, (2,), 1)), ours(numbers(b, (3,), 2))),
            np.linalg.outer(numbers(a, (2,), 1), numbers(b, (3,), 2)),
        )
        if a.startswith("u") or b.startswith("u"):
            continue
        for s, t, axis in (
            ((3,), (3,), -1),
            ((2, 3), (2, 3), -1),
            ((3, 2), (3, 2), 0),
            ((2, 1, 3), (4, 3), -1),
        ):
            x, y = numbers(a, s, 1), numbers(b, t, 2)
            same(xp.linalg.cross(ours(x), ours(y), axis=axis), np.linalg.cross(x, y, axis=axis), loose=8)
    with pytest.raises(ValueError, match="cross"):
        xp.linalg.cross(xp.ones(2), xp.ones(2))
    with pytest.raises(ValueError, match="outer"):
        xp.linalg.outer(xp.ones((2, 2)), xp.ones(2))


def test_solutions():
    """A right side of one dimension is a vector, any other stacks of matrices."""
    for (a, b), (s, t) in itertools.product(
        pairs(FLOATING),
        (
            ((3, 3), (3,)),
            ((3, 3), (3, 2)),
            ((2, 3, 3), (3,)),
            ((3, 3, 3), (3, 3)),
            ((2, 2, 2), (2, 2)),
            ((4, 1, 2, 2), (3, 2, 5)),
            ((0, 0), (0, 2)),
        ),
    ):
        x, y = square(a, s), numbers(b, t)
        same(xp.linalg.solve(ours(x), ours(y)), np.linalg.solve(x, y), loose=1000)


def test_transforms():
    real = {"rfft", "ihfft"}
    for dtype in FLOATING:
        x = numbers(dtype, (4, 6))
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
            if (name in real) != (dtype in REALS):
                continue
            for n, axis, norm in itertools.product((None, 5, 9), (-1, 0), ("backward", "ortho", "forward")):
                same(
                    getattr(xp.fft, name)(ours(x), n=n, axis=axis, norm=norm),
                    getattr(np.fft, name)(x, n=n, axis=axis, norm=norm),
                    loose=16,
                )
        for name in ("fftn", "ifftn", "rfftn", "irfftn"):
            if (name == "rfftn") != (dtype in REALS):
                continue
            for s, axes in ((None, None), (None, (0,)), ((3, 8), (0, 1)), ((5,), (-1,))):
                same(
                    getattr(xp.fft, name)(ours(x), s=s, axes=axes),
                    getattr(np.fft, name)(x, s=s, axes=axes),
                    loose=16,
                )
        for name, axes in itertools.product(("fftshift", "ifftshift"), (None, 0, (0, 1))):
            same(getattr(xp.fft, name)(ours(x), axes=axes), getattr(np.fft, name)(x, axes=axes))
    for name, n, d in itertools.product(("fftfreq", "rfftfreq"), (1, 4, 7), (1.0, 0.5)):
        same(getattr(xp.fft, name)(n, d=d), getattr(np.fft, name)(n, d).astype("float32"))
        same(getattr(xp.fft, name)(n, d=d, dtype=xp.float64), getattr(np.fft, name)(n, d))
    assert INTEGERS
