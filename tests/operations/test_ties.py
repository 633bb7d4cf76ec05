"""Who gets the gradient where several elements are the largest, or NaN."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau
from flambeau.operations.linalg import distances

F = flambeau.nn.functional
RNG = np.random.default_rng(0)


def numbers(*shape):
    """Small whole numbers, many of which are equal."""
    return RNG.integers(-2, 3, shape).astype(np.float64)


def slopes(function, *arrays):
    """The gradients of the results' sum, NaN among the results left alone."""
    tensors = [flambeau.tensor(a, requires_grad=True) for a in arrays]
    return [g.numpy() for g in flambeau.autograd.grad(function(*tensors).sum(), tensors)]


OF_ALL = {
    "max": (flambeau.max, np.max),
    "min": (flambeau.min, np.min),
    "median": (flambeau.median, lambda a: np.quantile(a, 0.5, method="lower")),
    "nanmedian": (flambeau.nanmedian, lambda a: np.nanquantile(a, 0.5, method="lower")),
}


@pytest.mark.parametrize("name", OF_ALL)
@pytest.mark.parametrize("nans", (0, 1, 5, 12))
def test_of_all_elements_those_that_are_it_share_alike(name, nans):
    """Where the result is NaN, those are it that are NaN, as in PyTorch; `amax` and `amin` say NaN everywhere, there and here."""
    function, reference = OF_ALL[name]
    a = numbers(3, 4)
    a.reshape(-1)[RNG.permutation(12)[:nans]] = math.nan
    top = reference(a) if nans < 12 else math.nan
    hit = np.isnan(a) if np.isnan(top) else a == top
    np.testing.assert_allclose(slopes(function, a)[0], hit / hit.sum(), rtol=1e-12)
    np.testing.assert_allclose(slopes(function, a.T)[0].T, hit / hit.sum(), rtol=1e-12)


@pytest.mark.parametrize("name", ("amax", "amin"))
def test_extremes_along_dimensions_tell_of_nan_everywhere(name):
    a = numbers(3, 4)
    a[1, 2] = math.nan
    (found,) = slopes(lambda x: getattr(flambeau, name)(x, 1), a)
    assert np.isnan(found[1]).all() and not np.isnan(found[[0, 2]]).any()


NORMS = {
    "norm": lambda x, p: x.norm(p, 1),
    "vector_norm": lambda x, p: flambeau.linalg.vector_norm(x, p, 1),
    "pairwise_distance": lambda x, p: F.pairwise_distance(x, flambeau.zeros_like(x), p, 0.0),
    "dist": lambda x, p: flambeau.stack([flambeau.dist(r, flambeau.zeros_like(r), p) for r in x]),
}


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("p", (math.inf, -math.inf))
def test_norms_share_alike(name, p):
    """Beside a NaN the others get nothing."""
    a = numbers(40, 5)
    (found,) = slopes(lambda x: NORMS[name](x, p), a)
    size = np.abs(a)
    hit = size == (size.max if p > 0 else size.min)(1, keepdims=True)
    np.testing.assert_allclose(found, np.sign(a) * hit / hit.sum(1, keepdims=True), rtol=1e-12)
    a[:, 2] = math.nan
    assert (slopes(lambda x: NORMS[name](x, p), a)[0][:, [0, 1, 3, 4]] == 0).all()


def each_gets_the_whole(difference):
    size = np.abs(difference)
    return np.sign(difference) * (size == size.max(-1, keepdims=True))


@pytest.mark.parametrize("block", (1, 7, 1 << 18))
@pytest.mark.parametrize("shape", ((4, 3), (1, 5), (6, 1), (3, 2, 3)))
def test_distances_give_each_coordinate_the_whole(block, shape, monkeypatch):
    """The largest differences of `cdist` and `pdist`, unlike those of a norm, do not share: as in PyTorch."""
    monkeypatch.setattr(distances, "BLOCK", block)
    a, b = numbers(*shape), numbers(*shape[:-2], 5, shape[-1])
    terms = each_gets_the_whole(a[..., :, None, :] - b[..., None, :, :])
    found = slopes(lambda x, y: flambeau.cdist(x, y, math.inf), a, b)
    np.testing.assert_array_equal(found[0], terms.sum(-2))
    np.testing.assert_array_equal(found[1], -terms.sum(-3))
    if len(shape) == 2:
        terms = np.triu(np.ones((shape[0],) * 2), 1)[..., None] * each_gets_the_whole(a[:, None] - a)
        (found,) = slopes(lambda x: F.pdist(x, math.inf), a)
        np.testing.assert_array_equal(found, terms.sum(1) - terms.sum(0))


@pytest.mark.parametrize("p", (0.0, 1.0, 2.0, 3.0, float("inf")))
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((0, 3), (5, 3)),
        ((5, 3), (0, 3)),
        ((2, 0), (3, 0)),
        ((0, 2, 3), (0, 4, 3)),
        ((2, 0, 3), (2, 4, 3)),
        ((2, 2, 0), (2, 4, 0)),
    ],
)
def test_distances_of_nothing(left, right, p):
    """No matrices, no rows, and rows of no elements, which are at distance 0."""
    a, b = (flambeau.zeros(shape, requires_grad=True) for shape in (left, right))
    result = flambeau.cdist(a, b, p)
    assert result.shape == (*left[:-1], right[-2]) and not result.any()
    result.sum().backward()
    assert not a.grad.any() and a.grad.shape == left and not b.grad.any() and b.grad.shape == right


@pytest.mark.parametrize("p", (0.0, 1.0, 2.0, 3.0, float("inf")))
@pytest.mark.parametrize("shape", ((0, 3), (1, 3), (3, 0)))
def test_distances_among_nothing(shape, p):
    x = flambeau.zeros(shape, requires_grad=True)
    result = flambeau.nn.functional.pdist(x, p)
    assert result.tolist() == [0.0] * (shape[0] * (shape[0] - 1) // 2)
    result.sum().backward()
    assert x.grad.shape == shape and not x.grad.any()
