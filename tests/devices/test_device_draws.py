"""Random numbers of an accelerator are those of the CPU: the same bits of float32, and of float64 to the last places."""

from __future__ import annotations

import numpy as np
import pytest
from accelerator import DEVICE, array

import flambeau
from flambeau.operations.random import sampled

N = 2000
RNG = np.random.default_rng(0)
log_uniform = lambda low, high, *shape: 10.0 ** RNG.uniform(low, high, shape)
DRAWS = {
    "poisson": (flambeau.poisson, np.append(log_uniform(-3, 10, N), [0, np.inf])),
    "gamma": (sampled.standard_gamma, np.append(log_uniform(-3, 4, N), [0, np.inf, -1, np.nan])),
    "beta": (sampled.beta_and_rest, log_uniform(-2, 3, N), log_uniform(-2, 3, N)),
    "dirichlet": (sampled.sample_dirichlet, log_uniform(-1, 2, 400, 5)),
    "binomial": (flambeau.binomial, np.floor(log_uniform(0, 11, N)), RNG.uniform(-0.1, 1.1, N)),
    "negative binomial": (sampled.negative_binomial, log_uniform(-1, 2, N), log_uniform(-2, 3, N)),
    "von Mises": (sampled.von_mises, RNG.uniform(-3, 3, N), log_uniform(-14, 10, N)),
    "multinomial": (
        lambda w, generator: flambeau.multinomial(w, 300, True, generator=generator),
        RNG.uniform(0, 1, (20, 9)),
    ),
}
WHOLE = ("poisson", "binomial", "negative binomial", "multinomial")


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64, flambeau.float16])
@pytest.mark.parametrize("name", DRAWS)
def test_the_numbers_of_the_cpu(name, dtype):
    draw, *given = DRAWS[name]
    given = [flambeau.from_numpy(np.asarray(a)).to(dtype) for a in given]
    own, theirs = flambeau.Generator().manual_seed(7), flambeau.Generator(device=DEVICE).manual_seed(7)
    expected = draw(*given, generator=own)
    actual = draw(*(a.to(DEVICE) for a in given), generator=theirs)
    assert own.get_offset() == theirs.get_offset() > 0
    for a, b in zip(*(r if isinstance(r, tuple) else (r,) for r in (actual, expected)), strict=True):
        assert a.device == DEVICE and (a.dtype, a.shape) == (b.dtype, b.shape)
        if dtype == flambeau.float64 and name not in WHOLE:
            np.testing.assert_allclose(array(a), array(b), rtol=1e-11)
        else:
            np.testing.assert_array_equal(array(a), array(b))


def test_layouts_no_elements_and_no_dimensions():
    rates = flambeau.from_numpy(log_uniform(-1, 3, 6, 8))
    for view in (
        lambda t: t.t(),
        lambda t: t[::2, 1::3],
        lambda t: t[:1].expand(4, 8),
        lambda t: t[:0],
        lambda t: t[0, 0],
    ):
        flambeau.manual_seed(3)
        expected = flambeau.poisson(view(rates))
        flambeau.manual_seed(3)
        actual = flambeau.poisson(view(rates.to(DEVICE)))
        np.testing.assert_array_equal(array(actual), array(expected))


def test_a_seed_of_64_bits_and_a_stream_that_goes_on():
    numbers = []
    for place in ("cpu", DEVICE):
        generator = flambeau.Generator(device=place).manual_seed((1 << 63) + 5)
        x = flambeau.full((50,), 3.5, device=place)
        numbers.append([array(flambeau.poisson(x, generator=generator)) for _ in range(2)])
    np.testing.assert_array_equal(numbers[0], numbers[1])
    assert (numbers[1][0] != numbers[1][1]).any()


def test_what_cannot_be_drawn():
    with pytest.raises(RuntimeError, match="expected rate to be non-negative"):
        flambeau.poisson(flambeau.tensor([1.0, -1.0], device=DEVICE))
    with pytest.raises(RuntimeError, match="sum of probabilities <= 0"):
        flambeau.multinomial(flambeau.zeros(3, device=DEVICE), 2, True)
    with pytest.raises(RuntimeError, match="`inf`, `nan` or element < 0"):
        flambeau.multinomial(flambeau.tensor([1.0, float("nan")], device=DEVICE), 2, True)
    with pytest.raises(RuntimeError, match="device type for generator"):
        flambeau.poisson(flambeau.ones(2, device=DEVICE), generator=flambeau.Generator())


def test_how_numbers_move_with_their_parameters():
    a, b = (flambeau.from_numpy(log_uniform(-2, 3, N)) for _ in range(2))
    x, y = sampled.standard_gamma(a), sampled.beta_and_rest(a, b)[0]
    moved = [t.to(DEVICE) for t in (a, b, x, y)]
    result = array(sampled.standard_gamma_grad(moved[0], moved[2]))
    np.testing.assert_allclose(result, array(sampled.standard_gamma_grad(a, x)), rtol=1e-10)
    result = array(sampled.dirichlet_grad(moved[3], moved[0], moved[1]))
    np.testing.assert_allclose(result, array(sampled.dirichlet_grad(y, a, b)), rtol=1e-8)
    shape = moved[0].clone().requires_grad_()
    flambeau.manual_seed(1)
    sampled.standard_gamma(shape).sum().backward()
    assert shape.grad.isfinite().all()


def test_moments():
    """Of numbers that no table of the CPU has part in."""
    flambeau.manual_seed(0)
    n = 40_000
    for x, mean, variance in (
        (flambeau.poisson(flambeau.full((n,), 60.0, device=DEVICE)), 60, 60),
        (sampled.standard_gamma(flambeau.full((n,), 2.5, device=DEVICE)), 2.5, 2.5),
    ):
        assert abs(x.mean().item() - mean) < 5 * (variance / n) ** 0.5
        assert abs(x.var().item() / variance - 1) < 0.05
