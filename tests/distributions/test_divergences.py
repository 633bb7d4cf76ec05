"""Divergences of all registered pairs against integrals of densities, and the registry itself."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from laws import LAWS, Law, class_of, expectation
from scipy import stats

import flambeau
from flambeau.distributions import kl_divergence, register_kl
from flambeau.distributions.kl import _KL_REGISTRY

D = flambeau.distributions
MORE = {
    "Beta": Law({"concentration1": [2.0, 1.3, 3.0], "concentration0": [1.5, 4.0, 2.0]}, stats.beta),
    "Gamma": Law(
        {"concentration": [2.0, 0.8, 3.0], "rate": [1.0, 2.0, 3.0]}, lambda a, b: stats.gamma(a, scale=1 / b)
    ),
    "Poisson": Law({"rate": [0.5, 2.0, 4.0]}, stats.poisson, discrete=True),
}
ALL = {**LAWS, **MORE}
# Uniform numbers within the supports of others, besides those that are not.
INSIDE = {
    "Uniform in Beta": {"low": [0.1, 0.0, 0.5], "high": [0.4, 1.0, 0.75]},
    "Uniform in Pareto": {"low": [1.0, 0.5, 3.0], "high": [1.5, 2.5, 4.0]},
    "Uniform in Uniform": {"low": [0.25, -1.0, 3.0], "high": [0.5, 0.0, 4.0]},
    "Uniform in Gamma": {"low": [0.0, 0.5, 3.0], "high": [1.5, 2.5, 4.0]},
}
PAIRS = [(p.__name__, q.__name__) for p, q in _KL_REGISTRY if p.__name__ in ALL and q.__name__ in ALL]
PAIRS += [
    (inside, q)
    for inside, of in (
        ("Uniform in Beta", ("Beta", "ContinuousBernoulli")),
        ("Uniform in Pareto", ("Pareto",)),
        ("Uniform in Uniform", ("Uniform",)),
        ("Uniform in Gamma", ("Gamma", "Exponential")),
    )
    for q in of
]
PAIRS += [(name, name) for name in ("HalfCauchy", "LogNormal")]


def given(name):
    law = LAWS["Uniform"]._replace(parameters=INSIDE[name]) if name in INSIDE else ALL[name]
    made = {k: flambeau.tensor(v, dtype=flambeau.float64) for k, v in law.parameters.items()}
    return class_of(name.split()[0])(**made), law.references()


@pytest.mark.parametrize("name, other", PAIRS)
@pytest.mark.parametrize("turned", [0, 1], ids=["same", "turned"])
def test_divergences_are_integrals(name, other, turned):
    """Between each element of p and one of q, the same or the next."""
    p, of_p = given(name)
    q, of_q = given(other)
    if turned:
        moved = {
            k: flambeau.tensor(v, dtype=flambeau.float64).roll(1) for k, v in ALL[other].parameters.items()
        }
        q, of_q = class_of(other)(**moved), [of_q[-1], *of_q[:-1]]
    found = kl_divergence(p, q).numpy()
    for element, (a, b) in enumerate(zip(of_p, of_q)):
        log = "logpmf" if isinstance(a.dist, stats.rv_discrete) else "logpdf"
        (low, high), (least, most) = a.support(), b.support()
        with np.errstate(divide="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            heavy = name == "Pareto" and other in ("Normal", "Exponential", "Gamma")
            if low < least or high > most:
                assert found[element] == math.inf
                continue
            difference = lambda x: float(getattr(a, log)(x) - getattr(b, log)(x))  # noqa: B023
            expected = expectation(a, difference)
        assert found[element] == pytest.approx(
            expected, rel=3e-3 if heavy or expected > 1e6 else 1e-5, abs=1e-6
        )


@pytest.mark.parametrize(
    "name", ["Normal", "Exponential", "Bernoulli", "Gamma", "Beta", "ContinuousBernoulli"]
)
def test_divergences_of_families_by_their_normaliser(name):
    p, _ = given(name)
    q = class_of(name)(
        **{k: getattr(p, k).roll(1) for k in ALL[name].parameters if hasattr(type(p), k) or k in vars(p)}
    )
    by_family = _KL_REGISTRY[D.ExponentialFamily, D.ExponentialFamily](p, q)
    np.testing.assert_allclose(by_family.numpy(), kl_divergence(p, q).numpy(), rtol=1e-6)


def test_gradients():
    for name, other in (
        ("Normal", "Normal"),
        ("Pareto", "Gamma"),
        ("Gumbel", "Normal"),
        ("Bernoulli", "Bernoulli"),
    ):
        leaves = [
            [
                flambeau.tensor(v, dtype=flambeau.float64, requires_grad=True)
                for v in ALL[n].parameters.values()
            ]
            for n in (name, other)
        ]
        cut = len(leaves[0])

        def divergence(*parameters):
            p = class_of(name)(*parameters[:cut], validate_args=False)  # noqa: B023
            return kl_divergence(p, class_of(other)(*parameters[cut:], validate_args=False))  # noqa: B023

        assert flambeau.autograd.gradcheck(divergence, [*leaves[0], *leaves[1]], atol=1e-5)


def test_gradients_where_one_is_infinite_or_impossible():
    probs = flambeau.tensor([0.0, 1.0, 0.5, 0.5], requires_grad=True)
    other = flambeau.tensor([0.5, 0.5, 0.0, 1.0], requires_grad=True)
    found = kl_divergence(D.Bernoulli(probs), D.Bernoulli(other))
    np.testing.assert_allclose(found.detach().numpy(), [math.log(2)] * 2 + [math.inf] * 2, rtol=1e-6)
    found[:2].sum().backward()
    assert np.isfinite(probs.grad.numpy()).all() and np.isfinite(other.grad.numpy()).all()
    low = flambeau.tensor([-1.0, 0.2], requires_grad=True)
    found = kl_divergence(D.Uniform(low, 1.0), D.Beta(flambeau.tensor([2.0, 2.0]), 3.0))
    assert found[0].item() == math.inf
    found.sum().backward()
    assert low.grad[0].item() == 0 and np.isfinite(low.grad[1].item())


def test_categorical():
    one, other = np.array([[0.2, 0.8, 0.0], [0.1, 0.4, 0.5]]), np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
    expected = [0.2 * math.log(0.4) + 0.8 * math.log(1.6), math.inf]
    for make in (D.Categorical, D.OneHotCategorical):
        found = kl_divergence(make(flambeau.tensor(one)), make(flambeau.tensor(other)))
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9)


def test_shapes_broadcast():
    p = D.Normal(flambeau.zeros(4, 1), 1.0)
    assert kl_divergence(p, D.Normal(flambeau.zeros(3), 2.0)).shape == (4, 3)
    assert kl_divergence(p, D.Exponential(flambeau.ones(3))).shape == (4, 3)
    assert kl_divergence(D.Normal(flambeau.zeros(0), 1.0), D.Normal(0.0, 1.0)).shape == (0,)
    assert kl_divergence(D.Normal(0.0, 1.0), D.Beta(1.0, 1.0)).item() == math.inf


def test_independent_and_transformed():
    loc, scale = flambeau.randn(3, 2), flambeau.rand(3, 2) + 0.5
    p, q = D.Normal(loc, scale), D.Normal(scale, loc.exp())
    plain = kl_divergence(p, q)
    np.testing.assert_allclose(
        kl_divergence(D.Independent(p, 1), D.Independent(q, 1)).numpy(), plain.sum(-1).numpy(), rtol=1e-6
    )
    with pytest.raises(NotImplementedError, match="reinterpreted dimensions"):
        kl_divergence(D.Independent(p, 1), D.Independent(q, 2))
    turned = [D.TransformedDistribution(x, [D.ExpTransform()]) for x in (p, q)]
    np.testing.assert_allclose(kl_divergence(*turned).numpy(), plain.numpy(), rtol=1e-6)
    np.testing.assert_allclose(
        kl_divergence(D.LogNormal(loc, scale), D.LogNormal(scale, loc.exp())).numpy(),
        plain.numpy(),
        rtol=1e-6,
    )
    with pytest.raises(NotImplementedError, match="equal transforms"):
        kl_divergence(turned[0], D.TransformedDistribution(q, [D.SigmoidTransform()]))


def test_the_most_specific_pair_is_found():
    class Left(D.Normal):
        pass

    class Right(D.Normal):
        pass

    added = [(D.Normal, Right), (Left, D.Normal)]
    try:
        register_kl(D.Normal, Right)(lambda p, q: "second")
        assert kl_divergence(Left(0.0, 1.0), Right(0.0, 1.0)) == "second"
        register_kl(Left, D.Normal)(lambda p, q: "first")
        with pytest.warns(
            RuntimeWarning, match=r"Ambiguous kl_divergence\(Left, Right\).*register_kl\(Left, Right\)"
        ):
            assert kl_divergence(Left(0.0, 1.0), Right(0.0, 1.0)) == "first"
        register_kl(Left, Right)(lambda p, q: "both")
        added.append((Left, Right))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert kl_divergence(Left(0.0, 1.0), Right(0.0, 1.0)) == "both"
        assert kl_divergence(Left(0.0, 1.0), Left(0.0, 1.0)) == "first"
        assert kl_divergence(Right(0.0, 1.0), D.Normal(0.0, 1.0)).item() == 0
    finally:
        for pair in added:
            _KL_REGISTRY.pop(pair, None)
        flambeau.distributions.kl._KL_MEMOIZE.clear()


def test_refusals():
    with pytest.raises(NotImplementedError, match="p type Cauchy and q type Normal"):
        kl_divergence(D.Cauchy(0.0, 1.0), D.Normal(0.0, 1.0))
    with pytest.raises(NotImplementedError, match="different exponential families.*Normal and Bernoulli"):
        kl_divergence(D.Normal(0.0, 1.0), D.Bernoulli(0.5))
    for name, wrong in (("type_p", ("Normal", D.Normal)), ("type_q", (D.Normal, 3))):
        with pytest.raises(TypeError, match=f"Expected {name} to be a class but got"):
            register_kl(*wrong)


class Histogram:
    """A law of a program's own, which is no Distribution."""

    def __init__(self, *weights):
        self.weights = flambeau.tensor(weights)


class Counted(Histogram):
    pass


def test_classes_that_are_no_distributions():
    """PyTorch takes any; the rule of subclasses holds for them."""
    pairs = [(Histogram, Histogram), (Histogram, D.Categorical), (object, Counted)]
    try:
        register_kl(*pairs[0])(lambda p, q: (p.weights * (p.weights / q.weights).log()).sum())
        register_kl(*pairs[1])(lambda p, q: "mixed")
        assert kl_divergence(Histogram(0.5, 0.5), Counted(0.25, 0.75)).item() == pytest.approx(
            stats.entropy([0.5, 0.5], [0.25, 0.75])
        )
        assert kl_divergence(Counted(1.0), D.Categorical(flambeau.ones(2))) == "mixed"
        with pytest.raises(NotImplementedError, match="p type Categorical and q type Histogram"):
            kl_divergence(D.Categorical(flambeau.ones(2)), Histogram(1.0))
        register_kl(*pairs[2])(lambda p, q: "any")
        assert kl_divergence(3, Counted(1.0)) == "any"
    finally:
        for pair in pairs:
            _KL_REGISTRY.pop(pair, None)
        flambeau.distributions.kl._KL_MEMOIZE.clear()
