"""flambeau.func: transforms against derivatives by hand, nested in each other, over containers."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau import func, nn


def vector(*values):
    return flambeau.tensor(values, dtype=flambeau.float64)


X = vector(0.5, 2.0)


def test_grad_and_value():
    g, v = func.grad_and_value(lambda t: t.exp().sum())(X)
    assert g.tolist() == X.exp().tolist() and v.item() == X.exp().sum().item()
    assert not g.requires_grad and not v.requires_grad
    (a, b), aux = func.grad(lambda x, y, z: ((x * y).sum(), z), argnums=(0, 1), has_aux=True)(X, 3 * X, "aux")
    assert a.tolist() == (3 * X).tolist() and b.tolist() == X.tolist() and aux == "aux"
    with pytest.raises(RuntimeError, match="scalar tensor"):
        func.grad(lambda t: t)(X)
    with pytest.raises(RuntimeError, match="argnum=2"):
        func.grad(lambda t: t.sum(), argnums=2)(X)


def test_containers():
    params = {"w": X, "rest": [vector(1.0, 1.0), (vector(2.0, 0.0),)]}

    def f(p, x):
        return (p["w"] * x + p["rest"][0] * p["rest"][1][0]).sum()

    found = func.grad(f)(params, vector(3.0, 4.0))
    assert found["w"].tolist() == [3.0, 4.0] and found["rest"][0].tolist() == [2.0, 0.0]
    assert found["rest"][1][0].tolist() == [1.0, 1.0] and isinstance(found["rest"][1], tuple)


def test_grad_nests_and_sees_what_it_closes_over():
    third = func.grad(func.grad(func.grad(lambda t: t**4)))
    assert third(vector(2.0)[0]).item() == 48.0

    def outer(w):
        return func.grad(lambda x: (w * x * x).sum())(X).sum()

    assert func.grad(outer)(vector(1.0, 1.0)).tolist() == [1.0, 4.0]
    w = vector(1.0, 1.0).requires_grad_()
    outer(w).backward()
    assert w.grad.tolist() == [1.0, 4.0]
    with flambeau.no_grad():
        assert func.grad(lambda t: (t * t).sum())(X).tolist() == [1.0, 4.0]


def test_vjp_and_jvp():
    out, pull = func.vjp(lambda a, b: (a * b, a.sum()), X, 2 * X)
    assert out[0].tolist() == (2 * X * X).tolist() and not out[0].requires_grad
    for _ in range(2):
        a, b = pull((vector(1.0, 10.0), vector(3.0)[0]))
        assert a.tolist() == [1.0 + 3, 40.0 + 3] and b.tolist() == [0.5, 20.0]
    value, tangent = func.jvp(lambda a, b: a * b, (X, X), (vector(1.0, 0.0), vector(0.0, 1.0)))
    assert value.tolist() == (X * X).tolist() and tangent.tolist() == [0.5, 2.0]
    assert func.jvp(lambda a: (a * 2, a), (X,), (X,), has_aux=True)[2].tolist() == X.tolist()
    assert func.jvp(lambda a: vector(1.0), (X,), (X,))[1].tolist() == [0.0]
    with pytest.raises(RuntimeError, match="strict"):
        func.jvp(lambda a: vector(1.0), (X,), (X,), strict=True)
    with pytest.raises(RuntimeError, match="tuple"):
        func.jvp(lambda a: a, X, X)


@pytest.mark.parametrize("transform", [func.jacrev, func.jacfwd])
def test_jacobians(transform):
    def f(x, y):
        return {"a": x * y.sum(), "b": (x**2).sum() * y}

    y = vector(1.0, 2.0, 3.0)
    found = transform(f, argnums=(0, 1))(X, y)
    np.testing.assert_allclose(found["a"][0].numpy(), 6 * np.eye(2))
    np.testing.assert_allclose(found["a"][1].numpy(), np.outer(X.numpy(), np.ones(3)))
    np.testing.assert_allclose(found["b"][0].numpy(), np.outer(y.numpy(), 2 * X.numpy()))
    np.testing.assert_allclose(found["b"][1].numpy(), 4.25 * np.eye(3))


@pytest.mark.parametrize("outer", [func.jacrev, func.jacfwd])
@pytest.mark.parametrize("inner", [func.jacrev, func.jacfwd])
def test_transforms_of_transforms(outer, inner):
    found = outer(inner(lambda t: (t**3).sum() + t[0] * t[1]))(X)
    np.testing.assert_allclose(found.numpy(), [[3.0, 1.0], [1.0, 12.0]], rtol=1e-12)
    if inner is func.jacrev:
        third = func.jacrev(outer(inner(lambda t: (t * t * t * t).sum())))(X)
        np.testing.assert_allclose(third.sum((0, 1)).numpy(), 24 * X.numpy(), rtol=1e-12)
    assert not found.requires_grad


def test_hessian_of_a_row_function():
    p = X.softmax(0).numpy()
    found = func.hessian(lambda t: flambeau.logsumexp(t, 0))(X)
    np.testing.assert_allclose(found.numpy(), np.diag(p) - np.outer(p, p), rtol=1e-12)


def test_functional_call():
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)).double()
    params = {n: p.detach() for n, p in net.named_parameters()}
    x = vector(1.0, -1.0).reshape(1, 2)

    def loss(p):
        return func.functional_call(net, p, (x,)).square().sum()

    found = func.grad(loss)(params)
    net(x).square().sum().backward()
    for name, p in net.named_parameters():
        np.testing.assert_allclose(found[name].numpy(), p.grad.numpy(), rtol=1e-13)
        assert p.requires_grad
    with pytest.raises(RuntimeError, match="Missing"):
        func.functional_call(net, {"0.bias": params["0.bias"]}, x, strict=True)
    with pytest.raises(ValueError, match="multiple"):
        func.functional_call(net, [params, params], x)


def test_tied_weights():
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    net[1].weight = net[0].weight
    eye = flambeau.eye(2)
    assert func.functional_call(net, {"0.weight": 3 * eye}, eye).tolist() == (9 * eye).tolist()
    own = net[0].weight
    func.functional_call(net, {"0.weight": 3 * eye}, eye, tie_weights=False)
    assert net[1].weight is own
