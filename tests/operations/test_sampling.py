"""Sampling with channels side by side, beside sampling by gathers; gradients of maxima added where they stand; running extremes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import flambeau as fb
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.core.lib.resampling import samples
from flambeau.operations.neural.pooling import pooling
from flambeau.operations.neural.resampling import resizing
from flambeau.operations.rows import scans

F = fb.nn.functional
MODES = [
    (rank, mode, padding, aligned)
    for rank, mode, padding, aligned in itertools.product(
        (2, 3), ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (False, True)
    )
    if rank == 2 or mode != "bicubic"
]


def sampled(x, grid, wanted, **given):
    """The result, and the gradients that are wanted."""
    x, grid = x.detach().requires_grad_(), grid.detach().requires_grad_(wanted)
    y = F.grid_sample(x, grid, **given)
    y.backward(fb.arange(y.numel(), dtype=y.dtype).reshape(y.shape).cos())
    return [y.detach(), x.grad] + ([grid.grad] if grid.grad is not None else [])


@pytest.mark.parametrize("rank, mode, padding, aligned", MODES)
def test_sampling_is_what_gathers_give(rank, mode, padding, aligned, monkeypatch):
    given = {"mode": mode, "padding_mode": padding, "align_corners": aligned}
    for channels, wanted in ((1, False), (3, True), (8, True), (40, False), (70, True)):
        shape, places = (5, 6, 4)[:rank], (3, 4, 5)[:rank]
        x = fb.randn(2, channels, *shape, dtype=fb.float64)
        grid = fb.rand(2, *places, rank, dtype=fb.float64) * 3 - 1.5
        found = sampled(x, grid, wanted, **given)
        with monkeypatch.context() as m:
            m.setattr(resizing, "_by_rows", lambda *_: False)
            for a, b in zip(found, sampled(x, grid, wanted, **given), strict=True):
                np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-10, 1e-10)


def test_what_lies_outside_reads_nothing():
    x = fb.full((1, 2, 3, 3), float("inf"), requires_grad=True)
    grid = fb.tensor([[[[5.0, 5.0], [float("nan"), 0.0], [-9.0, 0.0]]]])
    for wanted in (False, True):
        found = F.grid_sample(x, grid.clone().requires_grad_(wanted), align_corners=False)
        assert found.eq(0).all()
    found.sum().backward()
    assert x.grad.eq(0).all()


def test_derivatives_of_any_order():
    x = fb.randn(1, 2, 4, 3, dtype=fb.float64, requires_grad=True)
    grid = (fb.rand(1, 2, 3, 2, dtype=fb.float64) * 1.6 - 0.8).requires_grad_()
    call = lambda x, grid: F.grid_sample(x, grid, mode="bicubic", align_corners=False)
    assert gradcheck(call, (x, grid))
    assert gradgradcheck(call, (x, grid))


def test_bits_are_the_same_for_any_number_of_threads():
    x, grid = fb.randn(3, 130, 20, 20), fb.rand(3, 40, 40, 2) * 2 - 1
    before, found = fb.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            fb.set_num_threads(threads)
            found.append(sampled(x, grid, True, align_corners=False))
    finally:
        fb.set_num_threads(before)
    assert all(fb.equal(a, b) for other in found for a, b in zip(found[0], other))


def test_slices_of_mapped_functions():
    x, grid = fb.randn(3, 1, 2, 5, 5), fb.rand(3, 1, 4, 4, 2) * 2 - 1
    call = lambda x, grid: F.grid_sample(x, grid, align_corners=False)
    wanted = fb.stack([call(*slices) for slices in zip(x, grid)])
    np.testing.assert_allclose(fb.vmap(call)(x, grid).numpy(), wanted.numpy(), 1e-6, 1e-6)


@pytest.mark.parametrize("planes", [False, True])
def test_places_outside_of_an_image_are_refused(planes):
    image, weight = fb.ones(1, 4, 4), fb.ones(1, 1, 3)
    for at in (4 + planes, -1):
        with pytest.raises(IndexError, match="outside"):
            samples.summed(image, fb.full((1, 1, 3), at, dtype=fb.int32), weight, planes)
    with pytest.raises(ValueError, match="go together"):
        samples.summed(image, fb.zeros(1, 2, 3, dtype=fb.int32), weight, planes)


@pytest.mark.parametrize("dtype", [fb.float32, fb.float64])
@pytest.mark.parametrize("kernel, stride, padding", [(2, 2, 0), (3, 2, 1), (3, 1, 1), (5, 3, 2)])
def test_gradients_of_maxima_are_those_of_windows(kernel, stride, padding, dtype, monkeypatch):
    x = fb.randn(2, 3, 11, 13, dtype=dtype)

    def gradient(indices):
        leaf = x.clone().requires_grad_()
        y = F.max_pool2d(leaf, kernel, stride, padding, return_indices=indices)
        y = y[0] if indices else y
        y.backward(fb.arange(y.numel(), dtype=dtype).reshape(y.shape).sin())
        return leaf.grad

    found = [gradient(False), gradient(True)]
    monkeypatch.setattr(pooling, "_on_host", lambda x: False)
    for one, other in zip(found, (gradient(False), gradient(True))):
        np.testing.assert_allclose(one.numpy(), other.numpy(), 1e-6, 1e-6)


def test_places_that_were_overwritten_are_left_out():
    """What a program wrote over the indices that it was given must not reach memory outside."""
    at = fb.tensor([[0, 5, -1, 1 << 40]])
    assert samples.added(fb.ones(1, 4), at, 3).tolist() == [[1.0, 0.0, 0.0]]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("shape", [(1,), (3, 7), (4, 16), (2, 33), (20, 300), (2, 3, 50), (9, 33000)])
def test_running_extremes_are_those_of_the_scan(shape, dtype, monkeypatch):
    rng = np.random.default_rng(len(shape))
    x = rng.integers(-9, 9, shape).astype(dtype)
    if dtype.startswith("float"):
        x[rng.random(shape) < 0.1] = -0.0
        x[rng.random(shape) < 0.3 / shape[-1]] = np.nan
        x[rng.random(shape) < 0.3 / shape[-1]] = -np.inf
    else:
        x[..., -1] = np.iinfo(dtype).min
    given = fb.tensor(x)
    found = [given.cummax(-1), given.cummin(-1)]
    monkeypatch.setattr(scans, "_by_vectors", lambda *_: None)
    for one, other in zip(found, (given.cummax(-1), given.cummin(-1))):
        np.testing.assert_array_equal(one.values.numpy(), other.values.numpy())
        np.testing.assert_array_equal(one.indices.numpy(), other.indices.numpy())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])  # by rows, and by operations
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("rank", [2, 3])
def test_the_grid_of_the_nearest_gets_zeros(rank, padding, dtype):
    kind = getattr(fb, dtype)
    image = fb.rand(2, 3, *(4, 5, 3)[:rank], dtype=kind, requires_grad=True)
    grid = (fb.rand(2, *(3, 2, 4)[:rank], rank) * 3 - 1.5).to(kind).requires_grad_()
    for aligned in (False, True):
        result = F.grid_sample(image, grid, "nearest", padding, align_corners=aligned)
        to_image, to_grid = fb.autograd.grad(result.sum(), (image, grid))
        assert to_image.any() and to_grid.shape == grid.shape and not to_grid.any()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("padding", ["border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("rank", [2, 3])
def test_nan_in_a_grid_is_the_first_edge(rank, mode, padding, dtype):
    kind = getattr(fb, dtype)
    image = fb.rand(1, 2, *(4, 5, 3)[:rank]).to(kind)
    grid = fb.rand(1, *(3, 2, 4)[:rank], rank).to(kind)
    unknown, edge = grid.clone(), grid.clone()
    unknown[..., 0, 0], edge[..., 0, 0] = math.nan, -1.0
    unknown[..., 1, -1], edge[..., 1, -1] = math.nan, -1.0
    found, wanted = (F.grid_sample(image, g, mode, padding, align_corners=True) for g in (unknown, edge))
    assert found.equal(wanted)
