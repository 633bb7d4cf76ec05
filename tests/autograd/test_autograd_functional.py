"""autograd.functional against derivatives written by hand, and against itself."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau.autograd import functional as F


def vector(*values):
    return flambeau.tensor(values, dtype=flambeau.float64)


def two(x, y):
    return x * y.sum(), (x**2).sum() * y


X, Y = vector(1.0, 2.0), vector(3.0, -1.0, 0.5)


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_jacobian(strategy):
    (xx, xy), (yx, yy) = F.jacobian(two, (X, Y), strategy=strategy)
    np.testing.assert_allclose(xx.numpy(), 2.5 * np.eye(2))
    np.testing.assert_allclose(xy.numpy(), np.outer([1, 2], np.ones(3)))
    np.testing.assert_allclose(yx.numpy(), np.outer([3, -1, 0.5], [2, 4]))
    np.testing.assert_allclose(yy.numpy(), 5 * np.eye(3))
    assert F.jacobian(lambda x: x.sum(), X, strategy=strategy).tolist() == [1.0, 1.0]
    assert tuple(F.jacobian(lambda x: x[:0], X, strategy=strategy).shape) == (0, 2)


def test_products():
    v, w = (vector(1.0, -1.0), vector(0.5, 0.0, 2.0)), (vector(2.0, 1.0), vector(1.0, 1.0, -3.0))
    outputs, pulled = F.vjp(two, (X, Y), v)
    _, pushed = F.jvp(two, (X, Y), w)
    assert outputs[0].tolist() == two(X, Y)[0].tolist() and not outputs[0].requires_grad
    left = sum((a * b).sum() for a, b in zip(pulled, w))
    right = sum((a * b).sum() for a, b in zip(v, pushed))
    np.testing.assert_allclose(left.item(), right.item(), rtol=1e-13)
    (xx, xy), _ = F.jacobian(two, (X, Y))
    np.testing.assert_allclose(pushed[0].numpy(), (xx @ w[0] + xy @ w[1]).numpy(), rtol=1e-13)


def test_second_order():
    def f(x):
        return (x**3).sum() + x[0] * x[1]

    expected = [[6.0, 1.0], [1.0, 12.0]]
    for strategy in ("reverse-mode", "forward-mode"):
        assert F.hessian(f, X, outer_jacobian_strategy=strategy).tolist() == expected
    v = vector(1.0, -2.0)
    value, left = F.vhp(f, X, v)
    assert value.item() == 11.0 and left.tolist() == [4.0, -23.0]
    assert F.hvp(f, X, v)[1].tolist() == [4.0, -23.0]
    (aa, ab), (ba, bb) = F.hessian(lambda a, b: (a * b).sum(), (X, X))
    assert aa.tolist() == bb.tolist() == [[0.0] * 2] * 2 and ab.tolist() == ba.tolist() == np.eye(2).tolist()


def test_create_graph():
    x = vector(1.0, 2.0).requires_grad_()
    jac = F.jacobian(lambda t: t**3, x, create_graph=True)
    assert flambeau.autograd.grad(jac.sum(), x)[0].tolist() == [6.0, 12.0]
    product = F.jvp(lambda t: t**3, x, vector(1.0, 1.0), create_graph=True)[1]
    assert flambeau.autograd.grad(product.sum(), x)[0].tolist() == [6.0, 12.0]
    hess = F.hessian(lambda t: (t**4).sum(), x, create_graph=True)
    assert flambeau.autograd.grad(hess.sum(), x)[0].tolist() == [24.0, 48.0]


def test_strict_and_errors():
    assert F.jacobian(lambda a, b: a * 2, (X, Y))[1].tolist() == np.zeros((2, 3)).tolist()
    for call in (
        lambda: F.jacobian(lambda a, b: a * 2, (X, Y), strict=True),
        lambda: F.vjp(lambda a, b: a.sum(), (X, Y), strict=True),
        lambda: F.jvp(lambda a, b: a.sum(), (X, Y), (X, Y), strict=True),
    ):
        with pytest.raises(RuntimeError, match="independent of input 1"):
            call()
    with pytest.raises(RuntimeError, match="single element"):
        F.hessian(lambda t: t, X)
    with pytest.raises(RuntimeError, match="invalid size"):
        F.vjp(lambda t: t, X, Y)
    with pytest.raises(RuntimeError, match="can only be None"):
        F.jvp(lambda t: t, X)
    with pytest.raises(TypeError, match="position 1"):
        F.jacobian(two, (X, 3))
