"""Reductions and prefixes beside NumPy's: every axis, all, several and none of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from standard_arrays import ALL, COMPLEXES, INTEGERS, NUMERIC, REALS, SHAPES, numbers, ours, same, xp

REDUCTIONS = {
    "sum": NUMERIC,
    "prod": NUMERIC,
    "max": INTEGERS + REALS,
    "min": INTEGERS + REALS,
    "mean": REALS + COMPLEXES,
    "std": REALS,
    "var": REALS,
    "all": ALL,
    "any": ALL,
    "count_nonzero": ALL,
}


def axes(rank):
    """None, each axis from both ends, some pairs, and no axis."""
    yield None
    yield ()
    yield from range(-rank, rank)
    yield from itertools.permutations(range(rank), 2)
    if rank > 1:
        yield (0, -1)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_over_axes(name):
    for dtype, shape in itertools.product(REDUCTIONS[name], SHAPES):
        x = numbers(dtype, shape)
        for axis, keepdims in itertools.product(axes(len(shape)), (False, True)):
            over = range(len(shape)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
            empty = any(shape[a] == 0 for a in over)
            if name in ("max", "min", "mean", "std", "var") and empty:
                continue
            wanted = getattr(np, name)(x, axis=axis, keepdims=keepdims)
            if name == "count_nonzero":
                wanted = np.asarray(wanted, "int64")
            same(getattr(xp, name)(ours(x), axis=axis, keepdims=keepdims), wanted, loose=4)


@pytest.mark.parametrize("name", ["sum", "prod"])
def test_dtypes_of_sums(name):
    for dtype, to in itertools.product(NUMERIC, ("int16", "uint64", "float64")):
        if dtype.startswith("complex"):
            continue
        x = np.abs(numbers(dtype, (2, 3)))
        for axis in (None, 0, ()):
            found = getattr(xp, name)(ours(x), axis=axis, dtype=getattr(xp, to))
            assert found.dtype == getattr(xp, to)
    same(xp.sum(ours(np.full(3, 100, "int8"))), np.asarray(300))
    same(xp.prod(ours(np.full(3, 100, "uint8"))), np.asarray(1_000_000, "uint64"))


@pytest.mark.parametrize("correction", [0, 1, 0.5, 2.5])
@pytest.mark.parametrize("name", ["std", "var"])
def test_corrections(name, correction):
    for dtype, axis in itertools.product(REALS, (None, 0, (0, 1))):
        x = numbers(dtype, (4, 5))
        same(
            getattr(xp, name)(ours(x), axis=axis, correction=correction),
            getattr(np, name)(x, axis=axis, correction=correction),
            loose=4,
        )


@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_meet_nan_and_nothing(name):
    x = xp.asarray([1.0, xp.nan, 3.0])
    assert xp.isnan(getattr(xp, name)(x))
    with pytest.raises((ValueError, IndexError, RuntimeError), match="am(ax|in)"):
        getattr(xp, name)(xp.ones((0,)))


def test_wrong_axes():
    for axis, error in ((2, IndexError), (-3, IndexError), ((0, 0), ValueError), ((0, -2), ValueError)):
        for name in REDUCTIONS:
            with pytest.raises(error):
                getattr(xp, name)(xp.ones((2, 3)), axis=axis)


@pytest.mark.parametrize("include_initial", [False, True])
@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
def test_prefixes(name, include_initial):
    for dtype, shape in itertools.product(NUMERIC, SHAPES):
        x = numbers(dtype, shape)
        for axis in range(-len(shape), len(shape)):
            found = getattr(xp, name)(ours(x), axis=axis, include_initial=include_initial)
            same(found, getattr(np, name)(x, axis=axis, include_initial=include_initial), loose=8)
    same(
        getattr(xp, name)(xp.asarray([1, 2]), dtype=xp.float64),
        getattr(np, name)(np.asarray([1, 2]), dtype="float64"),
    )
    for bad in (xp.ones((2, 2)), xp.asarray(1.0)):
        with pytest.raises(ValueError, match=name):
            getattr(xp, name)(bad)


def test_differences():
    for dtype, n in itertools.product(("int8", "uint8", "float32", "complex128"), (0, 1, 2, 4)):
        x = numbers(dtype, (3, 4))
        for axis in (-1, 0):
            same(xp.diff(ours(x), axis=axis, n=n), np.diff(x, axis=axis, n=n))
            if n == 0:  # NumPy then leaves out what is put before and behind
                continue
            before = x[:1] if axis == 0 else x[:, :2]
            same(
                xp.diff(ours(x), axis=axis, n=n, prepend=ours(before), append=ours(before)),
                np.diff(x, axis=axis, n=n, prepend=before, append=before),
            )
