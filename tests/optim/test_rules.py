"""Rules of every kind that there is to declare, each in a few lines, against their formulas in NumPy."""

import math

import numpy as np
import pytest

import flambeau
from flambeau.optim import ASGD, Adadelta, Adamax, NAdam, RAdam, Rprop
from flambeau.optim._declared import Declared, like, scalar
from flambeau.optim._functions import sqrt


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def parameter(values):
    return flambeau.nn.Parameter(flambeau.tensor(values, dtype=flambeau.float64))


def adadelta(p, grads, lr=1.0, rho=0.9, eps=1e-6):
    v = d = np.zeros_like(p)
    for g in grads:
        v = rho * v + (1 - rho) * g**2
        delta = np.sqrt(d + eps) / np.sqrt(v + eps) * g
        d = rho * d + (1 - rho) * delta**2
        p = p - lr * delta
    return p


def adamax(p, grads, lr=2e-3, betas=(0.9, 0.999), eps=1e-8):
    m = u = np.zeros_like(p)
    for t, g in enumerate(grads, 1):
        m, u = betas[0] * m + (1 - betas[0]) * g, np.maximum(betas[1] * u, np.abs(g) + eps)
        p = p - lr / (1 - betas[0] ** t) * m / u
    return p


def nadam(p, grads, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, decay=4e-3):
    m = v = np.zeros_like(p)
    product = 1.0
    for t, g in enumerate(grads, 1):
        mu, after = (betas[0] * (1 - 0.5 * 0.96 ** (s * decay)) for s in (t, t + 1))
        product *= mu
        m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g**2
        ahead = after * m / (1 - product * after) + (1 - mu) * g / (1 - product)
        p = p - lr * ahead / (np.sqrt(v / (1 - betas[1] ** t)) + eps)
    return p


def radam(p, grads, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
    m = v = np.zeros_like(p)
    longest = 2 / (1 - betas[1]) - 1
    for t, g in enumerate(grads, 1):
        m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g**2
        mean = m / (1 - betas[0] ** t)
        length = longest - 2 * t * betas[1] ** t / (1 - betas[1] ** t)
        if length > 5:
            r = math.sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length))
            mean = mean * r * math.sqrt(1 - betas[1] ** t) / (np.sqrt(v) + eps)
        p = p - lr * mean
    return p


def rprop(p, grads, lr=1e-2, etas=(0.5, 1.2), sizes=(1e-6, 50)):
    before, size = np.zeros_like(p), np.full_like(p, lr)
    for g in grads:
        turn = np.sign(g * before)
        size = np.clip(size * np.where(turn > 0, etas[1], np.where(turn < 0, etas[0], 1)), *sizes)
        before = np.where(turn < 0, 0, g)
        p = p - np.sign(before) * size
    return p


def asgd(p, grads, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6):
    eta = lr
    for t, g in enumerate(grads, 1):
        p = p * (1 - lambd * eta) - eta * g
        eta = lr / (1 + lambd * lr * t) ** alpha
    return p


RULES = [(Adadelta, adadelta), (Adamax, adamax), (NAdam, nadam), (RAdam, radam), (Rprop, rprop), (ASGD, asgd)]


@pytest.mark.parametrize("cls, formula", RULES, ids=lambda x: x.__name__)
def test_rules(cls, formula):
    start, grads = numbers(6), numbers(12, 6, seed=1)
    p, z, taped = parameter(start), flambeau.tensor(start.reshape(3, 2)), flambeau.tensor(start)
    z = flambeau.nn.Parameter(flambeau.view_as_complex(z))
    optimizer, other, third = cls([p]), cls([z]), cls([taped], differentiable=True)
    for g in grads:
        p.grad, taped.grad = flambeau.tensor(g), flambeau.tensor(g)
        z.grad = flambeau.view_as_complex(flambeau.tensor(g.reshape(3, 2)))
        for each in (optimizer, other, third):
            each.step()
    expected = formula(start, grads)
    assert np.allclose(p.tolist(), expected, rtol=1e-6)  # mu_product is kept in float32
    assert flambeau.view_as_real(z.detach()).reshape(-1).tolist() == p.tolist()
    assert np.allclose(taped.tolist(), expected, rtol=1e-3)
    assert optimizer.state[p]["step"].item() == 12


def test_scalars_of_a_state_are_each_parameters_own():
    params = [parameter([1.0, -1.0]) for _ in range(3)]
    optimizer = NAdam(params)
    for t in range(4):
        for k, p in enumerate(params):
            p.grad = flambeau.ones(2, dtype=p.dtype) if t % (k + 1) == 0 else None
        optimizer.step()
    for k, p in enumerate(params):
        steps = len([t for t in range(4) if t % (k + 1) == 0])
        assert np.allclose(p.tolist(), nadam(np.array([1.0, -1.0]), np.ones((steps, 2))), rtol=1e-6)
        assert optimizer.state[p]["step"].item() == steps


class Factored(Declared):
    """Divides by the roots of the means of squares of rows and of columns, as Adafactor does."""

    options = dict(lr=0.1, weight_decay=0)
    flags = "*, foreach, maximize"
    decoupled = True
    elementwise = False
    entries = dict(
        step=scalar(),
        row=like(start=lambda p: p.new_zeros((*p.shape[:-1], 1)) if p.dim() > 1 else None),
        variance=like(start=lambda p: None if p.dim() > 1 else flambeau.zeros_like(p)),
    )

    @staticmethod
    def rule(p, g, row, variance, *, step, lr):
        assert isinstance(step, float)
        if row is None:
            variance = variance + g * g
            return p - lr * g / sqrt(variance), None, variance
        row = row + (g * g).mean(-1, keepdim=True)
        return p - lr * g / sqrt(row), row, None


def test_rules_of_whole_tensors():
    matrix, vector = parameter(numbers(2, 3)), parameter(numbers(3))
    starts = [np.array(p.tolist()) for p in (matrix, vector)]
    optimizer = Factored([matrix, vector], weight_decay=0.5)
    grads = [numbers(2, 3, seed=1), numbers(3, seed=2)]
    for p, g in zip((matrix, vector), grads):
        p.grad = flambeau.tensor(g)
    optimizer.step()
    assert optimizer.state[matrix]["row"].shape == (2, 1) and "variance" not in optimizer.state[matrix]
    scales = [np.sqrt((grads[0] ** 2).mean(-1, keepdims=True)), np.abs(grads[1])]
    for p, start, g, scale in zip((matrix, vector), starts, grads, scales):
        assert np.allclose(p.tolist(), start * 0.95 - 0.1 * g / scale) and p.is_leaf and p.requires_grad


def test_a_rule_that_returns_too_little():
    class Short(Declared):
        options = dict(lr=0.1)
        flags = ""
        entries = dict(average=like())

        @staticmethod
        def rule(p, g, average, *, lr):
            return p - lr * g

    p = parameter([1.0])
    p.grad = flambeau.ones(1, dtype=flambeau.float64)
    with pytest.raises(TypeError, match="Short.rule.*average"):
        Short([p]).step()
