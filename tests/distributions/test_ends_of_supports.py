"""Log densities and distribution functions at the ends of supports, infinite ones too, against their limits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import flambeau
from flambeau import distributions as D

LAWS = [
    *((D.Gamma, (a, 2.0), stats.gamma(a, scale=0.5)) for a in (0.5, 1.0, 3.0)),
    *((D.Chi2, (df,), stats.chi2(df)) for df in (1.0, 2.0, 5.0)),
    *((D.InverseGamma, (a, 3.0), stats.invgamma(a, scale=3)) for a in (1.0, 2.0)),
    *((D.Weibull, (2.0, k), stats.weibull_min(k, scale=2)) for k in (0.5, 1.0, 2.0)),
    *((D.FisherSnedecor, (df, 3.0), stats.f(df, 3)) for df in (1.0, 2.0, 4.0)),
    *((D.Beta, ab, stats.beta(*ab)) for ab in ((0.5, 0.5), (1.0, 1.0), (1.0, 2.0), (2.0, 1.0), (2.0, 3.0))),
    *((D.Kumaraswamy, ab, stats.beta(*ab)) for ab in ((1.0, 1.0), (1.0, 2.0), (2.0, 1.0))),
    (D.Normal, (1.0, 2.0), stats.norm(1, 2)),
    (D.LogNormal, (0.5, 2.0), stats.lognorm(2, scale=math.exp(0.5))),
    (D.HalfNormal, (2.0,), stats.halfnorm(scale=2)),
    (D.HalfCauchy, (2.0,), stats.halfcauchy(scale=2)),
    (D.Cauchy, (1.0, 2.0), stats.cauchy(1, 2)),
    (D.Laplace, (1.0, 2.0), stats.laplace(1, 2)),
    (D.Exponential, (2.0,), stats.expon(scale=0.5)),
    (D.Gumbel, (1.0, 2.0), stats.gumbel_r(1, 2)),
    (D.Pareto, (1.5, 2.0), stats.pareto(2, scale=1.5)),
    (D.StudentT, (3.0, 1.0, 2.0), stats.t(3, 1, 2)),
    *((D.GeneralizedPareto, (1.0, 2.0, c), stats.genpareto(c, 1, 2)) for c in (0.0, 0.5)),
    *((D.Poisson, (rate,), stats.poisson(rate)) for rate in (0.0, 2.0)),
    (D.Geometric, (0.3,), stats.geom(0.3, loc=-1)),
    *((D.Binomial, (5.0, p), stats.binom(5, p)) for p in (0.3, 0.9)),
    *((D.NegativeBinomial, (3.0, p), stats.nbinom(3, 1 - p)) for p in (0.3,)),
    *((D.Bernoulli, (p,), stats.bernoulli(p)) for p in (0.3, 0.9)),
]
POINTS = (-math.inf, -1.0, -0.0, 0.0, 1.0, 1.5, 2.0, 5.0, 700.0, math.inf)
DTYPES = {"float64": 1e-10, "float32": 2e-5}


def made(kind, parameters, dtype, validate):
    given = [flambeau.tensor(x, dtype=dtype, requires_grad=True) for x in parameters]
    if kind is D.Binomial:
        return D.Binomial(int(parameters[0]), given[1], validate_args=validate), given[1:]
    return kind(*given, validate_args=validate), given


def limit(law, what, x):
    """SciPy's number, and at infinity that of any density and distribution function."""
    if math.isinf(x):
        return -math.inf if what == "log_prob" else float(x > 0)
    if what == "cdf":
        return float(law.cdf(x))
    return float(law.logpmf(x) if hasattr(law.dist, "pmf") else law.logpdf(x))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("what", ["log_prob", "cdf"])
@pytest.mark.parametrize(
    "kind, parameters, law", LAWS, ids=lambda x: getattr(x, "__name__", None) or str(x)[:24]
)
def test_limits(kind, parameters, law, what, dtype):
    """At all points that the support has, alone and among others (which the kernels compute by another way)."""
    dist, _ = made(kind, parameters, getattr(flambeau, dtype), None)
    values = [
        x for x in POINTS if bool(dist.support.check(flambeau.tensor(x, dtype=getattr(flambeau, dtype))))
    ]
    assert len(values) >= 2
    whole = flambeau.tensor(values * 9, dtype=getattr(flambeau, dtype))
    try:
        found = getattr(dist, what)(whole).tolist()
    except NotImplementedError:
        pytest.skip("no distribution function")
    wanted = [limit(law, what, x) for x in values]
    np.testing.assert_allclose(found, wanted * 9, rtol=DTYPES[dtype], atol=DTYPES[dtype])
    single = [getattr(dist, what)(flambeau.tensor(x, dtype=getattr(flambeau, dtype))).item() for x in values]
    np.testing.assert_allclose(single, wanted, rtol=DTYPES[dtype], atol=DTYPES[dtype])


@pytest.mark.parametrize(
    "kind, parameters, law", LAWS, ids=lambda x: getattr(x, "__name__", None) or str(x)[:24]
)
def test_nan_is_refused_or_nan(kind, parameters, law):
    value = flambeau.tensor(math.nan, dtype=flambeau.float64)
    dist, _ = made(kind, parameters, flambeau.float64, True)
    with pytest.raises(ValueError, match="within the support"):
        dist.log_prob(value)
