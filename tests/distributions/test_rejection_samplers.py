"""Gamma, beta, Dirichlet, Poisson, binomial and von Mises numbers: tests of fit, their derivatives, ends of their parameters, bits."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

import flambeau
from flambeau.operations.random import sampled

DRAWN = 20_000
LEAST = 1e-5  # of a p-value: with fixed seeds, so that a correct sampler always passes


def full(value, shape=DRAWN, dtype=flambeau.float64):
    return flambeau.full((shape,) if isinstance(shape, int) else shape, value, dtype=dtype)


def fits(drawn, law) -> float:
    return stats.kstest(drawn, law.cdf).pvalue


def fits_counts(drawn, law) -> float:
    """The p-value of a chi-square test over bins that expect enough."""
    low, high = int(law.ppf(1e-3)), int(law.ppf(1 - 1e-3))
    edges = np.unique(np.linspace(low, high + 1, min(high - low + 2, 40)).astype(int))
    shares = np.diff([0.0, *law.cdf(edges - 1), 1.0])
    found = np.histogram(drawn, [-np.inf, *edges, np.inf])[0]
    enough = shares * len(drawn) > 5
    rest, expected = found[~enough].sum(), shares[~enough].sum() * len(drawn)
    found, shares = found[enough], shares[enough] * len(drawn)
    if expected > 1:
        found, shares = np.append(found, rest), np.append(shares, expected)
    return stats.chisquare(found, shares * found.sum() / shares.sum()).pvalue


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64])
@pytest.mark.parametrize("shape", [0.2, 0.9, 1.0, 2.5, 40.0, 1e5])
def test_gamma_fits(shape, dtype):
    generator = flambeau.Generator().manual_seed(1)
    drawn = sampled.standard_gamma(full(shape, dtype=dtype), generator)
    assert drawn.dtype is dtype
    assert fits(drawn.double().numpy(), stats.gamma(shape)) > LEAST


@pytest.mark.parametrize("a", [0.3, 1.0, 7.0])
@pytest.mark.parametrize("b", [0.5, 3.0, 1e4])
def test_beta_fits(a, b):
    flambeau.manual_seed(2)
    assert fits(sampled.standard_beta(full(a), full(b)).numpy(), stats.beta(a, b)) > LEAST


@pytest.mark.parametrize("concentration", [[0.2, 0.5, 1.5], [2.0, 1.0, 5.0]])
def test_dirichlet_fits(concentration):
    """Each number is of a beta distribution, and the covariances are known (Kotz and others 2000, 49.1)."""
    flambeau.manual_seed(3)
    a = np.array(concentration)
    drawn = sampled.sample_dirichlet(flambeau.tensor(a).expand(DRAWN, 3)).numpy()
    np.testing.assert_allclose(drawn.sum(-1), 1.0, rtol=1e-12)
    total = a.sum()
    for k in range(3):
        assert fits(drawn[:, k], stats.beta(a[k], total - a[k])) > LEAST
    expected = (np.diag(a / total) - np.outer(a, a) / total**2) / (total + 1)
    np.testing.assert_allclose(np.cov(drawn.T), expected, atol=5 * np.abs(expected).max() / DRAWN**0.5)


@pytest.mark.parametrize("rate", [0.05, 3.0, 23.9, 24.1, 300.0, 1e7, 3e8])
def test_poisson_fits(rate):
    flambeau.manual_seed(4)
    assert fits_counts(flambeau.poisson(full(rate)).numpy(), stats.poisson(rate)) > LEAST


@pytest.mark.parametrize(
    ("n", "p"),
    [
        (1, 0.3),
        (10, 0.5),
        (10, 0.9),
        (60, 0.41),
        (300, 0.2),
        (1000, 0.999),
        (10**6, 0.3),
        (10**9, 0.4),
        (10**12, 1e-9),
    ],
)
def test_binomial_fits(n, p):
    flambeau.manual_seed(5)
    drawn = flambeau.binomial(full(float(n)), full(p)).numpy()
    assert drawn.max() <= n and drawn.min() >= 0 and (drawn == np.floor(drawn)).all()
    assert fits_counts(drawn, stats.binom(n, p)) > LEAST


@pytest.mark.parametrize("concentration", [1e-9, 1e-5, 0.3, 4.0, 1e3, 1e9])
def test_von_mises_fits(concentration):
    flambeau.manual_seed(6)
    drawn = sampled.von_mises(full(0.0), full(concentration)).numpy()
    law = stats.vonmises(concentration) if concentration < 1e5 else stats.norm(0, concentration**-0.5)
    assert fits(drawn, law) > LEAST
    turned = sampled.von_mises(full(3.0), full(concentration)).numpy()
    assert turned.min() >= -np.pi and turned.max() < np.pi
    assert fits(np.mod(turned - 3.0 + np.pi, 2 * np.pi) - np.pi, law) > LEAST


def draws():
    a, b = flambeau.rand(5000) * 5, flambeau.rand(5000) * 50
    return [
        sampled.standard_gamma(a),
        sampled.standard_beta(a, b),
        sampled.sample_dirichlet(a.view(-1, 5)),
        flambeau.poisson(b),
        flambeau.binomial(b.floor(), a / 5),
        sampled.von_mises(a, b),
        a.view(-1, 50).multinomial(30, True),
        a.multinomial(3000, True),
    ]


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64])
def test_choices_fit(dtype):
    flambeau.manual_seed(12)
    weights = flambeau.tensor(
        [[0.0, 3.0, 1.0, 0.0, 4.0, 0.0], [1.0, 0.0, 0.0, 0.0, 0.0, 0.0], [1e-3, 1, 1, 1, 1, 2]], dtype=dtype
    )
    drawn = weights.multinomial(DRAWN, True)
    assert drawn.shape == (3, DRAWN) and drawn.dtype is flambeau.int64
    for row, w in zip(drawn, weights.double().numpy()):
        found = np.bincount(row.numpy(), minlength=6)
        assert not found[w == 0].any()
        some = w > 0
        assert some.sum() == 1 or stats.chisquare(found[some], w[some] / w.sum() * DRAWN).pvalue > LEAST
    for bad, message in ((-1.0, "element < 0"), (math.nan, "nan"), (math.inf, "inf")):
        with pytest.raises(RuntimeError, match=message):
            flambeau.tensor([[1.0, 1.0], [bad, 1.0]]).multinomial(2, True)
    with pytest.raises(RuntimeError, match="sum of probabilities"):
        flambeau.tensor([[1.0, 1.0], [0.0, 0.0]]).multinomial(2, True)


def test_bits_do_not_depend_on_the_number_of_threads():
    before, found = flambeau.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            flambeau.set_num_threads(threads)
            flambeau.manual_seed(7)
            found.append(draws())
    finally:
        flambeau.set_num_threads(before)
    for other in found[1:]:
        assert all(flambeau.equal(x, y) for x, y in zip(found[0], other))


def test_an_element_does_not_depend_on_what_lies_beside_it():
    """Kept sums and plans of equal parameters change no bit, nor do expanded parameters."""
    rates = flambeau.tensor([3.0, 3.0, 20.0, 3.0, 100.0, 20.0, 3.0, 0.3])
    for draw in (
        flambeau.poisson,
        sampled.standard_gamma,
        lambda x: flambeau.binomial(x.floor() * 4, x / 200),
    ):
        flambeau.manual_seed(8)
        together = draw(rates)
        for k, rate in enumerate(rates):
            flambeau.manual_seed(8)
            assert draw(full(float(rate), 8, flambeau.float32))[k] == together[k]
    flambeau.manual_seed(8)
    expanded = sampled.standard_gamma(rates.expand(5, 8))
    flambeau.manual_seed(8)
    assert flambeau.equal(expanded, sampled.standard_gamma(rates.expand(5, 8).contiguous()))


def test_generators_are_used_and_move_on():
    one, two = flambeau.Generator().manual_seed(9), flambeau.Generator().manual_seed(9)
    x = full(2.0, 100)
    assert flambeau.equal(sampled.standard_gamma(x, one), sampled.standard_gamma(x, two))
    assert not flambeau.equal(sampled.standard_gamma(x, one), sampled.standard_gamma(x, one))
    assert (
        flambeau.equal(flambeau.binomial(x, x / 4, generator=two), flambeau.binomial(x, x / 4, two)) is False
    )


@pytest.mark.parametrize("dtype", [flambeau.float16, flambeau.bfloat16, flambeau.float32, flambeau.float64])
def test_dtypes_and_empty_tensors(dtype):
    x = flambeau.full((3, 2), 0.5, dtype=dtype)
    for found in (
        sampled.standard_gamma(x),
        sampled.standard_beta(x, x),
        sampled.sample_dirichlet(x),
        flambeau.poisson(x),
        flambeau.binomial(x * 4, x),
        sampled.von_mises(x, x),
    ):
        assert found.dtype is dtype and found.shape == (3, 2) and not found.isnan().any()
    for empty in (x[:0], x[:, :0]):
        assert sampled.standard_gamma(empty).shape == sampled.sample_dirichlet(empty).shape == empty.shape
        assert flambeau.binomial(empty, empty).shape == empty.shape


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64])
@pytest.mark.parametrize("size", [1e-300, 1e-30, 1e-10, 1e10, 1e30, 1e300])
def test_huge_and_tiny_parameters(size, dtype):
    if dtype is flambeau.float32 and not 1e-38 < size < 1e38:
        size = 1e-38 if size < 1 else 1e38
    x = full(size, 64, dtype)
    gamma = sampled.standard_gamma(x)
    assert (gamma > 0).all() and gamma.isfinite().all()
    beta = sampled.standard_beta(x, x)
    assert ((beta > 0) & (beta < 1)).all()
    rows = sampled.sample_dirichlet(x.view(-1, 4))
    assert ((rows > 0) & (rows <= 1)).all() and flambeau.allclose(rows.sum(-1), full(1.0, 16, dtype))
    assert flambeau.poisson(x).isfinite().all() and (flambeau.poisson(x) >= 0).all()
    for p in (1e-20, 0.3, 1 - 1e-7):
        drawn = flambeau.binomial(x, full(p, 64, dtype))
        assert ((drawn >= 0) & (drawn <= x)).all()
    angles = sampled.von_mises(x * 0, x)
    assert ((angles >= -np.pi - 1e-6) & (angles <= np.pi)).all()
    if size > 1:
        assert flambeau.allclose(gamma / size, full(1.0, 64, dtype), rtol=1e-3)
        assert flambeau.allclose(beta, full(0.5, 64, dtype), rtol=1e-3)


def test_tiny_concentrations_are_corners_in_their_proportion():
    """Where all gamma numbers would be 0, one of a Dirichlet row's is 1 all the same."""
    flambeau.manual_seed(10)
    rows = sampled.sample_dirichlet(flambeau.tensor([1e-30, 3e-30], dtype=flambeau.float64).expand(4000, 2))
    assert abs(float((rows[:, 1] > 0.5).double().mean()) - 0.75) < 0.05
    x = sampled.standard_beta(full(1e-20, 4000), full(3e-20, 4000))
    assert abs(float((x > 0.5).double().mean()) - 0.25) < 0.05


def test_what_cannot_be_drawn_from():
    nan = flambeau.tensor([float("nan"), 1.0])
    assert sampled.standard_gamma(nan).isnan().tolist() == [True, False]
    assert sampled.standard_gamma(-nan.nan_to_num(1.0)).isnan().all()
    assert flambeau.binomial(nan, nan).isnan().tolist() == [True, False]
    assert flambeau.binomial(
        flambeau.tensor([-3.0, 4.0, 4.0]), flambeau.tensor([0.5, -1.0, 2.0])
    ).tolist() == [0, 0, 4]
    for rate in (nan, -flambeau.ones(2)):
        with pytest.raises(RuntimeError, match="non-negative"):
            flambeau.poisson(rate)
    with pytest.raises(ValueError, match="int64"):
        flambeau.binomial(flambeau.ones(2, dtype=flambeau.int64), flambeau.ones(2))
    with pytest.raises(RuntimeError, match="dtype"):
        flambeau.binomial(flambeau.ones(2), flambeau.ones(2, dtype=flambeau.float64))
    with pytest.raises(NotImplementedError):
        sampled.standard_gamma(flambeau.ones(2, dtype=flambeau.int64))


def test_without_data():
    x = flambeau.empty(3, 2, device="meta")
    for found in (
        sampled.standard_gamma(x),
        sampled.sample_dirichlet(x),
        flambeau.binomial(x, x),
        flambeau.poisson(x),
    ):
        assert found.is_meta and found.shape == (3, 2)


def test_counts_have_gradients_of_zero():
    count, p = flambeau.full((3,), 4.0, requires_grad=True), flambeau.full((3,), 0.5, requires_grad=True)
    flambeau.binomial(count, p).sum().backward()
    flambeau.poisson(count).sum().backward()
    assert count.grad.tolist() == p.grad.tolist() == [0, 0, 0]


# --- derivatives ---------------------------------------------------------------------------------------------------------
def moves(cdf, density, a):
    """-(∂F/∂a) / density, to 30 digits."""
    with mpmath.workdps(40):
        return float(-mpmath.diff(cdf, mpmath.mpf(a)) / density)


@pytest.mark.parametrize("shape", [1e-3, 0.4, 1.0, 6.0, 29.0, 31.0, 500.0])
def test_gamma_numbers_move_with_their_shape(shape):
    for share in (1e-3, 0.3, 0.8, 0.999):
        x = float(stats.gamma(shape).ppf(share))
        if x == 0.0:
            continue
        with mpmath.workdps(40):
            density = mpmath.mpf(x) ** (shape - 1) * mpmath.exp(-mpmath.mpf(x)) / mpmath.gamma(shape)
        expected = moves(lambda a, x=x: mpmath.gammainc(a, 0, x, regularized=True), density, shape)
        found = sampled.standard_gamma_grad(full(shape, 1), full(x, 1))
        np.testing.assert_allclose(float(found), expected, rtol=1e-8)


@pytest.mark.parametrize("a", [0.01, 1.0, 4.0, 80.0])
@pytest.mark.parametrize("b", [0.3, 1.0, 60.0])
def test_beta_numbers_move_with_their_parameters(a, b):
    for share in (0.02, 0.5, 0.95):
        x = float(stats.beta(a, b).ppf(share))
        if x < 1e-300:
            continue
        with mpmath.workdps(40):
            density = mpmath.mpf(x) ** (a - 1) * (1 - mpmath.mpf(x)) ** (b - 1) / mpmath.beta(a, b)
        expected = moves(lambda c, x=x: mpmath.betainc(c, b, 0, x, regularized=True), density, a)
        found = sampled.dirichlet_grad(full(x, 1), full(a, 1), full(b, 1)) * (1 - x)
        np.testing.assert_allclose(float(found), expected, rtol=1e-7)


def test_gradients_of_samples_are_those_of_the_numbers():
    a, b = full(0.7, 50).requires_grad_(), full(2.5, 50).requires_grad_()
    x = sampled.standard_gamma(a)
    x.sum().backward()
    assert flambeau.equal(a.grad, sampled.standard_gamma_grad(a.detach(), x.detach()))
    a.grad = None
    x = sampled.standard_beta(a, b)
    x.sum().backward()
    t = x.detach()
    by_a = sampled.dirichlet_grad(t, a.detach(), b.detach()) * (1 - t)
    by_b = -sampled.dirichlet_grad(1 - t, b.detach(), a.detach()) * t
    np.testing.assert_allclose(a.grad.numpy(), by_a.numpy(), rtol=1e-9)
    np.testing.assert_allclose(b.grad.numpy(), by_b.numpy(), rtol=1e-6)
    with pytest.raises(NotImplementedError, match="dirichlet_grad"):
        flambeau.autograd.grad(sampled.dirichlet_grad(x.detach(), a, b).sum(), a)


def test_mean_gradients_are_gradients_of_means():
    """Over many samples: d E[x²] / da is known."""
    flambeau.manual_seed(11)
    a = full(1.5, ()).requires_grad_()
    (sampled.standard_gamma(a.expand(DRAWN)) ** 2).mean().backward()
    assert abs(float(a.grad) - (2 * 1.5 + 1)) < 0.15
    c = flambeau.tensor([0.5, 1.0, 2.0], dtype=flambeau.float64, requires_grad=True)
    sampled.sample_dirichlet(c.expand(DRAWN, 3))[:, 0].square().mean().backward()
    wanted = flambeau.tensor(c.tolist(), dtype=flambeau.float64, requires_grad=True)
    total = wanted.sum()
    (wanted[0] * (wanted[0] + 1) / (total * (total + 1))).backward()
    np.testing.assert_allclose(c.grad.numpy(), wanted.grad.numpy(), atol=0.01)


def test_half_types_have_gradients():
    x = flambeau.full((4,), 2.0, dtype=flambeau.bfloat16, requires_grad=True)
    sampled.standard_gamma(x).sum().backward()
    assert x.grad.dtype is flambeau.bfloat16 and (x.grad > 0).all()


def test_gradients_of_narrow_numbers_are_those_of_wide_ones():
    """In float32 half as many nodes are enough."""
    flambeau.manual_seed(13)
    a, b = (10 ** (flambeau.rand(4000) * 5 - 2) for _ in range(2))
    for numbers, gradient, given in (
        (sampled.standard_gamma(a), lambda x, a, b: sampled.standard_gamma_grad(a, x), (a, b)),
        (sampled.standard_beta(a, b), sampled.dirichlet_grad, (a, b)),
    ):
        found = gradient(numbers, *given).double()
        expected = gradient(numbers.double(), *(x.double() for x in given))
        assert ((found - expected).abs() <= 1e-4 * expected.abs() + 1e-30).all()
