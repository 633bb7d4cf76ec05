"""Rearranging, repeating, triangles, diagonals, grids, searching: values against NumPy, gradients, errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import flambeau
from flambeau.autograd import gradcheck, gradgradcheck

rng = np.random.default_rng(9)
A = rng.standard_normal((3, 4, 5))
M = rng.standard_normal((4, 6))
X, Y = flambeau.from_numpy(A), flambeau.from_numpy(M)

PAIRS = {
    "flip": (lambda t: t.flip(0, 2), lambda a: np.flip(a, (0, 2)), A),
    "flip strided": (lambda t: t.transpose(0, 2)[1:].flip(1), lambda a: np.flip(a.swapaxes(0, 2)[1:], 1), A),
    "fliplr": (flambeau.fliplr, np.fliplr, A),
    "flipud": (flambeau.flipud, np.flipud, A),
    "roll": (lambda t: t.roll((1, -7), (0, 2)), lambda a: np.roll(a, (1, -7), (0, 2)), A),
    "roll all": (lambda t: t.roll(5), lambda a: np.roll(a, 5), A),
    **{f"rot90 {k}": (lambda t, k=k: t.rot90(k, (1, 2)), lambda a, k=k: np.rot90(a, k, (1, 2)), A) for k in range(-1, 4)},
    "repeat": (lambda t: t.repeat(2, 1, 3, 2), lambda a: np.tile(a, (2, 1, 3, 2)), A),
    "tile": (lambda t: t.tile((2, 3)), lambda a: np.tile(a, (2, 3)), A),
    "repeat_interleave": (lambda t: t.repeat_interleave(3, 1), lambda a: np.repeat(a, 3, 1), A),
    "repeat_interleave by tensor": (
        lambda t: t.repeat_interleave(flambeau.tensor([0, 2, 1]), 0), lambda a: np.repeat(a, [0, 2, 1], 0), A,
    ),
    **{f"tril {k}": (lambda t, k=k: t.tril(k), lambda a, k=k: np.tril(a, k), A) for k in (-9, -1, 0, 2, 9)},
    **{f"triu {k}": (lambda t, k=k: t.triu(k), lambda a, k=k: np.triu(a, k), A) for k in (-9, -1, 0, 2, 9)},
    "diag": (lambda t: t.diag(1), lambda a: np.diag(a, 1), M),
    "diag of vector": (lambda t: t[0].diag(-2), lambda a: np.diag(a[0], -2), M),
    "diagflat": (lambda t: t.diagflat(1), lambda a: np.diagflat(a, 1), M),
    "trace": (lambda t: t.trace(), np.trace, M),
    "kron": (lambda t: t.kron(t[:2, 1]), lambda a: np.kron(a, a[:2, 1]), M),
    "cross": (lambda t: t[:, :3].cross(t[:, 3:], 1), lambda a: np.cross(a[:, :3], a[:, 3:]), M),
    "vander": (lambda t: flambeau.vander(t[0], 3), lambda a: np.vander(a[0], 3), M),
    "cov": (lambda t: t.cov(), np.cov, M),
    "corrcoef": (lambda t: t.corrcoef(), np.corrcoef, M),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_values_and_gradients(name):
    function, reference, a = PAIRS[name]
    x = flambeau.from_numpy(a.copy())
    np.testing.assert_allclose(function(x).numpy(), reference(a), rtol=1e-12, atol=1e-14)
    x.requires_grad_()
    assert gradcheck(function, (x,)) and gradgradcheck(function, (x,))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16"])
def test_other_dtypes(dtype):
    x = flambeau.tensor([[1, 0, 1], [1, 1, 1]], dtype=getattr(flambeau, dtype))
    a = x.numpy()
    for found, expected in (
        (x.flip(1), np.flip(a, 1)), (x.tril(), np.tril(a)), (x.triu(1), np.triu(a, 1)), (x.repeat(2, 2), np.tile(a, (2, 2))),
    ):  # fmt: skip
        assert found.dtype == x.dtype and found.numpy().tolist() == expected.tolist()


def test_triangles_in_place_and_out():
    x = flambeau.ones(3, 3)
    assert x.tril_() is x and x.tolist() == np.tril(np.ones((3, 3))).tolist()
    assert x.triu_(0).tolist() == np.eye(3).tolist()
    out = flambeau.empty(0)
    assert flambeau.triu(flambeau.ones(2, 2), out=out) is out and out.tolist() == [[1, 1], [0, 1]]


def test_copies_are_copies():
    x = flambeau.ones(2, 2)
    for y in (x.flip(()), x.roll(0, 0), x.rot90(0), x.repeat(1, 1), x.repeat_interleave(1, 0), x.diag()):
        y.fill_(7.0)
    assert x.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_diag_embed():
    x = X.diag_embed(1, 0, 2)
    assert x.shape == (6, 3, 6, 4)
    np.testing.assert_array_equal(x.diagonal(1, 0, 2).numpy(), A)
    assert x.sum().item() == pytest.approx(A.sum())
    y = flambeau.from_numpy(A.copy()).requires_grad_()
    assert gradcheck(lambda t: t.diag_embed(-1, 1, 3), (y,))


def test_scatters_into_views():
    src = flambeau.ones(4, dtype=flambeau.float64)
    expected = M.copy()
    np.fill_diagonal(expected, 1)
    np.testing.assert_array_equal(Y.diagonal_scatter(src).numpy(), expected)
    expected = M.copy()
    expected[:, 2] = 1
    np.testing.assert_array_equal(Y.select_scatter(src, 1, 2).numpy(), expected)
    expected = M.copy()
    expected[:, 1:6:2] = 1
    np.testing.assert_array_equal(
        Y.slice_scatter(src.unsqueeze(1).expand(4, 3), 1, 1, 6, 2).numpy(), expected
    )
    y, s = (
        flambeau.from_numpy(M.copy()).requires_grad_(),
        flambeau.rand(4, dtype=flambeau.float64, requires_grad=True),
    )
    assert gradcheck(lambda a, b: a.diagonal_scatter(b), (y, s))
    assert gradcheck(lambda a, b: a.select_scatter(b, 1, 3), (y, s))


@pytest.mark.parametrize("indexing", ["ij", "xy"])
def test_meshgrid(indexing):
    arrays = [np.arange(n) for n in (3, 4, 2)]
    got = flambeau.meshgrid(*map(flambeau.from_numpy, arrays), indexing=indexing)
    for g, e in zip(got, np.meshgrid(*arrays, indexing=indexing), strict=True):
        np.testing.assert_array_equal(g.numpy(), e)


def test_products_of_sets():
    a, b = flambeau.tensor([1, 2]), flambeau.tensor([3, 4, 5])
    assert flambeau.cartesian_prod(a, b).tolist() == [list(p) for p in itertools.product([1, 2], [3, 4, 5])]
    for r, repeated in ((2, False), (2, True), (3, False), (4, False)):
        choose = itertools.combinations_with_replacement if repeated else itertools.combinations
        assert flambeau.combinations(b, r, repeated).tolist() == [list(p) for p in choose([3, 4, 5], r)]


def test_broadcasting():
    assert flambeau.broadcast_shapes((2, 1), (3,), (), (1, 1, 1)) == (1, 2, 3)
    x, y = flambeau.broadcast_tensors(flambeau.ones(2, 1), flambeau.zeros(3))
    assert x.shape == y.shape == (2, 3)
    with pytest.raises(RuntimeError, match="Shape mismatch"):
        flambeau.broadcast_shapes((2,), (3,))


@pytest.mark.parametrize("dim", [None, 0, 1])
def test_unique(dim):
    a = rng.integers(0, 3, (6, 2))
    values, inverse, counts = flambeau.unique(flambeau.from_numpy(a), True, True, True, dim)
    expected = np.unique(a, return_inverse=True, return_counts=True, axis=dim)
    np.testing.assert_array_equal(values.numpy(), expected[0])
    np.testing.assert_array_equal(inverse.numpy().ravel(), expected[1].ravel())
    np.testing.assert_array_equal(counts.numpy(), expected[2])
    alone, counts = flambeau.unique(flambeau.from_numpy(a), return_counts=True, dim=dim)
    assert alone.tolist() == values.tolist() and counts.tolist() == expected[2].tolist()


def test_unique_consecutive():
    x = flambeau.tensor([1, 1, 2, 2, 3, 1])
    values, inverse, counts = flambeau.unique_consecutive(x, True, True)
    assert (values.tolist(), inverse.tolist(), counts.tolist()) == (
        [1, 2, 3, 1],
        [0, 0, 1, 1, 2, 3],
        [2, 2, 1, 1],
    )
    rows = flambeau.tensor([[1, 2], [1, 2], [3, 4]])
    assert flambeau.unique_consecutive(rows, dim=0).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(("shape", "dim"), [((0,), 0), ((0, 3), 0), ((3, 0), 1), ((2, 0, 3), -2)])
def test_distinct_slices_of_none(shape, dim):
    for function in (flambeau.unique, flambeau.unique_consecutive):
        result = function(flambeau.zeros(shape), return_inverse=True, return_counts=True, dim=dim)
        assert [tuple(t.shape) for t in result] == [shape, (0,), (0,)]


def test_counting():
    a, w = rng.integers(0, 9, 50), rng.random(50)
    x = flambeau.from_numpy(a)
    assert x.bincount(minlength=12).tolist() == np.bincount(a, minlength=12).tolist()
    np.testing.assert_allclose(x.bincount(flambeau.from_numpy(w)).numpy(), np.bincount(a, w))
    h = flambeau.histc(Y, 10, -1, 1)
    assert h.tolist() == np.histogram(M, 10, (-1, 1))[0].tolist()
    assert flambeau.histc(Y, 7).sum().item() == M.size


@pytest.mark.parametrize("right", [False, True])
def test_searching(right):
    side = "right" if right else "left"
    bounds, values = (
        np.sort(rng.integers(0, 9, (4, 12)).astype("float64"), 1),
        rng.integers(-1, 11, (4, 5)).astype("float64"),
    )
    tb, tv = flambeau.from_numpy(bounds), flambeau.from_numpy(values)
    expected = [np.searchsorted(b, v, side).tolist() for b, v in zip(bounds, values, strict=True)]
    assert flambeau.searchsorted(tb, tv, right=right).tolist() == expected
    assert flambeau.searchsorted(tb, tv, side=side).tolist() == expected
    one = flambeau.bucketize(tv, tb[0], right=right, out_int32=True)
    assert one.dtype == flambeau.int32 and one.tolist() == np.searchsorted(bounds[0], values, side).tolist()
    turned = rng.permutation(12)
    shuffled, sorter = tb[0][flambeau.from_numpy(turned)], flambeau.from_numpy(np.argsort(turned))
    assert flambeau.searchsorted(shuffled, tv[0], right=right, sorter=sorter).tolist() == expected[0]


def test_isin():
    x = flambeau.tensor([[1, 2], [3, 4]])
    assert flambeau.isin(x, flambeau.tensor([2, 3])).tolist() == [[False, True], [True, False]]
    assert flambeau.isin(x, 4, invert=True).tolist() == [[True, True], [True, False]]


def test_weighted_covariances():
    f, w = np.array([1, 2, 0, 3, 1, 1]), rng.random(6)
    got = Y.cov(correction=1, fweights=flambeau.from_numpy(f), aweights=flambeau.from_numpy(w))
    np.testing.assert_allclose(got.numpy(), np.cov(M, fweights=f, aweights=w), rtol=1e-12)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: X.flip(3), IndexError, r"flip\(\): Dimension out of range"),
        (lambda: X.flip(0, -3), RuntimeError, "dim 0 appears multiple times"),
        (lambda: X.roll((1, 2), 0), RuntimeError, "shifts: 2, dims:1"),
        (lambda: X.rot90(1, (0, 0)), RuntimeError, "to be different"),
        (lambda: X.repeat(2), RuntimeError, "can not be smaller than number of dimensions"),
        (
            lambda: X.repeat_interleave(flambeau.tensor([1, 2]), 0),
            RuntimeError,
            "same size as input along dim",
        ),
        (lambda: flambeau.ones(3).tril(), RuntimeError, "tril: input tensor must have at least 2 dimensions"),
        (lambda: X.diag(), RuntimeError, "Got 3D"),
        (lambda: X.trace(), RuntimeError, "expected a matrix"),
        (lambda: Y.select_scatter(flambeau.ones(3), 1, 0), RuntimeError, "expected src to have a size equal"),
        (lambda: Y.cross(Y), RuntimeError, "no dimension of size 3"),
        (lambda: flambeau.ones(2).bincount(), NotImplementedError, "bincount"),
        (lambda: flambeau.histc(Y, 0), RuntimeError, "bins must be > 0"),
        (lambda: flambeau.bucketize(Y, Y), RuntimeError, "must be 1 dimension"),
        (lambda: flambeau.meshgrid(X), RuntimeError, "0D or 1D"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_combinations_that_there_are_none_of_have_a_gradient():
    x = flambeau.ones(2, requires_grad=True)
    found = flambeau.combinations(x, 3)
    assert found.shape == (0, 3)
    found.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "int64", "complex128"])
def test_rows_are_mirrored_along_any_dimensions(dtype):
    rng = np.random.default_rng(0)
    for shape in ((4100,), (70, 65), (9, 700), (1400, 3), (5, 30, 64)):
        x = rng.integers(0, 100, shape).astype(dtype)
        for given, wanted in (
            (flambeau.tensor(x), x),
            (flambeau.tensor(x).narrow(-1, 1, shape[-1] - 1), x[..., 1:]),
            (flambeau.tensor(x).movedim(0, -1), np.moveaxis(x, 0, -1)),
        ):
            for dims in ((-1,), (0, -1), tuple(range(len(shape)))):
                dims = tuple({d % len(shape) for d in dims})
                np.testing.assert_array_equal(given.flip(dims).numpy(), np.flip(wanted, dims))


def test_large_joins_of_transposed_tensors():
    x = np.arange(3 * 150 * 170, dtype=np.float32).reshape(3, 150, 170)
    a = flambeau.tensor(x).transpose(1, 2)
    np.testing.assert_array_equal(flambeau.cat([a, a], 1).numpy(), np.concatenate([x.swapaxes(1, 2)] * 2, 1))
    np.testing.assert_array_equal(flambeau.stack([a, a], 2).numpy(), np.stack([x.swapaxes(1, 2)] * 2, 2))
    np.testing.assert_array_equal(
        flambeau.cat([a, a.double()], 2).numpy(), np.concatenate([x.swapaxes(1, 2)] * 2, 2)
    )


def test_large_fills_and_ranges():
    for dtype, value in (
        (flambeau.int16, 517),
        (flambeau.float32, 0.1),
        (flambeau.float64, 0.3),
        (flambeau.complex128, 1 - 2j),
        (flambeau.uint8, 3),
    ):
        for n in (1, 5, 33, 1023, 1024, 1025, 5000, 200_001):
            found = flambeau.full((n,), value, dtype=dtype)
            assert found.eq(found[0]).all() and found[0] == flambeau.tensor(value, dtype=dtype)
    assert flambeau.full((300, 300), 7.5)[:, 1:100].fill_(2.5).eq(2.5).all()
    np.testing.assert_array_equal(flambeau.arange(-5, 2_000_000, 7).numpy(), np.arange(-5, 2_000_000, 7))
    np.testing.assert_array_equal(
        flambeau.arange(0, 300_000, 1 / 7, dtype=flambeau.float64).numpy(), np.arange(2_100_000) * (1 / 7)
    )
    assert flambeau.arange(2**62, 2**63 - 1, 2**60).tolist() == list(range(2**62, 2**63 - 1, 2**60))
