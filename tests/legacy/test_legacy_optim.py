"""Lua Torch's optimisers beside their rules in NumPy, and on functions with known minima."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.legacy import optim

CURVATURE = np.array([1.0, 3.0, 0.5])


def bowl(x):
    """A quadratic function, in whatever x is."""
    c = torch.tensor(CURVATURE) if isinstance(x, torch.Tensor) else CURVATURE
    value = (c * x * x).sum() / 2
    return float(value), c * x


def rosenbrock(x):
    a, b = x[:-1], x[1:]
    gradient = torch.zeros_like(x)
    gradient[:-1] = -400 * a * (b - a * a) - 2 * (1 - a)
    gradient[1:] += 200 * (b - a * a)
    return float((100 * (b - a * a) ** 2 + (1 - a) ** 2).sum()), gradient


# The rules, each a generator over positions: it gets a position's gradient and gives the next position.


def sgd(x, lr=0.1, mom=0.0, damp=None, wd=0.0, lrd=0.0, nesterov=False, lrs=1.0, wds=0.0):
    damp = mom if damp is None else damp
    v = None
    for t in range(1000):
        g = (yield x) + wd * x + wds * x
        if mom:
            v = g if v is None else mom * v + (1 - damp) * g
            g = g + mom * v if nesterov else v
        x = x - lr / (1 + t * lrd) * lrs * g


def adam(x, lr=0.1, b1=0.9, b2=0.999, eps=1e-8):
    m = v = 0
    for t in range(1, 1000):
        g = yield x
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        x = x - lr * np.sqrt(1 - b2**t) / (1 - b1**t) * m / (np.sqrt(v) + eps)


def adamax(x, lr=0.1, b1=0.9, b2=0.999, eps=1e-38):
    m = u = 0
    for t in range(1, 1000):
        g = yield x
        m, u = b1 * m + (1 - b1) * g, np.maximum(b2 * u, abs(g) + eps)
        x = x - lr / (1 - b1**t) * m / u


def adadelta(x, rho=0.9, eps=1e-3):
    v = d = 0
    for _ in range(1000):
        g = yield x
        v = rho * v + (1 - rho) * g * g
        step = np.sqrt(d + eps) / np.sqrt(v + eps) * g
        d = rho * d + (1 - rho) * step * step
        x = x - step


def adagrad(x, lr=0.1, lrd=0.0):
    v = 0
    for t in range(1000):
        g = yield x
        v = v + g * g
        x = x - lr / (1 + t * lrd) * g / (np.sqrt(v) + 1e-10)


def rmsprop(x, lr=0.1, alpha=0.9, eps=1e-8):
    v = 1
    for _ in range(1000):
        g = yield x
        v = alpha * v + (1 - alpha) * g * g
        x = x - lr * g / (np.sqrt(v) + eps)


def asgd(x, eta0=0.1, weight=0.01, alpha=0.75):
    eta = eta0
    for t in range(1, 1000):
        g = yield x
        x = (1 - weight * eta) * x - eta * g
        eta = eta0 / (1 + weight * eta0 * t) ** alpha


def rprop(x, first=0.1, plus=1.2, minus=0.5):
    before, size = np.zeros(3), np.full(3, first)
    for _ in range(1000):
        g = yield x
        turn = g * before
        size = np.clip(size * np.where(turn > 0, plus, np.where(turn < 0, minus, 1)), 1e-6, 50)
        g = np.where(turn < 0, 0, g)
        x = x - np.sign(g) * size
        before = g


def nag(x, lr=0.1, mom=0.9):
    """Over the places where gradients are taken."""
    v, first = np.zeros(3), True
    for _ in range(1000):
        look = x if first else x + mom * v
        g = yield look
        v = mom * v - lr * g
        x, first = look - lr * g, False


RULES = [
    (optim.sgd, {"learningRate": 0.1}, sgd, {}),
    (optim.sgd, {"learningRate": 0.1, "momentum": 0.8}, sgd, {"mom": 0.8}),
    (optim.sgd, {"learningRate": 0.1, "momentum": 0.8, "dampening": 0.3}, sgd, {"mom": 0.8, "damp": 0.3}),
    (
        optim.sgd,
        {"learningRate": 0.1, "momentum": 0.8, "dampening": 0, "nesterov": True, "weightDecay": 0.2},
        sgd,
        {"mom": 0.8, "damp": 0, "nesterov": True, "wd": 0.2},
    ),
    (optim.sgd, {"learningRate": 0.1, "learningRateDecay": 0.5}, sgd, {"lrd": 0.5}),
    (
        optim.sgd,
        {
            "learningRate": 0.1,
            "learningRates": torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64),
            "weightDecays": torch.tensor([0.1, 0.0, 0.2], dtype=torch.float64),
        },
        sgd,
        {"lrs": np.array([1.0, 0.5, 2.0]), "wds": np.array([0.1, 0.0, 0.2])},
    ),
    (optim.adam, {"learningRate": 0.1}, adam, {}),
    (
        optim.adam,
        {"learningRate": 0.2, "beta1": 0.5, "beta2": 0.9, "epsilon": 0.1},
        adam,
        {"lr": 0.2, "b1": 0.5, "b2": 0.9, "eps": 0.1},
    ),
    (optim.adamax, {"learningRate": 0.1}, adamax, {}),
    (optim.adadelta, {"eps": 1e-3}, adadelta, {}),
    (optim.adagrad, {"learningRate": 0.1, "learningRateDecay": 0.1}, adagrad, {"lrd": 0.1}),
    (optim.rmsprop, {"learningRate": 0.1, "alpha": 0.9}, rmsprop, {}),
    (optim.asgd, {"eta0": 0.1, "lambda": 0.01}, asgd, {}),
    (optim.rprop, {}, rprop, {}),
]


@pytest.mark.parametrize("apart", [False, True], ids=["in config", "in state"])
@pytest.mark.parametrize(("function", "config", "rule", "settings"), RULES)
def test_steps_are_those_of_the_rule(function, config, rule, settings, apart):
    start = np.array([1.0, -2.0, 3.0])
    x, config, state = torch.tensor(start), dict(config), {} if apart else None
    before = set(config)
    walk = rule(start, **settings)
    expected = next(walk)
    for _ in range(20):
        value = bowl(expected)
        made, actual, *_ = function(bowl, x, config, state)
        actual = actual[0] if isinstance(actual, list) else actual
        assert made is x and actual == pytest.approx(value[0], rel=1e-9)
        expected = walk.send(value[1])
        np.testing.assert_allclose(x.numpy(), expected, rtol=1e-9)
    assert (set(config) == before) is apart


def test_nesterov_looks_ahead():
    start = np.array([1.0, -2.0, 3.0])
    places = []

    def watched(x):
        places.append(x.numpy().copy())
        return bowl(x)

    x, config, walk = torch.tensor(start), {"learningRate": 0.1}, nag(start)
    expected = next(walk)
    for _ in range(20):
        optim.nag(watched, x, config)
        np.testing.assert_allclose(places[-1], expected, rtol=1e-9)
        expected = walk.send(bowl(expected)[1])


def test_means_of_averaged_descent():
    x, config, seen = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64), {"eta0": 0.1, "t0": 5}, []
    for _ in range(12):
        _, _, mean = optim.asgd(bowl, x, config)
        seen.append(x.numpy().copy())
    np.testing.assert_allclose(mean.numpy(), np.mean(seen[6:], 0), rtol=1e-9)


def test_the_gradient_of_the_function_stays_its_own():
    """What the function returns may be its own vector, as that of `flattenParameters`."""
    own = torch.tensor([1.0, 1.0])
    for function in (
        optim.sgd,
        optim.adam,
        optim.adamax,
        optim.adadelta,
        optim.adagrad,
        optim.rmsprop,
        optim.nag,
        optim.rprop,
    ):
        function(lambda x: (0.0, own), torch.ones(2), {"weightDecay": 0.5, "momentum": 0.9})
        assert own.tolist() == [1.0, 1.0], function
    for function in (optim.cg, optim.lbfgs):
        x = torch.tensor([2.0, 1.0])

        def same(x):
            return float((x * x).sum()), own.copy_(2 * x)

        result, values, count = function(same, x, {})
        assert result is x and values[-1] < 1e-6 and count >= len(values)


@pytest.mark.parametrize("function", [optim.cg, optim.lbfgs])
def test_a_curved_valley(function):
    config = {"maxIter": 400, "maxEval": 1000, "learningRate": 0.5}
    x, values, count = function(rosenbrock, torch.zeros(3, dtype=torch.float64), config)
    assert values[0] == 2 and values[-1] < 1e-9
    np.testing.assert_allclose(x.numpy(), 1, rtol=1e-3)
    assert count <= 1000


def test_conjugate_gradients_on_a_quadratic_function():
    x, values, count = optim.cg(bowl, torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64), {"maxIter": 30})
    assert values == sorted(values, reverse=True) and values[-1] < 1e-12
    few = optim.cg(bowl, torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64), {"maxEval": 3})
    assert few[2] <= 4
    still = optim.cg(bowl, torch.zeros(3, dtype=torch.float64), {})
    assert still[1] == [0.0] and still[0].tolist() == [0, 0, 0]


def test_l_bfgs_goes_on_where_it_was(capsys):
    x, state = torch.zeros(3, dtype=torch.float64), {}
    for _ in range(60):
        _, values, _ = optim.lbfgs(
            rosenbrock, x, {"maxIter": 5, "learningRate": 0.5, "nCorrection": 5}, state
        )
    assert values[-1] < 1e-9 and len(state["pairs"]) <= 5 and state["nIter"] <= 300
    optim.lbfgs(rosenbrock, torch.ones(3, dtype=torch.float64), {"verbose": True})
    assert "optimality" in capsys.readouterr().out


def test_l_bfgs_with_a_line_search():
    def halving(opfunc, x, t, d, f, g, slope, options):
        count, (value, gradient) = 1, opfunc(x + t * d)
        while value > f + options["enough"] * t * slope and count < 30:
            t /= 2
            count, (value, gradient) = count + 1, opfunc(x + t * d)
        return value, gradient, x + t * d, t, count

    config = {"lineSearch": halving, "lineSearchOptions": {"enough": 1e-4}, "maxIter": 200, "maxEval": 2000}
    x, values, _ = optim.lbfgs(rosenbrock, torch.zeros(2, dtype=torch.float64), config)
    assert values == sorted(values, reverse=True)
    np.testing.assert_allclose(x.numpy(), 1, rtol=1e-4)


def test_rprop_takes_several_steps():
    x, values = optim.rprop(bowl, torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64), {"niter": 60})
    assert len(values) == 60 and values[-1] < 1e-3


@pytest.mark.parametrize("name", optim.__all__)
def test_settings_are_needed(name):
    with pytest.raises(ValueError, match=f"{name} requires a dictionary"):
        getattr(optim, name)(bowl, torch.ones(3), None)


def test_settings_that_exclude_each_other():
    with pytest.raises(ValueError, match="Nesterov"):
        optim.sgd(bowl, torch.ones(3), {"nesterov": True})
    with pytest.raises(ValueError, match="Only one"):
        optim.sgd(bowl, torch.ones(3), {"weightDecay": 1, "weightDecays": torch.ones(3)})
    with pytest.raises(ValueError, match="Momentum"):
        optim.nag(bowl, torch.ones(3), {"momentum": 0})
