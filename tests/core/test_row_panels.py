"""Rows that are a power of two apart in memory are copied next to each other, some columns at a time."""

import numpy as np
import pytest
import scipy.special

import flambeau


@pytest.mark.parametrize(
    "shape,dim",
    [((256, 1100), 0), ((300, 4096), 0), ((3, 40, 64, 64), 1), ((5000, 512), 0), ((257, 8192 + 8), 0)],
)
def test_columns_give_what_rows_give(shape, dim):
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    storage = flambeau.zeros(*shape[:-1], 1 << (shape[-1] - 1).bit_length())
    view = storage[..., : shape[-1]]
    view.copy_(flambeau.from_numpy(x))
    wide = x.astype("float64")
    for t in (flambeau.from_numpy(x), view):
        np.testing.assert_allclose(t.softmax(dim).numpy(), scipy.special.softmax(wide, dim), rtol=2e-6)
        np.testing.assert_allclose(
            t.log_softmax(dim).numpy(), scipy.special.log_softmax(wide, dim), rtol=2e-6
        )


def test_a_gradient_and_half_types():
    x = flambeau.randn(128, 4096, dtype=flambeau.float64, requires_grad=True)
    g = flambeau.randn(128, 4096, dtype=flambeau.float64)
    x.softmax(0).backward(g)
    y = x.detach().softmax(0)
    np.testing.assert_allclose(x.grad.numpy(), (y * (g - (g * y).sum(0))).numpy(), rtol=1e-12, atol=1e-18)
    half = x.detach().bfloat16()
    assert half.repeat(8, 1).softmax(0).equal(half.repeat(8, 1).float().softmax(0).bfloat16())


def test_bits_do_not_depend_on_the_threads():
    x = flambeau.randn(200, 1 << 14)
    before, found = flambeau.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            flambeau.set_num_threads(threads)
            found.append(x.softmax(0))
    finally:
        flambeau.set_num_threads(before)
    assert found[0].equal(found[1]) and found[0].equal(found[2])
