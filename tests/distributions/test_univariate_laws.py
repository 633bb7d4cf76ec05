"""Univariate distributions against SciPy: densities, probabilities, quantiles, moments, samples, and gradients of samples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from laws import CONTINUOUS, DISCRETE, LAWS, class_of, expectation, inner_values, made, tensors
from scipy import stats

import flambeau

NO_CDF = ("Bernoulli", "Geometric", "LogitRelaxedBernoulli", "RelaxedBernoulli")
HAS_ICDF = [n for n in CONTINUOUS if n not in NO_CDF]
NO_MOMENTS = ("Cauchy", "HalfCauchy", "LogitRelaxedBernoulli", "RelaxedBernoulli")
NO_ENTROPY = ("LogitRelaxedBernoulli", "RelaxedBernoulli")


def by_element(name, function):
    return np.stack([np.asarray(function(r), dtype=float) for r in LAWS[name].references()], -1)


@pytest.mark.parametrize("name", LAWS)
def test_densities(name):
    values = inner_values(name)
    method = "logpmf" if LAWS[name].discrete else "logpdf"
    expected = np.stack([getattr(r, method)(v) for r, v in zip(LAWS[name].references(), values.T)], -1)
    found = made(name).log_prob(flambeau.tensor(values))
    # Taylor series stand in for the closed form near 1/2
    tolerance = 1e-7 if name == "ContinuousBernoulli" else 1e-12
    np.testing.assert_allclose(found.numpy(), expected, rtol=tolerance, atol=tolerance)
    narrow = made(name, flambeau.float32).log_prob(flambeau.tensor(values, dtype=flambeau.float32))
    assert narrow.dtype is flambeau.float32
    np.testing.assert_allclose(narrow.numpy(), expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", HAS_ICDF)
def test_probabilities_and_quantiles(name):
    values = inner_values(name)
    expected = np.stack([r.cdf(v) for r, v in zip(LAWS[name].references(), values.T)], -1)
    law = made(name)
    np.testing.assert_allclose(law.cdf(flambeau.tensor(values)).numpy(), expected, rtol=1e-9, atol=1e-12)
    shares = flambeau.linspace(0.02, 0.98, 9, dtype=flambeau.float64).unsqueeze(-1)
    np.testing.assert_allclose(law.icdf(shares).numpy(), values, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", [n for n in LAWS if n not in NO_MOMENTS])
def test_moments(name):
    law = made(name)
    mean = by_element(name, lambda r: expectation(r, lambda x: x))
    square = by_element(name, lambda r: expectation(r, lambda x: x * x))
    np.testing.assert_allclose(law.mean.numpy(), mean, rtol=1e-6, atol=1e-9)
    if name == "Pareto":  # second moments near their limit are no matter for quadrature
        square = by_element(name, lambda r: r.var() + r.mean() ** 2)
    np.testing.assert_allclose(law.variance.numpy(), square - mean**2, rtol=2e-5, atol=1e-8)
    np.testing.assert_allclose(law.stddev.numpy() ** 2, law.variance.numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", [n for n in LAWS if n not in NO_ENTROPY])
def test_entropy(name):
    method = "logpmf" if LAWS[name].discrete else "logpdf"
    if "Cauchy" in name:  # whose tails no quadrature reaches
        expected = by_element(name, lambda r: r.entropy())
    else:
        expected = by_element(name, lambda r: -expectation(r, lambda x: float(getattr(r, method)(x))))
    law = made(name)
    np.testing.assert_allclose(law.entropy().numpy(), expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(law.perplexity().numpy(), np.exp(expected), rtol=1e-6)


@pytest.mark.parametrize("name", ["Normal", "Exponential", "Bernoulli", "ContinuousBernoulli"])
def test_exponential_families_by_their_normaliser(name):
    law = made(name)
    by_gradient = flambeau.distributions.ExponentialFamily.entropy(law)
    np.testing.assert_allclose(by_gradient.numpy(), law.entropy().numpy(), rtol=1e-6)
    assert not by_gradient.requires_grad


def test_entropies_by_normalisers_reach_the_parameters():
    rate = flambeau.tensor([0.5, 2.0], requires_grad=True)
    law = flambeau.distributions.Exponential(rate)
    flambeau.distributions.ExponentialFamily.entropy(law).sum().backward()
    np.testing.assert_allclose(rate.grad.numpy(), [-2.0, -0.5])


@pytest.mark.parametrize("name", [n for n in CONTINUOUS if "Relaxed" not in n and n != "Uniform"])
def test_modes_are_the_highest_places(name):
    law = made(name, validate_args=False)
    mode = law.mode if name != "ContinuousBernoulli" else None
    if mode is None:
        with pytest.raises(NotImplementedError, match="does not implement mode"):
            _ = law.mode
        return
    top = law.log_prob(mode).numpy()
    others = law.log_prob(flambeau.tensor(inner_values(name))).numpy()
    shown = np.isfinite(mode.numpy()) & np.isfinite(top)
    assert shown.any()
    assert (others <= top + 1e-12)[:, shown].all()


def test_modes_of_discrete_ones():
    D = flambeau.distributions
    assert D.Geometric(flambeau.tensor([0.2, 1.0])).mode.tolist() == [0.0, 0.0]
    mode = D.Bernoulli(flambeau.tensor([0.2, 0.5, 0.7])).mode.tolist()
    assert mode[0] == 0 and np.isnan(mode[1]) and mode[2] == 1


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64])
def test_samples_fit(name, dtype):
    flambeau.manual_seed(11)
    drawn = made(name, dtype).sample((4000,))
    assert drawn.dtype is dtype and not drawn.requires_grad
    for reference, column in zip(LAWS[name].references(), drawn.double().numpy().T):
        assert stats.kstest(column, reference.cdf).pvalue > 1e-4


@pytest.mark.parametrize("name", DISCRETE)
def test_counts_fit(name):
    flambeau.manual_seed(5)
    drawn = made(name).sample((5000,)).numpy()
    for reference, column in zip(LAWS[name].references(), drawn.T):
        top = max(int(reference.ppf(0.99)), 1)
        counts = np.array([(column == k).sum() for k in range(top)] + [(column >= top).sum()])
        expected = np.append(reference.pmf(np.arange(top)), reference.sf(top - 1)) * len(column)
        kept = expected > 0
        assert counts[~kept].sum() == 0
        if kept.sum() > 1:
            assert stats.chisquare(counts[kept], expected[kept]).pvalue > 1e-4


@pytest.mark.parametrize("name", CONTINUOUS)
def test_gradients_of_samples(name):
    """A sample that is monotone in its noise moves by -∂F/∂θ / density."""
    flambeau.manual_seed(2)
    leaves = {k: v.requires_grad_() if k != "temperature" else v for k, v in tensors(name).items()}
    drawn = class_of(name)(**leaves).rsample((6,))
    wanted = {k: v for k, v in leaves.items() if v.requires_grad}
    step = 1e-5
    for k, (parameter, leaf) in enumerate(wanted.items()):
        others = LAWS[name].parameters
        for row in range(drawn.shape[0]):
            (found,) = flambeau.autograd.grad(drawn[row].sum(), leaf, retain_graph=True)
            for element in range(drawn.shape[1]):
                x = float(drawn[row, element])
                given = {n: v[element] for n, v in others.items()}
                up, down = ({**given, parameter: given[parameter] + s} for s in (step, -step))
                sides = [LAWS[name].reference(*g.values()).cdf(x) for g in (up, down)]
                slope = -(sides[0] - sides[1]) / (2 * step) / LAWS[name].reference(*given.values()).pdf(x)
                assert float(found[element]) == pytest.approx(slope, rel=2e-3, abs=1e-4), (parameter, k)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_gradients_of_densities(name):
    given = tensors(name)
    names = [n for n in given if n != "temperature"]
    leaves = [given[n].requires_grad_() for n in names]
    value = flambeau.tensor(inner_values(name, 3, 0.2), requires_grad=True)
    fixed = {n: given[n] for n in given if n not in names}

    def density(value, *parameters):
        made = class_of(name)(**fixed, **dict(zip(names, parameters)), validate_args=False)
        return made.log_prob(value)

    assert flambeau.autograd.gradcheck(density, (value, *leaves), atol=1e-5)


@pytest.mark.parametrize("name", ["Normal", "Gumbel", "Weibull", "Laplace", "LogNormal"])
def test_second_derivatives_of_densities(name):
    given = tensors(name)
    leaves = [x.requires_grad_() for x in given.values()]
    value = flambeau.tensor(inner_values(name, 2))

    def density(*parameters):
        return class_of(name)(**dict(zip(given, parameters)), validate_args=False).log_prob(value)

    assert flambeau.autograd.gradgradcheck(density, leaves, atol=1e-5)


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64])
@pytest.mark.parametrize("name", ["Cauchy", "HalfCauchy", "StudentT"])
def test_heavy_tails_where_squares_overflow(name, dtype):
    law = getattr(flambeau.distributions, name)(
        flambeau.tensor(2.5, dtype=dtype), *(() if name != "Cauchy" else (1.5,))
    )
    expected = {
        "Cauchy": stats.cauchy(2.5, 1.5),
        "HalfCauchy": stats.halfcauchy(0, 2.5),
        "StudentT": stats.t(2.5),
    }[name]
    largest = flambeau.finfo(dtype).max
    for place in (1e-20, 0.1, 1.0, 2.5, 4.0, 1e10, largest**0.5 * 9, largest / 20):
        x = flambeau.tensor(place, dtype=dtype, requires_grad=True)
        found = law.log_prob(x)
        exact = expected.logpdf(min(place, 1e100))
        if place > 1e100:  # SciPy overflows itself: beyond, the density falls as a power
            power = -3.5 if name == "StudentT" else -2.0
            exact += power * (math.log(place) - math.log(1e100))
        np.testing.assert_allclose(found.item(), exact, rtol=3e-6 if dtype is flambeau.float32 else 1e-12)
        (slope,) = flambeau.autograd.grad(found, x, create_graph=True)
        (bend,) = flambeau.autograd.grad(slope, x)
        if place > 1e9:
            power = -3.5 if name == "StudentT" else -2.0
            np.testing.assert_allclose(slope.item() * place, power, rtol=1e-4)
        assert bend.isfinite()


def test_tails_keep_their_digits():
    D, f64 = flambeau.distributions, flambeau.float64
    far = flambeau.tensor(-30.0, dtype=f64)
    normal = D.Normal(flambeau.tensor(0.0, dtype=f64), 1.0)
    np.testing.assert_allclose(normal.cdf(far).item(), stats.norm.cdf(-30), rtol=1e-12)
    laplace = D.Laplace(flambeau.tensor(0.0, dtype=f64), 1.0)
    np.testing.assert_allclose(laplace.cdf(far).item(), stats.laplace.cdf(-30), rtol=1e-12)
    near = flambeau.tensor(1e-18, dtype=f64)
    for law, reference in (
        (D.Exponential(flambeau.tensor(2.0, dtype=f64)), stats.expon(scale=0.5)),
        (D.Weibull(flambeau.tensor(2.0, dtype=f64), 1.5), stats.weibull_min(1.5, scale=2)),
        (D.HalfNormal(flambeau.tensor(2.0, dtype=f64)), stats.halfnorm(scale=2)),
    ):
        np.testing.assert_allclose(law.cdf(near).item(), reference.cdf(1e-18), rtol=1e-12)


def test_densities_and_gradients_at_the_ends():
    """What is outside has no density, where validation lets it; gradients at ends are numbers."""
    D = flambeau.distributions
    low, high = flambeau.tensor(0.0, requires_grad=True), flambeau.tensor(2.0, requires_grad=True)
    uniform = D.Uniform(low, high, validate_args=False)
    found = uniform.log_prob(flambeau.tensor([-1.0, 0.0, 1.0, 2.0, 3.0]))
    np.testing.assert_allclose(found.detach().numpy().round(4), [-np.inf, -0.6931, -0.6931, -np.inf, -np.inf])
    found[1].backward()
    assert (low.grad.item(), high.grad.item()) == (0.5, -0.5)
    for make in (D.HalfNormal, D.HalfCauchy):
        scale = flambeau.tensor(1.5, requires_grad=True)
        value = flambeau.tensor([-1.0, 0.0], requires_grad=True)
        found = make(scale, validate_args=False).log_prob(value)
        assert found[0].item() == -np.inf and np.isfinite(found[1].item())
        found[1].backward()
        assert np.isfinite(scale.grad.item()) and value.grad[1].item() == 0
    for probs, value in ((0.0, 0.0), (1.0, 1.0), (0.0, 1.0), (1.0, 0.0)):
        probs = flambeau.tensor(probs, requires_grad=True)
        D.Bernoulli(probs).log_prob(flambeau.tensor(value)).backward()
        assert np.isfinite(probs.grad.item())
    rate = flambeau.tensor(2.0, requires_grad=True)
    D.Exponential(rate).log_prob(flambeau.tensor(0.0)).backward()
    assert rate.grad.item() == 0.5
    a, b = (flambeau.tensor(1.0, requires_grad=True) for _ in range(2))
    value = flambeau.tensor([0.0, 1.0], requires_grad=True)
    found = D.Kumaraswamy(a, b).log_prob(value)
    assert found.tolist() == [0.0, 0.0]
    found.sum().backward()
    assert all(np.isfinite(x.grad.numpy()).all() for x in (a, b, value))


def test_generalised_pareto_survival():
    law, reference = made("GeneralizedPareto"), LAWS["GeneralizedPareto"].references()
    values = inner_values("GeneralizedPareto")
    expected = np.stack([r.logsf(v) for r, v in zip(reference, values.T)], -1)
    np.testing.assert_allclose(
        law.log_survival_function(flambeau.tensor(values)).numpy(), expected, rtol=1e-10
    )
    expected = np.stack([r.logcdf(v) for r, v in zip(reference, values.T)], -1)
    np.testing.assert_allclose(law.log_cdf(flambeau.tensor(values)).numpy(), expected, rtol=1e-10)
    steep = flambeau.distributions.GeneralizedPareto(0.0, 1.0, flambeau.tensor([0.4, 0.5, 1.0]))
    assert np.isnan(steep.variance.numpy()).tolist() == [False, True, True]
    assert np.isnan(steep.mean.numpy()).tolist() == [False, False, True]
