"""Arguments for every distribution, of batch shape (2,)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau

D = flambeau.distributions
POSITIVE, REALS, SHARES = [0.7, 2.5], [-0.5, 1.5], [0.25, 0.75]
ROWS, SIMPLEX = [[0.0, 0.5, -1.0], [1.0, 0.0, 0.3]], [[0.2, 0.3, 0.5], [0.6, 0.2, 0.2]]
SPREAD = [[0.5, 1.0, 2.0], [1.5, 0.7, 0.9]]
FACTOR = [
    [[1.0, 0.0, 0.0], [0.5, 2.0, 0.0], [0.1, 0.2, 0.7]],
    [[0.5, 0.0, 0.0], [0.5, 1.0, 0.0], [0.0, 0.2, 1.7]],
]

# What is a list becomes a tensor.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "Bernoulli": {"probs": SHARES},
    "Beta": {"concentration1": POSITIVE, "concentration0": POSITIVE},
    "Binomial": {"total_count": 5, "probs": SHARES},
    "Categorical": {"probs": SIMPLEX},
    "Cauchy": {"loc": REALS, "scale": POSITIVE},
    "Chi2": {"df": POSITIVE},
    "ContinuousBernoulli": {"probs": SHARES},
    "Dirichlet": {"concentration": SPREAD},
    "Exponential": {"rate": POSITIVE},
    "FisherSnedecor": {"df1": POSITIVE, "df2": [5.0, 7.0]},
    "Gamma": {"concentration": POSITIVE, "rate": POSITIVE},
    "GeneralizedPareto": {"loc": REALS, "scale": POSITIVE, "concentration": [0.2, -0.3]},
    "Geometric": {"probs": SHARES},
    "Gumbel": {"loc": REALS, "scale": POSITIVE},
    "HalfCauchy": {"scale": POSITIVE},
    "HalfNormal": {"scale": POSITIVE},
    "InverseGamma": {"concentration": [3.0, 4.0], "rate": POSITIVE},
    "Kumaraswamy": {"concentration1": POSITIVE, "concentration0": POSITIVE},
    "LKJCholesky": {"dim": 3, "concentration": POSITIVE},
    "Laplace": {"loc": REALS, "scale": POSITIVE},
    "LogNormal": {"loc": REALS, "scale": POSITIVE},
    "LogisticNormal": {"loc": ROWS, "scale": SPREAD},
    "LowRankMultivariateNormal": {
        "loc": ROWS,
        "cov_factor": [[[1.0], [0.5], [0.0]], [[0.3], [-0.5], [1.0]]],
        "cov_diag": SPREAD,
    },
    "Multinomial": {"total_count": 4, "probs": SIMPLEX},
    "MultivariateNormal": {"loc": ROWS, "scale_tril": FACTOR},
    "NegativeBinomial": {"total_count": POSITIVE, "probs": SHARES},
    "Normal": {"loc": REALS, "scale": POSITIVE},
    "OneHotCategorical": {"probs": SIMPLEX},
    "OneHotCategoricalStraightThrough": {"logits": ROWS},
    "Pareto": {"scale": POSITIVE, "alpha": POSITIVE},
    "Poisson": {"rate": POSITIVE},
    "RelaxedBernoulli": {"temperature": 0.5, "probs": SHARES},
    "RelaxedOneHotCategorical": {"temperature": 0.5, "probs": SIMPLEX},
    "StudentT": {"df": [3.0, 5.0], "loc": REALS, "scale": POSITIVE},
    "Uniform": {"low": REALS, "high": [2.0, 3.0]},
    "VonMises": {"loc": REALS, "concentration": POSITIVE},
    "Weibull": {"scale": POSITIVE, "concentration": POSITIVE},
    "Wishart": {"df": [3.5, 5.0], "scale_tril": FACTOR},
}


def arguments(name: str, dtype: Any = flambeau.float64, grad: bool = False) -> dict[str, Any]:
    made = {}
    for key, value in ARGUMENTS[name].items():
        if isinstance(value, list) or key == "temperature":
            value = flambeau.tensor(value, dtype=dtype, requires_grad=grad)
        made[key] = value
    return made


def law(name: str, dtype: Any = flambeau.float64, grad: bool = False, **options: Any) -> Any:
    return getattr(D, name)(**arguments(name, dtype, grad), **options)


def normal(*shape: int) -> Any:
    return D.Normal(flambeau.zeros(*shape), flambeau.ones(*shape))


# What holds other distributions.
COMPOSED: dict[str, Callable[[], Any]] = {
    "Independent": lambda: D.Independent(normal(2, 3), 1),
    "MixtureSameFamily": lambda: D.MixtureSameFamily(D.Categorical(flambeau.tensor(SIMPLEX)), normal(2, 3)),
    "MixtureSameFamily of vectors": lambda: D.MixtureSameFamily(
        D.Categorical(flambeau.tensor(SIMPLEX[0])), D.Independent(normal(2, 3, 4), 1)
    ),
    "TransformedDistribution": lambda: D.TransformedDistribution(normal(2), [D.ExpTransform()]),
}
EVERY: dict[str, Callable[[], Any]] = {**{n: (lambda n=n: law(n)) for n in ARGUMENTS}, **COMPOSED}
