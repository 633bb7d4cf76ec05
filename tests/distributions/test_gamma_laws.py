"""Gamma, beta, Student, Fisher, Poisson, binomial and von Mises distributions against SciPy."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
from scipy import integrate, special, stats

import flambeau
from flambeau import distributions as D
from flambeau.distributions import kl_divergence

# Parameters, a batch of some elements each, and SciPy's distribution of one of them.
CONTINUOUS = {
    "Gamma": ({"concentration": [0.4, 1.0, 7.5], "rate": [1.0, 0.3, 2.0]}, lambda a, r: stats.gamma(a, scale=1 / r)),
    "Chi2": ({"df": [0.7, 2.0, 9.0]}, stats.chi2),
    "InverseGamma": (
        {"concentration": [2.5, 4.0, 7.5], "rate": [1.0, 0.3, 2.0]},
        lambda a, r: stats.invgamma(a, scale=r),
    ),
    "Beta": ({"concentration1": [0.6, 1.0, 4.0], "concentration0": [0.7, 2.0, 3.0]}, stats.beta),
    "StudentT": ({"df": [2.5, 4.0, 60.0], "loc": [0.0, 1.5, -1.0], "scale": [1.0, 0.3, 2.0]}, stats.t),
    "FisherSnedecor": ({"df1": [3.0, 4.0, 9.0], "df2": [5.0, 6.0, 20.0]}, stats.f),
    "VonMises": (
        {"loc": [0.0, 1.0, -2.0], "concentration": [0.2, 2.0, 30.0]},
        lambda m, k: stats.vonmises(k, loc=m),
    ),
}  # fmt: skip
DISCRETE = {
    "Poisson": ({"rate": [0.3, 4.0, 70.0]}, stats.poisson),
    "Binomial": ({"total_count": [1.0, 12.0, 90.0], "probs": [0.3, 0.6, 0.2]}, stats.binom),
    "NegativeBinomial": (
        {"total_count": [1.0, 2.5, 40.0], "probs": [0.3, 0.6, 0.2]},
        lambda n, p: stats.nbinom(n, 1 - p),
    ),
}
ALL = CONTINUOUS | DISCRETE


def made(name, dtype=flambeau.float64, **options):
    kind = getattr(D, name)
    return kind(**{k: flambeau.tensor(v, dtype=dtype, **options) for k, v in ALL[name][0].items()})


def references(name):
    parameters, reference = ALL[name]
    return [reference(*values) for values in zip(*parameters.values())]


def by_element(name, function):
    return np.stack([np.asarray(function(r), dtype=float) for r in references(name)], -1)


def inside(name):
    """Quantiles, the same share for every element: (7, 3)."""
    return by_element(name, lambda r: r.ppf(np.linspace(0.03, 0.97, 7)))


@pytest.mark.parametrize("name", ALL)
def test_densities(name):
    values, rows = inside(name), references(name)
    method = "logpmf" if name in DISCRETE else "logpdf"
    expected = np.stack([getattr(r, method)(v) for r, v in zip(rows, values.T)], -1)
    found = made(name).log_prob(flambeau.tensor(values))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-10)
    narrow = made(name, flambeau.float32).log_prob(flambeau.tensor(values, dtype=flambeau.float32))
    assert narrow.dtype is flambeau.float32
    np.testing.assert_allclose(narrow.numpy(), expected, rtol=1e-3, atol=2e-4)


@pytest.mark.parametrize("name", ALL)
def test_moments(name):
    law = made(name)
    if name == "VonMises":
        k = law.concentration.numpy()
        assert flambeau.equal(law.mean, law.loc)
        np.testing.assert_allclose(law.variance.numpy(), 1 - special.i1e(k) / special.i0e(k), rtol=1e-12)
        return
    np.testing.assert_allclose(law.mean.numpy(), by_element(name, lambda r: r.mean()), rtol=1e-10)
    np.testing.assert_allclose(law.variance.numpy(), by_element(name, lambda r: r.var()), rtol=1e-9)
    np.testing.assert_allclose(law.stddev.numpy(), by_element(name, lambda r: r.std()), rtol=1e-9)


@pytest.mark.parametrize("name", ["Gamma", "Chi2", "InverseGamma", "Beta", "StudentT"])
def test_entropies(name):
    expected = by_element(name, lambda r: r.entropy())
    np.testing.assert_allclose(made(name).entropy().numpy(), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ["Gamma", "Chi2", "InverseGamma"])
def test_probabilities(name):
    values = inside(name)
    expected = np.stack([r.cdf(v) for r, v in zip(references(name), values.T)], -1)
    np.testing.assert_allclose(made(name).cdf(flambeau.tensor(values)).numpy(), expected, rtol=1e-9)


@pytest.mark.parametrize("name", [n for n in ALL if n != "VonMises"])
def test_modes_are_where_the_density_is_largest(name):
    law = made(name)
    mode = law.mode
    best = (
        law.log_prob(mode)
        if law.support.check(mode).all()
        else law.log_prob(mode.nan_to_num(1.0).clamp(min=1e-9))
    )
    inner = mode.isfinite() & best.isfinite()
    assert inner.any()
    step = 1.0 if name in DISCRETE else 1e-3
    for beside in (mode + step, mode - step):
        beside = flambeau.where(law.support.check(beside), beside, flambeau.where(inner, mode, 1.0))
        assert ((law.log_prob(beside) <= best + 1e-9) | ~inner).all()


@pytest.mark.parametrize("name", ALL)
def test_samples_fit(name):
    flambeau.manual_seed(21)
    drawn = made(name).sample((20_000,)).numpy()
    for column, law in zip(drawn.T, references(name)):
        if name in DISCRETE:
            low, high = int(law.ppf(1e-3)), int(law.ppf(1 - 1e-3))
            edges = np.unique(np.linspace(low, high + 1, min(high - low + 2, 30)).astype(int))
            shares = np.diff([0.0, *law.cdf(edges - 1), 1.0])
            found = np.histogram(column, [-np.inf, *edges, np.inf])[0]
            enough = shares > 5 / len(column)
            expected = shares[enough] * found[enough].sum() / shares[enough].sum()
            assert stats.chisquare(found[enough], expected).pvalue > 1e-5
        elif name == "VonMises":
            turned = np.mod(column - law.kwds["loc"] + np.pi, 2 * np.pi) - np.pi
            assert stats.kstest(turned, stats.vonmises(law.args[0]).cdf).pvalue > 1e-5
        else:
            assert stats.kstest(column, law.cdf).pvalue > 1e-5


@pytest.mark.parametrize("name", [n for n in CONTINUOUS if n != "VonMises"])
def test_samples_carry_gradients_of_means(name):
    """The mean of d f(x) / d parameter over samples is about the derivative of the mean of f."""
    flambeau.manual_seed(22)
    bounded, by_numpy = (flambeau.tanh, np.tanh) if name == "StudentT" else (flambeau.log1p, np.log1p)
    parameters = [
        flambeau.tensor(v, dtype=flambeau.float64, requires_grad=True) for v in ALL[name][0].values()
    ]
    drawn = getattr(D, name)(*parameters).rsample((40_000,))
    found = flambeau.autograd.grad(bounded(drawn).mean(0).sum(), parameters)
    for k, gradient in enumerate(found):
        for element in range(3):
            given = [values[element] for values in ALL[name][0].values()]

            def mean(shift, given=given, k=k):
                moved = [v + shift * (j == k) for j, v in enumerate(given)]
                law = ALL[name][1](*moved)
                return integrate.quad(lambda q: by_numpy(law.ppf(q)), 0, 1, limit=200)[0]

            expected = (mean(1e-3) - mean(-1e-3)) / 2e-3
            assert abs(float(gradient[element]) - expected) < 0.03 * max(1.0, abs(expected)), (k, element)


@pytest.mark.parametrize("name", ALL)
def test_shapes_and_copies(name):
    law = made(name)
    assert law.batch_shape == (3,) and law.event_shape == ()
    assert law.sample().shape == (3,) and law.sample((2, 0)).shape == (2, 0, 3)
    wide = law.expand((2, 3))
    assert wide.batch_shape == (2, 3) and wide.sample((4,)).shape == (4, 2, 3)
    values = flambeau.tensor(inside(name))[3]
    for other in (wide, copy.deepcopy(law), pickle.loads(pickle.dumps(law))):
        assert flambeau.allclose(other.log_prob(values), law.log_prob(values).expand(other.batch_shape))
    empty = type(law)(**{k: flambeau.empty(0) for k in ALL[name][0]})
    assert empty.sample((2,)).shape == (2, 0) and empty.log_prob(flambeau.empty(0)).shape == (0,)
    numbers = type(law)(**{k: v[1] for k, v in ALL[name][0].items() if name not in ("Binomial", "NegativeBinomial")}) if (
        name not in ("Binomial", "NegativeBinomial")
    ) else type(law)(4, 0.5)  # fmt: skip
    assert numbers.batch_shape == () and numbers.sample().shape == ()


@pytest.mark.parametrize("name", ALL)
def test_wrong_parameters_and_values(name):
    law = made(name)
    for parameter in ALL[name][0]:
        bad = {k: flambeau.tensor(v) for k, v in ALL[name][0].items()}
        bad[parameter] = flambeau.full((3,), math.nan)
        with pytest.raises(ValueError, match=parameter if name != "Chi2" else "df"):
            type(law)(**bad)
        type(law)(**bad, validate_args=False)
    outside = {"Beta": 1.5, "StudentT": math.nan, "VonMises": math.nan}.get(name, -1.0)
    with pytest.raises(ValueError, match="support"):
        law.log_prob(flambeau.tensor(outside, dtype=flambeau.float64))
    with pytest.raises(ValueError, match="broadcast"):
        law.log_prob(flambeau.ones(4, dtype=flambeau.float64))


@pytest.mark.parametrize("name", ALL)
def test_gradients_of_log_prob(name):
    value = flambeau.tensor(inside(name))[3]
    parameters = [
        flambeau.tensor(v, dtype=flambeau.float64, requires_grad=True) for v in ALL[name][0].values()
    ]
    assert flambeau.autograd.gradcheck(
        lambda *p: type(made(name))(*p, validate_args=False).log_prob(value), parameters
    )


def test_counts_without_trials():
    law = D.NegativeBinomial(flambeau.zeros(2, requires_grad=True), probs=flambeau.tensor([0.3, 0.5]))
    found = law.log_prob(flambeau.tensor([0.0, 1.0]))
    assert found.tolist() == [0.0, -math.inf] and law.sample().tolist() == [0.0, 0.0]
    none = D.Binomial(0, probs=flambeau.tensor([0.0, 0.5, 1.0]))
    assert none.log_prob(flambeau.zeros(3)).tolist() == pytest.approx([0, 0, 0], abs=1e-6)


def test_one_of_probs_and_logits():
    for kind in (D.Binomial, D.NegativeBinomial):
        with pytest.raises(ValueError, match="not both"):
            kind(3)
        with pytest.raises(ValueError, match="not both"):
            kind(3, probs=flambeau.tensor(0.5), logits=flambeau.tensor(0.0))
        law = kind(3, logits=flambeau.tensor([-1.0, 2.0]))
        assert flambeau.allclose(law.probs, law.logits.sigmoid())


def test_enumerated_counts():
    law = D.Binomial(3, probs=flambeau.tensor([0.2, 0.5], dtype=flambeau.float64))
    values = law.enumerate_support()
    assert values.shape == (4, 2) and law.enumerate_support(False).shape == (4, 1)
    assert flambeau.allclose(law.log_prob(values).exp().sum(0), flambeau.ones(2, dtype=flambeau.float64))
    expected = [stats.binom(3, p).entropy() for p in (0.2, 0.5)]
    np.testing.assert_allclose(law.entropy().numpy(), expected, rtol=1e-9)
    with pytest.raises(NotImplementedError, match="Inhomogeneous"):
        D.Binomial(flambeau.tensor([2.0, 3.0]), probs=flambeau.tensor(0.5)).entropy()


def test_where_moments_are_not():
    t = D.StudentT(flambeau.tensor([0.5, 1.5, 3.0]))
    assert t.mean.isnan().tolist() == [True, False, False] and t.variance.tolist()[1] == math.inf
    assert t.variance.isnan().tolist() == [True, False, False]
    f = D.FisherSnedecor(flambeau.tensor([1.0, 3.0]), flambeau.tensor([2.0, 4.0]))
    assert (
        f.mean.isnan().tolist() == [True, False]
        and f.variance.isnan().all()
        and f.mode.isnan().tolist() == [True, False]
    )
    inverse = D.InverseGamma(flambeau.tensor([1.0, 2.0]), 1.0)
    assert inverse.mean.tolist() == [math.inf, 1.0] and inverse.variance.tolist() == [math.inf, math.inf]
    assert D.Beta(flambeau.tensor([0.5, 2.0]), flambeau.tensor([0.5, 1.0])).mode.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("Gamma", "Gamma"),
        ("Chi2", "Chi2"),
        ("Chi2", "Gamma"),
        ("Beta", "Beta"),
        ("Beta", "Gamma"),
        ("Poisson", "Poisson"),
        ("Binomial", "Binomial"),
    ],
)
def test_divergences(name, other):
    """Against sums and integrals of SciPy's densities."""
    p, q = made(name), made(other)
    parameters = {k: [v[1], v[2], v[0]] for k, v in ALL[other][0].items()}
    if name == "Binomial":
        parameters["total_count"] = ALL[name][0]["total_count"]
    q = type(q)(**{k: flambeau.tensor(v, dtype=flambeau.float64) for k, v in parameters.items()})
    laws = [ALL[other][1](*values) for values in zip(*parameters.values())]
    expected = []
    for a, b in zip(references(name), laws):
        if name in DISCRETE:
            k = np.arange(a.ppf(1e-15), a.ppf(1 - 1e-13) + 1)
            expected.append((a.pmf(k) * (a.logpmf(k) - b.logpmf(k))).sum())
        else:
            f = lambda u, a=a, b=b: a.logpdf(a.ppf(u)) - b.logpdf(a.ppf(u))  # noqa: E731
            expected.append(integrate.quad(f, 0, 1, limit=500)[0])
    np.testing.assert_allclose(kl_divergence(p, q).numpy(), expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(kl_divergence(p, p).numpy(), 0.0, atol=1e-9)


def test_divergences_that_are_infinite_or_unknown():
    assert kl_divergence(D.Gamma(1.0, 1.0), D.Beta(1.0, 1.0)) == math.inf
    assert kl_divergence(D.Poisson(1.0), D.Binomial(3, flambeau.tensor(0.5))) == math.inf
    more, fewer = D.Binomial(4, flambeau.tensor(0.5)), D.Binomial(3, flambeau.tensor(0.5))
    assert kl_divergence(more, fewer) == math.inf
    with pytest.raises(NotImplementedError, match="total_count"):
        kl_divergence(fewer, more)
    assert kl_divergence(D.Poisson(0.0), D.Poisson(2.0)) == 2.0


def test_bessel_function_in_single_precision():
    k = np.concatenate([np.geomspace(1e-8, 1e30, 20_001), np.linspace(7.9, 8.1, 1001)]).astype(np.float32)
    x = flambeau.tensor(k).requires_grad_()
    flat = D.VonMises(flambeau.zeros(k.size), x).log_prob(flambeau.zeros(k.size))
    wanted = -np.log(2 * np.pi * special.i0e(k.astype(np.float64)))
    np.testing.assert_allclose(flat.detach().numpy(), wanted, rtol=1e-6, atol=1e-6)
    flat.sum().backward()
    slope = 1 - special.i1e(k.astype(np.float64)) / special.i0e(k.astype(np.float64))
    np.testing.assert_allclose(x.grad.numpy(), slope, rtol=1e-4, atol=2e-6)
