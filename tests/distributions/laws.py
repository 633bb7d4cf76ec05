"""Univariate distributions with parameters, and what SciPy knows of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import integrate, stats

import flambeau


class Law(NamedTuple):
    """A distribution by its parameters (a batch of some elements each) and one of SciPy's for each element."""

    parameters: dict[str, list[float]]
    reference: Callable[..., Any]
    discrete: bool = False
    coupled: bool = True  # whether samples are monotone in their noise

    def references(self) -> list[Any]:
        return [self.reference(*values) for values in zip(*self.parameters.values())]


class Kumaraswamy(stats.rv_continuous):
    """x with x^a of the beta distribution (1, b)."""

    def _pdf(self, x, a, b):
        return a * b * x ** (a - 1) * (1 - x**a) ** (b - 1)

    def _cdf(self, x, a, b):
        return 1 - (1 - x**a) ** b

    def _ppf(self, q, a, b):
        return (1 - (1 - q) ** (1 / b)) ** (1 / a)


class ContinuousBernoulli(stats.rv_continuous):
    def _pdf(self, x, p):
        norm = np.where(p == 0.5, 2.0, np.divide(2 * np.arctanh(1 - 2 * p), np.where(p == 0.5, 1, 1 - 2 * p)))
        return norm * p**x * (1 - p) ** (1 - x)

    def _cdf(self, x, p):
        q = np.where(p == 0.5, 0.25, p)
        return np.where(p == 0.5, x, (q**x * (1 - q) ** (1 - x) + q - 1) / (2 * q - 1))


def relaxed_bernoulli(temperature: float, logits: float) -> Any:
    """The sigmoid of logistic numbers."""

    class Sigmoid(stats.rv_continuous):
        inner = stats.logistic(logits / temperature, 1 / temperature)

        def _pdf(self, x):
            return self.inner.pdf(np.log(x / (1 - x))) / (x * (1 - x))

        def _cdf(self, x):
            return self.inner.cdf(np.log(x / (1 - x)))

        def _ppf(self, q):
            return 1 / (1 + np.exp(-self.inner.ppf(q)))

    return Sigmoid(a=0, b=1, name="relaxed")()


LAWS: dict[str, Law] = {
    "Normal": Law({"loc": [0.0, -1.5, 3.0], "scale": [1.0, 0.3, 2.5]}, stats.norm),
    "Uniform": Law({"low": [0.0, -1.5, 3.0], "high": [1.0, 0.3, 5.5]}, lambda a, b: stats.uniform(a, b - a)),
    "Exponential": Law({"rate": [1.0, 0.3, 4.0]}, lambda r: stats.expon(scale=1 / r)),
    "Laplace": Law({"loc": [0.0, -1.5, 3.0], "scale": [1.0, 0.3, 2.5]}, stats.laplace),
    "Cauchy": Law({"loc": [0.0, -1.5, 3.0], "scale": [1.0, 0.3, 2.5]}, stats.cauchy),
    "HalfCauchy": Law({"scale": [1.0, 0.3, 2.5]}, lambda s: stats.halfcauchy(scale=s)),
    "HalfNormal": Law({"scale": [1.0, 0.3, 2.5]}, lambda s: stats.halfnorm(scale=s)),
    "Gumbel": Law({"loc": [0.0, -1.5, 3.0], "scale": [1.0, 0.3, 2.5]}, stats.gumbel_r),
    "LogNormal": Law(
        {"loc": [0.0, -1.5, 0.5], "scale": [1.0, 0.3, 0.7]}, lambda m, s: stats.lognorm(s, scale=np.exp(m))
    ),
    "Pareto": Law(
        {"scale": [1.0, 0.3, 2.5], "alpha": [3.5, 2.1, 5.0]}, lambda s, a: stats.pareto(a, scale=s)
    ),
    "Weibull": Law(
        {"scale": [1.0, 0.3, 2.5], "concentration": [1.0, 0.7, 3.0]},
        lambda s, k: stats.weibull_min(k, scale=s),
    ),
    "GeneralizedPareto": Law(
        {"loc": [0.0, -1.5, 3.0], "scale": [1.0, 0.3, 2.5], "concentration": [0.3, 0.0, -0.4]},
        lambda m, s, c: stats.genpareto(c, m, s),
    ),
    "Kumaraswamy": Law(
        {"concentration1": [1.0, 2.5, 0.7], "concentration0": [2.0, 3.0, 0.8]},
        lambda a, b: Kumaraswamy(a=0, b=1, name="kumaraswamy", shapes="a, b")(a, b),
    ),
    "ContinuousBernoulli": Law(
        {"probs": [0.2, 0.5, 0.9]},
        lambda p: ContinuousBernoulli(a=0, b=1, name="cb", shapes="p")(p),
    ),
    "LogitRelaxedBernoulli": Law(
        {"temperature": [0.5, 0.5, 0.5], "logits": [0.0, -1.5, 2.0]},
        lambda t, x: stats.logistic(x / t, 1 / t),
    ),
    "RelaxedBernoulli": Law({"temperature": [0.5, 0.5, 0.5], "logits": [0.0, -1.5, 2.0]}, relaxed_bernoulli),
    "Bernoulli": Law({"probs": [0.2, 0.5, 0.9]}, stats.bernoulli, discrete=True),
    "Geometric": Law({"probs": [0.2, 0.5, 0.95]}, lambda p: stats.geom(p, loc=-1), discrete=True),
}
CONTINUOUS = [name for name, law in LAWS.items() if not law.discrete]
DISCRETE = [name for name, law in LAWS.items() if law.discrete]


def class_of(name: str) -> Any:
    if name == "LogitRelaxedBernoulli":
        return flambeau.distributions.relaxed_bernoulli.LogitRelaxedBernoulli
    return getattr(flambeau.distributions, name)


def tensors(name: str, dtype: Any = flambeau.float64, **options: Any) -> dict[str, Any]:
    made = {k: flambeau.tensor(v, dtype=dtype, **options) for k, v in LAWS[name].parameters.items()}
    if "temperature" in made:
        made["temperature"] = made["temperature"].detach()[0]
    return made


def made(name: str, dtype: Any = flambeau.float64, **options: Any) -> Any:
    return class_of(name)(**tensors(name, dtype), **options)


def inner_values(name: str, count: int = 9, least: float = 0.02) -> np.ndarray:
    """Quantiles of each element of the batch: (count, batch)."""
    shares = np.linspace(least, 1 - least, count)
    return np.stack([np.asarray(r.ppf(shares), dtype=float) for r in LAWS[name].references()], -1)


def expectation(reference: Any, function: Callable[[float], float]) -> float:
    """The mean of a function of a value, by integration between quantiles, or by a sum."""
    if isinstance(reference.dist, stats.rv_discrete):
        top = int(reference.ppf(1 - 1e-15)) + 1
        return float(sum(reference.pmf(k) * function(k) for k in range(top + 1) if reference.pmf(k) > 0))
    low, high = reference.support()
    cuts = [low, *reference.ppf([1e-6, 0.01, 0.2, 0.5, 0.8, 0.99, 1 - 1e-6]), high]

    def term(x: float) -> float:
        density = reference.pdf(x)
        return density * function(x) if density > 1e-30 else 0.0

    return sum(
        integrate.quad(term, a, b, epsabs=1e-11, epsrel=1e-10, limit=200)[0] for a, b in zip(cuts, cuts[1:])
    )
