"""Orders, searches and counts of an accelerator beside those of the CPU: the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from accelerator import DEVICE, array, same

import flambeau
from flambeau.codegen import functions as fn
from flambeau.operations.declare.indexed import indexed
from flambeau.operations.on_device import ordering

DTYPES = "float32 float64 float16 bfloat16 int64 int32 int16 uint8 int8 bool".split()


def numbers(dtype: str, *shape: int) -> flambeau.Tensor:
    """With equal elements and, of floats, NaN, infinities and both zeros."""
    rng = np.random.default_rng(7)
    x = rng.integers(-4, 5, shape).astype("float64")
    if dtype in ("float32", "float64", "float16", "bfloat16"):
        x.reshape(-1)[::7] = np.nan
        x.reshape(-1)[1::11] = -0.0
        x.reshape(-1)[2::13] = np.inf
    return flambeau.from_numpy(x).to(getattr(flambeau, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_sorting(dtype):
    x = numbers(dtype, 5, 37)
    y = x.to(DEVICE)
    for view in (lambda t: t, lambda t: t.t(), lambda t: t[:, ::3], lambda t: t[:1].expand(3, 37)):
        for dim in (0, 1):
            for descending in (False, True):
                same(view(y).sort(dim, descending=descending), view(x).sort(dim, descending=descending))
    same(y.topk(4, 1), x.topk(4, 1))
    same(y.topk(3, 0, largest=False), x.topk(3, 0, largest=False))
    same(y.argsort(1), x.argsort(1))
    same(y.kthvalue(5, 1), x.kthvalue(5, 1))
    same(y.median(1), x.median(1))
    same(y.nanmedian(1), x.nanmedian(1))
    same(y.mode(1), x.mode(1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_distinct_elements(dtype):
    x = numbers(dtype, 4, 23)
    y = x.to(DEVICE)
    for options in ({}, {"return_inverse": True}, {"return_inverse": True, "return_counts": True}):
        same(y.unique(**options), x.unique(**options))
        same(y.unique_consecutive(**options), x.unique_consecutive(**options))
    if dtype in ("int64", "uint8"):
        z = (x % 2)[:, :3]
        for dim in (0, 1):
            options = {"return_inverse": True, "return_counts": True, "dim": dim}
            same(z.to(DEVICE).unique(**options), z.unique(**options))
            same(z.to(DEVICE).unique_consecutive(**options), z.unique_consecutive(**options))


def test_extreme_integers_and_long_rows():
    ends = flambeau.tensor([(1 << 63) - 1, 0, -(1 << 63), -1, (1 << 63) - 1])
    same(ends.to(DEVICE).sort(), ends.sort())
    same(ends.to(DEVICE).sort(descending=True), ends.sort(descending=True))
    unsigned = flambeau.from_numpy(np.array([2**64 - 1, 0, 2**63, 5], "uint64"))
    assert unsigned.to(DEVICE).argsort().tolist() == [1, 3, 2, 0]
    rows = flambeau.randn(2, 100_001)
    same(rows.to(DEVICE).sort(), rows.sort())


def test_indices_of_64_bits():
    """The kernel of rows whose offsets do not fit into 32 bits."""
    keys = flambeau.tensor([[3, 1, 2, 0, 5]], device=DEVICE, dtype=flambeau.int32)
    places = flambeau.arange(5, device=DEVICE).expand(1, 5)
    for level in range(3):
        keys, places = ordering._merged((1, 5), keys, places, level=level, most=1 << 40)
    assert keys.tolist() == [[0, 1, 2, 3, 5]] and places.tolist() == [[3, 1, 2, 0, 4]]


def test_no_elements_and_no_dimensions():
    for shape in ((0,), (3, 0), (0, 4)):
        x = flambeau.zeros(shape)
        same(x.to(DEVICE).sort(-1), x.sort(-1))
        same(
            x.to(DEVICE).unique(return_inverse=True, return_counts=True),
            x.unique(return_inverse=True, return_counts=True),
        )
        same(x.to(DEVICE).nonzero(), x.nonzero())
    x = flambeau.tensor(2.5)
    same(x.to(DEVICE).sort(), x.sort())
    same(x.to(DEVICE).unique(), x.unique())
    same(x.to(DEVICE).nonzero(), x.nonzero())
    same(
        flambeau.bucketize(x.to(DEVICE), flambeau.ones(3, device=DEVICE)),
        flambeau.bucketize(x, flambeau.ones(3)),
    )
    none = flambeau.zeros(0, dtype=flambeau.int64)
    same(none.to(DEVICE).bincount(minlength=3), none.bincount(minlength=3))


@pytest.mark.parametrize("right", [False, True])
def test_searching(right):
    for dtype in ("float32", "int64", "uint8", "float16"):
        bounds, values = numbers(dtype, 3, 9).sort(-1).values, numbers(dtype, 3, 14)
        given = [t.to(DEVICE) for t in (bounds, values)]
        same(flambeau.searchsorted(*given, right=right), flambeau.searchsorted(bounds, values, right=right))
        one = [
            flambeau.bucketize(v[:, ::2], b[1].contiguous(), right=right)
            for b, v in (given, (bounds, values))
        ]
        same(*one)
    sorter = flambeau.tensor([2, 0, 1])
    bounds, values = flambeau.tensor([5, 9, 1]), flambeau.tensor([[4, 5], [0, 10]])
    same(
        flambeau.searchsorted(
            bounds.to(DEVICE), values.to(DEVICE), sorter=sorter.to(DEVICE), right=right, out_int32=True
        ),
        flambeau.searchsorted(bounds, values, sorter=sorter, right=right, out_int32=True),
    )
    same(flambeau.isin(values.to(DEVICE), bounds.to(DEVICE)), flambeau.isin(values, bounds))
    same(
        flambeau.isin(values.to(DEVICE), bounds[:0].to(DEVICE), invert=True),
        flambeau.isin(values, bounds[:0], invert=True),
    )


def test_counting():
    rng = np.random.default_rng(2)
    x, w = flambeau.from_numpy(rng.integers(0, 50, 1000)), flambeau.from_numpy(rng.random(1000))
    for weights in (None, w, w.float()):
        moved = None if weights is None else weights.to(DEVICE)
        same(x.to(DEVICE).bincount(moved, minlength=60), x.bincount(weights, minlength=60))
    with pytest.raises(RuntimeError, match="non-negative"):
        flambeau.tensor([1, -1], device=DEVICE).bincount()
    f = flambeau.from_numpy(rng.standard_normal(1000)).float()
    f[3] = np.nan
    same(f.to(DEVICE).histc(20, -2, 2), f.histc(20, -2, 2))
    same(f.double().to(DEVICE).histc(7, 0, 1), f.double().histc(7, 0, 1))
    points, weights = flambeau.from_numpy(rng.random((200, 2))), flambeau.from_numpy(rng.random(200))
    for options in ({}, {"weight": weights}, {"density": True}, {"range": (0.1, 0.9, 0.0, 0.5)}):
        moved = {n: v.to(DEVICE) if isinstance(v, flambeau.Tensor) else v for n, v in options.items()}
        actual = flambeau.histogramdd(points.to(DEVICE), [4, 3], **moved)
        expected = flambeau.histogramdd(points, [4, 3], **options)
        np.testing.assert_allclose(array(actual.hist), array(expected.hist), rtol=1e-12)
        same(actual.bin_edges, expected.bin_edges)
    edges = flambeau.tensor([0.0, 0.2, 0.9], dtype=flambeau.float64)
    same(flambeau.histogram(weights.to(DEVICE), edges.to(DEVICE)), flambeau.histogram(weights, edges))


def test_which_elements_are_not_zero():
    mask = flambeau.from_numpy(np.random.default_rng(0).random((5, 6, 7)) < 0.3)
    for view in (lambda t: t, lambda t: t.transpose(0, 2), lambda t: t[::2, 1:, ::3], lambda t: t[0, 0]):
        same(view(mask.to(DEVICE)).nonzero(), view(mask).nonzero())
        same(view(mask.to(DEVICE)).nonzero(as_tuple=True), view(mask).nonzero(as_tuple=True))
    x = flambeau.randn(5, 6, 7)
    same(x.to(DEVICE)[mask.to(DEVICE)], x[mask])
    times = flambeau.tensor([2, 0, 3])
    same(
        flambeau.arange(3, device=DEVICE).repeat_interleave(times.to(DEVICE)),
        flambeau.arange(3).repeat_interleave(times),
    )
    with pytest.raises(RuntimeError, match="can not be negative"):
        flambeau.arange(2, device=DEVICE).repeat_interleave(flambeau.tensor([1, -1], device=DEVICE))


def test_a_loop_that_each_element_ends_by_itself():
    """Collatz's sequences; on the CPU, whose kernels compute several elements at once, there are no such loops."""

    @indexed()
    def steps(at, x):
        start = x[at]
        half = lambda n: fn.where((n & 1) == 0, n >> 1, n * 3 + 1)
        return (at.repeat((start, start * 0), lambda n, k: n > 1, lambda n, k: (half(n), k + 1))[1],)

    x = flambeau.tensor([1, 7, 27, 0], device=DEVICE)
    assert steps(x.shape, x).tolist() == [0, 16, 111, 0]
    with pytest.raises(TypeError, match="repeat"):
        steps((4,), x.cpu())

    @indexed()
    def changes(at, x):
        return at.repeat((x[at],), lambda n: n > 1, lambda n: (fn.cast(n, "float32"),))

    with pytest.raises(TypeError, match="changes its dtype"):
        changes(x.shape, x)
