"""Dirichlet, multivariate normal, Wishart and LKJ distributions against SciPy."""

from __future__ import annotations

import copy
import math
import pickle
import warnings

import numpy as np
import pytest
from scipy import stats

import flambeau
from flambeau import distributions as D
from flambeau.distributions import kl_divergence

RANDOM = np.random.default_rng(0)
A = RANDOM.normal(size=(2, 3, 3))
COVARIANCES = A @ A.transpose(0, 2, 1) + np.eye(3)
LOC = RANDOM.normal(size=(2, 3))


def t(x):
    return flambeau.tensor(x, dtype=flambeau.float64)


def normals():
    """The same batch of two in all forms."""
    return {
        "covariance_matrix": D.MultivariateNormal(t(LOC), covariance_matrix=t(COVARIANCES)),
        "precision_matrix": D.MultivariateNormal(t(LOC), precision_matrix=t(np.linalg.inv(COVARIANCES))),
        "scale_tril": D.MultivariateNormal(t(LOC), scale_tril=t(np.linalg.cholesky(COVARIANCES))),
    }


FACTOR, DIAGONAL = RANDOM.normal(size=(2, 3, 2)), RANDOM.gamma(2.0, size=3) + 0.3


def low_rank():
    return D.LowRankMultivariateNormal(t(LOC), t(FACTOR), t(DIAGONAL))


def covariances(law):
    return (
        FACTOR @ FACTOR.transpose(0, 2, 1) + np.diag(DIAGONAL)
        if type(law) is D.LowRankMultivariateNormal
        else COVARIANCES
    )


@pytest.mark.parametrize("form", ["covariance_matrix", "precision_matrix", "scale_tril", "low rank"])
def test_normal_distributions(form):
    law = low_rank() if form == "low rank" else normals()[form]
    covariance = covariances(law)
    laws = [stats.multivariate_normal(m, c) for m, c in zip(LOC, covariance)]
    values = RANDOM.normal(size=(5, 2, 3))
    expected = np.stack([r.logpdf(values[:, k]) for k, r in enumerate(laws)], -1)
    np.testing.assert_allclose(law.log_prob(t(values)).numpy(), expected, rtol=1e-10)
    np.testing.assert_allclose(law.entropy().numpy(), [r.entropy() for r in laws], rtol=1e-10)
    np.testing.assert_allclose(law.covariance_matrix.numpy(), covariance, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(law.precision_matrix.numpy(), np.linalg.inv(covariance), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(law.scale_tril.numpy(), np.linalg.cholesky(covariance), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(law.variance.numpy(), covariance.diagonal(0, 1, 2), rtol=1e-9)
    assert flambeau.equal(law.mean, law.mode)


@pytest.mark.parametrize("form", ["covariance_matrix", "low rank"])
def test_normal_samples(form):
    flambeau.manual_seed(31)
    law = low_rank() if form == "low rank" else normals()[form]
    covariance, drawn = covariances(law), law.sample((20_000,)).numpy()
    for k in range(2):
        centred = (drawn[:, k] - LOC[k]) @ np.linalg.inv(np.linalg.cholesky(covariance[k])).T
        assert stats.kstest((centred**2).sum(-1), stats.chi2(3).cdf).pvalue > 1e-5
        assert np.abs(np.cov(centred.T) - np.eye(3)).max() < 0.05 and np.abs(centred.mean(0)).max() < 0.05


def test_batches_of_factors_and_of_values():
    """One factor for many values, many factors for one, and sizes of 1 in both."""
    factors = np.linalg.cholesky(COVARIANCES)
    for loc, scale, value in (
        (LOC[0], factors, RANDOM.normal(size=(4, 1, 3))),
        (RANDOM.normal(size=(5, 1, 3)), factors, RANDOM.normal(size=(6, 5, 2, 3))),
        (RANDOM.normal(size=(5, 2, 3)), factors[:1], RANDOM.normal(size=(5, 2, 3))),
        (LOC, factors[0], RANDOM.normal(size=(7, 2, 3))),
    ):
        law = D.MultivariateNormal(t(loc), scale_tril=t(scale))
        apart = np.linalg.solve(scale, (value - loc)[..., None])[..., 0]
        expected = (
            -0.5 * (apart**2).sum(-1)
            - np.log(scale.diagonal(0, -2, -1)).sum(-1)
            - 1.5 * math.log(2 * math.pi)
        )
        np.testing.assert_allclose(law.log_prob(t(value)).numpy(), expected, rtol=1e-10)
        assert law.expand((3, *law.batch_shape)).log_prob(t(value[:1])).shape[-1] == law.batch_shape[-1]


def test_gradients_of_normals():
    def log_prob(loc, covariance, value):
        return D.MultivariateNormal(
            loc, covariance @ covariance.mT + flambeau.eye(3).double(), validate_args=False
        ).log_prob(value)

    given = [t(LOC).requires_grad_(), t(A).requires_grad_(), t(RANDOM.normal(size=(2, 3))).requires_grad_()]
    assert flambeau.autograd.gradcheck(log_prob, given)

    def low(loc, factor, diagonal):
        return D.LowRankMultivariateNormal(loc, factor, diagonal.exp(), validate_args=False).log_prob(
            t(LOC[::-1].copy())
        )

    assert flambeau.autograd.gradcheck(low, [t(x).requires_grad_() for x in (LOC, FACTOR, DIAGONAL)])


def divergence(p_mean, p, q_mean, q):
    inverse, apart = np.linalg.inv(q), q_mean - p_mean
    return 0.5 * (
        np.trace(inverse @ p) + apart @ inverse @ apart - 3 + np.log(np.linalg.det(q) / np.linalg.det(p))
    )


@pytest.mark.parametrize("first", ["full", "low rank"])
@pytest.mark.parametrize("second", ["full", "low rank"])
def test_divergences_of_normals(first, second):
    p, q = (normals()["scale_tril"] if form == "full" else low_rank() for form in (first, second))
    q.loc = t(LOC[::-1].copy())
    expected = [divergence(LOC[k], covariances(p)[k], LOC[1 - k], covariances(q)[k]) for k in range(2)]
    np.testing.assert_allclose(kl_divergence(p, q).numpy(), expected, rtol=1e-9)
    with pytest.raises(ValueError, match="event shapes"):
        kl_divergence(p, D.MultivariateNormal(flambeau.zeros(2), flambeau.eye(2)))


CONCENTRATION = np.array([[0.5, 1.5, 3.0], [1.0, 2.0, 0.7]])


def test_dirichlet():
    law = D.Dirichlet(t(CONCENTRATION))
    laws = [stats.dirichlet(c) for c in CONCENTRATION]
    values = RANDOM.dirichlet([2.0, 2.0, 2.0], size=(4, 2))
    expected = np.stack([[r.logpdf(v) for v in values[:, k]] for k, r in enumerate(laws)], -1)
    np.testing.assert_allclose(law.log_prob(t(values)).numpy(), expected, rtol=1e-9)
    for name, method in (("mean", "mean"), ("variance", "var")):
        np.testing.assert_allclose(
            getattr(law, name).numpy(), [getattr(r, method)() for r in laws], rtol=1e-10
        )
    np.testing.assert_allclose(law.entropy().numpy(), [r.entropy() for r in laws], rtol=1e-9)
    other = D.Dirichlet(t(CONCENTRATION[::-1].copy()))
    drawn = law.sample((20_000,))
    estimate = (law.log_prob(drawn) - other.log_prob(drawn)).mean(0)
    np.testing.assert_allclose(kl_divergence(law, other).numpy(), estimate.numpy(), rtol=0.1)
    assert D.Dirichlet(flambeau.tensor([3.0, 2.0, 1.0])).mode.tolist() == pytest.approx([2 / 3, 1 / 3, 0.0])
    assert D.Dirichlet(flambeau.tensor([0.5, 0.5])).mode.sum() == 1
    with pytest.raises(ValueError, match="one-dimensional"):
        D.Dirichlet(flambeau.tensor(1.0))
    with pytest.raises(ValueError, match="concentration"):
        D.Dirichlet(flambeau.tensor([1.0, -1.0]))
    with pytest.raises(ValueError, match="support"):
        law.log_prob(t([0.5, 0.6, 0.1]))


def wisharts():
    precision = t(np.linalg.inv(COVARIANCES))
    return [
        D.Wishart(t([4.5, 6.0]), covariance_matrix=t(COVARIANCES)),
        D.Wishart(t([4.5, 6.0]), precision_matrix=precision),
        D.Wishart(t([4.5, 6.0]), scale_tril=t(np.linalg.cholesky(COVARIANCES))),
    ]


def test_wishart():
    laws = [stats.wishart(df, c) for df, c in zip((4.5, 6.0), COVARIANCES)]
    values = stats.wishart(5, np.eye(3)).rvs(8, random_state=1).reshape(4, 2, 3, 3)
    expected = np.stack([[r.logpdf(v) for v in values[:, k]] for k, r in enumerate(laws)], -1)
    for law in wisharts():
        np.testing.assert_allclose(law.log_prob(t(values)).numpy(), expected, rtol=1e-9)
        for name, method in (("mean", "mean"), ("variance", "var")):
            np.testing.assert_allclose(
                getattr(law, name).numpy(), [getattr(r, method)() for r in laws], rtol=1e-9
            )
        np.testing.assert_allclose(law.entropy().numpy(), [r.entropy() for r in laws], rtol=1e-9)
        np.testing.assert_allclose(law.mode.numpy()[1], laws[1].mode(), rtol=1e-9)
        assert law.mode.isfinite().flatten(1).all(-1).tolist() == [True, True]
    assert flambeau.allclose(kl_divergence(law, law), t([0.0, 0.0]), atol=1e-9)
    assert kl_divergence(law, wisharts()[0].expand((2,))).shape == (2,)


def test_wishart_samples():
    """tr(Σ⁻¹ X) is chi-squared with df · p degrees of freedom, and the moments are known."""
    flambeau.manual_seed(33)
    law = wisharts()[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # none of them is singular
        drawn = law.sample((10_000,))
    assert law.support.check(drawn).all() and law.sample((2, 0)).shape == (2, 0, 2, 3, 3)
    for k, df in enumerate((4.5, 6.0)):
        trace = (np.linalg.inv(COVARIANCES[k]) * drawn.numpy()[:, k]).sum((-1, -2))
        assert stats.kstest(trace, stats.chi2(df * 3).cdf).pvalue > 1e-5
    scale = law.variance.sqrt() / 10_000**0.5
    assert ((drawn.mean(0) - law.mean).abs() < 5 * scale).all()
    assert flambeau.allclose(drawn.var(0), law.variance, rtol=0.15)
    df = t(5.0).requires_grad_()
    D.Wishart(df, covariance_matrix=t(np.eye(3))).rsample((4000,)).diagonal(
        dim1=-2, dim2=-1
    ).mean().backward()
    assert abs(float(df.grad) - 1) < 0.05


def test_wishart_refuses():
    with pytest.raises(ValueError, match="ndim - 1 = 2"):
        D.Wishart(t(2.0), covariance_matrix=t(np.eye(3)))
    with pytest.raises(AssertionError, match="Exactly one"):
        D.Wishart(t(5.0))
    with pytest.raises(ValueError, match="two-dimensional"):
        D.Wishart(t(5.0), scale_tril=t([1.0]))
    with pytest.warns(UserWarning, match="Low df"):
        D.Wishart(t(2.5), covariance_matrix=t(np.eye(3)))


@pytest.mark.parametrize("concentration", [0.5, 1.0, 3.0])
def test_lkj(concentration):
    """det R has the known distribution's mean, and entries are of beta distributions (Joe 2006, Lewandowski and others 2009)."""
    flambeau.manual_seed(34)
    law = D.LKJCholesky(3, t(concentration))
    factors = law.sample((20_000,))
    assert law.support.check(factors).all()
    entries = (factors @ factors.mT).numpy()
    marginal = stats.beta(concentration + 0.5, concentration + 0.5, loc=-1, scale=2)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert stats.kstest(entries[:, i, j], marginal.cdf).pvalue > 1e-5
    two = D.LKJCholesky(2, t(concentration))
    grid = np.linspace(-0.999999, 0.999999, 20_001)
    found = two.log_prob(t([[[1.0, 0.0], [r, math.sqrt(1 - r * r)]] for r in grid[::200]])).exp().numpy()
    # of the factor with entry r: the density of r itself, (1 - r²)^(η - 1) over its integral
    expected = stats.beta(concentration, concentration, loc=-1, scale=2).pdf(grid[::200])
    np.testing.assert_allclose(found[1:-1], expected[1:-1], rtol=1e-9)


def test_lkj_shapes():
    law = D.LKJCholesky(4, t([0.5, 2.0]))
    assert law.sample((3,)).shape == (3, 2, 4, 4) and law.log_prob(law.sample()).shape == (2,)
    assert law.expand((5, 2)).sample().shape == (5, 2, 4, 4)
    with pytest.raises(ValueError, match="Found dim=1"):
        D.LKJCholesky(1)


def test_every_law_is_copied_and_refuses():
    laws = [
        *normals().values(),
        low_rank(),
        D.Dirichlet(t(CONCENTRATION)),
        *wisharts(),
        D.LKJCholesky(3, t([1.0, 2.0])),
    ]
    flambeau.manual_seed(35)
    for law in laws:
        value = law.sample()
        for other in (copy.deepcopy(law), pickle.loads(pickle.dumps(law)), law.expand((2,))):
            assert flambeau.allclose(other.log_prob(value), law.log_prob(value))
        assert law.expand((3, 2)).sample((4,)).shape == (4, 3, 2, *law.event_shape)
        with pytest.raises(ValueError, match="event_shape"):
            law.log_prob(t(np.ones((5, 5))))


def test_wrong_matrices():
    loc, unit = flambeau.zeros(2), flambeau.eye(2)
    with pytest.raises(ValueError, match="Exactly one"):
        D.MultivariateNormal(loc)
    with pytest.raises(ValueError, match="Exactly one"):
        D.MultivariateNormal(loc, unit, unit)
    with pytest.raises(ValueError, match="one-dimensional"):
        D.MultivariateNormal(flambeau.tensor(0.0), unit)
    with pytest.raises(ValueError, match="two-dimensional"):
        D.MultivariateNormal(loc, loc)
    with pytest.raises(ValueError, match="covariance_matrix"):
        D.MultivariateNormal(loc, -unit)
    with pytest.raises(ValueError, match="covariance_matrix"):
        D.MultivariateNormal(loc, flambeau.tensor([[1.0, 0.5], [0.0, 1.0]]))
    with pytest.raises(ValueError, match="scale_tril"):
        D.MultivariateNormal(loc, scale_tril=flambeau.ones(2, 2))
    with pytest.raises(ValueError, match="2 x m"):
        D.LowRankMultivariateNormal(loc, flambeau.ones(3, 1), flambeau.ones(2))
    with pytest.raises(ValueError, match="batch shapes"):
        D.LowRankMultivariateNormal(flambeau.zeros(3, 2), flambeau.ones(2, 2, 1), flambeau.ones(2))
    with pytest.raises(ValueError, match="cov_diag"):
        D.LowRankMultivariateNormal(loc, flambeau.ones(2, 1), -flambeau.ones(2))
