"""Counts, searches, different elements and places of what is not zero, against NumPy and plain loops."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau

RNG = np.random.default_rng(3)
INTEGERS = ["uint8", "int8", "int16", "int32", "int64"]
NUMBERS = [*INTEGERS, "float16", "float32", "float64"]


def same(ours, theirs):
    np.testing.assert_array_equal(ours.numpy(), theirs)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("most", [1, 100, 1023, 1025, 100_000])
def test_bincount(dtype, most):
    for n in (1, 3, 4, 1001):
        a = RNG.integers(0, min(most, np.iinfo(dtype).max), n).astype(dtype)
        weights = RNG.standard_normal(n)
        for least in (0, 3, 2000):
            same(flambeau.bincount(flambeau.tensor(a), minlength=least), np.bincount(a, minlength=least))
        same(flambeau.bincount(flambeau.tensor(a), flambeau.tensor(weights)), np.bincount(a, weights))


def test_bincount_refuses():
    for bad in ([-1], [5, 2000, 3, -7], [[1]]):
        with pytest.raises(RuntimeError, match="non-negative"):
            flambeau.bincount(flambeau.tensor(bad))
    with pytest.raises(RuntimeError, match="minlength"):
        flambeau.bincount(flambeau.tensor([1]), minlength=-1)
    with pytest.raises(RuntimeError, match="overflowed"):
        flambeau.bincount(flambeau.tensor([(1 << 63) - 1]))
    with pytest.raises(RuntimeError, match="same length"):
        flambeau.bincount(flambeau.tensor([1, 2]), flambeau.tensor([1.0]))
    assert flambeau.bincount(flambeau.tensor([], dtype=flambeau.int64), minlength=2).tolist() == [0, 0]


def bisected(bounds, value, right):
    """How many bounds come before the value; all do before NaN."""
    return sum(not (b > value if right else b >= value) for b in bounds)


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("right", [False, True])
def test_searchsorted(dtype, right):
    for n in (0, 1, 2, 5, 16, 33):
        rows = np.sort((RNG.standard_normal((3, n)) * 20).astype(dtype), -1)
        values = (RNG.standard_normal((3, 11)) * 20).astype(dtype)
        if dtype.startswith("float"):
            values[0, :3] = np.nan, np.inf, -np.inf
        one = np.array([[bisected(rows[0], v, right) for v in line] for line in values])
        each = np.array([[bisected(r, v, right) for v in line] for r, line in zip(rows, values)])
        found = flambeau.searchsorted(flambeau.tensor(rows[0]), flambeau.tensor(values), right=right)
        same(found, one)
        same(flambeau.bucketize(flambeau.tensor(values), flambeau.tensor(rows[0]), right=right), one)
        mixed = RNG.permuted(np.tile(np.arange(n), (3, 1)), axis=1)
        unsorted = np.empty_like(rows)
        np.put_along_axis(unsorted, mixed, rows, -1)
        for out_int32 in (False, True):
            options = {"right": right, "out_int32": out_int32}
            found = flambeau.searchsorted(flambeau.tensor(rows), flambeau.tensor(values), **options)
            same(found, each)
            assert found.dtype == (flambeau.int32 if out_int32 else flambeau.int64)
            order = flambeau.tensor(mixed)
            same(
                flambeau.searchsorted(
                    flambeau.tensor(unsorted), flambeau.tensor(values), sorter=order, **options
                ),
                each,
            )


def test_searchsorted_of_views_and_numbers():
    bounds, values = flambeau.arange(20.0)[::2], flambeau.arange(12.0).reshape(3, 4).T
    same(flambeau.searchsorted(bounds, values), np.searchsorted(bounds.numpy(), values.numpy()))
    assert flambeau.searchsorted(bounds, 4.5).item() == 3
    assert flambeau.bucketize(flambeau.tensor(7), flambeau.tensor([1, 7, 9])).item() == 1


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("most", [2, 100, 10**12])
def test_unique(dtype, most):
    for n in (1, 7, 3000):
        most = min(most, np.iinfo(dtype).max)
        a = RNG.integers(-(most // 2) if dtype[0] == "i" else 0, most // 2 + 1, n).astype(dtype)
        ours = flambeau.unique(flambeau.tensor(a), return_inverse=True, return_counts=True)
        for x, y in zip(ours, np.unique(a, return_inverse=True, return_counts=True), strict=True):
            same(x, y)
        assert ours[0].dtype == flambeau.tensor(a).dtype
    pairs = flambeau.tensor(a[:3000].reshape(-1, 1)).expand(-1, 2)
    values, inverse = flambeau.unique(pairs, return_inverse=True)
    same(values[inverse], pairs.numpy())


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
def test_unique_floats(dtype):
    """Each NaN is one of its own, in the order of the input (NumPy's order of NaNs depends on the processor)."""
    a = RNG.integers(-3, 3, (4, 25)).astype("float32")
    a[0, :2] = np.nan
    x = flambeau.tensor(a).to(getattr(flambeau, dtype))
    values, inverse, counts = flambeau.unique(x, return_inverse=True, return_counts=True)
    order = np.argsort(a, axis=None, kind="stable")
    ordered = a.ravel()[order]
    starts = np.append(True, ordered[1:] != ordered[:-1])
    expected = np.empty(a.size, dtype=np.int64)
    expected[order] = np.cumsum(starts) - 1
    same(values, ordered[starts].astype(values.numpy().dtype))
    same(inverse, expected.reshape(a.shape))
    same(counts, np.bincount(expected))


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64", "float64"])
@pytest.mark.parametrize("bits", [17, 31, 32, 33, 52])
def test_unique_of_wide_ranges(dtype, bits):
    """Keys of 32 bits where all lie that near one another, else of the dtype's own; with each choice of what is returned."""
    info = np.iinfo(dtype if dtype != "float64" else "int64")
    for low in (0, -5, -(1 << 61), 1 << 61):
        for width in ((1 << bits) - 1, 1 << bits):
            first = max(min(low, info.max - width), info.min)
            step = min(width, info.max - first) // 400
            a = RNG.integers(0, 401, (20, 50)).astype(dtype) * np.array(step, dtype) + np.array(first, dtype)
            a[0, :3] = first, min(first + width, info.max), first
            expected = np.unique(a, return_inverse=True, return_counts=True)
            x = flambeau.tensor(a)
            same(flambeau.unique(x), expected[0])
            for inverse, counts in ((True, False), (False, True), (True, True)):
                found = flambeau.unique(x, return_inverse=inverse, return_counts=counts)
                wanted = [expected[0], *[expected[1].reshape(a.shape)] * inverse, *[expected[2]] * counts]
                for ours, theirs in zip(found, wanted, strict=True):
                    same(ours, theirs)
                assert found[0].dtype == x.dtype


def test_unique_of_the_ends():
    """Differences of 64-bit integers that are themselves larger than 64 bits hold."""
    ends = [-(1 << 63), (1 << 63) - 1, 0, -(1 << 63)]
    assert flambeau.unique(flambeau.tensor(ends)).tolist() == sorted(set(ends))
    assert flambeau.unique(flambeau.tensor([True, False, True])).tolist() == [False, True]


@pytest.mark.parametrize(
    "shape", [(0, 3), (3, 0), (5,), (1, 1), (3, 7), (2, 3, 1030), (2, 2, 2, 5), (3, 2500)]
)
@pytest.mark.parametrize("part", [0.0, 0.02, 0.5, 1.0])
def test_nonzero(shape, part):
    a = RNG.random(shape) < part
    same(flambeau.nonzero(flambeau.tensor(a)), np.argwhere(a))
    for x, y in zip(flambeau.nonzero(flambeau.tensor(a), as_tuple=True), np.nonzero(a), strict=True):
        same(x, y)


@pytest.mark.parametrize("number", [True, 0, 2, 1.5, 2.0, -0.5, 0.1, float("inf"), float("nan")])
@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8", "float32", "float64"])
def test_searched_numbers_are_those_of_tensors(dtype, number):
    """A Python number keeps its fraction among integers, and is rounded as arithmetic rounds it among floats."""
    bounds = flambeau.tensor([0, 1, 2, 3], dtype=getattr(flambeau, dtype)) / (1 if "int" in dtype else 10)
    bounds = bounds.to(getattr(flambeau, dtype))
    common = flambeau.result_type(bounds, number)
    for right in (False, True):
        wanted = np.searchsorted(
            bounds.to(common).numpy(),
            flambeau.tensor(number, dtype=common).item(),
            "right" if right else "left",
        )
        assert flambeau.searchsorted(bounds, number, right=right).item() == wanted
        assert flambeau.bucketize(number, bounds, right=right).item() == wanted
