"""Unpooling turns pooling round; fractional pooling takes maxima of the windows it draws."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.nn import functional as F

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_unpooling(n):
    x = flambeau.tensor(RNG.standard_normal((2, 3, *(6, 4, 4)[:n])))
    values, places = getattr(nn, f"MaxPool{n}d")(2, return_indices=True)(x)
    layer = getattr(nn, f"MaxUnpool{n}d")(2)
    found = layer(values, places)
    assert found.shape == x.shape and "kernel_size=" in repr(layer)
    kept = found != 0
    assert kept.sum().item() == values.numel() and found[kept].equal(x[kept])
    larger = [s + 1 for s in x.shape[2:]]
    assert layer(values, places, output_size=larger).shape[2:] == tuple(larger)
    function = lambda v: layer(v, places)
    v = values.clone().requires_grad_()
    assert gradcheck(function, [v]) and gradgradcheck(function, [v])
    with pytest.raises(ValueError, match="output_size"):
        layer(values, places, output_size=[s + 9 for s in x.shape[2:]])
    with pytest.raises(RuntimeError, match="invalid max index"):
        layer(values, places + 10**6)
    with pytest.raises(RuntimeError, match="same as that of the input"):
        layer(values, places[:1])


@pytest.mark.parametrize("n, sizes", [(2, (7, 9)), (3, (6, 7, 8))])
def test_fractional_pooling(n, sizes):
    a = RNG.standard_normal((2, 3, *sizes))
    x, samples = flambeau.tensor(a, requires_grad=True), flambeau.tensor(RNG.random((2, 3, n)))
    pool = getattr(F, f"fractional_max_pool{n}d")
    found, places = pool(x, 2, output_size=3, return_indices=True, _random_samples=samples)
    assert found.shape == (2, 3, *(3,) * n)
    flat = a.reshape(2, 3, -1)
    np.testing.assert_array_equal(
        np.take_along_axis(flat, places.flatten(2).numpy(), 2), found.detach().flatten(2).numpy()
    )
    last = a[(..., *(slice(-2, None),) * n)].reshape(2, 3, -1).max(-1)  # the last window stands at the end
    np.testing.assert_array_equal(found.detach().numpy()[(..., *(-1,) * n)], last)
    assert gradcheck(lambda t: pool(t, 2, output_size=3, _random_samples=samples), [x])
    drawn = getattr(nn, f"FractionalMaxPool{n}d")(2, output_ratio=0.5)(x)
    assert drawn.shape[2:] == tuple(s // 2 for s in sizes)
    with pytest.raises(ValueError, match="exactly one"):
        pool(x, 2)
    with pytest.raises(RuntimeError, match="do not fit"):
        pool(x, 5, output_size=5)


def test_older_names():
    x = flambeau.tensor(RNG.standard_normal((1, 2, 4, 4)))
    grid = flambeau.tensor(RNG.uniform(-1, 1, (1, 3, 3, 2)))
    found = flambeau.grid_sampler_2d(x, grid, 1, 0, True)
    assert found.equal(F.grid_sample(x, grid, "nearest", "zeros", True))
    assert flambeau.constant_pad_nd(x, (1, 2), 3.0).equal(F.pad(x, (1, 2), value=3.0))


def test_layers_may_be_derived_from():
    """How many dimensions there are does not hang on a class's name."""

    class Unpool(nn.MaxUnpool2d):
        pass

    values, places = nn.MaxPool2d(2, return_indices=True)(flambeau.arange(16.0).reshape(1, 1, 4, 4))
    layer = Unpool(2)
    assert layer.kernel_size == layer.stride == (2, 2)
    assert flambeau.equal(layer(values, places), nn.MaxUnpool2d(2)(values, places))
