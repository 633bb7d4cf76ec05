"""Categorical distributions, what is made of them, mixtures, and distributions on the simplex."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

import flambeau
from flambeau.distributions.relaxed_categorical import ExpRelaxedCategorical

D = flambeau.distributions
WEIGHTS = np.array([[1.0, 2.0, 5.0], [3.0, 3.0, 0.5]])
SHARES = WEIGHTS / WEIGHTS.sum(-1, keepdims=True)


def both_ways(make, **more):
    """By weights and by their logarithms, which are normalised alike."""
    return [
        make(probs=flambeau.tensor(WEIGHTS), **more),
        make(logits=flambeau.tensor(np.log(WEIGHTS) + 7), **more),
    ]


def test_categorical():
    for law in both_ways(D.Categorical):
        np.testing.assert_allclose(law.probs.numpy(), SHARES, rtol=1e-12)
        np.testing.assert_allclose(law.logits.numpy(), np.log(SHARES), rtol=1e-12)
        np.testing.assert_allclose(law.entropy().numpy(), stats.entropy(SHARES, axis=-1), rtol=1e-12)
        value = flambeau.tensor([[0, 1], [2, 2], [1, 0]])
        expected = np.log(SHARES)[np.arange(2), value.numpy()]
        np.testing.assert_allclose(law.log_prob(value).numpy(), expected, rtol=1e-12)
        # values broadcast against the batch, and may be of floating-point dtype
        assert law.log_prob(flambeau.tensor(1.0)).shape == (2,)
        assert law.log_prob(flambeau.zeros(4, 1)).shape == (4, 2)
        assert law.mode.tolist() == [2, 0]
        assert law.mean.isnan().all() and law.variance.isnan().all()
        assert law.support.upper_bound == 2
        with pytest.raises(ValueError, match="support"):
            law.log_prob(flambeau.tensor(3))
    one = D.Categorical(flambeau.tensor([0.5, 0.5]))
    assert one.log_prob(flambeau.zeros(4, 3)).shape == (4, 3)
    assert D.Categorical(flambeau.tensor([[1.0, 0.0]])).entropy().item() == pytest.approx(0, abs=1e-6)


def test_categorical_samples():
    flambeau.manual_seed(7)
    law = D.Categorical(flambeau.tensor(WEIGHTS, dtype=flambeau.float32))
    drawn = law.sample((3000, 2))
    assert drawn.shape == (3000, 2, 2) and drawn.dtype is flambeau.int64
    for element in range(2):
        counts = np.bincount(drawn[..., element].numpy().ravel(), minlength=3)
        assert stats.chisquare(counts, SHARES[element] * counts.sum()).pvalue > 1e-4
    # draws are independent of one another
    pairs = np.histogram2d(*drawn[:, :, 0].numpy().T, bins=3)[0]
    assert stats.chi2_contingency(pairs).pvalue > 1e-4


@pytest.mark.parametrize("k", [1, 2, 3, 4, 9, 100])
@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64, flambeau.float16])
def test_categories_of_weight_zero_are_never_drawn(k, dtype):
    weights = np.arange(k) % 3.0 if k > 1 else np.ones(1)
    law = [make(flambeau.tensor([weights, weights[::-1].copy()], dtype=dtype), validate_args=False)
           for make in (D.Categorical, D.OneHotCategorical)]  # fmt: skip
    many = D.Multinomial(5, law[0].probs, validate_args=False)
    shares = np.stack([weights, weights[::-1]]) / weights.sum()
    flambeau.manual_seed(0)
    found = [np.stack([np.bincount(c, minlength=k) for c in law[0].sample((2000,)).numpy().T])]
    drawn = law[1].sample((2000,))
    assert (drawn.sum(-1) == 1).all() and drawn.dtype is dtype
    found += [drawn.double().sum(0).numpy(), many.sample((400,)).double().sum(0).numpy()]
    one = D.Categorical(flambeau.tensor(weights, dtype=dtype), validate_args=False).sample((2000,)).numpy()
    found.append(np.stack([np.bincount(one, minlength=k)] * 2) * [[1], [0]] + [[0], [1]] * shares * 2000)
    for counts in found:
        assert counts[shares == 0].sum() == 0 and np.allclose(counts.sum(-1), 2000)
        np.testing.assert_allclose(counts / 2000, shares, atol=0.06)


def test_draws_of_what_has_no_weights():
    for make in (D.Categorical, D.OneHotCategorical):
        with pytest.raises(RuntimeError, match="contains either `inf`, `nan` or element < 0"):
            make(flambeau.tensor([0.5, math.nan]), validate_args=False).sample()
        with pytest.raises(RuntimeError, match="no category"):
            make(flambeau.zeros(2, 0), validate_args=False).sample()


def test_gradients_of_weights():
    weights = flambeau.tensor(WEIGHTS, requires_grad=True)
    value = flambeau.tensor([2, 1])

    for make in (lambda w: D.Categorical(w), lambda w: D.Categorical(logits=w)):
        assert flambeau.autograd.gradcheck(lambda w: make(w).log_prob(value), (weights,))  # noqa: B023
        assert flambeau.autograd.gradcheck(lambda w: make(w).entropy(), (weights,))  # noqa: B023


def test_one_hot():
    for law in both_ways(D.OneHotCategorical):
        assert (law.batch_shape, law.event_shape) == ((2,), (3,))
        value = flambeau.eye(3, dtype=flambeau.float64).unsqueeze(1)
        np.testing.assert_allclose(law.log_prob(value).numpy(), np.log(SHARES).T, rtol=1e-12)
        np.testing.assert_allclose(law.mean.numpy(), SHARES, rtol=1e-12)
        np.testing.assert_allclose(law.variance.numpy(), SHARES * (1 - SHARES), rtol=1e-12)
        assert law.mode.tolist() == [[0, 0, 1], [1, 0, 0]]
        drawn = law.sample((5,))
        assert drawn.dtype is flambeau.float64 and (drawn.sum(-1) == 1).all()
        with pytest.raises(ValueError, match="OneHot"):
            law.log_prob(flambeau.full((3,), 1 / 3))


def test_straight_through():
    probs = flambeau.tensor(SHARES, requires_grad=True)
    law = D.OneHotCategoricalStraightThrough(probs)
    drawn = law.rsample()
    assert ((drawn - 1).abs() < 1e-12).logical_or(drawn.abs() < 1e-12).all()
    weights = flambeau.randn(2, 3, dtype=flambeau.float64)
    (drawn * weights).sum().backward()
    other = flambeau.tensor(SHARES, requires_grad=True)
    ((other / other.sum(-1, keepdim=True)) * weights).sum().backward()
    np.testing.assert_allclose(probs.grad.numpy(), other.grad.numpy(), rtol=1e-12)


def test_multinomial():
    for law in both_ways(D.Multinomial, total_count=6):
        drawn = law.sample((200,))
        assert drawn.shape == (200, 2, 3) and (drawn.sum(-1) == 6).all()
        expected = np.stack(
            [stats.multinomial(6, s).logpmf(drawn[:, k].numpy()) for k, s in enumerate(SHARES)], -1
        )
        np.testing.assert_allclose(law.log_prob(drawn).numpy(), expected, rtol=1e-9)
        np.testing.assert_allclose(
            law.entropy().numpy(), [stats.multinomial(6, s).entropy() for s in SHARES], rtol=1e-9
        )
        np.testing.assert_allclose(law.mean.numpy(), 6 * SHARES, rtol=1e-12)
        np.testing.assert_allclose(law.variance.numpy(), 6 * SHARES * (1 - SHARES), rtol=1e-12)
    sure = D.Multinomial(3, flambeau.tensor([1.0, 0.0, 0.0]))
    assert sure.log_prob(flambeau.tensor([3.0, 0.0, 0.0])).item() == pytest.approx(0, abs=1e-5)
    assert sure.entropy().item() == pytest.approx(0, abs=1e-5)
    lost = D.Multinomial(3, logits=flambeau.tensor([0.0, -math.inf], dtype=flambeau.float64))
    assert lost.log_prob(flambeau.tensor([3.0, 0.0])).item() == pytest.approx(0, abs=1e-6)
    assert lost.log_prob(flambeau.tensor([2.0, 1.0])).item() == -math.inf
    with pytest.raises(NotImplementedError, match="inhomogeneous total_count"):
        D.Multinomial(flambeau.tensor([1, 2]), flambeau.ones(2))
    with pytest.raises(ValueError, match=r"support \(Multinomial\(\)\)"):
        law.log_prob(flambeau.tensor([7.0, 0.0, 0.0]))


def test_multinomial_samples():
    flambeau.manual_seed(3)
    law = D.Multinomial(4, flambeau.tensor(SHARES[0]))
    drawn = law.sample((4000,)).numpy()
    for k, share in enumerate(SHARES[0]):
        counts = np.bincount(drawn[:, k].astype(int), minlength=5)
        assert stats.chisquare(counts, stats.binom(4, share).pmf(np.arange(5)) * 4000).pvalue > 1e-4


@pytest.mark.parametrize("events", [0, 1])
def test_mixtures(events):
    loc = np.linspace(-2, 3, 2 * 3 * 2).reshape(2, 3, 2) if events else np.linspace(-2, 3, 6).reshape(2, 3)
    scale = np.abs(loc) / 2 + 0.3
    parts = D.Normal(flambeau.tensor(loc), flambeau.tensor(scale))
    law = D.MixtureSameFamily(
        D.Categorical(flambeau.tensor(WEIGHTS)), D.Independent(parts, events) if events else parts
    )
    value = np.linspace(-3, 4, 5 * 2 * (2 if events else 1)).reshape((5, 2, 2) if events else (5, 2))
    each = stats.norm(loc, scale).logpdf(np.expand_dims(value, 2))
    each = each.sum(-1) if events else each
    expected = special.logsumexp(each + np.log(SHARES), axis=-1)
    np.testing.assert_allclose(law.log_prob(flambeau.tensor(value)).numpy(), expected, rtol=1e-12)
    shares = SHARES[..., None] if events else SHARES
    mean = (shares * loc).sum(1)
    np.testing.assert_allclose(law.mean.numpy(), mean, rtol=1e-12)
    square = (shares * (scale**2 + loc**2)).sum(1)
    np.testing.assert_allclose(law.variance.numpy(), square - mean**2, rtol=1e-9)
    flambeau.manual_seed(4)
    drawn = law.sample((4000,)).numpy()
    assert drawn.shape == (4000, *mean.shape)
    for element in range(2):
        column, (m, s) = (
            (drawn[:, element, 0], (loc[element, :, 0], scale[element, :, 0]))
            if events
            else (drawn[:, element], (loc[element], scale[element]))
        )
        cdf = lambda x: (SHARES[element] * stats.norm(m, s).cdf(x[..., None])).sum(-1)  # noqa: B023
        assert stats.kstest(column, cdf).pvalue > 1e-4
    if not events:
        expected = (SHARES * stats.norm(loc, scale).cdf(value[..., None])).sum(-1)
        np.testing.assert_allclose(law.cdf(flambeau.tensor(value)).numpy(), expected, rtol=1e-10)


def test_mixtures_whose_weights_have_no_batch():
    law = D.MixtureSameFamily(D.Categorical(flambeau.tensor(SHARES[0])), D.Normal(flambeau.zeros(4, 3), 1.0))
    assert law.batch_shape == (4,) and law.sample((2,)).shape == (2, 4) and law.mean.shape == (4,)
    assert law.log_prob(flambeau.zeros(2, 4)).shape == (2, 4)


def test_mixtures_refuse_what_does_not_fit():
    normal = D.Normal(flambeau.zeros(2, 3), 1.0)
    with pytest.raises(ValueError, match="Mixture distribution.*got Normal"):
        D.MixtureSameFamily(normal, normal)
    with pytest.raises(ValueError, match="Component distribution.*got float"):
        D.MixtureSameFamily(D.Categorical(flambeau.ones(3)), 1.0)
    with pytest.raises(ValueError, match=r"component` \(4\) does not equal"):
        D.MixtureSameFamily(D.Categorical(flambeau.ones(4)), normal)
    with pytest.raises(ValueError, match="not compatible"):
        D.MixtureSameFamily(D.Categorical(flambeau.ones(5, 3)), normal)
    with pytest.raises(ValueError, match="needs a batch dimension"):
        D.MixtureSameFamily(D.Categorical(flambeau.ones(3)), D.Normal(0.0, 1.0))


def test_independent():
    loc, scale = flambeau.randn(4, 3, 2), flambeau.rand(4, 3, 2) + 0.1
    base = D.Normal(loc, scale)
    law = D.Independent(base, 2)
    assert (law.batch_shape, law.event_shape, law.has_rsample) == ((4,), (3, 2), True)
    value = flambeau.randn(5, 1, 3, 2)
    np.testing.assert_allclose(
        law.log_prob(value).numpy(), base.log_prob(value).sum((-1, -2)).numpy(), rtol=1e-5
    )
    np.testing.assert_allclose(law.entropy().numpy(), base.entropy().sum((-1, -2)).numpy(), rtol=1e-5)
    assert (
        law.support.event_dim == 2
        and repr(law).startswith("Independent(Normal(")
        and repr(law).endswith(", 2)")
    )
    with pytest.raises(ValueError, match="reinterpreted_batch_ndims <= .* actual 4 vs 3"):
        D.Independent(base, 4)
    coins = D.Independent(D.Bernoulli(flambeau.ones(2) / 2), 1)
    assert (
        not coins.has_enumerate_support
        and D.Independent(D.Bernoulli(flambeau.ones(2) / 2), 0).has_enumerate_support
    )
    with pytest.raises(NotImplementedError, match="cartesian"):
        coins.enumerate_support()


def relaxed_density(x, logits, temperature):
    """Maddison et al. (2017), equation 10."""
    k = len(logits)
    terms = logits - temperature * np.log(x)
    found = special.gammaln(k) + (k - 1) * np.log(temperature) + terms.sum() - k * special.logsumexp(terms)
    return found - np.log(x).sum()


def test_relaxed_categorical():
    temperature = 0.6
    for given in ({"probs": WEIGHTS}, {"logits": np.log(WEIGHTS)}):
        given = {k: flambeau.tensor(v) for k, v in given.items()}
        law = D.RelaxedOneHotCategorical(flambeau.tensor(temperature, dtype=flambeau.float64), **given)
        flambeau.manual_seed(1)
        drawn = law.sample((3000,))
        np.testing.assert_allclose(drawn.sum(-1).numpy(), np.ones((3000, 2)), rtol=1e-12)
        expected = [
            [relaxed_density(x, np.log(SHARES[k]), temperature) for k, x in enumerate(row)]
            for row in drawn[:5].numpy()
        ]
        np.testing.assert_allclose(law.log_prob(drawn[:5]).numpy(), expected, rtol=1e-9)
        # the largest weight is at k with the probability of k
        for element in range(2):
            counts = np.bincount(drawn[:, element].argmax(-1).numpy(), minlength=3)
            assert stats.chisquare(counts, SHARES[element] * 3000).pvalue > 1e-4
        assert law.temperature.item() == temperature and law.probs.shape == law.logits.shape == (2, 3)
    logs = ExpRelaxedCategorical(flambeau.tensor(temperature), **given)
    np.testing.assert_allclose(
        logs.log_prob(drawn[:5].log()).numpy() - drawn[:5].log().sum(-1).numpy(), expected, rtol=1e-6
    )


def test_relaxed_bernoulli_keeps_its_parameters():
    law = D.RelaxedBernoulli(flambeau.tensor(0.5), probs=flambeau.tensor([0.2, 0.7]))
    np.testing.assert_allclose(law.logits.sigmoid().numpy(), [0.2, 0.7], rtol=1e-6)
    flambeau.manual_seed(0)
    above = (law.sample((4000,)) > 0.5).sum(0)
    for count, share in zip(above.tolist(), (0.2, 0.7)):
        assert stats.binomtest(count, 4000, share).pvalue > 1e-4


def test_temperatures_may_be_numbers():
    probs = flambeau.tensor([0.2, 0.8], dtype=flambeau.float64)
    for make in (D.RelaxedBernoulli, D.RelaxedOneHotCategorical):
        found = []
        for temperature in (0.5, flambeau.tensor(0.5, dtype=flambeau.float64)):
            flambeau.manual_seed(0)
            drawn = make(temperature, probs).sample((3,))
            found.append((drawn.numpy(), make(temperature, probs).log_prob(drawn).numpy()))
        np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-12)
        np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-12)


@pytest.mark.parametrize("rows", [1 << 14, 9999])
def test_many_rows_are_as_few(rows):
    """Large batches go through kernels of their own."""
    flambeau.manual_seed(0)
    probs = flambeau.tensor([0.2, 0.3, 0.5], dtype=flambeau.float64)
    law = D.Multinomial(4, probs)
    drawn = law.sample((rows,))
    expected = [law.log_prob(x).item() for x in drawn[:5]]
    np.testing.assert_allclose(law.log_prob(drawn)[:5].numpy(), expected, rtol=1e-12)
    batch = D.Normal(flambeau.tensor([0.0, 1.0, -5.0]), flambeau.tensor([1.0, 0.5, 2.0]))
    for column, loc, scale in zip(batch.sample((rows,)).numpy().T, (0, 1, -5), (1, 0.5, 2)):
        assert stats.kstest(column, stats.norm(loc, scale).cdf).pvalue > 1e-4
    relaxed = D.RelaxedOneHotCategorical(flambeau.tensor(0.4, dtype=flambeau.float64), probs)
    chosen = np.bincount(relaxed.sample((rows,)).argmax(-1).numpy(), minlength=3)
    assert stats.chisquare(chosen, probs.numpy() * rows).pvalue > 1e-4


def test_logistic_normal():
    loc, scale = np.array([0.3, -0.2]), np.array([0.7, 1.1])
    law = D.LogisticNormal(flambeau.tensor(loc), flambeau.tensor(scale))
    drawn = law.sample((200,))
    assert drawn.shape == (200, 3) and law.event_shape == (3,)
    x = drawn.numpy()
    # sticks are broken at sigmoid(y - log(pieces left)), so that y = 0 gives equal weights
    left = np.cumsum(x[:, ::-1], -1)[:, ::-1]
    share = x[:, :2] / left[:, :2]
    y = np.log(share / (1 - share)) + np.log([2, 1])
    jacobian = np.log(share * (1 - share) * left[:, :2]).sum(-1)
    expected = stats.norm(loc, scale).logpdf(y).sum(-1) - jacobian
    np.testing.assert_allclose(law.log_prob(drawn).numpy(), expected, rtol=1e-6)
    assert D.LogisticNormal(0.0, 1.0).event_shape == (2,)
    for element in range(2):
        assert stats.kstest(y[:, element], stats.norm(loc[element], scale[element]).cdf).pvalue > 1e-4
