"""Sums of all kinds against float64, in units of float32's epsilon relative to the largest element of the result.

`docs/accuracy.md` holds what was measured (tools/accuracy.py), PyTorch's beside it; the bars here are about twice that, and well
below what adding up in one line gives.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import flambeau
from flambeau.nn import functional as F

EPSILON = 2.0**-23


def error(found, true: np.ndarray) -> float:
    """The largest error, relative to the largest element, in epsilons."""
    return float(np.abs(found.detach().double().numpy() - true).max() / np.abs(true).max() / EPSILON)


def uniform(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(shape).astype(np.float32)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


SHAPES = [
    ((1_000_000,), (0,)),
    ((1000, 1000), (0,)),
    ((1000, 1000), (1,)),
    ((1000, 1000), (0, 1)),
    ((100, 100, 100), (1,)),
    ((100, 100, 100), (0, 2)),
    ((100_000, 10), (0,)),
    ((10, 100_000), (1,)),
    ((100_000, 7), (1,)),
]
FOLDS = {
    "sum": (lambda x, d: x.sum(d), lambda x, d: x.sum(d)),
    "mean": (lambda x, d: x.mean(d), lambda x, d: x.mean(d)),
    "nansum": (lambda x, d: flambeau.nansum(x, d), lambda x, d: x.sum(d)),
    "norm": (lambda x, d: x.norm(dim=d), lambda x, d: np.sqrt((x * x).sum(d))),
    "norm1": (lambda x, d: x.norm(1, dim=d), lambda x, d: np.abs(x).sum(d)),
    "logsumexp": (lambda x, d: x.logsumexp(d), lambda x, d: np.log(np.exp(x).sum(d))),
}


@pytest.mark.parametrize(("shape", "dims"), SHAPES, ids=str)
@pytest.mark.parametrize("fold", FOLDS)
def test_folds(fold, shape, dims):
    """In one line, a million tenths err by 300 epsilons in a sum, and by 20 in blocks added up in one line."""
    ours, true = FOLDS[fold]
    for x in (uniform(*shape), np.full(shape, 0.1, np.float32)):
        t = flambeau.from_numpy(x)
        turned = flambeau.from_numpy(np.ascontiguousarray(x.T)).permute(*range(x.ndim)[::-1])
        for given in (t, turned):
            assert error(ours(given, dims), true(x.astype(np.float64), dims)) <= 3.2


@pytest.mark.parametrize(("shape", "dims"), SHAPES, ids=str)
@pytest.mark.parametrize("mean", [0.0, 1e4])
def test_variance_is_rounded_once(shape, dims, mean):
    x = normal(*shape) + np.float32(mean)
    t, wide = flambeau.from_numpy(x), x.astype(np.float64)
    variance, average = flambeau.var_mean(t, dims)
    assert error(t.var(dims), wide.var(dims, ddof=1)) <= 0.51
    assert error(t.std(dims), wide.std(dims, ddof=1)) <= 0.51
    assert error(variance, wide.var(dims, ddof=1)) <= 0.51
    assert error(average + 1.0, wide.mean(dims) + 1.0) <= 1.01


def test_variance_where_an_element_lies_far_from_the_mean():
    """Also where it is the first, from which the differences are taken: n times float64's epsilon, and a few."""
    for place in (0, 1, 99_999):
        x = normal(100_000).astype(np.float64)
        x[place] = 1e8
        for kind in ("float32", "float64"):
            t = flambeau.from_numpy(x).to(getattr(flambeau, kind))
            true = np.var(t.double().numpy().astype(np.longdouble), ddof=1)
            assert abs(t.var().double().item() / float(true) - 1) < (EPSILON if kind == "float32" else 1e-10)


def test_variance_in_float64_keeps_its_digits():
    x = np.random.default_rng(0).standard_normal(100_000) + 1e8
    true = np.var(x.astype(np.longdouble), ddof=1)
    assert abs(flambeau.from_numpy(x).var().item() / float(true) - 1) < 1e-13


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_spread_of_the_largest_numbers(dtype):
    x = flambeau.tensor([1e38, -1e38, 2e38], dtype=getattr(flambeau, dtype))
    true = x.double().numpy()
    assert abs(x.std().item() / np.std(true, ddof=1) - 1) < 0.01 and x.var().item() == float("inf")
    assert flambeau.full((5,), 1e38).var().item() == 0.0


def test_variance_of_complex_numbers_and_of_nothing():
    z = (normal(1000) + 1j * normal(1000, seed=1) + 100).astype(np.complex64)
    assert error(flambeau.from_numpy(z).var(), np.var(z.astype(np.complex128), ddof=1)) <= 0.51
    for shape, dim in (((0,), 0), ((3, 0), 1), ((0, 3), 0)):
        assert flambeau.zeros(shape).var(dim).isnan().all()
    assert flambeau.ones(3).var(correction=3).isnan() and flambeau.ones(1).var().isnan()


def test_gradients_of_variance():
    x = normal(40, 60) + np.float32(100)
    t = flambeau.from_numpy(x).requires_grad_()
    flambeau.var_mean(t, 1)[0].sum().backward()
    wide = x.astype(np.float64)
    assert np.abs(t.grad.numpy() - 2 / 59 * (wide - wide.mean(1, keepdims=True))).max() < 1e-6


@pytest.mark.parametrize("where", ["all", "rows", "columns"])
def test_the_same_bits_for_any_number_of_threads(where):
    x = flambeau.from_numpy(normal(3000, 700))
    dim = {"all": None, "rows": 1, "columns": 0}[where]
    before, found = flambeau.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            flambeau.set_num_threads(threads)
            found.append([x.sum(dim).numpy(), x.var(dim).numpy(), x.norm(dim=dim).numpy()])
    finally:
        flambeau.set_num_threads(before)
    for other in found[1:]:
        for a, b in zip(found[0], other):
            np.testing.assert_array_equal(a, b)


def test_products_and_scans():
    near = (1 + 1e-3 * normal(10, 10_000)).astype(np.float32)
    t, wide = flambeau.from_numpy(near), near.astype(np.float64)
    assert error(t.prod(1), wide.prod(1)) <= 0.51
    assert error(t.cumprod(1), wide.cumprod(1)) <= 0.51
    assert error(t.cumsum(1), wide.cumsum(1)) <= 0.51
    assert error(t.logcumsumexp(1), np.logaddexp.accumulate(wide, 1)) <= 0.51


@pytest.mark.parametrize("shape", [(64, 1000), (4096, 64), (4, 100_000)])
def test_normalisation(shape):
    x, w, b = normal(*shape) + np.float32(3), uniform(shape[1], seed=1), uniform(shape[1], seed=2)
    wide = x.astype(np.float64)
    centred = wide - wide.mean(1, keepdims=True)
    y = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
    t, weight, bias = (flambeau.from_numpy(a).requires_grad_() for a in (x, w, b))
    found = F.layer_norm(t, (shape[1],), weight, bias)
    seed = uniform(*shape, seed=3)
    found.backward(flambeau.from_numpy(seed))
    assert error(found, y * w + b) <= 3
    assert (
        error(weight.grad, (seed * y).sum(0)) <= 5 and error(bias.grad, seed.astype(np.float64).sum(0)) <= 3
    )
    exponentials = np.exp(wide - wide.max(1, keepdims=True))
    true = exponentials / exponentials.sum(1, keepdims=True)
    assert error(t.softmax(1), true) <= 3 and error(t.log_softmax(1), np.log(true)) <= 2


CONVOLUTIONS = {
    "512 channels": ((2, 512, 9, 9), (24, 512, 3, 3), {"padding": 1}),
    "stride 2": ((2, 128, 15, 15), (33, 128, 3, 3), {"stride": 2, "padding": 1}),
    "1×1": ((1, 1024, 7, 7), (24, 1024, 1, 1), {}),
    "groups": ((2, 256, 7, 7), (64, 64, 3, 3), {"groups": 4}),
    "dilated": ((1, 128, 12, 12), (9, 128, 3, 3), {"dilation": 2}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name):
    """In one line, 512·3·3 terms err by 20 to 30 epsilons."""
    shape, weight, given = CONVOLUTIONS[name]
    arrays = uniform(*shape), uniform(*weight, seed=1)
    found = []
    for kind in (np.float32, np.float64):
        x, w = (flambeau.from_numpy(a.astype(kind)).requires_grad_() for a in arrays)
        out = F.conv2d(x, w, **given)
        out.backward(flambeau.from_numpy(uniform(*out.shape, seed=2).astype(kind)))
        found.append((out.detach(), x.grad, w.grad))
    for ours, true in zip(*found):
        assert error(ours, true.numpy()) <= 6


BIG = [1.0, 1e4, 1e8]


def losses(logits: np.ndarray, classes: np.ndarray):
    """Cross-entropy of each row, and its gradient, in float64."""
    shifted = logits.astype(np.float64) - logits.max(1, keepdims=True)
    total = np.log(np.exp(shifted).sum(1, keepdims=True))
    hit = np.eye(logits.shape[1])[classes]
    return (total[:, 0] - (shifted * hit).sum(1)), np.exp(shifted - total) - hit


@pytest.mark.parametrize("scale", BIG)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weight": True},
        {"ignore_index": 3},
        {"reduction": "none"},
        {"reduction": "sum"},
        {"probabilities": True},
    ],
    ids=str,
)
def test_cross_entropy_of_large_logits(scale, options):
    options = dict(options)
    logits = (normal(300, 10) * np.float32(3) + np.float32(scale)).astype(np.float32)
    classes = np.random.default_rng(1).integers(0, 10, 300)
    loss, slope = losses(logits, classes)
    weights = np.ones(300)
    target = flambeau.from_numpy(classes)
    if options.pop("probabilities", False):
        target = F.one_hot(target, 10).float()
    if options.pop("weight", False):
        options["weight"] = flambeau.from_numpy(uniform(10, seed=4))
        weights = uniform(10, seed=4).astype(np.float64)[classes]
    if "ignore_index" in options:
        weights = (classes != 3).astype(np.float64)
    how = options.get("reduction", "mean")
    x = flambeau.from_numpy(logits).requires_grad_()
    found = F.cross_entropy(x, target, **options)
    found.sum().backward()
    weighted = loss * weights
    true = weighted if how == "none" else weighted.sum() if how == "sum" else weighted.sum() / weights.sum()
    slope = slope * weights[:, None] / (weights.sum() if how == "mean" else 1.0)
    assert error(found.detach(), np.asarray(true)) <= 3 and error(x.grad, slope) <= 3


def test_cross_entropy_of_two_large_logits():
    x = flambeau.tensor([[1e8, 1e8, 0.0]], requires_grad=True)
    loss = F.cross_entropy(x, flambeau.tensor([1]))
    loss.backward()
    assert abs(loss.item() - np.log(2)) < 1e-7 and x.grad.tolist() == [[0.5, -0.5, 0.0]]
    (slope,) = flambeau.autograd.grad(F.cross_entropy(x, flambeau.tensor([1])), x, create_graph=True)
    assert flambeau.autograd.grad(slope.square().sum(), x)[0].tolist() == [[0.5, -0.5, 0.0]]


@pytest.mark.parametrize("scale", BIG)
def test_gradient_of_logsumexp_of_large_numbers(scale):
    x = (normal(20, 30) + np.float32(scale)).astype(np.float32)
    t = flambeau.from_numpy(x).requires_grad_()
    t.logsumexp(1).sum().backward()
    shifted = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    assert error(t.grad, shifted / shifted.sum(1, keepdims=True)) <= 3
    none = flambeau.full((2, 3), -float("inf"), requires_grad=True)
    none.logsumexp((0, 1)).backward()
    assert none.grad.tolist() == [[0.0] * 3] * 2


def test_losses_of_large_scores_neither_overflow_nor_lose_their_gradients():
    x = flambeau.tensor([1e3, -1e3], requires_grad=True)
    F.soft_margin_loss(x, flambeau.tensor([1.0, 1.0]), reduction="sum").backward()
    assert x.grad.tolist() == [0.0, -1.0]
    scores = flambeau.tensor(
        [[1.0, 0.5, 0.0]], requires_grad=True
    )  # at the margin, where PyTorch's slope is 0
    F.multi_margin_loss(scores, flambeau.tensor([0])).backward()
    assert np.allclose(scores.grad.numpy(), np.array([[-1, 1, 0]]) / 3)


SCATTERS = {
    "scatter_add": lambda x, i: flambeau.zeros(8).scatter_add(0, i, x),
    "index_add": lambda x, i: flambeau.zeros(8).index_add(0, i, x),
    "index_put": lambda x, i: flambeau.zeros(8).index_put((i,), x, accumulate=True),
    "bincount": lambda x, i: flambeau.bincount(i, x),
}


@pytest.mark.parametrize("name", SCATTERS)
def test_scatters(name):
    """In the order of the elements, as PyTorch's: the error grows with their number."""
    x, places = uniform(200_000), np.random.default_rng(5).integers(0, 8, 200_000)
    found = SCATTERS[name](flambeau.from_numpy(x), flambeau.from_numpy(places))
    assert error(found, np.bincount(places, x.astype(np.float64))) <= 400


def test_gradients_of_what_was_broadcast():
    for shape, small in (
        ((4096, 256), (256,)),
        ((256, 4096), (256, 1)),
        ((1000, 1000), (1,)),
        ((64, 3, 28, 28), (3, 1, 1)),
    ):
        x, seed = uniform(*shape), uniform(*shape, seed=1)
        b = flambeau.from_numpy(uniform(*small, seed=2)).requires_grad_()
        (flambeau.from_numpy(x) * b).backward(flambeau.from_numpy(seed))
        dims = [d for d, n in enumerate(reversed(shape)) if d >= len(small) or small[::-1][d] == 1]
        true = (x.astype(np.float64) * seed).sum(tuple(len(shape) - 1 - d for d in dims)).reshape(small)
        assert error(b.grad, true) <= 3.2


@pytest.mark.parametrize(
    ("dtype", "name"), list(itertools.product(["float16", "bfloat16"], ["sum", "mean", "var", "logsumexp"]))
)
def test_half_types_are_rounded_once(dtype, name):
    kind = getattr(flambeau, dtype)
    t = flambeau.from_numpy(uniform(10, 10_000)).to(kind)
    wide = t.double()
    ours, true = getattr(flambeau, name)(t, 1).double(), getattr(flambeau, name)(wide, 1)
    epsilon = 2.0**-10 if dtype == "float16" else 2.0**-7
    assert float((ours / true - 1).abs().max()) <= 0.51 * epsilon


def test_layer_norm_next_to_a_large_mean():
    x = normal(4, 100_000) + np.float32(1e3)
    wide = x.astype(np.float64)
    true = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    t = flambeau.from_numpy(x)
    weight, bias = flambeau.ones(100_000), flambeau.zeros(100_000)
    for found in (F.layer_norm(t, (100_000,)), F.layer_norm(t, (100_000,), weight, bias)):
        assert error(found, true) <= 3


def test_gradient_of_a_bias():
    for rows in (64, 10_000):
        seed = uniform(rows, 96)
        bias = flambeau.zeros(96, requires_grad=True)
        F.linear(flambeau.ones(rows, 8), flambeau.ones(96, 8), bias).backward(flambeau.from_numpy(seed))
        assert error(bias.grad, seed.astype(np.float64).sum(0)) <= 1.6
