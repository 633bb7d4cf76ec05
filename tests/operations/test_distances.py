"""Distances, histograms, numerical gradients, norms cut down: against NumPy and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.spatial.distance as reference

import flambeau
from flambeau import cpu
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.operations.linalg import distances

RNG = np.random.default_rng(0)
METRIC = {0.0: "hamming", 1.0: "cityblock", 2.0: "euclidean", 3.0: "minkowski", float("inf"): "chebyshev"}


def options(p):
    return {"p": 3.0} if p == 3.0 else {}


@pytest.mark.parametrize("p", METRIC)
def test_cdist_and_pdist(p):
    a, b = RNG.standard_normal((4, 3)), RNG.standard_normal((5, 3))
    a[1] = a[0]
    scale = 3 if p == 0 else 1  # the Hamming distance is a share of the coordinates
    found = flambeau.cdist(flambeau.tensor(a), flambeau.tensor(b), p).numpy()
    np.testing.assert_allclose(found, reference.cdist(a, b, METRIC[p], **options(p)) * scale, rtol=1e-12)
    found = flambeau.pdist(flambeau.tensor(a), p).numpy()
    np.testing.assert_allclose(found, reference.pdist(a, METRIC[p], **options(p)) * scale, rtol=1e-12, atol=0)
    if p:
        x, y = flambeau.tensor(RNG.standard_normal((2, 3, 2))), flambeau.tensor(RNG.standard_normal((2, 2)))
        both = [x.requires_grad_(), y.requires_grad_()]
        assert gradcheck(lambda s, t: flambeau.cdist(s, t, p), both)
        assert gradgradcheck(lambda s, t: flambeau.cdist(s, t, p), both)


def test_distances_of_many_rows_and_of_none():
    a, b = RNG.standard_normal((2, 40, 3)), RNG.standard_normal((30, 3))
    found = flambeau.cdist(flambeau.tensor(a), flambeau.tensor(b)).numpy()
    for k in range(2):
        np.testing.assert_allclose(found[k], reference.cdist(a[k], b), rtol=1e-10)
    x = flambeau.zeros(3, 2, requires_grad=True)
    (flambeau.pdist(x).sum() + flambeau.cdist(x, x).sum()).backward()
    assert x.grad.tolist() == [[0.0, 0.0]] * 3
    assert flambeau.cdist(flambeau.ones(0, 2), flambeau.ones(3, 2)).shape == (0, 3)
    assert flambeau.cdist(flambeau.ones(2, 0), flambeau.ones(3, 0)).eq(0).all()
    assert flambeau.pdist(flambeau.ones(1, 2)).shape == (0,)


def test_errors_of_distances():
    x = flambeau.ones(2, 3)
    for bad in (lambda: flambeau.cdist(x[0], x), lambda: flambeau.cdist(x, x[:, :2]), lambda: flambeau.cdist(x, x, -1.0),
                lambda: flambeau.cdist(x.long(), x.long()), lambda: flambeau.pdist(x[0])):  # fmt: skip
        with pytest.raises(RuntimeError):
            bad()
    with pytest.raises(ValueError, match="compute_mode"):
        flambeau.cdist(x, x, 2.0, "fast")


@pytest.mark.parametrize("edge_order", [1, 2])
def test_gradient(edge_order):
    a = RNG.standard_normal((4, 5))
    places = np.cumsum(RNG.random(5) + 0.1)
    x = flambeau.tensor(a)
    for found, expected in (
        (flambeau.gradient(x, edge_order=edge_order), np.gradient(a, edge_order=edge_order)),
        (flambeau.gradient(x, spacing=0.5, dim=1, edge_order=edge_order), [np.gradient(a, 0.5, axis=1, edge_order=edge_order)]),
        (flambeau.gradient(x, spacing=[flambeau.tensor(places)], dim=1, edge_order=edge_order),
         [np.gradient(a, places, axis=1, edge_order=edge_order)]),
    ):  # fmt: skip
        assert len(found) == len(expected)
        for f, e in zip(found, expected):
            np.testing.assert_allclose(f.numpy(), e, rtol=1e-10, atol=1e-12)
    with pytest.raises(RuntimeError, match="edge_order"):
        flambeau.gradient(x, edge_order=3)
    with pytest.raises(RuntimeError, match="at least edge_order"):
        flambeau.gradient(flambeau.ones(1))


def test_histograms():
    a, w = RNG.standard_normal(50), RNG.random(50)
    x, weight = flambeau.tensor(a), flambeau.tensor(w)
    found = flambeau.histogram(x, 7, range=(-1.0, 2.0), weight=weight, density=True)
    hist, edges = np.histogram(a, 7, (-1.0, 2.0), weights=w, density=True)
    np.testing.assert_allclose(found.hist.numpy(), hist)
    np.testing.assert_allclose(found.bin_edges.numpy(), edges)
    given = flambeau.tensor([-2.0, 0.0, 0.5, 3.0], dtype=flambeau.float64)
    np.testing.assert_allclose(flambeau.histogram(x, given).hist.numpy(), np.histogram(a, given.numpy())[0])
    points = RNG.standard_normal((30, 2))
    found = flambeau.histogramdd(flambeau.tensor(points), [3, 4], range=[-2.0, 2.0, -1.0, 1.0])
    np.testing.assert_allclose(
        found.hist.numpy(), np.histogramdd(points, [3, 4], [(-2.0, 2.0), (-1.0, 1.0)])[0]
    )
    assert flambeau.histogram(flambeau.ones(3), 2).bin_edges.tolist() == [0.5, 1.0, 1.5]
    for bad in (lambda: flambeau.histogram(x, 0), lambda: flambeau.histogram(x, 3, range=(1.0, 0.0)),
                lambda: flambeau.histogram(x, 3, weight=weight.float())):  # fmt: skip
        with pytest.raises(RuntimeError):
            bad()


def test_renorm():
    x = flambeau.tensor([[3.0, 4.0], [0.3, 0.4]], dtype=flambeau.float64, requires_grad=True)
    found = flambeau.renorm(x, 2, 0, 1.0)
    np.testing.assert_allclose(found.detach().numpy(), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6)
    assert gradcheck(lambda t: flambeau.renorm(t, 2, 0, 1.0), [x])
    y = x.detach().clone()
    assert y.renorm_(1, 1, 2.0) is y and y.abs().sum(0).le(2.0).all()
    with pytest.raises(RuntimeError):
        flambeau.renorm(flambeau.ones(2), 2, 0, 1.0)
    with pytest.raises(IndexError):
        flambeau.renorm(x, 2, 2, 1.0)


def test_unravel_index():
    n = np.arange(24).reshape(4, 6)
    for found, expected in zip(
        flambeau.unravel_index(flambeau.tensor(n), (2, 3, 4)), np.unravel_index(n, (2, 3, 4))
    ):
        np.testing.assert_array_equal(found.numpy(), expected)
    for bad in (flambeau.tensor([24]), flambeau.tensor([-1])):
        with pytest.raises(ValueError):
            flambeau.unravel_index(bad, (2, 3, 4))
    with pytest.raises(TypeError):
        flambeau.unravel_index(flambeau.tensor([1.0]), (2,))


def test_as_strided_scatter():
    x = flambeau.zeros(6, dtype=flambeau.float64, requires_grad=True)
    src = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=flambeau.float64, requires_grad=True)
    found = flambeau.as_strided_scatter(x, src, (2, 2), (3, 1), 1)
    assert found.tolist() == [0.0, 1.0, 2.0, 0.0, 3.0, 4.0]
    assert gradcheck(lambda a, b: flambeau.as_strided_scatter(a, b, (2, 2), (3, 1), 1), [x, src])
    with pytest.raises(RuntimeError):
        flambeau.as_strided_scatter(x, src, (2, 2), (4, 1), 2)


@pytest.mark.parametrize("reduce", ["mean", "prod", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_index_reduce(reduce, include_self):
    x, source = RNG.standard_normal((3, 4)), RNG.standard_normal((2, 4))
    index = flambeau.tensor([2, 2])
    found = flambeau.tensor(x).index_reduce(
        0, index, flambeau.tensor(source), reduce, include_self=include_self
    )
    rows = np.concatenate([x[2:], source]) if include_self else source
    function = {"mean": np.mean, "prod": np.prod, "amax": np.max, "amin": np.min}[reduce]
    np.testing.assert_allclose(found.numpy(), np.stack([x[0], x[1], function(rows, 0)]), rtol=1e-12)


def test_bools_and_integers_in_arithmetic():
    a, b = flambeau.tensor([True, True, False]), flambeau.tensor([False, True, False])
    assert flambeau.add(a, b, alpha=False).tolist() == a.tolist()
    assert flambeau.fmax(a, b).tolist() == [True, True, False] and flambeau.fmin(a, b).tolist() == b.tolist()
    assert a.clamp_max(b).tolist() == b.tolist() and a.square().dtype == flambeau.int64
    assert a.prod(dtype=flambeau.bool).item() is False
    assert flambeau.isclose(a, b).tolist() == [False, True, True]
    three, four = flambeau.tensor([3]), flambeau.tensor([4])
    assert (
        not flambeau.isclose(three, four, atol=0.5, rtol=0).item()
        and flambeau.isclose(three, four, rtol=0.5).item()
    )
    assert flambeau.tensor([0.5]).bfloat16().bool().item() is True
    assert flambeau.arange(0.0, -8.000001, -4.0, dtype=flambeau.int64).tolist() == [0, -4]
    assert flambeau.nn.functional.softmax(three, 0, dtype=flambeau.float64).dtype == flambeau.float64
    assert flambeau.var_mean(flambeau.ones(0))[1].isnan()
    assert flambeau.ones(2, 3, dtype=flambeau.bool).sum_to_size(1, 3).tolist() == [[2, 2, 2]]


@pytest.mark.parametrize("p", METRIC)
@pytest.mark.parametrize("block", [1, 10, 40])
def test_distances_in_blocks(p, block, monkeypatch):
    """Values and gradients of any order are those of all differences at once."""
    a, b = RNG.standard_normal((3, 4, 3)), RNG.standard_normal((5, 3))
    whole = flambeau.cdist(flambeau.tensor(a), flambeau.tensor(b), p, "donot_use_mm_for_euclid_dist")
    pairs = flambeau.pdist(flambeau.tensor(b), p)
    monkeypatch.setattr(distances, "BLOCK", block)
    found = flambeau.cdist(flambeau.tensor(a), flambeau.tensor(b), p, "donot_use_mm_for_euclid_dist")
    # To the last bit but one: few short rows are added up in another order than many.
    np.testing.assert_allclose(found.numpy(), whole.numpy(), rtol=1e-15)
    np.testing.assert_allclose(flambeau.pdist(flambeau.tensor(b), p).numpy(), pairs.numpy(), rtol=1e-15)
    if p and block == 10:
        x, y = flambeau.tensor(a[:2, :3, :2]).requires_grad_(), flambeau.tensor(b[:2, :2]).requires_grad_()
        for inputs in ((x, y), (x, y.detach()), (x.detach(), y)):
            assert gradcheck(lambda s, t: flambeau.cdist(s, t, p), inputs)
            assert gradgradcheck(lambda s, t: flambeau.cdist(s, t, p), inputs)
        assert gradcheck(lambda s: flambeau.cdist(s, s + 1, p), (x,))
        assert gradcheck(lambda s: flambeau.pdist(s[0], p), (x,)) and gradgradcheck(
            lambda s: flambeau.pdist(s[0], p), (x,)
        )


def test_distances_take_the_memory_of_their_results():
    x, y = flambeau.randn(700, 60, requires_grad=True), flambeau.randn(600, 60)
    before = cpu.memory_allocated()
    cpu.reset_peak_memory_stats()
    flambeau.cdist(x, y, 3.0).sum().backward()
    assert cpu.max_memory_allocated() - before < 24 << 20  # all differences at once would be 100 MB
